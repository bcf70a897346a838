//! What a relay refuses, asked by hand: deposits, tokens, epochs, quotas (sections 9.2 and 9.3).
use muretai_tests::{
    Connection, Key, RelayProcess,
    http::encode,
    mail::{deposit, deposit_as, percent, seal, seal_bytes, text_letter},
    rpc,
};
use serde_json::{Value, json};

/// Code and words of a refusal.
#[track_caller]
fn refused(response: &muretai_tests::Response, status: u16, code: i64) -> Value {
    assert_eq!(response.status, status, "{}", response.text());
    let error = response.json()["error"].clone();
    assert_eq!(error["code"], code, "{error}");
    assert!(error["message"].as_str().is_some_and(|words| !words.is_empty()), "{error}");
    error
}

fn letter(from: &Key, to: &Key) -> Value {
    text_letter(from, to.did(), &to.enc_pub(), "hello")
}

#[test]
fn a_deposit_is_taken_from_whoever_signed_it_and_from_nobody_else() {
    let relay = RelayProcess::start(&[]);
    let (north, south, east) = (Key::of(1), Key::of(2), Key::of(3));
    let good = letter(&north, &south);
    for (member, value) in [
        ("from", json!(east.did())),
        ("to", json!(east.did())),
        ("id", json!("other")),
        ("blob", json!("AAAA")),
        ("sig", letter(&north, &south)["sig"].clone()),
        ("sig", json!("")),
        ("sig", json!("AAAA")),
    ] {
        let mut other = good.clone();
        other[member] = value;
        refused(&relay.deposit(&other), 403, -32001);
    }
    assert_eq!(relay.letters(), 0);
    relay.keep(&good);
    assert_eq!(relay.mailbox(&south).drain().len(), 1);
}

#[test]
fn shapes_that_are_no_deposit_are_named() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = (Key::of(1), Key::of(2));
    let sealed = seal(&north, &south.enc_pub(), &rpc::send(&north.message(south.did(), "x")));
    for id in ["", "a|b", "|", "a\nb", &"x".repeat(257)] {
        refused(&relay.deposit(&deposit_as(&north, south.did(), id, &sealed)), 400, -32602);
    }
    for blob in ["", "=", "AAA", "AAAA=", "A A=", "AA==\n", "AB==", "-_8=", "ä", "\u{0}"] {
        refused(&relay.deposit(&deposit(&north, south.did(), blob)), 400, -32602);
    }
    for to in ["", "did:key:z6Mk", "did:web:relay.example", &format!("{}|", south.did())] {
        refused(&relay.deposit(&deposit(&north, to, &sealed)), 400, -32602);
    }
    for body in ["", "{}", "[]", "null", "{", "{\"to\":1}", "\u{feff}{}"] {
        refused(&relay.request("POST", "/send", body.as_bytes()), 400, -32602);
    }
    let mut odd = deposit(&north, south.did(), &sealed);
    odd["from_enc"] = json!("zz");
    refused(&relay.deposit(&odd), 400, -32602);
    // An A2A message that was posted to the wrong place.
    let message = rpc::send(&north.message(south.did(), "x")).to_string();
    for path in ["/send", "/rpc"] {
        let response = relay.request("POST", path, message.as_bytes());
        assert!((400..404).contains(&response.status), "{}", response.text());
    }
    assert_eq!(relay.letters(), 0);
    // Ids need not be ASCII, and unknown members are ignored.
    let mut good = deposit_as(&north, south.did(), "ü-1", &sealed);
    good["later"] = json!({"x": 1});
    relay.keep(&good);
    assert_eq!(relay.mailbox(&south).items()[0]["id"], "ü-1");
}

#[test]
fn a_deposit_of_a_mebibyte_is_too_large_and_one_just_below_is_kept() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = (Key::of(1), Key::of(2));
    let large = deposit(&north, south.did(), &"A".repeat(1_048_576));
    let response = relay.deposit(&large);
    assert_eq!(response.status, 413, "{}", response.text());
    let blob = seal_bytes(&north, &south.enc_pub(), &vec![b'x'; 770_000]);
    relay.keep(&deposit(&north, south.did(), &blob));
    assert_eq!(relay.mailbox(&south).items()[0]["blob"], blob);
}

