//! The gate's table (section 4.3), row by row: which introduction lets whom in, and with which code the others fail.
use muretai_tests::{
    Home, Serve, peer,
    rpc::{self, Key, code, send},
    trust::{befriend, call, connect, propose, status, waiting},
    vouch::{self, DAY, iso, presenting, record, requested, vc},
    wait,
};
use serde_json::{Value, json};

/// South, who knows west; north is a stranger whom west may introduce.
struct Scene {
    home: Home,
    serve: Serve,
    west: Key,
    north: Key,
}

impl Scene {
    fn new(policies: &[(&str, &str)]) -> Scene {
        let home = Home::with_agent("south");
        for (name, value) in policies {
            home.run(["policy", "set", name, value]).ok();
        }
        let serve = home.serve("south", &["--rate-limit", "off"]);
        let scene = Scene { home, serve, west: Key::of(1), north: Key::of(2) };
        befriend(&scene.home, &scene.serve, "south", &scene.west);
        scene
    }

    fn did(&self) -> &str {
        &self.serve.did
    }

    /// An introduction of north to south by west, changed before it is signed.
    fn vc(&self, change: impl FnOnce(&mut Value)) -> Value {
        vc(&self.west, self.north.did(), self.did(), change)
    }

    fn say(&self, key: &Key, text: &str, vc: &Value) -> Value {
        self.serve.call(&send(&presenting(key, self.did(), text, vc)))
    }

    /// Lets somebody in whom west introduces, by the owner's decision.
    fn let_in(&self, key: &Key) -> Value {
        let vc = vc(&self.west, key.did(), self.did(), |_| {});
        let answer = propose(&self.serve, &self.west, &vc);
        assert_eq!(answer["result"]["status"], "pending", "{answer}");
        let id = waiting(&self.home, "south").last().unwrap()["id"].to_string();
        self.home.run(["requests", "accept", &id]).ok();
        vc
    }

    /// Nothing came of it: no message, no request, no contact but west.
    fn assert_untouched(&self, why: &str) {
        assert_eq!(self.home.inbox("south").len(), 0, "{why}");
        assert_eq!(waiting(&self.home, "south").len(), 0, "{why}");
        assert_eq!(self.home.run(["contacts", "list", "--json"]).ok().json_lines().len(), 1, "{why}");
    }
}

#[track_caller]
fn assert_held(answer: &Value, scene: &Scene, sent: &Value) {
    assert_eq!(rpc::reply_text(answer, scene.did(), sent), "");
    assert_eq!(answer["result"]["metadata"]["status"], "held", "{answer}");
    assert_eq!(answer["result"]["metadata"]["auto"], true, "{answer}");
}

#[test]
fn without_an_introduction_a_stranger_is_refused_with_32010() {
    let scene = Scene::new(&[]);
    assert_eq!(code(&scene.serve.say(&scene.north, "hello")), -32010);
    assert_eq!(code(&scene.say(&scene.north, "hello", &Value::Null)), -32010, "null is absent");
    scene.assert_untouched("a stranger");
}

#[test]
fn while_a_proposal_waits_its_subject_is_held_without_showing_it() {
    let scene = Scene::new(&[]);
    let vc = scene.vc(|_| {});
    assert_eq!(propose(&scene.serve, &scene.west, &vc)["result"]["status"], "pending");
    let message = scene.north.message(scene.did(), "from the start");
    assert_held(&scene.serve.call(&send(&message)), &scene, &message);
    assert_eq!(code(&scene.serve.say(&scene.north, "and more")), -32014);
    assert_eq!(code(&scene.serve.say(&Key::of(3), "hello")), -32010, "another stranger");
    let rows = waiting(&scene.home, "south");
    assert_eq!(rows.len(), 1, "{rows:?}");
    scene.home.run(["requests", "accept", &rows[0]["id"].to_string()]).ok();
    let inbox = scene.home.inbox("south");
    assert_eq!((inbox.len(), &inbox[0]["text"]), (1, &json!("from the start")));
    assert_eq!(code(&scene.serve.say(&scene.north, "and more")), 0);
}

