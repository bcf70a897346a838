//! Kills `serve` with SIGKILL at random moments under load, restarts it on the same home, and proves that what was
//! acknowledged is there exactly once, and that what was not is delivered exactly once by its retry.
//!
//! `CRASH_ROUNDS` and `CRASH_SEED` choose how often, and which moments.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use muretai_tests::{
    Connection, Home,
    random::{Random, number},
    rpc::{self, Key, code, send},
    wait,
};
use serde_json::Value;

const SENDERS: u32 = 16;
/// Past this, no further round begins.
const LONGEST: Duration = Duration::from_secs(90);

/// What senders and killer share.
struct Field {
    did: String,
    /// Where the receiver is now; `None` between a kill and the restart.
    receiver: Mutex<Option<SocketAddr>>,
    moved: Condvar,
    acknowledged: AtomicUsize,
    is_over: AtomicBool,
    /// An assertion failed: nobody restarts the receiver any more.
    is_broken: AtomicBool,
}

/// Lets the senders go when the killer fails, so that its failure is seen instead of a hang.
struct LetGo<'a>(&'a Field);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_broken.store(true, Ordering::SeqCst);
            self.0.moved.notify_all();
        }
    }
}

impl Field {
    /// Where to send to, once it is known.
    fn receiver(&self) -> SocketAddr {
        let mut receiver = self.receiver.lock().unwrap();
        loop {
            assert!(!self.is_broken.load(Ordering::SeqCst), "the receiver does not come back");
            match *receiver {
                Some(addr) => return addr,
                None => receiver = self.moved.wait_timeout(receiver, Duration::from_secs(1)).unwrap().0,
            }
        }
    }

    fn move_to(&self, addr: Option<SocketAddr>) {
        *self.receiver.lock().unwrap() = addr;
        self.moved.notify_all();
    }

