//! Who is let in, and that a blocked peer cannot tell that it is.
use muretai_tests::{
    Home,
    rpc::{Key, code, request, send},
};
use serde_json::{Value, json};

/// Makes `key` a contact of the agent, through an invite.
fn befriend(home: &Home, serve: &muretai_tests::Serve, name: &str, key: &Key) {
    let invite = home.invite(name);
    let message = key.message(&serve.did, "onboard/claim");
    let answer = serve.call(&request("onboard/claim", json!({"message": message, "nonce": invite["nonce"]})));
    assert_eq!(code(&answer), 0, "{answer}");
}

fn without_id(mut answer: Value) -> Value {
    answer.as_object_mut().unwrap().remove("id");
    answer
}

#[test]
fn a_blocked_contact_is_answered_exactly_like_a_stranger() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &[]);
    let (contact, stranger) = (Key::of(1), Key::of(2));
    befriend(&home, &serve, "south", &contact);
    assert_eq!(code(&serve.say(&contact, "before")), 0);
    home.run(["contacts", "block", contact.did()]).ok();
    let blocked = serve.post(send(&contact.message(&serve.did, "after")).to_string().as_bytes());
    let unknown = serve.post(send(&stranger.message(&serve.did, "after")).to_string().as_bytes());
    assert_eq!(blocked.status, unknown.status);
    assert_eq!(without_id(blocked.json()), without_id(unknown.json()));
    let names = |response: &muretai_tests::Response| -> Vec<String> {
        response.headers.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&blocked), names(&unknown));
    assert_eq!(home.inbox("south").len(), 1);

    home.run(["contacts", "unblock", contact.did()]).ok();
    assert_eq!(code(&serve.say(&contact, "again")), 0);
}

#[test]
fn a_blocked_contact_stays_outside_an_open_door_and_a_new_invite_does_not_help_it() {
    let home = Home::with_agent("south");
    let key = Key::of(1);
    {
        let serve = home.serve("south", &[]);
        befriend(&home, &serve, "south", &key);
        home.run(["contacts", "block", key.did()]).ok();
        let invite = home.invite("south");
        let message = key.message(&serve.did, "onboard/claim");
        let answer = serve.call(&request("onboard/claim", json!({"message": message, "nonce": invite["nonce"]})));
        assert_eq!(code(&answer), -32011, "{answer}");
        assert_eq!(code(&serve.say(&key, "still out")), -32010);
    }
    let serve = home.serve("south", &["--open-door"]);
    assert_eq!(code(&serve.say(&key, "still out")), -32010);
    assert_eq!(code(&serve.say(&Key::of(2), "come in")), 0);
}

#[test]
fn removing_a_contact_closes_the_door_at_once_and_a_used_invite_does_not_open_it() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &[]);
    let key = Key::of(1);
    let invite = home.invite("south");
    let claim = || {
        let message = key.message(&serve.did, "onboard/claim");
        serve.call(&request("onboard/claim", json!({"message": message, "nonce": invite["nonce"]})))
    };
    assert_eq!(code(&claim()), 0);
    assert_eq!(code(&serve.say(&key, "in")), 0);
    home.run(["contacts", "remove", key.did(), "--yes"]).ok();
    assert_eq!(code(&serve.say(&key, "out")), -32010);
    assert_eq!(code(&claim()), -32011);
    assert_eq!(code(&serve.say(&key, "out")), -32010);
}

#[test]
fn a_message_for_south_cannot_be_forwarded_to_east() {
    let (south, east) = (Home::with_agent("south"), Home::with_agent("east"));
    let (south_serve, east_serve) = (south.serve("south", &["--open-door"]), east.serve("east", &["--open-door"]));
    let for_south = send(&Key::of(1).message(&south_serve.did, "for south"));
    assert_eq!(code(&east_serve.call(&for_south)), -32003);
}