#[test]
fn the_same_deposit_again_is_one_letter() {
    let relay = RelayProcess::start(&[]);
    let (north, south, east) = (Key::of(1), Key::of(2), Key::of(3));
    let good = letter(&north, &south);
    for _ in 0..3 {
        relay.keep(&good);
    }
    let id = good["id"].as_str().unwrap();
    // The same id of another sender, or for somebody else, is another letter.
    relay.keep(&deposit_as(&east, south.did(), id, good["blob"].as_str().unwrap()));
    relay.keep(&deposit_as(&north, east.did(), id, good["blob"].as_str().unwrap()));
    assert_eq!(relay.mailbox(&south).items().len(), 2);
    assert_eq!(relay.mailbox(&east).items().len(), 1);
}

#[test]
fn a_mailbox_opens_to_its_owner_only() {
    let relay = RelayProcess::start(&[]);
    let (north, south, east) = (Key::of(1), Key::of(2), Key::of(3));
    relay.keep(&letter(&north, &south));
    let good = relay.mailbox(&south);
    let proof = good.proof();
    let path = |proof: &Value| {
        let text = |name: &str| percent(proof[name].as_str().unwrap());
        let minute = &proof["minute"];
        format!("/listen?did={}&minute={minute}&epoch={}&token={}&wait=0", text("did"), text("epoch"), text("token"))
    };
    let changed = |member: &str, value: Value| {
        let mut other = proof.clone();
        other[member] = value;
        other
    };
    let minute = proof["minute"].as_i64().unwrap();
    for other in [
        changed("did", json!(east.did())),
        changed("token", relay.mailbox(&east).proof()["token"].clone()),
        changed("token", json!("")),
        changed("minute", json!(minute - 1)),
        changed("minute", json!(minute + 1)),
    ] {
        let error = refused(&relay.request("GET", &path(&other), b""), 401, -32001);
        let now = error["data"]["now"].as_i64().expect("the relay's clock");
        assert!((rpc::now() - now).abs() < 600, "{error}");
        let mut body = other;
        body["qids"] = json!(["1"]);
        refused(&relay.request("POST", "/ack", body.to_string().as_bytes()), 401, -32001);
    }
    for origin in ["http://127.0.0.1:1", "http://localhost", "https://relay.example", ""] {
        let other = relay.mailbox(&south).with_origin(origin);
        refused(&other.poll(0), 401, -32001);
    }
    assert_eq!(relay.letters(), 1, "nobody took the letter away");
    assert_eq!(good.drain().len(), 1);
}

#[test]
fn tokens_last_for_some_minutes_by_the_relays_clock() {
    let relay = RelayProcess::start(&[]);
    let south = Key::of(2);
    for (minutes, status) in [(-60, 401), (-7, 401), (-4, 200), (0, 200), (4, 200), (7, 401), (60, 401)] {
        let mut mailbox = relay.mailbox(&south);
        mailbox.minutes_off = minutes;
        assert_eq!(mailbox.poll(0).status, status, "{minutes}");
        assert_eq!(mailbox.ack(&[]).status, status, "{minutes}");
    }
    // Far from every clock, and no number at all.
    for minute in ["99999999999999999999", "-1", "9223372036854775807", "", "x", "1e3"] {
        let path = format!("/listen?did={}&minute={minute}&epoch=1&token=AAAA&wait=0", percent(south.did()));
        assert!(matches!(relay.request("GET", &path, b"").status, 400 | 401), "{minute}");
    }
}

#[test]
fn the_host_header_is_no_origin_and_other_names_need_configuration() {
    let relay = RelayProcess::start(&["--url", "https://relay.example", "--url", "https://other.example:8443/mail"]);
    // Below the first URL's path, which is empty; tokens name the configured origins.
    let south = Key::of(2);
    let listen = |origin: &str, host: &str| {
        let mailbox = mailbox_at(&relay, &south).with_origin(origin);
        let mut connection = Connection::open(relay.addr);
        let bytes = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n\r\n", mailbox.path(0));
        assert!(connection.write(bytes.as_bytes()));
        connection.read(false).status
    };
    for origin in ["https://relay.example", "https://other.example:8443"] {
        assert_eq!(listen(origin, "whatever.example"), 200, "{origin}");
    }
    for origin in
        ["https://whatever.example", "http://relay.example", "https://other.example", "https://relay.example:8443"]
    {
        assert_eq!(listen(origin, "whatever.example"), 401, "{origin}");
        assert_eq!(listen(origin, origin.split("//").nth(1).unwrap()), 401, "{origin}");
    }
}

