//! Epochs, presence, answers, events.
use std::sync::Arc;

use muretai_protocol::UnixSeconds;
use muretai_store::mailboxes::{EpochClaim, Event, Mailboxes, NewLetter, Presence, Quotas};
use tokio::sync::mpsc;

use crate::place::{NOW, Place, all, did, letter, stored};

pub(crate) async fn the_newest_epoch_has_the_mailbox(place: Place) {
    let store = place.open(Quotas::default()).await;
    let claim = async |epoch: &str| store.claim(&did(1), epoch, NOW).await.unwrap();
    let ack = async |epoch: &str| store.ack(&did(1), epoch, &[], false).await.unwrap();
    assert_eq!(claim("1700000000000-0000000005").await, EpochClaim::Current);
    assert_eq!(claim("1700000000000-0000000005").await, EpochClaim::Current, "an equal one is current");
    assert_eq!(claim("1700000000000-0000000004").await, EpochClaim::Superseded);
    assert_eq!(claim("1700000000001-0000000001").await, EpochClaim::Current);
    assert_eq!(claim("1700000000000-0000000005").await, EpochClaim::Superseded);
    let qid = stored(&*store, letter(1, 2, "a")).await;
    assert_eq!(store.ack(&did(1), "1700000000000-0000000005", &[qid], true).await.unwrap(), None);
    assert_eq!(all(&*store, 1).await.letters.len(), 1, "a superseded listener deletes nothing");
    assert_eq!(store.ack(&did(1), "1700000000001-0000000001", &[qid], true).await.unwrap(), Some(1));
    // Compared byte by byte, whatever language the database speaks.
    assert_eq!(claim("A").await, EpochClaim::Current);
    assert_eq!(claim("a").await, EpochClaim::Current);
    assert_eq!(claim("B").await, EpochClaim::Superseded);
    assert_eq!(claim("a-").await, EpochClaim::Current);
    assert_eq!(claim("a b").await, EpochClaim::Superseded);
    // Who acknowledges proves an epoch as well.
    assert_eq!(ack("b").await, Some(0));
    assert_eq!(claim("a-").await, EpochClaim::Superseded);
    assert_eq!(store.claim(&did(2), "0", NOW).await.unwrap(), EpochClaim::Current, "mailboxes are apart");
}

