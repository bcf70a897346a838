//! Mail through a relay, as people type it: agents that are off, invites of agents that are off, two listeners.
use muretai_tests::{Home, RelayProcess, Serve, wait};
use serde_json::{Value, json};

/// Two agents that trust each other and were both online once; south is off now. Its mailbox is at the relay.
fn acquainted(relay: &RelayProcess) -> (Home, Home) {
    let (north, south) = (Home::with_agent("north"), Home::with_agent("south"));
    let serve = south.serve("south", &["--relay", &relay.url]);
    relay.wait_for_listener(&serve.did);
    let link = south.run(["invite", "create"]).ok().out;
    north.run(["claim", link.trim(), "--no-greeting"]).ok();
    let (code, err) = serve.stop("TERM");
    assert_eq!(code, 0, "{err}");
    (north, south)
}

/// `serve` of south with a relay, once it listens there.
fn listening(home: &Home, relay: &RelayProcess, args: &[&str]) -> Serve {
    let serve = home.serve("south", &[&["--relay", &relay.url], args].concat());
    relay.wait_for_listener(&serve.did);
    serve
}

fn wait_for_messages(home: &Home, name: &str, count: usize) -> Vec<Value> {
    wait::until("messages in the inbox", || {
        let messages = home.inbox(name);
        (messages.len() >= count).then_some(messages)
    })
}

fn is_in(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// What is known of a message that was sent.
fn sent(home: &Home, name: &str, text: &str) -> Value {
    let messages = home.run(["--as", name, "inbox", "--json", "--all", "-n", "0"]).ok().json_lines();
    messages.into_iter().find(|message| message["text"] == text && message["direction"] == "out").expect("it was sent")
}

#[test]
fn a_letter_waits_for_an_agent_that_is_off_and_its_reply_comes_back() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = acquainted(&relay);
    north.run(["contacts", "rename", "south", "Persephone"]).ok();
    let text = "the bridge at Ostrava is closed on Thursday";
    north.run(["send", "Persephone", text]).ok();
    assert_eq!(relay.letters(), 1, "one sealed blob");
    let kept = relay.stored_bytes();
    // South's own card was published there while it listened; nothing about north is known.
    for word in [text, "Ostrava", "Persephone", "north"] {
        assert!(!is_in(&kept, word), "the relay's database holds {word:?}");
    }
    assert_eq!(sent(&north, "north", text)["status"], "at relay");
    assert_eq!(south.inbox("south").len(), 0);

    let serve = listening(&south, &relay, &["--reply-with", "tr a-z A-Z"]);
    let came = wait_for_messages(&south, "south", 1);
    assert_eq!(came[0]["text"], text);
    assert_eq!(came[0]["from"], north.did("north"));
    assert_eq!(came[0]["verified"], true);
    // North has no server and no listener: it fetches.
    let reply = wait::until("the reply in north's mailbox", || {
        north.run(["inbox", "--sync", "--json", "-n", "0"]).ok();
        north.inbox("north").into_iter().find(|message| message["direction"] == "in")
    });
    assert_eq!(reply["text"], text.to_uppercase());
    assert_eq!(reply["from"], serve.did);
    assert_eq!(reply["verified"], true);
    let asked = sent(&north, "north", text);
    assert_eq!(reply["replyTo"], asked["messageId"], "the reply is threaded");
    assert_eq!(asked["status"], "delivered");
    assert_eq!(serve.stop("TERM").0, 0);
    let incoming: Vec<_> = south.inbox("south").into_iter().filter(|message| message["direction"] == "in").collect();
    assert_eq!(incoming.len(), 1, "exactly one message: {incoming:?}");
    assert_eq!(relay.letters_for(&south.did("south")), 0);
}

#[test]
fn required_delivery_ends_with_6_while_the_letter_lies_at_the_relay() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = acquainted(&relay);
    let done = north.run(["send", "south", "urgent", "--require-delivery"]).exits(6);
    assert!(done.err.contains(&relay.url), "{}", done.err);
    let done = north.run(["send", "south", "urgent too", "--require-delivery", "--json"]).exits(6);
    assert_eq!(done.json()["status"], "at relay", "{}", done.out);
    assert_eq!(relay.letters(), 2);
    south.run(["inbox", "--sync"]).ok();
    assert_eq!(south.inbox("south").len(), 2);
    assert_eq!(south.run(["inbox", "--sync"]).ok().code, 0);
    assert_eq!(south.inbox("south").len(), 2);
}

#[test]
fn a_sender_can_wait_for_the_reply() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = acquainted(&relay);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| north.run(["send", "south", "are you there?", "--wait", "50s"]));
        wait::until("the letter at the relay", || (relay.letters() == 1).then_some(()));
        let serve = listening(&south, &relay, &["--reply-with", "echo yes"]);
        let done = waiting.join().unwrap().ok();
        assert_eq!(done.out, "yes\n");
        drop(serve);
    });
    // Nobody comes: the time is over, and the letter is still there.
    let done = north.run(["send", "south", "still there?", "--wait", "1s"]);
    assert_eq!(done.code, 4, "{done:?}");
    assert_eq!(relay.letters(), 1);
}

