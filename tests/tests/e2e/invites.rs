//! Invites: one use, one answer for all that is spent, and errors that a person can tell apart (section 7).
use muretai_protocol::{UnixSeconds, invite, json as wire_json};
use muretai_tests::{
    Home, Serve,
    peer::{Act, Peer},
    rpc::{self, Key, code, request},
};
use serde_json::{Value, json};

fn south() -> (Home, Serve) {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--rate-limit", "off"]);
    (home, serve)
}

fn claim(serve: &Serve, key: &Key, nonce: &Value) -> Value {
    let message = key.message(&serve.did, "onboard/claim");
    serve.call(&request("onboard/claim", json!({"message": message, "nonce": nonce})))
}

/// An invite card of a key of the test's own, changed by `change` after it was signed.
fn link_of(key: &Key, url: &str, exp: i64, change: impl FnOnce(&mut wire_json::Object)) -> String {
    let spec = invite::InviteSpec {
        name: "west",
        url,
        specialty: None,
        nonce: "00112233445566778899aabbccddeeff",
        exp: UnixSeconds(exp),
        purpose: None,
        relay: None,
        enc_pub: None,
    };
    let wire_json::Value::Object(mut card) = invite::mint(key.signing(), &spec) else { panic!("a card is an object") };
    change(&mut card);
    invite::token_link(&wire_json::Value::Object(card))
}

