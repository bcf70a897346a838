//! Exactly once: replay, redelivery, released ids, and what the reply command may do (sections 4.2, 4.5).
use muretai_tests::{
    Home, rpc,
    rpc::{Fields, Key, code, send},
};
use serde_json::json;

const OPEN: [&str; 3] = ["--open-door", "--rate-limit", "off"];

fn duplicate(answer: &serde_json::Value) -> bool {
    assert_eq!(code(answer), -32002, "{answer}");
    answer["error"]["data"]["duplicate"] == true
}

#[test]
fn delivering_again_changes_nothing_even_after_a_restart() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &OPEN);
    let request = send(&Key::of(1).message(&serve.did, "once"));
    assert_eq!(code(&serve.call(&request)), 0);
    assert!(duplicate(&serve.call(&request)));
    serve.kill();
    let serve = home.serve("south", &OPEN);
    assert!(duplicate(&serve.call(&request)));
    let (status, err) = serve.stop("TERM");
    assert_eq!(status, 0, "{err}");
    let serve = home.serve("south", &OPEN);
    assert!(duplicate(&serve.call(&request)));
    assert_eq!(home.inbox("south").len(), 1);
}

#[test]
fn the_same_id_with_another_content_is_not_confirmed() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &OPEN);
    let key = Key::of(1);
    let fields = Fields { to: serve.did.clone(), text: "first".into(), ..Fields::default() };
    assert_eq!(code(&serve.call(&send(&key.signed(&fields)))), 0);
    let other = Fields { text: "second".into(), ..fields.clone() };
    assert!(!duplicate(&serve.call(&send(&key.signed(&other)))));
    let other = Fields { context_id: Some("elsewhere".into()), ..fields.clone() };
    assert!(!duplicate(&serve.call(&send(&key.signed(&other)))));
    // A new timestamp alone is an honest re-send.
    let again = Fields { timestamp: json!(rpc::now() - 1), ..fields };
    assert!(duplicate(&serve.call(&send(&key.signed(&again)))));
    assert_eq!(home.inbox("south").len(), 1);
}

#[test]
fn two_senders_may_use_one_id() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &OPEN);
    let fields = Fields { to: serve.did.clone(), message_id: "same".into(), ..Fields::default() };
    for byte in [1, 2] {
        assert_eq!(code(&serve.call(&send(&Key::of(byte).signed(&fields)))), 0);
    }
    assert_eq!(home.inbox("south").len(), 2);
}

#[test]
fn what_the_gate_refused_may_come_again_when_the_sender_is_let_in() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &[]);
    let request = send(&Key::of(1).message(&serve.did, "let me in"));
    assert_eq!(code(&serve.call(&request)), -32010);
    assert_eq!(code(&serve.call(&request)), -32010);
    serve.kill();
    let serve = home.serve("south", &OPEN);
    assert_eq!(code(&serve.call(&request)), 0);
    assert_eq!(home.inbox("south").len(), 1);
}

#[test]
fn what_the_rate_limit_refused_may_come_again() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door", "--rate-limit", "2/3"]);
    let (one, two) = (Key::of(1), Key::of(2));
    assert_eq!(code(&serve.say(&one, "1")), 0);
    assert_eq!(code(&serve.say(&one, "2")), 0);
    let request = send(&one.message(&serve.did, "3"));
    let answer = serve.call(&request);
    assert_eq!(code(&answer), -32004);
    assert!(!answer.to_string().contains(" 2 "), "the ceiling is not named: {answer}");
    assert_eq!(code(&serve.say(&two, "4")), 0);
    assert_eq!(code(&serve.say(&two, "5")), -32004, "in total");
    serve.kill();
    let serve = home.serve("south", &OPEN);
    assert_eq!(code(&serve.call(&request)), 0);
    assert_eq!(home.inbox("south").len(), 4);
}

#[test]
fn twenty_copies_at_once_are_one_message() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &OPEN);
    let body = send(&Key::of(1).message(&serve.did, "raced")).to_string();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let posts: Vec<_> = (0..20).map(|_| scope.spawn(|| serve.post(body.as_bytes()).json())).collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    });
    let replies = answers.iter().filter(|answer| code(answer) == 0).count();
    assert_eq!(replies, 1, "{answers:?}");
    assert!(answers.iter().filter(|answer| code(answer) != 0).all(|answer| code(answer) == -32002));
    assert_eq!(home.inbox("south").len(), 1);
}

#[test]
fn the_reply_command_sees_the_text_and_its_output_is_the_signed_reply() {
    let home = Home::with_agent("south");
    let script = r#"read -r text; printf '%s|%s|%s' "$text" "$MURETAI_FROM" "$MURETAI_MESSAGE_ID""#;
    let serve = home.serve("south", &["--open-door", "--reply-with", script]);
    let key = Key::of(1);
    let message = key.message(&serve.did, "hello");
    let answer = serve.call(&send(&message));
    let text = rpc::reply_text(&answer, &serve.did, &message);
    let want = format!("hello|{}|{}", key.did(), message["messageId"].as_str().unwrap());
    assert_eq!(text, want);
}

