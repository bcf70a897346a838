//! The client against friendly peers, hostile ones, and none at all.
use std::{error::Error, time::Duration};

use bytes::Bytes;
use muretai_protocol::limits::MAX_RESPONSE_BYTES;
use muretai_transports::{
    ClientTimeouts, Delivery, PeerAddress, Transport, TransportError,
    guard::{GuardError, Policy},
    http::{FetchOptions, Fetched, HttpTransport, ServerLimits},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::common::*;

fn client() -> HttpTransport {
    HttpTransport::client(ClientTimeouts::default())
}

/// For calls that are to run into a limit.
fn hasty() -> HttpTransport {
    HttpTransport::client(ClientTimeouts { connect: short(), total: short() })
}

fn options(max_bytes: usize, redirects: u8) -> FetchOptions {
    FetchOptions { policy: Policy::Owner, max_bytes, redirects }
}

async fn fetch(url: &str) -> Result<Fetched, TransportError> {
    client().fetch(url, &options(1_000, 5)).await
}

/// A server that answers every connection with these bytes, once it has read a request; then it closes.
async fn canned(answer: &str) -> String {
    let answer = answer.to_owned();
    hostile(move |mut stream| {
        let answer = answer.clone();
        async move {
            read_head(&mut stream).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
            // Until the client is done with it.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    })
    .await
}

async fn hostile<F, R>(behave: F) -> String
where
    F: Fn(TcpStream) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(behave(stream));
        }
    });
    url
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    while !text.windows(4).any(|window| window == b"\r\n\r\n") {
        if stream.read_buf(&mut text).await.unwrap_or(0) == 0 {
            break;
        }
    }
    String::from_utf8(text).unwrap()
}

fn redirect(status: u16, target: &str) -> String {
    format!("HTTP/1.1 {status} Moved\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n")
}

#[tokio::test]
async fn fetches_and_delivers() {
    let server = start("", ServerLimits::default()).await;
    let client = client();
    let base = format!("http://{}", server.address);
    let card = client.fetch(&format!("{base}/.well-known/agent-card.json"), &options(1_000, 0)).await.unwrap();
    assert_eq!((card.status, &card.body[..]), (200, &br#"{"name":"south"}"#[..]));
    assert_eq!(card.content_type.as_deref(), Some("application/json; charset=utf-8"));
    assert_eq!(client.fetch(&format!("{base}/nowhere"), &options(1_000, 0)).await.unwrap().status, 404);

    let route = client.route(&PeerAddress { url: Some(base), allow_private: true, ..PeerAddress::default() }).unwrap();
    for text in ["hello", "again"] {
        let Delivery::Answered(body) = client.deliver(&route, Bytes::from(text)).await.unwrap() else {
            panic!("queued")
        };
        assert_eq!(&body[..], text.as_bytes());
    }
}

#[tokio::test]
async fn routes_need_an_address_that_may_be_dialled() {
    let route = |url: &str, allow_private| {
        let peer = PeerAddress { url: Some(url.to_owned()), allow_private, ..PeerAddress::default() };
        client().route(&peer).map(|route| route.address)
    };
    assert_eq!(route("https://south.example", false).as_deref(), Some("https://south.example/"));
    assert_eq!(
        route("https://south.example/agents/south", false).as_deref(),
        Some("https://south.example/agents/south")
    );
    assert_eq!(route("http://[200:abcd::1]:8080", false).as_deref(), Some("http://[200:abcd::1]:8080/"));
    assert_eq!(route("http://127.0.0.1:80", false), None);
    assert_eq!(route("http://127.0.0.1:80", true).as_deref(), Some("http://127.0.0.1/"));
    for url in ["", "file:///x", "http://a/?q", "http://a/#f", "http://u:p@a/", "http://169.254.169.254"] {
        assert_eq!(route(url, true), None, "{url}");
    }
    assert!(client().route(&PeerAddress::default()).is_none());
}

#[tokio::test]
async fn requests_say_who_we_are_and_nothing_else() {
    let (sender, mut heads) = tokio::sync::mpsc::channel(1);
    let url = hostile(move |mut stream| {
        let sender = sender.clone();
        async move {
            sender.send(read_head(&mut stream).await).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\n\r\n{}").await.unwrap();
        }
    })
    .await;
    let client = client();
    for _ in 0..2 {
        let headers = [("a2a-version", "1.0".to_owned())];
        client.post(&url, Bytes::from_static(b""), &headers, Policy::Owner).await.unwrap();
        let head = heads.recv().await.unwrap().to_lowercase();
        assert!(head.contains(&format!("user-agent: muretai-rs/{}\r\n", env!("CARGO_PKG_VERSION"))), "{head}");
        assert!(head.contains("content-type: application/json\r\n") && head.contains("a2a-version: 1.0\r\n"), "{head}");
        for unwanted in ["cookie", "referer", "accept-encoding", "authorization"] {
            assert!(!head.contains(unwanted), "{head}");
        }
    }
}

#[tokio::test]
async fn the_guard_refuses_before_anything_is_sent() {
    let server = start("", ServerLimits::default()).await;
    let port = server.address.port();
    for (url, policy) in [
        (format!("http://127.0.0.1:{port}/"), Policy::Peer),
        (format!("http://2130706433:{port}/"), Policy::Peer),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), Policy::Peer),
        (format!("http://localhost:{port}/"), Policy::Peer),
        (format!("http://localhost:{port}/"), Policy::Public),
        ("http://169.254.169.254/latest/meta-data/".to_owned(), Policy::Owner),
        ("file:///etc/passwd".to_owned(), Policy::Owner),
        (format!("http://north:secret@127.0.0.1:{port}/"), Policy::Owner),
    ] {
        let error = client().post(&url, Bytes::new(), &[], policy).await.unwrap_err();
        assert!(matches!(error, TransportError::Refused { .. }), "{url}: {error:?}");
        assert!(error.is_unreachable());
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    let by_name = client().post(&format!("http://localhost:{port}/"), Bytes::new(), &[], Policy::Owner).await;
    assert_eq!(by_name.unwrap().status, 200);
}

#[tokio::test]
async fn a_refused_connection_is_unreachable_and_says_why() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let error = fetch(&url).await.unwrap_err();
    assert!(matches!(error, TransportError::Connect { .. }) && error.is_unreachable(), "{error:?}");
    assert_eq!(error.to_string(), format!("cannot connect to {url}"));
    assert!(error.source().unwrap().to_string().contains("refused"));
}

