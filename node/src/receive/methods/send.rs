//! `message/send`: from a message that passed gate and limits to a signed reply. Commit first, answer second: the
//! message, its id and the reply are on disk before the sender hears of it.
use muretai_plugins::Response;
use muretai_protocol::{
    MessageId, UnixSeconds,
    json::{Object, Value},
    limits::MAX_TEXT_BYTES,
    message::{self, Draft, Message, Role, Verified},
    rpc::Refusal,
};
use muretai_store::messages::{Committed, Received, Reply};

use crate::{
    Agent,
    receive::{ladder::Passed, refusals as say},
};

/// Signs the response, stores message and reply in one transaction, and gives the reply. On any failure the id is
/// released, because nothing is stored.
pub(crate) async fn store_and_reply(
    agent: &Agent,
    passed: Passed,
    extra: Option<String>,
    response: Response,
    received: UnixSeconds,
) -> Result<Value, Refusal> {
    let Passed { verified, digest, claim, .. } = passed;
    let response = fitting(response);
    let (reply, stored_reply) = sign_reply(agent, &verified, &response);
    match agent.store().commit_received(record(&verified, digest, extra, received, stored_reply)).await {
        Ok(Committed::Stored { .. }) => {
            claim.confirm(digest);
            Ok(reply)
        }
        // Another process was faster, or this one in an earlier life: its reply stands, ours is thrown away.
        Ok(Committed::Duplicate { same_content: true }) => {
            claim.confirm(digest);
            Err(say::duplicate())
        }
        Ok(Committed::Duplicate { same_content: false }) => {
            tracing::warn!(from = %verified.from(), "a sender used one message id for two contents");
            claim.conflict();
            Err(say::repeated())
        }
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a message could not be stored");
            Err(say::internal())
        }
    }
}

/// A reply that no peer would accept is not sent.
fn fitting(response: Response) -> Response {
    if response.text.len() > MAX_TEXT_BYTES {
        return Response::no_answer("the agent's answer was too long");
    }
    response
}

/// The reply of 3.5, and what is kept of it.
fn sign_reply(agent: &Agent, asked: &Verified, response: &Response) -> (Value, Reply) {
    let message_id = MessageId::from_random(crate::agent::random());
    let timestamp = crate::agent::now();
    let mut extra = Object::new();
    extra.insert("replyTo".to_owned(), asked.message().message_id.as_str().into());
    if response.is_auto {
        extra.insert("auto".to_owned(), true.into());
    }
    if let Some(status) = response.status {
        extra.insert("status".to_owned(), status.into());
    }
    let draft = Draft {
        role: Role::Agent,
        to: asked.from().as_str(),
        message_id: &message_id,
        context_id: asked.message().context_id.as_deref(),
        text: &response.text,
        timestamp,
        extra,
    };
    let reply = message::sign(agent.key(), &draft);
    let sig = reply.member("metadata").and_then(|metadata| metadata.member("sig")).and_then(Value::as_str);
    let stored = Reply {
        message_id: message_id.as_str().to_owned(),
        text: response.text.clone(),
        timestamp,
        sig: sig.unwrap_or_default().to_owned(),
        is_auto: response.is_auto,
    };
    (reply, stored)
}

fn record(
    verified: &Verified,
    digest: [u8; 32],
    extra: Option<String>,
    received: UnixSeconds,
    reply: Reply,
) -> Received {
    let message = verified.message();
    Received {
        from: verified.from().clone(),
        message_id: message.message_id.as_str().to_owned(),
        context_id: message.context_id.clone(),
        reply_to: message.meta("replyTo").and_then(Value::as_str).map(str::to_owned),
        text: message.text.clone(),
        timestamp: verified.timestamp(),
        received,
        digest,
        sig: verified.sig().to_owned(),
        extra,
        is_auto: is_notice(message),
        reply: Some(reply),
    }
}

/// Tells a machine's notice, such as the greeting after a claim, from what somebody says: `auto` with a `status` beside
/// it. `auto` alone is not enough, because whole agents mark all that they say with it (3.3).
pub(crate) fn is_notice(message: &Message) -> bool {
    let is_auto = message.meta("auto").and_then(Value::as_bool) == Some(true);
    is_auto && message.meta("status").and_then(Value::as_str).is_some()
}
