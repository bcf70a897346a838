//! Letters: what is taken, what is refused, and who hears of it.
use muretai_protocol::{UnixSeconds, json, json::Value, message::Role, relay::DID_NOT_OPEN};
use muretai_store::{contacts::Coordinates, outbox::OutboxRow};
use muretai_transports::{Postmark, Service, Unopened, UnopenedReason};

use super::super::{Receiver, ReceiverOptions};
use crate::{
    agent::now,
    receive::{rate::RateLimit, testing::*},
};

fn extra(row: &OutboxRow) -> Value {
    json::parse(row.keep.extra.as_ref().unwrap().as_bytes()).unwrap()
}

async fn mail_signed_at(world: &World, id: &str, secs_ago: i64) -> Value {
    let message = message_to(world.agent.did(), &key(1), id, "hello", UnixSeconds(now().0 - secs_ago));
    let (status, answer) = world.letter(postmark(&key(1), id), &request("message/send", message)).await;
    assert_eq!(status, 200, "for good or for bad, it is done");
    answer
}

#[tokio::test]
async fn a_letter_of_six_days_is_taken_and_one_of_eight_or_of_tomorrow_is_refused_and_told() {
    for open_door in [false, true] {
        let world = world(|options| options.open_door = open_door).await;
        world.befriend(&key(1)).await;
        assert_eq!(code(&mail_signed_at(&world, "six", 6 * 86_400).await), 0);
        assert_eq!(code(&mail_signed_at(&world, "eight", 8 * 86_400).await), -32002);
        assert_eq!(code(&mail_signed_at(&world, "ahead", -3_600).await), -32002);
        assert_eq!(world.stored().await.len(), 1);
        let outbox = world.outbox().await;
        assert_eq!(outbox.len(), 3);
        let said = |row: &OutboxRow| {
            let extra = extra(row);
            let word = |name: &str| extra.member(name).and_then(Value::as_str).map(str::to_owned).unwrap_or_default();
            (word("status"), word("replyTo"), extra.member("code").and_then(Value::as_i64))
        };
        let refused = |id: &str| ("refused".to_owned(), id.to_owned(), Some(-32002));
        assert_eq!(said(&outbox[0]), ("accepted".to_owned(), "six".to_owned(), None));
        assert_eq!([said(&outbox[1]), said(&outbox[2])], [refused("eight"), refused("ahead")]);
        assert_eq!(outbox[1].text, "refused -32002: the timestamp is older than relays keep letters");
        assert_eq!(outbox[2].text, "refused -32002: the timestamp is more than 300 seconds ahead of this clock");
        assert_eq!(world.rejected().await.len(), 2);
        assert_eq!((world.receiver.letters(), world.receiver.rejected()), (3, 2));
    }
}

#[tokio::test]
async fn the_reply_to_a_letter_goes_to_the_outbox_with_the_way_back() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    world.mail(&key(1), "1", "hello").await;
    let outbox = world.outbox().await;
    let [row] = &outbox[..] else { panic!("{outbox:?}") };
    assert!(row.is_reply && row.is_auto && row.text.is_empty());
    assert_eq!((row.reply_to.as_deref(), row.context_id.as_deref()), (Some("1"), Some("c1")));
    assert_eq!(row.keep.relay.as_deref(), Some(RELAY));
    assert_eq!(row.keep.enc_pub, Some(enc_pub(1)));
    assert_eq!(extra(row), json!({"auto": true, "replyTo": "1", "status": "accepted"}));
    assert!(world.send(&key(1), "2", "over HTTP").await.member("result").is_some());
    assert_eq!(world.outbox().await.len(), 1, "who waits has the answer");
}

#[tokio::test]
async fn a_duplicate_is_dropped_without_a_word() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    world.mail(&key(1), "1", "hello").await;
    for _ in 0..3 {
        assert!(is_duplicate(&world.mail(&key(1), "1", "hello").await));
    }
    assert_eq!((world.stored().await.len(), world.outbox().await.len(), world.rejected().await.len()), (1, 1, 0));
    let other = world.mail(&key(1), "1", "something else").await;
    assert!(code(&other) == -32002 && !is_duplicate(&other));
    assert_eq!(world.outbox().await.len(), 1, "an id that is used twice gets nothing");
    assert_eq!(world.rejected().await.len(), 1);
}

