//! Letters come in, wait, and go.
use std::{collections::HashSet, sync::Arc};

use muretai_protocol::UnixSeconds;
use muretai_store::mailboxes::{
    Counts, Deposited, MailboxError, Mailboxes, NewLetter, Qid, Quotas, StoredLetter, Swept,
};

use crate::place::{NOW, Place, all, did, ids, letter, open_soon, stored};

pub(crate) async fn are_kept_until_they_are_acknowledged(place: Place) {
    let store = place.open(Quotas::default()).await;
    assert_eq!(all(&*store, 1).await.letters, []);
    let first = stored(&*store, NewLetter { awaited_until: Some(NOW), ..letter(1, 2, "a") }).await;
    let second = stored(&*store, NewLetter { from_enc: None, ..letter(1, 3, "b") }).await;
    stored(&*store, letter(4, 2, "c")).await;
    assert!(first < second);
    let expected = StoredLetter {
        qid: first,
        id: "a".to_owned(),
        from: did(2).to_string(),
        from_enc: Some("ab".repeat(32)),
        blob: "box of a".to_owned(),
        ts: NOW,
        awaited_until: Some(NOW),
    };
    let fetched = all(&*store, 1).await;
    assert_eq!(fetched.letters[0], expected);
    assert_eq!((fetched.letters.len(), fetched.has_more), (2, false));
    assert_eq!(fetched.letters[1].from_enc, None);
    assert_eq!(all(&*store, 1).await, fetched, "what was fetched stays");

    // Those of others, and those that there are not, are passed over.
    assert_eq!(store.ack(&did(4), "e", &[first, second, -1, i64::MAX], false).await.unwrap(), Some(0));
    assert_eq!(store.ack(&did(1), "e", &[first, first, 77_777], false).await.unwrap(), Some(1));
    assert_eq!(store.ack(&did(1), "e", &[first], true).await.unwrap(), Some(0));
    assert_eq!(store.ack(&did(1), "e", &[], true).await.unwrap(), Some(0));
    assert_eq!(store.ack(&did(99), "e", &[second], true).await.unwrap(), Some(0));
    assert_eq!(ids(&*store, 1).await, ["b"]);
    assert_eq!(ids(&*store, 4).await, ["c"]);
}

pub(crate) async fn a_repeated_deposit_is_one_letter(place: Place) {
    let store: Arc<dyn Mailboxes> = place.open(Quotas { sender_letters: 2, ..Quotas::default() }).await.into();
    let calls: Vec<_> = (0..48)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.deposit(letter(1, 2, "a")).await.unwrap() })
        })
        .collect();
    let mut outcomes = Vec::new();
    for call in calls {
        outcomes.push(call.await.unwrap());
    }
    let qid = ids_of(&*store, 1).await[0];
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Deposited::Stored(qid)).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Deposited::Again(qid)).count(), 47);

    // Another mailbox, another sender, another id: other letters. The box is not looked at.
    stored(&*store, letter(3, 2, "a")).await;
    stored(&*store, letter(1, 4, "a")).await;
    stored(&*store, letter(1, 2, "b")).await;
    let again = NewLetter { blob: "other".to_owned(), awaited_until: Some(UnixSeconds(77)), ..letter(1, 2, "a") };
    assert_eq!(store.deposit(again).await.unwrap(), Deposited::Again(qid), "also when there is no room");
    assert_eq!(store.deposit(letter(1, 2, "a")).await.unwrap(), Deposited::Again(qid));
    let kept = all(&*store, 1).await.letters;
    assert_eq!((kept.len(), kept[0].blob.as_str()), (3, "box of a"));
    assert_eq!(kept[0].awaited_until, Some(UnixSeconds(77)), "that it is awaited now is noted");

    assert_eq!(store.ack(&did(1), "e", &[qid], false).await.unwrap(), Some(1));
    let fresh = stored(&*store, letter(1, 2, "a")).await;
    assert!(fresh > qid, "an acknowledged letter is forgotten, its number is not given again");
}

