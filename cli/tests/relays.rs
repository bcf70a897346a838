//! A relay as a process of its own: its first line, its end, and what a sender is told of letters that lie there.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
};

use muretai_protocol::{Did, UnixSeconds};
use muretai_store::{
    Store,
    contacts::{CoordinateSource, Coordinates, Introduce},
};
use rustix::process::{Pid, Signal, kill_process};

/// A command in a home of its own, with nothing of the environment that runs the tests.
fn muretai(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muretai"));
    command.env_clear().env("HOME", home).env("MURETAI_HOME", home).env("TZ", "UTC").env("COLUMNS", "100");
    command.args(args).stdin(Stdio::null());
    command
}

/// A running relay; killed when dropped.
struct Relay {
    child: Child,
    first: String,
    stderr: ChildStderr,
}

impl Relay {
    fn start(home: &Path, args: &[&str]) -> Relay {
        let args = [&["relay", "serve", "--listen", "127.0.0.1:0"], args].concat();
        let mut child =
            muretai(home, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let stderr = child.stderr.take().unwrap();
        Relay { child, first: first.trim_end().to_owned(), stderr }
    }
    /// Ends it with SIGTERM; its exit code, and all that it logged.
    fn stop(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut log = String::new();
        self.stderr.read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a person sees who types this.
fn transcript(home: &Path, lines: &[&[&str]]) -> String {
    let mut shown = String::new();
    for args in lines {
        let ended = muretai(home, args).output().unwrap();
        shown.push_str(&format!("$ muretai {}\n? {}\n", args.join(" "), ended.status.code().unwrap_or(-1)));
        shown.push_str(&String::from_utf8_lossy(&ended.stdout));
        shown.push_str(&String::from_utf8_lossy(&ended.stderr));
    }
    shown
}

/// Makes south a contact of north's that is reached through a relay alone.
fn acquaint(home: &Path, relay: &str) {
    let shown = muretai(home, &["--as", "south", "identity", "show", "--json"]).output().unwrap();
    let south: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(&home.join("agents/north/agent.db")).await.unwrap();
        let south = Introduce {
            did: south["did"].as_str().unwrap().parse::<Did>().unwrap(),
            peer_name: Some("south".to_owned()),
            own_name: None,
            coordinates: Coordinates {
                relay: Some(relay.to_owned()),
                enc_pub: Some(south["encPub"].as_str().unwrap().to_owned()),
                ..Coordinates::default()
            },
            source: CoordinateSource::Owner,
            allow_private: true,
            now: UnixSeconds(1_700_000_000),
        };
        store.connect(&south).await.unwrap();
        store.close().await;
    });
}

#[test]
fn a_relay_says_where_it_is_and_ends_well_on_sigterm() {
    let home = tempfile::tempdir().unwrap();
    let relay = Relay::start(home.path(), &["--url", "https://relay.example/mail", "--json"]);
    let first: serde_json::Value = serde_json::from_str(&relay.first).unwrap();
    assert_eq!(first["url"], "https://relay.example/mail");
    assert!(first["listen"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(first["store"].as_str().unwrap().ends_with("relay/relay.db"));
    let second = muretai(home.path(), &["relay", "serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{told}");
    assert!(told.contains("another process uses this database") && told.contains("hint: "), "{told}");
    let (code, log) = relay.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{log}");
}

#[test]
fn a_database_that_is_not_there_is_named_without_its_password() {
    let home = tempfile::tempdir().unwrap();
    let mut command = muretai(home.path(), &["relay", "serve", "--listen", "127.0.0.1:0", "-vvv"]);
    command.env("MURETAI_RELAY_STORE", "postgres://relay:s3cret@127.0.0.1:1/relay?password=s3cret");
    let ended = command.output().unwrap();
    let told = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("postgres://relay@127.0.0.1:1/relay") && told.contains("hint: "), "{told}");
    assert!(!told.contains("s3cret"), "{told}");
}

#[test]
fn a_letter_at_a_relay_is_a_success_unless_delivery_is_required() {
    let home = tempfile::tempdir().unwrap();
    for name in ["north", "south"] {
        assert!(muretai(home.path(), &["keygen", name]).output().unwrap().status.success());
    }
    let relay = Relay::start(home.path(), &[]);
    acquaint(home.path(), &relay.first);
    let shown = transcript(
        home.path(),
        &[
            &["--as", "north", "send", "south", "good morning"],
            &["--as", "north", "send", "south", "again", "--require-delivery"],
            &["--as", "north", "send", "south", "again", "--require-delivery", "--json"],
            &["--as", "north", "outbox", "list"],
            &["--as", "north", "outbox", "drop", "1", "--yes"],
            &["--as", "south", "inbox", "--sync", "--relay", &relay.first],
        ],
    );
    let filters = [
        (r"http://127\.0\.0\.1:[0-9]+", "http://RELAY"),
        (r"did:key:z6Mk[1-9A-Za-z]+", "did:key:z6Mk…"),
        (r"\b[0-9a-f]{32}\b", "ID"),
        (r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}", "TIME"),
        (r"\x1b\[[0-9;]*m", ""),
    ];
    insta::with_settings!({ filters => filters }, {
        insta::assert_snapshot!(shown);
    });
    let (_, log) = relay.stop();
    assert!(log.contains("INFO") && !log.contains("did:key"), "{log}");
}

#[test]
fn a_relay_that_is_gone_is_warned_about_until_it_is_forgotten() {
    let home = tempfile::tempdir().unwrap();
    assert!(muretai(home.path(), &["keygen", "south"]).output().unwrap().status.success());
    let (gone, relay) = (Relay::start(home.path(), &[]), Relay::start(&home.path().join("other"), &[]));
    let sync = |args: &[&str]| {
        let ended = muretai(home.path(), &[&["inbox", "--sync"], args].concat()).output().unwrap();
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let gone_url = gone.first.clone();
    assert_eq!(sync(&["--relay", &gone_url, "--relay", &relay.first]).0, Some(0));
    gone.stop();
    let (code, told) = sync(&[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("warning:") && told.contains(&format!("inbox --forget {gone_url}")), "{told}");
    let (code, told) = sync(&["--relay", &gone_url, "--relay", &relay.first]);
    assert_eq!(code, Some(4), "it was named: {told}");
    assert!(told.contains(&format!("{}: no letter", relay.first)), "{told}");
    let forgotten = muretai(home.path(), &["inbox", "--forget", &gone_url, "--json"]).output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&forgotten.stdout).unwrap();
    assert_eq!(said, serde_json::json!({"relay": gone_url, "forgotten": true}));
    let (code, told) = sync(&[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(!told.contains(&gone_url), "{told}");
    assert_eq!(muretai(home.path(), &["inbox", "--forget", &gone_url]).output().unwrap().status.code(), Some(1));
}
