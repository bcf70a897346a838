//! Messages in and out, and the durable set of handled ids (section 4.5).
use crate::{Store, StoreError};
use muretai_protocol::{Did, UnixSeconds};

/// A verified incoming message with the signed reply that answers it.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Received {
    pub from: Did,
    pub message_id: String,
    pub context_id: Option<String>,
    pub reply_to: Option<String>,
    pub text: String,
    /// The signed time.
    pub timestamp: UnixSeconds,
    /// Our clock on arrival.
    pub received: UnixSeconds,
    /// Equal for an honest re-send.
    pub digest: [u8; 32],
    pub sig: String,
    /// Unknown metadata and parts that are no text, as compact JSON; `None` when there is nothing beyond the envelope.
    pub extra: Option<String>,
    /// The signed answer, stored in the same transaction.
    pub reply: Option<Reply>,
}
/// The signed answer.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Reply {
    pub message_id: String,
    pub text: String,
    pub timestamp: UnixSeconds,
    pub sig: String,
    /// `auto:true` acknowledgements and failures, hidden from the conversation by default.
    pub is_auto: bool,
}

/// What the commit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Committed {
    Stored {
        seq: i64,
    },
    /// Another process or an earlier life stored this id; nothing was written.
    Duplicate {
        same_content: bool,
    },
}

/// A handled id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Handled {
    pub digest: [u8; 32],
}

/// What the store knows of a sender and an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Standing {
    pub handled: Option<Handled>,
    pub is_direct: bool,
    pub is_blocked: bool,
}

/// In or out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Direction {
    In,
    Out,
}

/// What became of an outgoing message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OutStatus {
    /// Written before the first attempt.
    Queued,
    /// The peer has it.
    Delivered,
    /// The peer refused it.
    Refused,
    /// Nobody was reached.
    Failed,
}

/// A row of the inbox or of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MessageRow {
    /// Local arrival sequence: the order of everything, the cursor of `--follow`.
    pub seq: i64,
    pub direction: Direction,
    /// The peer's DID as text; a foreign agent's card URL when it has no DID.
    pub peer: String,
    /// The contact's local name, when there is one.
    pub name: Option<String>,
    pub message_id: String,
    pub context_id: Option<String>,
    pub reply_to: Option<String>,
    pub text: String,
    pub timestamp: UnixSeconds,
    pub received: UnixSeconds,
    pub is_unread: bool,
    pub is_auto: bool,
    /// Signature checked.
    pub is_verified: bool,
    pub status: Option<OutStatus>,
    pub extra: Option<String>,
}

/// An outgoing message, persisted before the first attempt.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Outgoing {
    pub peer: String,
    pub message_id: String,
    pub context_id: Option<String>,
    pub reply_to: Option<String>,
    pub text: String,
    pub timestamp: UnixSeconds,
    pub sig: Option<String>,
}

/// The peer's answer to an outgoing message, verified or (foreign agents) not.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Answered {
    pub message_id: String,
    pub context_id: Option<String>,
    pub text: String,
    pub timestamp: UnixSeconds,
    pub received: UnixSeconds,
    pub sig: Option<String>,
    pub is_verified: bool,
    pub is_auto: bool,
    pub digest: Option<[u8; 32]>,
    pub extra: Option<String>,
}

/// Which messages to list.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)]
pub struct Query {
    pub after_seq: Option<i64>,
    pub peer: Option<String>,
    pub context_id: Option<String>,
    pub unread_only: bool,
    /// Also what was sent, not only what arrived.
    pub with_sent: bool,
    /// Also `auto` acknowledgements.
    pub with_auto: bool,
    /// The newest N, still oldest first.
    pub limit: Option<u32>,
}

impl Store {
    /// Stores a message, its id and its reply in one synced transaction, shared with concurrent callers. When this
    /// returns `Stored`, the message survives power loss. A dropped future may still have been committed.
    pub async fn commit_received(&self, _message: Received) -> Result<Committed, StoreError> {
        todo!()
    }
    /// What is known of a sender and one of its message ids, for steps 4 and 6 of the ladder: concurrent look-ups
    /// share one read. Writes nothing.
    pub async fn standing(&self, _from: &str, _message_id: &str) -> Result<Standing, StoreError> {
        todo!()
    }
    /// Writes an outgoing message as `Queued`, before its first attempt; gives its seq.
    pub async fn queue_outgoing(&self, _message: &Outgoing) -> Result<i64, StoreError> {
        todo!()
    }
    /// Records what became of it, with the reply when there is one, in one transaction.
    pub async fn record_outcome(
        &self,
        _seq: i64,
        _status: OutStatus,
        _reply: Option<&Answered>,
    ) -> Result<(), StoreError> {
        todo!()
    }
    /// Lists, oldest first, in order of `seq`.
    pub async fn messages(&self, _query: &Query) -> Result<Vec<MessageRow>, StoreError> {
        todo!()
    }
    /// Marks these incoming messages as read.
    pub async fn mark_read(&self, _seqs: &[i64]) -> Result<(), StoreError> {
        todo!()
    }
    /// The highest seq so far, 0 for an empty store.
    pub async fn last_seq(&self) -> Result<i64, StoreError> {
        todo!()
    }
}
