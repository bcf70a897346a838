//! Invites: minted, claimed once, revoked for good.
#![allow(clippy::unwrap_used)]
mod common;
use common::*;
use muretai_protocol::UnixSeconds;
use muretai_store::{
    Store, StoreError,
    contacts::{CoordinateSource, Coordinates, Introduce, Relation},
    invites::{
        ClaimOutcome::{self, Accepted, Refused, Repeated},
        ClaimRefusal, InviteRow,
    },
};

async fn claim(store: &Store, nonce: &str, n: u32) -> ClaimOutcome {
    let who = introduce(&did(n), "north");
    store.claim_invite(nonce, &who, &handling(&did(n), &format!("claim-{n}"))).await.unwrap()
}

async fn with_invite() -> (tempfile::TempDir, Store) {
    let (folder, store) = fresh().await;
    store.add_invite(&invite("n1")).await.unwrap();
    (folder, store)
}

#[tokio::test]
async fn an_invite_is_spent_once_and_repeated_for_the_same_claimer() {
    let (_folder, store) = with_invite().await;
    let Accepted(contact) = claim(&store, "n1", 1).await else { panic!("a fresh invite is good") };
    assert_eq!((contact.did.clone(), contact.relation), (did(1), Relation::Direct));
    assert_eq!(claim(&store, "n1", 1).await, Repeated(contact));
    assert_eq!(claim(&store, "n1", 2).await, Refused(ClaimRefusal::Spent));
    assert!(store.contact(&did(2)).await.unwrap().is_none());
    let spent = &store.invites().await.unwrap()[0];
    assert_eq!((spent.used_by.clone(), spent.used), (Some(did(1)), Some(NOW)));
    // The claim's own message cannot be replayed, a refused one was never handled.
    assert!(store.standing(did(1).as_str(), "claim-1").await.unwrap().handled.is_some());
    assert!(store.standing(did(2).as_str(), "claim-2").await.unwrap().handled.is_none());
}

#[tokio::test]
async fn an_invite_that_is_unknown_expired_or_revoked_is_refused() {
    let (_folder, store) = with_invite().await;
    assert_eq!(claim(&store, "n2", 1).await, Refused(ClaimRefusal::Unknown));
    store.add_invite(&InviteRow { expires: NOW, ..invite("old") }).await.unwrap();
    assert_eq!(claim(&store, "old", 1).await, Refused(ClaimRefusal::Expired));
    store.revoke_invite("code-n1", NOW).await.unwrap().unwrap();
    assert_eq!(claim(&store, "n1", 1).await, Refused(ClaimRefusal::Revoked));
    assert!(store.contacts().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_lost_response_after_expiry_is_repeated() {
    let (_folder, store) = with_invite().await;
    claim(&store, "n1", 1).await;
    let late = Introduce { now: UnixSeconds(NOW.0 + 999_999), ..introduce(&did(1), "north") };
    let outcome = store.claim_invite("n1", &late, &handling(&did(1), "again")).await.unwrap();
    assert!(matches!(outcome, Repeated(_)));
}

#[tokio::test]
async fn a_removed_contact_does_not_come_back_with_its_spent_invite() {
    let (folder, store) = with_invite().await;
    claim(&store, "n1", 1).await;
    store.remove_contact(&did(1)).await.unwrap();
    assert_eq!(claim(&store, "n1", 1).await, Refused(ClaimRefusal::Spent));
    store.revoke_invite("n1", NOW).await.unwrap();
    assert_eq!(claim(&store, "n1", 1).await, Refused(ClaimRefusal::Revoked));
    assert_eq!(claim(&store, "n1", 2).await, Refused(ClaimRefusal::Revoked));
    store.close().await;
    let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
    assert_eq!(claim(&store, "n1", 1).await, Refused(ClaimRefusal::Revoked));
    assert!(store.contacts().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_blocked_claimer_spends_nothing() {
    let (_folder, store) = with_invite().await;
    store.set_blocked(&did(1), true, NOW).await.unwrap();
    assert_eq!(claim(&store, "n1", 1).await, Refused(ClaimRefusal::Blocked));
    assert!(matches!(claim(&store, "n1", 2).await, Accepted(_)));
}

#[tokio::test]
async fn a_claim_keeps_what_the_owner_and_a_card_said() {
    let (_folder, store) = with_invite().await;
    let card = Introduce {
        source: CoordinateSource::Card,
        coordinates: Coordinates { url: Some("https://card.example".to_owned()), ..Coordinates::default() },
        ..introduce(&did(1), "west")
    };
    store.connect(&card).await.unwrap();
    let Accepted(contact) = claim(&store, "n1", 1).await else { panic!("good") };
    assert_eq!((contact.name.as_str(), contact.coordinates), ("west", card.coordinates));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_fifty_claimers_in_three_processes_one_wins() {
    let (folder, store) = with_invite().await;
    let path = folder.path().join("agent.db");
    let stores = [store.clone(), Store::open(&path).await.unwrap(), Store::open(&path).await.unwrap()];
    let claims: Vec<_> = (0..50)
        .map(|n| {
            let store = stores[n as usize % 3].clone();
            tokio::spawn(async move { claim(&store, "n1", n).await })
        })
        .collect();
    let (mut accepted, mut refused) = (0, 0);
    for outcome in claims {
        match outcome.await.unwrap() {
            Accepted(_) => accepted += 1,
            Refused(ClaimRefusal::Spent) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((accepted, refused), (1, 49));
    assert_eq!(store.contacts().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_short_code_shows_live_invites_only() {
    let (_folder, store) = with_invite().await;
    let card = async |code: &str, now| store.invite_card(code, UnixSeconds(now)).await.unwrap();
    assert_eq!(card("code-n1", NOW.0).await, Some(invite("n1").card));
    assert_eq!(card("code-n1", NOW.0 + 3600).await, None);
    assert_eq!(card("n1", NOW.0).await, None);
    claim(&store, "n1", 1).await;
    assert_eq!(card("code-n1", NOW.0).await, None);
    store.add_invite(&invite("n2")).await.unwrap();
    store.revoke_invite("n2", NOW).await.unwrap();
    assert_eq!(card("code-n2", NOW.0).await, None);
}

#[tokio::test]
async fn revoking_twice_keeps_the_first_time() {
    let (_folder, store) = with_invite().await;
    let first = store.revoke_invite("n1", NOW).await.unwrap().unwrap();
    let second = store.revoke_invite("code-n1", UnixSeconds(NOW.0 + 9)).await.unwrap().unwrap();
    assert_eq!((first.revoked, &second), (Some(NOW), &first));
    assert_eq!(store.revoke_invite("n9", NOW).await.unwrap(), None);
}

#[tokio::test]
async fn invites_are_listed_newest_first_and_never_twice() {
    let (_folder, store) = with_invite().await;
    store.add_invite(&InviteRow { created: UnixSeconds(NOW.0 + 1), ..invite("n2") }).await.unwrap();
    let note = InviteRow { note: Some("for west".to_owned()), ..invite("n3") };
    store.add_invite(&note).await.unwrap();
    assert!(matches!(store.add_invite(&invite("n1")).await, Err(StoreError::InviteExists)));
    let same_code = InviteRow { nonce: "n4".to_owned(), ..invite("n1") };
    assert!(matches!(store.add_invite(&same_code).await, Err(StoreError::InviteExists)));
    let listed = store.invites().await.unwrap();
    assert_eq!(listed.iter().map(|invite| invite.nonce.as_str()).collect::<Vec<_>>(), ["n2", "n3", "n1"]);
    assert_eq!(listed[1], note);
}
