//! `introduce/propose`, `introduce/respond`, and the introduction that a subject is given.
use crate::receive::testing::*;
use muretai_protocol::{UnixSeconds, json, json::Value, sign::SigningKey};
use muretai_store::{
    contacts::Relation,
    introductions::{IntroductionRow, IntroductionStatus, Role},
    requests::{Decision, RequestKind, RequestStatus},
};

const NORTH: u8 = 1;
const WEST: u8 = 2;
const EAST: u8 = 3;

const PROPOSE: (&str, &str) = ("introduce/propose", "introduce/propose\na baker");
const RESPOND: (&str, &str) = ("introduce/respond", "introduce/respond");

fn about(subject: &SigningKey) -> Value {
    json!({"did": (subject.did()), "name": "north", "url": "http://north.example"})
}

async fn propose(world: &World, by: u8, id: &str, vc: Value) -> Value {
    world.ask(PROPOSE, &key(by), id, &[("vc", vc), ("subject", about(&key(NORTH)))]).await
}

#[tokio::test]
async fn a_contact_proposes_and_the_owner_decides() {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    let vc = world.vc(&key(WEST), &key(NORTH), 7);
    let answer = propose(&world, WEST, "1", vc.clone()).await;
    assert_eq!(status(&answer), "pending", "{}", answer.to_json());
    let id = answer.member("result").unwrap().member("introductionId").and_then(Value::as_str);
    assert_eq!(id, Some(vc_id(7).as_str()));
    let row = world.requests().await.pop().unwrap();
    assert_eq!(
        (row.kind, &row.peer, row.via.as_ref()),
        (RequestKind::Introduction, key(NORTH).did(), Some(key(WEST).did()))
    );
    assert_eq!((row.note.as_deref(), row.peer_name.as_deref()), (Some("a baker"), Some("north")));
    assert_eq!(row.coordinates.url.as_deref(), Some("http://north.example"));
    assert_eq!(status(&propose(&world, WEST, "2", vc.clone()).await), "pending", "the same credential is one row");
    assert_eq!(world.requests().await.len(), 1);
    // A first message of the subject waits on that very row.
    let held = world.send_with(&key(NORTH), "1", "hello", json!({"vc": (vc.clone())})).await;
    assert_eq!(metadata(&held, "status").and_then(Value::as_str), Some("held"));
    assert_eq!(world.requests().await.len(), 1);
    world.decide(Decision::Accept).await;
    assert_eq!(world.stored().await.len(), 1);
    assert_eq!(code(&world.send(&key(NORTH), "2", "hello").await), 0);
    assert_eq!(status(&propose(&world, WEST, "3", vc).await), "accepted");
}

#[tokio::test]
async fn what_ended_with_its_issuer_is_not_proposed_again() {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    let vc = world.vc(&key(WEST), &key(NORTH), 7);
    propose(&world, WEST, "1", vc.clone()).await;
    world.decide(Decision::Accept).await;
    world.agent.store().remove_contact(key(WEST).did()).await.unwrap();
    world.befriend(&key(WEST)).await;
    assert_eq!(code(&propose(&world, WEST, "2", vc).await), -32011);
    assert_eq!(code(&world.send(&key(NORTH), "1", "hello").await), -32010);
    assert_eq!(status(&propose(&world, WEST, "3", world.vc(&key(WEST), &key(NORTH), 8)).await), "pending");
}

#[tokio::test]
async fn a_first_message_of_somebody_who_was_proposed_waits_without_showing_anything() {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    propose(&world, WEST, "1", world.vc(&key(WEST), &key(NORTH), 7)).await;
    assert_eq!(code(&world.send(&key(EAST), "1", "hello").await), -32010, "another one is a stranger");
    let held = world.send(&key(NORTH), "1", "hello").await;
    assert_eq!(metadata(&held, "status").and_then(Value::as_str), Some("held"), "{}", held.to_json());
    assert_eq!(world.requests().await[0].held_text.as_deref(), Some("hello"));
    assert!(is_duplicate(&world.send(&key(NORTH), "1", "hello").await));
    assert_eq!(code(&world.send(&key(NORTH), "2", "more").await), -32014);
    world.decide(Decision::Accept).await;
    assert_eq!(world.stored().await[0].text, "hello");
    assert_eq!(code(&world.send(&key(NORTH), "2", "more").await), 0);
}

#[tokio::test]
async fn a_proposal_helps_nobody_once_it_is_rejected_or_its_voucher_is_out() {
    for end in ["rejected", "blocked subject", "blocked voucher", "removed voucher", "revoked"] {
        let world = world(|_| {}).await;
        world.befriend(&key(WEST)).await;
        propose(&world, WEST, "1", world.vc(&key(WEST), &key(NORTH), 7)).await;
        let (store, west) = (world.agent.store(), key(WEST).did().clone());
        match end {
            "rejected" => world.decide(Decision::Reject).await,
            "blocked subject" => world.block(&key(NORTH)).await,
            "blocked voucher" => world.block(&key(WEST)).await,
            "removed voucher" => drop(store.remove_contact(&west).await.unwrap()),
            _ => drop(store.mark_revoked(&west, &[vc_id(7)], crate::agent::now()).await.unwrap()),
        }
        assert_eq!(code(&world.send(&key(NORTH), "1", "hello").await), -32010, "{end}");
        assert!(world.stored().await.is_empty());
    }
}