#[test]
fn an_introduction_that_is_none_is_refused_with_32011() {
    let scene = Scene::new(&[]);
    let (good, east) = (scene.vc(|_| {}), Key::of(3));
    let altered = |change: fn(&mut Value)| {
        let mut vc = good.clone();
        change(&mut vc);
        vc
    };
    let resigned = |change: fn(&mut Value)| scene.vc(change);
    let cases = [
        ("a string", json!("let me in")),
        ("a number", json!(1)),
        ("a list", json!([good])),
        ("nothing in it", json!({})),
        ("no proof", altered(|vc| _ = vc.as_object_mut().unwrap().remove("proof"))),
        ("a proof that is none", altered(|vc| vc["proof"] = json!("yes"))),
        ("no signature", altered(|vc| vc["proof"]["jws"] = Value::Null)),
        ("a signature that is no base64", altered(|vc| vc["proof"]["jws"] = json!("!!"))),
        ("a zero signature", altered(|vc| vc["proof"]["jws"] = json!("A".repeat(86) + "=="))),
        ("words added after it was signed", altered(|vc| vc["note"] = json!("and trusted"))),
        ("another level after it was signed", altered(|vc| vc["credentialSubject"]["trustLevelBp"] = json!(1_000))),
        (
            "a later end after it was signed",
            altered(|vc| vc["credentialSubject"]["validUntil"] = json!("2099-01-01T00:00:00Z")),
        ),
        ("another type", resigned(|vc| vc["type"] = json!(["VerifiableCredential"]))),
        ("no issuer", resigned(|vc| _ = vc.as_object_mut().unwrap().remove("issuer"))),
        ("no subject", resigned(|vc| vc["credentialSubject"] = json!(null))),
        ("no end", resigned(|vc| vc["credentialSubject"]["validUntil"] = json!(null))),
        ("an end that is no date", resigned(|vc| vc["credentialSubject"]["validUntil"] = json!("tomorrow"))),
        ("a level beyond the scale", resigned(|vc| vc["credentialSubject"]["trustLevelBp"] = json!(5_000))),
        ("more than anybody needs", resigned(|vc| vc["padding"] = json!("x".repeat(40_000)))),
        ("expired", resigned(|vc| vc["credentialSubject"]["validUntil"] = json!(iso(rpc::now() - 1)))),
        ("forged: east signs in west's name", vouch::prove(&east, good.clone())),
        ("re-targeted: to another agent", vc(&scene.west, scene.north.did(), east.did(), |_| {})),
        ("re-subjected: about another agent", vc(&scene.west, east.did(), scene.did(), |_| {})),
        ("self-issued", vc(&scene.north, scene.north.did(), scene.did(), |_| {})),
    ];
    for (why, vc) in &cases {
        let answer = scene.say(&scene.north, "hello", vc);
        assert_eq!(code(&answer), -32011, "{why}: {answer}");
    }
    scene.assert_untouched("bad introductions");
    let sent = presenting(&scene.north, scene.did(), "hello", &good);
    assert_held(&scene.serve.call(&send(&sent)), &scene, &sent);
}

#[test]
fn what_a_requested_introduction_leans_on_must_hold() {
    let scene = Scene::new(&[]);
    let (north, west, east, now) = (&scene.north, &scene.west, Key::of(3), rpc::now());
    let asked = |asker: &Key, introducer: &Key, target: &str, age: i64| {
        record(asker, introducer.did(), &format!("introduce-me-to:{target}"), now - age)
    };
    let good = asked(north, west, scene.did(), 60);
    let altered = |name: &str, value: Value| {
        let mut record = good.clone();
        record[name] = value;
        record
    };
    let records = [
        ("another introducer", asked(north, &east, scene.did(), 60)),
        ("another target", asked(north, west, east.did(), 60)),
        ("another asker", asked(&east, west, scene.did(), 60)),
        ("31 days old", asked(north, west, scene.did(), 31 * DAY)),
        ("from the future", asked(north, west, scene.did(), -400)),
        ("an altered text", altered("text", json!("introduce-me-to:everybody"))),
        ("a broken signature", altered("sig", json!("A".repeat(86) + "=="))),
        ("no signature", altered("sig", Value::Null)),
        ("no time", altered("timestamp", Value::Null)),
        ("a record that is none", json!("yes")),
        ("no record", Value::Null),
    ];
    for (why, record) in &records {
        let answer = scene.say(north, "hello", &requested(west, north.did(), scene.did(), record));
        assert_eq!(code(&answer), -32011, "{why}: {answer}");
    }
    let unknown = scene.vc(|vc| vc["provenance"] = json!({"mode": "overheard"}));
    assert_eq!(code(&scene.say(north, "hello", &unknown)), -32011);
    scene.assert_untouched("bad provenance");

    let free_words = record(&Key::of(5), west.did(), "who knows contract law?", now - 29 * DAY);
    let good_ones = [
        (Key::of(4), requested(west, Key::of(4).did(), scene.did(), &asked(&Key::of(4), west, scene.did(), 60))),
        (Key::of(5), requested(west, Key::of(5).did(), scene.did(), &free_words)),
        (
            Key::of(6),
            vc(west, Key::of(6).did(), scene.did(), |vc| _ = vc.as_object_mut().unwrap().remove("provenance")),
        ),
    ];
    for (key, vc) in &good_ones {
        let sent = presenting(key, scene.did(), "hello", vc);
        assert_held(&scene.serve.call(&send(&sent)), &scene, &sent);
    }
}