#[tokio::test]
async fn the_same_letter_twice_at_once_is_one_message() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let body = request("message/send", world.message(&key(1), "1", "hello"));
    let (first, second) = tokio::join!(
        world.letter(postmark(&key(1), "1"), &body),
        world.letter(Postmark { relay: "https://other.example".to_owned(), ..postmark(&key(1), "9") }, &body),
    );
    assert_eq!((first.0, second.0), (200, 200));
    assert_eq!((world.stored().await.len(), world.outbox().await.len()), (1, 1));
}

#[tokio::test]
async fn strangers_and_the_blocked_hear_nothing_and_leave_the_same_trace() {
    let mut traces = Vec::new();
    for is_blocked in [false, true] {
        let world = world(|_| {}).await;
        if is_blocked {
            world.befriend(&key(1)).await;
            world.block(&key(1)).await;
        }
        let answer = world.mail(&key(1), "1", "hello").await;
        assert_eq!(code(&answer), -32010);
        assert_eq!(world.outbox().await, []);
        let letter = world.agent.store().rejected(1).await.unwrap().pop().unwrap();
        assert_eq!((letter.from.as_str(), letter.id.as_str()), (key(1).did().as_str(), "1"));
        traces.push((answer, letter.code, letter.reason));
    }
    assert_eq!(traces[0], traces[1]);
}

#[tokio::test]
async fn poison_stands_in_nobodys_way() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let junk: [&[u8]; 6] =
        [b"", b"\xff\xfe", b"[]", b"{}", br#"{"jsonrpc":"2.0","id":1,"method":"message/send"}"#, &[b'['; 1_000]];
    for (n, body) in junk.into_iter().enumerate() {
        let way = muretai_transports::Way::Mailbox(postmark(&key(1), &n.to_string()));
        let body = body.to_vec().into();
        let request = muretai_transports::Incoming { body, a2a_version: None, remote: None, way };
        assert_eq!(world.receiver.call(request).await.status, 200, "{n}");
    }
    let large = request("message/send", world.message(&key(1), "large", &"x".repeat(65_537)));
    assert_eq!(world.letter(postmark(&key(1), "7"), &large).await.0, 200);
    let elsewhere = request("message/send", message_to(key(9).did(), &key(1), "2", "hello", now()));
    assert_eq!(world.letter(postmark(&key(1), "8"), &elsewhere).await.0, 200);
    assert_eq!(code(&world.mail(&key(1), "good", "hello").await), 0);
    assert_eq!(world.stored().await.len(), 1);
    assert_eq!(world.rejected().await.len(), 8);
    let told: Vec<_> = world.outbox().await.into_iter().map(|row| row.reply_to.unwrap()).collect();
    assert_eq!(told, ["large", "good"], "whoever proves itself is told, and nobody else");
}

#[tokio::test]
async fn who_signed_is_the_sender_whatever_the_relay_says() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    world.befriend(&key(2)).await;
    let body = request("message/send", world.message(&key(1), "1", "hello"));
    assert_eq!(code(&world.letter(postmark(&key(2), "1"), &body).await.1), 0);
    assert_eq!(world.stored().await[0].peer, key(1).did().as_str());
    assert_eq!(world.outbox().await[0].peer, key(1).did().as_str());
    let stranger = request("message/send", world.message(&key(3), "1", "hello"));
    assert_eq!(code(&world.letter(postmark(&key(1), "2"), &stranger).await.1), -32010);
    assert_eq!(world.outbox().await.len(), 1);
}

