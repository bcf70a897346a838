//! `introduction/request` (5.2): "introduce me to T". Direct contacts are put before the owner; whoever else asks
//! hears a no, and nothing is kept of it.
use muretai_protocol::{
    Did,
    introduction::{INTRODUCE_ME_TO, RequestRecord},
    json::{Object, Value},
    rpc::{Code, Refusal},
};
use muretai_store::{
    contacts::Coordinates,
    requests::{NewRequest, Queued, RequestKind, RequestStatus},
};

use super::{Desk, internal};
use crate::receive::{
    ladder::Passed,
    refusals::{self as say, plain},
};

const METHOD: &str = "introduction/request";

/// Files the question with its signed record, which an introduction will embed.
pub(crate) async fn introduce_me(desk: &Desk<'_>, passed: Passed) -> Result<Value, Refusal> {
    let target = target(&passed)?;
    desk.refuse_at_open_door()?;
    desk.ask_gate(&passed, METHOD, None).await?;
    if !passed.is_from_contact() || target == *passed.verified.from() || target == *desk.agent.did() {
        return Ok(result("declined"));
    }
    let request = NewRequest { about: Some(target), ..asked(desk, &passed, RequestKind::IntroduceMe) };
    let queued = desk.agent.store().file_question(&request, desk.limits(), &passed.handling()).await;
    let status = match queued.map_err(internal)? {
        Queued::Pending(_) => "queued",
        Queued::Decided(row) if row.status == RequestStatus::Accepted => "proposed",
        Queued::Decided(_) => "declined",
        Queued::Full { retry_after_secs } => return Err(say::full(retry_after_secs)),
        Queued::Duplicate { same_content } => return Err(passed.duplicate(same_content)),
    };
    passed.done();
    Ok(result(status))
}

/// A question to this agent as an introducer, with its record.
pub(super) fn asked(desk: &Desk<'_>, passed: &Passed, kind: RequestKind) -> NewRequest {
    NewRequest {
        kind,
        peer: passed.verified.from().clone(),
        via: None,
        about: None,
        wire_id: None,
        peer_name: None,
        note: None,
        coordinates: Coordinates::default(),
        record: Some(RequestRecord::of(&passed.verified).raw.to_json()),
        is_vouched: false,
        created: desk.now,
        expires: desk.request_expires(),
    }
}

fn target(passed: &Passed) -> Result<Did, Refusal> {
    let target = passed.verified.message().text.strip_prefix(INTRODUCE_ME_TO).and_then(|did| did.parse().ok());
    target.ok_or_else(|| plain(Code::InvalidParams, say::INTRODUCE_TEXT))
}

fn result(status: &str) -> Value {
    let mut result = Object::new();
    result.insert("status".to_owned(), status.into());
    result.into()
}
