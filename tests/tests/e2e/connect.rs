//! Asking to connect without an invite (5.2): what is asked, who decides, and whose yes makes trust.
use muretai_tests::{
    Home, Serve,
    peer::{Act, Peer, Seen},
    rpc::{Key, code, request},
    trust::{call, connect, status, waiting},
    wait,
};
use serde_json::{Value, json};

use crate::hostile::{self, answer};

fn south(policies: &[(&str, &str)]) -> (Home, Serve) {
    let home = Home::with_agent("south");
    for (name, value) in policies {
        home.run(["policy", "set", name, value]).ok();
    }
    let serve = home.serve("south", &["--rate-limit", "off"]);
    (home, serve)
}

fn contacts(home: &Home) -> Vec<Value> {
    home.run(["contacts", "list", "--json"]).ok().json_lines()
}

fn respond(serve: &Serve, key: &Key, decision: &str) -> Value {
    call(serve, key, "connect/respond", "connect/respond", json!({"decision": decision}))
}

/// East, whose owner never decides: its server has a card, and every request waits.
fn east(key: fn() -> Key) -> Peer {
    hostile::peer(key(), |seen: &Seen| answer(seen, json!({"status": "pending", "requestId": "r1"})))
}

/// Asks east from south and gives the number of the request.
fn ask(home: &Home, east: &Peer) -> i64 {
    let asked = home.run(["connect", &east.url(), "-m", "it's south", "--json"]).ok().json();
    assert_eq!(asked["status"], "pending", "{asked}");
    asked["request"].as_i64().unwrap()
}

#[test]
fn two_agents_connect_and_talk_without_an_invite() {
    let (north, south) = (Home::with_agent("north"), Home::with_agent("south"));
    let north_serve = north.serve("north", &["--reply-with", "tr a-z A-Z"]);
    let south_serve = south.serve("south", &["--reply-with", "tr a-z A-Z"]);
    north.run(["send", &south_serve.url, "hello"]).exits(3);

    let asked = north.run(["connect", &south_serve.url, "-m", "we met at the fair", "--json"]).ok().json();
    assert_eq!((&asked["status"], &asked["did"]), (&json!("pending"), &json!(south_serve.did)), "{asked}");
    assert_eq!(north.run(["trust-status", "--ask", &south_serve.url]).ok().out.lines().next(), Some("pending"));
    north.run(["send", &south_serve.url, "hello"]).exits(3);

    let rows = waiting(&south, "south");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["kind"], &rows[0]["did"]), (&json!("connect"), &json!(north_serve.did)));
    assert_eq!((&rows[0]["note"], &rows[0]["peerName"]), (&json!("we met at the fair"), &json!("north")));
    let id = rows[0]["id"].to_string();
    let accepted = south.run(["requests", "accept", &id, "--json"]).ok().json();
    assert_eq!((&accepted["status"], &accepted["told"]), (&json!("accepted"), &json!(true)), "{accepted}");

    assert_eq!(north.run(["send", "south", "hello"]).ok().out, "HELLO\n");
    assert_eq!(south.run(["send", "north", "and back"]).ok().out, "AND BACK\n");
    assert_eq!(north.run(["trust-status", "--ask", "south"]).ok().out.lines().next(), Some("direct"));
    let again = north.run(["connect", "south", "--json"]).ok().json();
    assert_eq!((&again["status"], &again["known"]), (&json!("connected"), &json!(true)), "{again}");
    let mine = north.run(["requests", "list", "--all", "--json"]).ok().json_lines();
    assert_eq!((&mine[0]["direction"], &mine[0]["status"]), (&json!("out"), &json!("accepted")), "{mine:?}");
}

#[test]
fn a_request_grants_nothing_and_repeating_it_refreshes_one_row() {
    let (home, serve) = south(&[]);
    let north = Key::of(1);
    let hidden = Peer::start(|_, _| Act::HangUp);
    let first = connect(&serve, &north);
    assert_eq!(first["result"]["status"], "pending", "{first}");
    assert_eq!(code(&serve.say(&north, "hello")), -32010);
    let params = json!({"name": "north\u{1b}[2J", "note": "again\u{202e}", "url": hidden.url()});
    let second = call(&serve, &north, "connect/request", "connect/request", params);
    assert_eq!(second["result"], first["result"]);
    let rows = waiting(&home, "south");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["note"], &rows[0]["url"]), (&json!("again\u{202e}"), &json!(hidden.url())));
    let shown = home.run(["requests"]).ok().out;
    assert!(!shown.contains(['\u{1b}', '\u{202e}']) && shown.contains(north.did()), "{shown:?}");
    assert_eq!(hidden.count("GET") + hidden.count("POST"), 0, "nothing of a stranger is dialled");
    assert_eq!(contacts(&home).len(), 0);
}

