use muretai_protocol::{json, sign::SigningKey};
use muretai_store::{
    contacts::Relation,
    introductions::{IntroductionRow, Role},
    requests::RequestStatus,
};

use super::*;
use crate::{
    Fault,
    testing::{Fake, Owned, agent, befriend, introduction_row, key, refusal, result},
};

fn ask() -> ReferralRequest {
    ReferralRequest {
        topic: " who knows rust? ".to_owned(),
        ask: "south".to_owned(),
        limit: 3,
        timeout: Duration::from_secs(10),
    }
}

/// North, whose contact (called south) answers a question with this.
async fn answering(answer: impl Fn(&Owned) -> Value) -> (Owned, Fake) {
    let north = agent("north").await;
    let answer = answer(&north);
    let fake = Fake::start(move |_, _, _| result(&answer)).await;
    befriend(&north.agent, key(3).did(), Some(&fake.url)).await;
    (north, fake)
}

fn vouched(north: &Owned, issuer: &SigningKey, target: u8) -> IntroductionRow {
    introduction_row(issuer, Role::Issued, north.agent.did(), key(target).did())
}

fn named(row: &IntroductionRow) -> Value {
    let vc = json::parse(row.vc.as_bytes()).unwrap();
    json!({"did": (row.target.as_str()), "name": "east", "expertise": ["rust", "a\u{202e}b"], "trustLevelBp": 700,
        "vc": vc, "url": "https://east.example"})
}

#[tokio::test]
async fn who_is_named_becomes_an_address_with_an_introduction() {
    let (north, fake) =
        answering(|north| json!({"status": "ok", "referrals": [(named(&vouched(north, &key(3), 7)))]})).await;
    let referred = north.agent.referral(&ask()).await.unwrap();
    assert_eq!((referred.referrals.len(), referred.dropped, referred.is_queued), (1, 0, false));
    let east = &referred.referrals[0];
    assert_eq!((&east.did, east.name.as_str(), east.trust_level_bp), (key(7).did(), "east", Some(700)));
    assert_eq!(east.expertise, ["rust", "a\\u{202e}b"]);
    let contact = north.agent.store().contact(key(7).did()).await.unwrap().unwrap();
    assert_eq!(contact.relation, Relation::Offered);
    assert_eq!(contact.coordinates.url.as_deref(), Some("https://east.example"));
    assert!(north.agent.store().held_for(key(7).did(), now()).await.unwrap().is_some());
    assert!(north.agent.requests(true).await.unwrap().is_empty());
    let message = muretai_protocol::message::Message::from_value(fake.posts()[0].message()).unwrap();
    assert_eq!(message.text, "who knows rust?", "the signed text is the need alone");
}

#[tokio::test]
async fn what_does_not_verify_is_counted_and_forgotten() {
    let (north, _fake) = answering(|north| {
        let by_another = vouched(north, &key(4), 7);
        let of_another = introduction_row(&key(3), Role::Issued, key(9).did(), key(7).did());
        let mut forged = named(&vouched(north, &key(3), 7));
        let Value::Object(members) = &mut forged else { unreachable!() };
        let Some(Value::Object(vc)) = members.get_mut("vc") else { unreachable!() };
        vc.insert("issuanceDate".to_owned(), "2020-01-01T00:00:00Z".into());
        let mut of_other = named(&vouched(north, &key(3), 7));
        let Value::Object(members) = &mut of_other else { unreachable!() };
        members.insert("did".to_owned(), key(8).did().into());
        json!({"status": "ok", "referrals": [(named(&by_another)), (named(&of_another)), forged]})
    })
    .await;
    let referred = north.agent.referral(&ask()).await.unwrap();
    assert_eq!((referred.referrals.len(), referred.dropped), (0, 3));
    assert!(north.agent.store().introductions(None).await.unwrap().is_empty());
    assert_eq!(north.agent.store().contacts().await.unwrap().len(), 1);
}

