//! `send` against peers that lie, stall or point elsewhere: the exit code says whose fault it was, and nothing of an
//! unproven reply is shown (sections 3.5, 6.6, 12.1).
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use muretai_protocol::{UnixSeconds, card, json as wire_json};
use muretai_tests::{
    Home,
    home::Done,
    http::SIGNED_CARD,
    peer::{Act, Peer, Seen},
    rpc::{self, Fields, Key},
};
use serde_json::{Value, json};

/// The card of `key` at `url`.
pub(super) fn card_of(key: &Key, url: &str) -> wire_json::Value {
    let spec = card::CardSpec {
        did: &key.did().parse().unwrap(),
        name: "west",
        description: "a peer of the test",
        url,
        version: "0",
        profile: &card::Profile::default(),
        enc_pub: None,
        enc_pub_pq: None,
        relay: None,
        open_door: true,
        methods: &["message/send"],
        skills: &[],
        trust: card::TrustFacts::default(),
    };
    card::build(&spec)
}

/// The signed envelope around a card.
pub(super) fn envelope(key: &Key, card: &wire_json::Value, age_secs: i64) -> Act {
    document(&card::sign_envelope(key.signing(), card, UnixSeconds(rpc::now() - age_secs)).unwrap())
}

pub(super) fn document(value: &wire_json::Value) -> Act {
    Act::Answer(200, "application/json", wire_json::canonical_as_received(value).unwrap().into_bytes())
}

/// A peer with a proper card and envelope, whose answer to a POST is up to the test.
pub(super) fn peer(key: Key, post: impl Fn(&Seen) -> Act + Send + Sync + 'static) -> Peer {
    Peer::start(move |seen, addr| {
        let card = card_of(&key, &format!("http://{addr}"));
        match (seen.method.as_str(), seen.path.as_str()) {
            ("GET", SIGNED_CARD) => envelope(&key, &card, 0),
            ("GET", _) => document(&card),
            _ => post(seen),
        }
    })
}

/// The message that a POST carries.
pub(super) fn message_of(seen: &Seen) -> Value {
    let request: Value = serde_json::from_slice(&seen.body).unwrap();
    request["params"]["message"].clone()
}

/// A proper reply of `key` to a POST, changed by `change` before it is signed.
fn reply(key: &Key, seen: &Seen, change: impl FnOnce(&mut Fields)) -> Value {
    let sent = message_of(seen);
    let mut fields = Fields {
        to: sent["metadata"]["from"].as_str().unwrap().to_owned(),
        text: "SECRET-WORD".to_owned(),
        context_id: sent["contextId"].as_str().map(str::to_owned),
        role: "agent",
        ..Fields::default()
    };
    change(&mut fields);
    let mut message = key.signed(&fields);
    message["metadata"]["replyTo"] = sent["messageId"].clone();
    message
}

/// The id of a request, which its answer carries too.
fn id_of(seen: &Seen) -> Value {
    serde_json::from_slice::<Value>(&seen.body).unwrap()["id"].clone()
}

pub(super) fn answer(seen: &Seen, result: Value) -> Act {
    Act::json(&json!({"jsonrpc": "2.0", "id": id_of(seen), "result": result}))
}

fn send(home: &Home, peer: &Peer) -> Done {
    home.run(["send", &peer.url(), "hello", "--timeout", "3s", "--retries", "0", "--json"])
}

#[test]
fn an_honest_peer_is_believed() {
    let home = Home::with_agent("north");
    let key = Key::of(4);
    let did = key.did().to_owned();
    let peer = peer(Key::of(4), move |seen| answer(seen, reply(&key, seen, |_| {})));
    let sent = send(&home, &peer).ok().json();
    assert_eq!(sent["reply"]["text"], "SECRET-WORD");
    assert_eq!(sent["reply"]["from"], did);
    assert_eq!(
        sent["messageId"],
        message_of(&peer.seen().into_iter().find(|s| s.method == "POST").unwrap())["messageId"]
    );
}

