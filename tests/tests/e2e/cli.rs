//! Habits that scripts rely on: shapes, streams, exit codes, pipes (issue: names that scripts will rely on).
use std::{
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
};

use muretai_tests::{
    Home, home,
    rpc::{self, Key, code},
    wait,
};
use serde_json::Value;

#[track_caller]
fn has(object: &Value, members: &[&str]) {
    for member in members {
        assert!(object.get(*member).is_some(), "{member} is in {object}");
    }
}

#[test]
fn json_shapes_have_their_names() {
    let home = Home::new();
    let made = home.run(["keygen", "south", "--json"]).ok().json();
    has(&made, &["name", "did"]);
    home.run(["keygen", "north"]).ok();
    let shown = home.run(["--as", "south", "identity", "show", "--json"]).ok().json();
    assert_eq!(shown["name"], "south");
    assert_eq!(shown["did"], made["did"]);
    let serve = home.serve("south", &["--reply-with", "tr a-z A-Z", "--json"]);
    let invite = home.invite("south");
    has(&invite, &["link", "nonce", "expires"]);
    let claimed = home.run(["--as", "north", "claim", invite["link"].as_str().unwrap(), "--json"]).ok().json();
    assert_eq!(claimed["did"], made["did"]);
    let sent = home.run(["--as", "north", "send", "south", "hello", "--context", "c-1", "--json"]).ok().json();
    has(&sent, &["messageId", "status", "reply"]);
    assert_eq!(sent["reply"]["text"], "HELLO");
    assert_eq!(sent["reply"]["from"], serve.did.as_str());
    let inbox = home.inbox("south");
    let last = inbox.last().unwrap();
    let members = ["id", "messageId", "from", "name", "text", "time", "received", "contextId", "replyTo", "unread"];
    has(last, &members);
    assert_eq!(last["messageId"], sent["messageId"]);
    assert_eq!(last["contextId"], "c-1");
    assert_eq!(last["from"], home.did("north"));
    has(&home.run(["--as", "north", "card", "--json"]).ok().json(), &["name", "did"]);
}

#[test]
fn unread_is_a_state_that_reading_changes() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door", "--rate-limit", "off"]);
    let key = Key::of(1);
    assert_eq!(code(&serve.say(&key, "one")), 0);
    assert_eq!(code(&serve.say(&key, "two")), 0);
    let first = home.run(["inbox", "--unread", "--json"]).ok().json_lines();
    assert_eq!(first.len(), 2);
    assert!(first.iter().all(|row| row["unread"] == true));
    let again = home.run(["inbox", "--unread", "--json"]).ok().json_lines();
    assert_eq!(again.len(), 0, "{again:?}");
    assert_eq!(code(&serve.say(&key, "three")), 0);
    let third = home.run(["inbox", "--unread", "--json"]).ok().json_lines();
    assert_eq!(third.iter().map(|row| row["text"].clone()).collect::<Vec<_>>(), ["three"]);
    assert_eq!(home.inbox("south").len(), 3);
}

#[test]
fn follow_prints_each_message_as_it_comes_and_ends_on_a_signal() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door", "--rate-limit", "off"]);
    let mut follower = home.command(["inbox", "--follow", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    for n in 0..5 {
        let text = format!("message {n}");
        assert_eq!(code(&serve.say(&Key::of(1), &text)), 0);
        // One at a time: each is printed before the next is sent, so nothing sits in a buffer.
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["text"], text);
    }
    home::kill(follower.id(), "TERM");
    let status = wait::until("follow to end", || follower.try_wait().unwrap());
    assert!(status.code().is_some_and(|code| code == 0 || code == 143), "{status:?}");
}

