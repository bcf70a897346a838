//! A listener at an honest relay: what it hands over, acknowledges, and how it begins and ends.
use std::collections::HashSet;

use muretai_protocol::relay::Item;
use muretai_transports::{Delivery, Postmark, Transport as _, TransportError, Way, relay::ListenEvent};

use crate::{
    common::{
        deliver, did, enc_pub, inbox, item, keys_that_know, listen, listen_with, peer, place, slow_inbox, times,
        transport, transport_of,
    },
    fake::{FakeRelay, Script, event, json_answer},
};

#[tokio::test]
async fn letters_are_handed_over_and_acknowledged() {
    let relay = FakeRelay::start().await;
    deliver(&transport(1), &peer(2, &relay), "before".into()).await.unwrap();
    let mut south = listen(&relay);
    south.connected().await;
    deliver(&transport(1), &peer(2, &relay), "while".into()).await.unwrap();
    let heard = south.inbox.until(|heard| heard.letters.len() == 2).await;
    assert_eq!(heard.texts(), ["before", "while"]);
    let Way::Mailbox(postmark) = &heard.letters[0].1 else { panic!() };
    let expected = Postmark {
        relay: relay.url.clone(),
        qid: "q1".to_owned(),
        id: postmark.id.clone(),
        from: did(1).to_string(),
        enc_pub: Some(enc_pub(1)),
        ts: 1_784_273_700,
    };
    assert_eq!(*postmark, expected);
    relay.until(|state| state.acked == ["q1", "q2"]).await;
    south.until(|event| *event == ListenEvent::Handled(2)).await;
}

#[tokio::test]
async fn hybrid_letters_open() {
    let relay = FakeRelay::start().await;
    let south = listen(&relay);
    let mut peer = peer(2, &relay);
    peer.mailbox.as_mut().unwrap().enc_pub_pq = Some(crate::common::keys(2).sealing.enc_pub_pq());
    deliver(&transport(1), &peer, "hybrid".into()).await.unwrap();
    assert_eq!(south.inbox.until(|heard| !heard.letters.is_empty()).await.texts(), ["hybrid"]);
}

#[tokio::test]
async fn relays_without_streams_are_polled() {
    let relay = FakeRelay::start().await;
    for answers_anyway in [true, false] {
        relay.state().knows_no_streams = true;
        if !answers_anyway {
            relay.script("/listen", [json_answer(405, "{}")]);
        }
        let mut south = listen_with(transport(2), place(&relay, 1 + u64::from(!answers_anyway)), inbox());
        south.connected().await;
        for text in ["first", "second"] {
            relay.store(&did(2), item(1, 2, text));
            south.inbox.until(|heard| heard.texts().last() == Some(&text)).await;
        }
        south.stop.stop();
        south.ended().await.unwrap();
    }
}

#[tokio::test]
async fn who_wants_polls_alone_gets_no_stream() {
    let relay = FakeRelay::start().await;
    let mut place = place(&relay, 1);
    place.poll_only = true;
    let mut south = listen_with(transport(2), place, inbox());
    south.connected().await;
    relay.store(&did(2), item(1, 2, "polled"));
    south.inbox.until(|heard| heard.texts() == ["polled"]).await;
    assert!(relay.requests("/listen").iter().all(|seen| seen.accept == "application/json"));
}

#[tokio::test]
async fn every_connection_has_the_same_epoch_and_a_token_of_its_own_time() {
    let relay = FakeRelay::start().await;
    relay.script("/listen", [Script::Cut, Script::Raw(crate::fake::STREAM.into()), Script::Cut]);
    let mut south = listen(&relay);
    south.lost().await;
    south.lost().await;
    south.lost().await;
    south.connected().await;
    let seen = relay.requests("/listen");
    let epochs: HashSet<_> = seen.iter().map(|seen| &seen.query["epoch"]).collect();
    assert!(seen.len() >= 4 && epochs.len() == 1);
}

