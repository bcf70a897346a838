//! A relay that lies. Whatever it says, the listener keeps its head: it hands over what opens, is rid of the rest, and
//! neither spins nor stops.
use std::sync::Arc;

use muretai_protocol::{json, relay::Item};
use muretai_transports::{Service, TransportError, Way};

use crate::{
    common::{did, enc_pub, inbox, item, listen, listen_with, place, transport},
    fake::{FakeRelay, STREAM, Script, event, json_answer},
};

fn stream_of(events: &[String]) -> Vec<u8> {
    format!("{STREAM}{}", events.concat()).into()
}

fn letter(qid: &str, item: Item) -> String {
    event("letter", &Item { qid: qid.to_owned(), ..item }.to_value().to_json())
}

#[tokio::test]
async fn a_forged_sender_changes_the_postmark_and_nothing_else() {
    let relay = FakeRelay::start().await;
    let south = listen(&relay);
    relay.store(&did(2), Item { from: did(7).to_string(), ..item(1, 2, "hello") });
    let heard = south.inbox.until(|heard| heard.letters.len() == 1).await;
    let Way::Mailbox(postmark) = &heard.letters[0].1 else { panic!() };
    assert_eq!((&postmark.from, &postmark.enc_pub), (&did(7).to_string(), &Some(enc_pub(1))));
}

#[tokio::test]
async fn replays_within_one_connection_are_handed_over_once_while_in_hand() {
    let relay = FakeRelay::start().await;
    let copies: Vec<String> = (0..50).map(|_| letter("q1", item(1, 2, "hello"))).collect();
    relay.script("/listen", [Script::Hold(stream_of(&copies))]);
    let south = listen(&relay);
    relay.until(|state| !state.acked.is_empty()).await;
    assert_eq!(south.inbox.heard().texts(), ["hello"]);
}