#[test]
fn only_a_direct_contact_can_introduce() {
    let scene = Scene::new(&[]);
    let (north, east) = (&scene.north, Key::of(3));
    let by_east = || vc(&east, north.did(), scene.did(), |_| {});
    assert_eq!(code(&scene.say(north, "hello", &by_east())), -32013, "a stranger vouches");
    assert_eq!(code(&propose(&scene.serve, &east, &by_east())), -32013);

    scene.let_in(&east);
    assert_eq!(code(&scene.serve.say(&east, "hello")), 0);
    assert_eq!(code(&scene.say(north, "hello", &by_east())), -32013, "somebody who was introduced vouches");
    assert_eq!(code(&propose(&scene.serve, &east, &by_east())), -32013);

    let by_west = scene.vc(|_| {});
    scene.home.run(["contacts", "block", scene.west.did()]).ok();
    assert_eq!(code(&scene.say(north, "hello", &by_west)), -32013, "somebody who is blocked vouches");
    scene.home.run(["contacts", "unblock", scene.west.did()]).ok();
    scene.home.run(["contacts", "remove", scene.west.did(), "--yes"]).ok();
    assert_eq!(code(&scene.say(north, "hello", &by_west)), -32013, "somebody who was removed vouches");
}

#[test]
fn what_a_contact_vouched_for_ends_with_it_and_rests_while_it_is_blocked() {
    let scene = Scene::new(&[]);
    let vc = scene.let_in(&scene.north);
    assert_eq!(code(&scene.serve.say(&scene.north, "in")), 0);
    scene.home.run(["contacts", "block", scene.west.did()]).ok();
    assert_ne!(code(&scene.serve.say(&scene.north, "out")), 0);
    scene.home.run(["contacts", "unblock", scene.west.did()]).ok();
    assert_eq!(code(&scene.serve.say(&scene.north, "in again")), 0);
    scene.home.run(["contacts", "remove", scene.west.did(), "--yes"]).ok();
    assert_eq!(code(&scene.serve.say(&scene.north, "out")), -32010);
    // A new connection with the introducer does not bring back what ended.
    befriend(&scene.home, &scene.serve, "south", &scene.west);
    assert_eq!(code(&scene.serve.say(&scene.north, "out")), -32010);
    assert_eq!(code(&scene.say(&scene.north, "out", &vc)), -32011);
    assert_eq!(scene.home.inbox("south").len(), 2);
}