#[test]
fn a_reply_that_does_not_verify_is_not_shown() {
    type Change = fn(&mut Value);
    type Resign = fn(&mut Fields);
    let unsigned: [(&str, Change); 7] = [
        ("no metadata", |m| m["metadata"] = json!(null)),
        ("no signature", |m| m["metadata"]["sig"] = json!(null)),
        ("another text", |m| m["parts"][0]["text"] = json!("SECRET-WORD!")),
        ("a zero signature", |m| m["metadata"]["sig"] = json!("A".repeat(86) + "==")),
        ("another replyTo", |m| m["metadata"]["replyTo"] = json!("another")),
        ("a task", |m| *m = json!({"kind": "task", "id": "1", "status": {"state": "completed"}})),
        ("a string", |m| *m = json!("SECRET-WORD")),
    ];
    let signed: [(&str, Resign); 6] = [
        ("a user's words", |f| f.role = "user"),
        ("too much text", |f| f.text = "SECRET-WORD".repeat(6_000)),
        ("another sender", |f| f.from = Some(Key::of(5).did().to_owned())),
        ("another recipient", |f| f.to = Key::of(6).did().to_owned()),
        ("an old reply", |f| f.timestamp = json!(rpc::now() - 1000)),
        ("another context", |f| f.context_id = Some("another".to_owned())),
    ];
    let home = Home::with_agent("north");
    let check = |what: &str, act: Box<dyn Fn(&Seen) -> Act + Send + Sync>| {
        let done = send(&home, &peer(Key::of(4), act)).exits(5);
        assert!(!format!("{}{}", done.out, done.err).contains("SECRET-WORD"), "{what}: {done:?}");
        done.json_error();
    };
    for (what, change) in unsigned {
        check(
            what,
            Box::new(move |seen| {
                let mut message = reply(&Key::of(4), seen, |_| {});
                change(&mut message);
                answer(seen, message)
            }),
        );
    }
    for (what, change) in signed {
        check(what, Box::new(move |seen| answer(seen, reply(&Key::of(4), seen, change))));
    }
    check(
        "another key",
        Box::new(|seen| {
            answer(seen, reply(&Key::of(5), seen, |fields| fields.from = Some(Key::of(4).did().to_owned())))
        }),
    );
}

#[test]
fn answers_that_are_no_answers_do_not_count_as_delivered() {
    let home = Home::with_agent("north");
    let bodies: [(u16, &'static str, Vec<u8>); 8] = [
        (200, "application/json", b"{}".to_vec()),
        (200, "text/html", b"<html>fine</html>".to_vec()),
        (200, "application/json", b"".to_vec()),
        (200, "application/json", b"{\"jsonrpc\":\"2.0\",\"id\":1}".to_vec()),
        (200, "application/json", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}".to_vec()),
        (500, "text/plain", b"oops".to_vec()),
        (200, "application/json", vec![b'['; 300_000]),
        (200, "application/json", vec![b' '; 2_000_000]),
    ];
    for (status, kind, body) in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        let peer = peer(Key::of(4), move |_| Act::Answer(status, kind, body.clone()));
        let done = send(&home, &peer);
        assert!([1, 5].contains(&done.code), "{status} {shown}: {done:?}");
    }
}

