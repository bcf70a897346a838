//! `trust/status`: what is told to whom (5.2), and what a blocked peer is told on every method.
use muretai_tests::{
    Home, Serve,
    rpc::{Key, code, send},
    trust::{asking, befriend, connect, propose, status, waiting},
    vouch::{presenting, vc},
};
use serde_json::{Value, json};

fn south(query: &str) -> (Home, Serve) {
    let home = Home::with_agent("south");
    home.run(["policy", "set", "trust-query", query]).ok();
    let serve = home.serve("south", &["--rate-limit", "off"]);
    (home, serve)
}

#[test]
fn everybody_may_ask_about_itself() {
    let (home, serve) = south("self");
    let (west, north, east) = (Key::of(1), Key::of(2), Key::of(3));
    befriend(&home, &serve, "south", &west);
    let about = |key: &Key| status(&serve, key, None)["result"].clone();
    let stranger = about(&north);
    assert_eq!(
        stranger,
        json!({"subject": north.did(), "trusted": false, "relation": "none", "depth": null, "trustLevel": null,
               "trustLevelBp": null, "vouchedBy": [], "expertise": []})
    );
    assert_eq!(code(&status(&serve, &north, Some(north.did()))), 0, "naming oneself is no third party");
    let direct = about(&west);
    assert_eq!(
        (&direct["relation"], &direct["depth"], &direct["trusted"]),
        (&json!("direct"), &json!(1), &json!(true))
    );
    assert_eq!(code(&connect(&serve, &north)), 0);
    let pending = about(&north);
    assert_eq!((&pending["relation"], &pending["trusted"]), (&json!("pending"), &json!(false)));
    assert_eq!(code(&propose(&serve, &west, &vc(&west, east.did(), &serve.did, |_| {}))), 0);
    assert_eq!(about(&east)["relation"], "pending");
    let id = waiting(&home, "south").last().unwrap()["id"].to_string();
    home.run(["requests", "accept", &id]).ok();
    let introduced = about(&east);
    assert_eq!((&introduced["relation"], &introduced["depth"]), (&json!("introduced"), &json!(2)));
    assert_eq!(introduced["vouchedBy"], json!([west.did()]));
    assert_eq!((&introduced["trustLevelBp"], &introduced["trustLevel"]), (&json!(800), &json!(0.8)));
    assert_eq!(introduced["expertise"], json!(["translation"]));
}

#[test]
fn who_may_ask_about_others_is_for_the_owner_to_say() {
    for (policy, by_contact, by_stranger) in [("self", -32012, -32012), ("trusted", 0, -32012), ("public", 0, 0)] {
        let (home, serve) = south(policy);
        let (west, north, east) = (Key::of(1), Key::of(2), Key::of(3));
        befriend(&home, &serve, "south", &west);
        assert_eq!(code(&connect(&serve, &north)), 0);
        let asked = |key: &Key, subject: &str| status(&serve, key, Some(subject));
        assert_eq!(code(&asked(&west, north.did())), by_contact, "{policy}");
        assert_eq!(code(&asked(&east, west.did())), by_stranger, "{policy}");
        if by_contact == 0 {
            let told = asked(&west, north.did());
            assert_eq!(told["result"]["relation"], "none", "what waits is told to the one who waits alone: {told}");
        }
        if by_stranger == 0 {
            assert_eq!(asked(&east, west.did())["result"]["relation"], "direct");
        }
        for subject in [json!("did:key:zBAD"), json!(5), json!("")] {
            let params = json!({"subject": subject});
            let answer = muretai_tests::trust::call(&serve, &west, "trust/status", "trust/status", params);
            assert_eq!(code(&answer), -32602, "{subject}: {answer}");
        }
    }
}

#[test]
fn the_command_shows_where_somebody_stands_here_and_there() {
    let (home, serve) = south("self");
    let (west, north) = (Key::of(1), Key::of(2));
    befriend(&home, &serve, "south", &west);
    let here = |who: &str| home.run(["trust-status", who, "--json"]).ok().json();
    assert_eq!(here(west.did())["relation"], "direct");
    assert_eq!(here(north.did())["relation"], "none");
    assert_eq!(home.run(["trust-status"]).ok().out.lines().next(), Some("self"));
    let other = Home::with_agent("north");
    let third = other.run(["trust-status", west.did(), "--ask", &serve.url, "--json"]).exits(3);
    assert_eq!(third.json_error()["code"], -32012);
    assert_eq!(other.run(["trust-status", "--ask", &serve.url]).ok().out.lines().next(), Some("none"));
    home.run(["trust-status", "nobody"]).exits(1);
}

