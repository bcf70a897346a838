//! Benchmarks of a relay in processes of its own, the figures that README quotes: durable deposits and drained letters
//! per second on one core, the time from a deposit to the recipient's store, what an idle listener costs, `inbox
//! --sync`, and two relays on one PostgreSQL.
//!
//! `cargo bench -p muretai-tests --bench relay` runs all of it in about three minutes; a word selects parts (`deposits`,
//! `latency`, `idle`, `sync`, `postgres`). `BENCH_LETTERS` (default 96,000) is how many letters are deposited,
//! `BENCH_LISTENERS` (default 20,000) how many listeners are idle, or as many as the limit of open files allows,
//! `BENCH_IDLE_SECS` (default 30) for how long. Relay and load get a core each when `taskset` is there and the machine has
//! two. The relay's file lies in the target folder, so that it is on a disk. `MURETAI_TEST_POSTGRES` names the PostgreSQL
//! server; without it that part is left out. There nothing is pinned, and each relay is held to `BENCH_RELAY_PERCENT`
//! (default 20) of a core by a control group, where this user may make one: as root, mostly.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use muretai_tests::{
    Connection, Home, Key, RelayProcess, binary,
    http::encode,
    mail::{Mailbox, enc_pub_of, message_letter, text_letter},
    random::number,
    trust::befriend,
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

#[path = "relay/fleet.rs"]
mod fleet;
#[path = "relay/load.rs"]
mod load;
#[path = "relay/machine.rs"]
mod machine;
#[path = "relay/share.rs"]
mod share;

use load::{Load, fill};
use machine::{Machine, most_connections, on_relay_core, raise_open_files};

const SENDERS: usize = 64;
const LOAD: Load = Load { senders: SENDERS, threads: 4 };
/// No bound but the disk: the quotas of one sender are no figure of the relay's.
const UNBOUND: &[&str] = &[
    "--deposits-per-minute",
    "off",
    "--sender-letters",
    "10000000",
    "--mailbox-letters",
    "10000000",
    "--mailbox-bytes",
    "100GiB",
    "--quiet",
];

fn main() {
    raise_open_files();
    let machine = Machine::read();
    println!("muretai {}, {}", env!("CARGO_PKG_VERSION"), machine.describe());
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wants = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let is_pinned = machine.pin_load();
    if wants("deposits") {
        deposits_and_drain(is_pinned);
    }
    if wants("latency") {
        latency(is_pinned);
    }
    if wants("sync") {
        sync(is_pinned);
    }
    if wants("idle") {
        idle(is_pinned);
    }
    if wants("postgres") {
        fleet::postgres(&machine);
    }
}

/// A relay on its core, with its file on a disk.
fn start(is_pinned: bool, args: &[&str]) -> (RelayProcess, tempfile::TempDir) {
    let folder = tempfile::tempdir_in(binary::workspace().join("target")).unwrap();
    let home = Home::at(&folder.path().join("home"));
    let all = [&["relay", "serve", "--json", "--listen", "127.0.0.1:0"], UNBOUND, args].concat();
    let mut command = home.command(&all);
    if is_pinned {
        command = on_relay_core(&command);
    }
    let relay = RelayProcess::spawn(home, command, Vec::new()).unwrap_or_else(|err| panic!("{err}"));
    (relay, folder)
}

fn row(what: &str, figure: String, note: &str) {
    println!("{what:52} {figure:>14}  {note}");
}

/// The times in order; the one that `share` of them do not pass.
fn percentile(times: &mut [Duration], share: f64) -> Duration {
    times.sort();
    times[((times.len() as f64 * share).ceil() as usize).clamp(1, times.len()) - 1]
}

fn print_times(what: &str, mut times: Vec<Duration>) {
    let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    let (half, most) = (percentile(&mut times, 0.5), percentile(&mut times, 0.99));
    row(what, ms(most), &format!("p99 of {}; p50 {}, longest {}", times.len(), ms(half), ms(*times.last().unwrap())));
}

