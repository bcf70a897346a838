//! Many listeners and senders at once, over a store that gives way in the middle: no letter may lie there while its
//! listener waits, and none may be lost.
use std::{collections::HashSet, sync::Arc, time::Duration};

use muretai_protocol::{
    Did, UnixSeconds,
    relay::Epoch,
    sign::{Seed, SigningKey},
};
use muretai_store::mailboxes::{Event, Mailboxes, NewLetter, Quotas};
use tokio::{sync::Barrier, task::JoinSet};

use crate::{
    Bounds,
    hub::{Flags, Kind},
    letters,
    poll::reclaim,
    shared::Shared,
    testing::{Memory, NOW, Rig},
};

const LISTENERS: usize = 2_000;
const LETTERS: usize = 4;
/// Far beyond what anybody has to wait here. Whoever is not woken waits for ever.
const LIMIT: Duration = Duration::from_secs(120);

fn did(n: usize) -> Did {
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&(n as u64).to_le_bytes());
    SigningKey::from_seed(&Seed::from_bytes(seed)).did().clone()
}

fn letter(to: &Did, n: usize) -> NewLetter {
    NewLetter {
        to: to.clone(),
        from: to.clone(),
        id: n.to_string(),
        from_enc: None,
        blob: "AAAA".to_owned(),
        ts: UnixSeconds(NOW),
        awaited_until: None,
    }
}

/// Listens as polls and streams do, in turns of either kind, until it has all its letters.
async fn collect(shared: Arc<Shared>, did: Did) -> HashSet<String> {
    let epoch = Epoch::new(1, 1);
    let mut seen = HashSet::new();
    while seen.len() < LETTERS {
        let kind = if seen.len() % 2 == 0 { Kind::Poll } else { Kind::Stream };
        let sitting = shared.hub.sit(&did, &epoch, kind).ok().unwrap();
        reclaim(&shared, &sitting).await.unwrap();
        loop {
            let hand = sitting.in_hand();
            let (fetched, _) = letters::fetch(&shared, &sitting, &hand, 1, 1_000).await.unwrap();
            letters::hand_out(&shared, &sitting, &fetched.letters);
            if let Some(letter) = fetched.letters.first() {
                shared.store.ack(&did, epoch.as_str(), &[letter.qid], false).await.unwrap();
                shared.hub.acked(&did, &[letter.qid]);
                assert!(seen.insert(letter.id.clone()), "handed out twice");
                break;
            }
            while !sitting.signal().wait().await.has(Flags::LETTERS) {}
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_thousand_listeners_miss_nothing() {
    let store = Memory::new(Quotas::default());
    let processes = [Rig::on(store.clone(), Bounds::default()), Rig::on(store.clone(), Bounds::default())];
    let dids: Arc<[Did]> = (0..LISTENERS).map(did).collect();
    let start = Arc::new(Barrier::new(LISTENERS + LETTERS));
    let mut listeners = JoinSet::new();
    for (n, did) in dids.iter().enumerate() {
        let (shared, did, start) = (Arc::clone(&processes[n % 2].shared), did.clone(), Arc::clone(&start));
        listeners.spawn(async move {
            start.wait().await;
            collect(shared, did).await
        });
    }
    let mut senders = JoinSet::new();
    for n in 0..LETTERS {
        let (store, dids, start) = (store.clone(), Arc::clone(&dids), Arc::clone(&start));
        senders.spawn(async move {
            start.wait().await;
            for did in dids.iter() {
                store.deposit(letter(did, n)).await.unwrap();
            }
        });
    }
    let all = async {
        while let Some(seen) = listeners.join_next().await {
            assert_eq!(seen.unwrap().len(), LETTERS);
        }
    };
    tokio::time::timeout(LIMIT, all).await.expect("somebody was not woken");
    assert_eq!(store.letters(), 0);
    assert!(processes.iter().all(|process| process.shared.hub.waiting() == (0, 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_listeners_of_one_mailbox_one_is_left() {
    let store = Memory::new(Quotas::default());
    let processes = [Rig::on(store.clone(), Bounds::default()), Rig::on(store.clone(), Bounds::default())];
    let south = did(1);
    let mut listeners = JoinSet::new();
    let most = 200;
    for n in 0..most {
        let (shared, did) = (Arc::clone(&processes[n % 2].shared), south.clone());
        listeners.spawn(async move {
            let Ok(sitting) = shared.hub.sit(&did, &Epoch::new(n as u64, 1), Kind::Stream) else { return n };
            if reclaim(&shared, &sitting).await.is_ok() {
                while !sitting.signal().wait().await.has(Flags::SUPERSEDED.or(Flags::STOP)) {}
            }
            n
        });
    }
    let all_but_one = async {
        let mut gone = HashSet::new();
        while gone.len() < most - 1 {
            gone.insert(listeners.join_next().await.unwrap().unwrap());
        }
        gone
    };
    let gone = tokio::time::timeout(LIMIT, all_but_one).await.expect("somebody was not told");
    assert!(!gone.contains(&(most - 1)), "the newest one stays");
    store.tell(&Event::Resync);
    processes.iter().for_each(|process| process.stop.stop());
    assert_eq!(listeners.join_next().await.unwrap().unwrap(), most - 1);
}