#[test]
fn a_first_message_waits_with_its_introduction_and_is_delivered_when_the_owner_agrees() {
    let scene = Scene::new(&[]);
    let vc = scene.vc(|vc| vc["credentialSubject"]["expertise"] = json!(["law\u{1b}[2K"]));
    let sent = presenting(&scene.north, scene.did(), "hello\u{202e} south", &vc);
    assert_held(&scene.serve.call(&send(&sent)), &scene, &sent);
    assert_eq!(scene.home.inbox("south").len(), 0);
    assert_eq!(status(&scene.serve, &scene.north, None)["result"]["relation"], "pending");

    let rows = waiting(&scene.home, "south");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["kind"], "introduction");
    assert_eq!(rows[0]["did"], scene.north.did());
    assert_eq!(rows[0]["via"], scene.west.did());
    assert_eq!(rows[0]["held"], "hello\u{202e} south");
    assert_eq!(rows[0]["trustLevelBp"], 800);
    let shown = scene.home.run(["requests"]).ok().out;
    assert!(shown.contains(scene.north.did()) && shown.contains(scene.west.did()), "{shown}");
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "text of peers is made safe: {shown:?}");

    // The same message again is the same answer, another one has no room.
    assert_eq!(code(&scene.serve.call(&send(&sent))), -32002);
    assert_eq!(code(&scene.say(&scene.north, "are you there?", &vc)), -32014);

    let id = rows[0]["id"].to_string();
    let accepted = scene.home.run(["requests", "accept", &id, "--json"]).ok().json();
    assert_eq!((&accepted["status"], &accepted["delivered"]), (&json!("accepted"), &json!(1)), "{accepted}");
    let inbox = scene.home.inbox("south");
    assert_eq!(inbox.len(), 1, "{inbox:?}");
    assert_eq!(inbox[0]["text"], "hello\u{202e} south");
    assert_eq!((&inbox[0]["unread"], &inbox[0]["verified"]), (&json!(true), &json!(true)));
    assert_eq!(inbox[0]["messageId"], sent["messageId"]);

    assert_eq!(code(&scene.serve.call(&send(&sent))), -32002, "what was delivered is not delivered again");
    assert_eq!(code(&scene.say(&scene.north, "with the introduction", &vc)), 0);
    assert_eq!(code(&scene.serve.say(&scene.north, "and without")), 0);
    assert_eq!(scene.home.inbox("south").len(), 3);
    let answer = status(&scene.serve, &scene.north, None);
    let result = &answer["result"];
    assert_eq!(
        (&result["relation"], &result["depth"], &result["trusted"]),
        (&json!("introduced"), &json!(2), &json!(true))
    );
    assert_eq!(result["vouchedBy"], json!([scene.west.did()]));
}

#[test]
fn what_cannot_be_held_is_refused_with_32014() {
    let scene = Scene::new(&[("pending", "4")]);
    let vc = scene.vc(|_| {});
    assert_eq!(code(&scene.say(&scene.north, "", &vc)), -32014, "no text");
    let mut group = presenting(&scene.north, scene.did(), "hello all", &vc);
    group["metadata"]["group"] = json!({"room_id": "r", "name": "r", "host": scene.north.did()});
    assert_eq!(code(&scene.serve.call(&send(&group))), -32014, "a group's message");
    assert_eq!(waiting(&scene.home, "south").len(), 0);
    assert_eq!(code(&scene.say(&scene.north, "hello", &vc)), 0);
    // A contact may fill a quarter of the room; the next one it introduces finds none.
    let next = Key::of(4);
    let full = scene.say(&next, "hello", &vouch::vc(&scene.west, next.did(), scene.did(), |_| {}));
    assert_eq!(code(&full), -32014, "{full}");
    assert_eq!(waiting(&scene.home, "south").len(), 1);
}

#[test]
fn a_rejected_introduction_is_refused_with_32014_until_the_owner_thinks_again() {
    let scene = Scene::new(&[]);
    let vc = scene.vc(|_| {});
    assert_eq!(code(&scene.say(&scene.north, "hello", &vc)), 0);
    let id = waiting(&scene.home, "south")[0]["id"].to_string();
    scene.home.run(["requests", "reject", &id]).ok();
    assert_eq!(waiting(&scene.home, "south").len(), 0);
    assert_eq!(code(&scene.say(&scene.north, "hello again", &vc)), -32014);
    assert_eq!(status(&scene.serve, &scene.north, None)["result"]["relation"], "none");
    scene.home.run(["requests", "accept", &id]).ok();
    assert_eq!(code(&scene.say(&scene.north, "hello again", &vc)), 0);
    let texts: Vec<Value> = scene.home.inbox("south").iter().map(|message| message["text"].clone()).collect();
    assert_eq!(texts, [json!("hello again")], "what was held is gone with the no");
}

