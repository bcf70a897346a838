use std::time::Duration;

use muretai_protocol::json;
use muretai_store::messages::{Direction, MessageRow, Query};

use super::*;
use crate::{
    Fault,
    testing::{Act, Fake, Owned, Seen, agent, refusal, result},
};

fn request(target: &str) -> SendRequest {
    SendRequest {
        target: target.to_owned(),
        text: "hello".to_owned(),
        context_id: None,
        reply_to: None,
        timeout: Duration::from_secs(20),
        retries: 2,
        unverified: true,
        allow_private: false,
        via: None,
    }
}

async fn stored(owned: &Owned) -> Vec<MessageRow> {
    owned.agent.store().messages(&Query { with_sent: true, with_auto: true, ..Query::default() }).await.unwrap()
}

fn card(members: &[(&str, Value)]) -> Value {
    let mut card = json!({
        "name": "west", "description": "a test", "version": "1", "capabilities": {}, "skills": [],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]
    });
    let Value::Object(all) = &mut card else { unreachable!() };
    all.extend(members.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    card
}

fn v0_2(base: &str) -> Value {
    card(&[("url", format!("{base}/a2a/").into()), ("protocolVersion", "0.2.5".into())])
}

fn v1_0(base: &str) -> Value {
    let url = format!("{base}/tenant/rpc");
    card(&[("supportedInterfaces", json!([{ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }]))])
}

async fn fake(card: fn(&str) -> Value, answer: fn(&Seen) -> Act) -> (Owned, Fake) {
    let fake = Fake::start(move |base, seen, _| match seen.method.as_str() {
        "GET" if seen.path == "/.well-known/agent-card.json" => Act::json(&card(base)),
        "GET" => Act::status(404),
        _ => answer(seen),
    })
    .await;
    (agent("north").await, fake)
}

fn message_0_3(_: &Seen) -> Act {
    result(&json!({"kind": "message", "role": "agent", "messageId": "r1", "contextId": "c1",
        "parts": [{"kind": "text", "text": "hi"}]}))
}

#[tokio::test]
async fn a_foreign_agent_is_refused_with_a_hint_unless_the_owner_says_so() {
    let (north, west) = fake(v0_2, message_0_3).await;
    let error = north.agent.send(&SendRequest { unverified: false, ..request(&west.url) }).await.unwrap_err();
    assert!(matches!(error, SendError::Foreign { .. }));
    assert!(error.hint().unwrap().contains("--unverified"));
    assert!(west.posts().is_empty() && stored(&north).await.is_empty());
}

#[tokio::test]
async fn an_old_agent_is_spoken_to_where_its_card_says_and_marked_unverified() {
    let (north, west) = fake(v0_2, message_0_3).await;
    let sent = north.agent.send(&request(&west.url)).await.unwrap();
    let reply = sent.reply.unwrap();
    assert_eq!((reply.text.as_str(), reply.is_verified, reply.from), ("hi", false, None));
    assert_eq!(sent.context_id.as_deref(), Some("c1"));
    let posts = west.posts();
    assert_eq!((posts.len(), posts[0].path.as_str()), (1, "/a2a/"));
    assert_eq!(posts[0].rpc().member("method").and_then(Value::as_str), Some("message/send"));
    assert!(posts[0].message().member("metadata").is_none(), "nothing is signed for a stranger");
    let rows = stored(&north).await;
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.peer.starts_with(&west.url)));
    let reply = rows.iter().find(|row| row.direction == Direction::In).unwrap();
    assert!(!reply.is_verified);
}

#[tokio::test]
async fn a_new_agent_is_spoken_to_in_its_version() {
    let (north, west) = fake(v1_0, |_| {
        result(&json!({"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "a", "parts": [{"text": "done"}]}]}}))
    })
    .await;
    let sent = north.agent.send(&request(&west.url)).await.unwrap();
    assert_eq!(sent.reply.unwrap().text, "done");
    let post = &west.posts()[0];
    assert_eq!(post.path, "/tenant/rpc");
    assert_eq!(post.rpc().member("method").and_then(Value::as_str), Some("SendMessage"));
    assert!(post.head.to_ascii_lowercase().contains("a2a-version: 1.0"));
    assert_eq!(post.message().member("role").and_then(Value::as_str), Some("ROLE_USER"));
}

#[tokio::test]
async fn a_card_that_lies_about_its_version_is_asked_once_more() {
    let (north, west) = fake(v1_0, |seen| match seen.rpc().member("method").and_then(Value::as_str) {
        Some("message/send") => message_0_3(seen),
        _ => refusal(-32601, "Method not found", "null"),
    })
    .await;
    let sent = north.agent.send(&request(&west.url)).await.unwrap();
    assert_eq!((sent.reply.unwrap().text.as_str(), sent.attempts), ("hi", 2));
    let (north, west) = fake(v0_2, |_| refusal(-32601, "Method not found", "null")).await;
    let error = north.agent.send(&request(&west.url)).await.unwrap_err();
    assert_eq!((error.fault(), west.posts().len()), (Fault::PeerRefused, 2));
}

#[tokio::test]
async fn a_lost_answer_is_not_asked_for_again() {
    let (north, west) = fake(v0_2, |_| Act::Drop).await;
    let error = north.agent.send(&request(&west.url)).await.unwrap_err();
    assert!(!error.is_kept(), "nobody sends it again by itself");
    let SendError::NotKept(error) = error else { panic!("{error:?}") };
    assert!(matches!(*error, SendError::Transport { attempts: 1, .. }), "{error:?}");
    assert_eq!(west.posts().len(), 1);
    assert_eq!(stored(&north).await[0].status, Some(OutStatus::Queued));
}

#[tokio::test]
async fn an_inner_address_in_a_strangers_card_is_not_dialled() {
    let (north, west) = fake(|_| card(&[("url", "http://127.0.0.1:1/".into())]), message_0_3).await;
    let error = north.agent.send(&request(&west.url)).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Failed, "{error:?}");
    assert!(error.hint().unwrap().contains("--allow-private"));
}

#[tokio::test]
async fn answers_without_text_and_cards_without_an_interface_are_named() {
    let (north, west) = fake(v0_2, |_| result(&json!({"kind": "message", "role": "agent", "parts": []}))).await;
    let error = north.agent.send(&request(&west.url)).await.unwrap_err();
    assert!(matches!(error, SendError::ForeignNoText { .. }), "{error:?}");
    let grpc = |_: &str| {
        let interface = json!([{"url": "grpc://h", "protocolBinding": "GRPC", "protocolVersion": "1.0"}]);
        card(&[("supportedInterfaces", interface)])
    };
    let (north, west) = fake(grpc, message_0_3).await;
    let error = north.agent.send(&request(&west.url)).await.unwrap_err();
    assert!(matches!(error, SendError::ForeignNoInterface { .. }), "{error:?}");
}
