//! Disks that are full or read-only, and two processes on one agent: an honest answer, and nothing lost or doubled.
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use muretai_tests::{
    Home, RelayProcess, Serve,
    mail::{deposit, enc_pub_of, seal_bytes, text_letter},
    rpc::{self, Key, code, send},
    unprivileged::User,
    wait,
};

/// A small file system of its own, unmounted when dropped.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// `None`, with a printed skip, where the test may not mount.
    fn new(size: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(folder.path());
        match mount.output() {
            Ok(done) if done.status.success() => Some(SmallDisk { folder }),
            done => {
                eprintln!("SKIP cannot mount a small disk: {done:?}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes every block that is left.
    fn fill(&self) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.path().join("ballast")).unwrap();
        for size in [65_536, 4096, 512, 1] {
            while std::io::Write::write_all(&mut file, &vec![b'x'; size]).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.path().join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn on_a_full_disk_nothing_is_acknowledged_and_the_retry_is_stored_once() {
    let Some(disk) = SmallDisk::new("4m") else { return };
    let home = Home::at(&disk.path().join("home"));
    home.run(["keygen", "south"]).ok();
    let serve = home.serve("south", &["--open-door", "--rate-limit", "off"]);
    let key = Key::of(1);
    let before = send(&key.message(&serve.did, "before"));
    assert_eq!(code(&serve.call(&before)), 0);
    disk.fill();
    // What still fits into pages that the database owns is acknowledged and kept; then it is full.
    let text = "x".repeat(60_000);
    let (mut kept, mut refused) = (1, Vec::new());
    for _ in 0..200 {
        let request = send(&key.message(&serve.did, &text));
        let answer = serve.call(&request);
        match code(&answer) {
            0 => kept += 1,
            -32603 => refused.push(request),
            other => panic!("{other}: {answer}"),
        }
        if refused.len() == 3 {
            break;
        }
    }
    assert_eq!(refused.len(), 3, "the disk did not fill up");
    assert_eq!(serve.request("GET", muretai_tests::http::CARD, &[], b"").status, 200, "the card is still there");
    disk.free();
    for request in &refused {
        let answer = wait::until("the store to recover", || {
            let answer = serve.call(request);
            (code(&answer) != -32603).then_some(answer)
        });
        assert_eq!(code(&answer), 0, "a refused message is judged anew: {answer}");
        assert_eq!(serve.call(request)["error"]["data"]["duplicate"], true);
    }
    assert_eq!(home.inbox("south").len(), kept + refused.len());
    serve.kill();
    assert_eq!(home.inbox("south").len(), kept + refused.len());
}

#[test]
fn a_sender_on_a_full_disk_sends_nothing_that_it_could_not_remember() {
    let Some(disk) = SmallDisk::new("3m") else { return };
    let (south, north) = (Home::with_agent("south"), Home::at(&disk.path().join("home")));
    north.run(["keygen", "north"]).ok();
    let serve = south.serve("south", &["--open-door", "--rate-limit", "off"]);
    north.run(["send", &serve.url, "first"]).ok();
    disk.fill();
    let text = "x".repeat(60_000);
    let failed =
        (0..100).map(|_| north.run_with(["send", &serve.url, "-"], text.as_bytes())).find(|done| done.code != 0);
    let failed = failed.expect("the disk is full");
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.err.contains("disk"), "{}", failed.err);
    disk.free();
    north.run(["send", &serve.url, "afterwards"]).ok();
}

#[test]
fn a_relay_on_a_full_disk_takes_nothing_that_it_cannot_keep() {
    let Some(disk) = SmallDisk::new("4m") else { return };
    let relay = RelayProcess::start_in(Home::at(&disk.path().join("home")), &[]);
    let (north, south) = (Key::of(1), Key::of(2));
    let letter = || {
        let blob = seal_bytes(&north, &south.enc_pub(), &[b'x'; 60_000]);
        deposit(&north, south.did(), &blob)
    };
    relay.keep(&letter());
    disk.fill();
    let (mut kept, mut refused) = (1, Vec::new());
    while refused.len() < 3 {
        assert!(kept < 150, "the disk did not fill up");
        let letter = letter();
        let response = relay.deposit(&letter);
        match response.status {
            200 => kept += 1,
            503 => {
                assert_eq!(response.json()["error"]["code"], -32603, "{}", response.text());
                assert!(response.header("retry-after").is_some());
                refused.push(letter);
            }
            other => panic!("HTTP {other}: {}", response.text()),
        }
    }
    assert_eq!(relay.request("GET", "/health", b"").status, 503, "whoever balances load should know");
    let mailbox = relay.mailbox(&south);
    let there = mailbox.poll(0);
    assert!(matches!(there.status, 200 | 503), "{}", there.text());
    disk.free();
    for letter in &refused {
        wait::until("the store to recover", || (relay.deposit(letter).status == 200).then_some(()));
    }
    let mut ids = std::collections::HashSet::new();
    loop {
        let items = mailbox.items();
        if items.is_empty() {
            break;
        }
        let qids: Vec<_> = items.iter().map(|item| item["qid"].clone()).collect();
        ids.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        assert_eq!(mailbox.ack(&qids).json()["acked"], qids.len());
    }
    // What was handed out while the disk was full comes when its time is over.
    let there = there.json()["items"].as_array().map_or(0, Vec::len);
    assert!(ids.len() + there >= kept + refused.len(), "{} of {}", ids.len(), kept + refused.len());
}

#[test]
fn an_agent_on_a_full_disk_leaves_its_mail_at_the_relay() {
    let Some(disk) = SmallDisk::new("32m") else { return };
    let (relay, home, north) = (RelayProcess::start(&[]), Home::at(&disk.path().join("home")), Key::of(1));
    home.run(["keygen", "south"]).ok();
    let serve = home.serve("south", &[]);
    muretai_tests::trust::befriend(&home, &serve, "south", &north);
    let (did, enc_pub) = (serve.did.clone(), enc_pub_of(&home, "south"));
    drop(serve);
    let before = home.received("south").len();
    let text = "x".repeat(60_000);
    let write = || relay.keep(&text_letter(&north, &did, &enc_pub, &text));
    (0..5).for_each(|_| write());
    home.run(["inbox", "--sync", "--relay", &relay.url]).ok();
    assert_eq!(home.received("south").len() - before, 5);
    (0..100).for_each(|_| write());
    disk.fill();
    // What still fits is taken; the rest stays where it is.
    let done = home.run(["inbox", "--sync", "--relay", &relay.url]);
    assert!(!done.err.contains("panicked"), "{}", done.err);
    let left = relay.letters_for(&did);
    assert!(left > 0, "the disk did not fill up: {done:?}");
    assert_ne!(done.code, 0, "mail was left: {done:?}");
    disk.free();
    // They are in hand for a while where a newer listener has to ask; a new process is one.
    home.run(["inbox", "--sync", "--relay", &relay.url]).ok();
    assert_eq!(relay.letters_for(&did), 0);
    let counts = home.received("south");
    assert_eq!(counts.len() - before, 105);
    assert!(counts.values().all(|count| *count == 1), "each letter once");
    assert_eq!(home.run(["inbox", "--rejected", "--json"]).ok().json_lines().len(), 0, "none was refused for that");
}

#[test]
fn a_read_only_database_is_named_and_stays_as_it_is() {
    let Some(user) = User::new() else { return };
    let home = user.home();
    user.run(&home, &["keygen", "south"]).ok();
    user.run(&home, &["invite", "create", "--url", "http://127.0.0.1:9"]).ok();
    let folder = home.agent("south");
    let database = folder.join("agent.db");
    let before = fs::read(&database).unwrap();
    fs::set_permissions(&database, fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    for line in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["invite", "create", "--url", "http://127.0.0.1:9"],
        &["send", "http://127.0.0.1:9", "x"],
    ] {
        let done = user.run(&home, line);
        assert_eq!(done.code, 1, "{line:?}: {done:?}");
        assert!(done.err.contains("read-only") || done.err.contains("ermission"), "{line:?}: {}", done.err);
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(fs::read(&database).unwrap(), before);
}

#[test]
fn a_damaged_database_is_an_error_and_is_left_alone() {
    let home = Home::with_agent("south");
    let database = home.agent("south").join("agent.db");
    for bytes in [&b"not a database, and long enough to be read as one"[..], &[0xff; 8192], &vec![0; 4096][..]] {
        fs::write(&database, bytes).unwrap();
        let done = home.run(["inbox"]);
        if bytes.iter().all(|byte| *byte == 0) && done.code == 0 {
            continue; // SQLite takes a page of zeros for an empty database.
        }
        assert_eq!(done.code, 1, "{done:?}");
        assert!(!done.err.contains("panicked") && done.err.contains("agent.db"), "{}", done.err);
        assert_eq!(fs::read(&database).unwrap(), bytes);
    }
}

#[test]
fn the_second_serve_says_who_holds_the_agent() {
    let home = Home::with_agent("south");
    let mut first = home.serve("south", &[]);
    let second = home.run(["serve", "--listen", "127.0.0.1:0"]).exits(1);
    assert!(second.err.contains(&first.pid().to_string()), "{}", second.err);
    assert!(second.err.contains(&first.url), "{}", second.err);
    assert_eq!(second.out, "", "no URL is printed");
    assert!(first.is_running());
    // Short commands go on beside it, and a lock that SIGKILL left is no obstacle.
    home.run(["inbox"]).ok();
    first.kill();
    let third = home.serve("south", &[]);
    assert_eq!(third.stop("TERM").0, 0);
    home.serve("south", &[]);
}

#[test]
fn many_short_commands_and_a_busy_serve_share_one_file() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door", "--rate-limit", "off"]);
    std::thread::scope(|scope| {
        for n in 0..4 {
            let (serve, home) = (&serve, &home);
            scope.spawn(move || {
                let key = Key::nth(n);
                let mut connection = serve.connect();
                for i in 0..50 {
                    let body = send(&key.message(&serve.did, &i.to_string())).to_string();
                    assert_eq!(code(&connection.request("POST", "/", &[], body.as_bytes()).json()), 0);
                }
            });
            scope.spawn(move || {
                for _ in 0..5 {
                    home.invite("south");
                    home.run(["contacts", "block", Key::nth(1000 + n).did()]).ok();
                    home.run(["inbox", "--json"]).ok();
                }
            });
        }
    });
    assert_eq!(home.inbox("south").len(), 200);
    assert_eq!(home.run(["invite", "list", "--json"]).ok().json_lines().len(), 20);
    let (code, err) = serve.stop("TERM");
    assert_eq!(code, 0, "{err}");
}

#[test]
fn odd_paths_are_paths() {
    let base = Home::new();
    let root = base.scratch().join("a b").join("ü%20?x#y&mode=ro");
    let home = Home::at(&root);
    home.run(["keygen", "south"]).ok();
    let serve = home.serve("south", &["--open-door"]);
    assert_eq!(rpc::code(&serve.say(&Key::of(1), "hello")), 0);
    assert_eq!(home.inbox("south").len(), 1);
    let entries: Vec<_> = fs::read_dir(base.scratch()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(entries, ["a b"]);
}

#[test]
fn a_signal_in_the_middle_of_an_answer_loses_nothing() {
    for signal in ["TERM", "INT"] {
        let home = Home::with_agent("south");
        let flags = ["--open-door", "--reply-with", "cat; touch \"$HOME/asked\"; exec sleep 600"];
        let serve: Serve = home.serve("south", &flags);
        let message = Key::of(1).message(&serve.did, "in hand");
        let body = send(&message).to_string();
        let addr = serve.addr;
        let asker = std::thread::spawn(move || {
            muretai_tests::Connection::open(addr).request("POST", "/", &[], body.as_bytes())
        });
        wait::until("the command to run", || home.scratch().join("asked").exists().then_some(()));
        let (status, err) = serve.stop(signal);
        assert_eq!(status, 0, "{err}");
        let answer = asker.join().unwrap().json();
        assert_eq!(code(&answer), 0, "{answer}");
        assert_eq!(home.inbox("south").len(), 1);
    }
}