#[test]
fn an_introduction_is_accepted_at_once_where_the_owner_says_so() {
    let scene = Scene::new(&[("introductions", "accept")]);
    let vc = scene.vc(|_| {});
    let answer = propose(&scene.serve, &scene.west, &vc);
    assert_eq!(answer["result"]["status"], "accepted", "{answer}");
    assert_eq!(answer["result"]["introductionId"], vc["id"]);
    assert_eq!(code(&scene.serve.say(&scene.north, "hello")), 0);
    let again = propose(&scene.serve, &scene.west, &vc);
    assert_eq!(again["result"]["status"], "accepted", "{again}");
    // Also when the first that is heard of it is a message.
    let east = Key::of(3);
    let presented = vouch::vc(&scene.west, east.did(), scene.did(), |_| {});
    let sent = presenting(&east, scene.did(), "hello from east", &presented);
    let answer = scene.serve.call(&send(&sent));
    assert_eq!(answer["result"]["metadata"]["status"], "accepted", "{answer}");
    assert_eq!(scene.home.inbox("south").last().unwrap()["text"], "hello from east");
    let by_a_stranger = vouch::vc(&Key::of(9), Key::of(8).did(), scene.did(), |_| {});
    assert_eq!(code(&scene.say(&Key::of(8), "hello", &by_a_stranger)), -32013);
    assert_eq!(waiting(&scene.home, "south").len(), 0);
}

#[test]
fn a_proposal_must_be_good_and_by_its_issuer() {
    let scene = Scene::new(&[]);
    let east = Key::of(3);
    befriend(&scene.home, &scene.serve, "south", &east);
    let good = scene.vc(|_| {});
    for (why, proposer, vc) in [
        ("another contact's", &east, good.clone()),
        ("forged", &scene.west, vouch::prove(&east, good.clone())),
        ("to another agent", &scene.west, vc(&scene.west, scene.north.did(), east.did(), |_| {})),
        ("expired", &scene.west, scene.vc(|vc| vc["credentialSubject"]["validUntil"] = json!(iso(rpc::now() - 1)))),
    ] {
        assert_eq!(code(&propose(&scene.serve, proposer, &vc)), -32011, "{why}");
    }
    let params = json!({"vc": good, "subject": {"did": east.did()}});
    let other = call(&scene.serve, &scene.west, "introduce/propose", "introduce/propose", params);
    assert_eq!(code(&other), -32011, "about somebody else than the introduction");
    let chat = call(
        &scene.serve,
        &scene.west,
        "introduce/propose",
        "hello",
        json!({"vc": good, "subject": {"did": scene.north.did()}}),
    );
    assert_ne!(code(&chat), 0, "a chat message is no proposal");
    assert_eq!(waiting(&scene.home, "south").len(), 0);
}

#[test]
fn a_direct_contact_needs_no_introduction_and_a_bad_one_does_it_no_harm() {
    let scene = Scene::new(&[]);
    for vc in [json!("x"), vc(&scene.north, scene.west.did(), scene.did(), |_| {})] {
        assert_eq!(code(&scene.say(&scene.west, "hello", &vc)), 0);
    }
}

#[test]
fn a_verified_domain_can_be_required_of_everybody_but_direct_contacts() {
    let scene = Scene::new(&[("domain", "required")]);
    let vc = scene.vc(|_| {});
    assert_eq!(code(&scene.say(&scene.north, "hello", &vc)), -32015);
    assert_eq!(code(&scene.serve.say(&scene.north, "hello")), -32015);
    assert_eq!(code(&scene.serve.say(&scene.west, "hello")), 0);
    // A verdict of the last 30 days helps, an older one does not. The gate fetches nothing by itself.
    assert_eq!(code(&connect(&scene.serve, &scene.north)), 0, "now the store knows north's DID");
    let verdict = |verified: i64| {
        let did = scene.north.did();
        scene.home.sql("south", &format!(
            "INSERT OR REPLACE INTO domains SELECT 'north.example', id, {verified} FROM peers WHERE address = '{did}'"
        ))
    };
    assert_eq!(verdict(rpc::now() - 31 * DAY), 1);
    assert_eq!(code(&scene.say(&scene.north, "hello", &vc)), -32015);
    assert_eq!(verdict(rpc::now() - DAY), 1);
    assert_eq!(code(&scene.say(&scene.north, "hello", &vc)), 0);
    assert_eq!(code(&scene.serve.say(&Key::of(7), "hello")), -32015);
}

