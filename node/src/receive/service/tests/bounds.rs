//! What one sender costs the others, and what is kept of a message.
use std::time::Duration;

use crate::receive::{
    rate::RateLimit,
    responder::{CommandSpec, ReplyInput},
    testing::*,
};
use muretai_protocol::json::{self, Value};

fn decorated(world: &World, n: u8, id: &str, extra: Value) -> Value {
    let mut message = world.message(&key(n), id, "hello");
    at(&mut message, &["metadata"]).insert("x".to_owned(), extra);
    request("message/send", message)
}

#[tokio::test]
async fn strangers_do_not_spend_what_contacts_need() {
    let limit = RateLimit { per_account: 3, total: 3 };
    let world = world(|options| {
        options.rate = Some(limit);
        options.open_door = true;
    })
    .await;
    world.befriend(&key(1)).await;
    let mut codes = Vec::new();
    for n in 10..20 {
        codes.push(code(&world.send(&key(n), "1", "hello").await));
    }
    assert_eq!(codes[..4], [0, 0, 0, -32004]);
    for (id, expected) in [("1", 0), ("2", 0), ("3", 0), ("4", -32004)] {
        assert_eq!(code(&world.send(&key(1), id, "hello").await), expected, "{id}");
    }
}

#[tokio::test]
async fn unsigned_metadata_is_kept_whole_or_refused() {
    let world = world(|options| options.open_door = true).await;
    let fits = Value::from("x".repeat(60_000));
    assert_eq!(code(&world.call(&decorated(&world, 1, "1", fits.clone())).await), 0);
    let too_large = world.call(&decorated(&world, 1, "2", "x".repeat(70_000).into())).await;
    assert_eq!(code(&too_large), -32600);
    assert!(detail(&too_large).starts_with("metadata too large"));
    let stored = world.stored().await;
    assert_eq!(stored.len(), 1);
    let extra = json::parse(stored[0].extra.as_deref().unwrap().as_bytes()).unwrap();
    assert_eq!(extra.member("metadata").unwrap().member("x"), Some(&fits));
}

fn command(command: &str, max_running: usize) -> Option<CommandSpec> {
    let timeout = Duration::from_secs(60);
    Some(CommandSpec { command: command.to_owned(), input: ReplyInput::Json, timeout, max_running })
}

#[tokio::test]
async fn what_a_command_is_told_of_the_metadata_outlives_the_rest() {
    let world = world(|options| options.reply_with = command("cat", 1)).await;
    world.befriend(&key(1)).await;
    let mut message = world.message(&key(1), "1", "hello");
    let metadata = at(&mut message, &["metadata"]);
    metadata.insert("replyTo".to_owned(), "m0".into());
    metadata.insert("auto".to_owned(), true.into());
    metadata.insert("x".to_owned(), "kept".into());
    let answer = world.call(&request("message/send", message)).await;
    let text = answer.member("result").and_then(|reply| reply.member("parts")).and_then(Value::as_array).unwrap()[0]
        .member("text")
        .and_then(Value::as_str)
        .unwrap()
        .to_owned();
    let told = json::parse(text.as_bytes()).unwrap();
    assert_eq!(told.member("replyTo").and_then(Value::as_str), Some("m0"));
    assert_eq!(told.member("auto").and_then(Value::as_bool), Some(true));
    let stored = world.stored().await;
    assert_eq!(stored[0].extra.as_deref(), Some(r#"{"metadata":{"auto":true,"x":"kept"}}"#));
}

#[tokio::test]
async fn a_contact_is_answered_while_strangers_queue() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    assert!(std::process::Command::new("mkfifo").arg(&begun).status().unwrap().success());
    // Contacts are answered at once, strangers never.
    let script = format!("case $(cat) in *direct*) echo now;; *) echo x > '{}'; sleep 1000;; esac", begun.display());
    let world = std::sync::Arc::new(
        world(|options| {
            options.open_door = true;
            options.reply_with = command(&script, 2);
        })
        .await,
    );
    world.befriend(&key(1)).await;
    let strangers: Vec<_> = (10..20)
        .map(|n| {
            let world = world.clone();
            tokio::spawn(async move { code(&world.send(&key(n), "1", "hello").await) })
        })
        .collect();
    tokio::fs::read(&begun).await.unwrap();
    assert_eq!(code(&world.send(&key(1), "1", "hello").await), 0);
    assert!(strangers.iter().all(|stranger| !stranger.is_finished()));
    world.receiver.hurry();
    for stranger in strangers {
        assert_eq!(stranger.await.unwrap(), 0, "told that nobody answers");
    }
}
