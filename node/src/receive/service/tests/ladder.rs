//! The order of the ladder: of several violations the first one answers, in both profiles.
use crate::receive::{frame::Profile, testing::*};
use muretai_protocol::{
    Did, MessageId,
    json::{self, Object, Value},
    message::{self, Draft, Role},
};

/// One thing wrong with an otherwise good request of a contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    JsonRpc,
    MethodType,
    Method,
    Params,
    Message,
    Kind,
    TextSize,
    Unsigned,
    Partial,
    Recipient,
    Time,
    Replay,
    Signature,
    Stranger,
}
use Wrong::*;

/// The rows in their order, with the code that each one gets.
fn rows(profile: Profile) -> Vec<(Wrong, i64)> {
    let is_node = profile == Profile::Node;
    let mut rows = Vec::new();
    if is_node {
        rows.push((JsonRpc, -32600));
    }
    rows.extend([
        (MethodType, if is_node { -32600 } else { -32601 }),
        (Method, -32601),
        (Params, -32602),
        (Message, -32602),
        (Kind, -32600),
        (TextSize, -32005),
        (Unsigned, -32001),
        (Partial, -32001),
        (Recipient, -32003),
        (Time, -32002),
    ]);
    if is_node {
        rows.extend([(Replay, -32002), (Signature, -32001), (Stranger, -32010)]);
    } else {
        rows.extend([(Signature, -32001), (Replay, -32002)]);
    }
    rows
}

fn build(world: &World, wrong: &[Wrong], fresh_id: &str) -> Value {
    let has = |w| wrong.contains(&w);
    let sender = key(if has(Stranger) { 2 } else { 1 });
    let elsewhere = key(3);
    let to: &Did = if has(Recipient) { elsewhere.did() } else { world.agent.did() };
    let message_id = MessageId::new(if has(Replay) { "seen" } else { fresh_id }).unwrap();
    let now = crate::agent::now();
    let timestamp = if has(Time) { muretai_protocol::UnixSeconds(now.0 - 4_000) } else { now };
    let text = if has(TextSize) { "x".repeat(65_537) } else { "hello".to_owned() };
    let draft = Draft {
        role: Role::User,
        to: to.as_str(),
        message_id: &message_id,
        context_id: Some("c1"),
        text: &text,
        timestamp,
        extra: Object::new(),
    };
    let mut message = message::sign(&sender, &draft);
    if has(Signature) {
        let forged = message::sign(&elsewhere, &draft);
        let sig = forged.member("metadata").unwrap().member("sig").unwrap().clone();
        at(&mut message, &["metadata"]).insert("sig".to_owned(), sig);
    }
    if has(Partial) {
        at(&mut message, &["metadata"]).remove("sig");
    }
    if has(Unsigned) {
        at(&mut message, &["metadata"]).retain(|key, _| key == "timestamp");
    }
    if has(Kind) {
        at(&mut message, &[]).insert("kind".to_owned(), "Message".into());
    }
    let message = if has(Message) { vec![message].into() } else { message };
    let params = object([("message", message)]);
    let params = if has(Params) { vec![params].into() } else { params };
    let mut frame = frame(if has(Method) { "message/Send" } else { "message/send" }, params);
    if has(MethodType) {
        at(&mut frame, &[]).insert("method".to_owned(), 5.into());
    }
    if has(JsonRpc) {
        at(&mut frame, &[]).remove("jsonrpc");
    }
    frame
}

async fn in_order(profile: Profile) {
    let world = world(|options| options.open_door = profile == Profile::Door).await;
    world.befriend(&key(1)).await;
    let _ = world.send(&key(2), "seen", "hello").await;
    let good = build(&world, &[], "seen");
    assert_eq!(code(&world.call(&good).await), 0, "the good request is good");
    let rows = rows(profile);
    for (i, (first, expected)) in rows.iter().enumerate() {
        let answer = world.call(&build(&world, &[*first], &format!("alone-{i}"))).await;
        assert_eq!(code(&answer), *expected, "{profile:?}: {first:?} alone: {}", answer.to_json());
        for (j, (second, _)) in rows.iter().enumerate().skip(i + 1) {
            let answer = world.call(&build(&world, &[*first, *second], &format!("pair-{i}-{j}"))).await;
            // A stranger's id is its own, so it was not seen.
            let expected = if [*first, *second] == [Replay, Stranger] { -32010 } else { *expected };
            assert_eq!(code(&answer), expected, "{profile:?}: {first:?} before {second:?}: {}", answer.to_json());
        }
    }
    let mine = world.stored().await.into_iter().filter(|row| row.peer == key(1).did().as_str()).count();
    assert_eq!(mine, 1, "nothing that was refused is stored");
}

#[tokio::test]
async fn the_first_violation_answers_a_node() {
    in_order(Profile::Node).await;
}

