use muretai_protocol::{json, sign::SigningKey};
use muretai_store::{
    messages::{Direction, Handling},
    requests::{Answered, Decision},
};

use super::*;
use crate::{
    Fault,
    testing::{Act, Fake, Owned, Seen, agent, befriend, card_of, documents, key, offer, refusal, result},
};

const SECOND: Duration = Duration::from_secs(1);

/// South with a signed card, answering calls with `act`: the method, and how many calls came before.
async fn south(act: impl Fn(&str, &Seen) -> Act + Send + Sync + 'static) -> Fake {
    Fake::start(move |base, seen, _| match seen.method.as_str() {
        "GET" => documents(&key(2), base, seen),
        _ => act(seen.rpc().member("method").unwrap().as_str().unwrap(), seen),
    })
    .await
}

fn to(target: &str) -> ConnectRequest {
    ConnectRequest {
        target: target.to_owned(),
        note: None,
        wait: None,
        ask: None,
        timeout: 10 * SECOND,
        allow_private: false,
        receiver: Default::default(),
    }
}

async fn rows(north: &Owned) -> Vec<RequestRow> {
    north.agent.requests(true).await.unwrap()
}

fn pending() -> Act {
    result(&json!({"status": "pending", "requestId": "r1"}))
}

fn status(relation: &str) -> Act {
    result(&json!({"relation": relation, "trusted": (relation == "direct")}))
}

#[tokio::test]
async fn a_request_is_kept_and_says_who_asks() {
    let fake = south(|_, _| pending()).await;
    let north = agent("north").await;
    let request = ConnectRequest { note: Some("we met in Brno".to_owned()), ..to(&fake.url) };
    match north.agent.ask_to_connect(&request).await.unwrap() {
        Connected::Pending { did, is_offline: true, request } => {
            assert_eq!((&did, request), (key(2).did(), rows(&north).await[0].id));
        }
        other => panic!("{other:?}"),
    }
    let row = &rows(&north).await[0];
    assert_eq!((row.kind, row.direction, row.status), (RequestKind::Connect, Direction::Out, RequestStatus::Pending));
    assert_eq!((row.note.as_deref(), row.coordinates.url.as_ref()), (Some("we met in Brno"), Some(&fake.url)));
    assert!(north.agent.store().contacts().await.unwrap().is_empty(), "a request makes no trust");
    let seen = &fake.posts()[0];
    let params = seen.rpc().member("params").unwrap().clone();
    let text = |key: &str| params.member(key).and_then(Value::as_str).map(str::to_owned);
    assert_eq!((text("name").as_deref(), text("enc_pub")), (Some("north"), Some(north.agent.enc_pub())));
    assert_eq!((text("note").as_deref(), text("url")), (Some("we met in Brno"), None));
    let message = muretai_protocol::message::Message::from_value(seen.message()).unwrap();
    assert_eq!(message.text, "connect/request\nwe met in Brno");
}

#[tokio::test]
async fn asking_again_repeats_the_request() {
    let fake = south(|_, _| pending()).await;
    let north = agent("north").await;
    for _ in 0..2 {
        north.agent.ask_to_connect(&to(&fake.url)).await.unwrap();
    }
    assert_eq!((rows(&north).await.len(), fake.posts().len()), (1, 2));
}

