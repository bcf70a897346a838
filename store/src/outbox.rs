//! Messages that are on their way: what is tried again, what lies at a relay, and what did not get in here.
use muretai_protocol::UnixSeconds;

use crate::{Store, StoreError, messages::OutStatus};

/// How a queued message may be sent again without whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// When to give up.
    pub expires: UnixSeconds,
    /// The one way that it may go, in the transports' words; `None` for any.
    pub via: Option<String>,
    /// Unsigned metadata of every attempt, as a JSON object.
    pub extra: Option<String>,
}

/// A message in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its place among the messages.
    pub seq: i64,
    /// The peer's DID as text.
    pub peer: String,
    /// The contact's local name.
    pub name: Option<String>,
    /// Its id, the same in every attempt.
    pub message_id: String,
    /// The conversation.
    pub context_id: Option<String>,
    /// The id that it answers.
    pub reply_to: Option<String>,
    /// The text.
    pub text: String,
    /// It is a reply that this agent's responder made.
    pub is_reply: bool,
    /// `Queued` or `AtRelay`.
    pub status: OutStatus,
    /// How it is sent.
    pub keep: Keep,
    /// Relay and key to fall back on.
    pub fallback: (Option<String>, Option<String>),
    /// How often it was tried.
    pub attempts: u32,
    /// When it was written.
    pub created: UnixSeconds,
    /// When it is tried next; of one at a relay, when it is given up.
    pub due: UnixSeconds,
    /// Why the last attempt failed, for the owner.
    pub last_error: Option<String>,
    /// The relay that keeps it, and since when.
    pub at_relay: Option<(String, UnixSeconds)>,
}

/// A letter that was refused here, for the owner to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedLetter {
    /// When.
    pub received: UnixSeconds,
    /// The relay that it came from.
    pub relay: String,
    /// Who deposited it, as the relay says, or who signed it, when that is known.
    pub from: String,
    /// The deposit's id, or the message's when that is known.
    pub id: String,
    /// Why, in words.
    pub reason: String,
    /// The code of a refusal.
    pub code: Option<i64>,
    /// Bytes of the letter.
    pub bytes: u64,
}

impl Store {
    /// Takes messages that are due, at most `limit`, and puts each off until `lease`, so that no other process sends
    /// them at the same moment. What has expired is recorded so instead.
    pub async fn take_outbox(
        &self,
        now: UnixSeconds,
        lease: UnixSeconds,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let _ = (now, lease, limit);
        todo!()
    }

    /// The same for one message, due or not, while it is queued.
    pub async fn take_outgoing(&self, message_id: &str, lease: UnixSeconds) -> Result<Option<OutboxRow>, StoreError> {
        let _ = (message_id, lease);
        todo!()
    }

    /// All that is on its way, oldest first; notices of machines only `with_auto`.
    pub async fn outbox(&self, with_auto: bool) -> Result<Vec<OutboxRow>, StoreError> {
        let _ = with_auto;
        todo!()
    }

    /// Not now: tried again at `next`.
    pub async fn postpone_outgoing(&self, seq: i64, next: UnixSeconds, why: &str) -> Result<(), StoreError> {
        let _ = (seq, next, why);
        todo!()
    }

    /// A relay has it. A reply is done then; a message waits for word of its peer until it expires.
    pub async fn record_at_relay(&self, seq: i64, relay: &str, now: UnixSeconds) -> Result<(), StoreError> {
        let _ = (seq, relay, now);
        todo!()
    }

    /// Gives a message up; `None` when it is not in the outbox. What lies at a relay may still be delivered.
    pub async fn drop_outgoing(&self, message_id: &str) -> Result<Option<OutboxRow>, StoreError> {
        let _ = message_id;
        todo!()
    }

    /// Notes a letter that was refused. The newest 1,000 are kept.
    pub async fn add_rejected(&self, letter: &RejectedLetter) -> Result<(), StoreError> {
        let _ = letter;
        todo!()
    }

    /// Letters that were refused, newest last, at most `limit` of the newest.
    pub async fn rejected(&self, limit: u32) -> Result<Vec<RejectedLetter>, StoreError> {
        let _ = limit;
        todo!()
    }

    /// The answer to a message of ours that came by itself, when it is there.
    pub async fn answer_to(&self, message_id: &str) -> Result<Option<crate::messages::MessageRow>, StoreError> {
        let _ = message_id;
        todo!()
    }
}
