//! Whoever makes keys by the thousand: what each of them may leave at a relay fills neither disk nor memory, and an honest
//! sender goes on.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use muretai_protocol::{
    UnixSeconds,
    invite::{InviteSpec, mint},
};
use muretai_tests::{
    Connection, Key, RelayProcess,
    http::encode,
    mail::{Mailbox, text_letter},
    postgres::Database,
    random::number,
    rpc::{fresh_id, now},
    vouch::canonical,
    wait,
};
use serde_json::{Value, json};

const MIB: u64 = 1_048_576;
const THREADS: usize = 4;
/// What pads a card or an invite.
const PADDING: usize = 12_000;
/// Bounds that are met soon: 4 MiB of cards, as many of invites, 500 mailboxes.
const SMALL: &[&str] =
    &["--card-bytes", "4MiB", "--invite-bytes", "4MiB", "--mailboxes", "500", "--sweep-every", "1s", "--quiet"];

/// Keys that nobody has seen.
fn fresh_keys() -> impl Iterator<Item = Key> {
    let count = number("FLOOD_KEYS", 3_000) as u32;
    (0..count).map(|n| Key::nth(1_000_000 + n))
}

fn signed(key: &Key, mut object: Value) -> Value {
    object["sig"] = key.signing().sign_base64(canonical(&object).as_bytes()).into();
    object
}

fn card(key: &Key) -> Value {
    let card = json!({"did": key.did(), "name": "flood", "padding": "x".repeat(PADDING)});
    signed(key, json!({"v": 1, "typ": "agentcard", "card": card, "ts": now()}))
}

fn invite(key: &Key) -> String {
    let (nonce, padding) = (fresh_id(), "x".repeat(PADDING));
    let spec = InviteSpec {
        name: "flood",
        url: "",
        specialty: Some(&padding),
        nonce: &nonce,
        exp: UnixSeconds(now() + 300 * 86_400),
        purpose: None,
        relay: Some("https://relay.example"),
        enc_pub: None,
    };
    mint(key.signing(), &spec).to_json()
}

/// All that a fresh key may leave: a card, an invite, a mailbox that it listens at.
fn flood(relay: &RelayProcess, key: &Key, connection: &mut Connection) {
    for (path, body) in [("/card", card(key).to_string()), ("/i", invite(key))] {
        let answer = connection.request("POST", path, &[], body.as_bytes());
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    let answer = connection.request("GET", &Mailbox::new(relay.addr, &relay.url, key).path(0), &[], b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Deposits letters for a listener for as long as the flood lasts; how long each took to arrive.
fn honest(relay: &RelayProcess, flooding: &AtomicUsize) -> Vec<Duration> {
    let (north, south) = (Key::of(1), Key::of(2));
    let mailbox = relay.mailbox(&south);
    let mut stream = mailbox.stream();
    stream.wait_until_open();
    let mut connection = Connection::open(relay.addr);
    let mut times = Vec::new();
    while flooding.load(Ordering::SeqCst) > 0 || times.is_empty() {
        let letter = text_letter(&north, south.did(), &south.enc_pub(), "honest").to_string();
        let start = Instant::now();
        assert!(connection.write(&encode("relay", "POST", "/send", &[], letter.as_bytes())));
        let answer = connection.read(false);
        match answer.status {
            200 => {}
            // Its own rate, and nothing else.
            429 if answer.json()["error"]["data"]["bound"] == "senderRate" => break,
            status => panic!("HTTP {status}: {}", answer.text()),
        }
        let (event, item) = stream.next_event().expect("the stream goes on");
        assert_eq!(event, "letter");
        times.push(start.elapsed());
        assert_eq!(mailbox.ack(&[item["qid"].clone()]).json()["acked"], 1);
    }
    times
}

/// Runs the flood and the honest sender side by side.
fn run(relay: &RelayProcess) {
    let keys: Vec<Key> = fresh_keys().collect();
    let flooding = AtomicUsize::new(THREADS);
    let mut times = std::thread::scope(|scope| {
        for keys in keys.chunks(keys.len().div_ceil(THREADS)) {
            let flooding = &flooding;
            scope.spawn(move || {
                let _over = Over(flooding);
                let mut connection = Connection::open(relay.addr);
                keys.iter().for_each(|key| flood(relay, key, &mut connection));
            });
        }
        scope.spawn(|| honest(relay, &flooding)).join().unwrap()
    });
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    eprintln!("{} honest letters meanwhile: p50 {:?}, p99 {:?}", times.len(), at(50), at(99));
    let figure = |name: &str| relay.metric(&format!("muretai_relay_{name}"));
    wait::until("mailboxes to be forgotten", || (figure("remembered_mailboxes")? <= 501.0).then_some(()));
    let kept = figure("directory_bytes").unwrap() + 400.0 * (figure("cards").unwrap() + figure("invites").unwrap());
    assert!(kept <= 8.0 * MIB as f64, "{kept} bytes are kept");
    assert!(kept > 6.0 * MIB as f64, "{kept} bytes are kept: no more goes than has to");
    eprintln!("{kept} bytes of cards and invites are kept of {}", keys.len() * 2 * PADDING);
}

/// One thread of the flood less, also when it fails.
struct Over<'a>(&'a AtomicUsize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn fresh_keys_by_the_thousand_fill_neither_disk_nor_memory() {
    let relay = RelayProcess::start(SMALL);
    run(&relay);
    let on_disk = relay.stored_bytes().len() as u64;
    eprintln!("{} MiB on disk, {} MiB resident", on_disk / MIB, relay.resident_kib() / 1_024);
    // 8 MiB that may be kept, 16 MiB of free pages that may be, and the log, which is written back at 32 MiB.
    assert!(on_disk < 80 * MIB, "{on_disk} bytes on disk");
    // An unoptimised program with SQLite's cache of 32 MiB.
    assert!(relay.resident_kib() < 160 * 1_024, "{} KiB resident", relay.resident_kib());
}

#[test]
fn nor_a_database() {
    let Some(database) = Database::new() else { return };
    let relay = RelayProcess::start(&[&["--store", &database.url], SMALL].concat());
    run(&relay);
    assert!(relay.resident_kib() < 160 * 1_024, "{} KiB resident", relay.resident_kib());
}
