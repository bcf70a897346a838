//! Domains that were proven to belong to a DID.
#![allow(clippy::unwrap_used)]
mod common;
use common::*;
use muretai_protocol::UnixSeconds;
use muretai_store::{Store, domains::DomainRow};

fn row(n: u32, domain: &str, verified: i64) -> DomainRow {
    DomainRow { did: did(n), domain: domain.to_owned(), verified: UnixSeconds(verified) }
}

async fn listed(store: &Store) -> Vec<DomainRow> {
    store.domains().await.unwrap()
}

#[tokio::test]
async fn a_domain_is_one_dids_and_its_newest_verdict_counts() {
    let (_folder, store) = fresh().await;
    for verdict in [row(1, "north.example", 10), row(1, "a.north.example", 20), row(2, "south.example", 30)] {
        store.record_domain(&verdict).await.unwrap();
    }
    let of = async |n, since| store.domain_of(&did(n), UnixSeconds(since)).await.unwrap();
    assert_eq!(of(1, 0).await, Some(row(1, "a.north.example", 20)), "the newest");
    assert_eq!(of(1, 20).await, Some(row(1, "a.north.example", 20)));
    assert_eq!(of(1, 21).await, None);
    assert_eq!(of(3, 0).await, None);
    store.record_domain(&row(1, "north.example", 40)).await.unwrap();
    assert_eq!(of(1, 21).await, Some(row(1, "north.example", 40)), "renewed");
    store.record_domain(&row(2, "north.example", 50)).await.unwrap();
    let rows = [row(1, "a.north.example", 20), row(2, "north.example", 50), row(2, "south.example", 30)];
    assert_eq!(listed(&store).await, rows, "the domain changed hands");
}

#[tokio::test]
async fn a_verdict_is_forgotten_with_its_domain() {
    let (_folder, store) = fresh().await;
    store.record_domain(&row(1, "north.example", 10)).await.unwrap();
    assert!(!store.forget_domain(&did(2), "north.example").await.unwrap(), "not this DID's");
    assert!(!store.forget_domain(&did(1), "south.example").await.unwrap());
    assert!(store.forget_domain(&did(1), "north.example").await.unwrap());
    assert!(!store.forget_domain(&did(1), "north.example").await.unwrap());
    assert!(listed(&store).await.is_empty());
}