#[test]
fn a_refusal_is_shown_with_its_code_and_cannot_write_to_the_terminal() {
    let home = Home::with_agent("north");
    let peer = peer(Key::of(4), |seen| {
        Act::json(&json!({"jsonrpc": "2.0", "id": id_of(seen), "error":
            {"code": -32099, "message": "no\u{1b}[2K\u{202e}\nAPPROVED", "data": {"detail": "because\u{7}"}}}))
    });
    let error = send(&home, &peer).exits(3).json_error();
    assert_eq!(error["code"], -32099);
    let plain = home.run(["send", &peer.url(), "hello"]).exits(3);
    assert!(plain.err.contains("-32099"), "{}", plain.err);
    assert!(!plain.err.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{:?}", plain.err);
    assert!(!plain.err.lines().any(|line| line == "APPROVED"), "{:?}", plain.err);
    assert_eq!(peer.count("POST"), 2, "an error is an answer and is not retried");
}

#[test]
fn a_peer_that_stays_silent_or_drips_is_given_up_in_time() {
    let home = Home::with_agent("north");
    for act in [|| Act::Silence, || Act::Drip, || Act::HangUp] {
        let on_post = peer(Key::of(4), move |_| act());
        send(&home, &on_post).exits(4);
        let on_card = Peer::start(move |_, _| act());
        send(&home, &on_card).exits(4);
        assert_eq!(on_card.count("POST"), 0);
    }
}

#[test]
fn nobody_there_is_exit_4() {
    let home = Home::with_agent("north");
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    home.run(["send", &format!("http://{closed}"), "x", "--timeout", "5s"]).exits(4);
    let unknown = home.run(["send", "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK", "x"]).exits(4);
    assert!(unknown.err.contains("address"), "{}", unknown.err);
    let nobody = home.run(["send", "nobody-of-this-name", "x", "--timeout", "5s"]);
    assert!([1, 4].contains(&nobody.code), "{nobody:?}");
}

#[test]
fn redirects_lead_nowhere_that_the_owner_did_not_name() {
    let home = Home::with_agent("north");
    for to in [
        "http://169.254.169.254/latest/",
        "http://[fe80::1]/",
        "file:///etc/passwd",
        "http://0.0.0.0:1/",
        "gopher://x/",
    ] {
        let on_card = Peer::start(move |_, _| Act::Redirect(to.to_owned()));
        let done = send(&home, &on_card);
        assert!([1, 4, 5].contains(&done.code), "{to}: {done:?}");
        let on_post = peer(Key::of(4), move |_| Act::Redirect(to.to_owned()));
        let done = send(&home, &on_post);
        assert!([1, 5].contains(&done.code), "{to}: {done:?}");
        assert_eq!(on_post.count("POST"), 1);
    }
    let inner = Peer::start(|_, _| Act::json(&json!({})));
    let loops = Peer::start(|_, addr| Act::Redirect(format!("http://{addr}/again")));
    send(&home, &loops).exits(1);
    assert!(loops.seen().len() <= 24, "at most five hops a path: {}", loops.seen().len());
    let target = inner.url();
    let on_post = peer(Key::of(4), move |_| Act::Redirect(target.clone()));
    let done = send(&home, &on_post);
    assert!([1, 5].contains(&done.code), "{done:?}");
    assert!(inner.seen().is_empty(), "a signed message is not carried elsewhere");
}

#[test]
fn a_card_that_proves_nothing_gets_no_message() {
    let home = Home::with_agent("north");
    let (west, other) = (Key::of(4), Key::of(5));
    type Site = Box<dyn Fn(&Seen, std::net::SocketAddr) -> Act + Send + Sync>;
    let cards: Vec<(&str, Site)> = vec![
        ("{}", Box::new(|_, _| Act::json(&json!({})))),
        ("an array", Box::new(|_, _| Act::json(&json!([])))),
        ("HTML", Box::new(|_, _| Act::Answer(200, "text/html", b"<html></html>".to_vec()))),
        ("404", Box::new(|_, _| Act::Answer(404, "text/html", b"<html></html>".to_vec()))),
        ("endless", Box::new(|_, _| Act::Answer(200, "application/json", vec![b' '; 3_000_000]))),
        ("half a card", Box::new(|_, _| Act::json(&json!({"name": "x", "did": Key::of(4).did()})))),
        (
            "signed by another key",
            Box::new(move |seen, addr| {
                let card = card_of(&west, &format!("http://{addr}"));
                match seen.path.as_str() {
                    SIGNED_CARD => envelope(&other, &card, 0),
                    _ => document(&card),
                }
            }),
        ),
        (
            "copied from another origin",
            Box::new(|seen, _| {
                let card = card_of(&Key::of(4), "http://elsewhere.example");
                match seen.path.as_str() {
                    SIGNED_CARD => envelope(&Key::of(4), &card, 0),
                    _ => document(&card),
                }
            }),
        ),
        (
            "an old envelope",
            Box::new(|seen, addr| {
                let card = card_of(&Key::of(4), &format!("http://{addr}"));
                match seen.path.as_str() {
                    SIGNED_CARD => envelope(&Key::of(4), &card, 30_000),
                    _ => document(&card),
                }
            }),
        ),
        (
            "an envelope over another card",
            Box::new(|seen, addr| {
                let card = card_of(&Key::of(4), &format!("http://{addr}"));
                match seen.path.as_str() {
                    SIGNED_CARD => {
                        let other = card_of(&Key::of(4), &format!("http://{addr}/other"));
                        envelope(&Key::of(4), &other, 0)
                    }
                    _ => document(&card),
                }
            }),
        ),
    ];
    for (what, act) in cards {
        let peer = Peer::start(move |seen, addr| act(seen, addr));
        let done = send(&home, &peer);
        assert!([1, 4, 5].contains(&done.code), "{what}: {done:?}");
        assert_eq!(peer.count("POST"), 0, "{what}");
        done.json_error();
    }
    let missing = Peer::start(|_, _| Act::json(&json!({})));
    let done = home.run(["send", &missing.url(), "x"]);
    assert!(
        done.err.contains("name") && done.err.contains("capabilities"),
        "the missing fields are listed: {}",
        done.err
    );
}

#[test]
fn a_lost_answer_is_asked_for_again_under_the_same_id_and_counts_once() {
    let home = Home::with_agent("north");
    let posts = Arc::new(AtomicUsize::new(0));
    let first = Arc::new(Mutex::new(None));
    let peer = peer(Key::of(4), move |seen| {
        let message = message_of(seen);
        match posts.fetch_add(1, Ordering::SeqCst) {
            0 => {
                *first.lock().unwrap() = Some(message["messageId"].clone());
                Act::HangUp
            }
            _ => {
                assert_eq!(first.lock().unwrap().as_ref(), Some(&message["messageId"]));
                Act::json(&json!({"jsonrpc": "2.0", "id": id_of(seen), "error": {"code": -32002,
                    "message": "Replay or stale message", "data": {"detail": "handled before", "duplicate": true}}}))
            }
        }
    });
    let sent = home.run(["send", &peer.url(), "hello", "--json", "--timeout", "20s"]).ok().json();
    assert_eq!(sent["status"], "duplicate", "{sent}");
    assert_eq!(sent["reply"], Value::Null);
    assert_eq!(peer.count("POST"), 2);
}

#[test]
fn a_foreign_agent_is_spoken_to_only_when_asked_and_is_marked() {
    let home = Home::with_agent("north");
    for (version, prefix) in [("0.2.5", ""), ("0.3.0", "/agents/one"), ("1.0", "")] {
        let peer = Peer::start(move |seen, addr| {
            let url = format!("http://{addr}{prefix}/rpc");
            let mut card = json!({"name": "foreign", "description": "d", "version": "1", "capabilities": {},
                "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
                "skills": [{"id": "s", "name": "s", "description": "s", "tags": []}]});
            if version == "1.0" {
                card["supportedInterfaces"] =
                    json!([{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
            } else {
                card["url"] = json!(url);
                card["protocolVersion"] = json!(version);
                card["preferredTransport"] = json!("JSONRPC");
            }
            if seen.method == "GET" {
                let is_card = seen.path.starts_with(prefix) && seen.path.ends_with("/.well-known/agent-card.json");
                return if is_card { Act::json(&card) } else { Act::Answer(404, "text/plain", vec![]) };
            }
            assert_eq!(seen.path, format!("{prefix}/rpc"));
            let request: Value = serde_json::from_slice(&seen.body).unwrap();
            let result = match request["method"].as_str().unwrap() {
                "SendMessage" if version == "1.0" => {
                    json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}})
                }
                "message/send" if version != "1.0" => {
                    json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]})
                }
                _ => {
                    return Act::json(&json!({"jsonrpc": "2.0", "id": request["id"],
                    "error": {"code": -32601, "message": "Method not found"}}));
                }
            };
            Act::json(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
        });
        let url = format!("{}{prefix}/", peer.url());
        let refused = home.run(["send", &url, "hello"]);
        assert_ne!(refused.code, 0, "{version}");
        assert!(refused.err.contains("--unverified"), "{version}: {}", refused.err);
        assert_eq!(peer.count("POST"), 0);
        let sent = home.run(["send", &url, "hello", "--unverified", "--json"]).ok().json();
        assert_eq!(sent["reply"]["text"], "hi", "{version}");
        assert_eq!(sent["reply"]["verified"], false, "{version}");
    }
}
