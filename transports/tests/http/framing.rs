//! Framing, limits and timeouts: what a hostile or broken client can try on a raw connection.
use muretai_transports::http::ServerLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::*;

/// Requests whose end parsers could see at different places, or that are no requests.
const AMBIGUOUS: &[&str] = &[
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\ncontent-length: 6\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
    "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: five\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\n Content-Length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nA: b\r\n folded\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "nonsense\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\nHost: a\n\n",
    "GET / HTTP/1.1\r\nHost: a\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n\n",
    "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a\u{1}b HTTP/1.1\r\nHost: a\r\n\r\n",
];

fn assert_rpc_error(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"), "{answer:?}");
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{answer:?}");
    let start = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":""#);
    assert!(answer.text().starts_with(&start), "{}", answer.text());
}

#[tokio::test]
async fn ambiguous_requests_get_400_and_the_connection_ends() {
    let server = start("", ServerLimits::default()).await;
    for text in AMBIGUOUS {
        let mut raw = Raw::connect(&server).await;
        raw.send(text).await;
        assert_rpc_error(&raw.answer().await.unwrap_or_else(|| panic!("no answer: {text}")), 400, "-32600");
        assert!(raw.is_closed().await, "{text}");
    }
    assert_eq!(ask(&server, &post("still here")).await.text(), "still here");
}

#[tokio::test]
async fn ambiguous_requests_are_seen_behind_good_ones() {
    let server = start("", ServerLimits::default()).await;
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n";
    for text in AMBIGUOUS {
        let mut raw = Raw::connect(&server).await;
        raw.send(&format!("{}{chunked}{text}{}", post("good"), post("never seen"))).await;
        for _ in 0..2 {
            assert_eq!(raw.answer().await.unwrap().text(), "good");
        }
        assert_rpc_error(&raw.answer().await.unwrap(), 400, "-32600");
        assert!(raw.is_closed().await, "{text}");
    }
}

#[tokio::test]
async fn the_refusal_waits_for_the_answers_before_it() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    raw.send(&format!("{}{}", post("wait"), AMBIGUOUS[0])).await;
    server.service.entered.notified().await;
    server.service.release.notify_one();
    assert_eq!(raw.answer().await.unwrap().text(), "wait");
    assert_eq!(raw.answer().await.unwrap().status, 400);
}

#[tokio::test]
async fn line_noise_is_told_at_once_that_this_is_http() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    raw.stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").await.unwrap();
    assert_rpc_error(&raw.answer().await.unwrap(), 400, "-32600");
}

#[tokio::test]
async fn chunked_bodies_are_read() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    for (body, text) in [
        ("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world"),
        ("5;ext=1\r\nhello\r\n0\r\nTrailer: x\r\n\r\n", "hello"),
        ("0\r\n\r\n", ""),
    ] {
        raw.send(&format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}")).await;
        assert_eq!(raw.answer().await.unwrap().text(), text);
    }
}