async fn ids_of(store: &dyn Mailboxes, to: u32) -> Vec<Qid> {
    all(store, to).await.letters.into_iter().map(|letter| letter.qid).collect()
}

pub(crate) async fn are_fetched_within_bounds(place: Place) {
    let store = place.open(Quotas::default()).await;
    let mut qids = Vec::new();
    for n in 0..10 {
        let blob = "x".repeat(if n == 4 { 5_000 } else { 100 });
        qids.push(stored(&*store, NewLetter { blob, ..letter(1, 2, n.to_string()) }).await);
    }
    let fetch = |in_hand: Vec<Qid>, letters, bytes| {
        let store = &store;
        async move {
            let fetched = store.fetch(&did(1), &in_hand, letters, bytes).await.unwrap();
            (fetched.letters.into_iter().map(|letter| letter.qid).collect::<Vec<_>>(), fetched.has_more)
        }
    };
    assert_eq!(fetch(vec![], 3, u64::MAX).await, (qids[..3].to_vec(), true));
    assert_eq!(fetch(vec![], 10, u64::MAX).await, (qids.clone(), false));
    assert_eq!(fetch(vec![], 100, 399).await, (qids[..3].to_vec(), true));
    assert_eq!(fetch(vec![], 100, 400).await, (qids[..4].to_vec(), true), "the next one is too large");
    assert_eq!(fetch(vec![], 4, 400).await, (qids[..4].to_vec(), true));
    assert_eq!(fetch(qids[..4].to_vec(), 100, 0).await, (vec![qids[4]], true), "the first one always");
    assert_eq!(fetch(qids[..4].to_vec(), 100, 5_099).await, (vec![qids[4]], true));
    assert_eq!(fetch(qids[..9].to_vec(), 100, 0).await, (vec![qids[9]], false));
    assert_eq!(fetch(qids[..8].to_vec(), 1, 0).await, (vec![qids[8]], true));
    assert_eq!(fetch(qids[..9].to_vec(), 1, 10).await, (vec![qids[9]], false));
    assert_eq!(fetch(qids.clone(), 100, 1_000).await, (vec![], false));
    assert_eq!(fetch(vec![qids[0], qids[2], 12_345_678], 2, 1_000).await, (vec![qids[1], qids[3]], true));
}

pub(crate) async fn are_fetched_by_many_at_once(place: Place) {
    let store: Arc<dyn Mailboxes> = place.open(Quotas::default()).await.into();
    for n in 0..60 {
        let blob = "x".repeat(n as usize * 10);
        stored(&*store, NewLetter { blob, ..letter(n % 6, n, n.to_string()) }).await;
    }
    // Mailbox 6 is nobody's, and some ask for nothing.
    let asked = |n: u32| (did(n % 7), n / 7 % 5, u64::from(n) * 20);
    let mut one_by_one = Vec::new();
    for n in 0..120 {
        let (did, letters, bytes) = asked(n);
        one_by_one.push(store.fetch(&did, &[i64::from(n)], letters, bytes).await.unwrap());
    }
    let calls: Vec<_> = (0..120)
        .map(|n| {
            let (store, (did, letters, bytes)) = (store.clone(), asked(n));
            tokio::spawn(async move { store.fetch(&did, &[i64::from(n)], letters, bytes).await.unwrap() })
        })
        .collect();
    for (call, expected) in calls.into_iter().zip(one_by_one) {
        assert_eq!(call.await.unwrap(), expected);
    }
}

pub(crate) async fn any_text_comes_back_as_it_was(place: Place) {
    let store = place.open(Quotas::default()).await;
    let texts = ["", "\"'\\%_$1?", "ü日本😀", "a\nb\tc", "{\"a\":[1]}", &"x".repeat(700_000)];
    for (n, text) in texts.iter().enumerate() {
        let odd =
            NewLetter { from_enc: Some((*text).to_owned()), blob: (*text).to_owned(), ..letter(1, n as u32, *text) };
        stored(&*store, odd).await;
    }
    let kept = all(&*store, 1).await.letters;
    assert_eq!(kept.len(), texts.len());
    for (one, text) in kept.iter().zip(texts) {
        assert_eq!((one.id.as_str(), one.blob.as_str(), one.from_enc.as_deref()), (text, text, Some(text)));
    }
}

