//! `trust/status`: about oneself everybody, about others as the owner lets.
use crate::receive::testing::*;
use muretai_protocol::{json, json::Value, sign::SigningKey};
use muretai_store::requests::Decision;

const NORTH: u8 = 1;
const WEST: u8 = 2;
const EAST: u8 = 3;

async fn ask(world: &World, by: u8, id: &str, about: Option<&SigningKey>) -> Value {
    let subject: Vec<_> = about.map(|about| ("subject", about.did().into())).into_iter().collect();
    world.ask(("trust/status", "trust/status"), &key(by), id, &subject).await
}

/// `relation trusted depth`
fn shown(answer: &Value) -> String {
    let result = answer.member("result").unwrap_or_else(|| panic!("{}", answer.to_json())).as_object().unwrap();
    let member = |key: &str| result.get(key).unwrap().to_json();
    format!("{} {} {}", member("relation").trim_matches('"'), member("trusted"), member("depth"))
}

#[tokio::test]
async fn each_step_on_the_way_in_shows() {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    assert_eq!(shown(&ask(&world, NORTH, "1", None).await), "none false null");
    let vc = world.vc(&key(WEST), &key(NORTH), 7);
    world.send_with(&key(NORTH), "2", "hello", json!({"vc": (vc)})).await;
    assert_eq!(shown(&ask(&world, NORTH, "3", None).await), "pending false null");
    world.decide(Decision::Accept).await;
    let answer = ask(&world, NORTH, "4", None).await;
    assert_eq!(shown(&answer), "introduced true 2");
    let result = answer.member("result").unwrap();
    assert_eq!(result.member("vouchedBy"), Some(&json!([(key(WEST).did())])));
    assert_eq!(result.member("trustLevel").unwrap().to_json(), "0.85");
    assert_eq!(result.member("trustLevelBp"), Some(&850.into()));
    assert_eq!(result.member("expertise"), Some(&json!(["bread"])));
    world.agent.store().mark_revoked(key(WEST).did(), &[vc_id(7)], crate::agent::now()).await.unwrap();
    assert_eq!(shown(&ask(&world, NORTH, "5", None).await), "none false null");
    assert_eq!(shown(&ask(&world, WEST, "6", None).await), "direct true 1");
    let own = world.agent.trust_status(world.agent.did()).await.unwrap();
    assert_eq!((own.depth(), own.trusted), (Some(0), true));
}

#[tokio::test]
async fn the_owner_says_who_may_ask_about_others() {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    let west = key(WEST);
    for (policy, stranger, contact) in [("self", -32012, -32012), ("trusted", -32012, 0), ("public", 0, 0)] {
        world.policy("trust-query", policy).await;
        assert_eq!(code(&ask(&world, NORTH, policy, Some(&west)).await), stranger, "{policy}");
        assert_eq!(code(&ask(&world, WEST, policy, Some(&key(NORTH))).await), contact, "{policy}");
        assert_eq!(code(&ask(&world, NORTH, &format!("{policy}-own"), Some(&key(NORTH))).await), 0, "about itself");
    }
    // What waits is told to whom it concerns alone.
    world.ask(("connect/request", "connect/request"), &key(EAST), "1", &[]).await;
    assert_eq!(shown(&ask(&world, EAST, "2", None).await), "pending false null");
    assert_eq!(shown(&ask(&world, WEST, "3", Some(&key(EAST))).await), "none false null");
    world.block(&west).await;
    assert_eq!(shown(&ask(&world, NORTH, "4", Some(&west)).await), "none false null");
    assert_eq!(shown(&ask(&world, WEST, "5", None).await), "none false null");
    world.policy("trust-query", "trusted").await;
    assert_eq!(code(&ask(&world, WEST, "6", Some(&key(NORTH))).await), -32012, "as a stranger");
}

#[tokio::test]
async fn a_question_changes_nothing_and_may_be_asked_again() {
    let world = world(|_| {}).await;
    let first = ask(&world, NORTH, "1", None).await;
    assert_eq!(ask(&world, NORTH, "1", None).await, first);
    assert_eq!(code(&world.ask(("trust/status", "any words"), &key(NORTH), "2", &[]).await), 0);
    let bad = [("subject", "nobody".into())];
    assert_eq!(code(&world.ask(("trust/status", "trust/status"), &key(NORTH), "3", &bad).await), -32602);
}

#[tokio::test]
async fn an_open_door_trusts_strangers_with_words() {
    let world = super::introducing::open().await;
    assert_eq!(shown(&ask(&world, NORTH, "1", None).await), "none true null");
    world.policy("domain", "required").await;
    assert_eq!(shown(&ask(&world, NORTH, "2", None).await), "none false null");
}
