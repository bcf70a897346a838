//! Trust that waits for the inviter's word.
#![allow(clippy::unwrap_used)]
mod common;

use common::{did, fresh, handling, introduce, invite};
use muretai_store::{
    Store,
    contacts::{Introduce, Relation},
    invites::ClaimOutcome,
    messages::Outgoing,
    outbox::Keep,
};

async fn relation(store: &Store, n: u32) -> Option<Relation> {
    store.contact(&did(n)).await.unwrap().map(|contact| contact.relation)
}

fn who(n: u32) -> Introduce {
    introduce(&did(n), "south")
}

#[tokio::test]
async fn a_refusal_takes_back_what_the_claim_made() {
    let (_folder, store) = fresh().await;
    store.connect_provisionally(&who(1)).await.unwrap();
    assert_eq!(relation(&store, 1).await, Some(Relation::Direct));
    assert!(store.is_provisional(&did(1)).await.unwrap());
    // Claimed once more before the answer comes.
    store.connect_provisionally(&who(1)).await.unwrap();
    assert!(store.take_back(&did(1)).await.unwrap());
    assert_eq!(relation(&store, 1).await, None);
    assert!(!store.is_provisional(&did(1)).await.unwrap());
    assert!(!store.take_back(&did(1)).await.unwrap(), "once");
}

#[tokio::test]
async fn trust_from_before_or_from_elsewhere_stays() {
    let (_folder, store) = fresh().await;
    store.connect(&who(1)).await.unwrap();
    store.connect_provisionally(&who(1)).await.unwrap();
    assert!(!store.is_provisional(&did(1)).await.unwrap());
    assert!(!store.take_back(&did(1)).await.unwrap());
    assert_eq!(relation(&store, 1).await, Some(Relation::Direct));

    store.connect_provisionally(&who(2)).await.unwrap();
    store.connect(&who(2)).await.unwrap();
    assert!(!store.take_back(&did(2)).await.unwrap(), "it was confirmed");
    assert_eq!(relation(&store, 2).await, Some(Relation::Direct));

    // The inviter claims an invite of ours meanwhile.
    store.connect_provisionally(&who(3)).await.unwrap();
    store.add_invite(&invite("n1")).await.unwrap();
    store.claim_invite("n1", &who(3), &handling(&did(3), "claim")).await.unwrap();
    assert!(!store.take_back(&did(3)).await.unwrap());
    assert_eq!(relation(&store, 3).await, Some(Relation::Direct));
}

#[tokio::test]
async fn a_contact_becomes_what_it_was() {
    let (_folder, store) = fresh().await;
    store.connect(&who(1)).await.unwrap();
    store.set_blocked(&did(1), true, common::NOW).await.unwrap();
    store.remove_contact(&did(1)).await.unwrap();
    assert_eq!(relation(&store, 1).await, Some(Relation::None), "blocked, and listed as such");
    store.connect_provisionally(&who(1)).await.unwrap();
    assert!(store.take_back(&did(1)).await.unwrap());
    let contact = store.contact(&did(1)).await.unwrap().unwrap();
    assert_eq!((contact.relation, contact.is_blocked), (Relation::None, true));
}

#[tokio::test]
async fn what_the_owner_removed_does_not_come_back() {
    let (_folder, store) = fresh().await;
    store.connect_provisionally(&who(1)).await.unwrap();
    store.remove_contact(&did(1)).await.unwrap();
    assert!(!store.take_back(&did(1)).await.unwrap());
    assert_eq!(relation(&store, 1).await, None);
}

fn notice(n: u32, id: &str) -> Outgoing {
    Outgoing {
        peer: did(n).to_string(),
        message_id: id.to_owned(),
        context_id: None,
        reply_to: None,
        text: "welcome".to_owned(),
        timestamp: common::NOW,
        sig: None,
        target: None,
        is_auto: true,
        keep: Some(Keep {
            expires: common::after(60),
            via: None,
            allow_private: false,
            extra: None,
            relay: Some("https://relay.example".to_owned()),
            enc_pub: Some("ab".repeat(32)),
            lease: None,
        }),
    }
}

#[tokio::test]
async fn a_claim_by_mail_is_answered_in_its_own_transaction_and_once() {
    let (_folder, store) = fresh().await;
    store.add_invite(&invite("n1")).await.unwrap();
    let claim = async |n: u32, id: &str| {
        let handled = handling(&did(n), &format!("claim-{id}"));
        store.claim_invite_by_mail("n1", &who(n), &handled, &notice(n, id)).await.unwrap()
    };
    let waiting = async || store.outbox(true).await.unwrap().len();
    assert!(matches!(claim(1, "a").await, ClaimOutcome::Accepted(_)));
    assert_eq!(waiting().await, 1);
    assert!(matches!(claim(1, "a").await, ClaimOutcome::Repeated(_)));
    assert_eq!(waiting().await, 1, "the same notice");
    assert!(matches!(claim(1, "b").await, ClaimOutcome::Repeated(_)));
    assert_eq!(waiting().await, 2, "another claim has an answer of its own");
    assert!(matches!(claim(2, "c").await, ClaimOutcome::Refused(_)));
    assert_eq!(waiting().await, 2);
    assert!(store.queue_once(&notice(2, "d")).await.unwrap());
    assert!(!store.queue_once(&notice(2, "d")).await.unwrap());
    assert_eq!(waiting().await, 3);
}