#[test]
fn follow_ends_quietly_when_its_reader_goes() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door", "--rate-limit", "off"]);
    let mut follower = home.command(["inbox", "--follow", "--json"]).spawn().unwrap();
    drop(follower.stdout.take());
    wait::until("follow to end", || {
        assert_eq!(code(&serve.say(&Key::of(1), "anybody there?")), 0);
        follower.try_wait().unwrap()
    });
    let mut err = String::new();
    follower.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(!err.contains("panicked"), "{err}");
}

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door", "--rate-limit", "off"]);
    let big = "x".repeat(60_000);
    for _ in 0..4 {
        assert_eq!(code(&serve.say(&Key::of(1), &big)), 0);
    }
    for line in [&["inbox", "--json"][..], &["inbox"], &["completions", "bash"], &["man"], &["--help"], &["card"]] {
        let mut child = home.command(line).spawn().unwrap();
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let status = child.wait().unwrap();
        assert!(!err.contains("panicked"), "{line:?}: {err}");
        assert_eq!(status.code(), Some(0), "{line:?}: {err}");
    }
}

#[test]
fn stdout_is_data_and_stderr_is_the_rest() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door"]);
    let sent = home.run(["send", &serve.url, "to myself", "-vvv"]);
    assert!(!sent.out.contains('\u{1b}') && !sent.err.contains('\u{1b}'), "no colour without a terminal");
    for line in [
        &["inbox", "--json", "-vvv"][..],
        &["contacts", "list", "--json", "-vvv"],
        &["invite", "create", "--json", "-vvv"],
    ] {
        home.run(line).ok().json_lines();
    }
    let failed = home.run(["send", "nobody-here", "x", "--json", "--timeout", "5s"]);
    assert_ne!(failed.code, 0);
    assert_eq!(failed.out, "");
    failed.json_error();
    let usage = home.run(["no-such-command", "--json"]).exits(2);
    assert_eq!(usage.out, "");
    usage.json_error();
}

#[test]
fn usage_errors_are_exit_2() {
    let home = Home::with_agent("south");
    for line in [
        &["send"][..],
        &["send", "south"],
        &["serve", "--listen", "nonsense"],
        &["serve", "--rate-limit", "x"],
        &["--no-such-flag"],
        &["invite"],
        &["inbox", "--no-such"],
        &["keygen", "bad/name"],
        &["keygen", ""],
        &["keygen", ".."],
        &["--as", "../x", "inbox"],
    ] {
        let done = home.run(line);
        assert!(
            done.code == 2 || (done.code == 1 && line.contains(&"keygen") || line.contains(&"--as")),
            "{line:?}: {done:?}"
        );
    }
    assert_eq!(home.run(["--version"]).ok().out.split(' ').next(), Some("muretai"));
}

#[test]
fn nothing_waits_for_a_terminal_that_is_not_there() {
    let home = Home::with_agent("south");
    for line in [
        &["identity", "phrase"][..],
        &["contacts", "remove", "nobody"],
        &["keygen", "x", "--restore"],
        &["keygen", "y", "--passphrase"],
        &["claim", "-"],
        &["send", "south", "-"],
    ] {
        let done = home.run(line);
        assert!([1, 2].contains(&done.code), "{line:?}: {done:?}");
    }
    assert!(!home.agent("x").join("key.pem").exists() && !home.agent("y").join("key.pem").exists());
    let key = Key::of(1);
    let serve = home.serve("south", &["--open-door"]);
    serve.say(&key, "x");
    home.run(["contacts", "block", key.did()]).ok();
    let asked = home.run(["contacts", "remove", key.did()]);
    assert!([1, 2].contains(&asked.code) && asked.err.contains("--yes"), "{asked:?}");
}

#[test]
fn text_is_sent_as_it_is() {
    let home = Home::with_agent("south");
    let other = Home::with_agent("north");
    let serve = home.serve("south", &["--open-door", "--rate-limit", "off", "--reply-with", "cat"]);
    for text in ["- first item", "-1", "@file", "two\nlines", "日本語", "  spaces  "] {
        assert_eq!(other.run(["send", &serve.url, "--json", "--", text]).ok().json()["reply"]["text"], text);
    }
    assert_eq!(other.run(["send", &serve.url, "--json", "--", "--help"]).ok().json()["reply"]["text"], "--help");
    other.run_with(["send", &serve.url, "-"], "from stdin\n".as_bytes()).ok();
    // The reply is what a command prints, without its last line feed; the message itself is kept whole.
    assert_eq!(home.inbox("south").last().unwrap()["text"], "from stdin\n");
    let full = "x".repeat(65_536);
    other.run_with(["send", &serve.url, "-", "--json"], full.as_bytes()).ok();
    let over = other.run_with(["send", &serve.url, "-"], format!("{full}x").as_bytes());
    assert_eq!(over.code, 1, "{over:?}");
    assert!(over.err.contains("65536"), "{}", over.err);
    assert_eq!(other.run_with(["send", &serve.url, "-"], b"\xff\xfe").code, 1);
    assert!([1, 2].contains(&other.run(["send", &serve.url, ""]).code), "empty text");
}

