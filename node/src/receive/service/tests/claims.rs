//! `onboard/claim`: the order of 7.4, single use, one answer for every bad nonce.
use crate::receive::testing::*;
use muretai_protocol::{UnixSeconds, json::Value, sign::SigningKey};
use muretai_store::invites::InviteRow;

async fn invite(world: &World, nonce: &str, expires_in: i64) {
    let now = crate::agent::now();
    let row = InviteRow {
        nonce: nonce.to_owned(),
        code: format!("code-{nonce}"),
        card: "{}".to_owned(),
        note: None,
        created: now,
        expires: UnixSeconds(now.0 + expires_in),
        revoked: None,
        used_by: None,
        used: None,
    };
    world.agent.store().add_invite(&row).await.unwrap();
}

fn claim_with(world: &World, key: &SigningKey, id: &str, text: &str, more: &[(&'static str, Value)]) -> Value {
    let mut params = vec![("message", world.message(key, id, text))];
    params.extend(more.iter().cloned());
    frame("onboard/claim", object(params))
}

async fn claim(world: &World, n: u8, id: &str, nonce: &str) -> Value {
    let more = [("nonce", nonce.into()), ("name", "north".into())];
    world.call(&claim_with(world, &key(n), id, "onboard/claim", &more)).await
}

#[tokio::test]
async fn a_claim_makes_a_contact_once() {
    let world = world(|_| {}).await;
    invite(&world, "n1", 60).await;
    let answer = claim(&world, 1, "1", "n1").await;
    assert_eq!(code(&answer), 0, "{}", answer.to_json());
    let result = answer.member("result").unwrap();
    assert_eq!(result.member("ok").and_then(Value::as_bool), Some(true));
    assert_eq!(result.member("did").and_then(Value::as_str), Some(world.agent.did().as_str()));
    assert_eq!(result.member("url").and_then(Value::as_str), Some("http://127.0.0.1:9000"));
    assert_eq!(code(&world.send(&key(1), "2", "hello").await), 0, "the claimer is a contact");
    // The same request again, a new one of the same DID, and somebody else.
    assert!(is_duplicate(&claim(&world, 1, "1", "n1").await));
    assert_eq!(claim(&world, 1, "3", "n1").await.member("result"), Some(result));
    assert_eq!(code(&claim(&world, 2, "1", "n1").await), -32011);
    assert_eq!(code(&world.send(&key(2), "2", "hello").await), -32010);
}

#[tokio::test]
async fn every_bad_nonce_gets_one_answer() {
    let world = world(|_| {}).await;
    invite(&world, "spent", 60).await;
    invite(&world, "old", -1).await;
    invite(&world, "revoked", 60).await;
    world.agent.store().revoke_invite("revoked", crate::agent::now()).await.unwrap();
    claim(&world, 1, "0", "spent").await;
    let unknown = claim(&world, 2, "1", "unknown").await;
    assert_eq!(code(&unknown), -32011);
    for nonce in ["spent", "old", "revoked", "", "n\0x"] {
        assert_eq!(claim(&world, 2, "1", nonce).await, unknown, "{nonce:?}, and the refused id is free again");
    }
    assert!(world.agent.store().contact(key(2).did()).await.unwrap().is_none());
}

#[tokio::test]
async fn an_unsigned_claim_touches_nothing() {
    let world = world(|_| {}).await;
    invite(&world, "n1", 60).await;
    let mut frame = claim_with(&world, &key(1), "1", "onboard/claim", &[("nonce", "n1".into())]);
    at(&mut frame, &["params", "message"]).remove("metadata");
    assert_eq!(code(&world.call(&frame).await), -32001);
    let mut frame = claim_with(&world, &key(1), "1", "onboard/claim", &[("nonce", "n1".into())]);
    at(&mut frame, &["params", "message", "metadata"]).insert("from".to_owned(), key(2).did().as_str().into());
    assert_eq!(code(&world.call(&frame).await), -32001);
    assert!(world.agent.store().contacts().await.unwrap().is_empty());
    assert_eq!(code(&claim(&world, 1, "1", "n1").await), 0, "the invite is unspent");
}

#[tokio::test]
async fn a_bad_request_never_spends_the_invite() {
    let world = world(|_| {}).await;
    invite(&world, "n1", 60).await;
    let nonce = ("nonce", Value::from("n1"));
    let bad: Vec<Vec<(&'static str, Value)>> = vec![
        vec![],
        vec![("nonce", 5.into())],
        vec![("nonce", Value::Null)],
        vec![nonce.clone(), ("name", 5.into())],
        vec![nonce.clone(), ("url", 5.into())],
        vec![nonce.clone(), ("url", "javascript:alert(1)".into())],
        vec![nonce.clone(), ("url", "https://example.com/".into())],
        vec![nonce.clone(), ("relay", "https://user@relay.example".into())],
        vec![nonce.clone(), ("relay", Value::Array(vec![]))],
        vec![nonce.clone(), ("url", "http://169.254.169.254".into())],
        vec![nonce.clone(), ("url", "http://0.0.0.0:1".into())],
        vec![nonce.clone(), ("url", "http://2852039166".into())],
        vec![nonce.clone(), ("url", "http://0xa9fea9fe".into())],
        vec![nonce.clone(), ("url", "http://[fe80::1]".into())],
        vec![nonce.clone(), ("url", "http://[::ffff:169.254.1.1]".into())],
        vec![nonce.clone(), ("url", "http://224.0.0.1".into())],
        vec![nonce.clone(), ("relay", "http://169.254.169.254/latest".into())],
        vec![nonce.clone(), ("enc_pub", "00".into())],
        vec![nonce.clone(), ("enc_pub", "G".repeat(64).into())],
    ];
    for (n, more) in bad.iter().enumerate() {
        let answer = world.call(&claim_with(&world, &key(1), "1", "onboard/claim", more)).await;
        assert_eq!(code(&answer), -32602, "{n}: {}", answer.to_json());
    }
    let answer = world.call(&claim_with(&world, &key(1), "1", "hello there", &[nonce])).await;
    assert_eq!(code(&answer), -32602, "a chat message is no claim");
    assert_eq!(code(&claim(&world, 1, "1", "n1").await), 0);
}

#[tokio::test]
async fn the_own_invite_is_not_claimed() {
    let world = world(|_| {}).await;
    invite(&world, "n1", 60).await;
    assert_eq!(code(&claim(&world, 200, "1", "n1").await), -32011);
    assert_eq!(code(&claim(&world, 1, "1", "n1").await), 0);
}

#[tokio::test]
async fn claims_are_limited_apart_from_messages() {
    let limit = crate::receive::rate::RateLimit { per_account: 2, total: 2 };
    let world = world(|options| options.rate = Some(limit)).await;
    world.befriend(&key(1)).await;
    for (id, expected) in [("1", -32011), ("2", -32011), ("3", -32004)] {
        assert_eq!(code(&claim(&world, 2, id, "guess").await), expected);
    }
    assert_eq!(code(&world.send(&key(1), "1", "hello").await), 0, "contacts are heard");
}

#[tokio::test]
async fn guesses_of_strangers_never_stand_in_the_way_of_who_holds_an_invite() {
    let limit = crate::receive::rate::RateLimit { per_account: 2, total: 3 };
    let world = world(|options| options.rate = Some(limit)).await;
    invite(&world, "n1", 60).await;
    invite(&world, "n2", 60).await;
    assert_eq!(code(&claim(&world, 1, "1", "n1").await), 0);
    let mut codes = Vec::new();
    for n in 10..20 {
        codes.push(code(&claim(&world, n, "1", "guess").await));
    }
    assert_eq!(codes[..4], [-32011, -32011, -32011, -32004]);
    assert!(codes[4..].iter().all(|code| *code == -32004), "{codes:?}");
    // A lost answer is asked for again, and another invite is as good as ever.
    assert_eq!(code(&claim(&world, 1, "2", "n1").await), 0);
    assert_eq!(code(&claim(&world, 2, "1", "n2").await), 0);
    // To ask again is limited as well.
    assert_eq!(code(&claim(&world, 1, "3", "n1").await), 0);
    assert_eq!(code(&claim(&world, 1, "4", "n1").await), -32004);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_racing_claimers_wins() {
    let world = std::sync::Arc::new(world(|_| {}).await);
    invite(&world, "n1", 60).await;
    let tasks: Vec<_> = (1..17)
        .map(|n| {
            let world = world.clone();
            tokio::spawn(async move { code(&claim(&world, n, "1", "n1").await) })
        })
        .collect();
    let mut codes = Vec::new();
    for task in tasks {
        codes.push(task.await.unwrap());
    }
    codes.sort_unstable();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1);
    assert_eq!(codes.iter().filter(|code| **code == -32011).count(), 15);
    assert_eq!(world.agent.store().contacts().await.unwrap().len(), 1);
}
