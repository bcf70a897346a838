//! One message out: persisted before the first attempt, sent with one id however often, its reply verified.
use crate::{Agent, Fault};
use muretai_protocol::{Did, UnixSeconds, json::Value};
use std::time::Duration;

/// What to send.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct SendRequest {
    /// TARGET as typed.
    pub target: String,
    pub text: String,
    pub context_id: Option<String>,
    pub reply_to: Option<String>,
    /// For everything together.
    pub timeout: Duration,
    /// Connection failures are tried again this often, with the same message id.
    pub retries: u32,
    /// Speak to an A2A agent without a DID.
    pub unverified: bool,
    /// Dial loopback and private addresses that a peer named.
    pub allow_private: bool,
}

/// What became of it.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Sent {
    pub message_id: String,
    pub to: Option<Did>,
    pub to_name: Option<String>,
    pub url: String,
    pub context_id: Option<String>,
    pub status: SentStatus,
    pub reply: Option<SentReply>,
    pub attempts: u32,
}
/// Delivered, with or without a reply in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SentStatus {
    /// Answered.
    Answered,
    /// The peer has it and will answer later, or not (`auto`, `status`).
    Accepted,
    /// The peer said that it had it already (`duplicate:true`): delivered by an earlier attempt.
    Duplicate,
}
/// The reply.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct SentReply {
    pub message_id: String,
    pub text: String,
    pub from: Option<Did>,
    pub timestamp: Option<UnixSeconds>,
    pub is_verified: bool,
    pub is_auto: bool,
    pub status: Option<String>,
    pub context_id: Option<String>,
}

/// Why it was not delivered, or its reply not believed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The peer refused: its code and message, and data's detail, as it said them.
    #[error("the peer refused: {code} {message}")]
    Refused {
        /// Code.
        code: i64,
        /// Message, made safe.
        message: String,
        /// `data.detail`, made safe.
        detail: Option<String>,
        /// The whole `data`.
        data: Option<Value>,
    },
    /// No address is known.
    #[error("no address is known for {0}")]
    NoAddress(String),
    // To be split further: target, card, text too long, empty text, foreign without --unverified, unreachable,
    // reply not verified (with message id: it may have been delivered), HTTP status with Retry-After, store.
}
impl SendError {
    /// Whose fault.
    pub fn fault(&self) -> Fault {
        todo!()
    }
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        todo!()
    }
}

impl Agent {
    /// Sends one message. Cancelling leaves it `Queued` in the store.
    pub async fn send(&self, _request: &SendRequest) -> Result<Sent, SendError> {
        todo!()
    }
}