/// An answer without what may differ between two honest strangers: ids, times, signatures, their own DIDs.
fn shape(answer: &Value, key: &Key) -> Value {
    match answer {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| match (name.as_str(), value) {
                ("id" | "messageId" | "sig" | "timestamp" | "replyTo", _) => (name.clone(), Value::Null),
                ("requestId", Value::String(text)) => (name.clone(), json!(text.len())),
                _ => (name.clone(), shape(value, key)),
            })
            .collect(),
        Value::Array(items) => items.iter().map(|item| shape(item, key)).collect(),
        Value::String(text) => json!(text.replace(key.did(), "(the asker)")),
        other => other.clone(),
    }
}

/// Asks for everything that there is to ask, in an order that lets no answer depend on an earlier one of the same key.
fn every_method(serve: &Serve, key: &Key, west: &Key) -> Vec<(&'static str, Value)> {
    let door = serve.did.as_str();
    let about_me = vc(west, key.did(), door, |_| {});
    let by_me = vc(key, Key::of(9).did(), door, |_| {});
    let ask = |method: &'static str, text: &str, params: Value| serve.call(&asking(door, key, method, text, params));
    let answers = [
        ("message/send", serve.say(key, "hello")),
        ("message/send", serve.call(&send(&presenting(key, door, "hello", &json!("bad"))))),
        ("trust/status", status(serve, key, None)),
        ("trust/status", status(serve, key, Some(west.did()))),
        ("referral/request", ask("referral/request", "who knows law?", json!({}))),
        ("introduction/request", ask("introduction/request", &format!("introduce-me-to:{}", west.did()), json!({}))),
        (
            "introduce/propose",
            ask("introduce/propose", "introduce/propose", json!({"vc": by_me, "subject": {"did": Key::of(9).did()}})),
        ),
        (
            "introduce/respond",
            ask(
                "introduce/respond",
                "introduce/respond",
                json!({"introductionId": about_me["id"], "decision": "accept"}),
            ),
        ),
        ("connect/respond", ask("connect/respond", "connect/respond", json!({"decision": "accept"}))),
        ("onboard/claim", ask("onboard/claim", "onboard/claim", json!({"nonce": "no-such"}))),
        ("connect/request", connect(serve, key)),
        ("no/such", ask("no/such", "no/such", json!({}))),
    ];
    answers.into_iter().map(|(method, answer)| (method, shape(&answer, key))).collect()
}

#[test]
fn a_blocked_peer_hears_what_a_stranger_hears_on_every_method() {
    for policies in [
        &[][..],
        &[("trust-query", "public")],
        &[("connect", "open")],
        &[("connect", "closed")],
        &[("domain", "required")],
    ] {
        let home = Home::with_agent("south");
        for (name, value) in policies {
            home.run(["policy", "set", name, value]).ok();
        }
        let serve = home.serve("south", &["--rate-limit", "off"]);
        let (west, blocked, stranger, never) = (Key::of(1), Key::of(2), Key::of(3), Key::of(4));
        befriend(&home, &serve, "south", &west);
        befriend(&home, &serve, "south", &blocked);
        home.run(["contacts", "block", blocked.did()]).ok();
        home.run(["contacts", "block", never.did()]).ok();
        let expected = every_method(&serve, &stranger, &west);
        for key in [&blocked, &never] {
            for (heard, expected) in every_method(&serve, key, &west).into_iter().zip(&expected) {
                assert_eq!(&heard, expected, "{policies:?}");
            }
        }
        // Asking again, where asking has not connected the stranger.
        if policies != [("connect", "open")] {
            let again = [&blocked, &stranger].map(|key| shape(&connect(&serve, key), key));
            assert_eq!(again[0], again[1], "{policies:?}");
            let standing = [&blocked, &stranger].map(|key| shape(&status(&serve, key, None), key));
            assert_eq!(standing[0], standing[1], "{policies:?}");
        }
        // It learns nothing, gets nothing, and the owner is not bothered.
        let rows = waiting(&home, "south");
        assert!(rows.iter().all(|row| row["did"] == stranger.did()), "{rows:?}");
        assert_eq!(code(&serve.say(&blocked, "hello")), expected[0].1["error"]["code"].as_i64().unwrap());
        assert_eq!(home.inbox("south").len(), 0);
    }
}

#[test]
fn a_block_outlives_introductions_invites_and_connect_requests() {
    let (home, serve) = south("self");
    let (west, north) = (Key::of(1), Key::of(2));
    befriend(&home, &serve, "south", &west);
    home.run(["contacts", "block", north.did()]).ok();
    assert_eq!(code(&propose(&serve, &west, &vc(&west, north.did(), &serve.did, |_| {}))), 0);
    for row in waiting(&home, "south") {
        home.run(["requests", "accept", &row["id"].to_string()]);
    }
    let good = vc(&west, north.did(), &serve.did, |_| {});
    assert_eq!(code(&serve.call(&send(&presenting(&north, &serve.did, "hello", &good)))), -32010);
    assert_eq!(code(&connect(&serve, &north)), 0);
    assert_eq!(code(&serve.say(&north, "hello")), -32010);
    assert_eq!(home.inbox("south").len(), 0);
}
