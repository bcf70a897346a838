//! Sites behind the same framing: bodies, methods, targets, faults; and connections that a site takes over.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use muretai_transports::{
    Stop,
    http::{
        ServerLimits,
        site::{Answer as Given, Head, Request, Site, SiteServer, TakenOver},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Notify, Semaphore},
    task::JoinHandle,
};

use crate::common::{Answer, Raw, short};

/// Answers with what it saw. Some paths make it misbehave.
struct Mirror {
    stop: Stop,
    /// Told when `/wait` has begun.
    entered: Notify,
    /// One answer to `/wait` for each permit.
    release: Semaphore,
    /// Told when `/wait` was dropped before its end.
    dropped: Notify,
    /// Told when a connection was taken over.
    taken: Notify,
}

struct Told<'m>(&'m Mirror, bool);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.dropped.notify_one();
        }
    }
}

#[async_trait]
impl Site for Mirror {
    fn max_body_bytes(&self, head: &Head) -> usize {
        assert_ne!(head.path, "/panic-early");
        if head.method == "POST" && head.path != "/nowhere" { 16 } else { 0 }
    }

    async fn answer(&self, Request { head, body }: Request) -> Given {
        match head.path.as_str() {
            "/panic" => panic!("on request"),
            "/wait" => {
                let mut told = Told(self, false);
                self.entered.notify_one();
                self.release.acquire().await.unwrap().forget();
                told.1 = true;
            }
            "/nowhere" => return Given { allow: Some("GET, OPTIONS"), ..Given::json(404, "{}") },
            "/full" => return Given { retry_after: Some(7), ..Given::json(503, "{}") },
            "/odd" => return Given::json(1, "{}"),
            "/large" => return Given::json(200, vec![b'x'; crate::common::LARGE]),
            "/nothing" => return Given { content_type: "", allow: Some("POST, OPTIONS"), ..Given::json(204, "") },
            _ => {}
        }
        let Head { method, path, query, accepts_events, is_forwarded, .. } = head;
        let text =
            format!("{method} {path} {query:?} {accepts_events} {is_forwarded} {}", String::from_utf8_lossy(&body));
        Given::json(200, text)
    }

    fn takes_over(&self, head: &Head) -> bool {
        assert_ne!(head.path, "/panic-judging");
        assert_eq!(head.method, "GET");
        head.path == "/stream" && head.accepts_events
    }

    async fn take_over(&self, TakenOver { head, mut stream }: TakenOver) {
        let query = head.query.unwrap_or_default();
        assert_ne!(query, "panic");
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{query}", query.len());
        stream.write_all(text.as_bytes()).await.unwrap();
        self.taken.notify_one();
        let mut more = Vec::new();
        tokio::select! {
            read = stream.read_buf(&mut more) => if read.is_ok() { stream.write_all(&more).await.unwrap() },
            () = self.stop.stopped() => stream.write_all(b"bye").await.unwrap(),
        }
    }
}

struct Running {
    address: SocketAddr,
    site: Arc<Mirror>,
    task: JoinHandle<()>,
}

async fn start(mount: &str, limits: ServerLimits) -> Running {
    let server = SiteServer::bind("127.0.0.1:0".parse().unwrap(), mount, limits).await.unwrap();
    let (address, stop) = (server.local_addr(), Stop::new());
    let site = Arc::new(Mirror {
        stop: stop.clone(),
        entered: Notify::new(),
        release: Semaphore::new(0),
        dropped: Notify::new(),
        taken: Notify::new(),
    });
    let task = tokio::spawn({
        let site = Arc::clone(&site);
        async move { server.run(site, stop).await.unwrap() }
    });
    Running { address, site, task }
}

impl Running {
    async fn connect(&self) -> Raw {
        Raw::of(TcpStream::connect(self.address).await.unwrap())
    }

    async fn ask(&self, text: &str) -> Answer {
        let mut raw = self.connect().await;
        raw.send(text).await;
        raw.answer_to(text.starts_with("HEAD")).await.expect("an answer")
    }
}