fn mailbox_at<'k>(relay: &RelayProcess, key: &'k Key) -> muretai_tests::mail::Mailbox<'k> {
    muretai_tests::mail::Mailbox::new(relay.addr, &relay.url, key)
}

#[test]
fn of_two_listeners_the_newer_one_has_the_mailbox() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = (Key::of(1), Key::of(2));
    let older = relay.mailbox(&south);
    let mut stream = older.stream();
    stream.wait_until_open();
    let newer = relay.mailbox(&south);
    assert!(older.epoch < newer.epoch);
    relay.keep(&letter(&north, &south));
    assert_eq!(stream.next_event().unwrap().0, "letter");
    let held = newer.items();
    assert_eq!(held.len(), 1, "what the older one has in hand and did not acknowledge is the newer one's");
    let (event, data) = stream.next_event().expect("the older one is told");
    assert_eq!((event.as_str(), &data["error"]["code"]), ("superseded", &json!(-32030)));
    assert!(stream.next_event().is_none(), "and its stream ends");
    refused(&older.poll(0), 409, -32030);
    refused(&older.ack(&[held[0]["qid"].clone()]), 409, -32030);
    assert_eq!(relay.letters(), 1, "its acknowledgement counts for nothing");
    let mut again = Connection::open(relay.addr);
    let bytes = encode("relay", "GET", &older.path(0), &[("Accept", "text/event-stream")], b"");
    again.write(&bytes);
    refused(&again.read(false), 409, -32030);
    // A poll that waits is told at once.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| newer.poll(20));
        relay.wait_for_listener(south.did());
        let newest = relay.mailbox(&south);
        newest.items();
        let answer = waiting.join().unwrap();
        assert!(answer.status == 409 || answer.json()["items"].as_array().is_some_and(|items| !items.is_empty()));
        refused(&newer.poll(0), 409, -32030);
    });
}

#[test]
fn an_acknowledgement_is_of_ones_own_letters() {
    let relay = RelayProcess::start(&[]);
    let (north, south, east) = (Key::of(1), Key::of(2), Key::of(3));
    relay.keep(&letter(&north, &south));
    relay.keep(&letter(&north, &east));
    let (souths, easts) = (relay.mailbox(&south), relay.mailbox(&east));
    let (one, other) = (souths.items(), easts.items());
    let mut bytes = souths.ack(&[other[0]["qid"].clone()]);
    assert_eq!((bytes.status, &bytes.json()["acked"]), (200, &json!(0)));
    for odd in [json!("x"), json!(-1), json!("99999999999999999999"), json!(""), json!("1' OR '1'='1"), json!(null)] {
        bytes = souths.ack(std::slice::from_ref(&odd));
        assert!(bytes.status == 400 || bytes.json()["acked"] == json!(0), "{odd}: {}", bytes.text());
    }
    assert_eq!(relay.letters(), 2);
    assert_eq!(souths.ack(&[one[0]["qid"].clone()]).json()["acked"], json!(1));
    assert_eq!(souths.ack(&[one[0]["qid"].clone()]).json()["acked"], json!(0));
    assert_eq!(relay.letters(), 1);
}