#[test]
fn a_listening_agent_answers_a_caller_through_the_relay_at_once() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = acquainted(&relay);
    let serve = south.listener("south", &relay.url, &["--reply-with", "tr a-z A-Z"]);
    relay.wait_for_listener(&south.did("south"));
    let done = north.run(["send", "south", "hello"]).ok();
    assert_eq!(done.out, "HELLO\n");
    let done = north.run(["send", "south", "again", "--via", "relay", "--json"]).ok().json();
    assert_eq!((&done["status"], &done["reply"]["text"]), (&json!("answered"), &json!("AGAIN")), "{done}");
    assert_eq!(serve.stop("TERM").0, 0);
    assert_eq!(south.inbox("south").iter().filter(|message| message["direction"] == "in").count(), 2);
}

#[test]
fn an_invite_can_be_claimed_while_its_maker_is_off() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = (Home::with_agent("north"), Home::with_agent("south"));
    let link = south.run(["invite", "create", "--relay", &relay.url]).ok().out;
    let link = link.trim();
    assert!(link.starts_with(&format!("{}/i/", relay.url)), "{link}");
    north.run(["claim", link]).ok();
    assert!(relay.letters() >= 1, "the claim lies at the relay");
    let known = north.run(["contacts", "list", "--json"]).ok().json_lines();
    assert_eq!(known[0]["did"], south.did("south"));
    south.run(["inbox", "--sync"]).ok();
    let known = south.run(["contacts", "list", "--json"]).ok().json_lines();
    assert_eq!((&known[0]["did"], &known[0]["relation"]), (&json!(north.did("north")), &json!("direct")));
    north.run(["inbox", "--sync"]).ok();
    let known = north.run(["contacts", "list", "--json"]).ok().json_lines();
    assert_eq!((known.len(), &known[0]["relation"]), (1, &json!("direct")));
    // Both ways, with nobody online.
    north.run(["send", "south", "from north"]).ok();
    south.run(["send", "north", "from south"]).ok();
    south.run(["inbox", "--sync"]).ok();
    north.run(["inbox", "--sync"]).ok();
    for (home, name, text) in [(&south, "south", "from north"), (&north, "north", "from south")] {
        assert_eq!(home.inbox(name).iter().filter(|message| message["text"] == text).count(), 1, "{name}");
    }
    // It was for one use.
    let east = Home::with_agent("east");
    east.run(["claim", link]);
    south.run(["inbox", "--sync"]).ok();
    east.run(["inbox", "--sync"]);
    assert_eq!(south.run(["contacts", "list", "--json"]).ok().json_lines().len(), 1);
    let known = east.run(["contacts", "list", "--json"]).ok().json_lines();
    assert!(known.iter().all(|contact| contact["relation"] != "direct"), "{known:?}");
}

#[test]
fn a_claim_can_wait_for_the_answer() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = (Home::with_agent("north"), Home::with_agent("south"));
    let link = south.run(["invite", "create", "--relay", &relay.url]).ok().out;
    std::thread::scope(|scope| {
        let claiming = scope.spawn(|| north.run(["claim", link.trim(), "--wait", "50s"]));
        wait::until("the claim at the relay", || (relay.letters() >= 1).then_some(()));
        let serve = south.listener("south", &relay.url, &[]);
        claiming.join().unwrap().ok();
        drop(serve);
    });
    assert_eq!(south.run(["contacts", "list", "--json"]).ok().json_lines()[0]["did"], north.did("north"));
}

#[test]
fn the_older_of_two_listeners_stops_and_says_so() {
    let relay = RelayProcess::start(&[]);
    let (first, second) = (Home::with_agent("south"), Home::new());
    let words = first.run(["identity", "phrase", "--yes"]).ok().out;
    second.run_with(["keygen", "south", "--restore"], words.as_bytes()).ok();
    let mut older = first.serve("south", &["--relay", &relay.url]);
    relay.wait_for_listener(&older.did);
    let mut newer = second.serve("south", &["--relay", &relay.url]);
    let (code, err) = older.ended();
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("newer listener") && err.contains(&relay.url), "{err}");
    relay.wait_for_listener(&newer.did);
    assert!(newer.is_running());
    // A short command beside the listener does not take the mailbox away from it.
    second.run(["inbox", "--sync"]).ok();
    assert!(newer.is_running());
    assert_eq!(newer.stop("TERM").0, 0);
}

