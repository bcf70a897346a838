//! A blocked peer is answered as a stranger is, byte for byte, on every method.
use crate::receive::testing::*;
use muretai_protocol::{json, json::Value, sign::SigningKey};

const STRANGER: u8 = 1;
const BLOCKED: u8 = 2;
const WEST: u8 = 3;

type Params<'a> = &'a [(&'static str, Value)];

/// What a peer may try, each with its answer, from which only what is random or timed is taken out.
async fn tries(world: &World, by: &SigningKey, round: &str) -> Vec<(String, String)> {
    let west = key(WEST);
    let me_to_west = format!("introduce-me-to:{}", west.did().as_str());
    let accept = ("decision", Value::from("accept"));
    let about = json!({"did": (key(9).did())});
    let proposal = [("vc", world.vc(by, &key(9), 1)), ("subject", about)];
    let id = ("introductionId", Value::from(vc_id(1)));
    let asked: [(&str, &str, Params<'_>); 9] = [
        ("connect/request", "connect/request", &[("name", "x".into())]),
        ("connect/request", "connect/request\nagain", &[]),
        ("connect/respond", "connect/respond", std::slice::from_ref(&accept)),
        ("introduction/request", &me_to_west, &[]),
        ("introduce/propose", "introduce/propose", &proposal),
        ("introduce/respond", "introduce/respond", &[id, accept.clone()]),
        ("referral/request", "bread", &[]),
        ("trust/status", "trust/status", &[("subject", west.did().into())]),
        ("onboard/claim", "onboard/claim", &[("nonce", "none".into())]),
    ];
    let mut answers = Vec::new();
    for (n, (method, text, params)) in asked.into_iter().enumerate() {
        let answer = world.ask((method, text), by, &format!("{round}{n}"), params).await;
        answers.push((method.to_owned(), anonymous(answer)));
    }
    let vcs = [Value::Null, "x".into(), world.vc(&key(8), by, 2)];
    for (n, vc) in vcs.into_iter().enumerate() {
        let answer = world.send_with(by, &format!("{round}m{n}"), "hello", json!({"vc": (vc)})).await;
        answers.push(("message/send".to_owned(), anonymous(answer)));
    }
    answers
}

/// Request ids are one for each DID.
fn anonymous(answer: Value) -> String {
    let mut answer = answer;
    if let Value::Object(members) = &mut answer
        && let Some(Value::Object(result)) = members.get_mut("result")
        && let Some(id) = result.remove("requestId")
    {
        assert_eq!(id.as_str().map(str::len), Some(32));
    }
    answer.to_json()
}

#[tokio::test]
async fn a_block_does_not_show() {
    for connect in ["filtered", "closed"] {
        for was_contact in [false, true] {
            let world = world(|_| {}).await;
            world.befriend(&key(WEST)).await;
            if was_contact {
                world.befriend(&key(BLOCKED)).await;
            }
            world.block(&key(BLOCKED)).await;
            world.policy("connect", connect).await;
            let stranger = tries(&world, &key(STRANGER), "a").await;
            let blocked = tries(&world, &key(BLOCKED), "a").await;
            assert_eq!(stranger, blocked, "{connect} {was_contact}");
            assert_eq!(tries(&world, &key(BLOCKED), "b").await, tries(&world, &key(STRANGER), "b").await);
            let pending = world.agent.store().requests(false, crate::agent::now()).await.unwrap();
            assert!(pending.iter().all(|row| row.peer != *key(BLOCKED).did()), "the owner is not asked");
            let contact = world.agent.store().contact(key(BLOCKED).did()).await.unwrap().unwrap();
            assert!(contact.is_blocked);
        }
    }
}

#[tokio::test]
async fn nor_does_it_when_everybody_is_accepted() {
    let world = world(|_| {}).await;
    world.policy("connect", "open").await;
    world.block(&key(BLOCKED)).await;
    let asked = ("connect/request", "connect/request");
    let stranger = anonymous(world.ask(asked, &key(STRANGER), "1", &[]).await);
    let blocked = anonymous(world.ask(asked, &key(BLOCKED), "1", &[]).await);
    assert_eq!(stranger, blocked);
    assert_eq!(code(&world.send(&key(STRANGER), "2", "hello").await), 0);
    assert_eq!(code(&world.send(&key(BLOCKED), "2", "hello").await), -32010, "and nothing comes of it");
}

#[tokio::test]
async fn an_introduction_does_not_lift_a_block() {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    world.block(&key(BLOCKED)).await;
    let vc = world.vc(&key(WEST), &key(BLOCKED), 7);
    let answer = world.send_with(&key(BLOCKED), "1", "hello", json!({"vc": (vc)})).await;
    assert_eq!(answer, world.send(&key(STRANGER), "1", "hello").await);
    assert!(world.requests().await.is_empty());
}