#[test]
fn a_request_is_signed_as_one_and_well_formed() {
    let (home, serve) = south(&[]);
    let north = Key::of(1);
    for text in ["hello", "connect/respond", "connect/requests", " connect/request", "connect/request hello"] {
        let answer = call(&serve, &north, "connect/request", text, json!({}));
        assert_ne!(code(&answer), 0, "{text:?}: {answer}");
    }
    for params in [json!({"name": 5}), json!({"note": []}), json!({"url": 7})] {
        assert_eq!(
            code(&call(&serve, &north, "connect/request", "connect/request", params.clone())),
            -32602,
            "{params}"
        );
    }
    for decision in [json!({}), json!({"decision": "maybe"}), json!({"decision": true})] {
        let answer = call(&serve, &north, "connect/respond", "connect/respond", decision.clone());
        assert_eq!(code(&answer), -32602, "{decision}");
    }
    assert_eq!(code(&serve.call(&request("connect/request", json!({"message": {}})))), -32600);
    assert_eq!(waiting(&home, "south").len(), 0);
    let with_note = call(&serve, &north, "connect/request", "connect/request\nit's me", json!({}));
    assert_eq!(code(&with_note), 0, "{with_note}");
    assert_eq!(waiting(&home, "south")[0]["note"], "it's me");
}

#[test]
fn closed_refuses_and_open_connects_at_once() {
    let north = Key::of(1);
    let (home, serve) = south(&[("connect", "closed")]);
    assert_eq!(code(&connect(&serve, &north)), -32020);
    assert_eq!((waiting(&home, "south").len(), contacts(&home).len()), (0, 0));
    let (home, serve) = south(&[("connect", "open")]);
    let answer = connect(&serve, &north);
    assert_eq!(answer["result"]["status"], "accepted", "{answer}");
    assert_eq!(contacts(&home)[0]["relation"], "direct");
    assert_eq!(code(&serve.say(&north, "hello")), 0);
    assert_eq!(code(&connect(&serve, &north)), -32022);
}

#[test]
fn a_running_service_follows_a_changed_policy() {
    let (home, serve) = south(&[]);
    let key = |n: u32| Key::nth(n);
    assert_eq!(connect(&serve, &key(0))["result"]["status"], "pending");
    home.run(["policy", "set", "connect", "closed"]).ok();
    wait::until("the service to follow", || (code(&connect(&serve, &key(0))) == -32020).then_some(()));
    home.run(["policy", "set", "connect", "open"]).ok();
    wait::until("the service to follow", || (code(&connect(&serve, &key(1))) != -32020).then_some(()));
    assert_eq!(code(&serve.say(&key(1), "hello")), 0);
    let shown = home.run(["policy", "show", "connect", "--json"]).ok().json();
    assert_eq!((&shown["value"], &shown["default"]), (&json!("open"), &json!(false)));
    home.run(["policy", "set", "connect", "ajar"]).exits(2);
    home.run(["policy", "set", "no-such", "on"]).exits(2);
    assert_eq!(home.run(["policy", "show", "connect", "--json"]).ok().json(), shown);
}

#[test]
fn an_answer_without_a_request_makes_no_trust() {
    let (home, serve) = south(&[]);
    let stranger = Key::of(1);
    for decision in ["accept", "reject", "accept"] {
        assert_eq!(code(&respond(&serve, &stranger, decision)), -32021);
    }
    // Also not when the answering one waits for an answer itself.
    assert_eq!(code(&connect(&serve, &stranger)), 0);
    assert_eq!(code(&respond(&serve, &stranger, "accept")), -32021);
    assert_eq!(code(&serve.say(&stranger, "hello")), -32010);
    assert_eq!(contacts(&home).len(), 0);
}

#[test]
fn an_answer_counts_once_and_from_nobody_else() {
    let (home, serve) = south(&[]);
    let east = east(|| Key::of(7));
    ask(&home, &east);
    assert_eq!(code(&respond(&serve, &Key::of(1), "accept")), -32021);
    assert_eq!(contacts(&home).len(), 0);
    let first = respond(&serve, &Key::of(7), "accept");
    assert_eq!(first["result"]["status"], "connected", "{first}");
    assert_eq!(code(&respond(&serve, &Key::of(7), "accept")), -32021);
    assert_eq!(code(&respond(&serve, &Key::of(7), "reject")), -32021);
    assert_eq!(contacts(&home).len(), 1);
    assert_eq!(code(&serve.say(&Key::of(7), "hello")), 0);
}

