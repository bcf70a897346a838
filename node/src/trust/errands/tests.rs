use muretai_protocol::{json, revocations};
use muretai_store::{
    contacts::Coordinates,
    introductions::{IntroductionRow, IntroductionStatus, Role},
    messages::{Direction, Handling, MessageRow, OutStatus, Query},
    requests::{Decided, Filed, NewRequest, PendingLimits, RequestKind, RequestRow, RequestStatus},
};

use super::*;
use crate::send::ResendRequest;
use crate::testing::{
    Act, Fake, Owned, Seen, agent, befriend, introduction_row, key, refusal, reply_to, result, serve_elsewhere,
};

const TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn an_errand_comes_back_from_the_store_as_it_was() {
    let peer = key(2).did().clone();
    for errand in [
        Errand::ConnectRespond { request: 7, request_id: Some("r".to_owned()), decision: Decision::Accept },
        Errand::ConnectRespond { request: 7, request_id: None, decision: Decision::Reject },
        Errand::IntroduceRespond { introduction_id: "urn:uuid:1".to_owned(), decision: Decision::Accept },
        Errand::Propose { introduction_id: "urn:uuid:1".to_owned(), note: Some("\"quoted\"".to_owned()) },
        Errand::Propose { introduction_id: "urn:uuid:1".to_owned(), note: None },
        Errand::HandOver { introduction_id: "urn:uuid:1".to_owned() },
        Errand::Revoked,
    ] {
        let stored = errand.to_store(&peer, UnixSeconds(1_000));
        assert_eq!((&stored.peer, stored.expires.0 - stored.created.0), (&peer, 7 * 86_400));
        let (read, id) = Errand::from_store(&stored).unwrap();
        assert_eq!(read, errand);
        let (_, again) = Errand::from_store(&stored).unwrap();
        assert_eq!(id, again, "every attempt has one id");
        assert_ne!(stored.payload, errand.to_store(&peer, UnixSeconds(1_000)).payload);
    }
}

