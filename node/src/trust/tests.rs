//! Three served agents that introduce, connect and ask each other, each in a home of its own.
use std::time::Duration;

use muretai_protocol::rpc::Code;
use muretai_store::{
    contacts::Relation as ContactRelation,
    introductions::IntroductionStatus,
    messages::{Direction, Query},
    requests::{Decision, RequestKind, RequestRow, RequestStatus},
};
use muretai_transports::{Stop, http::ServerLimits};

use super::{
    connect::{ConnectRequest, Connected},
    introduce::{IntroduceRequest, Proposed},
    referral::ReferralRequest,
    requests::{DecideRequest, DecidedRequest},
    status::{Relation, TrustStatus},
    *,
};
use crate::{
    Agent, Fault,
    agent::now,
    send::{SendError, SendRequest, Sent, SentStatus},
    serve::ServeOptions,
    testing::{Owned, agent, befriend},
};

mod relayed;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A served agent that stops with the test.
struct Served {
    owned: Owned,
    url: String,
    stop: Stop,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

impl std::ops::Deref for Served {
    type Target = Agent;
    fn deref(&self) -> &Agent {
        &self.owned.agent
    }
}

async fn served(name: &str) -> Served {
    let owned = agent(name).await;
    let options = ServeOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        url: None,
        open_door: false,
        rate: None,
        reply_with: None,
        skills: None,
        policies: Vec::new(),
        limits: ServerLimits::default(),
        relays: Vec::new(),
        no_http: false,
        relay_times: Default::default(),
    };
    let serving = owned.agent.serve(&options).await.unwrap();
    let (url, stop) = (serving.url().to_owned(), Stop::new());
    tokio::spawn(serving.run(stop.clone()));
    Served { owned, url, stop }
}

/// Trust both ways.
async fn acquaint(one: &Served, other: &Served) {
    for (agent, peer) in [(one, other), (other, one)] {
        let contact = befriend(agent, peer.did(), Some(&peer.url)).await;
        agent.store().rename_contact(&contact.did, peer.name()).await.unwrap();
    }
}

/// West knows north and south, who do not know each other.
async fn three() -> (Served, Served, Served) {
    let (west, north, south) = (served("west").await, served("north").await, served("south").await);
    acquaint(&west, &north).await;
    acquaint(&west, &south).await;
    (west, north, south)
}

fn introduction(subject: &str, target: &str) -> IntroduceRequest {
    IntroduceRequest {
        subject: subject.to_owned(),
        target: target.to_owned(),
        expertise: vec!["rust".to_owned()],
        trust_level_bp: 800,
        days: 30,
        note: Some("we worked together".to_owned()),
        timeout: TIMEOUT,
    }
}

async fn send(from: &Served, target: &str, text: &str) -> Result<Sent, SendError> {
    let request = SendRequest {
        target: target.to_owned(),
        text: text.to_owned(),
        context_id: None,
        reply_to: None,
        timeout: TIMEOUT,
        retries: 0,
        unverified: false,
        allow_private: false,
        via: None,
    };
    from.send(&request).await
}

async fn code(from: &Served, target: &str) -> i64 {
    match send(from, target, "hello").await.unwrap_err() {
        SendError::Refused { code, .. } => code,
        other => panic!("{other:?}"),
    }
}

async fn status(from: &Served, at: &Served) -> TrustStatus {
    from.ask_trust_status(&at.url, None, TIMEOUT, false).await.unwrap()
}

async fn waiting(agent: &Served, kind: RequestKind) -> RequestRow {
    let rows = agent.requests(false).await.unwrap();
    rows.into_iter().find(|row| row.kind == kind && row.direction == Direction::In).unwrap()
}

async fn decide(agent: &Served, kind: RequestKind, decision: Decision) -> Result<DecidedRequest, TrustError> {
    agent.decide(&decision_on(&waiting(agent, kind).await, decision)).await
}

fn decision_on(row: &RequestRow, decision: Decision) -> DecideRequest {
    DecideRequest { id: row.id, decision, name: None, refer: Vec::new(), timeout: TIMEOUT }
}

/// Waits until an agent was given an introduction to somebody: its introducer's service, or this, carries it.
async fn given(agent: &Served, introducer: &Served, target: &Served) {
    while agent.store().held_for(target.did(), now()).await.unwrap().is_none() {
        introducer.run_errands().await;
    }
}

async fn inbox(agent: &Served) -> Vec<String> {
    let rows = agent.store().messages(&Query::default()).await.unwrap();
    rows.into_iter().map(|row| row.text).collect()
}