#[test]
fn a_no_ends_the_request() {
    let (home, serve) = south(&[]);
    let east = east(|| Key::of(7));
    ask(&home, &east);
    assert_eq!(respond(&serve, &Key::of(7), "reject")["result"]["status"], "rejected");
    assert_eq!(code(&respond(&serve, &Key::of(7), "accept")), -32021);
    assert_eq!(contacts(&home).len(), 0);
    let mine = home.run(["requests", "list", "--all", "--json"]).ok().json_lines();
    assert_eq!(mine[0]["status"], "rejected", "{mine:?}");
}

#[test]
fn what_was_taken_back_cannot_be_accepted() {
    let (home, serve) = south(&[]);
    let east = east(|| Key::of(7));
    let id = ask(&home, &east).to_string();
    home.run(["requests", "withdraw", &id]).ok();
    assert_eq!(code(&respond(&serve, &Key::of(7), "accept")), -32021);
    assert_eq!(contacts(&home).len(), 0);
    home.run(["requests", "withdraw", &id]).ok();
    home.run(["requests", "accept", &id]).exits(1);
    home.run(["requests", "withdraw", "999"]).exits(1);
}

#[test]
fn an_expired_request_can_no_longer_be_accepted_by_anybody() {
    let (home, serve) = south(&[]);
    let east = east(|| Key::of(7));
    ask(&home, &east);
    assert_eq!(code(&connect(&serve, &Key::of(1))), 0);
    let id = waiting(&home, "south")[0]["id"].to_string();
    assert_eq!(home.sql("south", "UPDATE requests SET expires = 1000"), 2);
    assert_eq!(code(&respond(&serve, &Key::of(7), "accept")), -32021);
    home.run(["requests", "accept", &id]).exits(1);
    assert_eq!(waiting(&home, "south").len(), 0);
    assert_eq!(contacts(&home).len(), 0);
    assert_eq!(status(&serve, &Key::of(1), None)["result"]["relation"], "none");
    let all = home.run(["requests", "list", "--all", "--json"]).ok().json_lines();
    assert!(all.iter().all(|row| row["status"] == "expired"), "{all:?}");
    assert_eq!(code(&connect(&serve, &Key::of(1))), 0, "it may ask again");
    assert_eq!(waiting(&home, "south").len(), 1);
}

#[test]
fn a_no_of_the_owner_stands_until_the_owner_thinks_again() {
    let (home, serve) = south(&[]);
    let north = Key::of(1);
    assert_eq!(code(&connect(&serve, &north)), 0);
    let id = waiting(&home, "south")[0]["id"].to_string();
    home.run(["requests", "reject", &id]).ok();
    assert_eq!(code(&connect(&serve, &north)), -32020);
    assert_eq!(status(&serve, &north, None)["result"]["relation"], "none");
    home.run(["requests", "reject", &id]).ok();
    home.run(["requests", "approve", &id]).ok();
    assert_eq!(code(&connect(&serve, &north)), -32022);
    assert_eq!(code(&serve.say(&north, "hello")), 0);
    assert_eq!(contacts(&home)[0]["relation"], "direct");
}

#[test]
fn who_said_no_can_ask_by_itself() {
    let (home, serve) = south(&[]);
    let east = east(|| Key::of(7));
    assert_eq!(code(&connect(&serve, &Key::of(7))), 0);
    let id = waiting(&home, "south")[0]["id"].to_string();
    home.run(["requests", "reject", &id, "--timeout", "2s"]).ok();
    ask(&home, &east);
    assert_eq!(respond(&serve, &Key::of(7), "accept")["result"]["status"], "connected");
}

