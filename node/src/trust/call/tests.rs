use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use muretai_protocol::json;

use super::*;
use crate::{
    Fault,
    send::SendError,
    testing::{Act, Fake, Owned, Seen, agent, key, refusal, result},
};

const TIMEOUT: Duration = Duration::from_secs(10);

async fn peer(act: impl Fn(&Seen, usize) -> Act + Send + Sync + 'static) -> (Owned, Fake, ResolvedPeer) {
    let fake = Fake::start(move |_, seen, number| act(seen, number)).await;
    let did = key(2).did().clone();
    let (url, policy) = (fake.url.clone(), Policy::Owner);
    let peer = ResolvedPeer { did, name: None, is_blocked: false, url, policy, mailbox: None, is_stored: false };
    (agent("north").await, fake, peer)
}

fn call(text: &str) -> Call<'_> {
    Call {
        method: "trust/status",
        text,
        params: Object::new(),
        timeout: TIMEOUT,
        message_id: None,
        is_answered_later: false,
    }
}

#[tokio::test]
async fn a_call_is_signed_and_its_result_is_given() {
    let (north, fake, peer) = peer(|_, _| result(&json!({"relation": "none"}))).await;
    let params = Object::from([("subject".to_owned(), json!("x"))]);
    let got = north.agent.call(&peer, Call { params, ..call("trust/status") }).await.unwrap();
    assert_eq!(got, json!({"relation": "none"}));
    let seen = &fake.posts()[0];
    let rpc = seen.rpc();
    assert_eq!(rpc.member("method").unwrap().as_str(), Some("trust/status"));
    assert_eq!(rpc.member("params").unwrap().member("subject"), Some(&json!("x")));
    let message = muretai_protocol::message::Message::from_value(seen.message()).unwrap();
    let verified = message.into_envelope().unwrap().verify(now()).unwrap();
    assert_eq!((verified.from(), verified.to()), (north.agent.did(), peer.did.as_str()));
    assert_eq!(verified.message().text, "trust/status");
}

#[tokio::test]
async fn a_broken_connection_is_tried_again_under_the_same_id() {
    let (north, fake, peer) = peer(|_, number| if number == 0 { Act::Drop } else { result(&json!({})) }).await;
    north.agent.call(&peer, call("trust/status")).await.unwrap();
    let posts = fake.posts();
    assert_eq!(posts.len(), 2);
    assert_eq!(posts[0].message_id(), posts[1].message_id());
}