    /// Sends until it is acknowledged, over however many lives of the receiver; says whether the first confirmation
    /// was the reply itself or the word that an earlier attempt had arrived.
    fn deliver(&self, connection: &mut Option<(SocketAddr, Connection)>, body: &[u8]) -> Acknowledged {
        loop {
            let addr = self.receiver();
            if connection.as_ref().is_none_or(|(to, _)| *to != addr) {
                *connection = Connection::try_open(addr).map(|opened| (addr, opened));
            }
            let Some((_, open)) = connection.as_mut() else {
                std::thread::yield_now();
                continue;
            };
            let request = muretai_tests::http::encode("receiver", "POST", "/", &[], body);
            let answer = if open.write(&request) { open.try_read(false) } else { None };
            let Some(answer) = answer else {
                *connection = None;
                continue;
            };
            let answer = answer.json();
            match code(&answer) {
                0 => return Acknowledged::Answered,
                -32002 if answer["error"]["data"]["duplicate"] == true => return Acknowledged::Earlier,
                _ => panic!("neither answered nor a duplicate: {answer}"),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Acknowledged {
    Answered,
    Earlier,
}

/// Sends one message after the other until the test is over; gives the ids that were acknowledged, and how many of
/// them only by a retry.
fn sender(field: &Field, n: u32, done: &Mutex<HashSet<String>>) -> usize {
    let (key, mut connection, mut retried) = (Key::nth(n), None, 0);
    while !field.is_over.load(Ordering::SeqCst) {
        let message = key.message(&field.did, &format!("from {n}"));
        let id = message["messageId"].as_str().unwrap().to_owned();
        let body = send(&message).to_string();
        if field.deliver(&mut connection, body.as_bytes()) == Acknowledged::Earlier {
            retried += 1;
        }
        done.lock().unwrap().insert(id);
        field.acknowledged.fetch_add(1, Ordering::SeqCst);
    }
    retried
}

fn stored(home: &Home) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for row in home.inbox("south") {
        *counts.entry(row["messageId"].as_str().unwrap().to_owned()).or_insert(0) += 1;
    }
    counts
}

/// Runs the rounds; `most` is how many acknowledgements a round has at most before the kill.
fn survive(flags: &[&str], rounds: u64, most: u64) {
    let mut random = Random::of("CRASH_SEED");
    let home = Home::with_agent("south");
    let mut serve = home.serve("south", flags);
    let field = Field {
        did: serve.did.clone(),
        receiver: Mutex::new(Some(serve.addr)),
        moved: Condvar::new(),
        acknowledged: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        is_broken: AtomicBool::new(false),
    };
    let done: Vec<Mutex<HashSet<String>>> = (0..SENDERS).map(|_| Mutex::new(HashSet::new())).collect();
    let start = Instant::now();
    let (retried, serve): (usize, _) = std::thread::scope(|scope| {
        let _let_go = LetGo(&field);
        let senders: Vec<_> = (0..SENDERS)
            .map(|n| {
                let (field, done) = (&field, &done[n as usize]);
                scope.spawn(move || sender(field, n, done))
            })
            .collect();
        for round in 0..rounds {
            let target = field.acknowledged.load(Ordering::SeqCst) + 1 + random.below(most) as usize;
            wait::until("acknowledgements", || (field.acknowledged.load(Ordering::SeqCst) >= target).then_some(()));
            field.move_to(None);
            serve.kill();
            let acknowledged: Vec<String> = done.iter().flat_map(|ids| ids.lock().unwrap().clone()).collect();
            let counts = stored(&home);
            for id in &acknowledged {
                assert_eq!(counts.get(id), Some(&1), "round {round}: acknowledged, and in the store this often");
            }
            assert!(counts.values().all(|count| *count == 1), "round {round}: a double");
            serve = home.serve("south", flags);
            field.move_to(Some(serve.addr));
            if start.elapsed() > LONGEST {
                eprintln!("{} of {rounds} rounds in {LONGEST:?}", round + 1);
                break;
            }
        }
        field.is_over.store(true, Ordering::SeqCst);
        (senders.into_iter().map(|sender| sender.join().unwrap()).sum(), serve)
    });
    let acknowledged: HashSet<String> = done.iter().flat_map(|ids| ids.lock().unwrap().clone()).collect();
    let counts = stored(&home);
    assert_eq!(counts.len(), acknowledged.len(), "every message that was sent is there, and no other");
    assert!(acknowledged.iter().all(|id| counts.get(id) == Some(&1)), "each exactly once");
    eprintln!("{} messages, {retried} of them confirmed by a retry", counts.len());
    assert!(rpc::code(&serve.say(&Key::nth(SENDERS), "still at work")) == 0);
    assert_eq!(serve.stop("TERM").0, 0);
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled_by_sigkill() {
    let rounds = number("CRASH_ROUNDS", 12);
    survive(&["--open-door", "--rate-limit", "off"], rounds, 600);
}

#[test]
fn neither_is_it_while_a_command_is_asked() {
    let rounds = number("CRASH_ROUNDS", 12) / 3;
    survive(&["--open-door", "--rate-limit", "off", "--reply-with", "cat"], rounds, 60);
}

/// The claim of an invite is as durable as a message.
#[test]
fn a_claim_that_was_confirmed_survives_sigkill() {
    let home = Home::with_agent("south");
    for n in 0..5 {
        let serve = home.serve("south", &[]);
        let invite = home.invite("south");
        let key = Key::nth(n);
        let message = key.message(&serve.did, "onboard/claim");
        let claim = rpc::request("onboard/claim", serde_json::json!({"message": message, "nonce": invite["nonce"]}));
        let body = claim.to_string();
        let answer: Value = serve.post(body.as_bytes()).json();
        assert_eq!(code(&answer), 0, "{answer}");
        serve.kill();
        let serve = home.serve("south", &[]);
        assert_eq!(code(&serve.say(&key, "in")), 0);
        assert_eq!(code(&serve.say(&Key::nth(100 + n), "out")), -32010);
        serve.kill();
    }
}
