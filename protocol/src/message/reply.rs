//! Checking a reply before anything of it is shown (3.5).
use super::{EnvelopeError, Message, MessageId, Role, ShapeError, SignatureError, Stale, Verified};
use crate::{Did, UnixSeconds, json::Value, limits::MAX_TEXT_BYTES, text};

/// What a caller checks a reply against (3.5).
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// The DID that was addressed.
    pub addressed: &'a Did,
    /// The caller.
    pub me: &'a Did,
    /// What was sent.
    pub message_id: &'a MessageId,
    /// What was sent.
    pub context_id: Option<&'a str>,
}

/// Why a reply is not believed; each failure has its name. What a peer wrote is made safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// It has not the shape of a message.
    #[error("the reply is not a message")]
    NotAMessage(#[source] ShapeError),
    /// Its role is not `agent`: it is a request, or says nothing of what it is.
    #[error("the reply does not say that an agent answers: its role is not \"agent\"")]
    NotAnAnswer,
    /// It carries the id of the message that it is to answer.
    #[error("the reply has the id of the message that was sent")]
    SameId,
    /// More text than a message may carry.
    #[error("the reply's text is {bytes} bytes, the limit is {MAX_TEXT_BYTES}")]
    TextTooLong {
        /// Its size in UTF-8.
        bytes: usize,
    },
    /// It has no envelope, or half of one.
    #[error(transparent)]
    NotSigned(EnvelopeError),
    /// Somebody else answered than the one who was addressed.
    #[error("the reply is from {found}, not from {expected}")]
    OtherSender {
        /// Who was addressed.
        expected: Did,
        /// Who the reply says it is from.
        found: String,
    },
    /// The reply is for somebody else.
    #[error("the reply is for {found}, not for {expected}")]
    OtherRecipient {
        /// Who asked.
        expected: Did,
        /// Who the reply says it is for.
        found: String,
    },
    /// The reply's time is not the present.
    #[error(transparent)]
    Stale(Stale),
    /// The reply's signature is wrong.
    #[error(transparent)]
    Signature(SignatureError),
    /// The reply belongs to another conversation.
    #[error("the reply belongs to another context")]
    OtherContext,
    /// The reply answers another message.
    #[error("the reply answers another message")]
    OtherReplyTo,
}

/// Verifies a reply before anything of it is shown. What costs nothing is looked at before the signature.
///
/// # Errors
/// The first of [`ReplyError`] that applies.
pub fn verify_reply(result: Value, asked: &Asked<'_>, now: UnixSeconds) -> Result<Verified, ReplyError> {
    let reply = Message::from_value(result).map_err(ReplyError::NotAMessage)?;
    if reply.role != Some(Role::Agent) {
        return Err(ReplyError::NotAnAnswer);
    }
    if reply.message_id == *asked.message_id {
        return Err(ReplyError::SameId);
    }
    if reply.text.len() > MAX_TEXT_BYTES {
        return Err(ReplyError::TextTooLong { bytes: reply.text.len() });
    }
    let reply = reply.into_envelope().map_err(ReplyError::NotSigned)?;
    if reply.from != asked.addressed.as_str() {
        return Err(ReplyError::OtherSender { expected: asked.addressed.clone(), found: shown(&reply.from) });
    }
    if !reply.is_for(asked.me) {
        return Err(ReplyError::OtherRecipient { expected: asked.me.clone(), found: shown(&reply.to) });
    }
    reply.freshness(now).map_err(ReplyError::Stale)?;
    let reply = reply.verify(now).map_err(ReplyError::Signature)?;
    let message = reply.message();
    if message.context_id.as_deref() != asked.context_id {
        return Err(ReplyError::OtherContext);
    }
    let is_other = |reply_to: &Value| reply_to.as_str() != Some(asked.message_id.as_str());
    match message.meta("replyTo").is_some_and(is_other) {
        true => Err(ReplyError::OtherReplyTo),
        false => Ok(reply),
    }
}