#[tokio::test]
async fn malformed_chunks_end_the_connection() {
    let server = start("", ServerLimits::default()).await;
    for body in [
        "x\r\n",
        "5\nhello",
        "5\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "fffffffffffffffff\r\n",
        "5 5\r\nhello\r\n",
    ] {
        let mut raw = Raw::connect(&server).await;
        raw.send(&format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}")).await;
        assert_rpc_error(&raw.answer().await.unwrap(), 400, "-32600");
        assert!(raw.is_closed().await, "{body:?}");
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    let texts: Vec<String> = (0..60).map(|n| format!("number {n} {}", "x".repeat(n * 20))).collect();
    raw.send(&texts.iter().map(|text| post(text)).collect::<String>()).await;
    for text in &texts {
        assert_eq!(raw.answer().await.unwrap().text(), text);
    }
}

#[tokio::test]
async fn a_request_may_come_in_single_bytes() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    raw.stream.set_nodelay(true).unwrap();
    for text in
        [post("slowly"), "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".into()]
    {
        for byte in text.as_bytes() {
            raw.stream.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(raw.answer().await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn requests_cut_anywhere_are_read_the_same() {
    let server = start("", ServerLimits::default()).await;
    let large = "y".repeat(9_000);
    let chunked =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\n1\r\nc\r\n0\r\nT: u\r\n\r\n";
    let text = format!("{}{chunked}GET / HTTP/1.1\r\nHost: a\r\n\r\n{}{}", post("one"), post(&large), post("last"));
    for cut in [1, 2, 3, 7, 64, 101, 1_000, 8_191, 8_192, 8_193, 30_000] {
        let raw = Raw::connect(&server).await;
        raw.stream.set_nodelay(true).unwrap();
        let (read, mut write) = raw.stream.into_split();
        let text = text.clone();
        let writing = tokio::spawn(async move {
            for piece in text.as_bytes().chunks(cut) {
                write.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            write
        });
        let mut raw = Raw::of(read);
        for expected in ["one", "abc", "notice", &large, "last"] {
            assert_eq!(raw.answer().await.unwrap().text(), expected, "cut at {cut}");
        }
        drop(writing.await.unwrap());
        assert!(raw.is_closed().await);
    }
}

#[tokio::test]
async fn limits_without_bound_are_no_overflow() {
    let limits = ServerLimits {
        max_body_bytes: usize::MAX,
        max_connections: usize::MAX,
        head_timeout: std::time::Duration::MAX,
        request_timeout: std::time::Duration::MAX,
        keep_alive: std::time::Duration::MAX,
        write_timeout: std::time::Duration::MAX,
        drain_bytes: usize::MAX,
        max_head_bytes: usize::MAX,
        stop_timeout: std::time::Duration::MAX,
    };
    let server = start("", limits).await;
    let mut raw = Raw::connect(&server).await;
    for text in ["one", "two"] {
        raw.send(&post(text)).await;
        assert_eq!(raw.answer().await.unwrap().text(), text);
    }
    server.stop.stop();
    server.task.await.unwrap();
}

#[tokio::test]
async fn empty_lines_between_requests_are_skipped() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    raw.send(&format!("\r\n{}\r\n\r\n{}", post("one"), post("two"))).await;
    assert_eq!(raw.answer().await.unwrap().text(), "one");
    assert_eq!(raw.answer().await.unwrap().text(), "two");
}

#[tokio::test]
async fn a_client_that_ends_its_side_still_gets_its_answer() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    raw.send(&post("wait")).await;
    raw.stream.shutdown().await.unwrap();
    server.service.entered.notified().await;
    server.service.release.notify_one();
    assert_eq!(raw.answer().await.unwrap().text(), "wait");
    assert!(raw.is_closed().await);
}

#[tokio::test]
async fn a_body_that_ends_too_early_is_no_request() {
    let server = start("", ServerLimits::default()).await;
    let mut raw = Raw::connect(&server).await;
    raw.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nhello").await;
    raw.stream.shutdown().await.unwrap();
    assert_rpc_error(&raw.answer().await.unwrap(), 400, "-32600");
}

#[tokio::test]
async fn heads_have_a_size() {
    let server = start("", ServerLimits::default()).await;
    let fits = format!("POST / HTTP/1.1\r\nHost: a\r\nA: {}\r\nContent-Length: 2\r\n\r\nhi", "x".repeat(16_000));
    assert_eq!(ask(&server, &fits).await.text(), "hi");
    for text in [
        format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "x".repeat(20_000)),
        format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}", "x".repeat(300_000)),
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(20_000)),
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(65)),
    ] {
        let mut raw = Raw::connect(&server).await;
        // The server may close before all of it is sent.
        let _ = raw.stream.write_all(text.as_bytes()).await;
        assert_rpc_error(&raw.answer().await.unwrap(), 431, "-32600");
    }
}

fn small() -> ServerLimits {
    ServerLimits { max_body_bytes: 10_000, drain_bytes: 4_000_000, ..ServerLimits::default() }
}

#[tokio::test]
async fn a_body_at_the_limit_passes_and_one_byte_more_does_not() {
    let server = start("", ServerLimits::default()).await;
    let limit = 1_048_576;
    assert_eq!(ask(&server, &post(&"x".repeat(limit))).await.body.len(), limit);
    assert_rpc_error(&ask(&server, &post(&"x".repeat(limit + 1))).await, 413, "-32600");
    let chunked = |len: usize| {
        format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{len:x}\r\n{}\r\n0\r\n\r\n",
            "x".repeat(len)
        )
    };
    assert_eq!(ask(&server, &chunked(limit)).await.body.len(), limit);
    let answer = ask(&server, &chunked(limit + 1)).await;
    assert_rpc_error(&answer, 413, "-32600");
    assert!(answer.text().contains("larger than 1048576 bytes"));
}

#[tokio::test]
async fn an_oversized_upload_is_read_away_so_that_the_sender_sees_why() {
    let server = start("", small()).await;
    // Larger than what the sockets can hold: without draining, writing would fail.
    let answer = ask(&server, &post(&"x".repeat(3_500_000))).await;
    assert_rpc_error(&answer, 413, "-32600");
    let guessed = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3500000\r\n\r\n{}", "x".repeat(3_500_000));
    assert_eq!(ask(&server, &guessed).await.status, 405);
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let server = start("", small()).await;
    for head in [
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /guess HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        let raw = Raw::connect(&server).await;
        let (mut read, mut write) = raw.stream.into_split();
        let flood = tokio::spawn(async move {
            write.write_all(head.as_bytes()).await?;
            loop {
                write.write_all(b"1000\r\n").await?;
                write.write_all(&[b'x'; 4096]).await?;
                write.write_all(b"\r\n").await?;
            }
            #[allow(unreachable_code)]
            Ok::<(), std::io::Error>(())
        });
        assert!(flood.await.unwrap().is_err(), "the server reads for ever");
        // What is left of the answer may be lost with the connection; the server is not.
        let mut text = Vec::new();
        let _ = read.read_to_end(&mut text).await;
    }
    assert_eq!(ask(&server, &post("still here")).await.text(), "still here");
}

