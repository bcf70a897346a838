//! What comes out of a mailbox: poison, forgeries, old letters, repeated ones, floods, and relays that lie.
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use muretai_protocol::relay::DID_NOT_OPEN;
use muretai_tests::{
    Home, Key, RelayProcess,
    mail::{deposit, enc_pub_of, message_letter, seal, seal_bytes, text_letter},
    peer::{Act, Peer},
    rpc::{self, Fields},
    wait,
};
use serde_json::{Value, json};

/// South, which lets everybody in, with a mailbox; it is off.
struct South {
    home: Home,
    did: String,
    enc_pub: String,
}

impl South {
    fn new() -> South {
        let home = Home::with_agent("south");
        let (did, enc_pub) = (home.did("south"), enc_pub_of(&home, "south"));
        South { home, did, enc_pub }
    }

    /// With a key as direct contact.
    fn knowing(relay: &RelayProcess, keys: &[&Key]) -> South {
        let south = South::new();
        let serve = south.home.serve("south", &[]);
        for key in keys {
            muretai_tests::trust::befriend(&south.home, &serve, "south", key);
        }
        drop(serve);
        south.sync(relay);
        south
    }

    /// Drains the mailbox once.
    fn sync(&self, relay: &RelayProcess) -> Value {
        self.sync_at(&relay.url)
    }

    fn sync_at(&self, url: &str) -> Value {
        let done = self.home.run(["inbox", "--sync", "--relay", url]).ok();
        assert!(!done.err.contains("panicked"), "{}", done.err);
        json!(done.err)
    }

    fn texts(&self) -> Vec<String> {
        let messages = self.home.inbox("south");
        let incoming = messages.iter().filter(|message| message["direction"] == "in");
        incoming.map(|message| message["text"].as_str().unwrap().to_owned()).collect()
    }

    fn rejected(&self) -> Vec<Value> {
        self.home.run(["inbox", "--rejected", "--json", "-n", "0"]).ok().json_lines()
    }

    fn letter(&self, from: &Key, text: &str) -> Value {
        text_letter(from, &self.did, &self.enc_pub, text)
    }
}

#[test]
fn poison_letters_do_not_stand_before_good_ones() {
    let relay = RelayProcess::start(&[]);
    let (north, east) = (Key::of(1), Key::of(2));
    let south = South::knowing(&relay, &[&north]);
    let poison = |plain: &[u8]| deposit(&north, &south.did, &seal_bytes(&north, &south.enc_pub, plain));
    let mut bad = vec![
        // For another key, by another key than it says, and no sealed box at all.
        deposit(&north, &south.did, &seal_bytes(&north, &east.enc_pub(), b"{}")),
        deposit(&north, &south.did, &seal_bytes(&east, &south.enc_pub, b"{}")),
        deposit(&north, &south.did, "AAAA"),
        deposit(&north, &south.did, "YTJiMg=="),
        poison(b""),
        poison(b"not json"),
        poison(&[0xff; 200]),
        poison("[".repeat(100_000).as_bytes()),
        poison(b"{\"jsonrpc\":\"2.0\",\"method\":\"message/send\"}"),
        poison(rpc::request("no/such", json!({})).to_string().as_bytes()),
        poison(rpc::request("message/send", json!({"message": {}})).to_string().as_bytes()),
        poison(&vec![b' '; 700_000]),
    ];
    let mut stranger_key = south.letter(&north, "a key that is not its own");
    stranger_key["from_enc"] = json!(east.enc_pub());
    bad.push(stranger_key);
    let mut unsigned = north.message(&south.did, "forged");
    unsigned["metadata"]["sig"] = json!("AAAA");
    bad.push(message_letter(&north, &south.did, &south.enc_pub, &unsigned));
    bad.push(message_letter(&north, &south.did, &south.enc_pub, &north.message(east.did(), "for somebody else")));
    for letter in &bad {
        relay.keep(letter);
    }
    for n in 0..3 {
        relay.keep(&south.letter(&north, &format!("good {n}")));
    }
    south.sync(&relay);
    assert_eq!(&south.texts()[south.texts().len() - 3..], ["good 0", "good 1", "good 2"]);
    assert_eq!(relay.letters_for(&south.did), 0);
    let rejected = south.rejected();
    assert!(rejected.len() >= bad.len() - 1, "{} of {}: {rejected:?}", rejected.len(), bad.len());
    assert!(rejected.iter().all(|row| row["reason"].as_str().is_some_and(|reason| !reason.is_empty())), "{rejected:?}");
    south.sync(&relay);
    assert_eq!(south.rejected().len(), rejected.len(), "none of it comes again");
}

