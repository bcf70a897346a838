//! Requests and their answers.
use muretai_protocol::json::Value;
use muretai_relay::fetch_stats;
use muretai_transports::{ClientTimeouts, http::HttpTransport};

use super::rig::*;

#[tokio::test]
async fn a_letter_goes_through() {
    let relay = Running::start().await;
    relay.send(1, 2, "a").await;
    relay.send(1, 2, "a").await;
    assert_eq!(relay.ids(2, "1").await, ["a"]);
    assert!(relay.ids(2, "1").await.is_empty(), "in hand");
    let ack = relay.proof(2, "1", &[("qids", Value::Array(vec!["1".into(), "2".into(), "x".into()]))]);
    let answer = relay.post("/ack", &ack).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"acked":1}"#));
    assert!(relay.ids(2, "2").await.is_empty());
    relay.end().await;
}

#[tokio::test]
async fn what_is_acknowledged_is_there_after_a_restart_and_epochs_too() {
    let relay = Running::start().await;
    relay.send(1, 2, "a").await;
    assert_eq!(relay.ids(2, "5").await, ["a"]);
    let relay = relay.restart(options()).await;
    let old = relay.get(&relay.listen_target(2, "4", 0)).await;
    assert_eq!((old.status, old.code()), (409, -32_030));
    assert_eq!(relay.ids(2, "5").await, ["a"]);
    relay.end().await;
}

#[tokio::test]
async fn sizes_are_bounded() {
    let relay = Running::start().await;
    let refused = relay.post("/send", "").await;
    assert_eq!((refused.status, refused.code()), (400, -32_602), "zero bytes");
    let around = deposit(1, 2, "a", "AAAA").to_json().len() - 4;
    let fits = "A".repeat((1_048_576 - around) / 4 * 4);
    let whole = deposit(1, 2, "a", &fits).to_json();
    assert_eq!(relay.post("/send", &whole).await.status, 200, "{} bytes", whole.len());
    let over = vec![b' '; 1_048_577];
    assert_eq!(relay.post("/send", &over).await.status, 413);
    assert_eq!(relay.post("/rpc", &over).await.status, 413);
    for path in ["/card", "/i", "/ack"] {
        assert_eq!(relay.post(path, &over[..65_537]).await.status, 413, "{path}");
        assert_eq!(relay.post(path, &over[..65_536]).await.status, 400, "{path}");
    }
    let large = relay.get(&relay.listen_target(2, "1", 0)).await;
    assert!(large.status == 200 && large.body.contains(&fits));
    relay.end().await;
}

#[tokio::test]
async fn refusals_have_statuses_codes_and_times() {
    let mut options = options();
    options.quotas.sender_letters = 1;
    options.bounds.deposits_per_minute = Some(50);
    let relay = Running::with(options).await;
    relay.send(1, 2, "a").await;
    let forged = deposit(1, 2, "b", "AAAA").to_json().replace(key(1).did().as_str(), key(3).did().as_str());
    let refused = relay.post("/send", forged).await;
    assert_eq!((refused.status, refused.code()), (403, -32_001));
    let full = relay.post("/send", deposit(1, 2, "b", "AAAA").to_json()).await;
    assert_eq!((full.status, full.code(), full.header("retry-after")), (429, -32_004, Some("60")));
    assert!(full.body.contains(r#""data":{"bound":"senderLetters","limit":1}"#), "{}", full.body);
    relay.send(3, 2, "b").await;
    let stranger = relay.listen_target(2, "1", 0).replace(key(2).did().as_str(), key(3).did().as_str());
    let refused = relay.get(&stranger).await;
    assert_eq!((refused.status, refused.code()), (401, -32_001));
    assert!(refused.body.contains(r#""now":"#));
    for head in [&refused, &full] {
        assert_eq!(head.header("access-control-allow-origin"), Some("*"));
        assert_eq!(head.header("access-control-allow-credentials"), None);
    }
    relay.end().await;
}

#[tokio::test]
async fn the_host_header_decides_nothing() {
    let mut options = options();
    options.urls = vec!["https://relay.example/mail".to_owned(), "https://second.example".to_owned()];
    let relay = Running::with(options).await;
    assert_eq!(relay.url, "https://relay.example/mail");
    assert_eq!(relay.get("/health").await.status, 404, "it is served below its mount");
    assert_eq!(relay.get("/mail/health").await.body, r#"{"status":"ok"}"#);
    let target = format!("/mail{}", relay.listen_target(2, "1", 0));
    assert_eq!(relay.get(&target).await.status, 200);
    let (minute, _) = relay.token(2);
    let made_for = |origin: &str| {
        let token = muretai_protocol::relay::listen_token(&key(2), minute, origin);
        let token = token.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        format!(
            "GET /mail/listen?did={}&minute={minute}&epoch=1&token={token}&wait=0 HTTP/1.1\r\n\
             Host: elsewhere.example\r\nX-Forwarded-Host: elsewhere.example\r\nConnection: close\r\n\r\n",
            key(2).did()
        )
    };
    let address = relay.address;
    for (origin, status) in [
        ("https://second.example".to_owned(), 200),
        ("https://elsewhere.example".to_owned(), 401),
        ("http://elsewhere.example".to_owned(), 401),
        (format!("http://{address}"), 401),
    ] {
        assert_eq!(relay.raw(made_for(&origin).as_bytes()).await.status, status, "{origin}");
    }
    relay.end().await;
}

#[tokio::test]
async fn methods_and_paths_are_as_everywhere() {
    let relay = Running::start().await;
    let options = relay.raw(b"OPTIONS /send HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert_eq!((options.status, options.header("allow")), (204, Some("post, options")));
    let wrong = relay.get("/send").await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("post, options")));
    assert_eq!(relay.get("/nothing").await.status, 404);
    assert_eq!(relay.post("/nothing", "{}").await.status, 404);
    let head = relay.raw(b"HEAD /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(relay.get("/").await.body.contains("relay"));
    relay.end().await;
}

#[tokio::test]
async fn its_numbers_can_be_read() {
    let relay = Running::start().await;
    relay.send(1, 2, "a").await;
    let http = HttpTransport::client(ClientTimeouts::default());
    let stats = fetch_stats(&http, &relay.url).await.unwrap();
    let value = |name: &str, labels: &str| {
        stats.metrics.iter().find(|metric| metric.name == name && metric.labels == labels).unwrap().value
    };
    assert_eq!((value("deposits_total", "outcome=\"stored\""), value("letters", "")), (1.0, 1.0));
    assert!(stats.limits.iter().any(|limit| limit.name == "connections" && limit.value == 512.0));
    let forwarded = b"GET /metrics HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: close\r\n\r\n";
    assert_eq!(relay.raw(forwarded).await.status, 404);
    relay.end().await;
}

#[tokio::test]
async fn a_call_is_answered_over_the_network() {
    let relay = Running::start().await;
    let mut south = relay.stream(2, "1").await;
    let call = relay.post("/rpc", deposit(1, 2, "a", "AAAA").to_json());
    let answer = async {
        let (_, item) = south.event().await.unwrap();
        assert!(item.contains(r#""waits":true"#));
        let reply = relay.proof(2, "1", &[("qid", "1".into()), ("blob", "QUJD".into())]);
        assert_eq!(relay.post("/reply", &reply).await.body, r#"{"delivered":true}"#);
    };
    let (called, ()) = tokio::join!(call, answer);
    assert_eq!(called.body, r#"{"id":"a","queued":true,"reply":"QUJD"}"#);
    relay.end().await;
}