#[tokio::test]
async fn a_name_without_address_cannot_be_resolved() {
    let error = fetch("http://south.invalid/").await.unwrap_err();
    assert!(matches!(error, TransportError::Unresolvable { .. }) && error.is_unreachable(), "{error:?}");
}

#[tokio::test]
async fn a_silent_peer_runs_into_the_limit() {
    let url = hostile(|stream| async move {
        let _open = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let error = hasty().post(&url, Bytes::from_static(b"{}"), &[], Policy::Owner).await.unwrap_err();
    assert!(matches!(error, TransportError::Timeout { limit, .. } if limit == short()), "{error:?}");
    assert!(!error.is_unreachable(), "the peer may have it");
}

#[tokio::test]
async fn a_dripping_peer_runs_into_the_limit() {
    for head in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"] {
        let url = hostile(move |mut stream| async move {
            let mut tick = tokio::time::interval(Duration::from_millis(1));
            read_head(&mut stream).await;
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(b"x").await.is_ok() {
                tick.tick().await;
            }
        })
        .await;
        let client = HttpTransport::client(ClientTimeouts { connect: Duration::from_secs(5), total: short() });
        let error = client.fetch(&url, &options(1_048_576, 0)).await.unwrap_err();
        assert!(matches!(error, TransportError::Timeout { .. } | TransportError::NotHttp { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn answers_over_the_limit_are_not_read() {
    let endless = hostile(|mut stream| async move {
        read_head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        while stream.write_all(b"4\r\nspam\r\n").await.is_ok() {}
    })
    .await;
    let without_length = hostile(|mut stream| async move {
        read_head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 1_000]).await.is_ok() {}
    })
    .await;
    // Only promised: the body never comes, and is not waited for.
    let promised = hostile(|mut stream| async move {
        read_head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    for url in [endless, without_length, promised] {
        let error = fetch(&url).await.unwrap_err();
        assert!(matches!(error, TransportError::TooLarge { limit: 1_000, .. }), "{error:?}");
        assert!(!error.is_unreachable());
    }
    let at_limit = canned(&format!("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}", "x".repeat(1_000))).await;
    assert_eq!(fetch(&at_limit).await.unwrap().body.len(), 1_000);

    let over = "x".repeat(MAX_RESPONSE_BYTES + 1);
    let url =
        canned(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n{over}\r\n0\r\n\r\n")).await;
    let error = client().post(&url, Bytes::new(), &[], Policy::Owner).await.unwrap_err();
    assert!(matches!(error, TransportError::TooLarge { limit: MAX_RESPONSE_BYTES, .. }), "{error:?}");
}

#[tokio::test]
async fn half_an_answer_is_no_answer() {
    for text in [
        "",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        let error = fetch(&canned(text).await).await.unwrap_err();
        assert!(matches!(error, TransportError::Closed { .. }), "{text:?}: {error:?}");
        assert!(!error.is_unreachable(), "{text:?}");
    }
}

#[tokio::test]
async fn what_is_no_http_is_told() {
    for text in ["SSH-2.0-OpenSSH_9.6\r\n", "\x15\x03\x03\x00\x02\x02\x50", "HTTP/1.1 abc\r\n\r\n"] {
        let error = fetch(&canned(text).await).await.unwrap_err();
        assert!(matches!(error, TransportError::NotHttp { .. }), "{text:?}: {error:?}");
    }
    let huge = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(1_000_000));
    assert!(fetch(&canned(&huge).await).await.is_err());
}

#[tokio::test]
async fn https_towards_plain_http_is_a_tls_error() {
    let url = hostile(|mut stream| async move {
        let _ = stream.read_buf(&mut Vec::new()).await;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let error = fetch(&url.replace("http:", "https:")).await.unwrap_err();
    assert!(matches!(error, TransportError::Tls { .. }) && error.is_unreachable(), "{error:?}");
}

#[tokio::test]
async fn any_status_comes_back_with_its_body() {
    let url = canned("HTTP/1.1 418 Teapot\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>").await;
    let answer = client().post(&url, Bytes::new(), &[], Policy::Owner).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (418, &b"<html>"[..]));
    assert_eq!(answer.content_type.as_deref(), Some("text/html"));
}

async fn deliver(answer: &str) -> Result<Delivery, TransportError> {
    let peer = PeerAddress { url: Some(canned(answer).await), allow_private: true, ..PeerAddress::default() };
    let client = client();
    client.deliver(&client.route(&peer).unwrap(), Bytes::from_static(b"{}")).await
}

#[tokio::test]
async fn busy_peers_say_when_to_come_back() {
    for status in [429, 503] {
        let text = format!("HTTP/1.1 {status} Later\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
        let error = deliver(&text).await.unwrap_err();
        assert!(matches!(error, TransportError::Status { .. }), "{error:?}");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    }
    for (value, expected) in [("99999999999", Some(86_400)), ("Fri, 31 Dec 1999 23:59:59 GMT", None), ("-1", None)] {
        let text = format!("HTTP/1.1 503 Later\r\nRetry-After: {value}\r\nContent-Length: 0\r\n\r\n");
        let error = deliver(&text).await.unwrap_err();
        assert_eq!(error.retry_after(), expected.map(Duration::from_secs), "{value}");
    }
}

#[tokio::test]
async fn a_full_server_is_busy_and_not_broken() {
    let server = start("", ServerLimits { max_connections: 1, ..ServerLimits::default() }).await;
    let mut kept = Raw::connect(&server).await;
    kept.send(&post("in")).await;
    assert_eq!(kept.answer().await.unwrap().status, 200);
    for _ in 0..20 {
        let peer = PeerAddress {
            url: Some(format!("http://{}", server.address)),
            allow_private: true,
            ..PeerAddress::default()
        };
        let client = client();
        let error = client.deliver(&client.route(&peer).unwrap(), Bytes::from_static(b"{}")).await.unwrap_err();
        assert!(matches!(error, TransportError::Status { status: 503, .. }), "{error:?}");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
    }
}

#[tokio::test]
async fn json_rpc_is_an_answer_whatever_the_status() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}"#;
    for status in [200, 400, 401, 403, 500] {
        let len = error.len();
        let text =
            format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n{error}");
        assert!(deliver(&text).await.is_ok(), "{status}");
    }
    for text in [
        "HTTP/1.1 404 X\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
        "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 X\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{\"error\":\"not found\"}",
    ] {
        assert!(matches!(deliver(text).await, Err(TransportError::Status { .. })), "{text}");
    }
}

#[tokio::test]
async fn messages_do_not_follow_redirects() {
    let error = deliver(&redirect(307, "http://127.0.0.1:1/elsewhere")).await.unwrap_err();
    assert!(matches!(&error, TransportError::RedirectRefused { target, .. } if target.ends_with("/elsewhere")));
}

#[tokio::test]
async fn documents_follow_redirects_of_the_same_origin() {
    let url = hostile(|mut stream| async move {
        let head = read_head(&mut stream).await;
        let answer = match head.split(' ').nth(1).unwrap() {
            "/a" => redirect(301, "/b"),
            "/b" => redirect(302, "c?d=e"),
            _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len()),
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let found = fetch(&format!("{url}/a")).await.unwrap();
    assert_eq!((found.status, found.url), (200, format!("{url}/c?d=e")));
    assert!(!String::from_utf8_lossy(&found.body).to_lowercase().contains("referer"));

    let error = client().fetch(&format!("{url}/a"), &options(1_000, 0)).await.unwrap_err();
    assert!(matches!(error, TransportError::RedirectRefused { .. }), "{error:?}");
    let error = client().fetch(&format!("{url}/a"), &options(1_000, 1)).await.unwrap_err();
    assert!(matches!(error, TransportError::TooManyRedirects { limit: 1, .. }), "{error:?}");
}

#[tokio::test]
async fn redirects_do_not_lead_past_the_guard() {
    let other = start("", ServerLimits::default()).await;
    for (target, is_expected) in [
        ("http://169.254.169.254/latest/".to_owned(), "link-local"),
        (format!("http://127.0.0.1:{}/", other.address.port()), "loopback"),
        (format!("//127.0.0.1:{}/", other.address.port()), "loopback"),
        (format!("http://localhost:{}/", other.address.port()), "loopback"),
        ("http://10.0.0.1/".to_owned(), "private"),
        ("http://[::1]/".to_owned(), "loopback"),
        ("file:///etc/passwd".to_owned(), "scheme"),
        ("http://user:secret@127.0.0.1/".to_owned(), "user name"),
        (format!("/{}", "x".repeat(5_000)), "limit"),
    ] {
        // The owner named the first URL, and nothing else.
        let error = fetch(&canned(&redirect(302, &target)).await).await.unwrap_err();
        let TransportError::Refused { source, .. } = &error else { panic!("{target}: {error:?}") };
        assert!(source.to_string().contains(is_expected), "{target}: {source}");
        assert!(!format!("{error:?}").contains("secret"));
    }
}

#[tokio::test]
async fn a_redirect_loop_ends_after_five_hops() {
    let url = canned(&redirect(302, "/again")).await;
    let error = client().fetch(&url, &options(1_000, 250)).await.unwrap_err();
    assert!(matches!(error, TransportError::TooManyRedirects { limit: 5, .. }), "{error:?}");
}

#[tokio::test]
async fn a_redirect_without_target_is_a_status() {
    assert_eq!(fetch(&canned("HTTP/1.1 302 X\r\nContent-Length: 0\r\n\r\n").await).await.unwrap().status, 302);
    let url = canned(&redirect(302, "http://[bad/")).await;
    let error = fetch(&url).await.unwrap_err();
    assert!(matches!(error, TransportError::Refused { source: GuardError::Syntax { .. }, .. }), "{error:?}");
}

#[tokio::test]
async fn the_body_of_a_redirect_is_not_read() {
    let url = hostile(|mut stream| async move {
        let head = read_head(&mut stream).await;
        if head.starts_with("GET /end ") {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nend").await.unwrap();
            return;
        }
        let head = b"HTTP/1.1 302 X\r\nLocation: /end\r\nTransfer-Encoding: chunked\r\n\r\n";
        let _ = stream.write_all(head).await;
        while stream.write_all(b"4\r\nspam\r\n").await.is_ok() {}
    })
    .await;
    assert_eq!(&fetch(&url).await.unwrap().body[..], b"end");
}
