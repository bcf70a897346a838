//! The signed message (section 3): shape, envelope, signature, reply.
//!
//! A message becomes more trustworthy in three steps, and each step is a type: [`Message`] has the right shape,
//! [`Unverified`] has an envelope, [`Verified`] was signed by the DID that it says it is from. The ladder of section
//! 4.1 walks them in its order.
use std::fmt;

use crate::json::{Object, Value};

mod envelope;
mod outgoing;
mod parts;
mod reply;

pub use envelope::{EnvelopeError, SignatureError, Stale, Unverified, Verified};
pub use outgoing::{Draft, sign, signing_payload};
pub use reply::{Asked, ReplyError, verify_reply};

/// A non-blank message id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MessageId(Box<str>);
impl MessageId {
    /// Takes any non-blank text; `None` for a blank one.
    pub fn new(text: &str) -> Option<MessageId> {
        (!text.trim().is_empty()).then(|| MessageId(text.into()))
    }
    /// 32 hex digits of 16 random bytes.
    pub fn from_random(bytes: [u8; 16]) -> MessageId {
        MessageId(format!("{:032x}", u128::from_be_bytes(bytes)).into())
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// `user` in a request, `agent` in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Request.
    User,
    /// Reply.
    Agent,
}
impl Role {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Agent => "agent",
        }
    }
}

/// An A2A message of the right shape (3.4). Nothing in it is proven.
#[derive(Debug, Clone)]
pub struct Message {
    /// `messageId`
    pub message_id: MessageId,
    /// `contextId`; absent and `null` are `None`.
    pub context_id: Option<String>,
    /// `role`, when it is one of the two.
    pub role: Option<Role>,
    /// All text parts joined with one LF.
    ///
    /// The parts of `kind:"text"`. A message that has none of them is read in the spellings of other A2A versions,
    /// parts of `type:"text"` and bare `{text}`: whoever speaks those also signed the text in them.
    pub text: String,
    /// Parts that are not text: unsigned, kept and listed, never acted upon.
    pub other_parts: Vec<Value>,
    /// `metadata`, as received.
    pub metadata: Object,
}

/// Why a message object has the wrong shape: `-32600`. The text is constant, so it may be sent back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
#[non_exhaustive]
pub struct ShapeError(pub &'static str);

impl Message {
    /// Checks the shape rules of 3.4 on `params.message`. Unknown members are ignored.
    pub fn from_value(value: Value) -> Result<Message, ShapeError> {
        let Value::Object(mut members) = value else { return Err(ShapeError("the message is not an object")) };
        if members.get("kind").and_then(Value::as_str) != Some("message") {
            return Err(ShapeError("kind is not \"message\""));
        }
        let (text, other_parts) = parts::read(members.remove("parts"))?;
        let message_id = members.get("messageId").and_then(Value::as_str).and_then(MessageId::new);
        let context_id = match members.remove("contextId") {
            None | Some(Value::Null) => None,
            Some(Value::String(context_id)) => Some(context_id),
            Some(_) => return Err(ShapeError("contextId is not a string")),
        };
        let role = members.get("role").and_then(Value::as_str);
        Ok(Message {
            message_id: message_id.ok_or(ShapeError("messageId is not a non-blank string"))?,
            context_id,
            role: [Role::User, Role::Agent].into_iter().find(|known| Some(known.as_str()) == role),
            text,
            other_parts,
            metadata: metadata(members.remove("metadata"))?,
        })
    }

    /// A metadata member; `null` reads as absent.
    pub fn meta(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key).filter(|value| !value.is_null())
    }
}

fn metadata(value: Option<Value>) -> Result<Object, ShapeError> {
    let metadata = match value {
        None | Some(Value::Null) => Object::new(),
        Some(Value::Object(metadata)) => metadata,
        Some(_) => return Err(ShapeError("metadata is not an object")),
    };
    let is_text = |key| matches!(metadata.get(key), None | Some(Value::Null | Value::String(_)));
    for (key, detail) in [
        ("from", "metadata.from is not a string"),
        ("to", "metadata.to is not a string"),
        ("sig", "metadata.sig is not a string"),
    ] {
        if !is_text(key) {
            return Err(ShapeError(detail));
        }
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn shape_error(value: Value) -> &'static str {
        Message::from_value(value).unwrap_err().0
    }

    #[test]
    fn reads_a_message_and_ignores_what_it_does_not_know() {
        let message = Message::from_value(json!({
            "kind": "message", "role": "user", "messageId": "m1", "contextId": null, "extra": [1, {}],
            "parts": [{"kind": "text", "text": "a", "metadata": {"x": 1}}, {"kind": "text", "text": "b"}],
            "metadata": {"from": "x", "to": null, "unknown": 1},
        }))
        .unwrap();
        assert_eq!((message.text.as_str(), message.context_id, message.role), ("a\nb", None, Some(Role::User)));
        assert_eq!(message.metadata.len(), 3);
    }

    #[test]
    fn a_message_may_be_almost_empty() {
        let message = Message::from_value(json!({"kind": "message", "messageId": "m1"})).unwrap();
        assert!(message.text.is_empty() && message.metadata.is_empty() && message.role.is_none());
        let message = Message::from_value(json!({
            "kind": "message", "messageId": "m1", "contextId": "", "parts": null, "metadata": null, "role": 5,
        }))
        .unwrap();
        assert_eq!(message.context_id.as_deref(), Some(""));
    }

    #[test]
    fn names_what_is_wrong_with_the_shape() {
        assert_eq!(shape_error(json!([])), "the message is not an object");
        for kind in [json!(null), json!("Message"), json!("task"), json!(1)] {
            assert_eq!(shape_error(json!({"kind": kind, "messageId": "m1"})), "kind is not \"message\"");
        }
        for id in [json!(null), json!(""), json!(" \t"), json!(1), json!(["m1"])] {
            let error = shape_error(json!({"kind": "message", "messageId": id}));
            assert_eq!(error, "messageId is not a non-blank string");
        }
        for (member, detail) in [
            ("contextId", "contextId is not a string"),
            ("parts", "parts is not an array"),
            ("metadata", "metadata is not an object"),
        ] {
            for value in [json!(1), json!(true)] {
                let mut message = Object::from([("kind".into(), json!("message")), ("messageId".into(), json!("m1"))]);
                message.insert(member.into(), value);
                assert_eq!(shape_error(message.into()), detail);
            }
        }
        for (member, detail) in [
            ("from", "metadata.from is not a string"),
            ("to", "metadata.to is not a string"),
            ("sig", "metadata.sig is not a string"),
        ] {
            let metadata = Object::from([(member.to_owned(), json!({}))]);
            assert_eq!(shape_error(json!({"kind": "message", "messageId": "m1", "metadata": metadata})), detail);
        }
    }

    #[test]
    fn a_random_id_has_32_hex_digits() {
        let mut bytes = [0; 16];
        bytes[15] = 0xab;
        assert_eq!(MessageId::from_random(bytes).as_str(), "000000000000000000000000000000ab");
    }
}
