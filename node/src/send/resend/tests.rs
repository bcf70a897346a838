use muretai_protocol::json::Value;
use muretai_store::messages::Query;

use super::*;
use crate::{
    Fault,
    testing::{Act, Fake, Owned, agent, befriend, documents, key, refusal, reply_to, result},
};

fn message(target: &str) -> SendRequest {
    SendRequest {
        target: target.to_owned(),
        text: "hello".to_owned(),
        context_id: Some("talk".to_owned()),
        reply_to: Some("earlier".to_owned()),
        timeout: Duration::from_secs(20),
        retries: 0,
        unverified: false,
        allow_private: false,
        via: None,
    }
}

fn again(message_id: &str) -> ResendRequest {
    ResendRequest {
        message_id: message_id.to_owned(),
        timeout: Duration::from_secs(20),
        retries: 0,
        allow_private: false,
    }
}

async fn rows(owned: &Owned) -> usize {
    let all = Query { with_sent: true, with_auto: true, ..Query::default() };
    owned.agent.store().messages(&all).await.unwrap().len()
}

#[tokio::test]
async fn a_message_that_was_kept_is_sent_again_as_itself() {
    for first in [-32004, -32603] {
        let north = agent("north").await;
        let south = Fake::start(move |_, seen, number| match number {
            0 => refusal(first, "not now", "null"),
            _ => result(&reply_to(seen, "HELLO").sign(&key(2))),
        })
        .await;
        befriend(&north.agent, key(2).did(), Some(&south.url)).await;
        let error = north.agent.send(&message("south")).await.unwrap_err();
        let id = error.message_id().unwrap().to_owned();
        assert!(error.hint().unwrap().contains(&format!("`muretai send --resend {id}`")), "{:?}", error.hint());
        let sent = north.agent.resend(&again(&id)).await.unwrap();
        assert_eq!((sent.message_id.as_str(), sent.reply.unwrap().text.as_str()), (id.as_str(), "HELLO"));
        let posts = south.posts();
        let content = |n: usize| {
            let mut message = posts[n].message();
            if let Value::Object(members) = &mut message
                && let Some(Value::Object(metadata)) = members.get_mut("metadata")
            {
                metadata.remove("sig");
                metadata.remove("timestamp");
            }
            message
        };
        assert_eq!(content(0), content(1));
        assert_eq!(rows(&north).await, 2);
        let error = north.agent.resend(&again(&id)).await.unwrap_err();
        assert!(matches!(error, SendError::NotResendable { why: "it was delivered", .. }), "{error:?}");
        assert_eq!((error.fault(), south.posts().len()), (Fault::Failed, 2));
    }
}

#[tokio::test]
async fn a_peer_that_is_no_contact_is_found_again() {
    let north = agent("north").await;
    let south = Fake::start(|base, seen, number| match seen.method.as_str() {
        "GET" => documents(&key(2), base, seen),
        _ if number < 3 => Act::Drop,
        _ => result(&reply_to(seen, "HELLO").sign(&key(2))),
    })
    .await;
    let error = north.agent.send(&message(&south.url)).await.unwrap_err();
    let id = error.message_id().unwrap().to_owned();
    assert_eq!(north.agent.store().target_of(&id).await.unwrap().as_deref(), Some(south.url.as_str()));
    assert_eq!(north.agent.resend(&again(&id)).await.unwrap().reply.unwrap().text, "HELLO");
    assert_eq!(north.agent.store().target_of(&id).await.unwrap(), None, "nothing of it is kept");
}

#[tokio::test]
async fn another_agent_at_the_old_place_gets_nothing() {
    let north = agent("north").await;
    let south = Fake::start(|base, seen, number| match (seen.method.as_str(), number) {
        ("GET", 0..=2) => documents(&key(2), base, seen),
        ("GET", _) => documents(&key(3), base, seen),
        _ => Act::Drop,
    })
    .await;
    let error = north.agent.send(&message(&south.url)).await.unwrap_err();
    let error = north.agent.resend(&again(error.message_id().unwrap())).await.unwrap_err();
    assert!(matches!(error, SendError::Card(CardFetchError::OtherDid { .. })), "{error:?}");
    assert_eq!(south.posts().len(), 1);
}

#[tokio::test]
async fn what_was_refused_or_never_sent_is_not_sent_again() {
    let north = agent("north").await;
    let south = Fake::start(|_, _, _| refusal(-32010, "Introduction required", "null")).await;
    befriend(&north.agent, key(2).did(), Some(&south.url)).await;
    let error = north.agent.send(&message("south")).await.unwrap_err();
    let error = north.agent.resend(&again(error.message_id().unwrap())).await.unwrap_err();
    assert!(matches!(error, SendError::NotResendable { why: "the peer refused it", .. }), "{error:?}");
    let error = north.agent.resend(&again("unknown")).await.unwrap_err();
    assert!(matches!(error, SendError::NoSuchMessage(_)), "{error:?}");
    assert_eq!(south.posts().len(), 1);
}