#[tokio::test]
async fn an_introduction_opens_the_gate_until_it_is_taken_back() {
    let (west, north, south) = three().await;
    assert_eq!(code(&north, &south.url).await, Code::IntroductionRequired.number());
    assert_eq!(status(&north, &south).await.relation, Relation::None);

    let introduced = west.introduce(&introduction("north", "south")).await.unwrap();
    assert_eq!(introduced.proposed, Proposed::Pending);
    assert_eq!(status(&north, &south).await.relation, Relation::Pending);
    let row = waiting(&south, RequestKind::Introduction).await;
    assert_eq!((&row.peer, row.via.as_ref()), (north.did(), Some(west.did())));
    assert_eq!(row.note.as_deref(), Some("we worked together"));

    let decided = decide(&south, RequestKind::Introduction, Decision::Accept).await.unwrap();
    assert!(decided.is_told && !decided.was_decided && decided.notes.is_empty(), "{decided:?}");
    assert_eq!(decided.contact.unwrap().relation, ContactRelation::Introduced);
    given(&north, &west, &south).await;
    assert_eq!(send(&north, south.did().as_str(), "good day").await.unwrap().status, SentStatus::Accepted);
    assert_eq!(inbox(&south).await, ["good day"]);
    let stands = status(&north, &south).await;
    assert!(stands.trusted && stands.depth() == Some(2) && stands.trust_level_bp == Some(800), "{stands:?}");
    assert_eq!(
        (stands.vouched_by.as_slice(), stands.expertise.as_slice()),
        ([west.did().clone()].as_slice(), ["rust".to_owned()].as_slice())
    );

    let part = introduced.introduction.id.trim_start_matches("urn:uuid:")[..8].to_owned();
    let revoked = west.revoke_introduction(&part, TIMEOUT).await.unwrap();
    assert!(revoked.is_told && revoked.introduction.status == IntroductionStatus::Revoked);
    assert!(west.revoke_introduction(&introduced.introduction.id, TIMEOUT).await.unwrap().is_told, "twice");
    assert_eq!(status(&north, &south).await.relation, Relation::None);
    let refused = code(&north, &south.url).await;
    assert!([Code::IntroductionInvalid, Code::IntroductionRequired].iter().any(|code| code.number() == refused));
}

#[tokio::test]
async fn a_no_to_an_introduction_reaches_the_introducer() {
    let (west, north, south) = three().await;
    let introduced = west.introduce(&introduction("north", "south")).await.unwrap();
    let decided = decide(&south, RequestKind::Introduction, Decision::Reject).await.unwrap();
    assert!(decided.is_told && decided.contact.is_none());
    let row = west.store().introductions(None).await.unwrap().remove(0);
    assert_eq!((&row.id, row.status), (&introduced.introduction.id, IntroductionStatus::Rejected));
    assert_eq!(code(&north, &south.url).await, Code::IntroductionRequired.number());
    let again = decision_on(&decided.row, Decision::Reject);
    assert!(south.decide(&again).await.unwrap().was_decided);
}

#[tokio::test]
async fn introducing_is_by_one_of_a_second_to_a_third() {
    let (west, north, south) = three().await;
    for (subject, target) in [("north", "north"), ("west", "south"), ("north", "west")] {
        let error = west.introduce(&introduction(subject, target)).await.unwrap_err();
        let is_right = matches!(error, TrustError::NotThree(_) | TrustError::Send(SendError::Yourself));
        assert!(is_right, "{subject} to {target}: {error:?}");
    }
    let unknown = crate::testing::key(77).did().to_string();
    let error = west.introduce(&introduction("north", &unknown)).await.unwrap_err();
    assert!(matches!(error, TrustError::NotDirect { .. }), "{error:?}");
    west.store().set_blocked(north.did(), true, now()).await.unwrap();
    let error = west.introduce(&introduction("north", "south")).await.unwrap_err();
    assert!(matches!(error, TrustError::Blocked { .. }), "{error:?}");
    for change in [
        |request: &mut IntroduceRequest| request.days = 0,
        |request: &mut IntroduceRequest| request.days = 366,
        |request: &mut IntroduceRequest| request.trust_level_bp = 1_001,
        |request: &mut IntroduceRequest| request.expertise = vec!["x".to_owned(); 17],
        |request: &mut IntroduceRequest| request.expertise = vec!["a\nb".to_owned()],
        |request: &mut IntroduceRequest| request.note = Some(String::new()),
    ] {
        let mut request = introduction(&unknown, "south");
        change(&mut request);
        assert_eq!(west.introduce(&request).await.unwrap_err().fault(), Fault::Usage);
    }
    assert!(west.store().introductions(None).await.unwrap().is_empty());
    // The owner may vouch for somebody who is no contact.
    west.introduce(&introduction(&unknown, "south")).await.unwrap();
    for id in ["urn:u", "zzzzzz", ""] {
        let error = west.revoke_introduction(id, TIMEOUT).await.unwrap_err();
        assert!(matches!(error, TrustError::NoSuchIntroduction { .. }), "{id}: {error:?}");
    }
    drop(south);
}

