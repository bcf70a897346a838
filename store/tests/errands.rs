//! Calls that are owed: taken by one process at a time, tried again, given up.
#![allow(clippy::unwrap_used)]
mod common;
use common::*;
use muretai_protocol::UnixSeconds;
use muretai_store::{
    Store,
    errands::{Errand, NewErrand},
};

fn errand(n: u32) -> NewErrand {
    NewErrand {
        kind: "propose".to_owned(),
        peer: did(n % 3),
        payload: format!("{{\"n\":{n}}}"),
        created: NOW,
        expires: after(1_000),
    }
}

async fn take(store: &Store, now: UnixSeconds, limit: u32) -> Vec<Errand> {
    store.take_errands(now, UnixSeconds(now.0 + 60), limit).await.unwrap()
}

#[tokio::test]
async fn an_errand_is_taken_leased_postponed_and_finished() {
    let (folder, store) = fresh().await;
    let id = store.add_errand(&errand(1)).await.unwrap();
    assert!(take(&store, UnixSeconds(NOW.0 - 1), 9).await.is_empty(), "not due");
    let taken = take(&store, NOW, 9).await;
    assert_eq!(taken, [Errand { id, errand: errand(1), attempts: 0, last_error: None }]);
    assert!(take(&store, after(59), 9).await.is_empty(), "somebody has it");
    // Whoever took it has died: the next one finds it, also after a restart.
    store.close().await;
    let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
    assert_eq!(take(&store, after(60), 9).await[0].attempts, 1);
    store.postpone_errand(id, after(500), &"é".repeat(2_000)).await.unwrap();
    let kept = store.errands().await.unwrap().remove(0);
    assert_eq!((kept.attempts, kept.last_error.map(|why| why.len())), (2, Some(1_024)));
    assert!(take(&store, after(499), 9).await.is_empty());
    assert_eq!(take(&store, after(500), 9).await.len(), 1);
    store.finish_errand(id).await.unwrap();
    store.finish_errand(id).await.unwrap();
    assert!(store.errands().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_has_expired_is_given_up() {
    let (_folder, store) = fresh().await;
    for n in 0..3 {
        store.add_errand(&NewErrand { expires: after(i64::from(n) * 10), ..errand(n) }).await.unwrap();
    }
    let taken = take(&store, after(10), 9).await;
    assert_eq!(taken.iter().map(|one| one.errand.payload.as_str()).collect::<Vec<_>>(), ["{\"n\":2}"]);
    assert_eq!(store.errands().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_never_take_the_same_errand() {
    let (folder, store) = fresh().await;
    let other = Store::open(&folder.path().join("agent.db")).await.unwrap();
    for n in 0..100 {
        store.add_errand(&errand(n)).await.unwrap();
    }
    let calls: Vec<_> = (0..40)
        .map(|n| {
            let store = if n % 2 == 0 { store.clone() } else { other.clone() };
            tokio::spawn(async move { take(&store, NOW, 5).await })
        })
        .collect();
    let mut ids = Vec::new();
    for call in calls {
        ids.extend(call.await.unwrap().into_iter().map(|errand| errand.id));
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 100);
}

#[tokio::test]
async fn whoever_wrote_an_errand_takes_it_when_nobody_else_has() {
    let (_folder, store) = fresh().await;
    for n in 0..3 {
        store.add_errand(&errand(n)).await.unwrap();
    }
    let wanted = errand(1).payload;
    let lease = after(60);
    let taken = store.take_errand(&wanted, NOW, lease).await.unwrap().unwrap();
    assert_eq!((&taken.errand, taken.attempts), (&errand(1), 0));
    assert_eq!(store.take_errand(&wanted, NOW, lease).await.unwrap(), None, "somebody has it");
    assert_eq!(take(&store, NOW, 9).await.len(), 2);
    store.finish_errand(taken.id).await.unwrap();
    assert_eq!(store.take_errand(&wanted, after(61), after(120)).await.unwrap(), None, "it is done");
}