#[test]
fn a_peer_cannot_write_to_the_terminal() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door", "--rate-limit", "off"]);
    let evil = "a\u{1b}[2K\u{202e}b\rc\u{7}d\u{200b}\u{9b}31m";
    assert_eq!(code(&serve.say(&Key::of(1), evil)), 0);
    let shown = home.run(["inbox"]).ok().out;
    assert!(!shown.contains(['\u{1b}', '\u{202e}', '\r', '\u{7}', '\u{9b}']), "{shown:?}");
    assert_eq!(home.inbox("south")[0]["text"], evil, "JSON carries it as it is");
}

#[test]
fn the_order_is_that_of_arrival_and_not_of_the_senders_clock() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door", "--rate-limit", "off"]);
    let key = Key::of(1);
    for (text, skew) in [("first", 250), ("second", -250), ("third", 0)] {
        let fields = rpc::Fields {
            to: serve.did.clone(),
            text: text.into(),
            timestamp: (rpc::now() + skew).into(),
            ..rpc::Fields::default()
        };
        assert_eq!(code(&serve.call(&rpc::send(&key.signed(&fields)))), 0);
    }
    let rows = home.inbox("south");
    assert_eq!(rows.iter().map(|row| row["text"].as_str().unwrap()).collect::<Vec<_>>(), ["first", "second", "third"]);
    assert!(rows.windows(2).all(|pair| pair[0]["id"].as_i64() < pair[1]["id"].as_i64()), "{rows:?}");
}

#[test]
fn a_shell_reads_completions_and_a_manual() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(home.run(["completions", shell]).ok().out.contains("muretai"));
    }
    assert!(home.run(["man"]).ok().out.contains(".TH"));
}

#[test]
fn serve_warns_about_an_address_that_nobody_can_dial_and_never_prints_it_on_the_card() {
    let home = Home::with_agent("south");
    let (line, err) = started(&home, &["--listen", "0.0.0.0:0"]);
    assert!(!line.contains("0.0.0.0") && !line.trim_end().ends_with(":0"), "{line}");
    assert!(err.contains("--url"), "{err}");
    let (line, _) = started(&home, &["--url", "https://south.example/agents/one"]);
    assert_eq!(line, "https://south.example/agents/one\n");
    for url in [
        "https://south.example/",
        "ftp://x",
        "https://u:p@south.example",
        "https://south.example/a?b",
        "https://South.example",
    ] {
        let done = home.run(["serve", "--listen", "127.0.0.1:0", "--url", url]);
        assert!([1, 2].contains(&done.code), "{url}: {done:?}");
    }
}

/// What `serve` prints first, and what it said on stderr until it was asked to stop.
fn started(home: &Home, flags: &[&str]) -> (String, String) {
    let mut command = home.command(["serve"]);
    if !flags.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    let mut child = command.args(flags).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    home::kill(child.id(), "TERM");
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    child.wait().unwrap();
    (line, err)
}

#[test]
fn a_script_can_pipe_an_invite_into_a_claim() {
    let (south, north) = (Home::with_agent("south"), Home::with_agent("north"));
    let serve = south.serve("south", &[]);
    let mut create = south.command(["invite", "create"]);
    let link = create.output().unwrap().stdout;
    let mut claim = north.command(["claim", "-", "--name", "friend"]);
    claim.stdin(Stdio::piped());
    let mut child = claim.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&link).unwrap();
    assert!(child.wait().unwrap().success());
    let shown = north.run(["contacts", "show", "friend", "--json"]).ok().json();
    assert_eq!(shown["did"], serve.did.as_str());
}