#[tokio::test]
async fn a_contact_is_told_of_a_refusal_once_however_often_it_comes_and_a_notice_never() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    for _ in 0..3 {
        mail_signed_at(&world, "old", 9 * 86_400).await;
    }
    assert_eq!(world.outbox().await.len(), 1);
    let ask = frame("no/such", object([("message", world.message(&key(1), "m", "no/such"))]));
    assert_eq!(code(&world.letter(postmark(&key(1), "m"), &ask).await.1), -32601);
    assert_eq!(world.outbox().await.len(), 2);
    for (id, metadata) in [("n1", json!({"auto": true, "status": "x"})), ("n2", json!({"auto": true}))] {
        let large = json!({"x": ("x".repeat(70_000))});
        let (Value::Object(mut metadata), Value::Object(large)) = (metadata, large) else { unreachable!() };
        metadata.extend(large);
        assert_eq!(code(&world.mail_with(&key(1), (id, "x"), Role::User, metadata.into()).await), -32600);
    }
    assert_eq!(world.outbox().await.len(), 2, "a machine's words are not answered by a machine");
}

#[tokio::test]
async fn letters_of_contacts_are_not_counted_and_those_of_strangers_are() {
    let rate = Some(RateLimit { per_account: 2, total: 5 });
    let world = world(|options| (options.rate, options.open_door) = (rate, true)).await;
    world.befriend(&key(1)).await;
    for n in 0..10 {
        assert_eq!(code(&world.mail(&key(1), &n.to_string(), "hello").await), 0);
        let stranger = world.mail(&key(2), &n.to_string(), "hello").await;
        assert_eq!(code(&stranger), if n < 2 { 0 } else { -32004 });
    }
}

#[tokio::test]
async fn what_the_store_cannot_take_now_is_brought_again_and_taken_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = ReceiverOptions { open_door: true, ..ReceiverOptions::default() };
    let agent = agent_in(folder.path()).await;
    let body = request("message/send", message_to(agent.did(), &key(1), "1", "hello", now()));
    let receiver = Receiver::new(&agent, &options);
    agent.close().await;
    assert_eq!(deliver(&receiver, postmark(&key(1), "1"), &body).await.0, 503);
    assert!(!receiver.unopened(unopened(UnopenedReason::DoesNotOpen)).await);
    assert_eq!(receiver.letters(), 0);
    let agent = agent_in(folder.path()).await;
    let receiver = Receiver::new(&agent, &options);
    for _ in 0..2 {
        assert_eq!(deliver(&receiver, postmark(&key(1), "1"), &body).await.0, 200);
    }
    assert_eq!(agent.store().messages(&Default::default()).await.unwrap().len(), 1);
}

fn unopened(reason: UnopenedReason) -> Unopened {
    Unopened { postmark: Postmark { enc_pub: None, ..postmark(&key(1), "1") }, reason, bytes: 77 }
}

#[tokio::test]
async fn a_letter_that_does_not_open_is_noted_and_a_contact_is_told_once_a_minute() {
    let world = world(|_| {}).await;
    assert!(world.receiver.unopened(unopened(UnopenedReason::DoesNotOpen)).await);
    assert_eq!(world.outbox().await, [], "a stranger hears nothing");
    world.befriend(&key(1)).await;
    for _ in 0..3 {
        assert!(world.receiver.unopened(unopened(UnopenedReason::DoesNotOpen)).await);
        assert!(world.receiver.unopened(unopened(UnopenedReason::BadItem("it has no blob"))).await);
    }
    let outbox = world.outbox().await;
    let [row] = &outbox[..] else { panic!("{outbox:?}") };
    assert_eq!((row.text.as_str(), row.is_reply), (DID_NOT_OPEN, false));
    assert_eq!(extra(row), json!({"auto": true, "deposit": "deposit-1", "status": "unopened"}));
    assert_eq!(world.rejected().await.len(), 7);
    let letter = &world.agent.store().rejected(1).await.unwrap()[0];
    assert_eq!((letter.relay.as_str(), letter.bytes, letter.code), (RELAY, 77, None));
}

#[tokio::test]
async fn a_contact_that_could_not_open_a_letter_is_asked_for_its_card_at_most_once_a_minute() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let notice = || json!({"auto": true, "status": "unopened"});
    world.mail_with(&key(1), ("1", DID_NOT_OPEN), Role::User, notice()).await;
    world.receiver.errand_written().await;
    world.mail_with(&key(1), ("2", DID_NOT_OPEN), Role::User, notice()).await;
    world.mail_with(&key(1), ("3", DID_NOT_OPEN), Role::User, json!({})).await;
    assert!(world.receiver.inner.stale_keys.take().is_some());
    assert!(world.receiver.inner.stale_keys.take().is_none());
}