#[tokio::test]
async fn a_target_that_will_not_have_it_ends_the_introduction() {
    let (west, _north, south) = three().await;
    south.store().remove_contact(west.did()).await.unwrap();
    let error = west.introduce(&introduction("north", "south")).await.unwrap_err();
    assert!(error.is_refusal(Code::IssuerNotTrusted), "{error:?}");
    let row = west.store().introductions(None).await.unwrap().remove(0);
    assert_eq!(row.status, IntroductionStatus::Rejected);
    assert!(west.store().errands().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_target_that_is_not_there_is_tried_later() {
    let (west, _north) = (served("west").await, served("north").await);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    befriend(&west, crate::testing::key(2).did(), Some(&format!("http://{closed}"))).await;
    let subject = crate::testing::key(7).did().to_string();
    let introduced = west.introduce(&introduction(&subject, "south")).await.unwrap();
    assert_eq!(introduced.proposed, Proposed::Queued);
    assert_eq!(introduced.introduction.status, IntroductionStatus::Pending);
    assert_eq!(west.store().errands().await.unwrap().len(), 1);
    let revoked = west.revoke_introduction(&introduced.introduction.id, TIMEOUT).await.unwrap();
    assert!(!revoked.is_told);
    let owed = west.store().errands().await.unwrap();
    assert_eq!(owed.iter().map(|owed| owed.errand.kind.as_str()).collect::<Vec<_>>(), ["revoked"]);
}

fn connection(target: &str) -> ConnectRequest {
    ConnectRequest {
        target: target.to_owned(),
        note: None,
        wait: None,
        ask: None,
        timeout: TIMEOUT,
        allow_private: false,
        receiver: Default::default(),
    }
}

#[tokio::test]
async fn two_strangers_connect_without_an_invite() {
    let (north, south) = (served("north").await, served("south").await);
    let asked = ConnectRequest { note: Some("from the fair".to_owned()), ..connection(&south.url) };
    assert!(matches!(north.ask_to_connect(&asked).await.unwrap(), Connected::Pending { is_offline: false, .. }));
    assert_eq!(status(&north, &south).await.relation, Relation::Pending);
    let row = waiting(&south, RequestKind::Connect).await;
    assert_eq!((row.note.as_deref(), row.peer_name.as_deref()), (Some("from the fair"), Some("north")));
    let named = DecideRequest { name: Some("fair".to_owned()), ..decision_on(&row, Decision::Accept) };
    let decided = south.decide(&named).await.unwrap();
    assert!(decided.is_told && decided.notes.is_empty(), "{:?}", decided.notes);
    assert_eq!(decided.contact.unwrap().name, "fair");
    let contact = north.store().contact(south.did()).await.unwrap().unwrap();
    assert_eq!((contact.relation, contact.coordinates.url.as_ref()), (ContactRelation::Direct, Some(&south.url)));
    send(&north, "south", "hello").await.unwrap();
    send(&south, "fair", "hello back").await.unwrap();
    let again = north.ask_to_connect(&connection(&south.url)).await.unwrap();
    assert!(matches!(again, Connected::Connected { was_known: true, .. }));
}

#[tokio::test]
async fn an_owner_without_a_service_learns_of_the_yes_by_waiting() {
    let (north, south) = (agent("north").await, served("south").await);
    let waiting_north = north.agent.clone();
    let request = ConnectRequest { wait: Some(TIMEOUT), ..connection(&south.url) };
    let wait = tokio::spawn(async move { waiting_north.ask_to_connect(&request).await });
    while south.requests(false).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let decided = decide(&south, RequestKind::Connect, Decision::Accept).await.unwrap();
    assert!(!decided.is_told && decided.notes[0].contains("learns when it asks"), "{:?}", decided.notes);
    let outcome = wait.await.unwrap().unwrap();
    assert!(matches!(outcome, Connected::Connected { was_known: false, .. }), "{outcome:?}");
}

#[tokio::test]
async fn a_no_to_a_connect_request_is_told_and_can_be_taken_back() {
    let (north, south) = (served("north").await, served("south").await);
    north.ask_to_connect(&connection(&south.url)).await.unwrap();
    let decided = decide(&south, RequestKind::Connect, Decision::Reject).await.unwrap();
    assert!(decided.is_told, "{:?}", decided.notes);
    let own = north.requests(true).await.unwrap().remove(0);
    assert_eq!(own.status, RequestStatus::Rejected);
    let error = north.ask_to_connect(&connection(&south.url)).await.unwrap_err();
    assert!(error.is_refusal(Code::ConnectNotAccepted), "{error:?}");
    // South's owner changes its mind; north no longer asks, so nothing comes of it.
    let decided = south.decide(&decision_on(&decided.row, Decision::Accept)).await.unwrap();
    assert!(decided.contact.is_none() && decided.notes[0].contains("nothing was kept"), "{decided:?}");
    assert!(south.store().contact(north.did()).await.unwrap().is_none());
}

#[tokio::test]
async fn what_was_withdrawn_cannot_be_accepted() {
    let (north, south) = (served("north").await, served("south").await);
    north.ask_to_connect(&connection(&south.url)).await.unwrap();
    let own = north.requests(false).await.unwrap().remove(0);
    assert!(matches!(north.decide(&decision_on(&own, Decision::Accept)).await, Err(TrustError::OwnRequest { .. })));
    assert_eq!(north.withdraw(own.id).await.unwrap().status, RequestStatus::Withdrawn);
    north.withdraw(own.id).await.unwrap();
    let row = waiting(&south, RequestKind::Connect).await;
    assert!(matches!(south.withdraw(row.id).await, Err(TrustError::NotOwnRequest { .. })));
    let decided = south.decide(&decision_on(&row, Decision::Accept)).await.unwrap();
    assert!(decided.contact.is_none() && decided.row.status == RequestStatus::Withdrawn, "{decided:?}");
    assert!(north.store().contact(south.did()).await.unwrap().is_none());
    let again = south.decide(&decision_on(&row, Decision::Accept)).await.unwrap_err();
    assert!(matches!(again, TrustError::NotOpen { status: RequestStatus::Withdrawn, .. }), "{again:?}");
}

#[tokio::test]
async fn a_decision_is_checked_before_anything_is_written() {
    let (north, south) = (served("north").await, served("south").await);
    befriend(&south, crate::testing::key(2).did(), None).await;
    north.ask_to_connect(&connection(&south.url)).await.unwrap();
    let row = waiting(&south, RequestKind::Connect).await;
    type Check = fn(&TrustError) -> bool;
    let cases: [(DecideRequest, Check); 6] = [
        (DecideRequest { id: 999, ..decision_on(&row, Decision::Accept) }, |e| {
            matches!(e, TrustError::NoSuchRequest { id: 999 })
        }),
        (DecideRequest { name: Some("a b".to_owned()), ..decision_on(&row, Decision::Accept) }, |e| {
            matches!(e, TrustError::BadName { .. })
        }),
        (DecideRequest { name: Some("south-2".to_owned()), ..decision_on(&row, Decision::Reject) }, |e| {
            matches!(e, TrustError::OutOfRange { what: "name", .. })
        }),
        (DecideRequest { refer: vec!["south".to_owned()], ..decision_on(&row, Decision::Accept) }, |e| {
            matches!(e, TrustError::OutOfRange { .. })
        }),
        (DecideRequest { name: Some("south".to_owned()), ..decision_on(&row, Decision::Accept) }, |e| {
            matches!(e, TrustError::BadName { .. })
        }),
        (DecideRequest { name: Some("other".to_owned()), ..decision_on(&row, Decision::Accept) }, |e| {
            matches!(e, TrustError::NameTaken(_))
        }),
    ];
    south.store().rename_contact(crate::testing::key(2).did(), "other").await.unwrap();
    for (request, check) in cases {
        let error = south.decide(&request).await.unwrap_err();
        assert!(check(&error), "{error:?}");
    }
    assert_eq!(waiting(&south, RequestKind::Connect).await, row);
}

#[tokio::test]
async fn a_contact_is_asked_to_introduce_and_does() {
    let (west, north, south) = three().await;
    let request = ConnectRequest { ask: Some("west".to_owned()), ..connection(south.did().as_str()) };
    match north.ask_to_connect(&request).await.unwrap() {
        Connected::Asked { status, .. } => assert_eq!(status, "queued"),
        other => panic!("{other:?}"),
    }
    let decided = decide(&west, RequestKind::IntroduceMe, Decision::Accept).await.unwrap();
    assert!(decided.is_told && decided.notes.is_empty(), "{decided:?}");
    let issued = west.store().introductions(None).await.unwrap().remove(0);
    assert!(issued.is_requested && issued.subject == *north.did());
    decide(&south, RequestKind::Introduction, Decision::Accept).await.unwrap();
    given(&north, &west, &south).await;
    send(&north, south.did().as_str(), "at last").await.unwrap();
    assert_eq!(inbox(&south).await, ["at last"]);
    assert_eq!(north.requests(true).await.unwrap().remove(0).status, RequestStatus::Accepted);
}

#[tokio::test]
async fn an_introducer_that_does_not_know_the_target_says_so_and_writes_nothing() {
    let (west, north, _south) = three().await;
    let unknown = crate::testing::key(77).did().to_string();
    let request = ConnectRequest { ask: Some("west".to_owned()), ..connection(&unknown) };
    north.ask_to_connect(&request).await.unwrap();
    let error = decide(&west, RequestKind::IntroduceMe, Decision::Accept).await.unwrap_err();
    assert!(matches!(error, TrustError::NotDirect { .. }), "{error:?}");
    assert!(west.store().introductions(None).await.unwrap().is_empty());
    assert_eq!(waiting(&west, RequestKind::IntroduceMe).await.status, RequestStatus::Pending);
    decide(&west, RequestKind::IntroduceMe, Decision::Reject).await.unwrap();
}

fn question(topic: &str) -> ReferralRequest {
    ReferralRequest { topic: topic.to_owned(), ask: "west".to_owned(), limit: 5, timeout: TIMEOUT }
}

#[tokio::test]
async fn a_contact_that_answers_names_whose_tags_fit() {
    let (west, north, south) = three().await;
    west.tag_contact("south", &["tax law".to_owned()]).await.unwrap();
    west.set_policy("referral", "answer").await.unwrap();
    let nobody = north.referral(&question("who plays the harp?")).await.unwrap();
    assert!(nobody.referrals.is_empty() && !nobody.is_queued);
    let referred = north.referral(&question("who knows tax law?")).await.unwrap();
    assert_eq!((referred.referrals.len(), referred.dropped, referred.is_queued), (1, 0, false));
    let south_there = &referred.referrals[0];
    assert_eq!((&south_there.did, south_there.name.as_str()), (south.did(), "south"));
    assert_eq!(south_there.expertise, ["tax law"]);
    // The first message waits for south's owner, and is delivered with the yes.
    assert_eq!(send(&north, "south", "about taxes").await.unwrap().status, SentStatus::Held);
    assert!(inbox(&south).await.is_empty());
    let decided = decide(&south, RequestKind::Introduction, Decision::Accept).await.unwrap();
    assert_eq!(decided.delivered, 1);
    assert_eq!(inbox(&south).await, ["about taxes"]);
    assert_ne!(send(&north, "south", "thanks").await.unwrap().status, SentStatus::Held);
}

#[tokio::test]
async fn an_owner_who_is_asked_who_knows_something_names_contacts() {
    let (west, north, south) = three().await;
    let referred = north.referral(&question("who knows tax law?")).await.unwrap();
    assert!(referred.is_queued && referred.referrals.is_empty());
    let error = decide(&west, RequestKind::Referral, Decision::Accept).await.unwrap_err();
    assert!(matches!(error, TrustError::NobodyFits), "{error:?}");
    let row = waiting(&west, RequestKind::Referral).await;
    let asker = DecideRequest { refer: vec!["north".to_owned()], ..decision_on(&row, Decision::Accept) };
    assert!(matches!(west.decide(&asker).await, Err(TrustError::NotThree(_))));
    let south_it_is = DecideRequest { refer: vec!["south".to_owned()], ..decision_on(&row, Decision::Accept) };
    let decided = west.decide(&south_it_is).await.unwrap();
    assert!(decided.is_told, "{:?}", decided.notes);
    let held = north.store().held_for(south.did(), now()).await.unwrap().unwrap();
    assert!(held.is_requested && held.issuer == *west.did());
    assert_eq!(send(&north, south.did().as_str(), "hello").await.unwrap().status, SentStatus::Held);
}