#[tokio::test]
async fn a_repeat_that_is_a_duplicate_says_that_the_first_arrived() {
    let (north, _fake, peer) = peer(|_, number| match number {
        0 => Act::Drop,
        _ => refusal(-32002, "Replay or stale message", r#"{"duplicate":true}"#),
    })
    .await;
    let error = north.agent.call(&peer, call("trust/status")).await.unwrap_err();
    assert!(error.is_answer_lost(), "{error:?}");
}

#[tokio::test]
async fn our_own_copy_that_is_still_in_hand_is_waited_for() {
    let (north, fake, peer) = peer(|_, number| match number {
        0 => Act::Drop,
        1 => refusal(-32002, "Replay or stale message", "null"),
        _ => result(&json!({})),
    })
    .await;
    north.agent.call(&peer, call("trust/status")).await.unwrap();
    assert_eq!(fake.posts().len(), 3);
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_not_argued_with() {
    let (north, fake, peer) = peer(|_, _| refusal(-32002, "Replay or stale message", "null")).await;
    let error = north.agent.call(&peer, call("trust/status")).await.unwrap_err();
    assert!(error.is_refusal(Code::ReplayOrStale) && error.hint().unwrap().contains("clock"), "{error:?}");
    assert_eq!(fake.posts().len(), 1);
}

#[tokio::test]
async fn a_refusal_has_the_peers_code_and_words_in_one_line() {
    let (north, fake, peer) = peer(|_, _| refusal(-32012, "No\u{202e}", r#""be\u0007ll""#)).await;
    let error = north.agent.call(&peer, call("trust/status")).await.unwrap_err();
    match &error {
        TrustError::Send(SendError::Refused { code: -32012, message, detail, .. }) => {
            assert_eq!((message.as_str(), detail.as_deref()), ("No\\u{202e}", Some("be\\u{7}ll")));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((error.fault(), fake.posts().len()), (Fault::PeerRefused, 1));
}

#[tokio::test]
async fn a_method_that_is_not_there_names_the_peers_build() {
    for (data, build) in [
        (r#"{"version":"0.9\u001b","protocolVersion":"0.2"}"#, Some("version 0.9\\u{1b}, protocol 0.2")),
        (r#"{"version":[1]}"#, None),
        (r#""old""#, None),
        ("null", None),
    ] {
        let (north, _fake, peer) = peer(move |_, _| refusal(-32601, "Method not found", data)).await;
        match north.agent.call(&peer, call("trust/status")).await.unwrap_err() {
            TrustError::NoSuchMethod { method: "trust/status", build: found } => assert_eq!(found.as_deref(), build),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_no_answer_is_none() {
    let wrong_id = || Act::Answer(200, "", r#"{"jsonrpc":"2.0","id":"other","result":{}}"#.to_owned());
    let acts: [fn() -> Act; 4] = [Act::html, || Act::status(500), || Act::Answer(200, "", String::new()), wrong_id];
    for (number, act) in acts.into_iter().enumerate() {
        let (north, fake, peer) = peer(move |_, _| act()).await;
        let error = north.agent.call(&peer, call("trust/status")).await.unwrap_err();
        let is_right = match &error {
            TrustError::Send(SendError::HttpStatus { status: 500, .. }) => number == 1,
            TrustError::Send(SendError::NotAnAnswer { .. }) => number != 1,
            _ => false,
        };
        assert!(is_right && error.is_passing(), "{number}: {error:?}");
        assert_eq!(fake.posts().len(), 1);
    }
}

#[tokio::test]
async fn silence_ends_with_the_time_and_nobody_there_after_three_attempts() {
    let (north, _fake, peer) = peer(|_, _| Act::Silence).await;
    let short = Call { timeout: Duration::from_millis(50), ..call("trust/status") };
    let error = north.agent.call(&peer, short).await.unwrap_err();
    assert!(matches!(&error, TrustError::Send(SendError::TimedOut { .. })), "{error:?}");
    assert_eq!(error.fault(), Fault::Unreachable);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = ResolvedPeer { url: format!("http://{closed}"), ..peer };
    match north.agent.call(&nobody, call("trust/status")).await.unwrap_err() {
        TrustError::Send(SendError::Transport { attempts: ATTEMPTS, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_that_was_made_before_keeps_its_id() {
    let (north, fake, peer) = peer(|_, _| refusal(-32002, "Replay or stale message", r#"{"duplicate":true}"#)).await;
    let again = Call { message_id: MessageId::new("kept"), ..call("trust/status") };
    assert!(north.agent.call(&peer, again).await.unwrap_err().is_answer_lost());
    assert_eq!(fake.posts()[0].message_id(), "kept");
}

#[tokio::test]
async fn each_attempt_of_an_exchange_is_written_anew() {
    let (north, _fake, peer) = peer(|_, _| Act::Drop).await;
    let written = Arc::new(AtomicUsize::new(0));
    let place = Place { url: &peer.url, policy: peer.policy, deadline: Instant::now() + TIMEOUT, each: TIMEOUT };
    let exchange = north.agent.exchange(&place, || {
        let number = written.fetch_add(1, Ordering::SeqCst);
        (format!("m{number}"), "{}".to_owned())
    });
    assert!(matches!(exchange.await, Err(NoAnswer::Transport { attempts: ATTEMPTS, .. })));
    assert_eq!(written.load(Ordering::SeqCst), 3);
}
