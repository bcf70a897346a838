//! Cards and invites.
use muretai_protocol::UnixSeconds;
use muretai_store::mailboxes::{EpochClaim, PutCard, PutInvite, Quotas};

use crate::place::{NOW, Place, did, ids, letter, stored};

fn later(secs: i64) -> UnixSeconds {
    UnixSeconds(NOW.0 + secs)
}

pub(crate) async fn a_card_is_replaced_by_a_newer_one(place: Place) {
    let store = place.open(Quotas::default()).await;
    assert_eq!(store.card(&did(1)).await.unwrap(), None);
    assert_eq!(store.put_card(&did(1), 10, "ten").await.unwrap(), PutCard::Stored);
    assert_eq!(store.put_card(&did(1), 10, "other").await.unwrap(), PutCard::Held(10));
    assert_eq!(store.put_card(&did(1), 9, "nine").await.unwrap(), PutCard::Held(10));
    assert_eq!(store.card(&did(1)).await.unwrap().as_deref(), Some("ten"));
    assert_eq!(store.put_card(&did(1), 11, "eleven").await.unwrap(), PutCard::Stored);
    assert_eq!(store.card(&did(1)).await.unwrap().as_deref(), Some("eleven"));
    assert_eq!(store.card(&did(2)).await.unwrap(), None);
}

pub(crate) async fn too_many_cards_push_the_oldest_out(place: Place) {
    let store = place.open(Quotas { cards: 3, ..Quotas::default() }).await;
    for n in 1..=3 {
        store.put_card(&did(n), 1, "x").await.unwrap();
    }
    store.put_card(&did(1), 2, "renewed").await.unwrap();
    for n in 4..=5 {
        store.put_card(&did(n), 1, "x").await.unwrap();
    }
    let mut kept = Vec::new();
    for n in 1..=5 {
        if store.card(&did(n)).await.unwrap().is_some() {
            kept.push(n);
        }
    }
    assert_eq!(kept, [1, 4, 5]);
    assert_eq!(store.counts().await.unwrap().cards, 3);
}

/// What a card or an invite of so many bytes weighs.
fn weight(bytes: u64) -> u64 {
    bytes + 400
}

pub(crate) async fn bytes_of_cards_are_bounded(place: Place) {
    let quotas = Quotas { card_bytes: 64 * weight(1_000), ..Quotas::default() };
    let store = place.open(quotas.clone()).await;
    let put = async |n: u32, ts: i64, bytes: usize| {
        assert_eq!(store.put_card(&did(n), ts, &"x".repeat(bytes)).await.unwrap(), PutCard::Stored);
        let counts = store.counts().await.unwrap();
        assert!(counts.directory_bytes + 400 * counts.cards <= quotas.card_bytes, "{counts:?}");
        counts.cards
    };
    for n in 0..64 {
        assert_eq!(put(n, 1, 1_000).await, u64::from(n) + 1);
    }
    // A renewal takes the place of its own.
    assert!(put(0, 2, 900).await >= 63);
    for n in 64..200 {
        assert!((60..=64).contains(&put(n, 1, 1_000).await), "no more go than have to");
    }
    assert!(put(500, 1, 40_000).await < 40, "a large one drives out many");
    assert!(store.card(&did(500)).await.unwrap().is_some());
    assert!(store.card(&did(199)).await.unwrap().is_some(), "and the newest stay");
    assert!(store.card(&did(0)).await.unwrap().is_none());
    // It is the same after a restart.
    let counts = store.counts().await.unwrap();
    store.close().await;
    let store = place.open(quotas).await;
    assert_eq!(store.counts().await.unwrap(), counts);
}

pub(crate) async fn bytes_of_invites_are_bounded(place: Place) {
    let quotas = Quotas { invite_bytes: 64 * weight(1_000), ..Quotas::default() };
    let store = place.open(quotas.clone()).await;
    for n in 0..300_u32 {
        let card = format!("{n:01000}");
        let exp = later(i64::from(1_000 - n));
        let (put, _) = store.put_invite(&did(n), &format!("code-{n}"), &card, exp, NOW).await.unwrap();
        assert_eq!(put, PutInvite::Stored);
        let counts = store.counts().await.unwrap();
        assert!(counts.directory_bytes + 400 * counts.invites <= quotas.invite_bytes, "{counts:?}");
        assert!(store.invite(&format!("code-{n}"), NOW).await.unwrap().is_some(), "the newest is there");
    }
    assert!(store.invite("code-0", NOW).await.unwrap().is_none(), "the first to be left went, whenever it expires");
    assert!(store.counts().await.unwrap().invites >= 60);
    store.sweep(later(10_000)).await.unwrap();
    assert_eq!(store.counts().await.unwrap().directory_bytes, 0);
}

