//! A message that waits for the owner's decision about its sender (5.2, `introduce/propose`).
use muretai_plugins::Response;
use muretai_protocol::{UnixSeconds, introduction::Introduction, json::Value, message::Message, rpc::Refusal};
use muretai_store::{
    contacts::Coordinates,
    introductions::Role,
    messages::Received,
    requests::{NewRequest, Queued, RequestKind},
};

use super::{
    Desk, REQUEST_LIFE_SECS, internal,
    introduce::{introduction_request, introduction_row},
    params::PeerFacts,
    send::{self, SignedReply, sign_reply},
};
use crate::receive::{ladder::Passed, refusals as say, return_address::ReturnAddress};

/// Whether a message can wait: nobody could tell later what one without text was about, or to which group it belonged.
/// To be asked while the message has its metadata.
pub(crate) fn can_wait(message: &Message) -> bool {
    !message.text.is_empty() && message.meta("group").is_none()
}

/// The refusal of a message that cannot wait: on an introduction, or by a plugin's policy without one.
pub(crate) fn not_kept(introduction: Option<&Introduction>) -> Refusal {
    match introduction {
        Some(_) => say::awaiting_approval(),
        None => say::awaiting_decision(),
    }
}

/// Holds a message and says so, or says that it cannot wait. One waits for each sender. Of a letter, the transaction that
/// holds it puts the word of that into the outbox.
pub(crate) async fn hold(
    desk: &Desk<'_>,
    passed: Passed,
    extra: Option<String>,
    introduction: Option<&Introduction>,
    back: Option<ReturnAddress>,
) -> Result<Value, Refusal> {
    let (agent, now) = (desk.agent, desk.now);
    let request = match introduction {
        Some(introduction) => introduction_request(introduction, PeerFacts::default(), now),
        None => message_request(&passed, now),
    };
    let row = introduction.map(|introduction| introduction_row(introduction, Role::Received, now));
    let SignedReply { reply, stored, extra: reply_extra } = sign_reply(agent, &passed.verified, &Response::held());
    let reply_by = back.map(|back| back.reply_by(&reply_extra, now));
    let is_posted = reply_by.is_some();
    // Only the reply to a letter has to be kept.
    let held = Received {
        reply: Some(stored).filter(|_| is_posted),
        reply_by,
        ..send::record(&passed.verified, passed.digest, extra, now)
    };
    match agent.store().hold_message(&held, row.as_ref(), &request, desk.limits()).await.map_err(internal)? {
        Queued::Pending(_) => {}
        Queued::Decided(_) | Queued::Full { .. } => return Err(not_kept(introduction)),
        Queued::Duplicate { same_content } => return Err(passed.duplicate(same_content)),
    }
    passed.done();
    if is_posted {
        agent.outbox_written().notify_one();
    }
    Ok(reply)
}

fn message_request(passed: &Passed, now: UnixSeconds) -> NewRequest {
    NewRequest {
        kind: RequestKind::Message,
        peer: passed.verified.from().clone(),
        via: None,
        about: None,
        wire_id: None,
        peer_name: None,
        note: None,
        coordinates: Coordinates::default(),
        record: None,
        is_vouched: false,
        created: now,
        expires: UnixSeconds(now.0.saturating_add(REQUEST_LIFE_SECS)),
    }
}
