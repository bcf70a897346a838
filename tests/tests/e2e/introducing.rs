//! Three agents in three homes, as their owners type it: one introduces the second to the third.
use muretai_tests::{
    Done, Home, Serve,
    trust::{introduce_each_other, waiting},
    wait,
};
use serde_json::{Value, json};

/// North, west and south, who serve; west knows both.
struct Three {
    north: Home,
    west: Home,
    south: Home,
    serves: [Serve; 3],
}

impl Three {
    fn new() -> Three {
        let [north, west, south] = ["north", "west", "south"].map(Home::with_agent);
        let serves = [
            north.serve("north", &["--reply-with", "tr a-z A-Z"]),
            west.serve("west", &["--rate-limit", "off"]),
            south.serve("south", &["--reply-with", "tr a-z A-Z"]),
        ];
        introduce_each_other(&north, "north", &west, "west");
        introduce_each_other(&south, "south", &west, "west");
        Three { north, west, south, serves }
    }

    fn south_url(&self) -> &str {
        &self.serves[2].url
    }

    /// Where north stands at south, in south's words.
    fn standing(&self, south: &str) -> Value {
        self.north.run(["trust-status", "--ask", south, "--json"]).ok().json()
    }

    fn accept_the_last(&self) -> Done {
        let id = waiting(&self.south, "south").last().expect("something waits")["id"].to_string();
        self.south.run(["requests", "accept", &id, "--json"]).ok()
    }

    /// Waits until north was given its introduction.
    fn handed_over(&self) -> Value {
        wait::until("north's introduction", || {
            self.north.run(["introduce", "list", "--held", "--json"]).ok().json_lines().pop()
        })
    }
}

#[test]
fn an_introduction_lets_in_and_its_end_keeps_out() {
    let three = Three::new();
    let refused = three.north.run(["send", three.south_url(), "hello", "--json"]).exits(3);
    assert_eq!(refused.json_error()["code"], -32010);
    let standing = three.standing(three.south_url());
    assert_eq!((&standing["relation"], &standing["depth"]), (&json!("none"), &Value::Null), "{standing}");

    let made = three.west.run([
        "introduce",
        "north",
        "--to",
        "south",
        "--expertise",
        "music",
        "--level",
        "0.8",
        "-m",
        "we play together",
        "--json",
    ]);
    let made = made.ok().json();
    assert_eq!((&made["status"], &made["told"]), (&json!("pending"), &json!(true)), "{made}");
    assert_eq!(three.standing(three.south_url())["relation"], "pending");
    let early = three.north.run(["send", three.south_url(), "from the start", "--json"]).ok().json();
    assert_eq!(early["status"], "held", "it waits for south's owner: {early}");

    let rows = waiting(&three.south, "south");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["kind"], &rows[0]["viaName"]), (&json!("introduction"), &json!("west")), "{rows:?}");
    assert_eq!((&rows[0]["note"], &rows[0]["expertise"]), (&json!("we play together"), &json!(["music"])), "{rows:?}");
    let accepted = three.accept_the_last().json();
    assert_eq!(accepted["status"], "accepted", "{accepted}");
    let held = three.handed_over();
    assert_eq!(held["id"], made["id"]);

    assert_eq!(three.north.run(["send", "south", "hello"]).ok().out, "HELLO\n");
    let standing = three.standing("south");
    assert_eq!((&standing["relation"], &standing["depth"]), (&json!("introduced"), &json!(2)), "{standing}");
    assert_eq!(
        (&standing["vouchedBy"], &standing["vouchedByNames"]),
        (&json!([three.serves[1].did]), &json!(["west"]))
    );
    assert_eq!(three.north.run(["trust-status", "--ask", "south"]).ok().out.lines().next(), Some("introduced"));
    // The conversation goes both ways; it is no connection.
    assert_eq!(three.south.run(["send", "north", "welcome"]).ok().out, "WELCOME\n");
    let known = three.south.run(["contacts", "show", "north", "--json"]).ok().json();
    assert_eq!(
        (&known["relation"], &known["vouchedBy"]),
        (&json!("introduced"), &json!([three.serves[1].did])),
        "{known}"
    );

    let revoked = three.west.run(["introduce", "revoke", made["id"].as_str().unwrap(), "--json"]).ok().json();
    assert_eq!((&revoked["status"], &revoked["told"]), (&json!("revoked"), &json!(true)), "{revoked}");
    let refused = three.north.run(["send", three.south_url(), "hello?", "--json"]).exits(3);
    let code = refused.json_error()["code"].as_i64().unwrap();
    assert!([-32010, -32011].contains(&code), "{code}");
    assert_eq!(three.standing(three.south_url())["relation"], "none");
    let said: Vec<Value> = three.south.inbox("south").iter().map(|message| message["text"].clone()).collect();
    assert_eq!(
        said,
        [json!("from the start"), json!("hello"), json!("WELCOME")],
        "what was said before stays, and nothing came after it"
    );
    // Taking it back twice is the same.
    three.west.run(["introduce", "revoke", made["id"].as_str().unwrap()]).ok();
}