#[test]
fn whoever_signed_the_letter_is_its_sender_whatever_the_relay_says() {
    let relay = RelayProcess::start(&[]);
    let (north, east) = (Key::of(1), Key::of(2));
    let south = South::knowing(&relay, &[&north]);
    let before = south.texts().len();
    // East deposits what it says is of north, and hands on a letter that north wrote to south.
    let mut forged = east.message(&south.did, "I am north");
    forged["metadata"]["from"] = json!(north.did());
    let blob = seal(&east, &south.enc_pub, &rpc::send(&forged));
    relay.keep(&deposit(&east, &south.did, &blob));
    let carried = north.message(&south.did, "by another hand");
    relay.keep(&deposit(&east, &south.did, &seal(&east, &south.enc_pub, &rpc::send(&carried))));
    south.sync(&relay);
    assert_eq!(&south.texts()[before..], ["by another hand"]);
    let messages = south.home.inbox("south");
    assert_eq!(messages.last().unwrap()["from"], north.did());
    assert_eq!(south.rejected().len(), 1);
    let east_known = south.home.run(["contacts", "show", north.did(), "--json"]).ok().json();
    assert_ne!(east_known["encPub"], east.enc_pub(), "a letter replaces no key");
}

#[test]
fn a_letter_signed_six_days_ago_is_read_and_one_from_next_week_is_not() {
    let relay = RelayProcess::start(&[]);
    let north = Key::of(1);
    let south = South::knowing(&relay, &[&north]);
    let before = south.texts().len();
    let at = |text: &str, secs: i64| {
        let fields = Fields {
            to: south.did.clone(),
            text: text.to_owned(),
            timestamp: json!(rpc::now() + secs),
            ..Fields::default()
        };
        message_letter(&north, &south.did, &south.enc_pub, &north.signed(&fields))
    };
    const DAY: i64 = 86_400;
    for (text, secs) in [
        ("six days", -6 * DAY),
        ("an hour slow", -3_600),
        ("now", 0),
        ("thirty days", -30 * DAY),
        ("next week", 7 * DAY),
        ("ten years", 3_650 * DAY),
    ] {
        relay.keep(&at(text, secs));
    }
    south.sync(&relay);
    assert_eq!(&south.texts()[before..], ["six days", "an hour slow", "now"]);
    let shown = south.home.inbox("south");
    let old = shown.iter().find(|message| message["text"] == "six days").unwrap();
    assert_ne!(old["time"].as_str().unwrap()[..10], old["received"].as_str().unwrap()[..10], "both times: {old}");
    assert_eq!(south.rejected().len(), 3);
}

#[test]
fn a_letter_that_comes_twice_is_one_message() {
    let relay = RelayProcess::start(&[]);
    let north = Key::of(1);
    let south = South::knowing(&relay, &[&north]);
    let before = south.texts().len();
    let message = north.message(&south.did, "once");
    for _ in 0..3 {
        // Other deposits, other boxes, the same message.
        relay.keep(&message_letter(&north, &south.did, &south.enc_pub, &message));
    }
    south.sync(&relay);
    relay.keep(&message_letter(&north, &south.did, &south.enc_pub, &message));
    south.sync(&relay);
    // By HTTP too.
    let serve = south.home.serve("south", &[]);
    let answer = serve.call(&rpc::send(&message));
    assert_eq!(answer["error"]["data"]["duplicate"], true, "{answer}");
    drop(serve);
    assert_eq!(&south.texts()[before..], ["once"]);
    // One acknowledgement went out, not four.
    assert!(relay.mailbox(&north).drain().len() <= 1);
}

