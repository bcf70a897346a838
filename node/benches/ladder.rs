//! What receiving costs: bare verify and sign, the ladder in memory, the whole service over the durable store. All
//! three in one run, because only their ratios mean something on a machine that does other things as well.
//!
//!     taskset -c 0 cargo bench -p muretai-node --bench ladder
//!
//! `taskset` keeps the store's own threads on the same core, so that the last number is what one core does.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]
use std::{
    hint::black_box,
    sync::Arc,
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
const IN_MEMORY: usize = 20_000;
const TASKS: usize = 64;
const TEXT: &str = "Could you tell me when the next ferry to the northern islands leaves, and what it costs?";

/// Remembers nothing: what the ladder costs by itself.
struct Nothing;

impl Memory for Nothing {
    async fn standing(&self, _: &str, _: &str) -> Result<Standing, StoreError> {
        Ok(Standing { handled: None::<Handled>, is_direct: true, is_blocked: false })
    }
}

fn main() {
    let seconds = Duration::from_secs(std::env::var("BENCH_SECONDS").map_or(5, |secs| secs.parse().unwrap()));
    let key = SigningKey::from_seed(&Seed::from_bytes([9; 32]));
    let bare = bare(&key, seconds);
    println!("bare verify and sign     {bare:>8.0} /s   1.00");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let memory = runtime.block_on(in_memory(&key));
    println!("ladder in memory         {memory:>8.0} /s   {:.2}", memory / bare);
    let durable = runtime.block_on(durable(seconds));
    println!("service, durable store   {durable:>8.0} /s   {:.2}   ({TASKS} at once)", durable / bare);
}

fn bare(key: &SigningKey, time: Duration) -> f64 {
    let payload = message::signing_payload(
        key.did().as_str(),
        key.did().as_str(),
        "0123456789abcdef0123456789abcdef",
        Some("c1"),
        &Value::from(1_784_273_700),
        TEXT,
    );
    let sig = key.sign_base64(payload.as_bytes());
    let (start, mut n) = (Instant::now(), 0u32);
    while start.elapsed() < time {
        assert!(verify_base64(key.did(), black_box(payload.as_bytes()), &sig));
        black_box(key.sign_base64(black_box(payload.as_bytes())));
        n += 1;
    }
    f64::from(n) / start.elapsed().as_secs_f64()
}

/// Reads, climbs, signs the reply and writes it, with nothing stored.
async fn in_memory(key: &SigningKey) -> f64 {
    let requirement = card::requirement(key.did(), "http://127.0.0.1:1/");
    let ladder = Ladder::new(key.did().clone(), Profile::Node, ReplayGuard::default(), Nothing, requirement);
    let bodies = requests(key.did(), IN_MEMORY);
    let start = Instant::now();
    for body in &bodies {
        let request = frame::read(body, None, Profile::Node).unwrap();
        assert!(matches!(request.call, Call::Send(_)));
        let passed = ladder.climb(request.message, now()).await.unwrap();
        let reply = signed(key, passed.verified.from(), &MessageId::from_random([7; 16]), "");
        black_box(rpc::result(&request.id, &reply));
        passed.claim.confirm(passed.digest);
    }
    bodies.len() as f64 / start.elapsed().as_secs_f64()
}

async fn durable(time: Duration) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let dir = AgentDir { name: "south".to_owned(), path: folder.path().to_owned() };
    let second = Duration::from_secs(1);
    let http = HttpTransport::client(ClientTimeouts { connect: second, total: second });
    let agent = Agent::open(dir, &Seed::from_bytes([9; 32]), http).await.unwrap();
    let url = "http://127.0.0.1:1".to_owned();
    let options = ReceiverOptions { url, open_door: true, rate: None, reply_with: None };
    let receiver = Receiver::new(&agent, &options);
    let mut answered = 0;
    let mut took = Duration::ZERO;
    while took < time {
        let queue = Arc::new(std::sync::Mutex::new(requests(agent.did(), IN_MEMORY)));
        let start = Instant::now();
        let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(answer_all(receiver.clone(), queue.clone()))).collect();
        for task in tasks {
            answered += task.await.unwrap();
        }
        took += start.elapsed();
    }
    agent.close().await;
    answered as f64 / took.as_secs_f64()
}

async fn answer_all(receiver: Receiver, queue: Arc<std::sync::Mutex<Vec<Bytes>>>) -> usize {
    let mut answered = 0;
    loop {
        let Some(body) = queue.lock().unwrap().pop() else { return answered };
        let outcome = receiver.call(Incoming { body, a2a_version: None, remote: None }).await;
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
