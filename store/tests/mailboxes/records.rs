//! Cards and invites.
use muretai_protocol::UnixSeconds;
use muretai_store::mailboxes::{PutCard, PutInvite, Quotas};

use crate::place::{NOW, Place, did};

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