#[tokio::test]
async fn lengths_that_no_body_has_are_too_large() {
    let server = start("", ServerLimits::default()).await;
    for length in ["18446744073709551616", "99999999999999999999999999", "9223372036854775808"] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        assert_rpc_error(&ask(&server, &text).await, 413, "-32600");
    }
}

#[tokio::test]
async fn expect_100_continue_works() {
    let server = start("", small()).await;
    let mut raw = Raw::connect(&server).await;
    raw.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n").await;
    assert_eq!(raw.answer().await.unwrap().status, 100);
    raw.send("hello").await;
    assert_eq!(raw.answer().await.unwrap().text(), "hello");

    raw.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10001\r\n\r\n").await;
    assert_rpc_error(&raw.answer().await.unwrap(), 413, "-32600");
    assert!(raw.is_closed().await);
}

#[tokio::test]
async fn a_stalled_head_is_answered_408() {
    let server = start("", ServerLimits { head_timeout: short(), ..ServerLimits::default() }).await;
    for text in ["", "\r\n", "POST", "POST / HTTP/1.1\r\nHost: a\r\nContent-Le"] {
        let mut raw = Raw::connect(&server).await;
        raw.send(text).await;
        assert_rpc_error(&raw.answer().await.unwrap(), 408, "-32600");
        assert!(raw.is_closed().await);
    }
    // The same behind a good request.
    let mut raw = Raw::connect(&server).await;
    raw.send(&format!("{}POST /", post("good"))).await;
    assert_eq!(raw.answer().await.unwrap().text(), "good");
    assert_rpc_error(&raw.answer().await.unwrap(), 408, "-32600");
}

#[tokio::test]
async fn a_stalled_body_is_answered_408() {
    let server = start("", ServerLimits { request_timeout: short(), ..ServerLimits::default() }).await;
    for text in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        let mut raw = Raw::connect(&server).await;
        raw.send(text).await;
        assert_rpc_error(&raw.answer().await.unwrap(), 408, "-32600");
        assert!(raw.is_closed().await);
    }
}

#[tokio::test]
async fn a_dripping_client_gets_no_more_time_than_a_silent_one() {
    let limits = ServerLimits { head_timeout: short(), request_timeout: short(), ..ServerLimits::default() };
    let server = start("", limits).await;
    for head in ["POST / HTTP/1.1\r\nHost: a\r\nA: ", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"] {
        let raw = Raw::connect(&server).await;
        let (read, mut write) = raw.stream.into_split();
        write.write_all(head.as_bytes()).await.unwrap();
        let drip = tokio::spawn(async move {
            let mut tick = tokio::time::interval(std::time::Duration::from_millis(1));
            while write.write_all(b"x").await.is_ok() {
                tick.tick().await;
            }
        });
        let mut raw = Raw::of(read);
        assert_rpc_error(&raw.answer().await.unwrap(), 408, "-32600");
        drip.abort();
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_a_word() {
    let server = start("", ServerLimits { keep_alive: short(), ..ServerLimits::default() }).await;
    let mut raw = Raw::connect(&server).await;
    for _ in 0..3 {
        raw.send(&post("hello")).await;
        assert_eq!(raw.answer().await.unwrap().status, 200);
    }
    assert!(raw.is_closed().await);
}

#[tokio::test]
async fn a_slow_service_is_not_an_idle_connection() {
    let limits = ServerLimits {
        keep_alive: short(),
        request_timeout: short(),
        head_timeout: short(),
        write_timeout: short(),
        ..ServerLimits::default()
    };
    let server = start("", limits).await;
    let (mut slow, mut idle) = (Raw::connect(&server).await, Raw::connect(&server).await);
    slow.send(&post("wait")).await;
    server.service.entered.notified().await;
    // By the time that two more connections have run out of it, so would the slow one have.
    assert_eq!(idle.answer().await.unwrap().status, 408);
    assert_eq!(Raw::connect(&server).await.answer().await.unwrap().status, 408);
    server.service.release.notify_one();
    assert_eq!(slow.answer().await.unwrap().text(), "wait");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped() {
    let server = start("", ServerLimits { write_timeout: short(), ..ServerLimits::default() }).await;
    let mut raw = Raw::connect(&server).await;
    raw.send(&post("large")).await;
    server.service.entered.notified().await;
    server.stop.stop();
    // Ends long before the ten seconds that a stop would wait for a request under way.
    server.task.await.unwrap();
    let mut text = Vec::new();
    let _ = raw.stream.read_to_end(&mut text).await;
    assert!(text.len() < LARGE);
}
