//! What an issuer took back: asked at its address, brought by itself, served by us.
use crate::{
    receive::testing::*,
    testing::{Act, Fake, Seen},
};
use muretai_protocol::{UnixSeconds, json, json::Value, revocations};
use muretai_store::{
    introductions::{IntroductionRow, IntroductionStatus, Role},
    requests::Decision,
};
use muretai_transports::Service;

type Wrong = (&'static str, fn() -> Act);

const NORTH: u8 = 1;
const WEST: u8 = 2;

fn list(by: u8, ids: &[u8]) -> Value {
    revocations::mint(&key(by), ids.iter().map(|id| vc_id(*id)).collect(), crate::agent::now())
}

async fn issuer(act: impl Fn() -> Act + Send + Sync + 'static) -> Fake {
    Fake::start(move |_, seen: &Seen, _| if seen.path == "/revocations" { act() } else { Act::status(404) }).await
}

async fn write(world: &World, id: &str, vc: &Value) -> Value {
    world.send_with(&key(NORTH), id, "hello", json!({"vc": (vc.clone())})).await
}

/// A world where west vouches for north, and the owner agreed before anybody was asked.
async fn accepted(west: &Fake) -> (World, Value) {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    let vc = vc_at(&key(WEST), key(NORTH).did(), world.agent.did(), 7, Some(&west.url));
    let params = [("vc", vc.clone()), ("subject", json!({"did": (key(NORTH).did())}))];
    world.ask(("introduce/propose", "introduce/propose"), &key(WEST), "p", &params).await;
    world.decide(Decision::Accept).await;
    // The owner lets us dial it.
    world.befriend_at(&key(WEST), Some(&west.url)).await;
    (world, vc)
}

#[tokio::test]
async fn a_list_that_names_the_introduction_ends_it_for_good() {
    let west = issuer(|| Act::json(&list(WEST, &[7, 9]))).await;
    let (world, vc) = accepted(&west).await;
    assert_eq!(code(&write(&world, "1", &vc).await), -32011);
    assert_eq!(code(&world.send(&key(NORTH), "2", "hello").await), -32010);
    let row = world.agent.store().introduction(Role::Received, key(WEST).did(), &vc_id(7)).await.unwrap().unwrap();
    assert_eq!(row.status, IntroductionStatus::Revoked);
    drop(west);
    assert_eq!(code(&write(&world, "3", &vc).await), -32011, "whoever answers later");
}

#[tokio::test]
async fn a_list_that_does_not_name_it_is_asked_for_once_in_a_while() {
    let west = issuer(|| Act::json(&list(WEST, &[9]))).await;
    let (world, vc) = accepted(&west).await;
    for id in ["1", "2", "3"] {
        assert_eq!(code(&write(&world, id, &vc).await), 0);
    }
    assert_eq!(west.seen().len(), 1);
}

#[tokio::test]
async fn many_at_once_ask_once() {
    let west = issuer(|| Act::json(&list(WEST, &[]))).await;
    let (world, vc) = accepted(&west).await;
    let writes = ["1", "2", "3", "4", "5"].map(|id| write(&world, id, &vc));
    let [a, b, c, d, e] = writes;
    let answers = tokio::join!(a, b, c, d, e);
    for answer in [answers.0, answers.1, answers.2, answers.3, answers.4] {
        assert_eq!(code(&answer), 0);
    }
    assert_eq!(west.seen().len(), 1);
}

#[tokio::test]
async fn what_is_no_list_of_the_issuer_leaves_it_to_the_policy() {
    let altered = || {
        let mut list = list(WEST, &[9]);
        at(&mut list, &[]).insert("revoked".to_owned(), json!([(vc_id(7))]));
        Act::json(&list)
    };
    let early = || {
        let later = UnixSeconds(crate::agent::now().0 + 1_000);
        Act::json(&revocations::mint(&key(WEST), vec![vc_id(7)], later))
    };
    let wrong: [Wrong; 6] = [
        ("forged", || Act::json(&list(NORTH, &[7]))),
        ("altered", altered),
        ("from the future", early),
        ("garbage", Act::html),
        ("absent", || Act::status(404)),
        ("silent", || Act::Drop),
    ];
    for (why, act) in wrong {
        let west = issuer(act).await;
        let (world, vc) = accepted(&west).await;
        assert_eq!(code(&write(&world, "1", &vc).await), 0, "{why}");
        world.policy("revocation", "strict").await;
        assert_eq!(code(&write(&world, "2", &vc).await), -32011, "{why}");
        assert_eq!(code(&world.send(&key(NORTH), "3", "hello").await), -32011, "{why}");
        assert_eq!(west.seen().len(), 1, "{why}: not asked over and over");
    }
}

#[tokio::test]
async fn a_list_that_nobody_can_read_is_refused_whatever_the_policy() {
    let west = issuer(|| Act::Answer(200, "Content-Type: application/json\r\n", " ".repeat(300_000))).await;
    let (world, vc) = accepted(&west).await;
    assert_eq!(code(&write(&world, "1", &vc).await), -32011);
}

#[tokio::test]
async fn an_issuer_that_says_nothing_costs_two_seconds_at_most() {
    let west = issuer(|| Act::Silence).await;
    let (world, vc) = accepted(&west).await;
    assert_eq!(code(&write(&world, "1", &vc).await), 0, "undecided");
    assert_eq!(west.seen().len(), 1);
}

#[tokio::test]
async fn nobody_is_asked_for_a_stranger_or_for_what_does_not_verify() {
    let west = issuer(|| Act::json(&list(WEST, &[]))).await;
    let world = world(|_| {}).await;
    let us = world.agent.did().clone();
    let vc = vc_at(&key(WEST), key(NORTH).did(), &us, 7, Some(&west.url));
    assert_eq!(code(&write(&world, "1", &vc).await), -32013);
    world.befriend_at(&key(WEST), Some(&west.url)).await;
    let mut forged = vc.clone();
    at(&mut forged, &["credentialSubject"]).insert("trustLevelBp".to_owned(), 1_000.into());
    assert_eq!(code(&write(&world, "2", &forged).await), -32011);
    assert!(west.seen().is_empty());
    assert_eq!(code(&write(&world, "3", &vc).await), 0, "held");
    assert_eq!(west.seen().len(), 1);
}

#[tokio::test]
async fn an_issuer_may_bring_its_list_itself() {
    let west = issuer(|| Act::json(&list(WEST, &[]))).await;
    let (world, vc) = accepted(&west).await;
    assert_eq!(code(&write(&world, "1", &vc).await), 0);
    let notice = |list: Value| json!({"auto": true, "status": "revocation", "revocations": (list)});
    let send = async |id: &str, list: Value| world.send_with(&key(WEST), id, "taken back", notice(list)).await;
    assert_eq!(code(&send("n1", list(NORTH, &[7])).await), 0, "another's list is a message like any other");
    assert_eq!(code(&write(&world, "2", &vc).await), 0);
    assert_eq!(code(&send("n2", list(WEST, &[7])).await), 0);
    assert_eq!(code(&write(&world, "3", &vc).await), -32011);
    assert_eq!(code(&world.send(&key(NORTH), "4", "hello").await), -32010);
    assert_eq!(west.seen().len(), 1);
}

#[tokio::test]
async fn our_own_list_is_served_signed() {
    let world = world(|_| {}).await;
    let read = async || {
        let document = world.receiver.document("revocations").await.unwrap();
        let list = json::parse(&document.body).unwrap();
        (revocations::verify(&list, world.agent.did(), crate::agent::now()).unwrap().revoked, document.body)
    };
    let (ids, first) = read().await;
    assert!(ids.is_empty());
    assert_eq!(first.as_ptr(), read().await.1.as_ptr(), "the same buffer");
    let now = crate::agent::now();
    let row = IntroductionRow {
        id: vc_id(7),
        role: Role::Issued,
        issuer: world.agent.did().clone(),
        subject: key(NORTH).did().clone(),
        target: key(WEST).did().clone(),
        status: IntroductionStatus::Pending,
        trust_level_bp: None,
        expertise: Vec::new(),
        issued: now,
        valid_until: UnixSeconds(now.0 + 60),
        issuer_endpoint: None,
        is_requested: false,
        vc: "{}".to_owned(),
        created: now,
        changed: now,
    };
    world.agent.store().add_issued(&row, None).await.unwrap();
    world.agent.store().revoke_issued(&vc_id(7), now, None).await.unwrap();
    world.receiver.forget_policies();
    assert_eq!(read().await.0, [vc_id(7)]);
}