#[test]
fn a_full_quota_is_named_and_others_are_unharmed() {
    let args = ["--sender-letters", "3", "--mailbox-letters", "5", "--deposits-per-minute", "20"];
    let relay = RelayProcess::start(&args);
    let (north, south, east, west) = (Key::of(1), Key::of(2), Key::of(3), Key::of(4));
    let fill = |from: &Key, to: &Key| loop {
        let response = relay.deposit(&letter(from, to));
        if response.status != 200 {
            return response;
        }
    };
    let full = fill(&north, &south);
    let error = refused(&full, 429, -32004);
    assert_eq!((&error["data"]["bound"], &error["data"]["limit"]), (&json!("senderLetters"), &json!(3)));
    assert!(full.header("retry-after").is_some_and(|secs| secs.parse::<u32>().is_ok_and(|secs| secs > 0)));
    assert_eq!(relay.letters(), 3);
    // The sender may still write to others, and others to that mailbox, until that is full.
    relay.keep(&letter(&north, &west));
    let error = refused(&fill(&east, &south), 429, -32004);
    assert_eq!((&error["data"]["bound"], &error["data"]["limit"]), (&json!("mailboxLetters"), &json!(5)));
    relay.keep(&letter(&east, &west));
    // Whoever fetches makes room.
    assert_eq!(relay.mailbox(&south).drain().len(), 5);
    relay.keep(&letter(&north, &south));
    // A sender in all mailboxes together.
    let error = (0..30).find_map(|n| {
        let response = relay.deposit(&letter(&north, &Key::nth(n)));
        (response.status != 200).then(|| refused(&response, 429, -32004))
    });
    let error = error.expect("there is a rate");
    assert_eq!((&error["data"]["bound"], &error["data"]["limit"]), (&json!("senderRate"), &json!(20)));
    relay.keep(&letter(&west, &south));
}

#[test]
fn bytes_are_bounded_too() {
    let relay = RelayProcess::start(&["--mailbox-bytes", "64KiB", "--total-bytes", "200KiB"]);
    let (north, south) = (Key::of(1), Key::of(2));
    let large = |to: &Key| {
        let blob = seal_bytes(&north, &to.enc_pub(), &[b'x'; 20_000]);
        relay.deposit(&deposit(&north, to.did(), &blob))
    };
    let fill = |to: &Key| loop {
        let response = large(to);
        if response.status != 200 {
            return refused(&response, 429, -32004)["data"].clone();
        }
    };
    assert_eq!(fill(&south), json!({"bound": "mailboxBytes", "limit": 65_536}));
    let total = (0..20).map(|n| fill(&Key::nth(n))).find(|data| data["bound"] != "mailboxBytes");
    assert_eq!(total.unwrap(), json!({"bound": "totalBytes", "limit": 204_800}));
    assert_eq!(relay.mailbox(&south).items().len(), 2, "what was taken is there");
}

#[test]
fn paths_and_methods_are_as_the_table_says() {
    let relay = RelayProcess::start(&[]);
    let health = relay.request("GET", "/health", b"");
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("ok")));
    assert_eq!(relay.request("HEAD", "/health", b"").status, 200);
    for (method, path) in
        [("GET", "/send"), ("POST", "/health"), ("PUT", "/send"), ("POST", "/listen"), ("DELETE", "/i")]
    {
        let response = relay.request(method, path, b"");
        assert_eq!(response.status, 405, "{method} {path}");
        assert!(response.header("allow").is_some(), "{method} {path}");
    }
    for path in
        ["/", "/sends", "/send/", "//send", "/./send", "/%73end", "/health?x", "/i/", "/i/unknown", "/card/x", "/a/x"]
    {
        let status = relay.request("GET", path, b"").status;
        assert!(matches!(status, 400 | 404) || path == "/health?x" || path == "/", "{path}: {status}");
    }
    let options = relay.request("OPTIONS", "/send", b"");
    assert_eq!(options.status, 204);
    assert!(options.header("access-control-allow-methods").unwrap().contains("POST"));
    for hostile in ["http://relay.example/health", "//relay.example/health", "*"] {
        let mut connection = Connection::open(relay.addr);
        connection.write(format!("GET {hostile} HTTP/1.1\r\nHost: relay.example\r\n\r\n").as_bytes());
        assert_eq!(connection.read(false).status, 404, "{hostile}");
    }
}

