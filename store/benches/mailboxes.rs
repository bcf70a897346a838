//! What a relay's letters cost: deposits, drains, and letters that are fetched as soon as they come, 64 at once; how long
//! a small fetch takes while others fetch much and everybody deposits.
//!
//! `cargo bench -p muretai-store --bench mailboxes -- [LETTERS]` prints rates and the CPU time of this process for each.
//! Pin it to one core with `taskset -c 0`. With `MURETAI_TEST_POSTGRES=postgres://…` PostgreSQL follows, one store and two.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]
use std::{
    future::Future,
    path::Path,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use muretai_protocol::{Did, UnixSeconds, did::PublicKey};
use muretai_store::mailboxes::{Deposited, Mailboxes, NewLetter, Qid, Quotas, open_postgres, open_sqlite};
use sqlx::{AssertSqlSafe, Connection};

const CALLERS: u32 = 64;
const MAILBOXES: u32 = 256;
const BOX_BYTES: usize = 1_024;

type Shared = Arc<dyn Mailboxes>;

fn main() {
    let letters = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(100_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir_in(std::env::var_os("MURETAI_BENCH_DIR").unwrap_or(".".into())).unwrap();
        let path = folder.path().join("relay.db");
        let store: Shared = open_sqlite(&path, quotas()).await.unwrap().into();
        println!("SQLite");
        all(std::slice::from_ref(&store), letters).await;
        store.close().await;
        println!("  file {} KiB", size_kib(&path));
        if let Some(server) = std::env::var("MURETAI_TEST_POSTGRES").ok().filter(|server| !server.is_empty()) {
            for count in [1, 2] {
                println!("PostgreSQL, {count} stores");
                let url = fresh_database(&server).await;
                let mut stores: Vec<Shared> = Vec::new();
                for _ in 0..count {
                    stores.push(open_postgres(&url, quotas()).await.unwrap().into());
                }
                all(&stores, letters).await;
                for store in stores {
                    store.close().await;
                }
            }
        }
    });
}

/// Mailboxes that take what this deposits.
fn quotas() -> Quotas {
    Quotas { mailbox_letters: u32::MAX, sender_letters: u32::MAX, mailbox_bytes: u64::MAX, ..Quotas::default() }
}

async fn fresh_database(server: &str) -> String {
    let mut conn = sqlx::PgConnection::connect(server).await.unwrap();
    for sql in ["DROP DATABASE IF EXISTS muretai_bench WITH (FORCE)", "CREATE DATABASE muretai_bench"] {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    }
    let (before, query) = server.split_once('?').unwrap_or((server, ""));
    format!("{}/muretai_bench?{query}", before.rsplit_once('/').unwrap().0)
}

async fn all(stores: &[Shared], letters: u32) {
    timed("deposits", letters, stores, letters, deposit).await;
    let drained = Arc::new(AtomicU32::new(0));
    let counted = drained.clone();
    timed("drain, 100 at once", letters, stores, MAILBOXES, move |store, n| drain(store, n, counted.clone())).await;
    assert_eq!(drained.load(Ordering::Relaxed), letters);
    timed("deposit, fetch, ack", letters / 2, stores, letters / 2, |store, n| pass(store, n + 1_000_000)).await;
    beside_large_ones(stores).await;
}

