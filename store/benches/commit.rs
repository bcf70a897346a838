//! What one durable message costs: a look-up and a group commit, from 64 concurrent callers on one runtime thread.
//!
//! `cargo bench -p muretai-store --bench commit -- [MESSAGES]` prints messages and CPU seconds per block, so that growth
//! shows. Pin it to one core with `taskset -c 0` to see what a server with one core could store at best.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use muretai_protocol::{Did, UnixSeconds, did::PublicKey};
use muretai_store::{
    Store,
    messages::{Received, Reply},
};

const CALLERS: u64 = 64;
const BLOCK: u64 = 100_000;

fn main() {
    let messages = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(BLOCK);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(messages));
}

async fn run(messages: u64) {
    let folder = tempfile::tempdir_in(std::env::var_os("MURETAI_BENCH_DIR").unwrap_or(".".into())).unwrap();
    let path = folder.path().join("agent.db");
    let store = Store::open(&path).await.unwrap();
    let next = Arc::new(AtomicU64::new(0));
    let mut done = 0;
    while done < messages {
        let block = BLOCK.min(messages - done);
        let (started, cpu) = (Instant::now(), cpu_secs());
        let callers: Vec<_> =
            (0..CALLERS).map(|n| tokio::spawn(call(store.clone(), n, next.clone(), done + block))).collect();
        for caller in callers {
            caller.await.unwrap();
        }
        done += block;
        next.store(done, Ordering::Relaxed);
        let (secs, cpu) = (started.elapsed().as_secs_f64(), cpu_secs() - cpu);
        println!(
            "{done:>8} messages: {:>7.0} a second, {:>5.1} us CPU each, {} KiB resident, log {} KiB, file {} KiB",
            block as f64 / secs,
            cpu * 1e6 / block as f64,
            resident_kib(),
            size_kib(&folder.path().join("agent.db-wal")),
            size_kib(&path),
        );
    }
    store.close().await;
    let started = Instant::now();
    for _ in 0..100 {
        let store = Store::open(&path).await.unwrap();
        store.last_seq().await.unwrap();
        store.close().await;
    }
    println!("open, one query, close: {:.2} ms", started.elapsed().as_secs_f64() * 10.0);
}

async fn call(store: Store, caller: u64, next: Arc<AtomicU64>, end: u64) {
    let mut key = [7; 32];
    key[..8].copy_from_slice(&caller.to_be_bytes());
    let from = Did::from_key(&PublicKey::Ed25519(key));
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= end {
            return;
        }
        let message = message(&from, n);
        let standing = store.standing(from.as_str(), &message.message_id).await.unwrap();
        assert!(standing.handled.is_none());
        store.commit_received(message).await.unwrap();
    }
}

fn message(from: &Did, n: u64) -> Received {
    let now = UnixSeconds(1_800_000_000 + n as i64 / 8000);
    let sig = "0123456789".repeat(9)[..88].to_owned();
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes());
    Received {
        from: from.clone(),
        message_id: format!("{n:032x}"),
        context_id: None,
        reply_to: None,
        text: "a text of the length that a short message has, which is about one hundred characters, more or less"
            .to_owned(),
        timestamp: now,
        received: now,
        digest,
        sig: sig.clone(),
        extra: None,
        is_auto: false,
        reply: Some(Reply {
            message_id: format!("{:032x}", !n),
            text: "received".to_owned(),
            timestamp: now,
            sig,
            is_auto: true,
        }),
        reply_by: None,
        settles: None,
    }
}

/// User and system time of the process, by the clock ticks of /proc.
fn cpu_secs() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

fn size_kib(path: &std::path::Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len() / 1024)
}