#[tokio::test]
async fn an_acceptance_in_the_answer_makes_trust() {
    let did = key(2).did().to_string();
    for (answer, again) in [("accepted", "south"), ("-32022", did.as_str())] {
        let fake = south(move |_, _| match answer {
            "accepted" => result(&json!({"status": "accepted"})),
            _ => refusal(-32022, "Already connected", "null"),
        })
        .await;
        let north = agent("north").await;
        match north.agent.ask_to_connect(&to(&fake.url)).await.unwrap() {
            Connected::Connected { contact, was_known: false } => {
                assert_eq!((contact.name.as_str(), contact.relation), ("south", Relation::Direct));
                assert_eq!(contact.coordinates.url.as_ref(), Some(&fake.url));
                assert!(contact.allow_private, "the owner typed a loopback address");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(rows(&north).await[0].status, RequestStatus::Accepted);
        let known = north.agent.ask_to_connect(&to(again)).await.unwrap();
        assert!(matches!(known, Connected::Connected { was_known: true, .. }));
        assert_eq!(fake.posts().len(), 1, "nobody is asked about what is known");
    }
}

#[tokio::test]
async fn a_refusal_closes_the_request_unless_it_passes() {
    for (code, data, left) in [
        (-32020, "null", RequestStatus::Rejected),
        (-32004, r#"{"retryAfter":3600}"#, RequestStatus::Pending),
        (-32603, "null", RequestStatus::Pending),
        (-32601, "null", RequestStatus::Rejected),
    ] {
        let fake = south(move |_, _| refusal(code, "no", data)).await;
        let north = agent("north").await;
        let error = north.agent.ask_to_connect(&to(&fake.url)).await.unwrap_err();
        assert_eq!(error.fault(), Fault::PeerRefused, "{error:?}");
        if code == -32004 {
            assert!(error.hint().unwrap().contains("60 minutes"), "{:?}", error.hint());
        }
        assert_eq!(rows(&north).await[0].status, left, "{code}");
    }
}

#[tokio::test]
async fn a_request_that_never_left_is_not_kept_open() {
    let north = agent("north").await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    offer(&north.agent, &key(30), key(2).did(), &format!("http://{closed}")).await;
    let error = north.agent.ask_to_connect(&to(key(2).did().as_str())).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Unreachable, "{error:?}");
    assert_eq!(rows(&north).await[0].status, RequestStatus::Withdrawn);
}

#[tokio::test]
async fn a_request_that_may_have_arrived_stays_open() {
    let north = agent("north").await;
    let fake = south(|_, _| Act::Drop).await;
    north.agent.ask_to_connect(&to(&fake.url)).await.unwrap_err();
    assert_eq!(rows(&north).await[0].status, RequestStatus::Pending);
}

fn without_did(mut card: Value) -> Value {
    let Value::Object(members) = &mut card else { unreachable!() };
    members.remove("did");
    card
}

#[tokio::test]
async fn a_card_that_proves_nothing_is_not_asked() {
    let fake = Fake::start(|base, seen, _| match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", "/.well-known/agent-card.json") => Act::json(&card_of(&key(2), base)),
        _ => Act::status(404),
    })
    .await;
    let north = agent("north").await;
    let error = north.agent.ask_to_connect(&to(&fake.url)).await.unwrap_err();
    assert!(matches!(error, TrustError::CardNotSigned { .. }), "{error:?}");
    assert_eq!(error.fault(), Fault::Unverified);
    let foreign = Fake::start(|_, seen, _| match seen.method.as_str() {
        "GET" => Act::json(&without_did(card_of(&key(2), "http://x.example"))),
        _ => Act::status(404),
    })
    .await;
    let error = north.agent.ask_to_connect(&to(&foreign.url)).await.unwrap_err();
    assert!(matches!(error, TrustError::Foreign { .. }), "{error:?}");
    assert!(fake.posts().is_empty() && foreign.posts().is_empty() && rows(&north).await.is_empty());
}

#[tokio::test]
async fn some_are_not_asked_at_all() {
    let north = agent("north").await;
    let own = north.agent.did().to_string();
    for target in ["north", own.as_str()] {
        let error = north.agent.ask_to_connect(&to(target)).await.unwrap_err();
        assert!(matches!(error, TrustError::Send(SendError::Yourself)), "{target}: {error:?}");
    }
    befriend(&north.agent, key(2).did(), Some("http://127.0.0.1:9")).await;
    north.agent.store().set_blocked(key(2).did(), true, now()).await.unwrap();
    for target in ["south", key(2).did().as_str()] {
        let error = north.agent.ask_to_connect(&to(target)).await.unwrap_err();
        assert!(matches!(error, TrustError::Blocked { .. }), "{target}: {error:?}");
        assert!(error.hint().unwrap().contains("unblock"));
    }
    let error = north.agent.ask_to_connect(&to(key(5).did().as_str())).await.unwrap_err();
    assert!(matches!(error, TrustError::Send(SendError::NoAddress { .. })), "{error:?}");
    for note in ["", "  ", "a\0b", &"x".repeat(1_001)] {
        let request = ConnectRequest { note: Some(note.to_owned()), ..to("nobody") };
        let error = north.agent.ask_to_connect(&request).await.unwrap_err();
        assert_eq!(error.fault(), Fault::Usage, "{error:?}");
    }
    assert!(rows(&north).await.is_empty());
}

#[tokio::test]
async fn answers_that_are_none_make_no_trust() {
    for answer in [json!({}), json!([]), json!({"status": "sure"}), json!({"status": {"pending": true}})] {
        let fake = south(move |_, _| result(&answer)).await;
        let north = agent("north").await;
        let error = north.agent.ask_to_connect(&to(&fake.url)).await.unwrap_err();
        assert!(matches!(error, TrustError::BadAnswer { .. }), "{error:?}");
        assert!(north.agent.store().contacts().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn waiting_ends_when_the_peer_says_that_there_is_trust() {
    let fake = south(|method, _| if method == "trust/status" { status("direct") } else { pending() }).await;
    let north = agent("north").await;
    let request = ConnectRequest { wait: Some(60 * SECOND), ..to(&fake.url) };
    let outcome = north.agent.ask_to_connect(&request).await.unwrap();
    assert!(matches!(outcome, Connected::Connected { was_known: false, .. }), "{outcome:?}");
    assert_eq!(rows(&north).await[0].status, RequestStatus::Accepted);
}

#[tokio::test]
async fn waiting_hears_of_a_no_by_asking_once_more() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let asked = AtomicUsize::new(0);
    let fake = south(move |method, _| match method {
        "trust/status" => status("none"),
        _ if asked.fetch_add(1, Ordering::SeqCst) == 0 => pending(),
        _ => refusal(-32020, "Connect requests not accepted", "null"),
    })
    .await;
    let north = agent("north").await;
    let request = ConnectRequest { wait: Some(60 * SECOND), ..to(&fake.url) };
    let outcome = north.agent.ask_to_connect(&request).await.unwrap();
    assert!(matches!(outcome, Connected::Rejected { .. }), "{outcome:?}");
    assert_eq!(rows(&north).await[0].status, RequestStatus::Rejected);
}

#[tokio::test]
async fn waiting_sees_what_a_running_serve_was_told() {
    for (decision, status) in [(Decision::Accept, RequestStatus::Accepted), (Decision::Reject, RequestStatus::Rejected)]
    {
        let fake = south(|_, _| pending()).await;
        let north = agent("north").await;
        north.agent.ask_to_connect(&to(&fake.url)).await.unwrap();
        let agent = north.agent.clone();
        let request = ConnectRequest { wait: Some(60 * SECOND), ..to(&fake.url) };
        let waiting = tokio::spawn(async move { agent.ask_to_connect(&request).await });
        let who = Introduce {
            did: key(2).did().clone(),
            peer_name: Some("south".to_owned()),
            own_name: None,
            coordinates: Default::default(),
            source: muretai_store::contacts::CoordinateSource::Peer,
            allow_private: false,
            now: now(),
        };
        // Settled only once the second request is out, so that it is the wait that sees it.
        while fake.posts().len() < 2 {
            tokio::task::yield_now().await;
        }
        let handling = Handling { from: key(2).did().clone(), message_id: "m1".to_owned(), digest: [1; 32] };
        let answered = north.agent.store().settle_connect(&who, decision, &handling).await.unwrap();
        assert!(!matches!(answered, Answered::NoSuch));
        match (waiting.await.unwrap(), decision) {
            (Ok(Connected::Connected { was_known: false, .. }), Decision::Accept) => {}
            (Ok(Connected::Rejected { .. }), Decision::Reject) => {}
            // It was settled before the second request was noted: said so, and there is nothing to wait for.
            (Err(TrustError::NotOpen { .. }), _) => {}
            (other, _) => panic!("{other:?}"),
        }
        assert_eq!(rows(&north).await[0].status, status);
    }
}

/// North with a direct contact west, who answers with `act`.
async fn with_west(act: impl Fn(&str, &Seen) -> Act + Send + Sync + 'static) -> (Owned, Fake, SigningKey) {
    let fake = south(act).await;
    let north = agent("north").await;
    befriend(&north.agent, key(3).did(), Some(&fake.url)).await;
    (north, fake, key(3))
}

fn ask(target: &str) -> ConnectRequest {
    ConnectRequest { ask: Some("south".to_owned()), ..to(target) }
}

#[tokio::test]
async fn an_introducer_is_asked_in_signed_words() {
    let target = key(7).did().to_string();
    for (answer, left) in [
        ("queued", RequestStatus::Pending),
        ("proposed", RequestStatus::Pending),
        ("declined", RequestStatus::Rejected),
    ] {
        let (north, fake, west) = with_west(move |_, _| result(&json!({"status": answer}))).await;
        match north.agent.ask_to_connect(&ask(&target)).await.unwrap() {
            Connected::Asked { introducer, target: to, status, .. } => {
                assert_eq!((&introducer, to.as_str(), status.as_str()), (west.did(), target.as_str(), answer));
            }
            other => panic!("{other:?}"),
        }
        let row = &rows(&north).await[0];
        assert_eq!((row.kind, row.status), (RequestKind::IntroduceMe, left));
        assert_eq!((&row.peer, row.about.as_ref().map(Did::as_str)), (west.did(), Some(target.as_str())));
        let message = muretai_protocol::message::Message::from_value(fake.posts()[0].message()).unwrap();
        assert_eq!(message.text, format!("introduce-me-to:{target}"));
    }
}

#[tokio::test]
async fn only_a_direct_contact_introduces_and_only_to_a_third() {
    let (north, fake, west) = with_west(|_, _| refusal(-32016, "This node does not run the trust layer", "null")).await;
    let target = key(7).did().to_string();
    let error = north.agent.ask_to_connect(&ask(west.did().as_str())).await.unwrap_err();
    assert!(matches!(error, TrustError::NotThree(_)), "{error:?}");
    let stranger = ConnectRequest { ask: Some(key(8).did().to_string()), ..to(&target) };
    let error = north.agent.ask_to_connect(&stranger).await.unwrap_err();
    assert!(matches!(error, TrustError::NotDirect { .. }), "{error:?}");
    let own = ask(north.agent.did().as_str());
    let error = north.agent.ask_to_connect(&own).await.unwrap_err();
    assert!(matches!(error, TrustError::Send(SendError::Yourself)), "{error:?}");
    assert!(fake.posts().is_empty() && rows(&north).await.is_empty());
    let error = north.agent.ask_to_connect(&ask(&target)).await.unwrap_err();
    assert!(error.is_refusal(Code::NoTrustLayer), "{error:?}");
    assert_eq!(rows(&north).await[0].status, RequestStatus::Rejected);
}
