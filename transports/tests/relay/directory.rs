//! Cards, invites, presence.
use std::time::Duration;

use muretai_protocol::{UnixSeconds, json, json::Value};
use muretai_transports::{
    ClientTimeouts, TransportError,
    guard::Policy,
    http::HttpTransport,
    relay::directory::{Minted, Presence, Relay},
};

use crate::{
    common::{did, listen},
    fake::{FakeRelay, Script, json_answer},
};

fn at(relay: &FakeRelay) -> Relay<'_> {
    Relay { base: &relay.url, policy: Policy::Owner, timeout: Duration::from_secs(10) }
}

fn http() -> HttpTransport {
    HttpTransport::client(ClientTimeouts::default())
}

fn envelope() -> Value {
    json!({"card": {"did": (did(2).as_str())}, "ts": 7, "sig": "x"})
}

#[tokio::test]
async fn a_card_is_published_and_found() {
    let (relay, http) = (FakeRelay::start().await, http());
    assert_eq!(at(&relay).card(&http, &did(2)).await.unwrap(), None);
    assert!(at(&relay).publish_card(&http, &envelope()).await.unwrap());
    assert_eq!(at(&relay).card(&http, &did(2)).await.unwrap(), Some(envelope()));
    relay.script("/card", [json_answer(409, r#"{"error":{"message":"older","data":{"ts":9}}}"#)]);
    assert!(!at(&relay).publish_card(&http, &envelope()).await.unwrap());
    for body in ["<html>", "", "[]", r#"{"ok":false}"#, r#"{"error":"later"}"#] {
        relay.script("/card", [json_answer(200, body)]);
        let error = at(&relay).publish_card(&http, &envelope()).await.unwrap_err();
        assert!(matches!(error, TransportError::NotARelay { .. }), "{body}: {error:?}");
    }
    relay.script("/card", [json_answer(403, r#"{"error":"not yours"}"#)]);
    let error = at(&relay).publish_card(&http, &envelope()).await.unwrap_err();
    assert!(matches!(error, TransportError::RelayRefused { status: 403, .. }), "{error:?}");
}

#[tokio::test]
async fn a_card_of_no_sane_size_or_shape_is_refused() {
    let (relay, http) = (FakeRelay::start().await, http());
    let large = json!({"card": {"did": (did(2).as_str()), "name": ("x".repeat(66_000))}});
    let error = at(&relay).publish_card(&http, &large).await.unwrap_err();
    assert!(matches!(error, TransportError::RelayRefused { status: 413, .. }), "{error:?}");
    assert_eq!(relay.requests("/card").len(), 0);
    let path = format!("/card/{}", did(2));
    relay.script(&path, [json_answer(200, "[]"), json_answer(200, "<html>"), json_answer(200, &large.to_json())]);
    for _ in 0..2 {
        let error = at(&relay).card(&http, &did(2)).await.unwrap_err();
        assert!(matches!(error, TransportError::NotARelay { .. }), "{error:?}");
    }
    let error = at(&relay).card(&http, &did(2)).await.unwrap_err();
    assert!(matches!(error, TransportError::TooLarge { .. }), "{error:?}");
    relay.script(&path, [Script::Answer(302, "location: https://other.example/\r\n", String::new())]);
    let error = at(&relay).card(&http, &did(2)).await.unwrap_err();
    assert!(matches!(error, TransportError::RedirectRefused { .. }), "{error:?}");
}

#[tokio::test]
async fn an_invite_gets_a_code() {
    let (relay, http) = (FakeRelay::start().await, http());
    let ours = format!("{}/i/Ab3-_x9Z", relay.url);
    for (answer, link) in [
        (r#"{"code":"Ab3-_x9Z","link":"https://relay.example/i/Ab3-_x9Z"}"#, "https://relay.example/i/Ab3-_x9Z"),
        (r#"{"code":"Ab3-_x9Z"}"#, &ours),
        (r#"{"code":"Ab3-_x9Z","link":"https://relay.example/i/other"}"#, &ours),
        (r#"{"code":"Ab3-_x9Z","link":"javascript:/i/Ab3-_x9Z"}"#, &ours),
    ] {
        relay.script("/i", [json_answer(200, answer)]);
        let minted = at(&relay).mint_invite(&http, &json!({})).await.unwrap();
        assert_eq!(minted, Minted { code: "Ab3-_x9Z".to_owned(), link: link.to_owned() });
    }
    for bad in [r#"{"code":"../../x"}"#, r#"{"code":7}"#, "{}", "[]"] {
        relay.script("/i", [json_answer(200, bad)]);
        let error = at(&relay).mint_invite(&http, &json!({})).await.unwrap_err();
        assert!(matches!(error, TransportError::NotARelay { .. }), "{bad}: {error:?}");
    }
    relay.script("/i", [json_answer(429, r#"{"error":{"message":"20 invites","data":{"bound":"invites"}}}"#)]);
    let error = at(&relay).mint_invite(&http, &json!({})).await.unwrap_err();
    assert!(matches!(error, TransportError::RelayRefused { status: 429, .. }), "{error:?}");
}

#[tokio::test]
async fn presence_says_whether_somebody_listens() {
    let (relay, http) = (FakeRelay::start().await, http());
    let presence = |is_online| Presence { is_online: Some(is_online), last_seen: Some(UnixSeconds(7)) };
    assert_eq!(at(&relay).presence(&http, &did(2)).await.unwrap(), presence(false));
    let _south = listen(&relay);
    relay.until(|state| state.is_listening(&did(2))).await;
    assert_eq!(at(&relay).presence(&http, &did(2)).await.unwrap(), presence(true));
    relay.script(&format!("/presence/{}", did(2)), [json_answer(200, &format!(r#"{{"did":"{}"}}"#, did(3)))]);
    let error = at(&relay).presence(&http, &did(2)).await.unwrap_err();
    assert!(matches!(error, TransportError::NotARelay { .. }), "{error:?}");
}
