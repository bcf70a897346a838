//! Sending: which peer is meant, what its card says, one signed message, its verified reply.
pub(crate) mod access;
pub(crate) mod answer;
mod delivery;
pub mod error;
pub mod foreign;
pub mod outbox;
pub mod peer;
pub mod resend;
mod resolve;
pub mod target;

pub use error::SendError;
pub use outbox::{SendRequest, Sent, SentReply, SentStatus};
pub use resend::ResendRequest;
pub use resolve::ResolvedPeer;