/// Two stores where the database is shared.
async fn two(place: &Place, quotas: Quotas) -> [Arc<dyn Mailboxes>; 2] {
    let first: Arc<dyn Mailboxes> = place.open(quotas.clone()).await.into();
    let second = if place.is_shared() { place.open(quotas).await.into() } else { first.clone() };
    [first, second]
}

pub(crate) async fn many_depositors_and_listeners_at_once(place: Place) {
    let stores = two(&place, Quotas::default()).await;
    let depositing = (0..64_u32).map(|task| {
        let store = stores[task as usize % 2].clone();
        tokio::spawn(async move {
            for n in 0..20 {
                stored(&*store, letter(n % 7, task, format!("{task}-{n}"))).await;
            }
        })
    });
    let depositing: Vec<_> = depositing.collect();
    let draining = (0..7_u32).map(|to| {
        let store = stores[to as usize % 2].clone();
        tokio::spawn(async move {
            store.claim(&did(to), "e1", NOW).await.unwrap();
            let expected = 64 * (0..20).filter(|n| n % 7 == to).count();
            let mut seen = HashSet::new();
            while seen.len() < expected {
                let fetched = store.fetch(&did(to), &[], 30, 10_000).await.unwrap();
                let qids: Vec<Qid> = fetched.letters.iter().map(|letter| letter.qid).collect();
                assert!(qids.is_sorted());
                assert_eq!(store.ack(&did(to), "e1", &qids, true).await.unwrap(), Some(qids.len() as u64));
                for letter in fetched.letters {
                    assert!(seen.insert(letter.id), "handed out after it was acknowledged");
                }
                tokio::task::yield_now().await;
            }
        })
    });
    let draining: Vec<_> = draining.collect();
    for task in depositing.into_iter().chain(draining) {
        task.await.unwrap();
    }
    for store in &stores {
        let counts = store.counts().await.unwrap();
        assert_eq!(counts, Counts { remembered: counts.remembered, ..Counts::default() });
    }
}

pub(crate) async fn survive_closing_and_keep_their_numbers(place: Place) {
    let store = place.open(Quotas::default()).await;
    let first = stored(&*store, letter(1, 2, "a")).await;
    let last = stored(&*store, letter(1, 2, "b")).await;
    store.claim(&did(1), "e5", NOW).await.unwrap();
    store.ack(&did(1), "e5", &[last], false).await.unwrap();
    store.close().await;

    let store = open_soon(&place.target(), Quotas::default()).await;
    assert_eq!(ids(&*store, 1).await, ["a"]);
    let expected = Counts { letters: 1, bytes: 8, mailboxes: 1, remembered: 1, ..Counts::default() };
    assert_eq!(store.counts().await.unwrap(), expected);
    assert_eq!(store.ack(&did(1), "e4", &[first], false).await.unwrap(), None, "the epoch is remembered");
    assert_eq!(store.deposit(letter(1, 2, "a")).await.unwrap(), Deposited::Again(first));
    assert!(stored(&*store, letter(1, 2, "b")).await > last);
    drop(store);

    let store = open_soon(&place.target(), Quotas::default()).await;
    assert_eq!(ids(&*store, 1).await, ["a", "b"]);
    store.close().await;
}