#[test]
fn a_flood_of_a_blocked_sender_leaves_the_mailbox_and_hears_nothing() {
    let relay = RelayProcess::start(&[]);
    let north = Key::of(1);
    let south = South::knowing(&relay, &[&north]);
    let before = south.texts().len();
    south.home.run(["contacts", "block", north.did()]).ok();
    for n in 0..200 {
        relay.keep(&south.letter(&north, &format!("flood {n}")));
    }
    let full = relay.deposit(&south.letter(&north, "one more"));
    assert_eq!((full.status, &full.json()["error"]["data"]["bound"]), (429, &json!("senderLetters")));
    south.sync(&relay);
    assert_eq!(south.texts().len(), before);
    assert_eq!(relay.letters(), 0, "the flood is gone, and no answer lies in a mailbox");
    relay.keep(&south.letter(&north, "room again"));
    // Another sender was never disturbed.
    let east = Key::of(2);
    relay.keep(&south.letter(&east, "a stranger"));
    south.sync(&relay);
    assert_eq!(south.texts().len(), before, "a stranger is not let in either");
    assert_eq!(relay.mailbox(&east).drain().len(), 0, "and hears nothing");
    assert_eq!(relay.mailbox(&north).drain().len(), 0);
}

#[test]
fn a_contact_whose_letter_does_not_open_is_told_once_a_minute() {
    let relay = RelayProcess::start(&[]);
    let (north, east) = (Key::of(1), Key::of(2));
    let south = South::knowing(&relay, &[&north]);
    // South knows where north is by a letter that opens.
    relay.keep(&south.letter(&north, "hello"));
    south.sync(&relay);
    relay.mailbox(&north).drain();
    for _ in 0..5 {
        relay.keep(&deposit(&north, &south.did, &seal_bytes(&north, &east.enc_pub(), b"x")));
    }
    south.sync(&relay);
    let told: Vec<Value> = relay.mailbox(&north).drain();
    assert_eq!(told.len(), 1, "{told:?}");
    let message = &told[0]["params"]["message"];
    assert_eq!(rpc::text_of(message), DID_NOT_OPEN);
    assert_eq!((&message["metadata"]["auto"], &message["metadata"]["from"]), (&json!(true), &json!(south.did)));
}

/// A relay that says what it likes. What it is told is in its `acked` and `sent`.
struct Liar {
    peer: Peer,
    acked: Arc<Mutex<Vec<String>>>,
}

impl Liar {
    /// `items` is given at each poll; the number says which poll it is.
    fn new(items: impl Fn(usize) -> Value + Send + Sync + 'static) -> Liar {
        let acked = Arc::new(Mutex::new(Vec::new()));
        let polls = AtomicUsize::new(0);
        let peer = Peer::start({
            let acked = Arc::clone(&acked);
            move |seen, _| {
                if seen.path.starts_with("/listen") {
                    return Act::json(&items(polls.fetch_add(1, Ordering::SeqCst)));
                }
                if seen.path == "/ack" {
                    let body: Value = serde_json::from_slice(&seen.body).unwrap();
                    let qids = body["qids"].as_array().cloned().unwrap_or_default();
                    let count = qids.len();
                    acked.lock().unwrap().extend(qids.iter().map(Value::to_string));
                    return Act::json(&json!({"acked": count}));
                }
                if matches!(seen.path.as_str(), "/send" | "/rpc") {
                    return Act::json(&json!({"queued": true}));
                }
                Act::Answer(404, "application/json", b"{\"error\":\"not found\"}".to_vec())
            }
        });
        Liar { peer, acked }
    }
}

fn item(qid: &str, deposit: &Value) -> Value {
    json!({"qid": qid, "id": deposit["id"], "from": deposit["from"], "from_enc": deposit["from_enc"],
           "blob": deposit["blob"], "ts": rpc::now()})
}

