//! `introduction/request` and `referral/request`: what contacts ask an introducer.
use crate::receive::testing::*;
use muretai_protocol::{
    introduction::{self, Parties, Provenance},
    json,
    json::Value,
};
use muretai_store::{
    introductions::{IntroductionStatus, Role},
    requests::RequestKind,
};

const NORTH: u8 = 1;
const WEST: u8 = 2;
const EAST: u8 = 3;

async fn introduce_me(world: &World, by: u8, id: &str, to: u8) -> Value {
    let text = format!("introduce-me-to:{}", key(to).did().as_str());
    world.ask(("introduction/request", &text), &key(by), id, &[]).await
}

#[tokio::test]
async fn a_contact_may_ask_to_be_introduced_and_its_question_is_kept_signed() {
    let world = world(|_| {}).await;
    world.befriend(&key(NORTH)).await;
    assert_eq!(status(&introduce_me(&world, NORTH, "1", WEST).await), "queued");
    let row = world.requests().await.pop().unwrap();
    assert_eq!(
        (row.kind, &row.peer, row.about.as_ref()),
        (RequestKind::IntroduceMe, key(NORTH).did(), Some(key(WEST).did()))
    );
    let record = introduction::RequestRecord { raw: json::parse(row.record.unwrap().as_bytes()).unwrap() };
    let (north, us, west) = (key(NORTH), world.agent.did(), key(WEST));
    record.verify(north.did(), us, west.did(), crate::agent::now()).unwrap();
    assert!(is_duplicate(&introduce_me(&world, NORTH, "1", WEST).await));
    assert_eq!(status(&introduce_me(&world, NORTH, "2", WEST).await), "queued");
    assert_eq!(world.requests().await.len(), 1);
}

#[tokio::test]
async fn a_stranger_is_declined_and_leaves_nothing() {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    let declined = introduce_me(&world, NORTH, "1", WEST).await;
    assert_eq!(status(&declined), "declined");
    assert_eq!(introduce_me(&world, NORTH, "1", WEST).await, declined, "the id is free");
    assert_eq!(status(&introduce_me(&world, WEST, "2", WEST).await), "declined", "to itself");
    assert_eq!(status(&introduce_me(&world, WEST, "3", 200).await), "declined", "to us");
    assert!(world.requests().await.is_empty());
    for text in ["introduce-me-to:", "introduce-me-to:did:key:x", "please", ""] {
        let answer = world.ask(("introduction/request", text), &key(WEST), "4", &[]).await;
        assert_eq!(code(&answer), -32602, "{text:?}");
    }
}

async fn refer(world: &World, by: u8, id: &str, need: &str, more: &[(&'static str, Value)]) -> Value {
    world.ask(("referral/request", need), &key(by), id, more).await
}

#[tokio::test]
async fn a_need_is_put_before_the_owner_unless_it_is_answered_or_refused() {
    let world = world(|_| {}).await;
    world.befriend(&key(NORTH)).await;
    let answer = refer(&world, NORTH, "1", "who bakes bread?", &[("expertise", json!(["rye"]))]).await;
    assert_eq!(status(&answer), "queued");
    assert_eq!(answer.member("result").unwrap().member("referrals"), Some(&json!([])));
    let row = world.requests().await.pop().unwrap();
    assert_eq!((row.kind, row.note.as_deref()), (RequestKind::Referral, Some("who bakes bread?\nrye")));
    assert!(row.record.is_some());
    assert_eq!(code(&refer(&world, WEST, "1", "who bakes bread?", &[]).await), -32012, "a stranger");
    world.policy("referral", "closed").await;
    assert_eq!(code(&refer(&world, NORTH, "2", "who bakes bread?", &[]).await), -32012);
    let long = "x".repeat(2_001);
    for need in ["", "  ", "introduce-me-to:x", &long] {
        assert_eq!(code(&refer(&world, NORTH, "3", need, &[]).await), -32602, "{need:?}");
    }
    for (name, value) in
        [("limit", 0.into()), ("limit", "5".into()), ("expertise", json!([5])), ("expertise", "x".into())]
    {
        assert_eq!(code(&refer(&world, NORTH, "3", "bread", &[(name, value)]).await), -32602, "{name}");
    }
}

async fn tag(world: &World, n: u8, tags: &[&str]) {
    world.befriend(&key(n)).await;
    let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
    world.agent.store().set_expertise(key(n).did(), &tags).await.unwrap();
}

#[tokio::test]
async fn contacts_whose_tags_fit_are_named_with_an_introduction_each() {
    let world = world(|_| {}).await;
    tag(&world, NORTH, &["bread", "law"]).await;
    tag(&world, WEST, &["bread"]).await;
    tag(&world, EAST, &["Bread", "rye"]).await;
    tag(&world, 4, &["bread"]).await;
    tag(&world, 5, &["cheese"]).await;
    world.block(&key(4)).await;
    world.policy("referral", "answer").await;
    let answer = refer(&world, NORTH, "1", "Rye bread, please", &[]).await;
    assert_eq!(status(&answer), "ok");
    let referrals = answer.member("result").unwrap().member("referrals").unwrap().as_array().unwrap();
    let named: Vec<_> = referrals.iter().map(|referral| referral.member("did").unwrap().as_str().unwrap()).collect();
    assert_eq!(named, [key(EAST).did().as_str(), key(WEST).did().as_str()], "the best first");
    let north = key(NORTH);
    for referral in referrals {
        let target = referral.member("did").unwrap().as_str().unwrap().parse().unwrap();
        let parties = Parties { subject: north.did(), target: Some(&target) };
        let read = introduction::verify(referral.member("vc").unwrap(), &parties, crate::agent::now()).unwrap();
        assert_eq!(&read.issuer, world.agent.did());
        assert!(matches!(read.provenance, Provenance::Requested(_)));
        assert_eq!(read.expertise, ["bread", "law"], "what the asker knows");
        let row = world.agent.store().introduction(Role::Issued, world.agent.did(), &read.id).await.unwrap().unwrap();
        assert_eq!((row.status, row.is_requested), (IntroductionStatus::Pending, true));
    }
    assert_eq!(refer(&world, NORTH, "1", "Rye bread, please", &[]).await, answer, "a lost answer is given again");
    assert_eq!(world.agent.store().introductions(None).await.unwrap().len(), 2);
    let one =
        refer(&world, NORTH, "2", "anything", &[("expertise", json!(["rye", "bread"])), ("limit", 1.into())]).await;
    assert_eq!(one.member("result").unwrap().member("referrals").unwrap().as_array().unwrap().len(), 1);
    let none = refer(&world, NORTH, "3", "a good lawyer", &[]).await;
    assert_eq!(none.member("result").unwrap().member("referrals"), Some(&json!([])));
}
