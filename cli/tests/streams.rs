//! Streams and signals: what a closed pipe, a full disk, another process and a signal do to a command.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::{
    io::{BufRead, BufReader, Read, Write, pipe},
    path::Path,
    process::{Command, Output, Stdio},
};

use muretai_protocol::{Did, UnixSeconds};
use muretai_store::{Store, messages::Received};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const SENDER: &str = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";

/// A command in a home of its own, with nothing of the environment that runs the tests.
fn muretai(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muretai"));
    command.env_clear().env("HOME", home).env("MURETAI_HOME", home).args(args).stdin(Stdio::null());
    command
}

fn home_with_an_agent() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let made = muretai(home.path(), &["keygen", "north"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    home
}

/// Stores one message, as a `serve` in another process would.
fn store_message(home: &Path, message_id: &str, text: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(&home.join("agents/north/agent.db")).await.unwrap();
        let received = Received {
            from: SENDER.parse::<Did>().unwrap(),
            message_id: message_id.to_owned(),
            context_id: None,
            reply_to: None,
            text: text.to_owned(),
            timestamp: UnixSeconds(1_700_000_000),
            received: UnixSeconds(1_700_000_001),
            digest: [7; 32],
            sig: "c2ln".to_owned(),
            extra: None,
            is_auto: false,
            reply: None,
            reply_by: None,
            settles: None,
        };
        store.commit_received(received).await.unwrap();
        store.close().await;
    });
}

fn with_closed_stdout(home: &Path, args: &[&str]) -> Output {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    muretai(home, args).stdout(writer).stderr(Stdio::piped()).output().unwrap()
}

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let home = home_with_an_agent();
    store_message(home.path(), "m1", &"long ".repeat(10_000));
    for args in [
        &["completions", "bash"][..],
        &["man"],
        &["--help"],
        &["--version"],
        &["inbox"],
        &["inbox", "--json"],
        &["identity", "list"],
        &["doctor"],
        &["tour"],
    ] {
        let ended = with_closed_stdout(home.path(), args);
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{args:?}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("error"), "{args:?}: {stderr}");
    }
}

