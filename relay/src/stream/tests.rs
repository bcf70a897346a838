use std::sync::Arc;

use http::Method;
use muretai_protocol::{json, relay::Item};
use muretai_store::mailboxes::{Event, Quotas};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    net::TcpListener,
    task::JoinHandle,
};

use muretai_transports::http::site::Head;

use super::*;
use crate::{
    Bounds,
    testing::{Memory, Rig, head, key, listen_target},
};

/// The listener's end of a stream.
struct Reader {
    lines: BufReader<TcpStream>,
    _served: JoinHandle<()>,
}

/// An event, or a comment with an empty name.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    name: String,
    data: String,
}

async fn connect(rig: &Rig, target: &str) -> Reader {
    let acceptor = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (near, far) = tokio::join!(TcpStream::connect(acceptor.local_addr().unwrap()), acceptor.accept());
    let head = Head { accepts_events: true, ..head(Method::GET, target) };
    let (shared, stream) = (Arc::clone(&rig.shared), far.unwrap().0);
    let served = tokio::spawn(async move { serve(&shared, TakenOver { head, stream }).await });
    Reader { lines: BufReader::new(near.unwrap()), _served: served }
}

impl Reader {
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).await.unwrap_or(0);
        (read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// The status and the headers.
    async fn head(&mut self) -> Vec<String> {
        let mut head = Vec::new();
        while let Some(line) = self.line().await.filter(|line| !line.is_empty()) {
            head.push(line);
        }
        head
    }

    async fn begun(&mut self) {
        let head = self.head().await;
        assert_eq!(head[0], "HTTP/1.1 200 OK");
        assert!(head.contains(&"content-type: text/event-stream".to_owned()));
        assert_eq!(self.next().await.unwrap().data, "ok");
    }

    async fn next(&mut self) -> Option<Said> {
        let mut event = Said { name: String::new(), data: String::new() };
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Some(event);
            }
            let (field, value) = line.split_once(':').unwrap();
            let value = value.trim_start().to_owned();
            if field == "event" { event.name = value } else { event.data = value }
        }
    }

    /// The next letter's id, past signs of life.
    async fn letter(&mut self) -> String {
        loop {
            let event = self.next().await.unwrap();
            if event.name == "letter" {
                return Item::from_value(&json::parse(event.data.as_bytes()).unwrap()).unwrap().id;
            }
            assert_eq!((event.name.as_str(), event.data.as_str()), ("", ""));
        }
    }

    /// The name of the last event before the end.
    async fn last(&mut self) -> Option<String> {
        let mut last = None;
        while let Some(event) = self.next().await {
            last = Some(event.name).filter(|name| !name.is_empty()).or(last);
        }
        last
    }
}

async fn stream(rig: &Rig, of: u8, epoch: &str) -> Reader {
    let mut reader = connect(rig, &listen_target(of, epoch, 0)).await;
    reader.begun().await;
    reader
}

#[tokio::test]
async fn letters_come_as_they_are_left() {
    let rig = Rig::new();
    rig.send(1, 2, "a").await;
    let mut south = stream(&rig, 2, "1").await;
    assert_eq!(south.letter().await, "a");
    rig.send(1, 2, "b").await;
    assert_eq!(south.letter().await, "b");
    assert_eq!(rig.ack(2, "1", &["1", "2"]).await.status, 200);
    assert_eq!((rig.store.letters(), rig.shared.hub.waiting()), (0, (0, 1)));
}