fn request(method: &str, target: &str, lines: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: relay.example\r\n{lines}\r\n")
}

fn post(target: &str, body: &str) -> String {
    format!("{}{body}", request("POST", target, &format!("Content-Length: {}\r\n", body.len())))
}

fn stream(query: &str) -> String {
    request("GET", &format!("/stream?{query}"), "Accept: text/event-stream\r\n")
}

#[tokio::test]
async fn a_site_sees_methods_paths_queries_and_bodies() {
    let server = start("/relay", ServerLimits::default()).await;
    let mut raw = server.connect().await;
    for (text, seen) in [
        (request("GET", "/relay", ""), "GET / None false false "),
        (request("GET", "/relay/?", ""), "GET / Some(\"\") false false "),
        (request("GET", "/relay/a/b?c=%20d&e", ""), "GET /a/b Some(\"c=%20d&e\") false false "),
        (request("GET", "/relay/%61/./..", ""), "GET /%61/./.. None false false "),
        (post("/relay/send", "hello"), "POST /send None false false hello"),
        (post("/relay/send", ""), "POST /send None false false "),
        (request("OPTIONS", "/relay/send", ""), "OPTIONS /send None false false "),
        (request("BREW", "/relay/send", ""), "BREW /send None false false "),
        (request("GET", "/relay/", "Accept: a/b, Text/Event-Stream;q=1\r\n"), "GET / None true false "),
        (request("GET", "/relay/", "Accept: */*\r\nAccept: text/event-stream-2\r\n"), "GET / None false false "),
        (request("GET", "/relay/", "X-Forwarded-For: 127.0.0.1\r\n"), "GET / None false true "),
        (request("GET", "/relay/", "Forwarded: for=127.0.0.1\r\n"), "GET / None false true "),
        (request("GET", "/relay/", "via: 1.1 south\r\n"), "GET / None false true "),
    ] {
        raw.send(&text).await;
        let answer = raw.answer().await.unwrap();
        assert_eq!((answer.status, answer.text()), (200, seen), "{text}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert_eq!(answer.header("access-control-allow-methods"), Some("GET, POST, OPTIONS"));
    }
}

#[tokio::test]
async fn only_paths_below_the_mount_reach_a_site() {
    let plain = start("", ServerLimits::default()).await;
    let mounted = start("/relay", ServerLimits::default()).await;
    for (server, target) in [
        (&plain, "//"),
        (&plain, "//relay.example/send"),
        (&plain, "http://relay.example/send"),
        (&plain, "https://other.example"),
        (&plain, "*"),
        (&mounted, "/"),
        (&mounted, "/send"),
        (&mounted, "/relays"),
        (&mounted, "/relay//send"),
        (&mounted, "//relay/send"),
        (&mounted, "http://relay.example/relay/send"),
    ] {
        for method in ["GET", "OPTIONS", "POST"] {
            let mut raw = server.connect().await;
            raw.send(&format!("{}hello", request(method, target, "Content-Length: 5\r\n"))).await;
            assert_eq!(raw.answer().await.unwrap().status, 404, "{method} {target}");
            let usual = if std::ptr::eq(server, &plain) { "/send" } else { "/relay/send" };
            raw.send(&post(usual, "next")).await;
            assert_eq!(raw.answer().await.unwrap().text(), "POST /send None false false next", "{method} {target}");
        }
        let taken = format!("GET {target}stream HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n");
        assert!(matches!(server.ask(&taken).await.status, 400 | 404), "{taken}");
    }
    assert_eq!(plain.ask(&request("CONNECT", "relay.example:443", "")).await.status, 404);
}

#[tokio::test]
async fn the_host_header_changes_nothing() {
    let server = start("", ServerLimits::default()).await;
    for host in ["other.example", "127.0.0.1", "a b", "", "/relay", "http://x/"] {
        let answer = server.ask(&format!("GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
        assert_eq!(answer.text(), "GET /a None false false ", "{host}");
    }
    assert_eq!(server.ask("GET /a HTTP/1.1\r\n\r\n").await.status, 400);
    assert_eq!(server.ask("GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").await.status, 400);
}

#[tokio::test]
async fn bodies_are_read_as_far_as_the_site_allows() {
    let server = start("", ServerLimits { drain_bytes: 64, ..ServerLimits::default() }).await;
    assert_eq!(server.ask(&post("/a", &"x".repeat(16))).await.status, 200);
    let mut raw = server.connect().await;
    raw.send(&post("/a", &"x".repeat(17))).await;
    let answer = raw.answer().await.unwrap();
    assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
    assert!(answer.text().contains("larger than 16 bytes"), "{}", answer.text());
    assert!(raw.is_closed().await);
    let chunked = "Transfer-Encoding: chunked\r\n";
    let text = format!("{}11\r\n{}\r\n0\r\n\r\n", request("POST", "/a", chunked), "x".repeat(17));
    assert_eq!(server.ask(&text).await.status, 413);
    let waiting = request("POST", "/a", "Content-Length: 17\r\nExpect: 100-continue\r\n");
    assert_eq!(server.ask(&waiting).await.status, 413);
    for text in [
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ] {
        assert_eq!(server.ask(text).await.status, 400, "{text}");
    }
}

#[tokio::test]
async fn unwanted_bodies_are_read_away_and_the_site_answers() {
    let server = start("", ServerLimits { drain_bytes: 64, ..ServerLimits::default() }).await;
    let mut raw = server.connect().await;
    raw.send(&post("/nowhere", &"x".repeat(60))).await;
    let answer = raw.answer().await.unwrap();
    assert_eq!((answer.status, answer.header("allow"), answer.header("connection")), (404, Some("GET, OPTIONS"), None));
    raw.send(&format!("{}hello", request("GET", "/b", "Content-Length: 5\r\n"))).await;
    assert_eq!(raw.answer().await.unwrap().text(), "GET /b None false false ");
    raw.send(&post("/nowhere", &"x".repeat(65))).await;
    let answer = raw.answer().await.unwrap();
    assert_eq!((answer.status, answer.header("connection")), (404, Some("close")));
    assert!(raw.is_closed().await);
}

#[tokio::test]
async fn answers_carry_what_the_site_says() {
    let server = start("", ServerLimits::default()).await;
    let full = server.ask(&request("GET", "/full", "")).await;
    assert_eq!((full.status, full.header("retry-after")), (503, Some("7")));
    assert_eq!(server.ask(&request("GET", "/odd", "")).await.status, 500);
    let nothing = server.ask(&request("OPTIONS", "/nothing", "")).await;
    assert_eq!((nothing.status, nothing.header("content-type")), (204, None));
    assert_eq!(nothing.header("allow"), Some("POST, OPTIONS"));
    assert_eq!(nothing.header("access-control-allow-methods"), Some("POST, OPTIONS"));
}

#[tokio::test]
async fn head_is_answered_as_get_without_the_body() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = server.connect().await;
    raw.send(&request("HEAD", "/a", "")).await;
    let answer = raw.answer_to(true).await.unwrap();
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("24")));
    raw.send(&request("GET", "/a", "")).await;
    assert_eq!(raw.answer().await.unwrap().text(), "GET /a None false false ");
}