#[test]
fn requests_that_cross_connect_both() {
    let (home, serve) = south(&[]);
    let east = east(|| Key::of(7));
    ask(&home, &east);
    let crossed = connect(&serve, &Key::of(7));
    assert_eq!(crossed["result"]["status"], "accepted", "{crossed}");
    assert_eq!(contacts(&home)[0]["relation"], "direct");
    assert_eq!(home.run(["requests", "--json"]).ok().json_lines(), [Value::Null; 0], "nothing waits any more");

    let (north, west) = (Home::with_agent("north"), Home::with_agent("west"));
    let (north_serve, west_serve) = (north.serve("north", &[]), west.serve("west", &[]));
    north.run(["connect", &west_serve.url]).ok();
    let second = west.run(["connect", &north_serve.url, "--json"]).ok().json();
    assert_eq!(second["status"], "connected", "{second}");
    north.run(["send", "west", "hello"]).ok();
    west.run(["send", "north", "hello"]).ok();
    for home in [&north, &west] {
        assert_eq!(home.run(["requests", "--json"]).ok().json_lines(), [Value::Null; 0]);
    }
}

#[test]
fn a_request_and_an_invite_claim_that_cross_close_each_other() {
    let (home, serve) = south(&[]);
    let north = Key::of(1);
    assert_eq!(code(&connect(&serve, &north)), 0);
    let invite = home.invite("south");
    let claimed = call(&serve, &north, "onboard/claim", "onboard/claim", json!({"nonce": invite["nonce"]}));
    assert_eq!(code(&claimed), 0, "{claimed}");
    assert_eq!(waiting(&home, "south").len(), 0);
    assert_eq!(code(&connect(&serve, &north)), -32022);

    // The other way round: south's own request waits at west while south claims an invite of west.
    let west = Home::with_agent("west");
    let west_serve = west.serve("west", &[]);
    home.run(["connect", &west_serve.url]).ok();
    let link = west.run(["invite", "create"]).ok().out;
    home.run(["claim", link.trim()]).ok();
    assert_eq!(waiting(&west, "west").len(), 0);
    assert_eq!(home.run(["requests", "--json"]).ok().json_lines(), [Value::Null; 0]);
    home.run(["send", "west", "hello"]).ok();
}

#[test]
fn waiting_for_an_answer_ends_with_what_came() {
    let south = Home::with_agent("south");
    let south_serve = south.serve("south", &[]);
    for (name, decision, code) in [("north", "reject", 3), ("west", "accept", 0)] {
        let asker = Home::with_agent(name);
        let _serve = asker.serve(name, &[]);
        let ended = std::thread::scope(|scope| {
            let asking = scope.spawn(|| asker.run(["connect", &south_serve.url, "--wait", "50", "--json"]));
            let id = wait::until("the request", || waiting(&south, "south").pop())["id"].to_string();
            south.run(["requests", decision, &id]).ok();
            asking.join().unwrap()
        });
        ended.exits(code);
    }
    let east = Home::with_agent("east");
    let _serve = east.serve("east", &[]);
    let waited = east.run(["connect", &south_serve.url, "--wait", "1", "--json"]).exits(4).json();
    assert_eq!(waited["status"], "pending", "{waited}");
}

#[test]
fn an_agent_that_is_not_served_learns_of_a_yes_when_it_asks() {
    let (north, south) = (Home::with_agent("north"), Home::with_agent("south"));
    let south_serve = south.serve("south", &[]);
    let asked = north.run(["connect", &south_serve.url, "--json"]).ok().json();
    assert_eq!((&asked["status"], &asked["offline"]), (&json!("pending"), &json!(true)), "{asked}");
    let id = waiting(&south, "south")[0]["id"].to_string();
    south.run(["requests", "accept", &id, "--timeout", "2s"]).ok();
    let again = north.run(["connect", &south_serve.url, "--json"]).ok().json();
    assert_eq!(again["status"], "connected", "{again}");
    north.run(["send", "south", "hello"]).ok();
    assert_eq!(south.inbox("south").len(), 1);
}

#[test]
fn a_yes_that_is_no_longer_wanted_is_undone() {
    let (north, south) = (Home::with_agent("north"), Home::with_agent("south"));
    let (_north_serve, south_serve) = (north.serve("north", &[]), south.serve("south", &[]));
    let asked = north.run(["connect", &south_serve.url, "--json"]).ok().json();
    north.run(["requests", "withdraw", &asked["request"].to_string()]).ok();
    let id = waiting(&south, "south")[0]["id"].to_string();
    let accepted = south.run(["requests", "accept", &id, "--json"]);
    assert!([0, 3].contains(&accepted.code), "{accepted:?}");
    wait::until("the acceptance to be undone", || {
        let trusted = contacts(&south).iter().any(|contact| contact["relation"] == "direct");
        (!trusted).then_some(())
    });
    assert_eq!(contacts(&north).len(), 0);
}
