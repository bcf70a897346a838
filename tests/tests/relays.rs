//! Several relay processes on one PostgreSQL database, behind one address: shared mailboxes, listeners that are woken
//! across processes, epochs that are fenced in the database, and one process killed under load.
//!
//! Needs `MURETAI_TEST_POSTGRES`; `tests/postgres.sh` starts a server and says what it is.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
use std::time::{Duration, Instant};

use muretai_tests::{
    Connection, Home, Key, RelayProcess,
    balancer::Balancer,
    load::{LetGo, Load},
    mail::{Mailbox, enc_pub_of, seal_bytes, text_letter},
    postgres::{self, Database},
    random::{Random, number},
    wait,
};
use serde_json::{Value, json};

const SENDERS: u32 = 8;
/// Past this, no further round begins.
const LONGEST: Duration = Duration::from_secs(60);
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

/// Relay processes on one database behind one address.
struct Fleet {
    relays: Vec<RelayProcess>,
    balancer: Balancer,
    /// Last, so that it is dropped when nobody uses it any more.
    database: Database,
}

impl Fleet {
    /// `None`, with a printed skip, without PostgreSQL.
    fn new(count: usize) -> Option<Fleet> {
        let (database, balancer) = (Database::new()?, Balancer::new());
        let url = balancer.url();
        let args: Vec<&str> = [&["--store", &database.url, "--url", &url], UNBOUND].concat();
        let relays = (0..count).map(|_| RelayProcess::start(&args)).collect();
        let fleet = Fleet { relays, balancer, database };
        fleet.balance();
        Some(fleet)
    }

    /// Lets the balancer know all processes.
    fn balance(&self) {
        let addrs: Vec<_> = self.relays.iter().map(|relay| relay.addr).collect();
        self.balancer.pass_to(&addrs);
    }

    /// A listener at one of the processes.
    fn mailbox<'k>(&self, n: usize, key: &'k Key) -> Mailbox<'k> {
        Mailbox::new(self.relays[n].addr, &self.balancer.url(), key)
    }
}

fn letter(from: &Key, to: &Key, text: &str) -> Value {
    text_letter(from, to.did(), &to.enc_pub(), text)
}

#[test]
fn a_deposit_at_one_wakes_a_listener_at_another() {
    let Some(fleet) = Fleet::new(2) else { return };
    let (north, south) = (Key::of(1), Key::of(2));
    let listener = fleet.mailbox(0, &south);
    let mut stream = listener.stream();
    stream.wait_until_open();
    for n in 0..10 {
        fleet.relays[1].keep(&letter(&north, &south, &n.to_string()));
        let (event, item) = stream.next_event().unwrap();
        assert_eq!(event, "letter");
        assert_eq!(muretai_tests::rpc::text_of(&listener.open(&item)["params"]["message"]), n.to_string());
        // An acknowledgement may come to any of them.
        let elsewhere = fleet.mailbox(1, &south).with_epoch(&listener.epoch);
        assert_eq!(elsewhere.ack(&[item["qid"].clone()]).json()["acked"], 1);
    }
    wait::until("the other process knows of the listener", || fleet.relays[1].is_online(south.did()).then_some(()));
    // A poll that waits is woken too.
    let newer = fleet.mailbox(1, &south);
    let woken = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| newer.poll(20).json());
        assert_eq!(stream.next_event().expect("the older one is told").0, "superseded");
        fleet.relays[0].keep(&letter(&north, &south, "last"));
        waiting.join().unwrap()
    });
    assert_eq!(woken["items"].as_array().unwrap().len(), 1, "{woken}");
}

#[test]
fn epochs_are_fenced_in_the_database() {
    let Some(fleet) = Fleet::new(3) else { return };
    let (north, south) = (Key::of(1), Key::of(2));
    fleet.relays[2].keep(&letter(&north, &south, "one"));
    let older = fleet.mailbox(0, &south);
    let held = older.items();
    assert_eq!(held.len(), 1);
    let newer = fleet.mailbox(1, &south);
    assert_eq!(newer.items().len(), 1, "what the superseded one holds is handed out again");
    for n in 0..3 {
        let late = fleet.mailbox(n, &south).with_epoch(&older.epoch);
        let refused = late.ack(&[held[0]["qid"].clone()]);
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (409, &json!(-32030)), "{}", refused.text());
        assert_eq!(late.poll(0).status, 409);
    }
    assert_eq!(newer.ack(&[held[0]["qid"].clone()]).json()["acked"], 1);
}

#[test]
fn a_call_is_answered_by_a_listener_at_another_process() {
    let Some(fleet) = Fleet::new(2) else { return };
    let (north, south) = (Key::of(1), Key::of(2));
    let listener = fleet.mailbox(0, &south);
    let mut stream = listener.stream();
    stream.wait_until_open();
    wait::until("the other process to know of the listener", || fleet.relays[1].is_online(south.did()).then_some(()));
    let call = letter(&north, &south, "hello").to_string();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| fleet.relays[1].request("POST", "/rpc", call.as_bytes()).json());
        let (_, item) = stream.next_event().unwrap();
        assert_eq!(item["waits"], true, "{item}");
        let reply = seal_bytes(&south, &north.enc_pub(), b"{}");
        let told = listener.post("/reply", &json!({"qid": item["qid"], "blob": reply}));
        assert_eq!(told.json()["delivered"], true, "{}", told.text());
        assert_eq!(asked.join().unwrap()["reply"], reply);
    });
}