#[test]
fn a_call_waits_for_whoever_listens_and_is_a_letter_all_the_same() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = (Key::of(1), Key::of(2));
    let call = |deposit: &Value| relay.request("POST", "/rpc", deposit.to_string().as_bytes());
    // Nobody listens: at once.
    let first = letter(&north, &south);
    let answer = call(&first).json();
    assert_eq!((&answer["queued"], &answer["reply"]), (&json!(true), &json!(null)), "{answer}");
    let mailbox = relay.mailbox(&south);
    let mut stream = mailbox.stream();
    stream.wait_until_open();
    let (event, item) = stream.next_event().unwrap();
    assert_eq!((event.as_str(), item["waits"].as_bool().unwrap_or(false)), ("letter", false));
    mailbox.ack(&[item["qid"].clone()]);
    std::thread::scope(|scope| {
        let second = letter(&north, &south);
        let asked = scope.spawn(move || call(&second).json());
        let (_, item) = stream.next_event().unwrap();
        assert_eq!(item["waits"], true, "{item}");
        let reply = seal_bytes(&south, &north.enc_pub(), b"{}");
        // Nobody but the owner of the mailbox answers.
        let forged = relay.mailbox(&north).post("/reply", &json!({"qid": item["qid"], "blob": reply}));
        assert!(forged.status != 200 || forged.json()["delivered"] == json!(false), "{}", forged.text());
        let told = mailbox.post("/reply", &json!({"qid": item["qid"], "blob": reply}));
        assert_eq!(told.json()["delivered"], true, "{}", told.text());
        let answer = asked.join().unwrap();
        assert_eq!((&answer["reply"], &answer["queued"]), (&json!(reply), &json!(true)), "{answer}");
        assert_eq!(relay.letters(), 1, "it is a letter until it is acknowledged");
        mailbox.ack(&[item["qid"].clone()]);
        assert_eq!(relay.letters(), 0);
        // The asker has gone.
        let late = mailbox.post("/reply", &json!({"qid": item["qid"], "blob": reply}));
        assert_ne!(late.json()["delivered"], true, "{}", late.text());
    });
}

#[test]
fn what_was_handed_out_and_not_acknowledged_comes_again() {
    let relay = RelayProcess::start(&["--redeliver-after", "1s"]);
    let (north, south) = (Key::of(1), Key::of(2));
    for n in 0..3 {
        relay.keep(&text_letter(&north, south.did(), &south.enc_pub(), &n.to_string()));
    }
    let mailbox = relay.mailbox(&south);
    let first = mailbox.items();
    assert_eq!(first.len(), 3);
    mailbox.ack(&[first[1]["qid"].clone()]);
    let again = muretai_tests::wait::until("letters to come again", || {
        let items = mailbox.items();
        (!items.is_empty()).then_some(items)
    });
    let qids = |items: &[Value]| items.iter().map(|item| item["qid"].clone()).collect::<Vec<_>>();
    assert_eq!(qids(&again), [first[0]["qid"].clone(), first[2]["qid"].clone()]);
}

#[test]
fn a_card_is_replaced_by_a_newer_one_of_the_same_key_only() {
    use muretai_protocol::{UnixSeconds, card, json as wire};
    let relay = RelayProcess::start(&[]);
    let (south, east) = (Key::of(2), Key::of(3));
    let envelope = |did: &Key, signer: &Key, ts: i64| {
        let text = json!({"name": "south", "did": did.did(), "url": "http://south.example", "relay": relay.url});
        let card = wire::parse(text.to_string().as_bytes()).unwrap();
        card::sign_envelope(signer.signing(), &card, UnixSeconds(ts)).unwrap().to_json()
    };
    let now = rpc::now();
    let post = |body: &str| relay.request("POST", "/card", body.as_bytes());
    let get = |did: &str| relay.request("GET", &format!("/card/{did}"), b"");
    assert_eq!(get(south.did()).status, 404);
    assert_eq!(post(&envelope(&south, &south, now)).status, 200);
    assert_eq!(post(&envelope(&south, &east, now + 1)).status, 403, "signed by somebody else");
    let held = post(&envelope(&south, &south, now - 1));
    assert_eq!(held.status, 409, "{}", held.text());
    assert!(held.text().contains(&now.to_string()), "it says which one it has: {}", held.text());
    assert_eq!(post(&envelope(&south, &south, now + 1)).status, 200);
    assert_eq!(post(&"x".repeat(70_000)).status, 413);
    let kept: Value = get(south.did()).json();
    assert_eq!(kept["ts"], now + 1);
    assert_eq!(get(east.did()).status, 404);
}
