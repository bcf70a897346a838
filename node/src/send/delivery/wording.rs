//! The message as it is signed and spelled, and the reply as it is shown and stored.
use muretai_protocol::{
    Did, MessageId, UnixSeconds,
    a2a::Version,
    json::{Object, Value},
    message::{self, Draft, Message, Role, Verified},
};
use muretai_store::messages::Answered;

use crate::{
    Agent,
    agent::now,
    send::{SendRequest, SentReply, commands},
};

/// What is spoken until the peer turns out to speak the other.
pub(super) const FIRST_VERSION: Version = Version::V0_3;

/// Signs the message as of `timestamp`.
pub(super) fn sign(
    agent: &Agent,
    role: Role,
    request: &SendRequest,
    extra: &Object,
    to: &Did,
    message_id: &MessageId,
    timestamp: UnixSeconds,
) -> Value {
    let draft = Draft {
        role,
        to: to.as_str(),
        message_id,
        context_id: request.context_id.as_deref(),
        text: &request.text,
        timestamp,
        extra: extra.clone(),
    };
    message::sign(agent.key(), &draft)
}

/// The same signed message as A2A 1.0 spells it (6.7): none of the six signed values changes.
pub(super) fn to_v1(message: &Value) -> Value {
    let mut members = message.as_object().cloned().unwrap_or_default();
    members.remove("kind");
    let is_reply = members.get("role").and_then(Value::as_str) == Some(Role::Agent.as_str());
    members.insert("role".to_owned(), if is_reply { "ROLE_AGENT" } else { "ROLE_USER" }.into());
    if let Some(Value::Array(parts)) = members.get_mut("parts") {
        for part in parts {
            if let Value::Object(part) = part {
                part.remove("kind");
            }
        }
    }
    members.into()
}

/// For whoever sent the message.
pub(super) fn sent_reply(verified: &Verified) -> SentReply {
    let message = verified.message();
    SentReply {
        message_id: message.message_id.as_str().to_owned(),
        text: message.text.clone(),
        from: Some(verified.from().clone()),
        timestamp: Some(verified.timestamp()),
        is_verified: true,
        is_auto: message.meta("auto").and_then(Value::as_bool) == Some(true),
        status: message.meta("status").and_then(Value::as_str).map(str::to_owned),
        context_id: message.context_id.clone(),
        commands: message.meta("commands").map(commands::read).unwrap_or_default(),
    }
}

/// For the store.
pub(super) fn answered(verified: &Verified, reply: &SentReply) -> Answered {
    Answered {
        message_id: reply.message_id.clone(),
        context_id: reply.context_id.clone(),
        text: reply.text.clone(),
        timestamp: verified.timestamp(),
        received: now(),
        sig: Some(verified.sig().to_owned()),
        is_verified: true,
        is_auto: reply.is_auto,
        digest: Some(verified.content_digest()),
        extra: extra_of(verified.message()),
    }
}

/// What a reply carried beyond its envelope: unsigned metadata and parts that are no text, kept as they came.
fn extra_of(message: &Message) -> Option<String> {
    let is_known = |key: &str, value: &Value| {
        matches!(
            (key, value),
            ("from" | "to" | "sig" | "timestamp", _)
                | (_, Value::Null)
                | ("replyTo", Value::String(_))
                | ("auto", Value::Bool(_))
        )
    };
    let mut metadata = message.metadata.clone();
    metadata.retain(|key, value| !is_known(key, value));
    let mut extra = Object::new();
    if !metadata.is_empty() {
        extra.insert("metadata".to_owned(), metadata.into());
    }
    if !message.other_parts.is_empty() {
        extra.insert("parts".to_owned(), message.other_parts.clone().into());
    }
    (!extra.is_empty()).then(|| Value::Object(extra).to_json())
}
