//! Benchmarks of whole processes, the figures that README quotes: start-up, one `send`, and signed, durable replies per
//! second on one server core, beside the bare rate at which that core verifies and signs.
//!
//! `cargo bench -p muretai-tests` runs all of it in about a minute. `BENCH_MESSAGES` (default 100,000) is how many
//! messages are received, `BENCH_RUNS` (default 60) how often a command is started. Server and load get a core each
//! when `taskset` is there and the machine has two.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use muretai_protocol::{Did, did::PublicKey, json, message, sign};
use muretai_tests::{
    Connection, Home, Serve,
    http::encode,
    rpc::{self, Key, send},
    serve::cpu_time,
};

const CONNECTIONS: usize = 64;
const LOAD_THREADS: usize = 4;
/// Messages of one connection that are signed beforehand and sent in one go.
const BURST: usize = 250;
const SERVER_CORE: &str = "0";
const LOAD_CORE: &str = "1";

fn main() {
    if std::env::args().any(|arg| arg == "--bare") {
        let (rate, cost) = bare_rate(Duration::from_secs(2));
        println!("{rate} {cost}");
        return;
    }
    println!("muretai {}, {}", env!("CARGO_PKG_VERSION"), machine());
    startup();
    receive();
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores, {}", model.unwrap_or("unknown processor").trim())
}

/// Runs a command again and again; prints the shortest, the middle and the longest time.
fn repeat(what: &str, mut run: impl FnMut()) {
    run();
    let mut times: Vec<Duration> = (0..number("BENCH_RUNS", 60))
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    let ms = |time: &Duration| time.as_secs_f64() * 1e3;
    let (least, middle, most) = (&times[0], &times[times.len() / 2], times.last().unwrap());
    println!("{what:44} {:8.2} ms  ({:.2} to {:.2}, {} runs)", ms(middle), ms(least), ms(most), times.len());
}

fn startup() {
    let (north, south) = (Home::with_agent("north"), Home::with_agent("south"));
    let serve = south.serve("south", &["--open-door", "--rate-limit", "off"]);
    let link = south.run(["invite", "create"]).ok().out;
    north.run(["claim", link.trim()]).ok();
    let quiet = |home: &Home, args: &[&str]| {
        let status = home.command(args).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "{args:?}");
    };
    repeat("muretai --version", || quiet(&north, &["--version"]));
    repeat("muretai send to a contact", || quiet(&north, &["send", "south", "hello"]));
    repeat("muretai send to a URL (fetches the card)", || quiet(&north, &["send", &serve.url, "hello"]));
}

fn receive() {
    let home = Home::with_agent("south");
    let is_pinned = pin_load();
    let mut command =
        home.command(["serve", "--listen", "127.0.0.1:0", "--open-door", "--rate-limit", "off", "--quiet"]);
    if is_pinned {
        command = on_server_core(&command);
    }
    let serve = Serve::spawn(command).unwrap();
    let idle = serve.resident_kib();
    let before = bare(is_pinned);
    let total = number("BENCH_MESSAGES", 100_000);
    let (mut received, mut busy, mut resident) = (0, Duration::ZERO, Vec::new());
    let used = serve.cpu_time();
    while received < total {
        let bodies = signed(&serve);
        busy += burst(&serve, &bodies);
        received += CONNECTIONS * BURST;
        resident.push(serve.resident_kib());
    }
    let used = [0, 1].map(|mode| (serve.cpu_time()[mode] - used[mode]).as_secs_f64() * 1e6 / received as f64);
    let after = bare(is_pinned);
    let [bare, cost] = [(before.0 + after.0) / 2.0, (before.1 + after.1) / 2.0];
    let (before, after) = (before.0, after.0);
    let rate = received as f64 / busy.as_secs_f64();
    let pinned = if is_pinned { "server and load on a core each" } else { "not pinned" };
    println!(
        "receive, durable store, {CONNECTIONS} connections     {rate:8.0} replies/s  ({received} messages, {pinned})"
    );
    println!("bare verify and sign, same core              {bare:8.0} /s  ({before:.0} before, {after:.0} after)");
    println!("receive against bare                         {:8.2}", rate / bare);
    println!(
        "processor time of the server per message     {:8.1} µs  ({:.1} user, {:.1} kernel)",
        used[0] + used[1],
        used[0],
        used[1]
    );
    println!("processor time of bare verify and sign       {cost:8.1} µs");
    println!("receive against bare, by processor time      {:8.2}", cost / (used[0] + used[1]));
    let mib = |kib: u64| kib as f64 / 1024.0;
    println!("resident memory idle                         {:8.1} MiB", mib(idle));
    let (first, last) = (resident[0], *resident.last().unwrap());
    println!(
        "resident memory under load                   {:8.1} MiB  ({:.1} after the first burst)",
        mib(last),
        mib(first)
    );
    let start = Instant::now();
    assert_eq!(serve.stop("TERM").0, 0);
    println!("graceful stop                                {:8.0} ms", start.elapsed().as_secs_f64() * 1e3);
}

