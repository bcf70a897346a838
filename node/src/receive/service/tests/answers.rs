//! The reply of 3.5, what is stored before it, responders, documents.
use std::time::Duration;

use crate::receive::{
    responder::{CommandSpec, ReplyInput},
    testing::*,
};
use muretai_protocol::{
    MessageId,
    json::{self, Value},
    message::{Asked, verify_reply},
};
use muretai_transports::{Incoming, Service};

fn command(command: &str) -> Option<CommandSpec> {
    let timeout = Duration::from_secs(60);
    Some(CommandSpec { command: command.to_owned(), input: ReplyInput::Text, timeout, max_running: 2 })
}

/// The reply's text, verified as a sender does it.
fn reply(world: &World, id: &str, answer: &Value) -> (String, Option<String>) {
    let message_id = MessageId::new(id).unwrap();
    let me = key(1);
    let asked = Asked { addressed: world.agent.did(), me: me.did(), message_id: &message_id, context_id: Some("c1") };
    let result = answer.member("result").unwrap_or_else(|| panic!("{}", answer.to_json())).clone();
    let reply = verify_reply(result, &asked, crate::agent::now()).unwrap();
    let message = reply.message();
    assert_eq!(message.meta("replyTo").and_then(Value::as_str), Some(id));
    let status = message.meta("status").and_then(Value::as_str).map(str::to_owned);
    assert_eq!(message.meta("auto").and_then(Value::as_bool).unwrap_or(false), status.is_some());
    (message.text.clone(), status)
}

async fn ask(spec: Option<CommandSpec>, text: &str) -> (String, Option<String>) {
    let world = world(|options| options.reply_with = spec).await;
    world.befriend(&key(1)).await;
    let answer = world.send(&key(1), "1", text).await;
    let reply = reply(&world, "1", &answer);
    let stored = world.stored().await;
    assert_eq!(stored.len(), 1, "the message is stored whatever the answer is");
    assert_eq!(stored[0].text, text);
    reply
}

const NO_ANSWER: Option<&str> = Some("no-answer");

#[tokio::test]
async fn the_acknowledgement_is_signed_and_says_that_it_is_one() {
    assert_eq!(ask(None, "hello").await, (String::new(), Some("accepted".to_owned())));
}

#[tokio::test]
async fn a_command_answers_with_its_output() {
    assert_eq!(ask(command("tr a-z A-Z"), "hello\nworld\n").await, ("HELLO\nWORLD\n".trim_end().to_owned(), None));
    assert_eq!(ask(command("printf 'a\\n\\n'"), "hello").await, ("a\n".to_owned(), None), "one line feed is stripped");
    assert_eq!(ask(command("true"), "hello").await, (String::new(), None));
}

#[tokio::test]
async fn a_command_need_not_read_what_it_is_told() {
    let long = "x".repeat(65_536);
    assert_eq!(ask(command("echo done"), &long).await.0, "done");
    assert_eq!(ask(command("exec <&-; echo done"), &long).await.0, "done");
    assert_eq!(ask(command("cat"), &long).await.0, long, "nor does a full pipe stand in the way");
}

#[tokio::test]
async fn failures_are_signed_and_honest() {
    for (failing, says) in [
        ("exit 3", "failed"),
        ("kill -9 $$", "failed"),
        ("no-such-command-here", "failed"),
        ("head -c 70000 /dev/zero", "too long"),
        ("yes", "too long"),
        ("printf '\\377\\376'", "not text"),
    ] {
        let (text, status) = ask(command(failing), "hello").await;
        assert_eq!(status.as_deref(), NO_ANSWER, "{failing}");
        assert!(text.starts_with("no answer: ") && text.contains(says), "{failing}: {text}");
    }
}

fn make_fifo(path: &std::path::Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test]
async fn a_command_out_of_time_is_killed_with_all_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    make_fifo(&fifo);
    // Every process of the command holds the fifo open, so its reader comes to the end when the last one is dead.
    let mut spec = command(&format!("exec 9> '{}'; sh -c 'sleep 1000; true' & wait", fifo.display())).unwrap();
    spec.timeout = Duration::from_millis(500);
    let last_one_is_dead = tokio::spawn(tokio::fs::read(fifo.clone()));
    let (text, status) = ask(Some(spec), "hello").await;
    assert_eq!(status.as_deref(), NO_ANSWER);
    assert!(text.contains("too long"), "{text}");
    // In case that the command was killed before it opened the fifo at all.
    drop(std::fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap());
    last_one_is_dead.await.unwrap().unwrap();
}

