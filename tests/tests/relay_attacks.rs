//! Sockets that mean no good at a relay: they get their refusals, leave nothing behind, and keep nobody out.
#![allow(clippy::unwrap_used)]
use muretai_protocol::relay::listen_payload;
use muretai_tests::{
    Connection, Key, RelayProcess,
    http::encode,
    mail::{deposit, percent, seal_bytes, text_letter},
    wait,
};
use serde_json::json;

/// Files that the relay has open, its connections among them (Linux).
fn open_files(relay: &RelayProcess) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", relay.pid())).unwrap().count()
}

/// A letter that is nearly as large as may be.
fn large(from: &Key, to: &Key) -> Vec<u8> {
    let blob = seal_bytes(from, &to.enc_pub(), &vec![b'x'; 700_000]);
    deposit(from, to.did(), &blob).to_string().into_bytes()
}

#[test]
fn who_announces_much_and_sends_little_keeps_nobody_out() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = (Key::of(1), Key::of(2));
    let begin = b"POST /send HTTP/1.1\r\nHost: relay\r\nContent-Length: 1048576\r\n\r\n{\"to\":";
    let mut slow: Vec<Connection> = (0..300).map(|_| Connection::open(relay.addr)).collect();
    for connection in &mut slow {
        assert!(connection.write(begin));
    }
    wait::until("all of them to be there", || (open_files(&relay) > slow.len()).then_some(()));
    for _ in 0..5 {
        let answer = relay.request("POST", "/send", &large(&north, &south));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    drop(slow);
    wait::until("their connections to be closed", || (open_files(&relay) < 100).then_some(()));
    assert_eq!(relay.request("POST", "/send", &large(&north, &south)).status, 200);
    assert_eq!(relay.mailbox(&south).drain_raw().len(), 6);
}

#[test]
fn streams_with_bad_tokens_leave_nothing_behind() {
    let relay = RelayProcess::start(&["--quiet"]);
    let south = Key::of(2);
    let before = open_files(&relay);
    let mailbox = relay.mailbox(&south).with_origin("https://elsewhere.example");
    let path = mailbox.path(0);
    let request = encode("relay", "GET", &path, &[("Accept", "text/event-stream")], b"");
    let mut bad: Vec<Connection> = (0..2_000)
        .map(|_| {
            let mut connection = Connection::open(relay.addr);
            assert!(connection.write(&request));
            connection
        })
        .collect();
    assert!(bad.iter_mut().all(|connection| connection.read(false).status == 401));
    // They do not close their side; the relay does not wait for that.
    wait::until("the relay to let them go", || (open_files(&relay) <= before + 2).then_some(()));
    assert_eq!(relay.metric("muretai_relay_streams_waiting"), Some(0.0));
    assert_eq!(relay.metric("muretai_relay_remembered_mailboxes"), Some(0.0), "no mailbox was made for them");
    assert_eq!(relay.metric("muretai_relay_bad_tokens_total"), Some(2_000.0));
}

#[test]
fn what_is_half_closed_pipelined_or_no_http_harms_nobody() {
    let relay = RelayProcess::start(&["--quiet"]);
    let (north, south) = (Key::of(1), Key::of(2));
    let before = open_files(&relay);
    let letter = text_letter(&north, south.did(), &south.enc_pub(), "half a word").to_string();
    let send = encode("relay", "POST", "/send", &[], letter.as_bytes());
    // Who has said all and closes its side hears the answer.
    let mut half = Connection::open(relay.addr);
    half.write(&send);
    half.stream().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(half.read(false).status, 200);
    // A stream that is followed by something is none; garbage behind a request ends the connection after its answer.
    let stream = encode("relay", "GET", &relay.mailbox(&south).path(0), &[("Accept", "text/event-stream")], b"");
    let mut piped = Connection::open(relay.addr);
    piped.write(&[stream, send.clone()].concat());
    assert_eq!(piped.read(false).status, 400);
    for garbage in [
        &b"\0\xff\x16\x03\x01"[..],
        b"GET  / HTTP/1.1\r\n\r\n",
        b"\r\n\r\n\r\nx\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut piped = Connection::open(relay.addr);
        piped.write(&[&send, garbage].concat());
        assert_eq!(piped.read(false).status, 200);
        assert!(piped.try_read(false).is_none_or(|answer| (400..506).contains(&answer.status)), "{garbage:?}");
    }
    wait::until("all of them to be gone", || (open_files(&relay) <= before + 1).then_some(()));
    assert_eq!(relay.mailbox(&south).drain_raw().len(), 1, "the same deposit is one letter");
}

/// The query of a listener whose token is good but for its minute.
fn query(key: &Key, relay: &RelayProcess, minute: i64, epoch: &str) -> String {
    let token = key.signing().sign_base64(listen_payload(key.did(), minute, &relay.url).as_bytes());
    format!(
        "/listen?did={}&minute={minute}&epoch={}&token={}&wait=0",
        percent(key.did()),
        percent(epoch),
        percent(&token)
    )
}

#[test]
fn values_at_their_ends_are_values() {
    let relay = RelayProcess::start(&[]);
    let south = Key::of(2);
    let now = muretai_tests::rpc::now() / 60;
    for minute in [i64::MIN, i64::MIN + 1, -1, 0, now - 7, now + 7, i64::MAX] {
        assert_eq!(relay.request("GET", &query(&south, &relay, minute, "1"), b"").status, 401, "{minute}");
    }
    // Epochs are text: the greatest there is has the mailbox.
    let greatest = "~".repeat(64);
    for (epoch, status) in
        [("18446744073709551615", 200), (&greatest, 200), ("18446744073709551616", 409), (&greatest, 200)]
    {
        assert_eq!(relay.request("GET", &query(&south, &relay, now, epoch), b"").status, status, "{epoch}");
    }
    assert_eq!(relay.request("GET", &query(&south, &relay, now, &"~".repeat(65)), b"").status, 400);
    let mailbox = relay.mailbox(&south).with_epoch(&greatest);
    let ends =
        json!([i64::MIN, i64::MAX, u64::MAX, 0, -1, 1.5, 1e300, "9223372036854775808", "-1", "", "1e3", "\u{0}"]);
    let answer = mailbox.ack(ends.as_array().unwrap());
    assert_eq!((answer.status, &answer.json()["acked"]), (200, &json!(0)), "{}", answer.text());
    for odd in [json!(null), json!([[]]), json!({}), json!(true)] {
        assert_eq!(mailbox.ack(&[odd]).status, 400);
    }
    // Deep: refused before anything is looked at. Of what is there twice the last one counts.
    for body in ["[".repeat(60_000), "{\"a\":".repeat(10_000), format!("{{\"qids\":{}}}", "9".repeat(60_000))] {
        assert_eq!(relay.request("POST", "/ack", body.as_bytes()).status, 400);
    }
    let doubled = mailbox.proof().to_string().replacen('{', "{\"qids\":7,\"qids\":[],", 1);
    assert_eq!(relay.request("POST", "/ack", doubled.as_bytes()).json()["acked"], 0);
    assert_eq!(relay.request("GET", "/health", b"").json()["status"], "ok");
}