#[test]
fn a_relay_that_lies_changes_neither_senders_nor_texts() {
    let honest = RelayProcess::start(&[]);
    let (north, east) = (Key::of(1), Key::of(2));
    let south = South::knowing(&honest, &[&north, &east]);
    let before = south.texts().len();
    let (first, second, third) =
        (south.letter(&north, "first"), south.letter(&north, "second"), south.letter(&east, "third"));
    let mut swapped = item("11", &first);
    swapped["from"] = json!(east.did());
    let mut without = item("12", &second);
    without["from"] = json!(null);
    without["from_enc"] = json!(null);
    let garbage = json!([
        {"qid": "1"}, {"qid": "2", "blob": 7}, {"qid": "3", "blob": ""}, {"qid": "4", "blob": "ä"}, 7, null, "x", [],
        {"blob": "AAAA"}, {"qid": {"a": 1}, "blob": "AAAA"}, {"qid": "5", "blob": "AAAA", "from": "did:key:z6Mk"},
        {"qid": "x".repeat(10_000), "blob": "AAAA"},
        swapped, without, item("13", &third), item("14", &first), item("14", &first), item("13", &second),
    ]);
    let liar = Liar::new(move |poll| match poll {
        0 => json!({"items": garbage, "more": true}),
        // Replayed, out of order, under other numbers, and for ever `more`.
        1..4 => json!({"items": [item("21", &third), item("20", &second), item("22", &first)], "more": true}),
        _ => json!({"items": [], "more": false}),
    });
    south.sync_at(&liar.peer.url());
    let mut texts = south.texts()[before..].to_vec();
    texts.sort();
    assert_eq!(texts, ["first", "second", "third"]);
    let messages = south.home.inbox("south");
    for (text, key) in [("first", &north), ("second", &north), ("third", &east)] {
        let message = messages.iter().find(|message| message["text"] == text).unwrap();
        assert_eq!((&message["from"], &message["verified"]), (&json!(key.did()), &json!(true)));
    }
    let acked = liar.acked.lock().unwrap().clone();
    for qid in ["1", "2", "3", "5", "11", "12", "13", "14", "20", "21", "22"] {
        assert!(acked.contains(&format!("{qid:?}")), "{qid} is acknowledged: {acked:?}");
    }
}