#[tokio::test]
async fn nothing_that_a_command_leaves_behind_outlives_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    for (n, (end, quiet, expected)) in [
        ("exit 1", ">/dev/null 2>&1", ("no answer: the agent's responder failed", NO_ANSWER)),
        ("echo done", ">/dev/null 2>&1", ("done", None)),
        ("echo done", "", ("done", None)),
    ]
    .into_iter()
    .enumerate()
    {
        let fifo = folder.path().join(n.to_string());
        make_fifo(&fifo);
        let last_one_is_dead = tokio::spawn(tokio::fs::read(fifo.clone()));
        let script = format!("exec 9> '{}'; sh -c 'sleep 1000; true' {quiet} & {end}", fifo.display());
        let (text, status) = ask(command(&script), "hello").await;
        assert_eq!((text.as_str(), status.as_deref()), expected);
        last_one_is_dead.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_command_is_told_who_asks() {
    let script = "printf '%s|' \"$MURETAI_FROM\" \"$MURETAI_FROM_NAME\" \"$MURETAI_TO\" \"$MURETAI_MESSAGE_ID\" \
                  \"$MURETAI_CONTEXT_ID\" \"$MURETAI_AS\"";
    let world = world(|options| options.reply_with = command(script)).await;
    world.befriend(&key(1)).await;
    let answer = world.send(&key(1), "an id; rm -rf \"$HOME\"", "hello").await;
    let expected = format!("{}|north|{}|an id; rm -rf \"$HOME\"|c1|south|", key(1).did(), world.agent.did());
    assert_eq!(reply(&world, "an id; rm -rf \"$HOME\"", &answer).0, expected);
}

#[tokio::test]
async fn ids_that_no_variable_can_hold_break_nothing() {
    let world = world(|options| options.reply_with = command("echo \"<$MURETAI_MESSAGE_ID>\"")).await;
    world.befriend(&key(1)).await;
    let answer = world.send(&key(1), "a\0b", "hello\0there").await;
    assert_eq!(reply(&world, "a\0b", &answer).0, "<>");
}

#[tokio::test]
async fn a_command_may_have_the_whole_message_as_json() {
    let mut spec = command("cat").unwrap();
    spec.input = ReplyInput::Json;
    let (text, _) = ask(Some(spec), "hello").await;
    let seen = json::parse(text.as_bytes()).unwrap();
    let member = |key| seen.member(key).and_then(Value::as_str);
    assert_eq!(member("text"), Some("hello"));
    assert_eq!(member("from"), Some(key(1).did().as_str()));
    assert_eq!((member("messageId"), member("contextId")), (Some("1"), Some("c1")));
    assert_eq!((member("name"), member("trust")), (Some("north"), Some("direct")));
    assert!(seen.member("timestamp").unwrap().as_i64().is_some());
}

#[tokio::test]
async fn an_asker_who_hangs_up_does_not_stop_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, go) = (folder.path().join("begun"), folder.path().join("go"));
    make_fifo(&begun);
    make_fifo(&go);
    let script = format!("echo x > '{}'; cat '{}'", begun.display(), go.display());
    let world = world(|options| options.reply_with = command(&script)).await;
    world.befriend(&key(1)).await;
    let body = request("message/send", world.message(&key(1), "1", "hello")).to_json();
    let receiver = world.receiver.clone();
    let call = tokio::spawn(async move {
        receiver.call(Incoming { body: body.into(), a2a_version: None, remote: None, way: Default::default() }).await
    });
    tokio::fs::read(&begun).await.unwrap();
    call.abort();
    assert!(call.await.is_err());
    assert!(world.stored().await.is_empty());
    tokio::fs::write(&go, "late").await.unwrap();
    world.receiver.idle().await;
    assert_eq!(world.stored().await.len(), 1);
    assert!(is_duplicate(&world.send(&key(1), "1", "hello").await));
}

#[tokio::test]
async fn a_receiver_that_stops_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    make_fifo(&begun);
    let script = format!("echo x > '{}'; sleep 1000", begun.display());
    let world = world(|options| options.reply_with = command(&script)).await;
    world.befriend(&key(1)).await;
    let hurry = async {
        tokio::fs::read(&begun).await.unwrap();
        world.receiver.hurry();
    };
    let north = key(1);
    let (answer, ()) = tokio::join!(world.send(&north, "1", "hello"), hurry);
    let (text, status) = reply(&world, "1", &answer);
    assert_eq!((text.as_str(), status.as_deref()), ("no answer: the agent is stopping", NO_ANSWER));
    assert_eq!(world.stored().await.len(), 1);
}

#[tokio::test]
async fn both_card_paths_share_one_buffer() {
    let world = world(|_| {}).await;
    let document = async |path: &str| world.receiver.document(path).await;
    let new = document(".well-known/agent-card.json").await.unwrap();
    let old = document(".well-known/agent.json").await.unwrap();
    assert_eq!(new.body.as_ptr(), old.body.as_ptr());
    let card = json::parse(&new.body).unwrap();
    let envelope = document(".well-known/agent-card.sig.json").await.unwrap();
    assert_eq!(json::parse(&envelope.body).unwrap().member("card"), Some(&card));
    assert_eq!(document(".well-known/agent-card.sig.json").await.unwrap().body, envelope.body);
    let notice = document("").await.unwrap();
    assert!(notice.link.unwrap().contains("</.well-known/agent-card.json>; rel=\"service-desc\""));
    for path in ["i/", "i/no-such-code", "i/../x", "x", ".well-known/", "i/\u{e9}"] {
        assert!(document(path).await.is_none(), "{path}");
    }
}