#[test]
fn the_reply_command_may_take_the_whole_message_as_json() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door", "--reply-with", "cat", "--reply-input", "json"]);
    let key = Key::of(1);
    let message = key.message(&serve.did, "hello");
    let text = rpc::reply_text(&serve.call(&send(&message)), &serve.did, &message);
    let seen: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(seen["text"], "hello");
    assert_eq!(seen["from"], key.did());
    assert_eq!(seen["messageId"], message["messageId"]);
}

#[test]
fn a_failing_reply_command_is_an_honest_no_answer_and_the_message_is_kept() {
    let home = Home::with_agent("south");
    for script in ["exit 3", "kill -9 $$", "no-such-program", "head -c 2000000 /dev/zero", "printf '\\377'"] {
        let serve = home.serve("south", &["--open-door", "--rate-limit", "off", "--reply-with", script]);
        let message = Key::of(1).message(&serve.did, script);
        let answer = serve.call(&send(&message));
        rpc::reply_text(&answer, &serve.did, &message);
        assert_eq!(answer["result"]["metadata"]["auto"], true, "{script}: {answer}");
        drop(serve);
    }
    assert_eq!(home.inbox("south").len(), 5);
}

#[test]
fn a_message_is_text_for_the_reply_command_and_never_a_command() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door", "--rate-limit", "off", "--reply-with", "cat"]);
    let marker = home.scratch().join("owned");
    let key = Key::of(1);
    for text in [format!("$(touch {0})`touch {0}`", marker.display()), "'; exit 3; '".to_owned(), "-n".to_owned()] {
        let message = key.signed(&Fields {
            to: serve.did.clone(),
            text: text.clone(),
            context_id: Some(text.clone()),
            ..Fields::default()
        });
        assert_eq!(rpc::reply_text(&serve.call(&send(&message)), &serve.did, &message), text);
    }
    assert!(!marker.exists());
}

#[test]
fn generic_1_0_clients_are_answered_in_their_own_shape() {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door", "--reply-with", "cat"]);
    let key = Key::of(1);
    let mut message = key.message(&serve.did, "hello");
    message["role"] = json!("ROLE_USER");
    message["parts"] = json!([{"text": "hello"}]);
    message.as_object_mut().unwrap().remove("kind");
    let mut request = send(&message);
    request["method"] = json!("SendMessage");
    let answer = serve.request("POST", "/", &[("A2A-Version", "1.0")], request.to_string().as_bytes()).json();
    let reply = &answer["result"]["message"];
    assert_eq!(reply["role"], "ROLE_AGENT", "{answer}");
    assert_eq!(reply["parts"][0], json!({"text": "hello"}));
    let unknown = serve.request("POST", "/", &[("A2A-Version", "7.0")], request.to_string().as_bytes()).json();
    assert_eq!(code(&unknown), -32009);
}

#[test]
fn no_answer_is_a_note_and_no_output() {
    let home = Home::with_agent("north");
    home.run(["keygen", "south"]).ok();
    let serve = home.serve("south", &["--open-door", "--reply-with", "exit 3"]);
    let done = home.run(["--as", "north", "send", &serve.url, "hello"]).ok();
    assert!(done.out.is_empty() && done.err.contains("no answer"), "{done:?}");
    let sent = home.run(["--as", "north", "send", &serve.url, "hello", "--json"]).ok().json();
    assert_eq!((&sent["status"], &sent["reply"]["status"]), (&json!("accepted"), &json!("no-answer")));
}

#[test]
fn a_message_that_nobody_took_is_sent_again_by_the_command_that_the_error_names() {
    let home = Home::with_agent("north");
    home.run(["keygen", "south"]).ok();
    let serve = home.serve("south", &[]);
    let link = home.invite("south")["link"].as_str().unwrap().to_owned();
    home.run(["--as", "north", "claim", &link]).ok();
    let listen = serve.url.trim_start_matches("http://").to_owned();
    serve.stop("TERM");
    let error = home.run(["--as", "north", "send", "south", "hello", "--retries", "0", "--json"]).exits(4).json_error();
    let id = error["messageId"].as_str().unwrap().to_owned();
    assert!(error["hint"].as_str().unwrap().contains(&format!("send --resend {id}`")), "{error}");
    let _serve = home.serve("south", &["--listen", &listen]);
    let sent = home.run(["--as", "north", "send", "--resend", &id, "--json"]).ok().json();
    assert_eq!(sent["messageId"], json!(id));
    assert_eq!(home.inbox("south").iter().filter(|row| row["text"] == "hello").count(), 1);
}