pub(crate) async fn a_closed_store_says_so(place: Place) {
    let store = place.open(Quotas::default()).await;
    let mut events = store.events();
    stored(&*store, letter(1, 2, "a")).await;
    store.close().await;
    store.close().await;
    let closed = |error: MailboxError| assert!(matches!(error, MailboxError::Closed), "{error:?}");
    closed(store.deposit(letter(1, 2, "b")).await.unwrap_err());
    closed(store.fetch(&did(1), &[], 1, 1).await.unwrap_err());
    closed(store.ack(&did(1), "e", &[1], false).await.unwrap_err());
    closed(store.claim(&did(1), "e", NOW).await.unwrap_err());
    closed(store.set_online(&[(did(1), true)], NOW).await.unwrap_err());
    closed(store.presence(&did(1), NOW).await.unwrap_err());
    closed(store.put_answer(&did(1), 1, "x", NOW).await.unwrap_err());
    closed(store.stop_waiting(&did(1), 1).await.unwrap_err());
    closed(store.take_answer(1).await.unwrap_err());
    closed(store.put_card(&did(1), 1, "x").await.unwrap_err());
    closed(store.card(&did(1)).await.unwrap_err());
    closed(store.put_invite(&did(1), "c", "x", NOW, NOW).await.unwrap_err());
    closed(store.invite("c", NOW).await.unwrap_err());
    closed(store.sweep(NOW).await.unwrap_err());
    closed(store.counts().await.unwrap_err());
    drop(store);
    while events.recv().await.is_some() {}
}

pub(crate) async fn old_ones_are_swept(place: Place) {
    let store = place.open(Quotas::default()).await;
    let later = |seconds: i64| UnixSeconds(NOW.0 + seconds);
    let week = 7 * 86_400;
    for n in 0..1_000 {
        // Not in the order of their times: clocks are set back.
        let ts = later(if n % 3 == 0 { 10 } else { 0 });
        stored(&*store, NewLetter { ts, ..letter(n % 5, n / 5, n.to_string()) }).await;
    }
    store.put_invite(&did(1), "code-a", "a", later(5), NOW).await.unwrap();
    store.put_invite(&did(1), "code-b", "b", later(2 * week), NOW).await.unwrap();
    assert_eq!(store.sweep(later(4)).await.unwrap(), Swept::default());
    assert_eq!(store.sweep(later(week)).await.unwrap(), Swept { letters: 0, invites: 1 });
    assert_eq!(store.sweep(later(week + 1)).await.unwrap(), Swept { letters: 666, invites: 0 });
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.letters, counts.mailboxes, counts.invites), (334, 5, 1));
    // What is gone leaves room, and may be deposited again.
    let kept = ids(&*store, 1).await;
    assert!(!kept.contains(&"1".to_owned()));
    stored(&*store, NewLetter { ts: later(week), ..letter(1, 0, "1") }).await;
    assert_eq!(store.sweep(later(week + 11)).await.unwrap(), Swept { letters: 334, invites: 0 });
    assert_eq!(ids(&*store, 1).await, ["1"]);
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.letters, counts.bytes, counts.mailboxes), (1, 8, 1));
}

pub(crate) async fn are_counted(place: Place) {
    let stores = two(&place, Quotas::default()).await;
    assert_eq!(stores[0].counts().await.unwrap(), Counts::default());
    let mut qids = Vec::new();
    for n in 0..12_u32 {
        let blob = "x".repeat(n as usize);
        qids.push(stored(&*stores[n as usize % 2], NewLetter { blob, ..letter(n % 3, n, "a") }).await);
    }
    stores[0].put_card(&did(1), 5, "card").await.unwrap();
    stores[1].put_card(&did(2), 5, "card").await.unwrap();
    stores[1].put_invite(&did(2), "code", "card", UnixSeconds(NOW.0 + 5), NOW).await.unwrap();
    for store in &stores {
        let expected =
            Counts { letters: 12, bytes: 66, mailboxes: 3, cards: 2, invites: 1, directory_bytes: 12, remembered: 3 };
        assert_eq!(store.counts().await.unwrap(), expected);
    }
    let of_1: Vec<Qid> = qids.into_iter().skip(1).step_by(3).collect();
    assert_eq!(stores[1].ack(&did(1), "e", &of_1, false).await.unwrap(), Some(4));
    for store in &stores {
        let counts = store.counts().await.unwrap();
        assert_eq!((counts.letters, counts.bytes, counts.mailboxes), (8, 66 - 1 - 4 - 7 - 10, 2));
    }
}