#[tokio::test]
async fn the_owner_may_leave_it_to_contacts() {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    world.policy("introductions", "accept").await;
    let vc = world.vc(&key(WEST), &key(NORTH), 7);
    assert_eq!(status(&propose(&world, WEST, "1", vc).await), "accepted");
    assert_eq!(code(&world.send(&key(NORTH), "1", "hello").await), 0);
    let errands = world.agent.store().errands().await.unwrap();
    assert_eq!((errands.len(), &errands[0].errand.peer), (1, key(WEST).did()), "the introducer is told");
    world.receiver.errand_written().await;
}

#[tokio::test]
async fn nobody_but_a_direct_contact_proposes_and_nothing_but_its_own_word() {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    let (north, west, east) = (key(NORTH), key(WEST), key(EAST));
    assert_eq!(code(&propose(&world, EAST, "1", world.vc(&east, &north, 1)).await), -32013);
    assert_eq!(code(&propose(&world, WEST, "1", world.vc(&east, &north, 1)).await), -32011, "another's word");
    assert_eq!(code(&propose(&world, WEST, "1", world.vc(&west, &east, 1)).await), -32011, "another subject");
    assert_eq!(code(&propose(&world, WEST, "1", vc(&west, north.did(), east.did(), 1)).await), -32011);
    let subject = object([("did", north.did().into()), ("url", "x y".into())]);
    let bad = [("vc", world.vc(&west, &north, 1)), ("subject", subject)];
    assert_eq!(code(&world.ask(PROPOSE, &west, "1", &bad).await), -32602);
    let text = ("introduce/propose", "please");
    let good = [("vc", world.vc(&west, &north, 1)), ("subject", about(&north))];
    assert_eq!(code(&world.ask(text, &west, "1", &good).await), -32602);
    assert!(world.requests().await.is_empty());
}

async fn issue(world: &World, id: u8) {
    let now = crate::agent::now();
    let row = IntroductionRow {
        id: vc_id(id),
        role: Role::Issued,
        issuer: world.agent.did().clone(),
        subject: key(NORTH).did().clone(),
        target: key(WEST).did().clone(),
        status: IntroductionStatus::Pending,
        trust_level_bp: Some(500),
        expertise: Vec::new(),
        issued: now,
        valid_until: UnixSeconds(now.0 + 60),
        issuer_endpoint: None,
        is_requested: false,
        vc: vc(&key(200), key(NORTH).did(), key(WEST).did(), id).to_json(),
        created: now,
        changed: now,
    };
    world.agent.store().add_issued(&row, None).await.unwrap();
}

async fn respond(world: &World, by: u8, id: &str, introduction: u8, decision: &str) -> Value {
    let params = [("introductionId", vc_id(introduction).into()), ("decision", decision.into())];
    world.ask(RESPOND, &key(by), id, &params).await
}

#[tokio::test]
async fn the_target_answers_once_and_the_subject_is_owed_its_introduction() {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    issue(&world, 7).await;
    assert_eq!(code(&respond(&world, WEST, "1", 8, "accept").await), -32021, "unknown");
    assert_eq!(code(&respond(&world, EAST, "1", 7, "accept").await), -32021, "not its target");
    assert_eq!(status(&respond(&world, WEST, "1", 7, "accept").await), "accepted");
    let errands = world.agent.store().errands().await.unwrap();
    assert_eq!((errands.len(), &errands[0].errand.peer), (1, key(NORTH).did()));
    world.receiver.errand_written().await;
    assert!(is_duplicate(&respond(&world, WEST, "1", 7, "accept").await));
    assert_eq!(status(&respond(&world, WEST, "2", 7, "accept").await), "accepted");
    assert_eq!(world.agent.store().errands().await.unwrap().len(), 1, "the same answer again owes nothing more");
    issue(&world, 9).await;
    assert_eq!(status(&respond(&world, WEST, "3", 9, "reject").await), "rejected");
    assert_eq!(world.agent.store().errands().await.unwrap().len(), 1, "nothing to hand over");
}

async fn hand_over(world: &World, by: u8, id: &str, vc: Value) -> Value {
    let extra = json!({"auto": true, "status": "introduction", "held_vc": (vc), "held_vc_url": "http://east.example",
        "held_vc_enc_pub": "no key", "held_vc_name": "east"});
    world.send_with(&key(by), id, "I have introduced you to east", extra).await
}

