//! The gate's table (4.3): introductions that come with a message, held messages, what the owner decides.
use crate::receive::testing::*;
use muretai_protocol::{
    UnixSeconds,
    introduction::{self, IntroductionSpec},
    json,
    json::Value,
    sign::SigningKey,
};
use muretai_store::requests::{Decision, RequestKind, RequestStatus};

const NORTH: u8 = 1;
const WEST: u8 = 2;
const EAST: u8 = 3;

async fn introduced(world: &World, id: &str, vc: Value) -> Value {
    world.send_with(&key(NORTH), id, "hello", json!({"vc": (vc)})).await
}

async fn world_with_west() -> World {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    world
}

#[tokio::test]
async fn a_first_message_waits_with_its_introduction_and_arrives_when_the_owner_agrees() {
    let world = world_with_west().await;
    let vc = world.vc(&key(WEST), &key(NORTH), 7);
    let answer = introduced(&world, "1", vc.clone()).await;
    assert_eq!(metadata(&answer, "status").and_then(Value::as_str), Some("held"), "{}", answer.to_json());
    assert_eq!(metadata(&answer, "auto").and_then(Value::as_bool), Some(true));
    assert!(world.stored().await.is_empty());
    let rows = world.requests().await;
    let row = &rows[0];
    assert_eq!((row.kind, row.status), (RequestKind::Introduction, RequestStatus::Pending));
    assert_eq!((&row.peer, row.via.as_ref()), (key(NORTH).did(), Some(key(WEST).did())));
    assert_eq!((row.held_text.as_deref(), row.wire_id.clone()), (Some("hello"), Some(vc_id(7))));
    // The same again is confirmed, the next has no room.
    assert!(is_duplicate(&introduced(&world, "1", vc.clone()).await));
    assert_eq!(code(&introduced(&world, "2", vc.clone()).await), -32014);
    world.decide(Decision::Accept).await;
    let stored = world.stored().await;
    assert_eq!((stored.len(), stored[0].text.as_str(), stored[0].is_unread), (1, "hello", true));
    assert!(is_duplicate(&introduced(&world, "1", vc.clone()).await), "it was delivered once");
    assert_eq!(code(&introduced(&world, "2", vc).await), 0, "the refused id is free");
    assert_eq!(code(&world.send(&key(NORTH), "3", "hello").await), 0, "it need not be shown again");
    assert_eq!(world.stored().await.len(), 3);
}

#[tokio::test]
async fn what_the_owner_rejected_stays_outside() {
    let world = world_with_west().await;
    let vc = world.vc(&key(WEST), &key(NORTH), 7);
    introduced(&world, "1", vc.clone()).await;
    world.decide(Decision::Reject).await;
    assert!(world.stored().await.is_empty(), "what was held is gone");
    assert_eq!(code(&introduced(&world, "2", vc).await), -32014);
    assert_eq!(code(&world.send(&key(NORTH), "3", "hello").await), -32010);
}

#[tokio::test]
async fn a_message_that_cannot_wait_is_told_so() {
    let world = world_with_west().await;
    let vc = world.vc(&key(WEST), &key(NORTH), 7);
    let empty = world.send_with(&key(NORTH), "1", "", json!({"vc": (vc.clone())})).await;
    assert_eq!(code(&empty), -32014);
    let group = world.send_with(&key(NORTH), "2", "hello", json!({"vc": (vc.clone()), "group": {"id": "g"}})).await;
    assert_eq!(code(&group), -32014);
    assert!(world.requests().await.is_empty(), "nothing was filed");
    assert_eq!(metadata(&introduced(&world, "1", vc).await, "status").and_then(Value::as_str), Some("held"));
}

/// One change to a good credential.
fn altered(vc: &Value, path: &[&str], member: &str, value: Value) -> Value {
    let mut vc = vc.clone();
    at(&mut vc, path).insert(member.to_owned(), value);
    vc
}

fn signed(issuer: &SigningKey, subject: &SigningKey, target: &SigningKey, lasts: i64) -> Value {
    let now = crate::agent::now();
    let spec = IntroductionSpec {
        id: [9; 16],
        subject: subject.did(),
        target: target.did(),
        expertise: &[],
        trust_level_bp: 500,
        issued: UnixSeconds(now.0 - 100),
        valid_until: UnixSeconds(now.0 + lasts),
        request: None,
        issuer_endpoint: None,
    };
    introduction::mint(issuer, &spec).unwrap()
}