/// Puts this process, and what it starts from now on, on the load's core.
fn pin_load() -> bool {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return false;
    }
    let pid = std::process::id().to_string();
    let mut taskset = Command::new("taskset");
    taskset.args(["-a", "-c", "-p", LOAD_CORE, &pid]).stdout(Stdio::null()).stderr(Stdio::null());
    // A thread of the start-up runs that ends while it is being pinned is a fault to `taskset`.
    (0..10).any(|_| taskset.status().is_ok_and(|status| status.success()))
}

/// The same command under `taskset`, on the server's core.
fn on_server_core(command: &Command) -> Command {
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", SERVER_CORE]).arg(command.get_program()).args(command.get_args()).env_clear();
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            pinned.env(key, value);
        }
    }
    pinned.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    pinned
}

/// The bare rate on the server's core and its processor time in µs, measured by a process of its own.
fn bare(is_pinned: bool) -> (f64, f64) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--bare");
    if is_pinned {
        command = on_server_core(&command);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (rate, cost) = text.trim().split_once(' ').unwrap();
    (rate.parse().unwrap(), cost.parse().unwrap())
}

/// Verifies a message and signs a reply, over and over; how often a second, and the µs of processor time each time.
fn bare_rate(duration: Duration) -> (f64, f64) {
    let (north, south) = (Key::of(1), Key::of(2));
    let did: Did = north.did().parse().unwrap();
    let PublicKey::Ed25519(public) = did.key() else { panic!("an Ed25519 DID") };
    let timestamp = json::parse(rpc::now().to_string().as_bytes()).unwrap();
    let payload = |from: &Key, to: &Key| {
        message::signing_payload(from.did(), to.did(), &rpc::fresh_id(), None, &timestamp, "hello there, how are you")
    };
    let (question, answer) = (payload(&north, &south), payload(&south, &north));
    let signature = north.signing().sign(question.as_bytes());
    let used = || cpu_time(std::process::id()).iter().sum::<Duration>();
    let (start, used_before, mut rounds) = (Instant::now(), used(), 0u32);
    while start.elapsed() < duration {
        for _ in 0..64 {
            assert!(sign::verify_ed25519(&public, question.as_bytes(), std::hint::black_box(&signature)));
            std::hint::black_box(south.signing().sign(std::hint::black_box(answer.as_bytes())));
        }
        rounds += 64;
    }
    let cost = (used() - used_before).as_secs_f64() * 1e6 / f64::from(rounds);
    (f64::from(rounds) / start.elapsed().as_secs_f64(), cost)
}

/// The requests of one burst, by connection, signed beforehand: each connection is a sender of its own.
fn signed(serve: &Serve) -> Vec<Vec<Vec<u8>>> {
    let host = serve.addr.to_string();
    let request = |key: &Key| {
        let body = send(&key.message(&serve.did, "hello there, how are you")).to_string();
        encode(&host, "POST", "/", &[("Content-Type", "application/json")], body.as_bytes())
    };
    (0..CONNECTIONS)
        .map(|n| {
            let key = Key::nth(n as u32);
            (0..BURST).map(|_| request(&key)).collect()
        })
        .collect()
}

/// Sends a burst over keep-alive connections, one request of each connection in flight; how long it took.
fn burst(serve: &Serve, requests: &[Vec<Vec<u8>>]) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for share in requests.chunks(CONNECTIONS / LOAD_THREADS) {
            scope.spawn(move || {
                let mut connections: Vec<Connection> = share.iter().map(|_| serve.connect()).collect();
                for n in 0..BURST {
                    for (connection, requests) in connections.iter_mut().zip(share) {
                        assert!(connection.write(&requests[n]));
                    }
                    for connection in &mut connections {
                        let answer = connection.read(false);
                        let is_reply = answer.body.windows(8).any(|window| window == b"\"result\"");
                        assert!(answer.status == 200 && is_reply, "{}", answer.text());
                    }
                }
            });
        }
    });
    start.elapsed()
}
