//! What a message says about one that this agent sent: its answer, or word of what became of it. Whatever came without
//! being asked for is a message like any other.
use muretai_protocol::{
    json::Value,
    message::{Message, Role},
    rpc::Refusal,
};
use muretai_store::messages::{MessageRow, OutStatus, Settles};

use super::{internal, send::is_notice};
use crate::{Agent, invites, receive::ladder::Passed};

/// The status of a notice that says that a message was refused.
pub(crate) const REFUSED: &str = "refused";

/// What was found.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    /// What to record of the message that it is about.
    pub(crate) settles: Option<Settles>,
    /// It answers something, so nobody is asked what to answer to it.
    pub(crate) is_answer: bool,
    /// This agent waits for it: whom it wrote to may answer, whoever that is.
    pub(crate) is_awaited: bool,
}

/// Looks a message up that `passed` names as the one that it answers. A letter that says that it is an answer is one, and
/// so is the first word of somebody about a message that lies there unanswered: otherwise two programs could write to
/// each other without end. To be asked while the message has its metadata.
pub(crate) async fn about(agent: &Agent, passed: &Passed, by_mail: bool) -> Result<About, Refusal> {
    let message = passed.verified.message();
    let Some(asked) = message.meta("replyTo").and_then(Value::as_str) else { return Ok(About::default()) };
    let is_reply = message.role == Some(Role::Agent) && !is_notice(message);
    let store = agent.store();
    let ours = store.outgoing(asked).await.map_err(internal)?;
    let Some(ours) = ours.filter(|ours| ours.peer == passed.verified.from().as_str()) else {
        let from = passed.verified.from();
        let is_awaited = invites::awaits(agent, message, from).await.map_err(internal)?
            || (is_notice(message) && by_mail && agent.awaits_refusal(message, from).await.map_err(internal)?);
        if is_awaited {
            return Ok(About { is_answer: true, is_awaited: true, ..About::default() });
        }
        return Ok(About { is_answer: by_mail && is_reply, ..About::default() });
    };
    if is_notice(message) {
        let is_awaited = by_mail && matches!(ours.status, Some(OutStatus::Queued | OutStatus::AtRelay));
        return Ok(About { settles: Some(word_of(message, &ours)), is_answer: true, is_awaited });
    }
    let is_open = store.answer_to(asked).await.map_err(internal)?.is_none();
    let settles = Settles { asked: ours.message_id, status: OutStatus::Delivered, code: None, is_answer: is_open };
    Ok(About { settles: Some(settles), is_answer: is_reply || (by_mail && is_open), is_awaited: by_mail && is_open })
}

/// What a machine says of it. Whoever knows the message's id and did not refuse it has it.
fn word_of(message: &Message, ours: &MessageRow) -> Settles {
    let is_refused = message.meta("status").and_then(Value::as_str) == Some(REFUSED);
    let code = message.meta("code").and_then(Value::as_i64).filter(|_| is_refused);
    let status = if is_refused { OutStatus::Refused } else { OutStatus::Delivered };
    Settles { asked: ours.message_id.clone(), status, code, is_answer: false }
}
