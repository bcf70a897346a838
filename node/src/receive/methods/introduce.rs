//! `introduce/propose` and `introduce/respond` (5.2): from the introducer to the target, and back.
use muretai_protocol::{
    Did, UnixSeconds,
    introduction::{self, Introduction, Parties, Provenance},
    json::{Object, Value},
    rpc::{Code, Refusal},
};
use muretai_store::{
    introductions::{IntroductionRow, IntroductionStatus, Role, Settled},
    requests::{Decision, NewRequest, Queued, RequestKind, RequestRow, RequestStatus},
};

use super::{
    Desk, internal, note,
    params::{IntroduceAnswer, PeerFacts, ProposeParams},
};
use crate::{
    mail::tail,
    receive::{
        gate::facts_of,
        ladder::Passed,
        refusals::{self as say, plain},
    },
    trust::{errands::Errand, policies::IntroductionPolicy},
};

const PROPOSE: &str = "introduce/propose";
const RESPOND: &str = "introduce/respond";

/// Files somebody's introduction for the owner.
pub(crate) async fn propose(desk: &Desk<'_>, passed: Passed, params: ProposeParams) -> Result<Value, Refusal> {
    let note = note(&passed, PROPOSE, params.note.as_deref())?;
    desk.refuse_at_open_door()?;
    if !passed.is_from_contact() {
        // A policy may say another word about strangers, never a better one.
        desk.ask_gate(&passed, PROPOSE, None).await?;
        return Err(plain(Code::IssuerNotTrusted, say::ISSUER_NOT_TRUSTED));
    }
    let introduction = verify(desk, &passed, &params)?;
    refuse_ended(desk, &introduction).await?;
    let mut facts = facts_of(&introduction);
    facts.is_issuer_direct = true;
    let must_wait = desk.ask_gate(&passed, PROPOSE, Some(&facts)).await?;
    let is_accepted = desk.policies.introductions == IntroductionPolicy::Accept && !must_wait;
    let row = introduction_row(&introduction, Role::Received, desk.now);
    let request = NewRequest { note, ..introduction_request(&introduction, params.peer, desk.now) };
    let accept = is_accepted.then(|| {
        let introduction_id = introduction.id.clone();
        Errand::IntroduceRespond { introduction_id, decision: Decision::Accept }.to_store(&row.issuer, desk.now)
    });
    let (handling, own_name) = (passed.handling(), desk.agent.name());
    let store = desk.agent.store();
    let queued = store.file_introduction(&row, &request, accept, own_name, desk.limits(), &handling).await;
    let status = match queued.map_err(internal)? {
        Queued::Pending(_) => "pending",
        Queued::Decided(decided) => status_of(&decided),
        Queued::Full { retry_after_secs } => return Err(say::full(retry_after_secs)),
        Queued::Duplicate { same_content } => return Err(passed.duplicate(same_content)),
    };
    if is_accepted {
        desk.errands.notify_one();
    }
    passed.done();
    Ok(result(status, &introduction.id))
}

/// What was taken back, or ended with its issuer's trust, was accepted once and comes never back to life.
async fn refuse_ended(desk: &Desk<'_>, introduction: &Introduction) -> Result<(), Refusal> {
    let store = desk.agent.store();
    let known = store.introduction(Role::Received, &introduction.issuer, &introduction.id).await.map_err(internal)?;
    match known.map(|row| row.status) {
        Some(IntroductionStatus::Revoked | IntroductionStatus::Ended) => {
            Err(plain(Code::IntroductionInvalid, say::INTRODUCTION_INVALID))
        }
        _ => Ok(()),
    }
}

fn verify(desk: &Desk<'_>, passed: &Passed, params: &ProposeParams) -> Result<Introduction, Refusal> {
    let invalid = || plain(Code::IntroductionInvalid, say::INTRODUCTION_INVALID);
    let parties = Parties { subject: &params.subject, target: Some(desk.agent.did()) };
    let introduction = introduction::verify(&params.vc, &parties, desk.now).map_err(|error| {
        let from = passed.verified.from();
        tracing::info!(from = tail(from), error = &error as &dyn std::error::Error, "an introduction was refused");
        invalid()
    })?;
    if introduction.issuer != *passed.verified.from() { Err(invalid()) } else { Ok(introduction) }
}