/// Small fetches, one after the other, while eight callers fetch a megabyte each again and again and eight deposit.
async fn beside_large_ones(stores: &[Shared]) {
    for n in 0..8 * 100 {
        let blob = "Zm9v".repeat(10_240 / 4);
        let letter = NewLetter { to: did(n % 8), blob, ..letter(2_000_000 + n) };
        assert!(matches!(stores[0].deposit(letter).await.unwrap(), Deposited::Stored(_)));
    }
    let mut busy = tokio::task::JoinSet::new();
    for n in 0..8_u32 {
        let store = stores[n as usize % stores.len()].clone();
        busy.spawn(async move {
            loop {
                let fetched = store.fetch(&did(n), &[], 100, 2_097_152).await.unwrap();
                assert_eq!(fetched.letters.len(), 100);
            }
        });
        let store = stores[n as usize % stores.len()].clone();
        busy.spawn(async move {
            for m in 0.. {
                // Many mailboxes, so that none is full.
                deposit(store.clone(), 3_000_000 + m * 8 + n).await;
            }
        });
    }
    let mut times = Vec::new();
    for n in 0..1_000_u32 {
        let store = &stores[n as usize % stores.len()];
        let started = Instant::now();
        store.fetch(&did(MAILBOXES + n % CALLERS), &[], 100, 1_048_576).await.unwrap();
        times.push(started.elapsed());
    }
    busy.shutdown().await;
    times.sort();
    let ms = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
    println!("  small fetches beside large ones: p50 {:.2} ms, p99 {:.2} ms", ms(50), ms(99));
}

/// 64 callers share the numbers up to `count`; the rate is that of letters.
async fn timed<F: Future<Output = ()> + Send>(
    what: &str,
    letters: u32,
    stores: &[Shared],
    count: u32,
    act: impl Fn(Shared, u32) -> F + Clone + Send + 'static,
) {
    let next = Arc::new(AtomicU32::new(0));
    let (started, cpu) = (Instant::now(), cpu_secs());
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (store, next, act) = (stores[caller as usize % stores.len()].clone(), next.clone(), act.clone());
            tokio::spawn(async move {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return;
                    }
                    act(store.clone(), n).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let (secs, cpu) = (started.elapsed().as_secs_f64(), cpu_secs() - cpu);
    let each = cpu * 1e6 / f64::from(letters);
    println!("  {what:<20} {:>7.0} letters a second, {each:>5.1} us CPU each", f64::from(letters) / secs);
}

/// Made once: reading a DID is the server's cost, not the store's.
fn did(n: u32) -> Did {
    static ALL: LazyLock<Vec<Did>> = LazyLock::new(|| {
        let make = |n: u32| {
            let mut key = [7; 32];
            key[..4].copy_from_slice(&n.to_be_bytes());
            Did::from_key(&PublicKey::Ed25519(key))
        };
        (0..MAILBOXES + CALLERS).map(make).collect()
    });
    ALL[n as usize].clone()
}

fn letter(n: u32) -> NewLetter {
    NewLetter {
        to: did(n % MAILBOXES),
        from: did(n / MAILBOXES % CALLERS + MAILBOXES),
        id: format!("{n:032x}"),
        from_enc: Some("ab".repeat(32)),
        blob: "Zm9v".repeat(BOX_BYTES / 4),
        ts: UnixSeconds(1_800_000_000 + i64::from(n) / 10_000),
        awaited_until: None,
    }
}

async fn deposit(store: Shared, n: u32) {
    assert!(matches!(store.deposit(letter(n)).await.unwrap(), Deposited::Stored(_)));
}

async fn drain(store: Shared, n: u32, counted: Arc<AtomicU32>) {
    store.claim(&did(n), "1", UnixSeconds(1_800_000_000)).await.unwrap();
    while take(&store, n, &counted).await {}
}

/// Fetches and acknowledges; gives whether there is more.
async fn take(store: &Shared, n: u32, counted: &AtomicU32) -> bool {
    let fetched = store.fetch(&did(n), &[], 100, 1_048_576).await.unwrap();
    let qids: Vec<Qid> = fetched.letters.iter().map(|letter| letter.qid).collect();
    let acked = store.ack(&did(n), "1", &qids, false).await.unwrap().unwrap();
    counted.fetch_add(u32::try_from(acked).unwrap(), Ordering::Relaxed);
    fetched.has_more
}

/// A letter whose listener waits.
async fn pass(store: Shared, n: u32) {
    deposit(store.clone(), n).await;
    take(&store, n % MAILBOXES, &AtomicU32::new(0)).await;
}

/// User and system time of the process, by the clock ticks of /proc.
fn cpu_secs() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn size_kib(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len() / 1024)
}