#[tokio::test]
async fn a_panic_is_a_500_and_not_the_end() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = server.connect().await;
    for target in ["/panic", "/panic-early", "/panic-judging"] {
        let mut raw = server.connect().await;
        raw.send(&request("GET", target, "")).await;
        let answer = raw.answer().await.unwrap();
        assert_eq!(answer.status, 500, "{target}");
        assert!(answer.text().contains("-32603"), "{}", answer.text());
    }
    raw.send(&request("GET", "/after", "")).await;
    assert_eq!(raw.answer().await.unwrap().status, 200);
    let mut raw = server.connect().await;
    raw.send(&stream("panic")).await;
    assert!(raw.answer().await.is_none());
    assert_eq!(server.ask(&stream("after")).await.text(), "after");
}

#[tokio::test]
async fn limits_and_timeouts_are_those_of_agents() {
    let limits =
        ServerLimits { max_head_bytes: 256, head_timeout: short(), request_timeout: short(), ..Default::default() };
    let server = start("", limits).await;
    assert_eq!(server.ask(&request("GET", "/a", &format!("A: {}\r\n", "b".repeat(256)))).await.status, 431);
    assert_eq!(server.ask("GET /a HTTP/1.1\r\nHost: a\r\n").await.status, 408);
    assert_eq!(server.ask("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nh").await.status, 408);
    let none = start("", ServerLimits { max_connections: 0, ..ServerLimits::default() }).await;
    let answer = none.ask(&request("GET", "/a", "")).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_waiting_one_is_not() {
    let server = start("", ServerLimits { keep_alive: short(), ..ServerLimits::default() }).await;
    let (mut idle, mut waiting) = (server.connect().await, server.connect().await);
    waiting.send(&request("GET", "/wait", "")).await;
    server.site.entered.notified().await;
    idle.send(&request("GET", "/a", "")).await;
    assert_eq!(idle.answer().await.unwrap().status, 200);
    assert!(idle.is_closed().await);
    server.site.release.add_permits(1);
    assert_eq!(waiting.answer().await.unwrap().status, 200);
    assert!(waiting.is_closed().await);
}

#[tokio::test]
async fn an_answer_is_dropped_when_nobody_waits_for_it() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = server.connect().await;
    raw.send(&request("GET", "/wait", "")).await;
    server.site.entered.notified().await;
    drop(raw);
    server.site.dropped.notified().await;
}