#[tokio::test]
async fn a_bad_request_is_answered_before_any_stream() {
    let rig = Rig::new();
    let target = listen_target(2, "1", 0);
    for (target, status) in [
        (target.replace("minute=", "minute=1"), "HTTP/1.1 401 Unauthorized"),
        (target.replace("epoch=1", ""), "HTTP/1.1 400 Bad Request"),
    ] {
        let mut reader = connect(&rig, &target).await;
        let head = reader.head().await;
        assert_eq!(head[0], status);
        let mut body = String::new();
        reader.lines.read_to_string(&mut body).await.unwrap();
        let length = format!("content-length: {}", body.len());
        assert!(head.contains(&length) && head.contains(&format!("content-type: {}", crate::answer::JSON)), "{head:?}");
        assert!(json::parse(body.as_bytes()).unwrap().member("error").is_some());
    }
    rig.store.fail(true);
    let mut reader = connect(&rig, &target).await;
    let head = reader.head().await;
    assert!(head[0].contains(" 503 ") && head.contains(&"retry-after: 5".to_owned()), "{head:?}");
    assert_eq!(rig.shared.hub.waiting(), (0, 0));
}

#[tokio::test]
async fn the_newest_stream_wins() {
    let rig = Rig::new();
    let mut old = stream(&rig, 2, "1").await;
    let _new = stream(&rig, 2, "2").await;
    let event = old.next().await.unwrap();
    assert_eq!((event.name.as_str(), event.data.contains("-32030")), ("superseded", true));
    assert_eq!(old.next().await, None);
    let mut late = connect(&rig, &listen_target(2, "1", 0)).await;
    assert_eq!(late.head().await[0], "HTTP/1.1 409 Conflict");
}

#[tokio::test]
async fn a_stream_hears_of_a_newer_listener_elsewhere() {
    let store = Memory::new(Quotas::default());
    let (here, there) = (Rig::on(store.clone(), Bounds::default()), Rig::on(store.clone(), Bounds::default()));
    let mut old = stream(&here, 2, "1").await;
    assert_eq!(there.listen(2, "2", 0).await.status, 200);
    assert_eq!(old.last().await.as_deref(), Some("superseded"));
    let mut lost = stream(&here, 3, "1").await;
    store.claim_silently(key(3).did(), "2");
    store.tell(&Event::Resync);
    assert_eq!(lost.last().await.as_deref(), Some("superseded"), "news that was lost is asked for again");
}

#[tokio::test]
async fn the_same_listener_comes_back_and_has_everything_again() {
    let rig = Rig::new();
    rig.send(1, 2, "a").await;
    let mut first = stream(&rig, 2, "1").await;
    assert_eq!(first.letter().await, "a");
    let mut second = stream(&rig, 2, "1").await;
    assert_eq!(second.letter().await, "a", "it may not have arrived");
    assert_eq!(first.last().await, None, "told nothing: two connections must not chase each other");
}

#[tokio::test]
async fn a_hand_is_bounded_and_an_ack_makes_room() {
    let bounds = Bounds { max_batch: (2, 1_000), ..Bounds::default() };
    let rig = Rig::with(bounds, Quotas::default());
    for id in ["a", "b", "c", "d"] {
        rig.send(1, 2, id).await;
    }
    let mut south = stream(&rig, 2, "1").await;
    assert_eq!([south.letter().await, south.letter().await], ["a", "b"]);
    assert_eq!(rig.ack(2, "1", &["1"]).await.status, 200);
    assert_eq!(south.letter().await, "c");
    let there = Rig::on(rig.store.clone(), Bounds::default());
    assert_eq!(there.ack(2, "1", &["2"]).await.status, 200);
    assert_eq!(south.letter().await, "d", "acknowledged at another process");
}

#[tokio::test]
async fn large_letters_come_one_by_one() {
    let bounds = Bounds { max_batch: (100, 10), ..Bounds::default() };
    let rig = Rig::with(bounds, Quotas::default());
    for (n, blob) in [(1, "AAAA".repeat(5)), (2, "AAAA".to_owned()), (3, "AAAA".repeat(2))] {
        let id = n.to_string();
        let letter = muretai_protocol::relay::Deposit::sign(&key(1), key(2).did(), &"ab".repeat(32), &id, blob);
        assert_eq!(rig.post("/send", letter.to_json()).await.status, 200);
    }
    let mut south = stream(&rig, 2, "1").await;
    assert_eq!(south.letter().await, "1", "larger than any hand, into an empty one");
    rig.ack(2, "1", &["1"]).await;
    assert_eq!(south.letter().await, "2");
    rig.ack(2, "1", &["2"]).await;
    assert_eq!(south.letter().await, "3", "12 bytes were too many together");
}