pub(crate) async fn many_claims_leave_the_greatest(place: Place) {
    let first: Arc<dyn Mailboxes> = place.open(Quotas::default()).await.into();
    let second: Arc<dyn Mailboxes> =
        if place.is_shared() { place.open(Quotas::default()).await.into() } else { first.clone() };
    let calls: Vec<_> = (0..100_u32)
        .map(|n| {
            let store = if n % 2 == 0 { first.clone() } else { second.clone() };
            let epoch = format!("{:013}-1", n * 37 % 101);
            tokio::spawn(async move { store.claim(&did(n % 2 + 1), &epoch, NOW).await.unwrap() })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    for store in [first, second] {
        for n in [1, 2] {
            let greatest = (0..100_u32).filter(|m| m % 2 + 1 == n).map(|m| m * 37 % 101).max().unwrap();
            let claim = async |epoch: u32| store.claim(&did(n), &format!("{epoch:013}-1"), NOW).await.unwrap();
            assert_eq!(claim(greatest - 1).await, EpochClaim::Superseded);
            assert_eq!(claim(greatest).await, EpochClaim::Current);
        }
    }
}

pub(crate) async fn are_online_until_they_say_otherwise(place: Place) {
    let store = place.open(Quotas::default()).await;
    let other = if place.is_shared() { Some(place.open(Quotas::default()).await) } else { None };
    let seen_by = other.as_deref().unwrap_or(&*store);
    let unknown = Presence { is_online: false, last_seen: None };
    assert_eq!(store.presence(&did(1), NOW).await.unwrap(), unknown);
    for n in [1, 2] {
        store.claim(&did(n), "e", NOW).await.unwrap();
    }
    store.set_online(&[(did(1), true), (did(2), true)], NOW).await.unwrap();
    assert!(seen_by.presence(&did(1), NOW).await.unwrap().is_online);
    store.set_online(&[], NOW).await.unwrap();
    let later = UnixSeconds(NOW.0 + 9);
    store.set_online(&[(did(1), false), (did(2), true)], later).await.unwrap();
    assert_eq!(seen_by.presence(&did(1), NOW).await.unwrap(), Presence { is_online: false, last_seen: Some(later) });
    assert!(seen_by.presence(&did(2), NOW).await.unwrap().is_online);
    // The last word counts, and a second one changes nothing.
    store.set_online(&[(did(2), false), (did(2), true), (did(1), false)], NOW).await.unwrap();
    assert!(store.presence(&did(2), NOW).await.unwrap().is_online);
    store.set_online(&[(did(2), false)], UnixSeconds(NOW.0 + 20)).await.unwrap();
    let presence = seen_by.presence(&did(2), NOW).await.unwrap();
    assert_eq!(presence, Presence { is_online: false, last_seen: Some(UnixSeconds(NOW.0 + 20)) });
    if let Some(other) = &other {
        // Waiting at two processes: gone when both say so.
        store.set_online(&[(did(1), true)], NOW).await.unwrap();
        other.set_online(&[(did(1), true)], NOW).await.unwrap();
        store.set_online(&[(did(1), false)], NOW).await.unwrap();
        assert!(store.presence(&did(1), NOW).await.unwrap().is_online);
        other.close().await;
        assert!(!store.presence(&did(1), NOW).await.unwrap().is_online);
    }
}

fn awaited(id: &str, until: i64) -> NewLetter {
    NewLetter { awaited_until: Some(UnixSeconds(until)), ..letter(1, 2, id) }
}

pub(crate) async fn an_answer_is_taken_once(place: Place) {
    let store = place.open(Quotas::default()).await;
    let qid = stored(&*store, awaited("a", NOW.0 + 10)).await;
    assert_eq!(store.take_answer(qid).await.unwrap(), None);
    assert!(store.put_answer(&did(1), qid, "first", NOW).await.unwrap());
    assert!(store.put_answer(&did(1), qid, "second", NOW).await.unwrap(), "asked again because the answer was lost");
    assert_eq!(store.take_answer(qid).await.unwrap().as_deref(), Some("second"));
    assert_eq!(store.take_answer(qid).await.unwrap(), None);

    // One that nobody takes goes in the end.
    let qid = stored(&*store, awaited("b", NOW.0 + 10)).await;
    assert!(store.put_answer(&did(1), qid, "x", NOW).await.unwrap());
    store.sweep(UnixSeconds(NOW.0 + 59)).await.unwrap();
    assert!(store.put_answer(&did(1), qid, "y", NOW).await.unwrap());
    store.sweep(UnixSeconds(NOW.0 + 60)).await.unwrap();
    assert_eq!(store.take_answer(qid).await.unwrap(), None);
}

pub(crate) async fn nobody_answers_what_is_not_awaited(place: Place) {
    let store = place.open(Quotas::default()).await;
    let put = async |n: u32, qid: i64, now: i64| store.put_answer(&did(n), qid, "x", UnixSeconds(now)).await.unwrap();
    let plain = stored(&*store, letter(1, 2, "plain")).await;
    let waits = stored(&*store, awaited("waits", NOW.0 + 10)).await;
    assert!(!put(1, plain, NOW.0).await);
    assert!(!put(3, waits, NOW.0).await, "another's letter");
    assert!(!put(1, waits + 1_000, NOW.0).await);
    assert!(!put(1, waits, NOW.0 + 11).await, "too late");
    assert_eq!(store.take_answer(waits).await.unwrap(), None);
    // Deposited again by one who waits.
    store.deposit(awaited("plain", NOW.0 + 5)).await.unwrap();
    assert!(put(1, plain, NOW.0 + 5).await);
    // Given up: what was left goes with it.
    store.stop_waiting(&did(3), plain).await.unwrap();
    assert_eq!(all(&*store, 1).await.letters[0].awaited_until, Some(UnixSeconds(NOW.0 + 5)), "not by another");
    assert!(put(1, plain, NOW.0).await);
    store.stop_waiting(&did(1), plain).await.unwrap();
    store.stop_waiting(&did(1), 123_456).await.unwrap();
    assert_eq!(all(&*store, 1).await.letters[0].awaited_until, None);
    assert!(!put(1, plain, NOW.0).await);
    assert_eq!(store.take_answer(plain).await.unwrap(), None);
    // Acknowledged: it is not there any more.
    store.ack(&did(1), "e", &[waits], false).await.unwrap();
    assert!(!put(1, waits, NOW.0).await);
}

/// The next events, without what the opening may have said.
async fn next(events: &mut mpsc::Receiver<Event>, count: usize) -> Vec<Event> {
    let mut seen = Vec::new();
    while seen.len() < count {
        match events.recv().await.unwrap() {
            Event::Resync => {}
            event => seen.push(event),
        }
    }
    seen
}

pub(crate) async fn hear_of_what_happens(place: Place) {
    let store = place.open(Quotas::default()).await;
    let other = if place.is_shared() { Some(place.open(Quotas::default()).await) } else { None };
    let mut own = store.events();
    assert!(store.events().recv().await.is_none(), "taken once");
    let mut others = other.as_ref().map(|other| other.events());

    let qid = stored(&*store, awaited("a", NOW.0 + 10)).await;
    store.deposit(awaited("a", NOW.0 + 10)).await.unwrap();
    store.claim(&did(1), "e 1,%", NOW).await.unwrap();
    store.claim(&did(1), "e 1,%", NOW).await.unwrap();
    store.claim(&did(1), "a", NOW).await.unwrap();
    store.put_answer(&did(1), qid, "x", NOW).await.unwrap();
    store.ack(&did(1), "e 1,%", &[qid], true).await.unwrap();
    let told = [Event::Letter(did(1)), Event::Epoch(did(1), "e 1,%".to_owned()), Event::Answered(qid)];
    assert_eq!(next(&mut own, 3).await, told);
    if let (Some(other), Some(others)) = (&other, &mut others) {
        assert_eq!(next(others, 4).await, [&told[..], &[Event::Acked(did(1), vec![qid])]].concat());
        // Many at once, in pieces as large as the database takes.
        let qids: Vec<_> = (0..3_000).map(|n| qid + n).collect();
        for n in 0..500 {
            stored(&**other, letter(n, 3, "b")).await;
        }
        other.ack(&did(1), "e 1,%", &qids, true).await.unwrap();
        let mut heard = next(&mut own, 501).await;
        let Some(Event::Acked(whose, acked)) = heard.pop() else { panic!("{:?}", heard.last()) };
        assert_eq!((whose, acked.len()), (did(1), 1), "only what there was");
        assert!(heard.iter().enumerate().all(|(n, event)| *event == Event::Letter(did(n as u32))));
        other.close().await;
    }
    store.close().await;
}
