//! What an agent owes to its peers: a decision that was made reaches them, whatever dies in between.
use std::process::Stdio;

use muretai_tests::{
    Home, Serve, home,
    trust::{introduce_each_other, waiting},
    wait,
};
use serde_json::{Value, json};

fn relation(home: &Home, who: &str) -> Option<String> {
    let shown = home.run(["contacts", "show", who, "--json"]);
    (shown.code == 0).then(|| shown.json()["relation"].as_str().unwrap().to_owned())
}

/// Makes what is owed due at once; it would be tried again after half a minute.
fn hurry(home: &Home, name: &str) {
    home.sql(name, "UPDATE errands SET due = 0");
}

/// North has asked south to connect; its owner has not decided. Both serve.
fn asked() -> (Home, Serve, Home, Serve, String) {
    let (north, south) = (Home::with_agent("north"), Home::with_agent("south"));
    let (north_serve, south_serve) = (north.serve("north", &[]), south.serve("south", &[]));
    north.run(["connect", &south_serve.url]).ok();
    let id = waiting(&south, "south")[0]["id"].to_string();
    (north, north_serve, south, south_serve, id)
}

#[test]
fn a_decision_survives_a_kill_between_making_it_and_telling_it() {
    let (north, north_serve, south, south_serve, id) = asked();
    // North stands still: its connections are taken by the kernel and answered by nobody.
    home::kill(north_serve.pid(), "STOP");
    let mut accepting = south.command(["requests", "accept", &id]);
    accepting.stdout(Stdio::null()).stderr(Stdio::null());
    let mut accepting = accepting.spawn().unwrap();
    wait::until("the decision to be stored", || {
        let rows = south.run(["requests", "list", "--all", "--json"]).ok().json_lines();
        (rows[0]["status"] == "accepted").then_some(())
    });
    accepting.kill().unwrap();
    accepting.wait().unwrap();
    south_serve.kill();
    assert_eq!(relation(&south, &north_serve.did).as_deref(), Some("direct"));
    let doctor = south.run(["doctor", "--json"]).ok().json();
    let errands = doctor["checks"].as_array().unwrap().iter().find(|check| check["check"] == "errands").unwrap();
    assert_eq!(errands["status"], "warning", "{doctor}");

    home::kill(north_serve.pid(), "CONT");
    hurry(&south, "south");
    let _south_serve = south.serve("south", &[]);
    wait::until("north to be told", || relation(&north, &south_did(&south)).filter(|relation| relation == "direct"));
    wait::until("nothing to be owed", || {
        let doctor = south.run(["doctor", "--json"]).ok().json();
        let checks = doctor["checks"].as_array().unwrap();
        checks.iter().any(|check| check["check"] == "errands" && check["status"] == "ok").then_some(())
    });
    assert_eq!(south.run(["contacts", "list", "--json"]).ok().json_lines().len(), 1, "it happened once");
}

fn south_did(south: &Home) -> String {
    south.did("south")
}

#[test]
fn who_was_away_is_told_when_it_is_back() {
    let (north, north_serve, south, _south_serve, id) = asked();
    let listen = north_serve.addr.to_string();
    assert_eq!(north_serve.stop("TERM").0, 0);
    let accepted = south.run(["requests", "accept", &id, "--timeout", "2s", "--json"]).ok().json();
    assert_eq!((&accepted["status"], &accepted["told"]), (&json!("accepted"), &json!(false)), "{accepted}");
    assert_eq!(relation(&north, &south_did(&south)).filter(|relation| relation == "direct"), None);
    let _north_serve = north.serve("north", &["--listen", &listen]);
    hurry(&south, "south");
    wait::until("north to be told", || relation(&north, &south_did(&south)).filter(|relation| relation == "direct"));
}

#[test]
fn an_introduction_reaches_a_target_that_was_away() {
    let (north, south, west) = (Home::with_agent("north"), Home::with_agent("south"), Home::with_agent("west"));
    let north_serve = north.serve("north", &[]);
    let south_serve = south.serve("south", &[]);
    let west_serve = west.serve("west", &[]);
    introduce_each_other(&north, "north", &west, "west");
    introduce_each_other(&south, "south", &west, "west");
    let (listen, west_listen) = (south_serve.addr.to_string(), west_serve.addr.to_string());
    assert_eq!(south_serve.stop("TERM").0, 0);
    let made = west.run(["introduce", "north", "--to", "south", "--timeout", "2s", "--json"]).ok().json();
    assert_eq!((&made["status"], &made["told"]), (&json!("pending"), &json!(false)), "{made}");
    let _south_serve = south.serve("south", &["--listen", &listen]);
    assert_eq!(west_serve.stop("TERM").0, 0);
    hurry(&west, "west");
    let west_serve = west.serve("west", &["--listen", &west_listen]);
    let id = wait::until("the proposal", || waiting(&south, "south").first().map(|row| row["id"].to_string()));

    // West is away while south decides; north gets its introduction when west is back.
    assert_eq!(west_serve.stop("TERM").0, 0);
    let accepted = south.run(["requests", "accept", &id, "--timeout", "2s", "--json"]).ok().json();
    assert_eq!(accepted["told"], false, "{accepted}");
    assert_eq!(held(&north).len(), 0);
    let _west_serve = west.serve("west", &["--listen", &west_listen]);
    hurry(&south, "south");
    let kept = wait::until("north's introduction", || held(&north).pop());
    assert_eq!(kept["id"], made["id"]);
    north.run(["send", "south", "hello"]).ok();
    assert_eq!(south.inbox("south").last().unwrap()["text"], "hello");
    drop(north_serve);
}

fn held(home: &Home) -> Vec<Value> {
    home.run(["introduce", "list", "--held", "--json"]).ok().json_lines()
}