#[tokio::test]
async fn what_is_not_acknowledged_comes_again() {
    let rig = Rig::with(Bounds { redeliver_after: Duration::from_millis(20), ..Bounds::default() }, Quotas::default());
    rig.send(1, 2, "a").await;
    let mut south = stream(&rig, 2, "1").await;
    assert_eq!([south.letter().await, south.letter().await, south.letter().await], ["a", "a", "a"]);
}

#[tokio::test]
async fn there_are_signs_of_life_and_an_end() {
    let bounds =
        Bounds { heartbeat: Duration::from_millis(320), stream_life: Duration::from_millis(700), ..Bounds::default() };
    let rig = Rig::with(bounds, Quotas::default());
    let mut south = stream(&rig, 2, "1").await;
    assert_eq!(south.next().await.unwrap(), Said { name: String::new(), data: String::new() });
    let mut last = None;
    while let Some(event) = south.next().await {
        last = Some(event);
    }
    assert_eq!(last.unwrap(), Said { name: "bye".to_owned(), data: "{}".to_owned() });
}

#[tokio::test]
async fn the_end_of_the_relay_is_told() {
    let rig = Rig::new();
    let mut south = stream(&rig, 2, "1").await;
    rig.stop.stop();
    assert_eq!(south.last().await.as_deref(), Some("bye"));
    let mut late = connect(&rig, &listen_target(3, "1", 0)).await;
    assert!(late.head().await[0].contains(" 503 "));
}

#[tokio::test]
async fn one_who_closes_is_gone_at_once() {
    let rig = Rig::new();
    let south = stream(&rig, 2, "1").await;
    drop(south);
    while rig.shared.hub.waiting() != (0, 0) {
        tokio::task::yield_now().await;
    }
    let mut chatty = stream(&rig, 2, "1").await;
    let _ = chatty.lines.get_mut().write_all(&[b'x'; 8_192]).await;
    assert_eq!(chatty.last().await, None);
}

#[tokio::test]
async fn one_who_does_not_read_is_left() {
    let rig = Rig::new();
    let blob = "A".repeat(900_000);
    for n in 0..16 {
        let id = n.to_string();
        let letter = muretai_protocol::relay::Deposit::sign(&key(n), key(2).did(), &"ab".repeat(32), &id, blob.clone());
        assert_eq!(rig.post("/send", letter.to_json()).await.status, 200);
    }
    let south = stream(&rig, 2, "1").await;
    // Acknowledged unseen, so that only the socket stands in the way.
    let mut qid = 0;
    while rig.shared.hub.waiting().1 == 1 {
        qid = qid % 16 + 1;
        rig.ack(2, "1", &[&qid.to_string()]).await;
        tokio::task::yield_now().await;
    }
    drop(south);
}

#[tokio::test]
async fn a_store_that_fails_does_not_end_a_stream() {
    let rig = Rig::new();
    let mut south = stream(&rig, 2, "1").await;
    rig.send(1, 2, "a").await;
    assert_eq!(south.letter().await, "a");
    rig.store.fail(true);
    rig.store.tell(&Event::Resync);
    rig.store.tell(&Event::Letter(key(2).did().clone()));
    tokio::task::yield_now().await;
    rig.store.fail(false);
    rig.send(1, 2, "b").await;
    assert_eq!(south.letter().await, "b");
}

#[tokio::test]
async fn an_idle_stream_is_small() {
    let rig = Rig::new();
    let acceptor = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (_near, far) = tokio::join!(TcpStream::connect(acceptor.local_addr().unwrap()), acceptor.accept());
    let head = head(Method::GET, &listen_target(2, "1", 0));
    let future = serve(&rig.shared, TakenOver { head, stream: far.unwrap().0 });
    assert!(size_of_val(&future) <= 1_024, "{} bytes", size_of_val(&future));
}