#[tokio::test]
async fn a_letter_fills_what_is_not_known_of_a_contact_and_replaces_nothing() {
    let world = world(|_| {}).await;
    let north = key(1);
    let coordinates = async || world.agent.store().contact(north.did()).await.unwrap().unwrap().coordinates;
    world.mail_with(&north, ("0", "hello"), Role::User, json!({"relay": "https://evil.example"})).await;
    assert_eq!(world.agent.store().contact(north.did()).await.unwrap(), None);
    world.befriend_at(&north, None).await;
    world.mail_with(&north, ("1", "hello"), Role::User, json!({"relay": "https://north.example/r/"})).await;
    let known = Coordinates {
        relay: Some("https://north.example/r".to_owned()),
        enc_pub: Some(enc_pub(1)),
        ..Coordinates::default()
    };
    assert_eq!(coordinates().await, known);
    assert_eq!(world.outbox().await[0].keep.relay, known.relay, "where it says that its mailbox is");
    for relay in ["https://other.example", "javascript:x", "http://a b"] {
        world.mail_with(&north, (relay, "hello"), Role::User, json!({"relay": relay})).await;
    }
    let body = request("message/send", world.message(&north, "2", "hello"));
    world.letter(Postmark { enc_pub: Some(enc_pub(7)), ..postmark(&north, "2") }, &body).await;
    assert_eq!(coordinates().await, known);
}

#[tokio::test]
async fn the_owners_word_about_a_contact_gets_a_key_and_no_relay() {
    let world = world(|_| {}).await;
    world.befriend_at(&key(1), Some("http://127.0.0.1:1")).await;
    world.mail_with(&key(1), ("1", "hello"), Role::User, json!({"relay": "http://127.0.0.1:2"})).await;
    let contact = world.agent.store().contact(key(1).did()).await.unwrap().unwrap();
    assert_eq!((contact.coordinates.enc_pub, contact.coordinates.relay), (Some(enc_pub(1)), None));
}

#[tokio::test]
async fn every_method_may_come_as_a_letter() {
    let world = world(|_| {}).await;
    world.policy("connect", "open").await;
    let north = key(1);
    let ask = frame("connect/request", object([("message", world.message(&north, "1", "connect/request"))]));
    assert_eq!(world.letter(postmark(&north, "1"), &ask).await.0, 200);
    let contact = world.agent.store().contact(north.did()).await.unwrap().unwrap();
    assert_eq!(contact.relation, muretai_store::contacts::Relation::Direct, "what it changes stands");
    let ask = frame("trust/status", object([("message", world.message(&north, "2", "trust/status"))]));
    assert_eq!(world.letter(postmark(&north, "2"), &ask).await.0, 200);
    assert_eq!(world.rejected().await, []);
}

#[tokio::test]
async fn after_a_restart_a_letter_that_comes_again_has_its_reply_posted_once() {
    let mut world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let body = request("message/send", world.message(&key(1), "1", "hello"));
    let reply = world.call(&body).await;
    world.letter(postmark(&key(1), "1"), &body).await;
    assert_eq!(world.outbox().await, [], "who called has the answer");
    // The next second, in another process.
    let later = Receiver::new(&world.agent, &ReceiverOptions::default());
    world.receiver = later.began(UnixSeconds(now().0 + 1));
    for expected in [1, 0] {
        assert!(is_duplicate(&world.letter(postmark(&key(1), "1"), &body).await.1));
        let outbox = world.outbox().await;
        assert_eq!(outbox.len(), expected);
        for row in outbox {
            assert_eq!(extra(&row), json!({"auto": true, "replyTo": "1", "status": "accepted"}));
            let id = reply.member("result").unwrap().member("messageId").unwrap().as_str();
            assert_eq!(Some(row.message_id.as_str()), id);
            world.agent.store().record_at_relay(row.seq, RELAY, now(), now()).await.unwrap();
        }
    }
}