fn shown(did: &str) -> String {
    text::one_line(did, 80)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        json,
        json::Object,
        message::{Draft, Role, sign},
        sign::{Seed, SigningKey},
    };

    const NOW: UnixSeconds = UnixSeconds(1_784_273_700);

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_seed(&Seed::from_bytes([byte; 32]))
    }

    /// South's reply to north's `m1` in context `c1`, after `change`.
    fn reply(change: impl FnOnce(&mut Draft<'_>)) -> Value {
        let (north, id) = (key(1), MessageId::new("r1").unwrap());
        let mut draft = Draft {
            role: Role::Agent,
            to: north.did().as_str(),
            message_id: &id,
            context_id: Some("c1"),
            text: "hello back",
            timestamp: NOW,
            extra: Object::from([("replyTo".into(), json!("m1"))]),
        };
        change(&mut draft);
        sign(&key(2), &draft)
    }

    fn verdict(result: Value) -> Result<Verified, ReplyError> {
        let (north, south, id) = (key(1), key(2), MessageId::new("m1").unwrap());
        let asked = Asked { addressed: south.did(), me: north.did(), message_id: &id, context_id: Some("c1") };
        verify_reply(result, &asked, NOW)
    }

    fn set(reply: &mut Value, metadata: &str, value: Value) {
        let Value::Object(members) = reply else { unreachable!() };
        let Some(Value::Object(members)) = members.get_mut("metadata") else { unreachable!() };
        members.insert(metadata.into(), value);
    }

    #[test]
    fn a_reply_in_order_is_believed() {
        assert_eq!(verdict(reply(|_| ())).unwrap().message().text, "hello back");
        assert!(verdict(reply(|draft| draft.extra = Object::new())).is_ok(), "replyTo may be absent");
    }

    #[test]
    fn an_echo_is_no_answer() {
        let id: &'static MessageId = Box::leak(MessageId::new("m1").unwrap().into());
        assert_eq!(verdict(reply(|draft| draft.message_id = id)).unwrap_err(), ReplyError::SameId);
    }

    #[test]
    fn a_reply_has_no_more_text_than_a_request() {
        let text = &*"x".repeat(MAX_TEXT_BYTES + 1).leak();
        let too_long = ReplyError::TextTooLong { bytes: text.len() };
        assert_eq!(verdict(reply(|draft| draft.text = text)).unwrap_err(), too_long);
        assert!(verdict(reply(|draft| draft.text = &text[1..])).is_ok());
    }

    #[test]
    fn each_failure_has_its_name() {
        let error = |result| verdict(result).unwrap_err();
        assert!(matches!(error(json!({"kind": "task"})), ReplyError::NotAMessage(_)));
        assert_eq!(error(reply(|draft| draft.role = Role::User)), ReplyError::NotAnAnswer);
        let roleless = json!({"kind": "message", "messageId": "r1", "parts": []});
        assert_eq!(error(roleless), ReplyError::NotAnAnswer);
        let unsigned = json!({"kind": "message", "role": "agent", "messageId": "r1", "parts": []});
        assert_eq!(error(unsigned), ReplyError::NotSigned(EnvelopeError::Unsigned));

        let mut other = reply(|_| ());
        set(&mut other, "from", json!("did:key:\u{202e}z6Mk\x1b[2K"));
        let shown = "did:key:\\u{202e}z6Mk\\u{1b}[2K".to_owned();
        assert_eq!(error(other), ReplyError::OtherSender { expected: key(2).did().clone(), found: shown });

        let stranger = key(3);
        let for_stranger = reply(|draft| draft.timestamp = NOW);
        let mut readdressed = for_stranger.clone();
        set(&mut readdressed, "to", json!(stranger.did()));
        let found = stranger.did().to_string();
        assert_eq!(error(readdressed), ReplyError::OtherRecipient { expected: key(1).did().clone(), found });

        let late = reply(|draft| draft.timestamp = UnixSeconds(NOW.0 - 301));
        assert_eq!(error(late), ReplyError::Stale(Stale::OutsideWindow(301)));
        let mut tampered = for_stranger;
        set(&mut tampered, "timestamp", json!(NOW.0 - 1));
        assert_eq!(error(tampered), ReplyError::Signature(SignatureError));
        for context_id in [None, Some(""), Some("c2")] {
            assert_eq!(error(reply(|draft| draft.context_id = context_id)), ReplyError::OtherContext);
        }
        for reply_to in [json!("m2"), json!(1)] {
            let other = reply(|draft| draft.extra = Object::from([("replyTo".into(), reply_to)]));
            assert_eq!(error(other), ReplyError::OtherReplyTo);
        }
    }
}