#[test]
fn what_another_version_wrote_is_not_guessed_at() {
    let good = Errand::Revoked.to_store(key(2).did(), UnixSeconds(0));
    for (kind, payload) in [
        ("more", good.payload.as_str()),
        ("revoked", "{}"),
        ("revoked", "no json"),
        ("hand-over", good.payload.as_str()),
        ("connect/respond", r#"{"messageId":"m","request":1,"decision":"maybe"}"#),
    ] {
        let stored = NewErrand { kind: kind.to_owned(), payload: payload.to_owned(), ..good.clone() };
        assert_eq!(Errand::from_store(&stored), None, "{kind} {payload}");
    }
}

#[test]
fn pauses_double_up_to_an_hour() {
    let pauses: Vec<i64> = (0..10).map(pause_secs).collect();
    assert_eq!(pauses, [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]);
    assert_eq!(pause_secs(u32::MAX), 3_600);
}

/// North, in whose home another agent is served on loopback, and an answering south that is no contact yet.
async fn pair(act: impl Fn(&Seen, usize) -> Act + Send + Sync + 'static) -> (Near, Fake) {
    let north = agent("north").await;
    let _lock = serve_elsewhere(&north, "east", "http://127.0.0.1:9");
    (Near { north, _lock }, Fake::start(move |_, seen, number| act(seen, number)).await)
}

/// An agent that dials loopback addresses of others.
struct Near {
    north: Owned,
    _lock: std::fs::File,
}

impl std::ops::Deref for Near {
    type Target = Owned;
    fn deref(&self) -> &Owned {
        &self.north
    }
}

/// South's connect request as north has it.
async fn asked(north: &Owned, url: Option<&str>) -> RequestRow {
    let request = NewRequest {
        kind: RequestKind::Connect,
        peer: key(2).did().clone(),
        via: None,
        about: None,
        wire_id: Some("r1".to_owned()),
        peer_name: Some("south".to_owned()),
        note: None,
        coordinates: Coordinates { url: url.map(str::to_owned), relay: None, enc_pub: None, enc_pub_pq: None },
        record: None,
        is_vouched: false,
        created: now(),
        expires: UnixSeconds(now().0 + 86_400),
    };
    let handling = Handling { from: key(2).did().clone(), message_id: "m1".to_owned(), digest: [1; 32] };
    let limits = PendingLimits { total: 100, strangers_per_hour: 5 };
    match north.agent.store().file_connect(&request, false, "north", limits, &handling).await.unwrap() {
        Filed::Pending(row) => *row,
        other => panic!("{other:?}"),
    }
}

/// The owner accepts it.
async fn accepted(north: &Owned, url: Option<&str>) -> (RequestRow, NewErrand) {
    let row = asked(north, url).await;
    let errand = Errand::ConnectRespond { request: row.id, request_id: row.wire_id, decision: Decision::Accept };
    let errand = errand.to_store(key(2).did(), now());
    let decided =
        north.agent.store().decide(row.id, Decision::Accept, None, "north", vec![errand.clone()], now()).await;
    let Decided::Done { row, .. } = decided.unwrap() else { panic!("not decided") };
    (*row, errand)
}

async fn tell(north: &Owned, errand: &NewErrand) -> Carried {
    north.agent.tell(std::slice::from_ref(errand), TIMEOUT).await.unwrap().remove(0)
}

async fn owed(north: &Owned) -> Vec<StoredErrand> {
    north.agent.store().errands().await.unwrap()
}

#[tokio::test]
async fn an_acceptance_is_told_with_where_we_are() {
    let (north, south) = pair(|_, _| result(&json!({"status": "connected"}))).await;
    let (_, errand) = accepted(&north, Some(&south.url)).await;
    assert!(matches!(tell(&north, &errand).await, Carried::Done));
    assert!(owed(&north).await.is_empty());
    let params = south.posts()[0].rpc().member("params").unwrap().clone();
    let text = |key: &str| params.member(key).and_then(Value::as_str).map(str::to_owned);
    assert_eq!(text("requestId").as_deref(), Some("r1"));
    assert_eq!((text("decision").as_deref(), text("name").as_deref()), (Some("accept"), Some("north")));
    assert!(matches!(tell(&north, &errand).await, Carried::Done), "nothing is owed any more");
    assert_eq!(south.posts().len(), 1);
}

#[tokio::test]
async fn an_acceptance_that_nobody_wants_any_more_is_undone() {
    let (north, south) = pair(|_, _| refusal(-32021, "No such pending request", "null")).await;
    let (row, _) = accepted(&north, Some(&south.url)).await;
    assert_eq!(north.agent.run_errands().await, 1);
    let store = north.agent.store();
    assert_eq!(store.request(row.id, now()).await.unwrap().unwrap().status, RequestStatus::Withdrawn);
    assert!(store.contact(key(2).did()).await.unwrap().is_none(), "this acceptance made it");
    assert!(owed(&north).await.is_empty());
}

#[tokio::test]
async fn what_the_peer_knows_already_is_done() {
    for (code, data) in [(-32022, "null"), (-32002, r#"{"duplicate":true}"#)] {
        let (north, south) = pair(move |_, _| refusal(code, "known", data)).await;
        let (row, errand) = accepted(&north, Some(&south.url)).await;
        assert!(matches!(tell(&north, &errand).await, Carried::Done), "{code}");
        assert!(owed(&north).await.is_empty());
        let row = north.agent.store().request(row.id, now()).await.unwrap().unwrap();
        assert_eq!(row.status, RequestStatus::Accepted);
    }
}

#[tokio::test]
async fn somebody_without_an_address_learns_by_asking() {
    let (north, _south) = pair(|_, _| Act::Drop).await;
    let (_, errand) = accepted(&north, None).await;
    assert!(matches!(tell(&north, &errand).await, Carried::NoAddress));
    assert!(owed(&north).await.is_empty());
    assert!(north.agent.store().contact(key(2).did()).await.unwrap().is_some());
}

#[tokio::test]
async fn who_is_not_there_is_tried_again_under_the_same_id() {
    let (north, south) = pair(|_, number| match number {
        0 => Act::status(503),
        1 => refusal(-32603, "Internal error", "null"),
        _ => result(&json!({"status": "connected"})),
    })
    .await;
    let (_, errand) = accepted(&north, Some(&south.url)).await;
    assert!(matches!(tell(&north, &errand).await, Carried::Postponed(_)));
    assert_eq!(north.agent.run_errands().await, 0, "it is not due");
    let put_off = &owed(&north).await[0];
    assert_eq!(put_off.attempts, 1);
    assert!(put_off.last_error.as_ref().unwrap().contains("503"), "{:?}", put_off.last_error);
    for expected in [0, 1] {
        // Half a minute later.
        north.agent.store().postpone_errand(put_off.id, now(), "").await.unwrap();
        assert_eq!(north.agent.run_errands().await, expected);
    }
    let ids: Vec<String> = south.posts().iter().map(Seen::message_id).collect();
    assert!(ids.len() == 3 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert!(owed(&north).await.is_empty());
}

#[tokio::test]
async fn an_owner_who_changed_its_mind_has_nothing_told() {
    let (north, south) = pair(|_, _| result(&json!({"status": "connected"}))).await;
    let (_, errand) = accepted(&north, Some(&south.url)).await;
    north.agent.store().set_blocked(key(2).did(), true, now()).await.unwrap();
    // Blocking dropped it; even one that is left says nothing.
    north.agent.store().add_errand(&errand).await.unwrap();
    tell(&north, &errand).await;
    assert!(south.posts().is_empty());
}

#[tokio::test]
async fn two_programs_tell_once() {
    let (north, south) = pair(|_, _| result(&json!({"status": "connected"}))).await;
    accepted(&north, Some(&south.url)).await;
    let (one, other) = tokio::join!(north.agent.run_errands(), north.agent.run_errands());
    assert_eq!(one + other, 1);
    assert_eq!(south.posts().len(), 1);
}

#[tokio::test]
async fn a_no_is_told_to_a_stranger_where_it_said_it_is_and_never_inside() {
    for is_near in [true, false] {
        let (near, south) = pair(|_, _| result(&json!({"status": "rejected"}))).await;
        let Near { north, _lock } = near;
        let lock = is_near.then_some(_lock);
        let row = asked(&north, Some(&south.url)).await;
        let errand = Errand::ConnectRespond { request: row.id, request_id: None, decision: Decision::Reject };
        let errand = errand.to_store(key(2).did(), now());
        let store = north.agent.store();
        store.decide(row.id, Decision::Reject, None, "north", vec![errand.clone()], now()).await.unwrap();
        let carried = tell(&north, &errand).await;
        // A loopback address out of a stranger's mouth leads nowhere unless we are there ourselves.
        assert_eq!((matches!(carried, Carried::Done), south.posts().len()), (is_near, usize::from(is_near)));
        drop(lock);
    }
}

async fn issue(north: &Owned, url: &str) -> IntroductionRow {
    let issuer = muretai_protocol::sign::SigningKey::from_seed(&crate::testing::seed_of("north"));
    befriend(&north.agent, key(2).did(), Some(url)).await;
    let row = introduction_row(&issuer, Role::Issued, key(7).did(), key(2).did());
    north.agent.store().add_issued(&row, None).await.unwrap();
    row
}

async fn status_of(north: &Owned, id: &str) -> IntroductionStatus {
    let row = north.agent.store().introduction(Role::Issued, north.agent.did(), id).await.unwrap();
    row.unwrap().status
}

#[tokio::test]
async fn a_proposal_carries_the_introduction_and_its_subject() {
    let (north, south) = pair(|_, _| result(&json!({"status": "pending"}))).await;
    let row = issue(&north, &south.url).await;
    let errand = Errand::Propose { introduction_id: row.id.clone(), note: Some("good at rust".to_owned()) };
    let errand = errand.to_store(key(2).did(), now());
    north.agent.store().add_errand(&errand).await.unwrap();
    assert!(matches!(tell(&north, &errand).await, Carried::Done));
    let params = south.posts()[0].rpc().member("params").unwrap().clone();
    assert_eq!(params.member("vc").unwrap().to_json(), row.vc);
    let subject = params.member("subject").unwrap();
    assert_eq!(subject.member("did").and_then(Value::as_str), Some(key(7).did().as_str()));
    assert_eq!(params.member("note").and_then(Value::as_str), Some("good at rust"));
    assert_eq!(status_of(&north, &row.id).await, IntroductionStatus::Pending);
}

#[tokio::test]
async fn a_proposal_that_is_refused_for_good_ends_the_introduction() {
    for (code, left) in [(-32013, IntroductionStatus::Rejected), (-32004, IntroductionStatus::Pending)] {
        let (north, south) = pair(move |_, _| refusal(code, "no", "null")).await;
        let row = issue(&north, &south.url).await;
        let errand = Errand::Propose { introduction_id: row.id.clone(), note: None }.to_store(key(2).did(), now());
        north.agent.store().add_errand(&errand).await.unwrap();
        let carried = tell(&north, &errand).await;
        let is_refused = matches!(carried, Carried::Refused(_));
        assert_eq!((is_refused, status_of(&north, &row.id).await), (code == -32013, left));
    }
}

async fn sent(north: &Owned) -> Vec<MessageRow> {
    let all = Query { with_sent: true, with_auto: true, ..Query::default() };
    let rows = north.agent.store().messages(&all).await.unwrap();
    rows.into_iter().filter(|row| row.direction == Direction::Out).collect()
}

#[tokio::test]
async fn the_subject_is_given_its_introduction_once() {
    let (north, east) = pair(|seen, _| result(&reply_to(seen, "").sign(&key(7)))).await;
    let row = issue(&north, "http://south.example").await;
    let subject = befriend(&north.agent, key(7).did(), Some(&east.url)).await;
    assert_eq!(subject.did, row.subject);
    let errand = Errand::HandOver { introduction_id: row.id.clone() }.to_store(&row.subject, now());
    north.agent.store().add_errand(&errand).await.unwrap();
    assert!(matches!(tell(&north, &errand).await, Carried::Done));
    let metadata = east.posts()[0].message().member("metadata").unwrap().clone();
    let text = |key: &str| metadata.member(key).and_then(Value::as_str).map(str::to_owned);
    assert_eq!(metadata.member("held_vc").unwrap().to_json(), row.vc);
    assert_eq!(
        (text("held_vc_url").as_deref(), text("status").as_deref()),
        (Some("http://south.example"), Some("introduction"))
    );
    assert_eq!(metadata.member("auto").and_then(Value::as_bool), Some(true));
    let rows = sent(&north).await;
    assert_eq!((rows.len(), rows[0].status), (1, Some(OutStatus::Delivered)));
    // The program ended before it could say that it was done.
    north.agent.store().add_errand(&errand).await.unwrap();
    assert!(matches!(tell(&north, &errand).await, Carried::Done));
    assert_eq!((sent(&north).await.len(), east.posts().len()), (1, 1));
}

#[tokio::test]
async fn a_notice_that_did_not_arrive_is_the_same_message_later() {
    let (north, east) = pair(|seen, number| match number {
        0 => Act::status(503),
        _ => result(&reply_to(seen, "").sign(&key(7))),
    })
    .await;
    let row = issue(&north, "http://south.example").await;
    befriend(&north.agent, key(7).did(), Some(&east.url)).await;
    let errand = Errand::HandOver { introduction_id: row.id.clone() }.to_store(&row.subject, now());
    let id = north.agent.store().add_errand(&errand).await.unwrap();
    assert!(matches!(tell(&north, &errand).await, Carried::Postponed(_)));
    let message_id = sent(&north).await.remove(0).message_id;
    let again = ResendRequest { message_id, timeout: TIMEOUT, retries: 0, allow_private: false };
    let error = north.agent.resend(&again).await.unwrap_err();
    assert!(error.to_string().contains("by itself"), "its text alone is not what is owed: {error}");
    north.agent.store().postpone_errand(id, now(), "").await.unwrap();
    assert_eq!(north.agent.run_errands().await, 1);
    assert_eq!(sent(&north).await.len(), 1);
    let posts = east.posts();
    assert_eq!(posts[0].message_id(), posts[1].message_id());
    assert!(posts[1].message().member("metadata").unwrap().member("held_vc").is_some());
}

#[tokio::test]
async fn what_was_taken_back_is_not_handed_over_and_its_target_is_told() {
    let (north, south) = pair(|seen, _| result(&reply_to(seen, "").sign(&key(2)))).await;
    let row = issue(&north, &south.url).await;
    let other = issue(&north, &south.url).await;
    let errand = Errand::Revoked.to_store(key(2).did(), now());
    north.agent.store().revoke_issued(&row.id, now(), Some(errand.clone())).await.unwrap();
    assert!(matches!(tell(&north, &errand).await, Carried::Done));
    let metadata = south.posts()[0].message().member("metadata").unwrap().clone();
    let list = revocations::verify(metadata.member("revocations").unwrap(), north.agent.did(), now()).unwrap();
    assert_eq!(list.revoked, std::slice::from_ref(&row.id));
    assert_eq!(metadata.member("status").and_then(Value::as_str), Some("revocation"));
    assert_ne!(status_of(&north, &other.id).await, IntroductionStatus::Revoked);
    let late = Errand::HandOver { introduction_id: row.id.clone() }.to_store(&row.subject, now());
    north.agent.store().add_errand(&late).await.unwrap();
    assert!(matches!(tell(&north, &late).await, Carried::Done));
    assert_eq!(south.posts().len(), 1, "nothing was handed over");
}