#[tokio::test]
async fn the_first_violation_answers_a_door() {
    in_order(Profile::Door).await;
}

#[tokio::test]
async fn a_door_does_not_look_at_jsonrpc() {
    let world = world(|options| options.open_door = true).await;
    assert_eq!(code(&world.call(&build(&world, &[JsonRpc, Stranger], "1")).await), 0);
}

#[tokio::test]
async fn the_unsigned_are_taught_with_the_requirement_of_the_card() {
    let world = world(|_| {}).await;
    let answer = world.call(&build(&world, &[Unsigned], "1")).await;
    let card = world.agent.card("http://127.0.0.1:9000", false);
    let requirement = card.member("securitySchemes").unwrap().member("did-key-ed25519").unwrap();
    let accepts = data(&answer, "accepts").unwrap().as_array().unwrap();
    assert_eq!(accepts, [requirement.member("agentEntry").unwrap().clone()]);
    let answer = world.call(&build(&world, &[Partial], "1")).await;
    assert!(data(&answer, "accepts").is_none(), "a partial envelope is not taught");
}

#[tokio::test]
async fn a_wrong_clock_is_measured_for_its_owner_alone() {
    let world = world(|_| {}).await;
    let answer = world.call(&build(&world, &[Time], "1")).await;
    let skew = data(&answer, "skewSeconds").unwrap().as_i64().unwrap();
    assert!((4_000..4_100).contains(&skew), "{skew}");
    assert_eq!(data(&answer, "direction").unwrap().as_str(), Some("behind"));
    let answer = world.call(&build(&world, &[Time, Signature], "1")).await;
    assert_eq!(code(&answer), -32002);
    assert!(data(&answer, "skewSeconds").is_none());
}

#[tokio::test]
async fn time_stamps_at_the_edges() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let now = crate::agent::now().0;
    let send = async |id: &str, timestamp: i64| {
        let timestamp = muretai_protocol::UnixSeconds(timestamp);
        let message = message_to(world.agent.did(), &key(1), id, "hello", timestamp);
        world.call(&request("message/send", message)).await
    };
    assert_eq!(code(&send("future", now + 290).await), 0);
    assert_eq!(code(&send("past", now - 290).await), 0);
    let late = send("late", now + 400).await;
    assert_eq!(data(&late, "direction").unwrap().as_str(), Some("ahead"));
    let milliseconds = send("ms", now * 1_000).await;
    assert!(detail(&milliseconds).contains("milliseconds"), "{}", milliseconds.to_json());
    assert_eq!(code(&send("far", 9_007_199_254_740_991).await), -32002);
    assert_eq!(code(&send("dawn", -9_007_199_254_740_991).await), -32002);
}

#[tokio::test]
async fn a_time_stamp_of_another_type_is_stale() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    for (n, token) in ["\"1\"", "true", "null", "[]", "{}", "1.5", "1e300", "99999999999999999999"].iter().enumerate() {
        let mut message = world.message(&key(1), &n.to_string(), "hello");
        at(&mut message, &["metadata"]).insert("timestamp".to_owned(), json::parse(token.as_bytes()).unwrap());
        let answer = world.call(&request("message/send", message)).await;
        assert_eq!(code(&answer), -32002, "{token}: {}", answer.to_json());
    }
}

#[tokio::test]
async fn a_number_that_is_not_finite_is_no_json_wherever_it_stands() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let mut message = world.message(&key(1), "1", "hello");
    at(&mut message, &["metadata"]).insert("x".to_owned(), "HERE".into());
    let body = request("message/send", message).to_json();
    for number in ["1e400", "-1e400", "{\"a\":[1e400]}"] {
        let (status, answer) = world.raw(body.replace("\"HERE\"", number), None).await;
        assert_eq!((status, code(&answer)), (400, -32700), "{number}");
    }
    assert!(world.stored().await.is_empty());
}

#[tokio::test]
async fn a_signature_for_another_sender_or_recipient_is_worthless() {
    let world = world(|options| options.open_door = true).await;
    let mut message = world.message(&key(1), "1", "hello");
    at(&mut message, &["metadata"]).insert("from".to_owned(), key(2).did().as_str().into());
    assert_eq!(code(&world.call(&request("message/send", message)).await), -32001);
    // Signed for a third party and forwarded, then also redirected to us.
    let mut message = message_to(key(3).did(), &key(1), "1", "hello", crate::agent::now());
    assert_eq!(code(&world.call(&request("message/send", message.clone())).await), -32003);
    at(&mut message, &["metadata"]).insert("to".to_owned(), world.agent.did().as_str().into());
    assert_eq!(code(&world.call(&request("message/send", message.clone())).await), -32001);
    at(&mut message, &["metadata"]).insert("recipientDid".to_owned(), key(3).did().as_str().into());
    assert_eq!(code(&world.call(&request("message/send", message)).await), -32001);
}