#[tokio::test]
async fn another_name_than_the_introductions_is_not_taken() {
    let (north, _fake) = answering(|north| {
        let mut other = named(&vouched(north, &key(3), 7));
        let Value::Object(members) = &mut other else { unreachable!() };
        members.insert("did".to_owned(), key(8).did().into());
        json!({"status": "ok", "referrals": [other, 1, null, [], {"did": "x"}]})
    })
    .await;
    let referred = north.agent.referral(&ask()).await.unwrap();
    assert_eq!((referred.referrals.len(), referred.dropped), (0, 5));
}

#[tokio::test]
async fn no_more_are_taken_than_were_asked_for() {
    let (north, _fake) = answering(|north| {
        let many: Vec<Value> = (10..30).map(|n| named(&vouched(north, &key(3), n))).collect();
        json!({"status": "ok", "referrals": many})
    })
    .await;
    let referred = north.agent.referral(&ask()).await.unwrap();
    assert_eq!((referred.referrals.len(), referred.dropped), (3, 17));
    assert_eq!(north.agent.store().introductions(None).await.unwrap().len(), 3);
}

#[tokio::test]
async fn coordinates_that_lead_nowhere_are_left_out() {
    for url in ["http://169.254.169.254/", "file:///etc/passwd", "http://0.0.0.0:80", &"x".repeat(5_000)] {
        let (north, _fake) = answering(|north| {
            let mut east = named(&vouched(north, &key(3), 7));
            let Value::Object(members) = &mut east else { unreachable!() };
            members.insert("url".to_owned(), url.into());
            json!({"status": "ok", "referrals": [east]})
        })
        .await;
        assert_eq!(north.agent.referral(&ask()).await.unwrap().referrals.len(), 1);
        let contact = north.agent.store().contact(key(7).did()).await.unwrap().unwrap();
        assert_eq!(contact.coordinates.url, None, "{url}");
    }
}

#[tokio::test]
async fn a_question_that_waits_for_an_owner_is_listed() {
    let (north, _fake) = answering(|_| json!({"status": "queued", "referrals": []})).await;
    for _ in 0..2 {
        assert!(north.agent.referral(&ask()).await.unwrap().is_queued);
    }
    let rows = north.agent.requests(false).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].kind, rows[0].status), (RequestKind::Referral, RequestStatus::Pending));
    assert_eq!((&rows[0].peer, rows[0].note.as_deref()), (key(3).did(), Some("who knows rust?")));
}

#[tokio::test]
async fn what_is_no_answer_and_no_question_is_said() {
    for answer in [json!({}), json!(null), json!({"status": 1}), json!({"status": "maybe"})] {
        let (north, _fake) = answering(|_| answer.clone()).await;
        let error = north.agent.referral(&ask()).await.unwrap_err();
        assert!(matches!(error, TrustError::BadAnswer { .. }), "{error:?}");
    }
    let fake = Fake::start(|_, _, _| refusal(-32012, "Trust query not permitted", "null")).await;
    let north = agent("north").await;
    befriend(&north.agent, key(3).did(), Some(&fake.url)).await;
    assert_eq!(north.agent.referral(&ask()).await.unwrap_err().fault(), Fault::PeerRefused);
    let before = fake.posts().len();
    for (topic, limit) in [("", 3), ("  ", 3), ("introduce-me-to:x", 3), ("a\0b", 3), ("x", 0), ("x", 21)] {
        let request = ReferralRequest { topic: topic.to_owned(), limit, ..ask() };
        assert_eq!(north.agent.referral(&request).await.unwrap_err().fault(), Fault::Usage, "{topic} {limit}");
    }
    let stranger = ReferralRequest { ask: key(9).did().to_string(), ..ask() };
    assert!(matches!(north.agent.referral(&stranger).await.unwrap_err(), TrustError::NotDirect { .. }));
    assert_eq!(fake.posts().len(), before);
}