#[test]
fn one_deposit_at_three_processes_at_once_is_one_letter() {
    let Some(fleet) = Fleet::new(3) else { return };
    let (north, south) = (Key::of(1), Key::of(2));
    for n in 0..10 {
        let same = letter(&north, &south, &n.to_string());
        std::thread::scope(|scope| {
            for relay in &fleet.relays {
                let same = &same;
                scope.spawn(move || relay.keep(same));
            }
        });
    }
    assert_eq!(fleet.mailbox(0, &south).drain().len(), 10);
}

#[test]
fn quotas_are_of_all_processes_together() {
    let Some(database) = Database::new() else { return };
    let args = ["--store", &database.url, "--sender-letters", "5"];
    let relays: Vec<RelayProcess> = (0..2).map(|_| RelayProcess::start(&args)).collect();
    let (north, south) = (Key::of(1), Key::of(2));
    let taken: usize = std::thread::scope(|scope| {
        let deposits: Vec<_> = (0..20)
            .map(|n| {
                let relay = &relays[n % 2];
                let (north, south) = (&north, &south);
                scope.spawn(move || usize::from(relay.deposit(&letter(north, south, "x")).status == 200))
            })
            .collect();
        deposits.into_iter().map(|deposit| deposit.join().unwrap()).sum()
    });
    assert_eq!(taken, 5);
}

#[test]
fn a_process_killed_under_load_loses_and_doubles_nothing() {
    let Some(mut fleet) = Fleet::new(3) else { return };
    let mut random = Random::of("CRASH_SEED");
    let home = Home::with_agent("south");
    let address = fleet.balancer.url();
    let serve = home.serve("south", &["--relay", &address, "--open-door", "--rate-limit", "off"]);
    fleet.relays[0].wait_for_listener(&serve.did);
    let load = Load::new(&serve.did, &enc_pub_of(&home, "south"));
    let keys: Vec<Key> = (0..SENDERS).map(Key::nth).collect();
    let (balanced, start) = (fleet.balancer.addr, Instant::now());
    std::thread::scope(|scope| {
        let _let_go = LetGo(&load);
        for key in &keys {
            let load = &load;
            scope.spawn(move || load.send(key, || balanced));
        }
        for round in 0..number("CRASH_ROUNDS", 9) {
            load.wait_for_more(1 + random.below(200) as usize);
            let n = random.below(3) as usize;
            fleet.relays[n].kill();
            // The others go on meanwhile.
            load.wait_for_more(20);
            fleet.relays[n].restart();
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
}

/// Nothing of what other processes tell is heard, while everything else goes on: the connections that listen are cut, and
/// no new ones are made.
fn be_deaf(database: &Database) {
    let name = database.name();
    // Whoever connects needs another database for that.
    let server = std::env::var("MURETAI_TEST_POSTGRES").unwrap();
    postgres::run(&server, &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"));
    let cut = format!(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{name}' AND query LIKE 'LISTEN%'"
    );
    postgres::run(&server, &cut);
}

fn hear_again(database: &Database) {
    let server = std::env::var("MURETAI_TEST_POSTGRES").unwrap();
    postgres::run(&server, &format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", database.name()));
}

#[test]
fn a_thousand_listeners_are_served_after_their_relay_was_deaf() {
    const LISTENERS: u32 = 1_000;
    let Some(fleet) = Fleet::new(2) else { return };
    let north = Key::of(1);
    let keys: Vec<Key> = (0..LISTENERS).map(|n| Key::nth(1_000 + n)).collect();
    let listeners: Vec<Mailbox<'_>> = keys.iter().map(|key| fleet.mailbox(0, key)).collect();
    let mut streams: Vec<_> = listeners.iter().map(Mailbox::stream).collect();
    streams.iter_mut().for_each(|stream| stream.wait_until_open());

    // What the other one needs to deposit is there before no more connections are made.
    fleet.relays[1].keep(&letter(&north, &keys[0], "heard of"));
    let (_, item) = streams[0].next_event().unwrap();
    assert_eq!(listeners[0].ack(&[item["qid"].clone()]).json()["acked"], 1);

    be_deaf(&fleet.database);
    let mut connection = Connection::open(fleet.relays[1].addr);
    for key in &keys {
        let body = letter(&north, key, "unheard of").to_string();
        let answer = connection.request("POST", "/send", &[], body.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(fleet.relays[0].metric("muretai_relay_letters_handed_out_total"), Some(1.0), "nobody was told");
    hear_again(&fleet.database);
    for (stream, listener) in streams.iter_mut().zip(&listeners) {
        let (event, item) = stream.next_event().expect("the stream goes on");
        assert_eq!(event, "letter");
        assert_eq!(listener.ack(&[item["qid"].clone()]).json()["acked"], 1);
    }
    // And from now on news are heard again.
    let (mut stream, last) = (streams.pop().unwrap(), keys.last().unwrap());
    fleet.relays[1].keep(&letter(&north, last, "heard of"));
    assert_eq!(stream.next_event().unwrap().0, "letter");
}

#[test]
fn a_database_that_goes_away_is_an_honest_503_until_it_is_back() {
    let Some(fleet) = Fleet::new(1) else { return };
    let (north, south) = (Key::of(1), Key::of(2));
    let relay = &fleet.relays[0];
    relay.keep(&letter(&north, &south, "before"));
    // Every connection of the relay is cut; it makes new ones.
    let name = fleet.database.name();
    let cut = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    );
    postgres::run(&fleet.database.url, &cut);
    let again = letter(&north, &south, "after");
    wait::until("the relay to find its database again", || {
        let status = relay.deposit(&again).status;
        assert!(matches!(status, 200 | 503), "{status}");
        (status == 200).then_some(())
    });
    let mailbox = fleet.mailbox(0, &south);
    let mut stream = mailbox.stream();
    stream.wait_until_open();
    for _ in 0..2 {
        assert_eq!(stream.next_event().unwrap().0, "letter");
    }
}
