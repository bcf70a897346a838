//! What is in the outbox, sent again: by `serve` when it is due, by the owner's word at once.
use std::time::Duration;

use muretai_store::{
    StoreError,
    messages::{MessageRow, OutStatus},
    outbox::OutboxRow,
};
use tokio::sync::Notify;

use crate::{
    Agent,
    send::{SendError, Sent},
};

/// How long a message is tried, and how long it may lie at a relay without word of its peer: what relays keep.
pub(crate) const LIFE_SECS: i64 = 7 * 86_400;

/// What `outbox flush` is told.
#[derive(Debug, Clone)]
pub struct FlushRequest {
    /// One message; `None` takes all that are queued.
    pub message_id: Option<String>,
    /// For each message.
    pub timeout: Duration,
    /// Dial loopback and private addresses that a peer named.
    pub allow_private: bool,
}

/// What became of one message of the outbox.
#[derive(Debug)]
pub struct FlushOutcome {
    /// As it was before.
    pub row: OutboxRow,
    /// Sent, or why not.
    pub result: Result<Sent, SendError>,
    /// It is still in the outbox, and tried again.
    pub is_kept: bool,
}

/// What a peer has said, by itself, about a message that was sent to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// It answered. Boxed: the other words are short.
    Answered(Box<MessageRow>),
    /// It refused the message, with this code.
    Refused(Option<i64>),
    /// Nothing, for as long as it was kept.
    Expired,
}

impl Agent {
    /// Rung whenever this process writes a message into the outbox.
    pub fn outbox_written(&self) -> &Notify {
        &self.inner.outbox_written
    }

    /// Sends what is due in the outbox, and says how many messages left it or reached a relay. Fails for nobody: what was
    /// not sent is tried later. Dropping the future leaves the rest to the next run.
    pub async fn run_outbox(&self) -> u32 {
        todo!()
    }

    /// Sends what is queued at once, due or not, and tells `progress` each outcome.
    ///
    /// # Errors
    /// An id that is not in the outbox, or is at a relay; the store.
    pub async fn flush_outbox(
        &self,
        request: &FlushRequest,
        progress: &(dyn Fn(&FlushOutcome) + Send + Sync),
    ) -> Result<Vec<FlushOutcome>, SendError> {
        let _ = (request, progress);
        todo!()
    }

    /// Gives up a message that is queued, or lies at a relay and may still be delivered.
    ///
    /// # Errors
    /// [`SendError::NoSuchMessage`] when it is not in the outbox.
    pub async fn drop_outgoing(&self, message_id: &str) -> Result<OutboxRow, SendError> {
        let message_id = message_id.trim();
        let dropped = self.store().drop_outgoing(message_id).await?;
        dropped.ok_or_else(|| SendError::NoSuchMessage(message_id.to_owned()))
    }

    /// What the peer has said about a message since it was sent; `None`: nothing yet that ends the wait for an answer.
    pub async fn answer_of(&self, message_id: &str) -> Result<Option<Word>, StoreError> {
        if let Some(answer) = self.store().answer_to(message_id).await? {
            return Ok(Some(Word::Answered(Box::new(answer))));
        }
        let row = self.store().outgoing(message_id).await?;
        Ok(row.and_then(|row| match row.status {
            Some(OutStatus::Refused) => Some(Word::Refused(row.code)),
            Some(OutStatus::Expired) => Some(Word::Expired),
            _ => None,
        }))
    }
}
