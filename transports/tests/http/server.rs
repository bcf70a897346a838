//! The server's addresses and answers, row by row (section 12.3).
use muretai_transports::{
    ClientTimeouts, Stop, Transport, TransportError,
    http::{HttpTransport, ServerLimits},
};

use crate::common::*;

const CARD: &str = "/.well-known/agent-card.json";

fn request(method: &str, target: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn assert_cors(answer: &Answer, methods: &str) {
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{answer:?}");
    assert_eq!(answer.header("access-control-allow-methods"), Some(methods), "{answer:?}");
    assert_eq!(answer.header("access-control-allow-headers"), Some("Content-Type"), "{answer:?}");
    assert_eq!(answer.header("access-control-max-age"), Some("600"), "{answer:?}");
    assert_eq!(answer.header("access-control-allow-credentials"), None, "{answer:?}");
}

#[tokio::test]
async fn answers_a_post_and_keeps_the_connection() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    for text in ["one", "two", "three"] {
        raw.send(&post(text)).await;
        let answer = raw.answer().await.unwrap();
        assert_eq!((answer.status, answer.text()), (200, text));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("connection"), None);
        assert_cors(&answer, "GET, HEAD, POST, OPTIONS");
    }
}

#[tokio::test]
async fn cards_are_served_on_their_paths() {
    let server = start("", ServerLimits::default()).await;
    let first = ask(&server, &request("GET", CARD)).await;
    let second = ask(&server, &request("GET", "/.well-known/agent.json")).await;
    assert_eq!((first.status, first.text()), (200, r#"{"name":"south"}"#));
    assert_eq!(first.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(first.body, second.body);
    assert_cors(&first, "GET, HEAD, OPTIONS");

    let head = ask(&server, &request("HEAD", CARD)).await;
    assert_eq!((head.status, head.header("content-length")), (200, Some("16")));
    assert_eq!(head.header("content-type"), first.header("content-type"));

    // The service has no signed card.
    for method in ["GET", "HEAD", "POST", "OPTIONS", "DELETE"] {
        assert_eq!(ask(&server, &request(method, "/.well-known/agent-card.sig.json")).await.status, 404, "{method}");
    }
}

#[tokio::test]
async fn head_does_not_disturb_the_next_request() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    raw.send(&request("HEAD", CARD)).await;
    assert_eq!(raw.answer_to(true).await.unwrap().status, 200);
    raw.send(&request("HEAD", "/nowhere")).await;
    assert_eq!(raw.answer_to(true).await.unwrap().status, 404);
    raw.send(&post("next")).await;
    assert_eq!(raw.answer().await.unwrap().text(), "next");
}

#[tokio::test]
async fn options_name_what_is_allowed() {
    let server = start("", ServerLimits::default()).await;
    for (target, allow) in [("/", "GET, HEAD, POST, OPTIONS"), (CARD, "GET, HEAD, OPTIONS")] {
        let answer = ask(&server, &request("OPTIONS", target)).await;
        assert_eq!((answer.status, answer.header("allow")), (204, Some(allow)), "{target}");
        assert_cors(&answer, allow);
    }
}

#[tokio::test]
async fn other_methods_get_405_with_allow() {
    let server = start("", ServerLimits::default()).await;
    for (method, target, allow) in [
        ("PUT", "/", "GET, HEAD, POST, OPTIONS"),
        ("DELETE", "/", "GET, HEAD, POST, OPTIONS"),
        ("BREW", "/", "GET, HEAD, POST, OPTIONS"),
        ("POST", CARD, "GET, HEAD, OPTIONS"),
        ("PUT", "/.well-known/agent.json", "GET, HEAD, OPTIONS"),
        ("POST", "/i/known", "GET, HEAD, OPTIONS"),
    ] {
        let answer = ask(&server, &request(method, target)).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{method} {target}");
        assert!(answer.text().starts_with(r#"{"error":"method not allowed""#));
        assert_cors(&answer, allow);
    }
}

#[tokio::test]
async fn anything_else_is_404() {
    let server = start("", ServerLimits::default()).await;
    for (method, target, has_detail) in [
        ("GET", "/index.html", false),
        ("POST", "/rpc", false),
        ("POST", "/a2a/v1", false),
        ("OPTIONS", "/rpc", false),
        ("OPTIONS", "*", false),
        ("GET", "/i/unknown", false),
        ("GET", "//", true),
        ("POST", "//evil.example/", true),
        ("GET", "http://evil.example/", true),
        ("POST", "http://127.0.0.1/", true),
        ("CONNECT", "evil.example:443", true),
        ("POST", "/?x=1", true),
        ("POST", "/?", true),
    ] {
        let answer = ask(&server, &request(method, target)).await;
        assert_eq!(answer.status, 404, "{method} {target}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.text().contains("\"detail\""), has_detail, "{method} {target}: {}", answer.text());
        assert_cors(&answer, "GET, POST, OPTIONS");
    }
}

#[tokio::test]
async fn a_post_to_a_guessed_path_does_not_break_the_connection() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    raw.send("POST /rpc HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").await;
    assert_eq!(raw.answer().await.unwrap().status, 404);
    raw.send("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n").await;
    assert_eq!(raw.answer().await.unwrap().text(), "notice");
    raw.send(&post("next")).await;
    assert_eq!(raw.answer().await.unwrap().text(), "next");
}

#[tokio::test]
async fn the_mount_has_a_notice_with_a_link() {
    let server = start("", ServerLimits::default()).await;
    let answer = ask(&server, &request("GET", "/")).await;
    assert_eq!((answer.status, answer.text()), (200, "notice"));
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    assert!(answer.header("link").unwrap().contains("service-desc"));
    assert_eq!(ask(&server, &request("GET", "/i/known")).await.text(), "invite");
}

#[tokio::test]
async fn a_path_mount_serves_below_its_path_and_nowhere_else() {
    let server = start("/agents/south/", ServerLimits::default()).await;
    for (method, target, status) in [
        ("GET", "/agents/south", 200),
        ("GET", "/agents/south/", 200),
        ("GET", "/agents/south//", 404),
        ("GET", "/agents/south/.well-known/agent-card.json", 200),
        ("GET", CARD, 404),
        ("GET", "/", 404),
        ("GET", "/agents", 404),
        ("OPTIONS", "/agents/south", 204),
        ("PUT", "/agents/south/", 405),
    ] {
        assert_eq!(ask(&server, &request(method, target)).await.status, status, "{method} {target}");
    }
    for target in ["/agents/south", "/agents/south/"] {
        let text = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(ask(&server, &text).await.text(), "hi");
    }
}

#[tokio::test]
async fn the_status_of_the_service_and_the_version_header_pass_through() {
    let server = start("", ServerLimits::default()).await;
    assert_eq!(ask(&server, &post("bad")).await.status, 400);
    let text = "POST / HTTP/1.1\r\nHost: a\r\nA2A-Version: 1.0\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(ask(&server, text).await.text(), "version 1.0");
}

#[tokio::test]
async fn http_1_0_is_answered_and_closed_unless_it_asks_otherwise() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    raw.send("POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na").await;
    assert_eq!(raw.answer().await.unwrap().text(), "a");
    raw.send("POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\nb").await;
    assert_eq!(raw.answer().await.unwrap().text(), "b");
    assert!(raw.is_closed().await);
}

#[tokio::test]
async fn a_panic_is_an_internal_error_and_not_the_end() {
    let server = start("", ServerLimits::default()).await;
    let answer = ask(&server, &post("panic")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("-32603"), "{}", answer.text());
    assert_eq!(ask(&server, &post("after")).await.text(), "after");
}

#[tokio::test]
async fn listens_on_ipv6() {
    let server = start_at("[::1]:0", "", ServerLimits::default()).await;
    assert!(server.address.to_string().starts_with("[::1]:"));
    assert_eq!(ask(&server, &post("six")).await.text(), "six");
}

#[tokio::test]
async fn says_why_it_cannot_listen() {
    let server = start("", ServerLimits::default()).await;
    let client = || HttpTransport::client(ClientTimeouts::default());
    let taken = client().bind(server.address, "", ServerLimits::default()).await.unwrap_err();
    assert_eq!(taken.to_string(), format!("cannot listen on {}", server.address));
    let mount = client().bind("127.0.0.1:0".parse().unwrap(), "a?b", ServerLimits::default()).await.unwrap_err();
    assert!(matches!(mount, TransportError::Mount { .. }));
    let unbound = client().listen(server.service.clone(), Stop::new()).await.unwrap_err();
    assert!(matches!(unbound, TransportError::NotBound));
}

#[tokio::test]
async fn the_connection_over_the_limit_is_refused_with_503() {
    let server = start("", ServerLimits { max_connections: 2, ..ServerLimits::default() }).await;
    let mut kept = [Raw::connect(&server).await, Raw::connect(&server).await];
    for raw in &mut kept {
        raw.send(&post("in")).await;
        assert_eq!(raw.answer().await.unwrap().text(), "in");
    }
    let mut third = Raw::connect(&server).await;
    third.send(&post("out")).await;
    let answer = third.answer().await.unwrap();
    assert_eq!((answer.status, answer.text()), (503, r#"{"error":"too many concurrent connections"}"#));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_cors(&answer, "GET, POST, OPTIONS");
    assert!(third.is_closed().await);

    kept[0].send("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbye").await;
    assert_eq!(kept[0].answer().await.unwrap().text(), "bye");
    assert!(kept[0].is_closed().await);
    // The place is free once the server's task has ended, a moment after the close is seen here.
    loop {
        let answer = ask(&server, &post("again")).await;
        if answer.status == 200 {
            break;
        }
        assert_eq!(answer.status, 503);
    }
}

#[tokio::test]
async fn however_many_come_at_once_each_is_told_why() {
    let server = start("", ServerLimits { max_connections: 0, ..ServerLimits::default() }).await;
    let mut many = Vec::new();
    for _ in 0..100 {
        many.push(Raw::connect(&server).await);
    }
    for raw in &mut many {
        assert_eq!(raw.answer().await.expect("an answer").status, 503);
    }
}

#[tokio::test]
async fn a_stop_finishes_what_is_under_way() {
    let server = start("", ServerLimits::default()).await;
    let (mut idle, mut busy) = (Raw::connect(&server).await, Raw::connect(&server).await);
    idle.send(&post("first")).await;
    assert_eq!(idle.answer().await.unwrap().status, 200);
    busy.send(&post("wait")).await;
    server.service.entered.notified().await;

    server.stop.stop();
    assert!(idle.is_closed().await);
    server.service.release.notify_one();
    let answer = busy.answer().await.unwrap();
    assert_eq!((answer.text(), answer.header("connection")), ("wait", Some("close")));
    assert!(busy.is_closed().await);
    server.task.await.unwrap();
    assert!(tokio::net::TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let server = start("", ServerLimits { stop_timeout: short(), ..ServerLimits::default() }).await;
    let mut busy = Raw::connect(&server).await;
    busy.send(&post("wait")).await;
    server.service.entered.notified().await;
    server.stop.stop();
    server.task.await.unwrap();
    assert!(busy.answer().await.is_none());
}
