//! `connect/request` and `connect/respond`: by policy, within bounds, and never without being asked.
use crate::receive::testing::*;
use muretai_protocol::{json::Value, sign::SigningKey};
use muretai_store::{
    contacts::{Coordinates, Relation},
    messages::Direction,
    requests::{Decision, NewRequest, RequestKind, RequestStatus},
};

const NORTH: u8 = 1;
const WEST: u8 = 2;

const REQUEST: (&str, &str) = ("connect/request", "connect/request");
const RESPOND: (&str, &str) = ("connect/respond", "connect/respond");

async fn connect(world: &World, n: u8, id: &str) -> Value {
    world.ask(REQUEST, &key(n), id, &[("name", "north".into()), ("url", "http://north.example".into())]).await
}

async fn respond(world: &World, from: &SigningKey, id: &str, decision: &str) -> Value {
    world.ask(RESPOND, from, id, &[("decision", decision.into())]).await
}

/// Our own request, as the owner's command writes it.
async fn open_request(world: &World, to: &SigningKey) {
    let now = crate::agent::now();
    let request = NewRequest {
        kind: RequestKind::Connect,
        peer: to.did().clone(),
        via: None,
        about: None,
        wire_id: None,
        peer_name: None,
        note: None,
        coordinates: Coordinates::default(),
        record: None,
        is_vouched: false,
        created: now,
        expires: muretai_protocol::UnixSeconds(now.0 + 1_000),
    };
    world.agent.store().open_request(&request).await.unwrap();
}

#[tokio::test]
async fn a_request_waits_for_the_owner_with_its_note() {
    let world = world(|_| {}).await;
    let text = ("connect/request", "connect/request\nwe met at the fair");
    let answer = world.ask(text, &key(NORTH), "1", &[("name", "north\u{202e}".into())]).await;
    assert_eq!(status(&answer), "pending");
    let id = answer.member("result").unwrap().member("requestId").unwrap().as_str().unwrap().to_owned();
    let row = world.requests().await.pop().unwrap();
    assert_eq!((row.kind, row.status, row.direction), (RequestKind::Connect, RequestStatus::Pending, Direction::In));
    assert_eq!((row.note.as_deref(), row.peer_name.as_deref()), (Some("we met at the fair"), Some("north")));
    assert_eq!(row.wire_id.as_deref(), Some(id.as_str()));
    assert!(is_duplicate(&world.ask(text, &key(NORTH), "1", &[]).await));
    // One row for each DID, under one id.
    let again = connect(&world, NORTH, "2").await;
    assert_eq!(again.member("result"), answer.member("result"));
    assert_eq!(world.requests().await.len(), 1);
    assert_eq!(code(&world.send(&key(NORTH), "3", "hello").await), -32010, "it grants nothing");
    world.decide(Decision::Accept).await;
    assert_eq!(code(&world.send(&key(NORTH), "3", "hello").await), 0);
    // A contact that is served elsewhere by now tells it in the same way.
    let moved = world.ask(REQUEST, &key(NORTH), "4", &[("url", "http://moved.example".into())]).await;
    assert_eq!(code(&moved), -32022);
    let contact = world.agent.store().contact(key(NORTH).did()).await.unwrap().unwrap();
    assert_eq!(contact.coordinates.url.as_deref(), Some("http://moved.example"));
}

#[tokio::test]
async fn a_rejected_request_is_not_asked_again() {
    let world = world(|_| {}).await;
    connect(&world, NORTH, "1").await;
    world.decide(Decision::Reject).await;
    assert_eq!(code(&connect(&world, NORTH, "2").await), -32020);
    world.policy("connect", "open").await;
    assert_eq!(code(&connect(&world, NORTH, "3").await), -32020);
}

#[tokio::test]
async fn the_owner_may_accept_everybody_or_nobody() {
    let world = world(|_| {}).await;
    world.policy("connect", "closed").await;
    assert_eq!(code(&connect(&world, NORTH, "1").await), -32020);
    assert!(world.requests().await.is_empty());
    world.policy("connect", "open").await;
    let answer = connect(&world, NORTH, "1").await;
    assert_eq!(status(&answer), "accepted");
    let member = |key| answer.member("result").unwrap().member(key).and_then(Value::as_str);
    assert_eq!((member("did"), member("name")), (Some(world.agent.did().as_str()), Some("south")));
    let contact = world.agent.store().contact(key(NORTH).did()).await.unwrap().unwrap();
    assert_eq!((contact.relation, contact.name.as_str()), (Relation::Direct, "north"));
    assert_eq!(contact.coordinates.url.as_deref(), Some("http://north.example"));
}