#[tokio::test]
async fn an_introduction_that_a_contact_brings_is_kept_for_use() {
    let world = world(|_| {}).await;
    world.befriend(&key(WEST)).await;
    let (us, east) = (world.agent.did().clone(), key(EAST));
    let vc = vc(&key(WEST), &us, east.did(), 7);
    assert_eq!(code(&hand_over(&world, WEST, "1", vc.clone()).await), 0);
    let held = world.agent.store().held_for(east.did(), crate::agent::now()).await.unwrap().unwrap();
    assert_eq!((held.id.as_str(), &held.issuer), (vc_id(7).as_str(), key(WEST).did()));
    assert_eq!(json::parse(held.vc.as_bytes()).unwrap(), vc, "as it came");
    let contact = world.agent.store().contact(east.did()).await.unwrap().unwrap();
    assert_eq!((contact.relation, contact.name.as_str()), (Relation::Offered, "east"));
    assert_eq!(contact.coordinates.url.as_deref(), Some("http://east.example"));
    assert_eq!(contact.coordinates.enc_pub, None, "what is malformed is left out");
    assert_eq!(code(&world.send(&east, "1", "hello").await), -32010, "it is not let in for that");
}

#[tokio::test]
async fn no_introducer_leads_what_is_written_to_another_contact_elsewhere() {
    let world = world(|_| {}).await;
    let (us, store) = (world.agent.did().clone(), world.agent.store());
    let (north, west, east) = (key(NORTH), key(WEST), key(EAST));
    world.befriend(&west).await;
    world.befriend_at(&key(4), Some("http://friend.example")).await;
    assert_eq!(code(&hand_over(&world, WEST, "1", vc(&west, &us, east.did(), 7)).await), 0);
    propose(&world, WEST, "2", world.vc(&west, &north, 8)).await;
    world.decide(Decision::Accept).await;
    let contacts = async || {
        let all = store.contacts().await.unwrap().into_iter().filter(|contact| contact.did != *key(5).did());
        all.map(|contact| (contact.did, contact.name, contact.peer_name, contact.relation, contact.coordinates))
            .collect::<Vec<_>>()
    };
    let before = contacts().await;
    assert_eq!(before.len(), 4);
    // A contact that vouches for all of them, at an address of its own.
    let evil = key(5);
    world.befriend(&evil).await;
    for (n, who) in [&north, &east, &key(4)].into_iter().enumerate() {
        let extra = json!({"auto": true, "status": "introduction", "held_vc": (vc(&evil, &us, who.did(), n as u8)),
            "held_vc_url": "http://evil.example", "held_vc_enc_pub": ("c".repeat(64)), "held_vc_name": "evil"});
        assert_eq!(code(&world.send_with(&evil, &format!("h{n}"), "hi", extra).await), 0);
        let subject = json!({"did": (who.did()), "name": "evil", "url": "http://evil.example",
            "enc_pub": ("c".repeat(64))});
        let asked = [("vc", world.vc(&evil, who, 10 + n as u8)), ("subject", subject)];
        assert_eq!(status(&world.ask(PROPOSE, &evil, &format!("p{n}"), &asked).await), "pending");
        world.decide(Decision::Accept).await;
    }
    let after = contacts().await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&before.0, &before.1, &before.2, &before.4), (&after.0, &after.1, &after.2, &after.4));
    }
    assert_eq!(after.len(), 4);
    assert!(after.iter().all(|contact| contact.3 != Relation::None));
}

#[tokio::test]
async fn what_is_no_introduction_of_us_by_its_sender_is_a_message_like_any_other() {
    let world = world(|options| options.open_door = true).await;
    world.befriend(&key(WEST)).await;
    let (us, east, west) = (world.agent.did().clone(), key(EAST), key(WEST));
    let not_kept = [
        (WEST, vc(&east, &us, key(4).did(), 1), "of another issuer"),
        (WEST, vc(&west, key(NORTH).did(), east.did(), 1), "of another subject"),
        (WEST, "x".into(), "no credential"),
        (NORTH, vc(&key(NORTH), &us, east.did(), 1), "by no contact"),
    ];
    for (n, (by, vc, why)) in not_kept.into_iter().enumerate() {
        assert_eq!(code(&hand_over(&world, by, &n.to_string(), vc).await), 0, "{why}");
        assert!(world.agent.store().introductions(None).await.unwrap().is_empty(), "{why}");
        assert_eq!(world.agent.store().contacts().await.unwrap().len(), 1, "{why}");
    }
}

#[tokio::test]
async fn an_open_door_runs_no_trust_layer() {
    let world = super::introducing::open().await;
    world.befriend(&key(WEST)).await;
    let (north, west) = (key(NORTH), key(WEST));
    issue(&world, 7).await;
    assert_eq!(code(&propose(&world, WEST, "1", world.vc(&west, &north, 7)).await), -32016);
    assert_eq!(code(&respond(&world, WEST, "2", 7, "accept").await), -32016);
    let text = format!("introduce-me-to:{}", key(EAST).did().as_str());
    assert_eq!(code(&world.ask(("introduction/request", &text), &west, "3", &[]).await), -32016);
    assert_eq!(code(&world.ask(("referral/request", "a baker"), &west, "4", &[]).await), -32016);
    assert!(world.requests().await.iter().all(|row| row.status != RequestStatus::Pending));
    // Asking to connect and asking for one's own standing have a meaning there, too.
    assert_eq!(status(&world.ask(("connect/request", "connect/request"), &north, "5", &[]).await), "pending");
    assert_eq!(code(&world.ask(("trust/status", "trust/status"), &north, "6", &[]).await), 0);
}
