//! Bounds are exact: never over, never before, and nobody else's.
use std::sync::Arc;

use muretai_store::mailboxes::{Bound, Deposited, Mailboxes, NewLetter, Quotas};

use crate::place::{NOW, Place, all, did, letter, stored};

async fn is_full(store: &dyn Mailboxes, letter: NewLetter, bound: Bound) {
    assert_eq!(store.deposit(letter).await.unwrap(), Deposited::Full(bound));
}

fn small() -> Quotas {
    Quotas { mailbox_letters: 5, mailbox_bytes: 1_000, sender_letters: 3, ..Quotas::default() }
}

fn weighing(bytes: usize, letter: NewLetter) -> NewLetter {
    NewLetter { blob: "x".repeat(bytes), ..letter }
}

pub(crate) async fn each_is_named_and_harms_nobody_else(place: Place) {
    let store = place.open(small()).await;
    for n in 0..3 {
        stored(&*store, letter(1, 2, n.to_string())).await;
    }
    is_full(&*store, letter(1, 2, "more"), Bound::SenderLetters).await;
    stored(&*store, letter(9, 2, "elsewhere")).await;
    stored(&*store, letter(1, 3, "a")).await;
    stored(&*store, letter(1, 3, "b")).await;
    is_full(&*store, letter(1, 4, "a"), Bound::MailboxLetters).await;
    assert_eq!(all(&*store, 1).await.letters.len(), 5);

    stored(&*store, weighing(600, letter(5, 1, "a"))).await;
    is_full(&*store, weighing(401, letter(5, 2, "b")), Bound::MailboxBytes).await;
    stored(&*store, weighing(300, letter(5, 3, "c"))).await;
    stored(&*store, weighing(100, letter(5, 4, "d"))).await;
    is_full(&*store, weighing(1, letter(5, 5, "e")), Bound::MailboxBytes).await;
    stored(&*store, weighing(1_000, letter(6, 5, "e"))).await;
    is_full(&*store, weighing(1_001, letter(7, 5, "e")), Bound::MailboxBytes).await;
    assert_eq!(all(&*store, 5).await.letters.len(), 3);
}

pub(crate) async fn what_is_acknowledged_makes_room(place: Place) {
    let store = place.open(small()).await;
    for round in 0..10 {
        for n in 0..3 {
            stored(&*store, weighing(300, letter(1, 2, format!("{round}-{n}")))).await;
        }
        is_full(&*store, letter(1, 2, "more"), Bound::SenderLetters).await;
        is_full(&*store, weighing(200, letter(1, 3, "more")), Bound::MailboxBytes).await;
        let qids: Vec<_> = all(&*store, 1).await.letters.iter().map(|letter| letter.qid).collect();
        assert_eq!(store.ack(&did(1), "e", &qids, false).await.unwrap(), Some(3));
    }
}

pub(crate) async fn hold_when_many_deposit_at_once(place: Place) {
    let quotas = Quotas { mailbox_letters: 40, sender_letters: 7, ..Quotas::default() };
    let first: Arc<dyn Mailboxes> = place.open(quotas.clone()).await.into();
    let second: Arc<dyn Mailboxes> = if place.is_shared() { place.open(quotas).await.into() } else { first.clone() };
    let calls: Vec<_> = (0..640_u32)
        .map(|n| {
            let store = if n % 2 == 0 { first.clone() } else { second.clone() };
            // One sender of mailbox 1 alone, many of mailbox 2.
            let one = if n % 4 < 2 { letter(1, 5, n.to_string()) } else { letter(2, n % 37, n.to_string()) };
            tokio::spawn(async move { (n % 4 < 2, store.deposit(one).await.unwrap()) })
        })
        .collect();
    let mut seen = [0; 2];
    for call in calls {
        match call.await.unwrap() {
            (to_1, Deposited::Stored(_)) => seen[usize::from(to_1)] += 1,
            (true, outcome) => assert_eq!(outcome, Deposited::Full(Bound::SenderLetters)),
            (false, Deposited::Full(Bound::SenderLetters | Bound::MailboxLetters)) => {}
            (false, outcome) => panic!("{outcome:?}"),
        }
    }
    assert_eq!(seen, [40, 7]);
    assert_eq!(all(&*first, 1).await.letters.len(), 7);
    assert_eq!(all(&*second, 2).await.letters.len(), 40);
}

pub(crate) async fn total_bytes_hold_when_many_deposit_at_once(place: Place) {
    // Each letter costs 400 bytes more than its box.
    let quotas = Quotas { total_bytes: 50_000, ..Quotas::default() };
    let first: Arc<dyn Mailboxes> = place.open(quotas.clone()).await.into();
    let second: Arc<dyn Mailboxes> = if place.is_shared() { place.open(quotas).await.into() } else { first.clone() };
    let calls: Vec<_> = (0..200_u32)
        .map(|n| {
            let store = if n % 2 == 0 { first.clone() } else { second.clone() };
            tokio::spawn(async move { store.deposit(weighing(600, letter(n, n, "a"))).await.unwrap() })
        })
        .collect();
    let mut taken = Vec::new();
    for (n, call) in calls.into_iter().enumerate() {
        match call.await.unwrap() {
            Deposited::Stored(qid) => taken.push((n as u32, qid)),
            outcome => assert_eq!(outcome, Deposited::Full(Bound::TotalBytes)),
        }
    }
    assert_eq!(taken.len(), 50);
    let counts = second.counts().await.unwrap();
    assert_eq!((counts.letters, counts.bytes), (50, 30_000));
    let (to, qid) = taken[0];
    assert_eq!(first.claim(&did(to), "e", NOW).await.unwrap(), muretai_store::mailboxes::EpochClaim::Current);
    assert_eq!(first.ack(&did(to), "e", &[qid], false).await.unwrap(), Some(1));
    stored(&*second, weighing(600, letter(900, 1, "a"))).await;
    is_full(&*first, weighing(1, letter(901, 1, "a")), Bound::TotalBytes).await;
}
