use std::sync::atomic::Ordering;

use http::Method;
use muretai_protocol::{
    UnixSeconds,
    invite::{InviteSpec, mint},
    json::{self, Value, canonical},
    relay::Deposit,
};
use muretai_store::mailboxes::{Event, Mailboxes as _, Quotas};

use super::*;
use crate::{
    Bounds,
    testing::{
        Memory, NOW, ORIGIN, Rig, deposit, escaped, head, ids, key, listen_target, object, proof, refusal, text, token,
    },
};

mod calls;
mod directory;
mod mailbox;

#[tokio::test]
async fn what_is_not_listed_does_not_exist() {
    let rig = Rig::new();
    for target in [
        "/nothing",
        "/send/",
        "/card/",
        "/card/a/b",
        "/i/",
        "/I",
        "//send",
        "/presence",
        "/keystate",
        "/site",
        "/a/z6Mk",
    ] {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            assert_eq!(rig.call(method, target, "").await.status, 404, "{target}");
        }
    }
}

#[tokio::test]
async fn other_methods_are_told_which_ones_there_are() {
    let rig = Rig::new();
    for (path, allow) in [
        ("/send", POST),
        ("/rpc", POST),
        ("/reply", POST),
        ("/ack", POST),
        ("/card", POST),
        ("/i", POST),
        ("/listen", LISTEN),
        ("/health", GET),
        ("/metrics", GET),
        ("/", GET),
        ("/i/abc", GET),
        ("/card/did:key:z6Mk", GET),
        ("/presence/did:key:z6Mk", GET),
    ] {
        let options = rig.call(Method::OPTIONS, path, "").await;
        assert_eq!((options.status, options.allow), (204, Some(allow)), "{path}");
        let delete = rig.call(Method::DELETE, path, "").await;
        assert_eq!((delete.status, delete.allow), (405, Some(allow)), "{path}");
    }
    assert_eq!(rig.get("/send").await.status, 405);
    assert_eq!(rig.call(Method::HEAD, "/listen", "").await.status, 405);
    assert_eq!(rig.call(Method::HEAD, "/health", "").await.status, 200);
}

#[tokio::test]
async fn says_what_it_is() {
    let rig = Rig::new();
    let notice = rig.get("/").await;
    assert_eq!((notice.status, notice.content_type), (200, "text/plain; charset=utf-8"));
    assert!(text(&notice).contains("relay"));
    assert_eq!(text(&rig.get("/health").await), r#"{"status":"ok"}"#);
}

#[tokio::test]
async fn bodies_are_bounded_by_what_they_are_for() {
    let rig = Rig::new();
    let site = RelaySite(Arc::clone(&rig.shared));
    for (path, most) in [("/send", 1_048_576), ("/rpc", 1_048_576), ("/reply", 1_048_576)] {
        assert_eq!(site.max_body_bytes(&head(Method::POST, path)), most);
    }
    for path in ["/card", "/i", "/ack", "/nothing"] {
        assert_eq!(site.max_body_bytes(&head(Method::POST, path)), 65_536);
    }
}

#[tokio::test]
async fn only_listening_is_taken_over() {
    let rig = Rig::new();
    let site = RelaySite(Arc::clone(&rig.shared));
    let accepts = |method, path: &str, accepts_events| site.takes_over(&Head { accepts_events, ..head(method, path) });
    assert!(accepts(Method::GET, "/listen?did=x", true));
    assert!(!accepts(Method::GET, "/listen", false));
    assert!(!accepts(Method::POST, "/listen", true));
    assert!(!accepts(Method::GET, "/health", true));
}

#[tokio::test]
async fn numbers_are_for_whom_the_owner_lets() {
    let rig = Rig::new();
    rig.send(1, 2, "a").await;
    let told = text(&rig.get("/metrics").await);
    for line in [
        "muretai_relay_deposits_total{outcome=\"stored\"} 1",
        "muretai_relay_letters 1",
        "muretai_relay_limit{name=\"mailboxLetters\"} 1000",
        "muretai_relay_limit{name=\"senderRate\"} 600",
    ] {
        assert!(told.lines().any(|found| found == line), "{line} in\n{told}");
    }
    let site = RelaySite(Arc::clone(&rig.shared));
    let at = |remote: &str, is_forwarded| Request {
        head: Head { remote: remote.parse().unwrap(), is_forwarded, ..head(Method::GET, "/metrics") },
        body: Bytes::new(),
    };
    assert_eq!(site.answer(at("[::ffff:127.0.0.1]:1", false)).await.status, 200);
    assert_eq!(site.answer(at("127.0.0.1:1", true)).await.status, 404);
    assert_eq!(site.answer(at("192.0.2.1:1", false)).await.status, 404);
}

#[tokio::test]
async fn a_store_that_fails_is_said_so_until_it_works() {
    let rig = Rig::new();
    rig.store.fail(true);
    let body = deposit(1, 2, "a").to_json();
    for answer in [
        rig.post("/send", body.clone()).await,
        rig.post("/rpc", body.clone()).await,
        rig.listen(2, "1", 0).await,
        rig.ack(2, "1", &["1"]).await,
        rig.reply(2, "1", "1", "AAAA").await,
        rig.get(&format!("/card/{}", key(1).did())).await,
        rig.get(&format!("/presence/{}", key(1).did())).await,
        rig.get("/i/abcdefghijkl").await,
    ] {
        assert_eq!(refusal(&answer), (503, -32_603, String::new()));
        assert!(answer.retry_after.is_some());
    }
    assert_eq!(rig.get("/health").await.status, 503);
    let metrics = rig.get("/metrics").await;
    assert!(metrics.status == 200 && text(&metrics).contains("deposits_total{outcome=\"failed\"} 2"));
    rig.store.fail(false);
    assert_eq!(rig.post("/send", body).await.status, 200);
    assert_eq!(rig.listen(2, "1", 0).await.status, 200);
    assert_eq!(rig.get("/health").await.status, 200);
}

#[tokio::test]
async fn a_full_disk_keeps_letters_out_and_lets_them_out() {
    let rig = Rig::new();
    rig.send(1, 2, "a").await;
    rig.store.fill_disk(true);
    let answer = rig.post("/send", deposit(1, 2, "b").to_json()).await;
    assert_eq!((answer.status, answer.retry_after.is_some()), (503, true));
    assert!(text(&answer).contains("no room"));
    assert_eq!(ids(&rig.listen(2, "1", 0).await), ["a"]);
    assert_eq!(rig.get("/health").await.status, 503, "reading works, writing does not");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_not_waited_for_for_ever() {
    let rig = Rig::new();
    let _gate = rig.store.pause();
    let answer = rig.post("/send", deposit(1, 2, "a").to_json()).await;
    assert_eq!((answer.status, answer.retry_after.is_some()), (503, true));
}