#[tokio::test]
async fn who_only_stops_sending_gets_an_answer() {
    let server = start("", ServerLimits::default()).await;
    for target in ["/a", "/wait"] {
        let mut raw = server.connect().await;
        raw.send(&request("GET", target, "")).await;
        raw.stream.shutdown().await.unwrap();
        server.site.release.add_permits(1);
        assert_eq!(raw.answer().await.unwrap().status, 200, "{target}");
        assert!(raw.is_closed().await);
        server.site.release.forget_permits(1);
    }
    // Larger than the sockets hold, so that its writing waits for the reader.
    let mut raw = server.connect().await;
    raw.send(&request("GET", "/large", "")).await;
    raw.stream.shutdown().await.unwrap();
    assert_eq!(raw.answer().await.unwrap().body.len(), crate::common::LARGE);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = server.connect().await;
    let bad = "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
    let text =
        [&request("GET", "/wait", ""), &post("/a", "one"), &post("/nowhere", "x"), &request("GET", "/b", ""), bad];
    raw.send(&text.concat()).await;
    server.site.entered.notified().await;
    server.site.release.add_permits(1);
    for seen in ["GET /wait None false false ", "POST /a None false false one", "{}", "GET /b None false false "] {
        assert_eq!(raw.answer().await.unwrap().text(), seen);
    }
    assert_eq!(raw.answer().await.unwrap().status, 400);
    assert!(raw.is_closed().await);
}

#[tokio::test]
async fn a_connection_is_taken_over_whole() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = server.connect().await;
    raw.send(&stream("first")).await;
    let answer = raw.answer().await.unwrap();
    assert_eq!((answer.text(), answer.headers.len()), ("first", 1));
    // From here on, nothing on it is HTTP.
    raw.send("\u{0}any bytes").await;
    let mut rest = String::new();
    raw.stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "\u{0}any bytes");
}

#[tokio::test]
async fn a_head_in_pieces_is_taken_over() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = server.connect().await;
    for byte in stream("slow").bytes() {
        raw.stream.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(raw.answer().await.unwrap().text(), "slow");
}