#[tokio::test]
async fn what_is_no_introduction_of_this_sender_to_this_agent_is_refused() {
    let world = world_with_west().await;
    let (north, west, east, us) = (key(NORTH), key(WEST), key(EAST), key(200));
    assert_eq!(us.did(), world.agent.did());
    let good = signed(&west, &north, &us, 60);
    let bad = [
        ("no object", "x".into()),
        ("empty", json!({})),
        ("expired", signed(&west, &north, &us, 0)),
        ("forged", altered(&good, &["credentialSubject"], "trustLevelBp", 1000.into())),
        ("re-subjected", altered(&good, &["credentialSubject"], "id", east.did().into())),
        ("re-targeted", altered(&good, &["credentialSubject"], "introducedTo", north.did().into())),
        ("of another", signed(&west, &east, &us, 60)),
        ("to another", signed(&west, &north, &east, 60)),
        ("self-issued", altered(&good, &[], "issuer", north.did().into())),
        ("another mode", altered(&good, &["provenance"], "mode", "because".into())),
    ];
    let mut answers = Vec::new();
    for (n, (why, vc)) in bad.into_iter().enumerate() {
        let answer = introduced(&world, &n.to_string(), vc).await;
        assert_eq!(code(&answer), -32011, "{why}");
        answers.push(answer);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "one answer for all");
    assert!(world.requests().await.is_empty());
    assert_eq!(code(&introduced(&world, "0", Value::Null).await), -32010, "null is no introduction");
}

#[tokio::test]
async fn the_issuer_must_be_a_direct_contact() {
    let world = world_with_west().await;
    let (north, west, east) = (key(NORTH), key(WEST), key(EAST));
    assert_eq!(code(&introduced(&world, "1", world.vc(&east, &north, 1)).await), -32013, "a stranger");
    // East is introduced and accepted: its own word does not count.
    world.send_with(&east, "1", "hello", json!({"vc": (world.vc(&west, &east, 2))})).await;
    world.decide(Decision::Accept).await;
    assert_eq!(code(&world.send(&east, "2", "hello").await), 0);
    assert_eq!(code(&introduced(&world, "2", world.vc(&east, &north, 3)).await), -32013, "there is no longer chain");
    world.block(&west).await;
    assert_eq!(code(&introduced(&world, "3", world.vc(&west, &north, 4)).await), -32013, "nor does a blocked word");
    assert_eq!(code(&world.send(&east, "3", "hello").await), -32010, "what it vouched for is suspended");
}

#[tokio::test]
async fn removing_a_contact_ends_what_it_vouched_for() {
    let world = world_with_west().await;
    let vc = world.vc(&key(WEST), &key(NORTH), 7);
    introduced(&world, "1", vc.clone()).await;
    world.decide(Decision::Accept).await;
    assert_eq!(code(&world.send(&key(NORTH), "2", "hello").await), 0);
    world.agent.store().remove_contact(key(WEST).did()).await.unwrap();
    assert_eq!(code(&world.send(&key(NORTH), "3", "hello").await), -32010);
    assert_eq!(code(&introduced(&world, "3", vc.clone()).await), -32013);
    world.befriend(&key(WEST)).await;
    assert_eq!(code(&introduced(&world, "3", vc).await), -32011, "it comes never back to life");
    let anew = world.vc(&key(WEST), &key(NORTH), 8);
    assert_eq!(metadata(&introduced(&world, "3", anew).await, "status").and_then(Value::as_str), Some("held"));
}

#[tokio::test]
async fn a_direct_contact_need_not_show_anything_and_an_open_door_does_not_look() {
    let world = world_with_west().await;
    assert_eq!(code(&world.send_with(&key(WEST), "1", "hello", json!({"vc": "x"})).await), 0);
    let open = open().await;
    assert_eq!(code(&introduced(&open, "1", "x".into()).await), 0);
}

pub(super) async fn open() -> World {
    world(|options| options.open_door = true).await
}

#[tokio::test]
async fn a_domain_may_be_asked_of_everybody_but_contacts() {
    let world = world_with_west().await;
    world.policy("domain", "required").await;
    assert_eq!(code(&world.send(&key(WEST), "1", "hello").await), 0);
    assert_eq!(code(&introduced(&world, "1", world.vc(&key(WEST), &key(NORTH), 7)).await), -32015);
}

#[tokio::test]
async fn an_owner_who_leaves_it_to_contacts_is_not_asked() {
    let world = world_with_west().await;
    world.policy("introductions", "accept").await;
    let vc = world.vc(&key(WEST), &key(NORTH), 7);
    let answer = introduced(&world, "1", vc.clone()).await;
    assert_eq!(metadata(&answer, "status").and_then(Value::as_str), Some("accepted"), "{}", answer.to_json());
    assert_eq!(world.stored().await.len(), 1);
    assert_eq!(world.requests().await.pop().unwrap().status, RequestStatus::Accepted);
    let errands = world.agent.store().errands().await.unwrap();
    assert_eq!((errands.len(), &errands[0].errand.peer), (1, key(WEST).did()), "the introducer is told");
    assert_eq!(code(&introduced(&world, "2", vc).await), 0);
    assert_eq!(code(&world.send(&key(NORTH), "3", "hello").await), 0);
    assert_eq!(world.agent.store().errands().await.unwrap().len(), 1);
}