#[test]
fn behind_an_open_door_nobody_needs_an_introduction_and_nothing_about_them_is_answered() {
    let home = Home::with_agent("south");
    home.run(["policy", "set", "gate", "open"]).ok();
    let serve = home.serve("south", &[]);
    let (west, north) = (Key::of(1), Key::of(2));
    let bad = vc(&north, north.did(), &serve.did, |_| {});
    assert_eq!(code(&serve.call(&send(&presenting(&north, &serve.did, "hello", &bad)))), 0);
    assert_eq!(status(&serve, &north, None)["result"]["trusted"], true);
    let good = vc(&west, north.did(), &serve.did, |_| {});
    let calls = [
        propose(&serve, &west, &good),
        call(
            &serve,
            &west,
            "introduce/respond",
            "introduce/respond",
            json!({"introductionId": good["id"], "decision": "accept"}),
        ),
        call(&serve, &west, "introduction/request", &format!("introduce-me-to:{}", north.did()), json!({})),
        call(&serve, &west, "referral/request", "law", json!({})),
    ];
    for answer in &calls {
        assert_eq!(code(answer), -32016, "{answer}");
    }
}

#[test]
fn an_accepted_introduction_ends_with_its_time() {
    let scene = Scene::new(&[]);
    scene.let_in(&scene.north);
    assert_eq!(code(&scene.serve.say(&scene.north, "in")), 0);
    assert_eq!(
        scene.home.sql("south", &format!("UPDATE introductions SET valid_until = {}, status = status", rpc::now() - 1)),
        1
    );
    let after = wait::until("the introduction to end", || {
        Some(code(&scene.serve.say(&scene.north, "out"))).filter(|code| *code != 0)
    });
    assert!([-32010, -32011].contains(&after), "{after}");
    let listed = scene.home.run(["introduce", "list", "--json"]).ok().json_lines();
    assert_eq!(listed[0]["status"], "expired", "{listed:?}");
}

#[test]
fn an_introduction_given_to_us_is_kept_only_from_its_issuer_who_is_a_direct_contact() {
    let scene = Scene::new(&[]);
    let (west, east, target) = (&scene.west, Key::of(3), Key::of(8));
    let peer = peer::Peer::start(|_, _| peer::Act::HangUp);
    let give = |giver: &Key, vc: &Value| {
        let mut message = giver.message(scene.did(), "I introduce you");
        message["metadata"]["auto"] = json!(true);
        message["metadata"]["status"] = json!("introduction");
        message["metadata"]["held_vc"] = vc.clone();
        message["metadata"]["held_vc_url"] = json!(peer.url());
        code(&scene.serve.call(&send(&message)))
    };
    let held = || scene.home.run(["introduce", "list", "--held", "--json"]).ok().json_lines();
    let about_us = |issuer: &Key| vc(issuer, scene.did(), target.did(), |_| {});
    assert_eq!(give(&east, &about_us(&east)), -32010);
    assert_eq!(give(west, &about_us(&east)), 0);
    assert_eq!(give(west, &vc(west, scene.north.did(), target.did(), |_| {})), 0);
    assert_eq!(give(west, &vouch::prove(&east, about_us(west))), 0);
    scene.let_in(&east);
    assert_eq!(give(&east, &about_us(&east)), 0);
    assert_eq!(held().len(), 0, "{:?}", held());
    assert_eq!(give(west, &about_us(west)), 0);
    let rows = held();
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0]["issuer"], &rows[0]["target"]), (&json!(west.did()), &json!(target.did())));
    let known = scene.home.run(["contacts", "show", target.did(), "--json"]).ok().json();
    assert_eq!((&known["relation"], &known["url"]), (&json!("offered"), &json!(peer.url())), "{known}");
    assert_eq!(peer.count("POST") + peer.count("GET"), 0, "nothing is dialled before it is used");
    // An offer lets nobody in.
    assert_eq!(code(&scene.serve.say(&target, "hello")), -32010);
    let shown = scene.home.run(["inbox", "--all"]).ok().out;
    assert!(shown.contains("automatic: introduction"), "{shown}");
}
