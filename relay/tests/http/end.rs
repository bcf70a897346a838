//! How a relay ends.
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::rig::*;

#[tokio::test]
async fn listeners_are_sent_away_and_letters_stay() {
    let relay = Running::start().await;
    relay.send(1, 4, "a").await;
    let mut south = relay.stream(2, "1").await;
    let poll = relay.listen_target(3, "1", 25);
    let (poll, ()) = tokio::join!(relay.get(&poll), async {
        while relay.get("/metrics").await.body.contains("muretai_relay_polls_waiting 0") {}
        relay.say_stop();
    });
    assert_eq!((poll.status, poll.body.as_str()), (200, r#"{"items":[],"more":false}"#));
    assert_eq!(south.event().await, Some(("bye".to_owned(), "{}".to_owned())));
    assert_eq!(south.line().await, None);
    let relay = relay.restart(options()).await;
    assert_eq!(relay.ids(4, "1").await, ["a"]);
    relay.end().await;
}

#[tokio::test]
async fn a_deposit_that_is_under_way_is_finished() {
    let relay = Running::start().await;
    let request = post_bytes("/send", deposit(1, 2, "a", "AAAA").to_json().as_bytes());
    let (first, rest) = request.split_at(request.len() - 10);
    let mut stream = TcpStream::connect(relay.address).await.unwrap();
    stream.write_all(first).await.unwrap();
    // The relay has the connection once it answers another one.
    assert_eq!(relay.get("/health").await.status, 200);
    relay.say_stop();
    stream.write_all(rest).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let relay = relay.restart(options()).await;
    assert_eq!(relay.ids(2, "1").await, ["a"]);
    relay.end().await;
}