fn deposits_and_drain(is_pinned: bool) {
    let (relay, _folder) = start(is_pinned, &["--workers", "1"]);
    let recipients: Vec<Key> = (0..SENDERS as u32).map(|n| Key::nth(10_000 + n)).collect();
    let took = fill(&[&relay], &recipients, LOAD, number("BENCH_LETTERS", 96_000) as usize);
    let (letters, deposits) = (took.letters, took.rate());
    let (relay_each, load_each) = (took.each(took.used.relays), took.each(took.used.load));
    row(
        "durable deposits, 64 senders, 1 KiB",
        format!("{deposits:.0} /s"),
        &format!("{letters} letters; processor time of each: relay {relay_each:.0} µs, load {load_each:.0} µs"),
    );
    row("resident memory after them", format!("{:.1} MiB", relay.resident_kib() as f64 / 1024.0), "");
    let used = relay.cpu_time().iter().sum::<Duration>();
    let start = Instant::now();
    let drained: usize = std::thread::scope(|scope| {
        let lanes: Vec<_> = recipients
            .chunks(SENDERS / LOAD.threads)
            .map(|share| {
                let relay = &relay;
                scope.spawn(move || share.iter().map(|key| drain(relay, key)).sum::<usize>())
            })
            .collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).sum()
    });
    let rate = drained as f64 / start.elapsed().as_secs_f64();
    assert_eq!(drained, letters);
    let cost = (relay.cpu_time().iter().sum::<Duration>() - used).as_secs_f64() * 1e6 / letters as f64;
    row(
        "drained and acknowledged, 4 listeners at a time",
        format!("{rate:.0} /s"),
        &format!("{cost:.0} µs of processor time each"),
    );
    row("drain against deposits", format!("{:.2}", rate / deposits), "");
}