#[test]
fn a_contact_is_asked_for_an_introduction_and_its_owner_vouches() {
    let three = Three::new();
    let south = three.serves[2].did.clone();
    let asked = three.north.run(["connect", &south, "--ask", "west", "--json"]).ok().json();
    assert_eq!((&asked["status"], &asked["answer"]), (&json!("asked"), &json!("queued")), "{asked}");
    let rows = waiting(&three.west, "west");
    assert_eq!((&rows[0]["kind"], &rows[0]["aboutName"]), (&json!("introduce-me"), &json!("south")), "{rows:?}");
    three.west.run(["requests", "accept", &rows[0]["id"].to_string()]).ok();
    wait::until("the proposal", || waiting(&three.south, "south").pop());
    three.accept_the_last();
    assert_eq!(three.handed_over()["requested"], true);
    assert_eq!(three.north.run(["send", "south", "hello"]).ok().out, "HELLO\n");
    let issued = three.west.run(["introduce", "list", "--issued", "--json"]).ok().json_lines();
    assert_eq!((&issued[0]["status"], &issued[0]["requested"]), (&json!("accepted"), &json!(true)), "{issued:?}");
}

#[test]
fn a_rejected_introduction_is_told_to_the_introducer_and_gives_the_subject_nothing() {
    let three = Three::new();
    three.west.run(["introduce", "north", "--to", "south"]).ok();
    let id = waiting(&three.south, "south")[0]["id"].to_string();
    three.south.run(["requests", "reject", &id]).ok();
    wait::until("west to be told", || {
        let issued = three.west.run(["introduce", "list", "--issued", "--json"]).ok().json_lines();
        (issued[0]["status"] == "rejected").then_some(())
    });
    assert_eq!(three.north.run(["introduce", "list", "--held", "--json"]).ok().json_lines().len(), 0);
    three.north.run(["send", three.south_url(), "hello"]).exits(3);
}

#[test]
fn a_contact_names_whom_it_knows_for_a_topic() {
    let three = Three::new();
    three.west.run(["contacts", "tag", "south", "contract law", "music"]).ok();
    let queued = three.north.run(["referral", "who knows contract law?", "--ask", "west", "--json"]).ok().json();
    assert_eq!((&queued["status"], &queued["referrals"]), (&json!("queued"), &json!([])), "{queued}");
    let rows = waiting(&three.west, "west");
    assert_eq!(
        (&rows[0]["kind"], &rows[0]["note"]),
        (&json!("referral"), &json!("who knows contract law?")),
        "{rows:?}"
    );
    three.west.run(["requests", "reject", &rows[0]["id"].to_string()]).ok();

    three.west.run(["policy", "set", "referral", "answer"]).ok();
    let named = wait::until("west to follow its policy", || {
        let referred = three.north.run(["referral", "somebody for contract law", "--ask", "west", "--json"]);
        (referred.code == 0 && referred.json()["status"] == "ok").then(|| referred.json())
    });
    assert_eq!(named["referrals"][0]["did"], three.serves[2].did, "{named}");
    assert_eq!(named["dropped"], 0);
    // South has not decided: the first message waits for its owner.
    let first = three.north.run(["send", "south", "can you help?", "--json"]).ok().json();
    assert_eq!(first["reply"]["status"], "held", "{first}");
    three.accept_the_last();
    assert_eq!(three.south.inbox("south")[0]["text"], "can you help?");
    assert_eq!(three.north.run(["send", "south", "thanks"]).ok().out, "THANKS\n");

    three.west.run(["policy", "set", "referral", "closed"]).ok();
    let refused = wait::until("west to follow its policy", || {
        let referred = three.north.run(["referral", "music", "--ask", "west", "--json"]);
        (referred.code == 3).then(|| referred.json_error())
    });
    assert_eq!(refused["code"], -32012);
}

#[test]
fn introducing_needs_two_contacts_and_sensible_words() {
    let three = Three::new();
    let west = |args: &[&str]| three.west.run([&["introduce"], args].concat());
    assert_eq!(west(&["nobody", "--to", "south"]).code, 1);
    assert_eq!(west(&["north", "--to", "nobody"]).code, 1);
    assert_ne!(west(&["north", "--to", "north"]).code, 0);
    assert_eq!(west(&["north"]).code, 2);
    assert_eq!(west(&["north", "--to", "south", "--level", "7"]).code, 2);
    assert_eq!(west(&["north", "--to", "south", "--days", "0"]).code, 2);
    assert_eq!(west(&["north", "--to", "south", "--days", "366"]).code, 2);
    assert_ne!(west(&["north", "--to", "south", "--expertise", &"x".repeat(100)]).code, 0);
    assert_eq!(three.west.run(["introduce", "list", "--json"]).ok().json_lines().len(), 0, "nothing was written");
    assert_eq!(waiting(&three.south, "south").len(), 0);
}
