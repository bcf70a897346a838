//! What the gate's look-ups cost when the file holds 100,000 contacts and 10,000 introductions, beside a file that holds
//! the senders alone.
//!
//!     cargo bench -p muretai-store --bench gate -- [MESSAGES]
//!
//! Both files take turns, so that whatever else the machine does meanwhile meets both. Counted in processor time of all
//! threads; compare within one run only. Senders are 64 contacts spread over the whole file.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]
use std::path::Path;

use muretai_protocol::{Did, UnixSeconds, did::PublicKey};
use muretai_store::{
    Store,
    messages::{Received, Reply},
};
use sqlx::{Connection, SqliteConnection, query, raw_sql, sqlite::SqliteConnectOptions};

const SENDERS: usize = 64;
const ROUNDS: usize = 8;
const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

/// A file and who writes to it.
struct World {
    _folder: tempfile::TempDir,
    store: Store,
    direct: Vec<Did>,
    introduced: Vec<Did>,
    sent: u64,
}

/// What is measured.
#[derive(Clone, Copy)]
enum Work {
    /// Step 4 of the ladder, for a direct contact.
    LookUp,
    /// The same, and the message with its reply is stored.
    LookUpAndCommit,
    /// For somebody who was introduced: the look-up, and the introductions that stand.
    Introduced,
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let messages = std::env::args().filter_map(|arg| arg.parse().ok()).next();
    let (messages, contacts, introductions) =
        if is_bench { (messages.unwrap_or(20_000), 100_000, 10_000) } else { (640, 640, 64) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut few = World::new(SENDERS, 0).await;
        let mut many = World::new(contacts, introductions).await;
        for (what, work) in [("look up", Work::LookUp), ("look up and commit", Work::LookUpAndCommit)] {
            compare(what, &mut few, work, &mut many, work, messages).await;
        }
        // Fresh files: the first two hold messages by now.
        let (mut alone, mut many) = (World::new(SENDERS, SENDERS).await, World::new(contacts, introductions).await);
        compare("look up, introduced", &mut alone, Work::Introduced, &mut many, Work::Introduced, messages).await;
    });
}

/// Rounds in turn; the cheapest one of each counts, for noise only ever adds.
async fn compare(what: &str, few: &mut World, of_few: Work, many: &mut World, of_many: Work, messages: usize) {
    let (mut least_few, mut least_many) = (f64::MAX, f64::MAX);
    for round in 0..=ROUNDS {
        let (one, other) = (few.run(of_few, messages).await, many.run(of_many, messages).await);
        // The first round fills caches.
        if round > 0 {
            (least_few, least_many) = (least_few.min(one), least_many.min(other));
        }
    }
    let ratio = least_many / least_few;
    println!("{what:<20} few contacts {least_few:>6.2} us, many {least_many:>6.2} us, ratio {ratio:.3}");
}

impl World {
    async fn new(contacts: usize, introductions: usize) -> World {
        let folder = tempfile::tempdir_in(std::env::var_os("MURETAI_BENCH_DIR").unwrap_or(".".into())).unwrap();
        let path = folder.path().join("agent.db");
        let store = Store::open(&path).await.unwrap();
        store.close().await;
        populate(&path, contacts, introductions).await;
        let store = Store::open(&path).await.unwrap();
        let spread = |base: usize, all: usize| (0..SENDERS).map(|n| did(base + n * all / SENDERS)).collect::<Vec<_>>();
        let introduced = if introductions == 0 { Vec::new() } else { spread(INTRODUCED, introductions) };
        World { _folder: folder, store, direct: spread(0, contacts), introduced, sent: 0 }
    }

    /// Processor time for each message, in microseconds.
    async fn run(&mut self, work: Work, messages: usize) -> f64 {
        let before = processor_micros();
        let each = messages / SENDERS;
        let senders = if matches!(work, Work::Introduced) { &self.introduced } else { &self.direct };
        let callers: Vec<_> = senders
            .iter()
            .map(|sender| tokio::spawn(call(self.store.clone(), sender.clone(), work, self.sent, each as u64)))
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        self.sent += each as u64;
        (processor_micros() - before) / (each * SENDERS) as f64
    }
}

