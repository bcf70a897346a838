//! What receiving costs: bare verify and sign, the ladder in memory, the whole service over the durable store.
//!
//!     cargo bench -p muretai-node --bench ladder
//!
//! Counted per second of processor time of all threads, so that the numbers mean one core, whatever else the machine
//! does meanwhile; the rate by the clock stands beside it. Compare within one run only. `BENCH_SECONDS` sets how long.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]
use std::{
    hint::black_box,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use muretai_node::{
    Agent,
    home::AgentDir,
    receive::{
        frame::{self, Call},
        ladder::{Ladder, Memory, Profile},
        replay::ReplayGuard,
        service::{Receiver, ReceiverOptions},
    },
};
use muretai_protocol::{
    Did, MessageId, UnixSeconds, card,
    json::{Object, Value},
    message::{self, Draft, Role},
    rpc,
    sign::{Seed, SigningKey, verify_base64},
};
use muretai_store::{
    StoreError,
    messages::{Handled, Standing},
};
use muretai_transports::{ClientTimeouts, Incoming, Service, http::HttpTransport};

const SENDERS: u8 = 16;
/// Requests that are signed in advance, with the clocks stopped.
const BATCH: usize = 5_000;
const TASKS: usize = 64;
const TEXT: &str = "Could you tell me when the next ferry to the northern islands leaves, and what it costs?";

/// Remembers nothing: what the ladder costs by itself.
struct Nothing;

impl Memory for Nothing {
    async fn standing(&self, _: &str, _: &str) -> Result<Standing, StoreError> {
        Ok(Standing { handled: None::<Handled>, is_direct: true, is_introduced: false, is_blocked: false })
    }
}

/// How many, in how much processor time, and by the clock.
struct Rate {
    per_core: f64,
    by_clock: f64,
}

/// Stops both clocks while it is not running.
struct Watch {
    count: usize,
    processor: Duration,
    clock: Duration,
}

impl Watch {
    fn new() -> Watch {
        Watch { count: 0, processor: Duration::ZERO, clock: Duration::ZERO }
    }
    async fn run(&mut self, work: impl AsyncFnOnce() -> usize) {
        let (processor, clock) = (processor_time(), Instant::now());
        self.count += work().await;
        self.clock += clock.elapsed();
        self.processor += processor_time() - processor;
    }
    fn rate(&self) -> Rate {
        let per = |time: Duration| self.count as f64 / time.as_secs_f64();
        Rate { per_core: per(self.processor), by_clock: per(self.clock) }
    }
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

fn main() {
    // `cargo test --benches` only wants to see that it runs.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let secs = std::env::var("BENCH_SECONDS").map_or(5, |secs| secs.parse().unwrap());
    let time = Duration::from_secs(if is_bench { secs } else { 0 }).max(Duration::from_millis(1));
    let key = SigningKey::from_seed(&Seed::from_bytes([9; 32]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bare = runtime.block_on(bare(&key, time));
    println!("{:<24}{:>12}{:>12}{:>8}", "", "per core /s", "by clock /s", "ratio");
    show("bare verify and sign", &bare, &bare);
    show("ladder in memory", &runtime.block_on(in_memory(&key, time)), &bare);
    show("service, durable store", &runtime.block_on(durable(time)), &bare);
}

fn show(what: &str, rate: &Rate, bare: &Rate) {
    println!("{what:<24}{:>12.0}{:>12.0}{:>8.2}", rate.per_core, rate.by_clock, rate.per_core / bare.per_core);
}

async fn bare(key: &SigningKey, time: Duration) -> Rate {
    let (did, id) = (key.did().as_str(), "0123456789abcdef0123456789abcdef");
    let payload = message::signing_payload(did, did, id, Some("c1"), &Value::from(1_784_273_700), TEXT);
    let sig = key.sign_base64(payload.as_bytes());
    let mut watch = Watch::new();
    while watch.clock < time {
        watch
            .run(async || {
                for _ in 0..1_000 {
                    assert!(verify_base64(key.did(), black_box(payload.as_bytes()), &sig));
                    black_box(key.sign_base64(black_box(payload.as_bytes())));
                }
                1_000
            })
            .await;
    }
    watch.rate()
}

/// Reads, climbs, signs the reply and writes it, with nothing stored.
async fn in_memory(key: &SigningKey, time: Duration) -> Rate {
    let requirement = card::requirement(key.did(), "http://127.0.0.1:1/");
    let ladder = Ladder::new(key.did().clone(), Profile::Node, ReplayGuard::default(), Nothing, requirement);
    let mut watch = Watch::new();
    while watch.clock < time {
        let bodies = requests(key.did(), BATCH);
        let work = async || {
            for body in &bodies {
                let request = frame::read(body, None, Profile::Node).unwrap();
                assert!(matches!(request.call, Call::Send(_)));
                let passed = ladder.climb(request.message, now()).await.unwrap();
                let reply = signed(key, passed.verified.from(), &MessageId::from_random([7; 16]), "");
                black_box(rpc::result(&request.id, &reply));
                passed.claim.confirm(passed.digest);
            }
            bodies.len()
        };
        watch.run(work).await;
    }
    watch.rate()
}

async fn durable(time: Duration) -> Rate {
    let folder = tempfile::tempdir().unwrap();
    let dir = AgentDir { name: "south".to_owned(), path: folder.path().to_owned() };
    let second = Duration::from_secs(1);
    let http = HttpTransport::client(ClientTimeouts { connect: second, total: second });
    let agent = Agent::open(dir, &Seed::from_bytes([9; 32]), http).await.unwrap();
    let url = "http://127.0.0.1:1".to_owned();
    let options = ReceiverOptions { url, open_door: true, ..ReceiverOptions::default() };
    let receiver = Receiver::new(&agent, &options);
    let mut watch = Watch::new();
    while watch.clock < time {
        let queue = Arc::new(Mutex::new(requests(agent.did(), BATCH)));
        let work = async || {
            let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(answer_all(receiver.clone(), queue.clone()))).collect();
            let mut answered = 0;
            for task in tasks {
                answered += task.await.unwrap();
            }
            answered
        };
        watch.run(work).await;
    }
    agent.close().await;
    watch.rate()
}

async fn answer_all(receiver: Receiver, queue: Arc<Mutex<Vec<Bytes>>>) -> usize {
    let mut answered = 0;
    loop {
        let Some(body) = queue.lock().unwrap().pop() else { return answered };
        let outcome = receiver.call(Incoming { body, a2a_version: None, remote: None, way: Default::default() }).await;
        assert!(outcome.body.windows(9).any(|bytes| bytes == b"\"result\":"));
        answered += 1;
    }
}

fn requests(to: &Did, count: usize) -> Vec<Bytes> {
    let senders: Vec<_> = (1..=SENDERS).map(|n| SigningKey::from_seed(&Seed::from_bytes([n; 32]))).collect();
    let request = |n: usize| {
        let mut id = [0; 16];
        getrandom::fill(&mut id).unwrap();
        let message = signed(&senders[n % senders.len()], to, &MessageId::from_random(id), TEXT);
        let params: Object = [("message".to_owned(), message)].into_iter().collect();
        Bytes::from(rpc::request("1", "message/send", &params.into()))
    };
    (0..count).map(request).collect()
}

fn signed(key: &SigningKey, to: &Did, message_id: &MessageId, text: &str) -> Value {
    let draft = Draft {
        role: Role::User,
        to: to.as_str(),
        message_id,
        context_id: Some("c1"),
        text,
        timestamp: now(),
        extra: Object::new(),
    };
    message::sign(key, &draft)
}

fn now() -> UnixSeconds {
    muretai_node::agent::now()
}
