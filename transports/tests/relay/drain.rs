//! A mailbox that is emptied once.
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use muretai_protocol::relay::Item;
use muretai_transports::{
    Service, Transport as _, TransportError,
    relay::{Drained, ListenEvent, RelayTransport, Watcher},
};

use crate::{
    common::{did, inbox, item, listen, place, slow_inbox, transport},
    fake::{FakeRelay, Script, json_answer},
};

fn at(relay: &FakeRelay) -> RelayTransport {
    transport(2).at(place(relay, 9), None)
}

fn handled(handled: u64) -> Drained {
    Drained { handled, ..Drained::default() }
}

#[tokio::test]
async fn a_thousand_letters_are_fetched_handled_and_acknowledged() {
    let relay = FakeRelay::start().await;
    for n in 0..1_000_u32 {
        relay.store(&did(2), item((n % 7) as u8 + 10, 2, &format!("letter {n}")));
    }
    let inbox = Arc::new(inbox());
    let told = Arc::new(Mutex::new(Vec::new()));
    let watcher: Watcher = {
        let told = Arc::clone(&told);
        Arc::new(move |event| told.lock().unwrap().push(event.clone()))
    };
    let drained = transport(2).at(place(&relay, 9), Some(watcher)).drain(Arc::clone(&inbox) as _).await.unwrap();
    assert_eq!(drained, handled(1_000));
    assert_eq!((relay.letters(), relay.state().acked.len()), (0, 1_000));
    assert_eq!(told.lock().unwrap().last(), Some(&ListenEvent::Handled(1_000)));
    for lane in 0..7 {
        let heard = inbox.heard();
        let order: Vec<u32> =
            heard.texts().iter().map(|text| text[7..].parse().unwrap()).filter(|n| n % 7 == lane).collect();
        assert!(order.is_sorted() && order.len() >= 142);
    }
    assert!(relay.requests("/listen").len() <= 12 && relay.requests("/ack").len() <= 40);
    assert_eq!(at(&relay).drain(inbox).await.unwrap(), Drained::default());
}

#[tokio::test]
async fn relays_that_repeat_themselves_are_emptied_too() {
    let relay = FakeRelay::start().await;
    relay.state().repeats = true;
    for n in 0..250 {
        relay.store(&did(2), item(1, 2, &n.to_string()));
    }
    let inbox = Arc::new(inbox());
    let drained = at(&relay).drain(Arc::clone(&inbox) as _).await.unwrap();
    assert!(drained.handled >= 250);
    assert_eq!(relay.letters(), 0);
}

#[tokio::test]
async fn what_cannot_be_taken_is_left_and_does_not_loop() {
    for repeats in [false, true] {
        let relay = FakeRelay::start().await;
        relay.state().repeats = repeats;
        let inbox = Arc::new(inbox());
        inbox.not_now.lock().unwrap().insert("full".to_owned(), u32::MAX);
        for (from, text) in [(1, "taken"), (1, "full"), (1, "behind"), (3, "other")] {
            relay.store(&did(2), item(from, 2, text));
        }
        relay.store(&did(2), Item { blob: "AAAA".to_owned(), ..item(4, 2, "") });
        let drained = at(&relay).drain(Arc::clone(&inbox) as _).await.unwrap();
        assert_eq!(drained, Drained { handled: 2, unopened: 1, left: 2 });
        assert_eq!(inbox.heard().refused, ["full"]);
        assert_eq!(relay.letters(), 2);
    }
}

#[tokio::test]
async fn who_waits_gets_the_next_letters_and_no_more() {
    let relay = FakeRelay::start().await;
    let (inbox, transport) = (Arc::new(inbox()), at(&relay));
    let waiting = tokio::spawn({
        let inbox = Arc::clone(&inbox);
        async move { transport.drain_waiting(inbox, Duration::from_secs(60)).await }
    });
    relay.until(|state| state.is_listening(&did(2))).await;
    relay.store(&did(2), item(1, 2, "hello"));
    assert_eq!(waiting.await.unwrap().unwrap(), handled(1));
    assert_eq!(inbox.heard().texts(), ["hello"]);
    assert_eq!(relay.letters(), 0);
}