#[tokio::test]
async fn a_goodbye_is_followed_by_a_new_connection() {
    let relay = FakeRelay::start().await;
    let bye = format!("{}{}", crate::fake::STREAM, event("bye", "{}"));
    relay.script("/listen", [Script::Raw(bye.clone().into()), Script::Raw(bye.into())]);
    let mut south = listen(&relay);
    for _ in 0..3 {
        // Not lost in between.
        assert_eq!(south.events.recv().await, Some(ListenEvent::Connected));
    }
}

#[tokio::test]
async fn a_letter_in_hand_is_not_handed_over_twice() {
    let relay = FakeRelay::start().await;
    let south = listen_with(transport(2), place(&relay, 1), slow_inbox());
    relay.store(&did(2), item(1, 2, "slow"));
    south.inbox.entered.notified().await;
    relay.redeliver();
    relay.store(&did(2), item(3, 2, "marker"));
    south.inbox.until(|heard| heard.texts() == ["marker"]).await;
    south.inbox.release.notify_one();
    let heard = south.inbox.until(|heard| heard.letters.len() == 2).await;
    assert_eq!(heard.texts(), ["marker", "slow"]);
    relay.until(|state| state.acked.len() == 2).await;
    assert_eq!(south.inbox.heard().letters.len(), 2);
}

#[tokio::test]
async fn one_sender_waits_for_nobody_but_itself() {
    let relay = FakeRelay::start().await;
    let south = listen_with(transport(2), place(&relay, 1), slow_inbox());
    for (from, text) in [(1, "slow"), (1, "behind"), (3, "aside"), (4, "elsewhere")] {
        relay.store(&did(2), item(from, 2, text));
    }
    south.inbox.entered.notified().await;
    let heard = south.inbox.until(|heard| heard.letters.len() == 2).await;
    assert_eq!(heard.texts().into_iter().collect::<HashSet<_>>(), ["aside", "elsewhere"].into());
    south.inbox.release.notify_one();
    let heard = south.inbox.until(|heard| heard.letters.len() == 4).await;
    assert_eq!(heard.texts()[2..], ["slow", "behind"]);
}

#[tokio::test]
async fn what_cannot_be_taken_now_is_tried_again_in_order_and_acknowledged_late() {
    let relay = FakeRelay::start().await;
    let inbox = inbox();
    inbox.not_now.lock().unwrap().insert("first".to_owned(), 3);
    let south = listen_with(transport(2), place(&relay, 1), inbox);
    for text in ["first", "second"] {
        relay.store(&did(2), item(1, 2, text));
    }
    relay.store(&did(2), item(3, 2, "other"));
    let heard = south.inbox.until(|heard| heard.letters.len() == 3).await;
    assert_eq!(heard.refused, ["first", "first", "first"]);
    let order: Vec<_> = heard.texts().into_iter().filter(|text| *text != "other").collect();
    assert_eq!(order, ["first", "second"]);
    relay.until(|state| state.acked.len() == 3).await;
    let acked = relay.state().acked.clone();
    assert!(acked.iter().position(|qid| qid == "q1") < acked.iter().position(|qid| qid == "q2"));
}

#[tokio::test]
async fn letters_that_do_not_open_are_noted_acknowledged_and_no_obstacle() {
    let relay = FakeRelay::start().await;
    let inbox = inbox();
    inbox.not_now.lock().unwrap().insert("unopened".to_owned(), 1);
    let south = listen_with(transport(2), place(&relay, 1), inbox);
    let good = item(1, 2, "good");
    for poison in [
        Item { blob: "AAAA".to_owned(), ..good.clone() },
        Item { blob: "no base64".to_owned(), ..good.clone() },
        Item { blob: String::new(), ..good.clone() },
        Item { from_enc: None, ..good.clone() },
        Item { from_enc: Some(enc_pub(3)), ..good.clone() },
        Item { blob: "A".repeat(1_048_580), ..good.clone() },
    ] {
        relay.store(&did(2), poison);
    }
    relay.store(&did(2), good);
    let heard = south.inbox.until(|heard| heard.letters.len() == 1).await;
    let reasons: Vec<String> = heard.unopened.iter().map(|letter| format!("{:?}", letter.reason)).collect();
    assert_eq!(reasons[..5], ["DoesNotOpen"; 5]);
    assert_eq!(reasons[5], "TooLarge");
    assert_eq!(heard.unopened[5].bytes, 1_048_580);
    relay.until(|state| state.acked.len() == 7).await;
}

