//! The main job, as a person types it.
use std::process::{Command, Stdio};

use muretai_tests::{Home, binary, home, rpc::Key};

/// Runs a line in a shell where `muretai` is the binary under test.
fn shell(home: &Home, line: &str) -> home::Done {
    let folder = binary::path().parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", line]).env_clear().env("PATH", path);
    command.env("MURETAI_HOME", home.root()).env("HOME", home.scratch());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    home::finish(command, b"")
}

#[test]
fn two_agents_talk() {
    let home = Home::new();
    shell(&home, "muretai keygen north; muretai keygen south").ok();
    let serve = home.serve("south", &["--reply-with", "tr a-z A-Z"]);
    shell(&home, "set -e; muretai --as south invite create | muretai --as north claim -").ok();

    let sent = shell(&home, "muretai --as north send south 'hello'").ok();
    assert_eq!(sent.out, "HELLO\n");

    let inbox = shell(&home, "muretai --as south inbox --json").ok().json_lines();
    assert_eq!(inbox.len(), 1, "{inbox:?}");
    assert_eq!(inbox[0]["from"], home.did("north"));
    assert_eq!(inbox[0]["text"], "hello");
    let (code, err) = serve.stop("INT");
    assert_eq!(code, 0, "{err}");
}

#[test]
fn trust_goes_both_ways_after_a_claim() {
    let (north, south) = (Home::with_agent("north"), Home::with_agent("south"));
    let south_serve = south.serve("south", &[]);
    let north_serve = north.serve("north", &[]);
    let link = south.run(["invite", "create"]).ok().out;
    north.run(["claim", link.trim()]).ok();
    let known = north.run(["contacts", "list", "--json"]).ok().json_lines();
    assert_eq!(known[0]["did"], south_serve.did.as_str());
    let known = south.run(["contacts", "list", "--json"]).ok().json_lines();
    assert_eq!(known[0]["did"], north_serve.did.as_str());
    // North was serving when it claimed, so that south knows where to answer.
    south.run(["send", "north", "the other way"]).ok();
    assert_eq!(north.inbox("north")[0]["text"], "the other way");
}

#[test]
fn the_tour_shows_the_main_job_and_leaves_nothing() {
    let home = Home::new();
    let tour = home.run(["tour"]).ok();
    let shown = format!("{}{}", tour.out, tour.err);
    for piece in [
        "muretai keygen",
        "invite create",
        "claim",
        "send",
        "did:key:z6Mk",
        "-32010",
        "introduced",
        "revoked",
        "-32002",
    ] {
        assert!(shown.contains(piece), "the tour shows {piece}: {shown}");
    }
    assert!(!home.root().exists(), "the tour has a home of its own");
}

#[test]
fn a_stranger_is_refused_with_the_code_in_plain_and_in_json() {
    let (north, south) = (Home::with_agent("north"), Home::with_agent("south"));
    let serve = south.serve("south", &[]);
    let refused = north.run(["send", &serve.url, "hello"]).exits(3);
    assert!(refused.err.contains("-32010"), "{}", refused.err);
    assert_eq!(refused.out, "");
    let refused = north.run(["send", &serve.url, "hello", "--json"]).exits(3);
    let error = refused.json_error();
    assert_eq!(error["code"], -32010);
    assert_eq!(error["message"], "Introduction required");
    assert!(error["hint"].is_string(), "{error}");
    assert_eq!(south.inbox("south").len(), 0);
}

#[test]
fn the_same_words_in_another_home_are_the_same_address() {
    let (first, second) = (Home::with_agent("north"), Home::new());
    let words = first.run(["identity", "phrase", "--yes"]).ok().out;
    assert_eq!(words.split_whitespace().count(), 24);
    second.run_with(["keygen", "elsewhere", "--restore"], words.as_bytes()).ok();
    assert_eq!(first.did("north"), second.did("elsewhere"));
    let messy = format!("\u{a0} \t{}\r\n\n", words.trim().to_uppercase().replace(' ', " \u{a0}\t "));
    let third = Home::new();
    third.run_with(["keygen", "elsewhere", "--restore"], messy.as_bytes()).ok();
    assert_eq!(first.did("north"), third.did("elsewhere"));
    assert_eq!(Key::of(3).did(), {
        let home = Home::new();
        home.restore("known", &Key::of(3)).ok();
        home.did("known")
    });
}