pub(crate) async fn mailboxes_without_letters_are_bounded(place: Place) {
    let store = place.open(Quotas { mailboxes: 700, ..Quotas::default() }).await;
    // Those that were made first hold letters.
    for n in 0..600 {
        stored(&*store, letter(n, 1, "a")).await;
    }
    for n in 600..1_800 {
        store.claim(&did(n), "5", NOW).await.unwrap();
    }
    assert_eq!(store.counts().await.unwrap().remembered, 1_800);
    store.sweep(NOW).await.unwrap();
    assert_eq!(store.counts().await.unwrap().remembered, 700);
    for n in [0, 599] {
        assert_eq!(ids(&*store, n).await, ["a"], "letters stay");
    }
    // One that was forgotten is made again, one that was not is as it was.
    assert_eq!(store.claim(&did(600), "4", NOW).await.unwrap(), EpochClaim::Current);
    assert_eq!(store.claim(&did(1_799), "4", NOW).await.unwrap(), EpochClaim::Superseded);
    stored(&*store, letter(601, 1, "b")).await;
    assert_eq!(ids(&*store, 601).await, ["b"]);
    store.sweep(NOW).await.unwrap();
    assert_eq!(store.counts().await.unwrap().remembered, 700);
    // Where all hold letters, none goes.
    for n in 2_000..2_200 {
        stored(&*store, letter(n, 1, "a")).await;
    }
    store.sweep(NOW).await.unwrap();
    assert_eq!(store.counts().await.unwrap().remembered, 801);
}

pub(crate) async fn an_invite_is_kept_until_it_expires(place: Place) {
    let store = place.open(Quotas::default()).await;
    let put = async |n: u32, code: &str, card: &str, exp: i64, now: i64| {
        store.put_invite(&did(n), code, card, later(exp), later(now)).await.unwrap()
    };
    assert_eq!(store.invite("code-a", NOW).await.unwrap(), None);
    assert_eq!(put(1, "code-a", "card", 10, 0).await, (PutInvite::Stored, "code-a".to_owned()));
    assert_eq!(store.invite("code-a", later(9)).await.unwrap().as_deref(), Some("card"));
    assert_eq!(store.invite("code-a", later(10)).await.unwrap(), None);
    assert_eq!(store.invite("CODE-A", NOW).await.unwrap(), None);
    // The same card, asked for again because the answer was lost.
    assert_eq!(put(1, "code-b", "card", 10, 1).await, (PutInvite::Stored, "code-a".to_owned()));
    assert_eq!(store.invite("code-b", NOW).await.unwrap(), None);
    assert_eq!(put(1, "code-a", "another", 10, 1).await.0, PutInvite::CodeTaken);
    assert_eq!(put(2, "code-a", "card", 10, 1).await.0, PutInvite::CodeTaken);
    // An expired one gives its code away, and the same card gets a new one.
    assert_eq!(put(2, "code-a", "third", 20, 10).await, (PutInvite::Stored, "code-a".to_owned()));
    assert_eq!(store.invite("code-a", later(10)).await.unwrap().as_deref(), Some("third"));
    assert_eq!(put(1, "code-b", "card", 20, 10).await, (PutInvite::Stored, "code-b".to_owned()));
    store.sweep(later(30)).await.unwrap();
    assert_eq!(store.counts().await.unwrap().invites, 0);
}

pub(crate) async fn invites_of_one_did_are_bounded(place: Place) {
    let store = place.open(Quotas { invites: 3, ..Quotas::default() }).await;
    let put = async |n: u32, code: &str, exp: i64, now: i64| {
        store.put_invite(&did(n), code, code, later(exp), later(now)).await.unwrap().0
    };
    for (code, exp) in [("a", 10), ("b", 20), ("c", 20)] {
        assert_eq!(put(1, code, exp, 0).await, PutInvite::Stored);
    }
    assert_eq!(put(1, "d", 20, 0).await, PutInvite::TooMany);
    assert_eq!(put(1, "a", 20, 0).await, PutInvite::Stored, "the same again needs no room");
    assert_eq!(put(2, "d", 20, 0).await, PutInvite::Stored, "another's are apart");
    assert_eq!(put(1, "e", 20, 10).await, PutInvite::Stored, "one has expired");
    assert_eq!(put(1, "f", 20, 10).await, PutInvite::TooMany);
}