/// Accepts an introduction that came with its subject's first message, for an owner who leaves that to contacts. The
/// introducer is owed the answer.
pub(crate) async fn accept(desk: &Desk<'_>, introduction: &Introduction) -> Result<(), Refusal> {
    let row = introduction_row(introduction, Role::Received, desk.now);
    let request = introduction_request(introduction, PeerFacts::default(), desk.now);
    let introduction_id = introduction.id.clone();
    let errand = Errand::IntroduceRespond { introduction_id, decision: Decision::Accept };
    let errand = errand.to_store(&row.issuer, desk.now);
    let (store, own_name) = (desk.agent.store(), desk.agent.name());
    match store.accept_introduction(&row, &request, errand, own_name, desk.limits()).await.map_err(internal)? {
        Queued::Decided(row) if row.status == RequestStatus::Accepted => {
            desk.errands.notify_one();
            Ok(())
        }
        _ => Err(say::awaiting_approval()),
    }
}

/// Takes the target's answer to an introduction of ours.
pub(crate) async fn respond(desk: &Desk<'_>, passed: Passed, params: IntroduceAnswer) -> Result<Value, Refusal> {
    note(&passed, RESPOND, None)?;
    desk.refuse_at_open_door()?;
    let IntroduceAnswer { introduction_id, decision } = params;
    let (store, target) = (desk.agent.store(), passed.verified.from().clone());
    let issued = store.introduction(Role::Issued, desk.agent.did(), &introduction_id).await.map_err(internal)?;
    let Some(issued) = issued.filter(|row| row.target == target && !passed.standing.is_blocked) else {
        return Err(say::no_such_request());
    };
    let errand = (decision == Decision::Accept)
        .then(|| Errand::HandOver { introduction_id: introduction_id.clone() }.to_store(&issued.subject, desk.now));
    let handling = passed.handling();
    let settled = store.settle_issued(&introduction_id, &target, decision, errand, &handling, desk.now).await;
    match settled.map_err(internal)? {
        Settled::Recorded(_) => {}
        Settled::NoSuch => return Err(say::no_such_request()),
        Settled::Duplicate { same_content } => return Err(passed.duplicate(same_content)),
    }
    desk.errands.notify_one();
    passed.done();
    Ok(result(if decision == Decision::Accept { "accepted" } else { "rejected" }, &introduction_id))
}

fn result(status: &str, introduction_id: &str) -> Value {
    let mut result = Object::new();
    result.insert("status".to_owned(), status.into());
    result.insert("introductionId".to_owned(), introduction_id.into());
    result.into()
}

fn status_of(row: &RequestRow) -> &'static str {
    match row.status {
        RequestStatus::Accepted => "accepted",
        RequestStatus::Rejected | RequestStatus::Withdrawn | RequestStatus::Expired => "rejected",
        RequestStatus::Pending | RequestStatus::Hidden => "pending",
    }
}

/// A verified introduction as it is stored, undecided.
pub(crate) fn introduction_row(introduction: &Introduction, role: Role, now: UnixSeconds) -> IntroductionRow {
    IntroductionRow {
        id: introduction.id.clone(),
        role,
        issuer: introduction.issuer.clone(),
        subject: introduction.subject.clone(),
        target: introduction.target.clone(),
        status: IntroductionStatus::Pending,
        trust_level_bp: introduction.trust_level_bp,
        expertise: introduction.expertise.clone(),
        issued: introduction.issued,
        valid_until: introduction.valid_until,
        issuer_endpoint: introduction.issuer_endpoint.clone(),
        is_requested: matches!(introduction.provenance, Provenance::Requested(_)),
        vc: introduction.raw.to_json(),
        created: now,
        changed: now,
    }
}

/// The row on which it waits; it waits no longer than it is valid.
pub(crate) fn introduction_request(introduction: &Introduction, peer: PeerFacts, now: UnixSeconds) -> NewRequest {
    let lasts = UnixSeconds(now.0.saturating_add(super::REQUEST_LIFE_SECS));
    NewRequest {
        kind: RequestKind::Introduction,
        peer: introduction.subject.clone(),
        via: Some(introduction.issuer.clone()),
        about: None::<Did>,
        wire_id: Some(introduction.id.clone()),
        peer_name: peer.name,
        note: None,
        coordinates: peer.coordinates,
        record: None,
        is_vouched: true,
        created: now,
        expires: lasts.min(introduction.valid_until),
    }
}