#[tokio::test]
async fn nothing_comes_and_the_wait_ends() {
    let relay = FakeRelay::start().await;
    // It says at once that there is nothing, whatever it was asked.
    relay.script("/listen", vec![json_answer(200, r#"{"items":[]}"#); 1_000]);
    let drained = at(&relay).drain_waiting(Arc::new(inbox()), Duration::from_millis(20)).await.unwrap();
    assert_eq!(drained, Drained::default());
}

#[tokio::test]
async fn a_failure_ends_it_after_what_was_fetched_is_safe() {
    let relay = FakeRelay::start().await;
    relay.script("/listen", [Script::Honest, json_answer(500, "{}")]);
    relay.store(&did(2), item(1, 2, "hello"));
    let inbox = Arc::new(inbox());
    let error = at(&relay).drain(Arc::clone(&inbox) as _).await.unwrap_err();
    assert!(matches!(error, TransportError::RelayRefused { status: 500, .. }), "{error:?}");
    assert_eq!(inbox.heard().texts(), ["hello"]);
    assert_eq!(relay.letters(), 0);
}

#[tokio::test]
async fn acknowledgements_that_fail_do_not_undo_what_was_taken() {
    let relay = FakeRelay::start().await;
    relay.script("/ack", vec![json_answer(503, "{}"); 50]);
    relay.store(&did(2), item(1, 2, "hello"));
    assert_eq!(at(&relay).drain(Arc::new(inbox())).await.unwrap(), handled(1));
    assert_eq!(relay.letters(), 1);
}

/// What stands in a network that wants somebody to log in, for every path.
const PORTAL: &str = "<html><title>Welcome</title>Please accept our terms.</html>";

#[tokio::test]
async fn a_portal_that_says_yes_to_everything_empties_no_mailbox_and_acknowledges_nothing() {
    for body in [PORTAL, "", "{}", "[]", r#"{"items":{}}"#, r#"{"ok":true}"#] {
        let relay = FakeRelay::start().await;
        relay.store(&did(2), item(1, 2, "hello"));
        relay.script("/listen", [json_answer(200, body)]);
        let error = at(&relay).drain(Arc::new(inbox())).await.unwrap_err();
        assert!(matches!(error, TransportError::NotARelay { .. }), "{body}: {error:?}");
        assert_eq!(relay.letters(), 1);
    }
    for body in [PORTAL, "", "{}", "7", r#"{"acked":true}"#, r#"{"acked":-1}"#] {
        let relay = FakeRelay::start().await;
        relay.store(&did(2), item(1, 2, "hello"));
        // Twice in its place, then the relay again.
        relay.script("/ack", vec![json_answer(200, body); 2]);
        assert_eq!(at(&relay).drain(Arc::new(inbox())).await.unwrap(), handled(1));
        assert_eq!((relay.letters(), relay.requests("/ack").len()), (0, 3), "{body}");
    }
}

#[tokio::test]
async fn a_relay_that_takes_no_acknowledgement_is_left_with_what_it_has() {
    for (repeats, letters) in [(true, 1), (true, 3_000), (false, 3_000)] {
        let relay = FakeRelay::start().await;
        relay.state().repeats = repeats;
        relay.script("/ack", vec![json_answer(200, PORTAL); 1_000]);
        for n in 0..letters {
            relay.store(&did(2), item(1, 2, &n.to_string()));
        }
        let south = Arc::new(inbox());
        let error = at(&relay).drain(Arc::clone(&south) as Arc<dyn Service>).await.unwrap_err();
        assert!(matches!(error, TransportError::NotARelay { .. }), "{error:?}");
        assert!(!south.heard().letters.is_empty());
        assert_eq!(relay.letters(), letters);
        assert!(relay.requests("/ack").len() < 20);
    }
}

#[tokio::test]
async fn an_older_drainer_learns_that_it_is_one() {
    let relay = FakeRelay::start().await;
    let mut newer = listen(&relay);
    newer.connected().await;
    let transport = transport(2).at(place(&relay, 0), None);
    let error = transport.drain(Arc::new(inbox())).await.unwrap_err();
    assert!(matches!(error, TransportError::Superseded { .. }), "{error:?}");
}

#[tokio::test]
async fn a_drain_that_is_dropped_leaves_its_letters() {
    let relay = FakeRelay::start().await;
    relay.store(&did(2), item(1, 2, "slow"));
    let inbox = Arc::new(slow_inbox());
    let transport = at(&relay);
    tokio::select! {
        _ = transport.drain(Arc::clone(&inbox) as _) => panic!("it must wait"),
        () = inbox.entered.notified() => {}
    }
    assert_eq!(relay.letters(), 1);
    assert_eq!(relay.state().acked.len(), 0);
}

#[tokio::test]
async fn without_a_place_there_is_nothing_to_drain() {
    assert!(matches!(transport(2).drain(Arc::new(inbox())).await, Err(TransportError::NotBound)));
    assert_eq!(transport(2).name(), muretai_transports::TransportName::Relay);
}
