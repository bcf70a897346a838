//! Kills whoever fetches mail, with SIGKILL, after the fetch, after the commit, after the acknowledgement, and at random
//! moments; starts it again, and proves that every letter is in the inbox exactly once.
//!
//! `MAIL_KILLS` (default 520) is how many processes have to die in all, `CRASH_SEED` chooses the moments.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
use std::{
    collections::HashSet,
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use muretai_tests::{
    Home, Key, RelayProcess,
    mail::{enc_pub_of, message_letter},
    random::{Random, number},
    trust::befriend,
    wait,
};

/// Where a process ends itself as if it were killed, by `MURETAI_FAULT`.
const FAULTS: [&str; 3] = ["after-fetch", "after-commit", "after-ack"];
/// Side by side, each with an agent and a relay of its own.
const LANES: usize = 2;
/// No bound but the disk.
const UNBOUND: &[&str] =
    &["--deposits-per-minute", "off", "--sender-letters", "1000000", "--mailbox-letters", "1000000"];

/// An agent, its mailbox, and a contact that writes to it.
struct Rig {
    relay: RelayProcess,
    home: Home,
    did: String,
    enc_pub: String,
    north: Key,
    sent: HashSet<String>,
    kills: usize,
}

impl Rig {
    fn new() -> Rig {
        let (relay, home, north) = (RelayProcess::start(UNBOUND), Home::with_agent("south"), Key::of(1));
        let serve = home.serve("south", &[]);
        befriend(&home, &serve, "south", &north);
        let (did, enc_pub) = (serve.did.clone(), enc_pub_of(&home, "south"));
        serve.kill();
        Rig { relay, home, did, enc_pub, north, sent: HashSet::new(), kills: 0 }
    }

    fn write(&mut self, letters: usize) {
        for _ in 0..letters {
            let message = self.north.message(&self.did, "a letter");
            self.relay.keep(&message_letter(&self.north, &self.did, &self.enc_pub, &message));
            self.sent.insert(message["messageId"].as_str().unwrap().to_owned());
        }
    }

    fn sync(&self) -> Command {
        let mut command = self.home.command(["inbox", "--sync", "--relay", &self.relay.url, "--quiet"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs a process that ends itself at a fault; it has to.
    fn die_at(&mut self, fault: &str) {
        let status = self.sync().env("MURETAI_FAULT", fault).status().unwrap();
        assert!(!status.success() && status.code().is_none(), "{fault}: it ended by {status}");
        self.kills += 1;
    }

    /// Kills a process after so long; whether it was still alive then.
    fn die_after(&mut self, mut command: Command, delay: Duration) -> bool {
        let mut child = command.spawn().unwrap();
        thread::sleep(delay);
        child.kill().unwrap();
        let is_killed = child.wait().unwrap().signal() == Some(9);
        self.kills += usize::from(is_killed);
        is_killed
    }

    /// No letter more than once so far.
    fn check_none_twice(&self, when: &str) {
        let counts = self.home.received("south");
        assert!(counts.values().all(|count| *count == 1), "{when}: a letter is there twice");
        assert!(counts.keys().all(|id| self.sent.contains(id)), "{when}: a letter that nobody wrote");
    }

    /// All letters once, after a run that nobody disturbs.
    fn check_all(&self, when: &str) {
        let done = self.home.run(["inbox", "--sync", "--relay", &self.relay.url]).ok();
        let counts = self.home.received("south");
        assert_eq!(counts.len(), self.sent.len(), "{when}: letters in the inbox, and written\n{}", done.err);
        self.check_none_twice(when);
        assert_eq!(self.relay.letters_for(&self.did), 0, "{when}: letters that are still at the relay");
    }
}

#[test]
fn a_fetcher_that_dies_at_any_of_the_three_points_leaves_one_copy() {
    let mut rig = Rig::new();
    for fault in FAULTS {
        for letters in [1, 3] {
            rig.write(letters);
            rig.die_at(fault);
            rig.check_none_twice(fault);
            let stored = rig.home.received("south").len();
            match fault {
                "after-fetch" => assert_eq!(stored, rig.sent.len() - letters, "nothing was stored yet"),
                _ => assert!(stored > rig.sent.len() - letters, "{fault}: something was stored"),
            }
            rig.check_all(fault);
        }
    }
}

#[test]
fn a_listener_that_dies_at_any_of_the_three_points_leaves_one_copy() {
    let mut rig = Rig::new();
    for fault in FAULTS {
        rig.write(2);
        let mut command = rig.home.command(["serve", "--no-http", "--relay", &rig.relay.url, "--quiet"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).env("MURETAI_FAULT", fault);
        let mut child = command.spawn().unwrap();
        let status = wait::until("the listener to die", || child.try_wait().unwrap());
        assert!(status.code().is_none(), "{fault}: it ended by {status}");
        rig.check_none_twice(fault);
        rig.check_all(fault);
    }
}

#[test]
fn after_hundreds_of_kills_every_letter_is_there_once() {
    let wanted = number("MAIL_KILLS", 520) as usize;
    let start = Instant::now();
    let lanes: Vec<(usize, usize)> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|lane| scope.spawn(move || kill_and_count(lane, wanted / LANES))).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
    });
    let (kills, letters) = lanes.iter().fold((0, 0), |(kills, letters), lane| (kills + lane.0, letters + lane.1));
    eprintln!("{kills} kills, {letters} letters, each in the inbox once, in {:.0?}", start.elapsed());
    assert!(kills >= wanted);
}

/// Kills processes of one agent; how many died, and how many letters there were.
fn kill_and_count(lane: usize, wanted: usize) -> (usize, usize) {
    let mut random = Random::of("CRASH_SEED");
    (0..lane).for_each(|_| _ = random.below(2));
    let mut rig = Rig::new();
    rig.write(1);
    let whole = Instant::now();
    rig.check_all("undisturbed");
    // From the start of the process to a little past its end, so that every moment has its turn.
    let span = whole.elapsed().min(Duration::from_secs(2)).as_micros() as u64 * 5 / 4;
    let mut round = 0;
    while rig.kills < wanted {
        round += 1;
        rig.write(1 + random.below(3) as usize);
        match random.below(8) {
            0..3 => rig.die_at(FAULTS[random.below(3) as usize]),
            3..7 => _ = rig.die_after(rig.sync(), Duration::from_micros(random.below(span))),
            _ => {
                let mut command = rig.home.command(["serve", "--no-http", "--relay", &rig.relay.url, "--quiet"]);
                command.stdout(Stdio::null()).stderr(Stdio::null());
                rig.die_after(command, Duration::from_micros(random.below(span)));
            }
        }
        if round % 10 == 0 {
            rig.check_none_twice("meanwhile");
        }
        if round % 50 == 0 {
            rig.check_all("meanwhile");
        }
        assert!(round < 20 * wanted.max(1), "hardly a process is alive when it is killed");
    }
    rig.check_all("in the end");
    (rig.kills, rig.sent.len())
}

#[test]
fn letters_that_wait_for_a_killed_listener_come_to_the_next_one_at_once() {
    let mut rig = Rig::new();
    let mut serve = rig.home.serve("south", &["--relay", &rig.relay.url]);
    rig.relay.wait_for_listener(&rig.did);
    for _ in 0..5 {
        rig.write(3);
        serve.kill();
        serve = rig.home.serve("south", &["--relay", &rig.relay.url]);
        let sent = rig.sent.len();
        wait::until("all letters", || (rig.home.received("south").len() == sent).then_some(()));
    }
    rig.check_none_twice("in the end");
}
