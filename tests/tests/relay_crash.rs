//! Kills the relay with SIGKILL at random moments while letters are deposited and fetched, starts it again on the same
//! file, and proves that every letter that it took reaches the recipient's inbox, once.
//!
//! `CRASH_ROUNDS` and `CRASH_SEED` choose how often, and which moments.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
use std::time::{Duration, Instant};

use muretai_tests::{
    Home, Key, RelayProcess,
    load::{LetGo, Load},
    mail::enc_pub_of,
    random::{Random, number},
    wait,
};

const SENDERS: u32 = 8;
/// Past this, no further round begins.
const LONGEST: Duration = Duration::from_secs(90);
/// No bound but the disk: the test is about crashes.
const UNBOUND: &[&str] = &[
    "--deposits-per-minute",
    "off",
    "--sender-letters",
    "1000000",
    "--mailbox-letters",
    "1000000",
    "--mailbox-bytes",
    "4GiB",
];

#[test]
fn what_the_relay_took_survives_sigkill_and_arrives_once() {
    let mut random = Random::of("CRASH_SEED");
    let mut relay = RelayProcess::start(UNBOUND);
    let addr = relay.addr;
    let home = Home::with_agent("south");
    // Nobody answers letters here: the senders' mailboxes would fill with acknowledgements.
    let serve = home.serve("south", &["--relay", &relay.url, "--open-door", "--rate-limit", "off"]);
    relay.wait_for_listener(&serve.did);
    let load = Load::new(&serve.did, &enc_pub_of(&home, "south"));
    let keys: Vec<Key> = (0..SENDERS).map(Key::nth).collect();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let _let_go = LetGo(&load);
        for key in &keys {
            let load = &load;
            scope.spawn(move || load.send(key, || addr));
        }
        for round in 0..number("CRASH_ROUNDS", 12) {
            load.wait_for_more(1 + random.below(200) as usize);
            relay.kill();
            relay.restart();
            if start.elapsed() > LONGEST {
                eprintln!("{} rounds in {LONGEST:?}", round + 1);
                break;
            }
        }
    });
    let taken = load.taken();
    let counts = wait::until("every letter to arrive", || {
        let counts = home.received("south");
        (counts.len() >= taken.len()).then_some(counts)
    });
    assert!(taken.iter().all(|id| counts.get(id) == Some(&1)), "each letter exactly once");
    assert_eq!(counts.len(), taken.len(), "and no other");
    eprintln!("{} letters, {} of them deposited again after a crash", taken.len(), load.repeated());
    assert_eq!(serve.stop("TERM").0, 0);
    assert_eq!(relay.stop("TERM").0, 0);
}

#[test]
fn a_stop_in_the_middle_of_deposits_loses_none_that_was_confirmed() {
    let mut random = Random::of("CRASH_SEED");
    let mut relay = RelayProcess::start(UNBOUND);
    let (addr, south) = (relay.addr, Key::of(9));
    let load = Load::new(south.did(), &south.enc_pub());
    let keys: Vec<Key> = (0..SENDERS).map(Key::nth).collect();
    std::thread::scope(|scope| {
        let _let_go = LetGo(&load);
        for key in &keys {
            let load = &load;
            scope.spawn(move || load.send(key, || addr));
        }
        for _ in 0..4 {
            load.wait_for_more(1 + random.below(100) as usize);
            let (code, err) = relay.stop("TERM");
            assert_eq!(code, 0, "{err}");
            relay.restart();
        }
    });
    let letters = relay.mailbox(&south).drain();
    let mut came: Vec<&str> =
        letters.iter().map(|letter| letter["params"]["message"]["messageId"].as_str().unwrap()).collect();
    came.sort_unstable();
    let mut taken: Vec<String> = load.taken().into_iter().collect();
    taken.sort_unstable();
    assert_eq!(came, taken, "each letter is there, once");
}