async fn call(store: Store, from: Did, work: Work, first: u64, messages: u64) {
    for n in first..first + messages {
        let message = message(&from, n);
        let standing = store.standing(from.as_str(), &message.message_id).await.unwrap();
        assert!(standing.handled.is_none());
        match work {
            Work::LookUp => assert!(standing.is_direct),
            Work::LookUpAndCommit => drop(store.commit_received(message).await.unwrap()),
            Work::Introduced => {
                assert!(standing.is_introduced);
                assert_eq!(store.standing_introductions(&from, NOW).await.unwrap().len(), 1);
            }
        }
    }
}

/// Where the numbers of introduced peers begin.
const INTRODUCED: usize = 1_000_000;

fn did(n: usize) -> Did {
    let mut key = [7; 32];
    key[..8].copy_from_slice(&(n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    Did::from_key(&PublicKey::Ed25519(key))
}

/// Fills the file by SQL: one transaction for each row would take minutes. Introductions are by the first contacts.
async fn populate(path: &Path, contacts: usize, introductions: usize) {
    let options = SqliteConnectOptions::new().filename(path).pragma("synchronous", "OFF");
    let mut conn = SqliteConnection::connect_with(&options).await.unwrap();
    raw_sql("BEGIN IMMEDIATE").execute(&mut conn).await.unwrap();
    for n in 0..contacts {
        let peer = add_contact(&mut conn, &did(n), 1).await;
        assert_eq!(peer, n as i64 + 1);
    }
    for n in 0..introductions {
        let peer = add_contact(&mut conn, &did(INTRODUCED + n), 2).await;
        query(
            "INSERT INTO introductions (role, issuer, subject, target, status, trust_level_bp, issued, valid_until, \
             is_requested, created, changed, id, expertise, vc) VALUES (1, ?, ?, 1, 1, 800, ?, ?, 0, ?, ?, ?, '[]', ?)",
        )
        .bind(1 + n as i64 % 100.min(contacts as i64))
        .bind(peer)
        .bind(NOW.0)
        .bind(NOW.0 + 86_400)
        .bind(NOW.0)
        .bind(NOW.0)
        .bind(format!("urn:uuid:{n:032x}"))
        .bind("x".repeat(900))
        .execute(&mut conn)
        .await
        .unwrap();
    }
    raw_sql("COMMIT").execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

async fn add_contact(conn: &mut SqliteConnection, did: &Did, relation: i64) -> i64 {
    let done = query("INSERT INTO peers (address) VALUES (?)").bind(did.as_str()).execute(&mut *conn).await.unwrap();
    let peer = done.last_insert_rowid();
    query(
        "INSERT INTO contacts (peer, name, relation, is_blocked, url, source, allow_private, added) \
         VALUES (?, ?, ?, 0, 'https://agent.example', 0, 0, ?)",
    )
    .bind(peer)
    .bind(format!("contact-{peer}"))
    .bind(relation)
    .bind(NOW.0)
    .execute(conn)
    .await
    .unwrap();
    peer
}

fn message(from: &Did, n: u64) -> Received {
    let sig = "0123456789".repeat(9)[..88].to_owned();
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    Received {
        from: from.clone(),
        message_id: format!("{n:032x}"),
        context_id: None,
        reply_to: None,
        text: "a text of the length that a short message has, which is about one hundred characters, more or less"
            .to_owned(),
        timestamp: NOW,
        received: NOW,
        digest,
        sig: sig.clone(),
        extra: None,
        is_auto: false,
        reply: Some(Reply {
            message_id: format!("{:032x}", !n),
            text: "received".to_owned(),
            timestamp: NOW,
            sig,
            is_auto: true,
        }),
        reply_by: None,
        settles: None,
    }
}

fn processor_micros() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