#[tokio::test]
async fn answers_that_are_owed_come_before_the_take_over() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = server.connect().await;
    raw.send(&request("GET", "/a", "")).await;
    assert_eq!(raw.answer().await.unwrap().status, 200);
    let (wait, large) = (request("GET", "/wait", ""), request("GET", "/large", ""));
    raw.send(&format!("{wait}{large}{}{}", post("/b", "x"), stream("last"))).await;
    server.site.entered.notified().await;
    server.site.release.add_permits(1);
    assert_eq!(raw.answer().await.unwrap().text(), "GET /wait None false false ");
    assert_eq!(raw.answer().await.unwrap().body.len(), crate::common::LARGE);
    assert_eq!(raw.answer().await.unwrap().text(), "POST /b None false false x");
    assert_eq!(raw.answer().await.unwrap().text(), "last");
}

#[tokio::test]
async fn what_cannot_be_taken_over_is_refused() {
    let server = start("", ServerLimits::default()).await;
    let events = "Accept: text/event-stream\r\n";
    let with_body = format!("{}hello", request("GET", "/stream?x", &format!("{events}Content-Length: 5\r\n")));
    let chunked = request("GET", "/stream?x", &format!("{events}Transfer-Encoding: chunked\r\n"));
    for (text, status) in [
        (format!("{}{}", stream("x"), request("GET", "/a", "")), 400),
        (format!("{}x", stream("x")), 400),
        (with_body, 400),
        (format!("{chunked}0\r\n\r\n"), 400),
        (request("HEAD", "/stream?x", events), 405),
    ] {
        assert_eq!(server.ask(&text).await.status, status, "{text}");
    }
    let other = server.ask(&request("POST", "/stream?x", &format!("{events}Content-Length: 0\r\n"))).await;
    assert_eq!(other.text(), "POST /stream Some(\"x\") true false ");
    assert_eq!(server.ask(&stream("")).await.status, 200);
}

#[tokio::test]
async fn a_connection_that_was_taken_over_counts_until_its_end() {
    let server = start("", ServerLimits { max_connections: 1, ..ServerLimits::default() }).await;
    let mut taken = server.connect().await;
    taken.send(&stream("one")).await;
    assert_eq!(taken.answer().await.unwrap().text(), "one");
    assert_eq!(server.ask(&request("GET", "/a", "")).await.status, 503);
    drop(taken);
    // The place is free once the server's task has ended, a moment after.
    while server.ask(&request("GET", "/a", "")).await.status != 200 {}
}

#[tokio::test]
async fn a_stop_finishes_answers_and_waits_for_the_site_to_say_goodbye() {
    let server = start("", ServerLimits { keep_alive: Duration::from_secs(60), ..ServerLimits::default() }).await;
    let (mut idle, mut busy, mut taken) = (server.connect().await, server.connect().await, server.connect().await);
    idle.send(&request("GET", "/a", "")).await;
    assert_eq!(idle.answer().await.unwrap().status, 200);
    busy.send(&request("GET", "/wait", "")).await;
    server.site.entered.notified().await;
    taken.send(&stream("one")).await;
    assert_eq!(taken.answer().await.unwrap().text(), "one");
    server.site.stop.stop();
    assert!(idle.is_closed().await);
    let mut rest = String::new();
    taken.stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "bye");
    server.site.release.add_permits(1);
    assert_eq!(busy.answer().await.unwrap().text(), "GET /wait None false false ");
    assert!(busy.is_closed().await);
    server.task.await.unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever_for_a_site() {
    let server = start("", ServerLimits { stop_timeout: short(), ..ServerLimits::default() }).await;
    let mut busy = server.connect().await;
    busy.send(&request("GET", "/wait", "")).await;
    server.site.entered.notified().await;
    server.site.stop.stop();
    server.task.await.unwrap();
    assert!(busy.answer().await.is_none());
}
