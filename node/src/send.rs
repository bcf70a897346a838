//! Sending: which peer is meant, what its card says, one signed message, its verified reply.
pub(crate) mod access;
pub(crate) mod answer;
mod backoff;
mod commands;
pub(crate) mod delivery;
pub mod error;
pub mod flush;
pub mod foreign;
pub(crate) mod notice;
pub mod outbox;
pub mod peer;
mod presented;
pub mod resend;
pub(crate) mod resolve;
pub mod target;

pub use error::SendError;
pub use flush::{FlushOutcome, FlushRequest, Word};
pub use outbox::{ReplyCommand, SendRequest, Sent, SentReply, SentStatus};
pub use resend::ResendRequest;
pub use resolve::ResolvedPeer;