#[test]
fn what_a_closed_pipe_did_not_take_stays_unread() {
    let home = home_with_an_agent();
    store_message(home.path(), "m1", "hello");
    with_closed_stdout(home.path(), &["inbox"]);
    let listed = muretai(home.path(), &["inbox", "--unread", "--json"]).output().unwrap();
    assert!(String::from_utf8_lossy(&listed.stdout).contains("\"m1\""), "{listed:?}");
    let again = muretai(home.path(), &["inbox", "--unread", "--json"]).output().unwrap();
    assert!(again.status.success() && again.stdout.is_empty(), "{again:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_stdout_is_an_error() {
    let home = home_with_an_agent();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = muretai(home.path(), &["identity", "list"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("cannot write to standard output"), "{ended:?}");
}

#[test]
fn follow_prints_what_another_process_stores_and_ends_well_on_sigterm() {
    let home = home_with_an_agent();
    store_message(home.path(), "m1", "before");
    let mut follow = muretai(home.path(), &["inbox", "--follow", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"m1\""));
    for id in ["m2", "m3"] {
        store_message(home.path(), id, "after");
        assert!(lines.next().unwrap().unwrap().contains(&format!("{id:?}")));
    }
    kill_process(Pid::from_child(&follow), Signal::TERM).unwrap();
    assert_eq!(follow.wait().unwrap().code(), Some(0));
    assert!(lines.next().is_none());
}

#[test]
fn follow_ends_when_its_reader_goes_away_though_nothing_arrives() {
    let home = home_with_an_agent();
    store_message(home.path(), "m1", "before");
    let mut follow = muretai(home.path(), &["inbox", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("#1 "));
    drop(lines);
    assert_eq!(follow.wait().unwrap().code(), Some(0));
}

#[test]
fn nothing_waits_for_a_terminal_that_is_not_there() {
    let home = home_with_an_agent();
    for args in [&["identity", "phrase"][..], &["keygen", "south", "--restore"], &["keygen", "south", "--passphrase"]] {
        let ended = muretai(home.path(), args).output().unwrap();
        assert!(!ended.status.success(), "{args:?}");
        assert!(ended.stdout.is_empty(), "{args:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("hint: "), "{args:?}: {ended:?}");
    }
    assert!(!home.path().join("agents/south").exists());
}

#[test]
fn a_passphrase_comes_from_a_file_or_a_descriptor() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("passphrase");
    std::fs::write(&file, "correct horse\n").unwrap();
    let path = file.to_str().unwrap();
    let made = muretai(home.path(), &["keygen", "north", "--json", "--passphrase-file", path]).output().unwrap();
    assert!(String::from_utf8_lossy(&made.stdout).contains("\"encrypted\":true"), "{made:?}");
    let locked = muretai(home.path(), &["identity", "show"]).output().unwrap();
    assert_eq!(locked.status.code(), Some(1), "{locked:?}");
    let opened = muretai(home.path(), &["identity", "show", "--passphrase-fd", "0"])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    assert!(opened.status.success(), "{opened:?}");
    std::fs::write(&file, "wrong horse\n").unwrap();
    let wrong = muretai(home.path(), &["identity", "show", "--passphrase-file", path]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(!String::from_utf8_lossy(&wrong.stderr).contains("horse"), "{wrong:?}");
}

#[test]
fn the_most_verbose_log_holds_no_secret() {
    let home = home_with_an_agent();
    let phrase = muretai(home.path(), &["-vvv", "identity", "phrase", "--yes"]).output().unwrap();
    let words = String::from_utf8(phrase.stdout).unwrap();
    assert_eq!(words.split_whitespace().count(), 24);
    // One word alone may well be part of a sentence.
    let pair = words.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" ");
    for args in [&["-vvv", "inbox"][..], &["-vvv", "identity", "show"], &["-vvv", "doctor"], &["-vvv", "card"]] {
        let ended = muretai(home.path(), args).output().unwrap();
        let told = [ended.stdout, ended.stderr].concat();
        assert!(!String::from_utf8_lossy(&told).contains(&pair), "{args:?}");
    }
}

#[test]
fn the_tour_shows_everything_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let mut tour = muretai(home.path(), &["tour"]);
    if let Some(path) = std::env::var_os("PATH") {
        tour.env("PATH", path);
    }
    let ended = tour.env("TMPDIR", home.path()).output().unwrap();
    let told = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(0), "{told}\n{}", String::from_utf8_lossy(&ended.stderr));
    for shown in ["HELLO", "\"verified\":true", "-32010", "-32002", "What to type next"] {
        assert!(told.contains(shown), "{shown}: {told}");
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn flags_beat_the_environment_which_beats_the_file() {
    let home = home_with_an_agent();
    for name in ["south", "east"] {
        assert!(muretai(home.path(), &["keygen", name]).output().unwrap().status.success());
    }
    std::fs::write(home.path().join("config.toml"), "\u{feff}as = \"east\"\n").unwrap();
    let acting = |args: &[&str], agent: &str| {
        let shown = muretai(home.path(), args).env("MURETAI_AS", agent).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
        json["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(acting(&["identity", "show", "--json"], ""), "east");
    assert_eq!(acting(&["identity", "show", "--json"], "south"), "south");
    assert_eq!(acting(&["identity", "show", "--json", "--as", "north"], "south"), "north");
}

#[test]
fn with_json_the_log_of_a_service_is_json_too() {
    let home = home_with_an_agent();
    let mut serve = muretai(home.path(), &["--json", "serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap()).lines();
    let bound: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let mut peer = std::net::TcpStream::connect(bound["listen"].as_str().unwrap()).unwrap();
    peer.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx").unwrap();
    peer.read_to_end(&mut Vec::new()).unwrap();
    kill_process(Pid::from_child(&serve), Signal::TERM).unwrap();
    let ended = serve.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    let logged: Vec<serde_json::Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(logged.iter().any(|line| line["level"] == "info" && line["message"] == "refused"), "{told}");
}

#[test]
fn standard_input_holds_a_passphrase_or_a_phrase_and_never_both() {
    let home = home_with_an_agent();
    let file = home.path().join("input");
    std::fs::write(&file, "correct horse\n").unwrap();
    let stdin = || std::fs::File::open(&file).unwrap();
    let args = ["keygen", "south", "--json", "--passphrase-file", "-"];
    let made = muretai(home.path(), &args).stdin(stdin()).output().unwrap();
    assert!(String::from_utf8_lossy(&made.stdout).contains("\"encrypted\":true"), "{made:?}");
    let phrase = muretai(home.path(), &["identity", "phrase", "north", "--yes"]).output().unwrap();
    std::fs::write(&file, phrase.stdout).unwrap();
    let both = ["keygen", "east", "--restore", "--passphrase-file", "-"];
    let refused = muretai(home.path(), &both).stdin(stdin()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let twin = muretai(home.path(), &["keygen", "twin", "--restore"]).stdin(stdin()).output().unwrap();
    assert!(String::from_utf8_lossy(&twin.stderr).contains("`north` in this home is the same identity"), "{twin:?}");
}

#[test]
fn hints_can_be_typed_as_they_are() {
    let home = home_with_an_agent();
    let path = home.path().to_str().unwrap();
    let other = tempfile::tempdir().unwrap();
    let made = muretai(other.path(), &["--home", path, "keygen", "south"]).output().unwrap();
    let told = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(told.contains(&format!("`muretai --home {path} --as south serve`")), "{told}");
    let asked = muretai(home.path(), &["--as", "south", "inbox", "nobody"]).output().unwrap();
    let told = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(told.contains("`muretai --as south contacts list`"), "{told}");
}