/// Polls and acknowledges until a mailbox is empty, on one connection; how many letters there were.
fn drain(relay: &RelayProcess, key: &Key) -> usize {
    let mailbox = relay.mailbox(key);
    let mut connection = Connection::open(relay.addr);
    let mut count = 0;
    loop {
        let answer = connection.request("GET", &mailbox.path(0), &[], b"");
        assert_eq!(answer.status, 200, "{}", answer.text());
        let qids: Vec<Value> =
            answer.json()["items"].as_array().unwrap().iter().map(|item| item["qid"].clone()).collect();
        if qids.is_empty() {
            return count;
        }
        count += qids.len();
        let mut body = mailbox.proof();
        body["qids"] = qids.into();
        let answer = connection.request("POST", "/ack", &[], body.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// From before a deposit is written until the recipient's database has it: a real agent listens.
fn latency(is_pinned: bool) {
    let (relay, _folder) = start(is_pinned, &[]);
    let (home, north) = (Home::with_agent("south"), Key::of(1));
    let serve = home.serve("south", &["--relay", &relay.url, "--quiet"]);
    befriend(&home, &serve, "south", &north);
    relay.wait_for_listener(&serve.did);
    let enc_pub = enc_pub_of(&home, "south");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut watched = runtime.block_on(async {
        use sqlx::{Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
        let options = SqliteConnectOptions::new().filename(home.agent("south").join("agent.db")).read_only(true);
        SqliteConnection::connect_with(&options).await.unwrap()
    });
    let mut newest = || {
        let statement = "SELECT coalesce(max(seq), 0) FROM messages WHERE direction = 0";
        runtime.block_on(sqlx::query_scalar::<_, i64>(statement).fetch_one(&mut watched)).unwrap()
    };
    let mut connection = Connection::open(relay.addr);
    let mut times = Vec::new();
    for n in 0..number("BENCH_SAMPLES", 500) + 20 {
        let letter = text_letter(&north, &serve.did, &enc_pub, "a letter to measure").to_string();
        let (before, start) = (newest(), Instant::now());
        let answer = connection.request("POST", "/send", &[], letter.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
        while newest() == before {
            assert!(start.elapsed() < muretai_tests::wait::PATIENCE, "the letter does not arrive");
        }
        // The first ones warm up.
        if n >= 20 {
            times.push(start.elapsed());
        }
    }
    print_times("from a deposit to the listener's store", times);
    drop(connection);
    print_times("from a deposit to a listener's socket", wake_ups(relay.addr, relay.addr, &relay.url));
}

/// From before a deposit at one address is written until the letter is at a listener of another.
fn wake_ups(deposits: SocketAddr, listens: SocketAddr, url: &str) -> Vec<Duration> {
    let (north, south) = (Key::of(1), Key::of(2));
    let mailbox = Mailbox::new(listens, url, &south);
    let mut stream = mailbox.stream();
    stream.wait_until_open();
    let mut connection = Connection::open(deposits);
    let mut acks = Connection::open(listens);
    let mut times = Vec::new();
    for n in 0..number("BENCH_SAMPLES", 500) + 20 {
        let letter = text_letter(&north, south.did(), &south.enc_pub(), "a letter to measure").to_string();
        let start = Instant::now();
        let request = encode("relay", "POST", "/send", &[], letter.as_bytes());
        assert!(connection.write(&request));
        let (event, item) = stream.next_event().unwrap();
        let took = start.elapsed();
        assert_eq!(event, "letter");
        assert_eq!(connection.read(false).status, 200);
        let mut body = mailbox.proof();
        body["qids"] = Value::Array(vec![item["qid"].clone()]);
        assert_eq!(acks.request("POST", "/ack", &[], body.to_string().as_bytes()).status, 200);
        if n >= 20 {
            times.push(took);
        }
    }
    times
}

/// A thousand letters of five contacts, fetched by one command.
fn sync(is_pinned: bool) {
    let (relay, _folder) = start(is_pinned, &[]);
    let home = Home::with_agent("south");
    let keys: Vec<Key> = (0..5).map(Key::nth).collect();
    let serve = home.serve("south", &["--quiet"]);
    let did = serve.did.clone();
    for key in &keys {
        befriend(&home, &serve, "south", key);
    }
    drop(serve);
    let enc_pub = enc_pub_of(&home, "south");
    let before = home.received("south").len();
    let mut took = Vec::new();
    for _ in 0..3 {
        for n in 0..1_000 {
            let key = &keys[n % keys.len()];
            relay.keep(&message_letter(key, &did, &enc_pub, &key.message(&did, "one of a thousand letters")));
        }
        let start = Instant::now();
        home.run(["inbox", "--sync", "--relay", &relay.url, "--quiet"]).ok();
        took.push(start.elapsed());
    }
    assert_eq!(home.received("south").len() - before, 3_000);
    took.sort();
    let secs = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    row(
        "1,000 letters by inbox --sync",
        secs(took[1]),
        &format!("middle of 3; {} to {}", secs(took[0]), secs(took[2])),
    );
}

/// Listeners that wait and hear nothing.
fn idle(is_pinned: bool) {
    let (relay, _folder) = start(is_pinned, &[]);
    let asked = number("BENCH_LISTENERS", 20_000);
    let count = asked.min(most_connections()) as u32;
    let limit = match u64::from(count) < asked {
        true => format!("; the limit of open files does not allow {asked}"),
        false => String::new(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // What a first few need once is not what each costs.
        let warm = connect(&relay, 0..200).await;
        drop(warm);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (before, start) = (relay.resident_kib(), Instant::now());
        let mut streams = connect(&relay, 1_000..1_000 + count).await;
        let took = start.elapsed();
        let each = (relay.resident_kib().saturating_sub(before)) as f64 * 1024.0 / f64::from(count);
        row("idle listeners, streams", format!("{count}"), &format!("connected in {:.1} s{limit}", took.as_secs_f64()));
        row(
            "memory of each",
            format!("{:.2} KiB", each / 1024.0),
            &format!("{:.0} MiB in all", relay.resident_kib() as f64 / 1024.0),
        );
        // Connecting leaves work behind, such as what is known of presence.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let secs = number("BENCH_IDLE_SECS", 30);
        let used = relay.cpu_time().iter().sum::<Duration>();
        tokio::time::sleep(Duration::from_secs(secs)).await;
        let share = (relay.cpu_time().iter().sum::<Duration>() - used).as_secs_f64() / secs as f64;
        row("processor time of all", format!("{:.2} %", share * 100.0), &format!("of a core, over {secs} s"));
        let each = (relay.resident_kib().saturating_sub(before)) as f64 * 1024.0 / f64::from(count);
        row("memory of each after that", format!("{:.2} KiB", each / 1024.0), "");
        // All of them are alive: a letter for the last one arrives.
        let (north, last) = (Key::of(1), Key::nth(1_000 + count - 1));
        let letter = text_letter(&north, last.did(), &last.enc_pub(), "still there?");
        relay.keep(&letter);
        let stream = streams.last_mut().unwrap();
        let mut seen = Vec::new();
        while !seen.windows(13).any(|window| window == b"event: letter") {
            assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0, "{}", String::from_utf8_lossy(&seen));
        }
        let online = relay.is_online(Key::nth(1_000).did());
        assert!(online, "the first one is still connected");
    });
}

/// Streams of these keys, each open.
async fn connect(relay: &RelayProcess, keys: std::ops::Range<u32>) -> Vec<TcpStream> {
    let mut streams = Vec::with_capacity(keys.len());
    let keys: Vec<u32> = keys.collect();
    for batch in keys.chunks(64) {
        let mut opening = tokio::task::JoinSet::new();
        for n in batch {
            let key = Key::nth(*n);
            let mailbox = relay.mailbox(&key);
            let (n, addr) = (*n, relay.addr);
            let head = format!("GET {} HTTP/1.1\r\nHost: relay\r\nAccept: text/event-stream\r\n\r\n", mailbox.path(0));
            opening.spawn(async move { (n, open(addr, n, head).await) });
        }
        while let Some(opened) = opening.join_next().await {
            streams.push(opened.unwrap());
        }
    }
    streams.sort_by_key(|(n, _)| *n);
    streams.into_iter().map(|(_, stream)| stream).collect()
}

async fn open(addr: SocketAddr, n: u32, head: String) -> TcpStream {
    // One source address has too few ports for all of them.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2 + (n % 8) as u8), 0))).unwrap();
    let mut stream = socket.connect(addr).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !seen.windows(4).any(|window| window == b": ok") {
        assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0, "{}", String::from_utf8_lossy(&seen));
    }
    assert!(seen.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&seen));
    stream
}