#[test]
fn of_twenty_claims_at_once_one_succeeds() {
    let (home, serve) = south();
    let invite = home.invite("south");
    let keys: Vec<Key> = (0..20).map(Key::nth).collect();
    let codes: Vec<i64> = std::thread::scope(|scope| {
        let (serve, nonce) = (&serve, &invite["nonce"]);
        let claims: Vec<_> = keys.iter().map(|key| scope.spawn(move || code(&claim(serve, key, nonce)))).collect();
        claims.into_iter().map(|claim| claim.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert!(codes.iter().all(|code| [0, -32011].contains(code)), "{codes:?}");
    assert_eq!(home.run(["contacts", "list", "--json"]).ok().json_lines().len(), 1);
}

#[test]
fn the_same_claimer_may_repeat_its_claim_and_nobody_else_may() {
    let (home, serve) = south();
    let invite = home.invite("south");
    let (first, second) = (Key::of(1), Key::of(2));
    let one = claim(&serve, &first, &invite["nonce"]);
    assert_eq!(one["result"]["did"], serve.did.as_str(), "{one}");
    assert_eq!(one["result"]["ok"], true);
    assert_eq!(claim(&serve, &first, &invite["nonce"])["result"], one["result"]);
    assert_eq!(code(&claim(&serve, &second, &invite["nonce"])), -32011);
    assert_eq!(code(&claim(&serve, &first, &invite["nonce"])), 0);
}

#[test]
fn unknown_used_and_revoked_are_one_answer_on_the_wire() {
    let (home, serve) = south();
    let used = home.invite("south");
    assert_eq!(code(&claim(&serve, &Key::of(1), &used["nonce"])), 0);
    let revoked = home.invite("south");
    home.run(["invite", "revoke", revoked["nonce"].as_str().unwrap()]).ok();
    let answers: Vec<Value> = [&used["nonce"], &revoked["nonce"], &json!("no-such-nonce")]
        .into_iter()
        .map(|nonce| claim(&serve, &Key::of(2), nonce))
        .collect();
    for answer in &answers {
        assert_eq!(code(answer), -32011, "{answer}");
        assert_eq!(answer, &answers[0]);
    }
    assert_eq!(code(&serve.say(&Key::of(2), "hello")), -32010);
}

#[test]
fn a_revoked_invite_stays_revoked_after_a_restart() {
    let (home, serve) = south();
    let invite = home.invite("south");
    home.run(["invite", "revoke", invite["link"].as_str().unwrap()]).ok();
    serve.kill();
    let serve = home.serve("south", &[]);
    assert_eq!(code(&claim(&serve, &Key::of(1), &invite["nonce"])), -32011);
}

#[test]
fn a_claim_must_be_signed_over_the_name_of_the_method() {
    let (home, serve) = south();
    let invite = home.invite("south");
    let key = Key::of(1);
    let chat = key.message(&serve.did, "hello");
    let answer = serve.call(&request("onboard/claim", json!({"message": chat, "nonce": invite["nonce"]})));
    assert_ne!(code(&answer), 0, "{answer}");
    let mut unsigned = key.message(&serve.did, "onboard/claim");
    unsigned["metadata"] = json!({});
    let answer = serve.call(&request("onboard/claim", json!({"message": unsigned, "nonce": invite["nonce"]})));
    assert_eq!(code(&answer), -32001);
    for nonce in [json!(null), json!(5), json!([])] {
        assert_eq!(code(&claim(&serve, &key, &nonce)), -32602, "{nonce}");
    }
    assert_eq!(home.run(["contacts", "list", "--json"]).ok().json_lines().len(), 0);
    assert_eq!(code(&claim(&serve, &key, &invite["nonce"])), 0);
}

#[test]
fn at_the_shell_each_kind_of_bad_invite_has_its_own_words() {
    let (south_home, serve) = south();
    let north = Home::with_agent("north");
    let west = Key::of(4);
    let tomorrow = rpc::now() + 86_400;

    let own = south_home.run(["invite", "create", "--token"]).ok().out;
    let expired = link_of(&west, &serve.url, rpc::now() - 10, |_| {});
    let forged = link_of(&west, &serve.url, tomorrow, |card| _ = card.insert("name".into(), "south".into()));
    let unknown = {
        let invite = south_home.invite("south");
        south_home.run(["invite", "revoke", invite["code"].as_str().unwrap()]).ok();
        invite["tokenLink"].as_str().unwrap().to_owned()
    };
    let damaged = format!("{}!!", &own.trim()[..own.trim().len() - 7]);

    let said = |home: &Home, link: &str, code: i32| {
        let done = home.run(["claim", "--allow-private", "--", link.trim()]).exits(code);
        assert_eq!(home.run(["contacts", "list", "--json"]).ok().json_lines().len(), 0, "nothing was stored");
        done.err.to_lowercase()
    };
    let own = said(&south_home, &own, 1);
    assert!(own.contains("your own") || own.contains("yourself"), "{own}");
    let expired = said(&north, &expired, 1);
    assert!(expired.contains("expired"), "{expired}");
    let forged = said(&north, &forged, 5);
    assert!(forged.contains("signature"), "{forged}");
    let refused = said(&north, &unknown, 3);
    assert!(refused.contains("-32011"), "{refused}");
    for link in [damaged.as_str(), "hello", "https://south.example/", ""] {
        let done = north.run(["claim", "--", link]);
        assert!([1, 2, 5].contains(&done.code), "{link}: {done:?}");
    }
    assert!(!forged.contains("expired") && !refused.contains("signature"));
}

#[test]
fn a_used_invite_is_told_from_a_fresh_one_where_it_was_made() {
    let (home, serve) = south();
    let (used, revoked, fresh) = (home.invite("south"), home.invite("south"), home.invite("south"));
    let key = Key::of(1);
    assert_eq!(code(&claim(&serve, &key, &used["nonce"])), 0);
    home.run(["invite", "revoke", revoked["code"].as_str().unwrap()]).ok();
    let rows = home.run(["invite", "list", "--json"]).ok().json_lines();
    let state = |invite: &Value| {
        let row = rows.iter().find(|row| row["nonce"] == invite["nonce"]).unwrap();
        (row["state"].as_str().unwrap().to_owned(), row["usedBy"].clone())
    };
    assert_eq!(state(&used), ("used".to_owned(), json!(key.did())));
    assert_eq!(state(&revoked).0, "revoked");
    assert_eq!(state(&fresh).0, "open");
    assert_eq!(home.run(["invite", "revoke", "no-such-invite"]).code, 1);
}

#[test]
fn links_survive_what_chat_programs_do_to_them() {
    let (south_home, _serve) = south();
    for dress in ["  {} ", "<{}>", "\"{}\"", "'{}'\n", "\u{feff}{}\r\n"] {
        let north = Home::with_agent("north");
        let link = south_home.run(["invite", "create"]).ok().out;
        north.run_with(["claim", "-"], dress.replace("{}", link.trim()).as_bytes()).ok();
    }
    let north = Home::with_agent("north");
    let token = south_home.run(["invite", "create", "--token"]).ok().out;
    assert!(token.starts_with("agent://invite?d="), "{token}");
    let wrapped = token.trim().as_bytes().chunks(60).map(|line| String::from_utf8_lossy(line).into_owned());
    // An address on this machine that an invite names is dialled when the owner says so.
    north.run_with(["claim", "-", "--allow-private"], wrapped.collect::<Vec<_>>().join("\n").as_bytes()).ok();
}

#[test]
fn claiming_twice_is_harmless() {
    let (south_home, _serve) = south();
    let north = Home::with_agent("north");
    let link = south_home.run(["invite", "create"]).ok().out;
    north.run(["claim", link.trim()]).ok();
    north.run(["claim", link.trim()]).ok();
    assert_eq!(north.run(["contacts", "list", "--json"]).ok().json_lines().len(), 1);
    assert_eq!(south_home.run(["contacts", "list", "--json"]).ok().json_lines().len(), 1);
}

#[test]
fn a_code_that_leads_to_something_else_is_refused() {
    let north = Home::with_agent("north");
    for act in [
        || Act::Answer(200, "text/html", b"<html>hello</html>".to_vec()),
        || Act::Answer(200, "application/json", b"{}".to_vec()),
        || Act::Answer(404, "application/json", b"{}".to_vec()),
        || Act::Answer(200, "application/json", vec![b'['; 200_000]),
        || Act::Answer(200, "application/json", vec![b' '; 3_000_000]),
        || Act::Redirect("http://169.254.169.254/i/abc".to_owned()),
        || Act::HangUp,
    ] {
        let peer = Peer::start(move |_, _| act());
        let done = north.run(["claim", &format!("{}/i/abc", peer.url()), "--allow-private"]);
        assert!((1..=5).contains(&done.code) && done.code != 2, "{done:?}");
        assert_eq!(peer.count("POST"), 0);
    }
    assert_eq!(north.run(["contacts", "list", "--json"]).ok().json_lines().len(), 0);
}

#[test]
fn a_claim_that_cannot_be_delivered_leaves_no_contact() {
    let north = Home::with_agent("north");
    let west = Key::of(4);
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let link = link_of(&west, &closed, rpc::now() + 86_400, |_| {});
    north.run(["claim", &link, "--allow-private", "--timeout", "5s"]).exits(4);
    assert_eq!(north.run(["contacts", "list", "--json"]).ok().json_lines().len(), 0);
}
