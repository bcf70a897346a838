//! Streams over a real server.
use super::rig::*;

#[tokio::test]
async fn a_stream_has_letters_as_they_come() {
    let relay = Running::start().await;
    relay.send(1, 2, "a").await;
    let mut south = relay.stream(2, "1").await;
    assert_eq!(south.letter().await, "a");
    relay.send(1, 2, "b").await;
    assert_eq!(south.letter().await, "b");
    relay.end().await;
}

#[tokio::test]
async fn a_poll_and_a_stream_supersede_each_other() {
    let relay = Running::start().await;
    let mut old = relay.stream(2, "1").await;
    assert!(relay.ids(2, "2").await.is_empty());
    let (name, data) = old.event().await.unwrap();
    assert_eq!((name.as_str(), data.contains("-32030")), ("superseded", true));
    assert_eq!(old.line().await, None, "the relay closes");
    let poll = relay.listen_target(2, "2", 25);
    let (poll, _new) = tokio::join!(relay.get(&poll), async {
        let presence = format!("/presence/{}", key(2).did());
        while relay.get("/metrics").await.body.contains("muretai_relay_polls_waiting 0") {}
        assert!(relay.get(&presence).await.body.contains(r#""online":true"#));
        relay.stream(2, "3").await
    });
    assert_eq!((poll.status, poll.code()), (409, -32_030));
    relay.end().await;
}

#[tokio::test]
async fn a_bad_token_is_plain_json() {
    let relay = Running::start().await;
    let target = relay.listen_target(2, "1", 0).replace(key(2).did().as_str(), key(3).did().as_str());
    let mut refused = Events::open(&relay, &target).await;
    assert_eq!(refused.line().await.as_deref(), Some("HTTP/1.1 401 Unauthorized"));
    let mut last = String::new();
    while let Some(line) = refused.line().await {
        last = line;
    }
    assert!(last.contains(r#""now":"#), "{last}");
    relay.end().await;
}

#[tokio::test]
async fn many_streams_are_each_woken_for_their_own() {
    let relay = Running::start().await;
    let mut streams = Vec::new();
    for n in 0..100 {
        streams.push(relay.stream(n, "1").await);
    }
    for n in 0..100 {
        relay.send(200, n, &n.to_string()).await;
    }
    for (n, stream) in streams.iter_mut().enumerate() {
        assert_eq!(stream.letter().await, n.to_string());
    }
    assert!(relay.get("/metrics").await.body.contains("muretai_relay_streams_waiting 100"));
    relay.end().await;
}