#[test]
fn a_relay_that_never_ends_or_answers_nonsense_does_not_hold_a_command() {
    let south = South::new();
    let north = Key::of(1);
    let endless = south.letter(&north, "again and again");
    let answers: Vec<Box<dyn Fn() -> Act + Send + Sync>> = vec![
        Box::new(move || Act::json(&json!({"items": [item("1", &endless)], "more": true}))),
        Box::new(|| Act::json(&json!({"items": [], "more": true}))),
        Box::new(|| Act::json(&json!("x"))),
        Box::new(|| Act::Answer(200, "text/html", b"<html>".to_vec())),
        Box::new(|| Act::Answer(200, "application/json", vec![b'['; 4_000_000])),
        Box::new(|| Act::Answer(500, "application/json", b"{}".to_vec())),
        Box::new(|| Act::Answer(409, "application/json", b"{\"error\":{\"code\":-32030,\"message\":\"x\"}}".to_vec())),
        Box::new(|| Act::Redirect("http://127.0.0.1:9/".to_owned())),
        Box::new(|| Act::Raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n".to_vec())),
        Box::new(|| Act::HangUp),
        Box::new(|| Act::Drip),
        Box::new(|| Act::Silence),
    ];
    for (n, answer) in answers.into_iter().enumerate() {
        let peer = Peer::start(move |_, _| answer());
        let start = std::time::Instant::now();
        let done = south.home.run(["inbox", "--sync", "--relay", &peer.url(), "--timeout", "5s"]);
        assert!(!done.err.contains("panicked") && done.code < 100, "{n}: {done:?}");
        assert!(start.elapsed() < wait::PATIENCE, "{n}: {done:?}");
        assert!(peer.count("GET") < 2_000, "{n}: it asked {} times", peer.count("GET"));
    }
    assert_eq!(south.texts().len(), 0);
}

#[test]
fn a_relay_that_withholds_and_then_gives_loses_nothing() {
    let honest = RelayProcess::start(&[]);
    let north = Key::of(1);
    let south = South::knowing(&honest, &[&north]);
    let before = south.texts().len();
    let letters: Vec<Value> = (0..3).map(|n| south.letter(&north, &n.to_string())).collect();
    let held = letters.clone();
    let liar = Liar::new(move |poll| match poll {
        0 => json!({"items": [item("3", &held[2])], "more": false}),
        1 | 2 => json!({"items": [item("1", &held[0]), item("2", &held[1]), item("3", &held[2])], "more": false}),
        _ => json!({"items": [], "more": false}),
    });
    south.sync_at(&liar.peer.url());
    south.sync_at(&liar.peer.url());
    let mut texts = south.texts()[before..].to_vec();
    texts.sort();
    assert_eq!(texts, ["0", "1", "2"]);
}

#[test]
fn an_agent_whose_clock_is_an_hour_off_still_gets_its_mail() {
    // The relay's clock is an hour ahead: tokens of the machine's time are refused, with the relay's time.
    let south = South::new();
    let (did, ahead) = (south.did.clone(), 3_600);
    let peer = Peer::start(move |seen, local| {
        let Some(query) = seen.path.strip_prefix("/listen?") else {
            return Act::json(&json!({"acked": 0}));
        };
        let value = |name: &str| {
            let pair = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            unpercent(pair.unwrap_or_default())
        };
        let now = rpc::now() + ahead;
        let minute: i64 = value("minute").parse().unwrap_or(0);
        let origin = format!("http://{local}");
        let is_good = muretai_protocol::relay::verify_token(
            &muretai_tests::mail::did(&did),
            minute,
            &origin,
            &value("token"),
            muretai_protocol::UnixSeconds(now),
        );
        if is_good {
            return Act::json(&json!({"items": [], "more": false}));
        }
        let error =
            json!({"error": {"code": -32001, "message": "the token is not of these minutes", "data": {"now": now}}});
        Act::Answer(401, "application/json", error.to_string().into_bytes())
    });
    let done = south.home.run(["inbox", "--sync", "--relay", &peer.url()]);
    assert_eq!(done.code, 0, "{done:?}");
}

fn unpercent(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if bytes[at] == b'%' && at + 2 < bytes.len() {
            plain.push(u8::from_str_radix(&text[at + 1..at + 3], 16).unwrap());
            at += 3;
        } else {
            plain.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(plain).unwrap()
}

#[cfg(unix)]
#[test]
fn a_contact_that_keeps_the_responder_busy_holds_up_nobody_else() {
    let relay = RelayProcess::start(&[]);
    let (north, east) = (Key::of(1), Key::of(2));
    let south = South::knowing(&relay, &[&north, &east]);
    let before = south.texts().len();
    let gate = south.home.scratch().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    // Open for both: neither this nor the responder waits for the other to open it.
    let mut opener = std::fs::File::options().read(true).write(true).open(&gate).unwrap();
    let script = format!("read -r text; case $text in slow*) read -r go <'{}';; esac; echo done", gate.display());
    let _listener = south.home.listener("south", &relay.url, &["--reply-with", &script, "--reply-timeout", "10m"]);
    let slow: Vec<String> = (0..6).map(|n| format!("slow {n}")).collect();
    for text in &slow {
        relay.keep(&south.letter(&north, text));
    }
    relay.keep(&south.letter(&east, "quick"));
    let texts = || south.texts().split_off(before);
    wait::until("east's letter, while the first of north's is at work", || (texts() == ["quick"]).then_some(()));
    std::io::Write::write_all(&mut opener, "go\n".repeat(slow.len()).as_bytes()).unwrap();
    wait::until("north's letters, in their order", || (texts()[1..] == slow[..]).then_some(()));
}
