//! The signed message (section 3): shape, envelope, signature, reply.
use std::fmt;

use crate::{
    Did, UnixSeconds,
    json::{Object, Value},
    sign::SigningKey,
};

/// A non-blank message id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MessageId(Box<str>);
impl MessageId {
    /// Takes any non-blank text; `None` for a blank one.
    pub fn new(_text: &str) -> Option<MessageId> {
        todo!()
    }
    /// 32 hex digits of 16 random bytes.
    pub fn from_random(_bytes: [u8; 16]) -> MessageId {
        todo!()
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
    pub text: String,
    /// Parts that are not text: unsigned, kept and listed, never acted upon.
    pub other_parts: Vec<Value>,
    /// `metadata`, as received.
    pub metadata: Object,
}

/// Why a message object has the wrong shape: `-32600`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
#[non_exhaustive]
pub struct ShapeError(pub &'static str);

/// Which part of the envelope is missing (step 1): `-32001`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// `from`, `to` and `sig` are all absent: the teaching refusal (4.4).
    #[error("the message is not signed")]
    Unsigned,
    /// Some are there, some are not.
    #[error("the envelope is incomplete")]
    Incomplete,
}

/// How a timestamp misses the window (step 3): `-32002`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stale {
    /// Outside the window; positive when the message is older than the clock.
    #[error("the timestamp is {0} s off")]
    OutsideWindow(i64),
    /// Not an integer.
    #[error("the timestamp is not an integer")]
    NotAnInteger,
}

/// A message whose envelope is there and is not yet believed.
#[derive(Debug, Clone)]
pub struct Unverified {
    /// The message.
    pub message: Message,
    /// `metadata.from`, as text.
    pub from: String,
    /// `metadata.to`, as text.
    pub to: String,
    _sig: String,
    _timestamp: Value,
}

/// A message whose signature verified under `from`. Made by [`Unverified::verify`] alone.
#[derive(Debug, Clone)]
pub struct Verified {
    _inner: Unverified,
    _from: Did,
    _timestamp: UnixSeconds,
}

/// The signature, an extra signature or a binding does not verify (step 5): `-32001`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not verify")]
pub struct SignatureError;

impl Message {
    /// Checks the shape rules of 3.4 on `params.message`.
    pub fn from_value(_value: Value) -> Result<Message, ShapeError> {
        todo!()
    }
    /// Step 1: `from`, `to` and `sig` are there.
    pub fn into_envelope(self) -> Result<Unverified, EnvelopeError> {
        todo!()
    }
    /// A metadata member; `null` reads as absent.
    pub fn meta(&self, _key: &str) -> Option<&Value> {
        todo!()
    }
}

impl Unverified {
    /// Step 2: addressed to `me`, whom the verifier names.
    pub fn is_for(&self, _me: &Did) -> bool {
        todo!()
    }
    /// Step 3: within ±300 s of `now`, both ends inclusive. An integral float counts as its integer (1.3).
    pub fn freshness(&self, _now: UnixSeconds) -> Result<UnixSeconds, Stale> {
        todo!()
    }
    /// Step 5: the signature under `from`, and the extra signatures of 3.3. The caller has checked steps 2 and 3.
    pub fn verify(self) -> Result<Verified, SignatureError> {
        todo!()
    }
}

impl Verified {
    /// Who signed.
    pub fn from(&self) -> &Did {
        todo!()
    }
    /// The message.
    pub fn message(&self) -> &Message {
        todo!()
    }
    /// The signed time.
    pub fn timestamp(&self) -> UnixSeconds {
        todo!()
    }
    /// `metadata.sig`.
    pub fn sig(&self) -> &str {
        todo!()
    }
    /// SHA-256 over `to`, `contextId` and `text`, unambiguously joined: equal for an honest re-send (4.5).
    pub fn content_digest(&self) -> [u8; 32] {
        todo!()
    }
}

/// The canonical bytes of the six signed fields (3.1).
pub fn signing_payload(
    _from: &str,
    _to: &str,
    _message_id: &str,
    _context_id: Option<&str>,
    _timestamp: &Value,
    _text: &str,
) -> String {
    todo!()
}

/// What a new message says; everything that gets signed but the sender.
#[derive(Debug, Clone)]
pub struct Draft<'a> {
    /// `user` or `agent`.
    pub role: Role,
    /// Recipient; `""` only in a reply to an unsigned inquiry.
    pub to: &'a str,
    /// Fresh id, or the id of the message that is sent again.
    pub message_id: &'a MessageId,
    /// `contextId`.
    pub context_id: Option<&'a str>,
    /// The text, at most `MAX_TEXT_BYTES` (the caller checks).
    pub text: &'a str,
    /// Seconds.
    pub timestamp: UnixSeconds,
    /// Unsigned metadata members to add, such as `replyTo`, `auto`, `status`.
    pub extra: Object,
}

/// Signs a draft and writes the A2A 0.2/0.3 message object (3.2).
pub fn sign(_key: &SigningKey, _draft: &Draft<'_>) -> Value {
    todo!()
}

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

/// Why a reply is not believed; each failure has its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// To be split: not a message, unsigned, other sender, other recipient, stale, other context, other `replyTo`, signature.
    #[error("the reply is not a signed message")]
    NotAMessage,
}

/// Verifies a reply before anything of it is shown.
pub fn verify_reply(_result: Value, _asked: &Asked<'_>, _now: UnixSeconds) -> Result<Verified, ReplyError> {
    todo!()
}
