//! What needs a hand inside: full disks, poisoned rows, a cache that is full, files that shrink.
use muretai_protocol::did::PublicKey;
use tokio::task::JoinSet;

use super::*;
use crate::mailboxes::{Bound, DAY_SECS};

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

fn did(n: u32) -> Did {
    let mut key = [9; 32];
    key[..4].copy_from_slice(&n.to_be_bytes());
    Did::from_key(&PublicKey::Ed25519(key))
}

fn letter(to: u32, id: impl Into<String>, bytes: usize) -> NewLetter {
    let (to, from) = (did(to), did(1_000 + to));
    NewLetter { to, from, id: id.into(), from_enc: None, blob: "x".repeat(bytes), ts: NOW, awaited_until: None }
}

async fn fresh(quotas: Quotas) -> (tempfile::TempDir, Arc<SqliteMailboxes>) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteMailboxes::open(&folder.path().join("relay.db"), quotas).await.unwrap();
    (folder, Arc::new(store))
}

/// Runs SQL on the writing connection.
async fn on_writer(store: &SqliteMailboxes, sql: &'static str) {
    let (done, ran) = oneshot::channel();
    assert!(store.writer.send(Job::Sql(sql, done)).await.is_ok());
    ran.await.unwrap();
}

/// Hands all in at once.
async fn deposit_all(
    store: &Arc<SqliteMailboxes>,
    letters: impl IntoIterator<Item = NewLetter>,
) -> Vec<(String, Result<Deposited, MailboxError>)> {
    let mut calls = JoinSet::new();
    for letter in letters {
        let store = store.clone();
        calls.spawn(async move { (letter.id.clone(), store.deposit(letter).await) });
    }
    calls.join_all().await
}

async fn kept(store: &SqliteMailboxes, to: u32) -> Vec<(Qid, String)> {
    let fetched = store.fetch(&did(to), &[], 10_000, u64::MAX).await.unwrap();
    fetched.letters.into_iter().map(|letter| (letter.qid, letter.id)).collect()
}

#[tokio::test]
async fn a_full_disk_fails_everyone_and_is_over_when_there_is_room() {
    let (folder, store) = fresh(Quotas::default()).await;
    store.deposit(letter(1, "first", 10)).await.unwrap();
    on_writer(&store, "PRAGMA max_page_count = 1").await;
    for (id, outcome) in deposit_all(&store, (0..90).map(|n| letter(n % 3, n.to_string(), 60_000))).await {
        assert!(matches!(outcome, Err(MailboxError::DiskFull)), "{id}: {outcome:?}");
    }
    let card = "x".repeat(60_000);
    assert!(matches!(store.put_card(&did(1), 1, &card).await, Err(MailboxError::DiskFull)));
    assert_eq!(store.card(&did(1)).await.unwrap(), None);
    assert_eq!(kept(&store, 1).await, [(1, "first".to_owned())], "nothing half done");
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.letters, counts.bytes, counts.mailboxes, counts.cards), (1, 10, 1, 0));

    on_writer(&store, "PRAGMA max_page_count = 1000000").await;
    for (id, outcome) in deposit_all(&store, (0..90).map(|n| letter(n % 3, n.to_string(), 60_000))).await {
        assert!(matches!(outcome, Ok(Deposited::Stored(_))), "{id}: {outcome:?}");
    }
    assert_eq!(store.put_card(&did(1), 1, &card).await.unwrap(), PutCard::Stored);
    store.close().await;
    let store = SqliteMailboxes::open(&folder.path().join("relay.db"), Quotas::default()).await.unwrap();
    assert_eq!(store.counts().await.unwrap().letters, 91);
}

#[tokio::test]
async fn a_row_that_fails_harms_nobody_else() {
    let (_folder, store) = fresh(Quotas::default()).await;
    let trigger = "CREATE TRIGGER poison BEFORE INSERT ON letters WHEN new.id = 'poison' \
                   BEGIN SELECT RAISE(ABORT, 'poisoned'); END";
    on_writer(&store, trigger).await;
    let letters = (0..60).map(|n| letter(n % 3, if n == 31 { "poison".to_owned() } else { n.to_string() }, 10));
    for (id, outcome) in deposit_all(&store, letters).await {
        if id == "poison" {
            assert!(matches!(outcome, Err(MailboxError::Database(_))), "{outcome:?}");
        } else {
            assert!(matches!(outcome, Ok(Deposited::Stored(_))), "{id}: {outcome:?}");
        }
    }
    assert_eq!(store.counts().await.unwrap().letters, 59);
}

#[tokio::test]
async fn bounds_are_exact_when_the_memory_is_full() {
    let quotas = Quotas { mailbox_letters: 6, sender_letters: 6, ..Quotas::default() };
    let (_folder, store) = fresh(quotas).await;
    for round in 0..12 {
        for to in 0..50 {
            let outcome = store.deposit(letter(to, round.to_string(), 10)).await.unwrap();
            if round % 12 < 6 {
                assert!(matches!(outcome, Deposited::Stored(_)), "{round} {to}: {outcome:?}");
            } else {
                assert_eq!(outcome, Deposited::Full(Bound::SenderLetters));
            }
            let again = store.deposit(letter(to, (round % 6).to_string(), 10)).await.unwrap();
            assert!(matches!(again, Deposited::Again(_)));
        }
    }
    for to in 0..50 {
        let qids: Vec<Qid> = kept(&store, to).await.into_iter().map(|(qid, _)| qid).collect();
        assert_eq!(qids.len(), 6);
        store.claim(&did(to), "2", NOW).await.unwrap();
        assert_eq!(store.ack(&did((to + 25) % 50), "2", &qids, false).await.unwrap(), Some(0));
        assert_eq!(store.ack(&did(to), "2", &qids[..5], false).await.unwrap(), Some(5));
    }
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.letters, counts.bytes, counts.mailboxes), (50, 500, 50));
}

#[tokio::test]
async fn a_file_gives_back_what_it_does_not_need() {
    let quotas = Quotas { mailbox_bytes: u64::MAX, sender_letters: 10_000, ..Quotas::default() };
    let (folder, store) = fresh(quotas).await;
    deposit_all(&store, (0..500).map(|n| letter(1, n.to_string(), 60_000))).await;
    let swept = store.sweep(UnixSeconds(NOW.0 + 8 * 86_400)).await.unwrap();
    assert_eq!(swept, Swept { letters: 500, invites: 0 });
    store.close().await;
    let bytes = std::fs::metadata(folder.path().join("relay.db")).unwrap().len();
    assert!(bytes < 20 * 1_048_576, "{bytes} of 30 MiB are left");
}

#[tokio::test]
async fn a_mailbox_that_nobody_needs_is_forgotten() {
    let (_folder, store) = fresh(Quotas::default()).await;
    for n in [1, 2] {
        store.claim(&did(n), "5", NOW).await.unwrap();
    }
    let days = |days: i64| UnixSeconds(NOW.0 + days * DAY_SECS);
    store.claim(&did(2), "5", days(10)).await.unwrap();
    store.sweep(days(30)).await.unwrap();
    assert_eq!(store.claim(&did(1), "4", days(0)).await.unwrap(), EpochClaim::Superseded);
    store.sweep(days(31)).await.unwrap();
    assert_eq!(store.claim(&did(1), "4", days(31)).await.unwrap(), EpochClaim::Current);
    assert_eq!(store.claim(&did(2), "4", days(31)).await.unwrap(), EpochClaim::Superseded);
}