#[tokio::test]
async fn the_key_that_is_known_comes_before_the_one_on_the_letter() {
    let relay = FakeRelay::start().await;
    // Agent 1 is known to have this key; agent 3 has changed its key, and its letters say so.
    let keys = keys_that_know(2, &[(1, enc_pub(1)), (3, enc_pub(9))]);
    let south = listen_with(transport_of(keys, times()), place(&relay, 1), inbox());
    let forged_hint = Item { from_enc: Some(enc_pub(7)), ..item(1, 2, "known") };
    let no_hint = Item { from_enc: None, ..item(1, 2, "known too") };
    for item in [forged_hint, no_hint, item(3, 2, "new key")] {
        relay.store(&did(2), item);
    }
    let heard = south.inbox.until(|heard| heard.letters.len() == 3).await;
    for (text, way) in &heard.letters {
        let Way::Mailbox(postmark) = way else { panic!() };
        let key = if text == "new key" { enc_pub(3) } else { enc_pub(1) };
        assert_eq!(postmark.enc_pub, Some(key), "{text}");
    }
}

#[tokio::test]
async fn a_stop_finishes_what_is_under_way_and_leaves_the_rest() {
    let relay = FakeRelay::start().await;
    let mut south = listen_with(transport(2), place(&relay, 1), slow_inbox());
    for text in ["slow", "behind"] {
        relay.store(&did(2), item(1, 2, text));
    }
    south.inbox.entered.notified().await;
    south.stop.stop();
    relay.until(|state| !state.is_listening(&did(2))).await;
    south.inbox.release.notify_one();
    south.ended().await.unwrap();
    assert_eq!(south.inbox.heard().texts(), ["slow"]);
    assert_eq!(relay.state().acked, ["q1"]);
    assert_eq!(relay.letters(), 1);
    // Whoever listens next gets the rest, once.
    let south = listen_with(transport(2), place(&relay, 2), inbox());
    assert_eq!(south.inbox.until(|heard| !heard.letters.is_empty()).await.texts(), ["behind"]);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_what_cannot_be_taken_or_acknowledged() {
    let relay = FakeRelay::start().await;
    relay.script("/ack", vec![json_answer(503, "{}"); 50]);
    let inbox = inbox();
    inbox.not_now.lock().unwrap().insert("never".to_owned(), u32::MAX);
    let mut south = listen_with(transport(2), place(&relay, 1), inbox);
    relay.store(&did(2), item(1, 2, "never"));
    relay.store(&did(2), item(3, 2, "taken"));
    south.inbox.until(|heard| heard.letters.len() == 1 && !heard.refused.is_empty()).await;
    south.stop.stop();
    south.ended().await.unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_as_long_as_a_relay_asks_for() {
    let relay = FakeRelay::start().await;
    relay.script("/ack", vec![Script::Answer(429, "retry-after: 3600\r\n", "{}".to_owned()); 2]);
    let mut south = listen(&relay);
    relay.store(&did(2), item(1, 2, "hello"));
    relay.until(|state| state.log.iter().any(|seen| seen.path == "/ack")).await;
    south.stop.stop();
    south.ended().await.unwrap();
}

#[tokio::test]
async fn a_listener_that_was_stopped_before_does_nothing() {
    let relay = FakeRelay::start().await;
    let transport = transport(2).at(place(&relay, 1), None);
    let stop = muretai_transports::Stop::new();
    stop.stop();
    transport.listen(std::sync::Arc::new(inbox()), stop).await.unwrap();
}

#[tokio::test]
async fn without_a_place_there_is_nothing_to_listen_at() {
    let stop = muretai_transports::Stop::new();
    let error = transport(2).listen(std::sync::Arc::new(inbox()), stop).await.unwrap_err();
    assert!(matches!(error, TransportError::NotBound));
}

#[tokio::test]
async fn of_two_listeners_the_newer_stays() {
    let relay = FakeRelay::start().await;
    let mut older = listen_with(transport(2), place(&relay, 1), inbox());
    older.connected().await;
    let mut newer = listen_with(transport(2), place(&relay, 2), inbox());
    newer.connected().await;
    let error = older.ended().await.unwrap_err();
    assert!(matches!(&error, TransportError::Superseded { relay: at } if *at == relay.url), "{error:?}");
    // It does not come back under another name.
    let mut late = listen_with(transport(2), place(&relay, 1), inbox());
    assert!(matches!(late.ended().await, Err(TransportError::Superseded { .. })));
    deliver(&transport(1), &peer(2, &relay), "hello".into()).await.unwrap();
    newer.inbox.until(|heard| heard.texts() == ["hello"]).await;
    let epochs: HashSet<_> = relay.requests("/listen").into_iter().map(|seen| seen.query["epoch"].clone()).collect();
    assert_eq!(epochs.len(), 2);
}

#[tokio::test]
async fn a_poll_that_waits_is_superseded_too() {
    let relay = FakeRelay::start().await;
    let mut place_of_older = place(&relay, 1);
    place_of_older.poll_only = true;
    let mut older = listen_with(transport(2), place_of_older, inbox());
    older.connected().await;
    relay.until(|state| state.is_listening(&did(2))).await;
    let _newer = listen_with(transport(2), place(&relay, 2), inbox());
    assert!(matches!(older.ended().await, Err(TransportError::Superseded { .. })));
}

#[tokio::test]
async fn an_acknowledgement_may_be_the_first_to_learn_of_a_newer_listener() {
    let relay = FakeRelay::start().await;
    relay.script("/ack", [json_answer(409, r#"{"error":{"code":-32030,"message":"superseded"}}"#)]);
    let mut south = listen(&relay);
    relay.store(&did(2), item(1, 2, "hello"));
    assert!(matches!(south.ended().await, Err(TransportError::Superseded { .. })));
    assert_eq!(south.inbox.heard().texts(), ["hello"]);
}

#[tokio::test]
async fn failed_acknowledgements_are_repeated() {
    let relay = FakeRelay::start().await;
    relay.script(
        "/ack",
        [
            Script::Answer(429, "retry-after: 0\r\n", r#"{"error":"slowly"}"#.to_owned()),
            json_answer(503, "{}"),
            Script::Cut,
            json_answer(500, "<html>"),
        ],
    );
    let south = listen(&relay);
    relay.store(&did(2), item(1, 2, "hello"));
    relay.until(|state| state.acked == ["q1"]).await;
    relay.redeliver();
    assert_eq!(relay.requests("/ack").len(), 5);
    assert_eq!(south.inbox.heard().texts(), ["hello"]);
}

#[tokio::test]
async fn a_relay_with_another_clock_is_followed() {
    for ahead_secs in [3_600, -3_600] {
        let relay = FakeRelay::start().await;
        relay.state().ahead_secs = ahead_secs;
        relay.state().knows_no_streams = ahead_secs < 0;
        let mut south = listen(&relay);
        south.connected().await;
        relay.store(&did(2), item(1, 2, "hello"));
        relay.until(|state| state.acked.len() == 1).await;
        let refused = relay.requests("/listen").len();
        assert!((2..=4).contains(&refused), "one token was refused, and no more: {refused}");
        assert_eq!(relay.requests("/ack").len(), 1);
    }
}

#[tokio::test]
async fn answers_come_back_while_letters_wait() {
    let relay = FakeRelay::start().await;
    let south = listen_with(transport(2), place(&relay, 1), slow_inbox());
    relay.store(&did(2), item(3, 2, "slow"));
    south.inbox.entered.notified().await;
    let north = transport_of(crate::common::keys(1), crate::common::waiting());
    let answer = deliver(&north, &peer(2, &relay), "quick".into()).await.unwrap();
    assert!(matches!(answer, Delivery::Answered(body) if &body[..] == b"re: quick"));
    south.inbox.release.notify_one();
}