#[tokio::test]
async fn items_that_are_none_are_passed_over() {
    let relay = FakeRelay::start().await;
    let events = [
        event("letter", "{"),
        event("letter", "7"),
        event("letter", "[]"),
        event("letter", r#"{"blob":"AAAA"}"#),
        event("letter", r#"{"qid":"bad"}"#),
        event("letter", &format!(r#"{{"qid":"{}","blob":"AAAA"}}"#, "q".repeat(5_000))),
        event("noise", "hello"),
        ": comment\n\n\n\n\n".to_owned(),
        "data\n\nid: 7\n\n".to_owned(),
        letter("good", item(1, 2, "hello")),
    ];
    relay.script("/listen", [Script::Hold(stream_of(&events))]);
    let south = listen(&relay);
    let heard = south.inbox.until(|heard| heard.letters.len() == 1).await;
    assert_eq!(heard.unopened.len(), 1);
    assert_eq!(heard.unopened[0].postmark.qid, "bad");
    relay.until(|state| state.acked.len() == 2).await;
}

#[tokio::test]
async fn a_line_of_any_length_is_passed_over() {
    let relay = FakeRelay::start().await;
    let huge = event("letter", &"x".repeat(20 * 1_048_576));
    let events = [huge, letter("q1", item(1, 2, "behind it"))];
    relay.script("/listen", [Script::Hold(stream_of(&events))]);
    let south = listen(&relay);
    assert_eq!(south.inbox.until(|heard| !heard.letters.is_empty()).await.texts(), ["behind it"]);
}

#[tokio::test]
async fn heartbeats_without_end_are_no_letters() {
    let relay = FakeRelay::start().await;
    let events = [": beat\n\n".repeat(200_000), letter("q1", item(1, 2, "behind them"))];
    relay.script("/listen", [Script::Hold(stream_of(&events))]);
    let south = listen(&relay);
    assert_eq!(south.inbox.until(|heard| !heard.letters.is_empty()).await.texts(), ["behind them"]);
}

#[tokio::test]
async fn letters_in_any_order_and_from_several_connections() {
    let relay = FakeRelay::start().await;
    let cut = stream_of(&[letter("q9", item(1, 2, "nine")), letter("q2", item(1, 2, "two"))]);
    let mut half = stream_of(&[letter("q3", item(1, 2, "three"))]);
    half.truncate(half.len() - 2);
    relay.script("/listen", [Script::Raw(cut), Script::Raw(half), Script::Honest]);
    relay.store(&did(2), item(1, 2, "after all"));
    let south = listen(&relay);
    let heard = south.inbox.until(|heard| heard.letters.len() == 3).await;
    assert_eq!(heard.texts(), ["nine", "two", "after all"], "an event that was cut is none");
}

#[tokio::test]
async fn what_is_no_relay_is_tried_again() {
    let relay = FakeRelay::start().await;
    relay.script(
        "/listen",
        [
            Script::Answer(200, "content-type: text/html\r\n", "<html>".to_owned()),
            json_answer(200, "<html>"),
            json_answer(200, "{}"),
            json_answer(200, r#"{"items":null}"#),
            Script::Answer(302, "location: https://other.example/listen\r\n", String::new()),
            json_answer(500, r#"{"error":"broken\u001b[31m"}"#),
            json_answer(401, r#"{"error":{"message":"no","data":{"now":"soon"}}}"#),
            Script::Raw(b"SMTP ready\r\n".to_vec()),
            Script::Raw(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n: ok\n\n".to_vec(),
            ),
        ],
    );
    let mut south = listen(&relay);
    let mut reasons = Vec::new();
    for _ in 0..9 {
        reasons.push(south.lost().await);
    }
    south.connected().await;
    assert!(reasons[4].contains("other.example"), "{reasons:?}");
    assert!(reasons[5].contains("HTTP status 500") && !reasons[5].contains('\u{1b}'), "{reasons:?}");
    assert!(reasons[6].contains("401"), "{reasons:?}");
    relay.store(&did(2), item(1, 2, "hello"));
    south.inbox.until(|heard| heard.texts() == ["hello"]).await;
    for reason in reasons {
        assert!(!reason.contains("token="), "{reason}");
    }
}

#[tokio::test]
async fn a_relay_that_refuses_every_token_is_not_asked_twice_for_the_same_time() {
    let relay = FakeRelay::start().await;
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() + 86_400;
    let no = json_answer(401, &format!(r#"{{"error":{{"message":"no","data":{{"now":{now}}}}}}}"#));
    relay.script("/listen", vec![no; 3]);
    let mut south = listen(&relay);
    south.lost().await;
    south.connected().await;
    // The first attempt was made twice, the second once; then the relay was honest about its clock again.
    let minutes: Vec<i64> =
        relay.requests("/listen").iter().map(|seen| seen.query["minute"].parse().unwrap()).collect();
    assert_eq!(minutes[1] - minutes[0], 1_440);
    assert!(minutes.len() <= 6, "{minutes:?}");
}

#[tokio::test]
async fn polls_that_do_not_wait_do_not_make_it_spin() {
    let relay = FakeRelay::start().await;
    relay.state().knows_no_streams = true;
    let empty = [r#"{"items":[],"more":true}"#, r#"{"items":[]}"#, r#"{"items":[{"blob":"AAAA"},7]}"#];
    relay.script("/listen", empty.iter().cycle().take(12).map(|body| json_answer(200, body)));
    let south = listen(&relay);
    relay.store(&did(2), item(1, 2, "hello"));
    south.inbox.until(|heard| heard.texts() == ["hello"]).await;
}

#[tokio::test]
async fn a_relay_that_hands_out_the_same_letters_until_they_are_acknowledged() {
    let relay = FakeRelay::start().await;
    relay.state().knows_no_streams = true;
    relay.state().repeats = true;
    let south = listen(&relay);
    for n in 0..150 {
        relay.store(&did(2), item(1, 2, &n.to_string()));
    }
    let heard = south.inbox.until(|heard| heard.letters.len() >= 150).await;
    assert_eq!(heard.texts()[..3], ["0", "1", "2"]);
    relay.until(|state| state.acked.len() >= 150).await;
}

#[tokio::test]
async fn superseded_is_believed_because_nothing_is_lost_by_it() {
    let relay = FakeRelay::start().await;
    let error = json!({"error": {"code": -32030}}).to_json();
    relay.script("/listen", [Script::Hold(stream_of(&[letter("q1", item(1, 2, "x")), event("superseded", &error)]))]);
    let mut south = listen_with(transport(2), place(&relay, 1), inbox());
    assert!(matches!(south.ended().await, Err(TransportError::Superseded { .. })));
}

#[tokio::test]
async fn thousands_of_items_that_are_none_and_letters_for_others_keep_nobody_waiting() {
    const MANY: usize = 3_000;
    let relay = FakeRelay::start().await;
    let mut events: Vec<String> = (0..MANY).map(|n| event("letter", &format!(r#"{{"qid":"bad {n}"}}"#))).collect();
    events.extend((0..MANY).map(|_| event("letter", r#"{"blob":"AAAA"}"#)));
    events.push(letter("of another", item(1, 3, "for somebody else")));
    events.push(letter("good", item(4, 2, "hello")));
    relay.script("/listen", [Script::Hold(stream_of(&events))]);
    let south = listen(&relay);
    let heard = south.inbox.until(|heard| heard.letters.len() == 1 && heard.unopened.len() == MANY + 1).await;
    assert_eq!(heard.texts(), ["hello"]);
    relay.until(|state| state.acked.len() == MANY + 2).await;
}

#[tokio::test]
async fn nothing_that_a_relay_redirects_to_is_dialled() {
    let (relay, inside) = (FakeRelay::start().await, FakeRelay::start().await);
    let location: &'static str = Box::leak(format!("location: {}/listen\r\n", inside.url).into_boxed_str());
    for status in [301, 302, 303, 307, 308] {
        for path in ["/listen", "/ack"] {
            relay.script(path, [Script::Answer(status, location, String::new())]);
        }
    }
    let mut south = listen(&relay);
    for _ in 0..5 {
        assert!(south.lost().await.contains("redirect"));
    }
    south.connected().await;
    relay.store(&did(2), item(1, 2, "hello"));
    relay.until(|state| state.acked.len() == 1).await;
    assert_eq!(relay.requests("/ack").len(), 6);
    assert!(inside.state().log.is_empty());
}

#[tokio::test]
async fn a_clock_that_is_nowhere_near_is_survived() {
    let relay = FakeRelay::start().await;
    let clocks = ["0", "-1", "-9007199254740991", "9007199254740991", "1e300", "9223372036854775807", "\"now\""];
    let refusals = clocks.iter().flat_map(|now| {
        let no = json_answer(401, &format!(r#"{{"error":{{"message":"no","data":{{"now":{now}}}}}}}"#));
        [no.clone(), no]
    });
    relay.script("/listen", refusals);
    let mut south = listen(&relay);
    south.connected().await;
    relay.store(&did(2), item(1, 2, "hello"));
    south.inbox.until(|heard| heard.texts() == ["hello"]).await;
}

#[tokio::test]
async fn a_relay_that_always_promises_more_is_believed_what_it_hands_out() {
    let relay = FakeRelay::start().await;
    let copies =
        format!(r#"{{"items":[{}],"more":true}}"#, [item_json("q1", "hello"), item_json("q2", "you")].join(","));
    relay.script("/listen", [json_answer(200, &copies), json_answer(200, r#"{"items":[],"more":true}"#)]);
    let drained = transport(2).at(place(&relay, 1), None).drain(Arc::new(inbox())).await.unwrap();
    assert_eq!((drained.handled, drained.left, relay.requests("/listen").len()), (2, 0, 2));
}

#[tokio::test]
async fn a_relay_that_hands_out_what_was_acknowledged_for_ever_is_left() {
    let relay = FakeRelay::start().await;
    let same = format!(r#"{{"items":[{}],"more":true}}"#, item_json("q1", "hello"));
    relay.script("/listen", vec![json_answer(200, &same); 10_000]);
    let south = Arc::new(inbox());
    let listener = Arc::clone(&south) as Arc<dyn Service>;
    transport(2).at(place(&relay, 1), None).drain(listener).await.unwrap();
    assert!(relay.requests("/listen").len() < 100 && south.heard().letters.len() < 100);
}

fn item_json(qid: &str, text: &str) -> String {
    Item { qid: qid.to_owned(), ..item(1, 2, text) }.to_value().to_json()
}
