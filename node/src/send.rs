//! Sending: which peer is meant, what its card says, one signed message, its verified reply.
pub(crate) mod access;
pub(crate) mod answer;
pub mod error;
pub mod foreign;
pub mod outbox;
pub mod peer;
mod resolve;
pub mod target;

pub use error::SendError;
pub use outbox::{SendRequest, Sent, SentReply, SentStatus};
pub use resolve::ResolvedPeer;