#[test]
fn a_card_names_the_mailbox_only_while_somebody_drains_it() {
    let relay = RelayProcess::start(&[]);
    let south = Home::with_agent("south");
    let card = |serve: &Serve| serve.request("GET", muretai_tests::http::CARD, &[], b"").json();
    let serve = south.serve("south", &[]);
    assert!(card(&serve)["relay"].is_null() && card(&serve)["enc_pub"].is_null());
    serve.kill();
    let serve = listening(&south, &relay, &[]);
    wait::until("the card to name the mailbox", || (card(&serve)["relay"] == relay.url).then_some(()));
    assert!(card(&serve)["enc_pub"].is_string());
    // The same, signed, at the relay, for whoever knows the DID alone.
    let published = wait::until("the published card", || {
        let response = relay.request("GET", &format!("/card/{}", serve.did), b"");
        (response.status == 200).then(|| response.json())
    });
    assert_eq!(published["card"]["did"], serve.did.as_str());
    assert_eq!(serve.stop("TERM").0, 0);
    let serve = south.serve("south", &[]);
    assert!(card(&serve)["relay"].is_null());
}

#[test]
fn a_did_alone_is_found_at_a_configured_relay() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = (Home::with_agent("north"), Home::with_agent("south"));
    let serve = listening(&south, &relay, &["--open-door"]);
    wait::until("the published card", || {
        (relay.request("GET", &format!("/card/{}", serve.did), b"").status == 200).then_some(())
    });
    let unknown = north.run(["card", &serve.did]);
    assert_ne!(unknown.code, 0, "no relay is configured: {unknown:?}");
    std::fs::create_dir_all(north.root()).unwrap();
    std::fs::write(north.root().join("config.toml"), format!("relay = \"{}\"\n", relay.url)).unwrap();
    let card = north.run(["card", &serve.did, "--json"]).ok().json();
    assert_eq!(card["did"], serve.did.as_str());
    north.run(["send", &serve.did, "found you"]).ok();
    wait_for_messages(&south, "south", 1);
    // Nobody there, and nothing about it.
    let nobody = north.run(["send", muretai_tests::Key::of(77).did(), "hello"]);
    assert_ne!(nobody.code, 0);
}

#[test]
fn what_nobody_takes_stays_in_the_outbox() {
    let mut relay = RelayProcess::start(&[]);
    let (north, south) = acquainted(&relay);
    relay.kill();
    let done = north.run(["send", "south", "later", "--timeout", "3s"]).exits(4);
    assert!(done.err.contains("the message is kept"), "{}", done.err);
    let rows = north.run(["outbox", "list", "--json"]).ok().json_lines();
    assert_eq!((rows.len(), &rows[0]["status"]), (1, &json!("queued")), "{rows:?}");
    relay.restart();
    north.run(["outbox", "flush"]).ok();
    assert_eq!(relay.letters(), 1);
    assert_eq!(north.run(["outbox", "list", "--json"]).ok().json_lines()[0]["status"], "at relay");
    south.run(["inbox", "--sync"]).ok();
    assert_eq!(south.inbox("south")[0]["text"], "later");
    // The acknowledgement says that it arrived.
    north.run(["inbox", "--sync"]).ok();
    assert_eq!(sent(&north, "north", "later")["status"], "delivered");
    assert_eq!(north.run(["outbox", "list", "--json"]).ok().json_lines().len(), 0);
    // What is given up is not sent.
    relay.kill();
    north.run(["send", "south", "never", "--timeout", "3s"]).exits(4);
    let id = sent(&north, "north", "never")["messageId"].as_str().unwrap().to_owned();
    north.run(["outbox", "drop", &id, "--yes"]).ok();
    relay.restart();
    north.run(["outbox", "flush"]).ok();
    assert_eq!(relay.letters(), 0);
}

#[test]
fn a_full_mailbox_is_named_and_the_message_stays_queued() {
    let relay = RelayProcess::start(&["--sender-letters", "2"]);
    let (north, south) = acquainted(&relay);
    for text in ["one", "two"] {
        north.run(["send", "south", text, "--via", "relay"]).ok();
    }
    let full = north.run(["send", "south", "three", "--via", "relay"]);
    assert_ne!(full.code, 0, "{full:?}");
    assert!(full.err.contains("senderLetters of 2"), "it says which bound: {}", full.err);
    assert_eq!(sent(&north, "north", "three")["status"], "queued");
    south.run(["inbox", "--sync"]).ok();
    // The retry is due later; asking for it goes at once.
    north.run(["outbox", "flush"]).ok();
    south.run(["inbox", "--sync"]).ok();
    let texts: Vec<Value> = south.inbox("south").iter().map(|message| message["text"].clone()).collect();
    assert_eq!(texts, [json!("one"), json!("two"), json!("three")]);
}

#[test]
fn one_process_at_a_time_fetches() {
    let relay = RelayProcess::start(&[]);
    let (north, south) = acquainted(&relay);
    let serve = listening(&south, &relay, &[]);
    let done = south.run(["inbox", "--sync"]).ok();
    assert!(done.err.contains("listens"), "{}", done.err);
    north.run(["send", "south", "hello", "--via", "relay"]).ok();
    wait_for_messages(&south, "south", 1);
    drop(serve);
    assert_eq!(south.inbox("south").iter().filter(|message| message["direction"] == "in").count(), 1);
}