#[tokio::test]
async fn nobody_becomes_a_contact_by_saying_yes_unasked() {
    let world = world(|_| {}).await;
    let (north, west) = (key(NORTH), key(WEST));
    assert_eq!(code(&respond(&world, &north, "1", "accept").await), -32021);
    open_request(&world, &north).await;
    assert_eq!(code(&respond(&world, &west, "1", "accept").await), -32021, "another DID");
    assert!(world.agent.store().contacts().await.unwrap().is_empty());
    let answer = respond(&world, &north, "1", "accept").await;
    assert_eq!(status(&answer), "connected");
    assert_eq!(code(&world.send(&north, "2", "hello").await), 0);
    assert!(is_duplicate(&respond(&world, &north, "1", "accept").await));
    assert_eq!(code(&respond(&world, &north, "3", "accept").await), -32021, "consumed once");
}

#[tokio::test]
async fn a_no_closes_our_request() {
    let world = world(|_| {}).await;
    open_request(&world, &key(NORTH)).await;
    assert_eq!(status(&respond(&world, &key(NORTH), "1", "reject").await), "rejected");
    assert_eq!(code(&respond(&world, &key(NORTH), "2", "accept").await), -32021);
    assert!(world.agent.store().contacts().await.unwrap().is_empty());
}

#[tokio::test]
async fn requests_that_cross_connect_at_once() {
    let world = world(|_| {}).await;
    open_request(&world, &key(NORTH)).await;
    assert_eq!(status(&connect(&world, NORTH, "1").await), "accepted");
    assert_eq!(code(&world.send(&key(NORTH), "2", "hello").await), 0);
    assert!(world.requests().await.iter().all(|row| row.status != RequestStatus::Pending));
}

#[tokio::test]
async fn strangers_without_a_voucher_are_few_in_an_hour() {
    let world = world(|_| {}).await;
    for n in 1..=5 {
        assert_eq!(status(&connect(&world, n, "1").await), "pending");
    }
    let full = connect(&world, 6, "1").await;
    assert_eq!(code(&full), -32004);
    assert!(data(&full, "retryAfter").unwrap().as_i64().unwrap() > 0);
    assert_eq!(status(&connect(&world, 5, "2").await), "pending", "who waits already may ask again");
    // Whom a contact vouches for is another matter; whom nobody knows is not.
    world.befriend(&key(9)).await;
    let by = async |issuer: u8, id: &str| {
        world.ask(REQUEST, &key(7), id, &[("vc", world.vc(&key(issuer), &key(7), 1))]).await
    };
    assert_eq!(code(&by(8, "1").await), -32004);
    assert_eq!(status(&by(9, "2").await), "pending");
    assert!(world.requests().await.pop().unwrap().is_vouched);
    assert_eq!(code(&connect(&world, 6, "2").await), -32004);
}

#[tokio::test]
async fn the_signed_text_names_the_method() {
    let world = world(|_| {}).await;
    for text in ["", "connect/request ", "hello", "connect/requests", "connect/respond", " connect/request"] {
        assert_eq!(code(&world.ask(("connect/request", text), &key(NORTH), "1", &[]).await), -32602, "{text:?}");
    }
    let long = format!("connect/request\n{}", "x".repeat(2_001));
    assert_eq!(code(&world.ask(("connect/request", &long), &key(NORTH), "1", &[]).await), -32602);
    let noted = ("connect/request", "connect/request\nhello");
    assert_eq!(code(&world.ask(noted, &key(NORTH), "1", &[("note", "another".into())]).await), -32602);
    assert_eq!(code(&world.ask(noted, &key(NORTH), "1", &[("note", "hello".into())]).await), 0);
    let bare = world.ask(REQUEST, &key(WEST), "1", &[("note", "in the params".into())]).await;
    assert_eq!(status(&bare), "pending");
    assert_eq!(world.requests().await.pop().unwrap().note.as_deref(), Some("in the params"));
    let respond = ("connect/respond", "connect/request");
    assert_eq!(code(&world.ask(respond, &key(NORTH), "2", &[("decision", "accept".into())]).await), -32602);
}

#[tokio::test]
async fn bad_params_are_found_before_anything_is_verified() {
    let world = world(|_| {}).await;
    let cases: [(&str, &'static str, Value); 9] = [
        ("connect/request", "name", 5.into()),
        ("connect/request", "note", "x".repeat(2_001).into()),
        ("connect/request", "url", "http://169.254.1.1".into()),
        ("connect/request", "url", "not a url".into()),
        ("connect/request", "enc_pub", "00".into()),
        ("connect/request", "vc", "x".into()),
        ("connect/request", "vc", object([("x", "y".repeat(20_000).into())])),
        ("connect/respond", "decision", "maybe".into()),
        ("connect/respond", "requestId", 5.into()),
    ];
    for (method, member, value) in cases {
        let mut frame = frame(method, object([("message", world.message(&key(NORTH), "1", method)), (member, value)]));
        at(&mut frame, &["params", "message", "metadata"]).insert("sig".to_owned(), "AA==".into());
        assert_eq!(code(&world.call(&frame).await), -32602, "{method} {member}");
    }
}
