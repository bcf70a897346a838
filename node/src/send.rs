//! Sending: which peer is meant, what its card says, one signed message, its verified reply.
pub mod foreign;
pub mod outbox;
pub mod peer;
pub mod target;

pub use outbox::{SendError, SendRequest, Sent, SentReply, SentStatus};
