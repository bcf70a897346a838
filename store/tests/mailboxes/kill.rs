//! A process that is killed while it deposits.
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use muretai_store::mailboxes::{Mailboxes, Quotas};

use crate::place::{Place, letter, open, open_soon, stored};

const TARGET: &str = "MURETAI_TEST_KILL_TARGET";
const DEPOSITORS: u32 = 16;

/// The process that is killed: says the id of every letter once it is acknowledged.
#[test]
fn deposits_until_it_is_killed() {
    let Ok(target) = std::env::var(TARGET) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store: std::sync::Arc<dyn Mailboxes> = open(&target, Quotas::default()).await.unwrap().into();
        let tasks: Vec<_> = (0..DEPOSITORS)
            .map(|task| {
                let store = store.clone();
                tokio::spawn(async move {
                    // More than a mailbox takes from one sender: no test waits for so many.
                    for n in 0..150 {
                        let id = format!("{task}-{n}");
                        stored(&*store, letter(1 + task / 6, task, &id)).await;
                        println!("ID {id}");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

pub(crate) async fn nothing_acknowledged_is_lost(place: Place) {
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::deposits_until_it_is_killed", "--nocapture", "--test-threads=1"])
            .env(TARGET, place.target())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let wanted = acknowledged.len() + 50 + 170 * round;
        for line in lines.by_ref() {
            if let Some(id) = line.unwrap().strip_prefix("ID ") {
                acknowledged.push(id.to_owned());
            }
            if acknowledged.len() >= wanted {
                break;
            }
        }
        child.kill().unwrap();
        // What it had said before it died.
        acknowledged.extend(lines.filter_map(|line| line.unwrap().strip_prefix("ID ").map(str::to_owned)));
        child.wait().unwrap();

        let store = open_soon(&place.target(), Quotas::default()).await;
        let mut kept = Vec::new();
        for to in 1..=3 {
            let fetched = store.fetch(&crate::place::did(to), &[], 10_000, u64::MAX).await.unwrap();
            let qids: Vec<_> = fetched.letters.iter().map(|letter| letter.qid).collect();
            kept.extend(fetched.letters.into_iter().map(|letter| letter.id));
            assert_eq!(store.ack(&crate::place::did(to), "e", &qids, false).await.unwrap(), Some(qids.len() as u64));
        }
        assert!(acknowledged.len() >= 50);
        for id in acknowledged.drain(..) {
            assert!(kept.contains(&id), "{id} was acknowledged in round {round}");
        }
        assert_eq!(store.counts().await.unwrap().letters, 0);
        store.close().await;
    }
}
