//! Messages that are on their way: what is tried again, what lies at a relay, and what did not get in here.
//!
//! Who sends a message takes its row until a moment in the near future, so that no other process sends it at the same
//! time; a process that dies leaves a row that is due again then. Whatever the peer says about a message takes its row
//! away in the transaction that records it.
use muretai_protocol::{Did, UnixSeconds};

use crate::{
    Store, StoreError,
    listing::find_answer,
    messages::{MessageRow, OutStatus, ReplyBy},
};

mod rejected;
pub(crate) mod rows;

/// How a queued message may be sent again without whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// When to give up.
    pub expires: UnixSeconds,
    /// The one way that it may go, in the transports' words; `None` for any.
    pub via: Option<String>,
    /// The owner lets us dial loopback and private addresses for it.
    pub allow_private: bool,
    /// Unsigned metadata of every attempt, as a JSON object.
    pub extra: Option<String>,
    /// A relay to fall back on where the contact has none.
    pub relay: Option<String>,
    /// The sealing key that goes with it.
    pub enc_pub: Option<String>,
    /// Whoever writes the row makes the first attempt by itself until then. `None`: it is due at once.
    pub lease: Option<UnixSeconds>,
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
    /// A machine's notice or acknowledgement.
    pub is_auto: bool,
    /// `Queued` or `AtRelay`.
    pub status: OutStatus,
    /// How it is sent; without a lease.
    pub keep: Keep,
    /// How often it was tried: while it is queued, in vain.
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

/// A reply that was made earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierReply {
    /// Its id.
    pub message_id: String,
    /// The text.
    pub text: String,
    /// A machine made it without thought.
    pub is_auto: bool,
    /// When the message arrived that it answers.
    pub received: UnixSeconds,
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
    /// Takes messages that are due, at most `limit`, in the order in which they were written, and puts each off until
    /// `lease`, so that no other process sends them at the same moment. What has expired is recorded so instead.
    pub async fn take_outbox(
        &self,
        now: UnixSeconds,
        lease: UnixSeconds,
        limit: u32,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        // A look that costs nobody the write lock: `serve` asks often, and mostly nothing is due.
        let are_due = self.read(move |conn| Box::pin(async move { rows::are_due(conn, now).await })).await?;
        if !are_due {
            return Ok(Vec::new());
        }
        self.write(move |conn| Box::pin(async move { rows::take(conn, now, lease, limit).await })).await
    }

    /// The same for one message, due or not, while it is queued.
    pub async fn take_outgoing(&self, message_id: &str, lease: UnixSeconds) -> Result<Option<OutboxRow>, StoreError> {
        let message_id = message_id.to_owned();
        self.write(move |conn| Box::pin(async move { rows::take_one(conn, &message_id, lease).await })).await
    }

    /// All that is on its way, oldest first; notices of machines only `with_auto`.
    pub async fn outbox(&self, with_auto: bool) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(move |conn| Box::pin(async move { rows::list(conn, with_auto).await })).await
    }

    /// The row of one message, while it is on its way.
    pub async fn outbox_row(&self, message_id: &str) -> Result<Option<OutboxRow>, StoreError> {
        let message_id = message_id.to_owned();
        self.read(move |conn| Box::pin(async move { rows::find(conn, &message_id).await })).await
    }

    /// When the next message is due; `None` when nothing is on its way.
    pub async fn outbox_due(&self) -> Result<Option<UnixSeconds>, StoreError> {
        self.read(|conn| Box::pin(async move { rows::next_due(conn).await })).await
    }

    /// Not now: tried again at `next`, or when it expires, if that is earlier. Of `why` the first 1,024 bytes are kept.
    /// Nothing happens to what lies at a relay.
    pub async fn postpone_outgoing(&self, seq: i64, next: UnixSeconds, why: &str) -> Result<(), StoreError> {
        let why = why[..why.floor_char_boundary(rows::MAX_ERROR_BYTES)].to_owned();
        self.write(move |conn| Box::pin(async move { rows::postpone(conn, seq, next, &why).await })).await
    }

    /// Takes a queued message that nobody sends at this moment, due or not.
    pub async fn take_queued(
        &self,
        seq: i64,
        now: UnixSeconds,
        lease: UnixSeconds,
    ) -> Result<Option<OutboxRow>, StoreError> {
        self.write(move |conn| Box::pin(async move { rows::take_free(conn, seq, now, lease).await })).await
    }

    /// Whether a message is in the outbox, and not at a relay.
    pub async fn is_queued(&self, seq: i64) -> Result<bool, StoreError> {
        self.read(move |conn| Box::pin(async move { rows::is_queued(conn, seq).await })).await
    }

    /// The message at `seq` did not reach its peer: what else is queued for it is not tried before that one, and `taken`
    /// is given back.
    pub async fn put_off_behind(
        &self,
        seq: i64,
        peer: &str,
        taken: &[i64],
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        let taken = format!("[{}]", taken.iter().map(i64::to_string).collect::<Vec<_>>().join(","));
        let peer = peer.to_owned();
        self.write(move |conn| Box::pin(async move { rows::put_off_behind(conn, seq, &peer, &taken, now).await })).await
    }

    /// A peer was reached: whatever else is queued for it is due now, unless somebody sends it at this moment.
    pub async fn hasten_outgoing(&self, peer: &str, now: UnixSeconds) -> Result<bool, StoreError> {
        let peer = peer.to_owned();
        let asked = peer.clone();
        let has_any = self.read(move |conn| Box::pin(async move { rows::has_any(conn, &asked, now).await })).await?;
        if has_any {
            self.write(move |conn| Box::pin(async move { rows::hasten(conn, &peer, now).await })).await?;
        }
        Ok(has_any)
    }

    /// A relay has it. A reply or a notice is done then; a message waits for word of its peer until `expires`. What the
    /// peer has said meanwhile counts more.
    pub async fn record_at_relay(
        &self,
        seq: i64,
        relay: &str,
        now: UnixSeconds,
        expires: UnixSeconds,
    ) -> Result<(), StoreError> {
        let relay = relay.to_owned();
        self.write(move |conn| Box::pin(async move { rows::at_relay(conn, seq, &relay, now, expires).await })).await
    }

    /// Gives a message up: queued ones have failed then. `None` when it is not in the outbox. What lies at a relay may
    /// still be delivered, and is no longer watched.
    pub async fn drop_outgoing(&self, message_id: &str) -> Result<Option<OutboxRow>, StoreError> {
        let message_id = message_id.to_owned();
        self.write(move |conn| Box::pin(async move { rows::give_up(conn, &message_id).await })).await
    }

    /// Puts a reply that was made for somebody who did not wait for it into the outbox; `false` when it is no reply to this
    /// peer that is kept here, is there already, or answers a machine's notice.
    pub async fn post_reply(&self, peer: &Did, message_id: &str, by: &ReplyBy) -> Result<bool, StoreError> {
        let (peer, message_id, by) = (peer.clone(), message_id.to_owned(), by.clone());
        self.write(|conn| Box::pin(async move { rows::post_reply(conn, &peer, &message_id, &by).await })).await
    }

    /// The reply that was made to a message of this peer, when both are among the last 10,000 rows: whoever has just been
    /// restarted may not know whether anybody heard it.
    pub async fn reply_to(&self, peer: &Did, message_id: &str) -> Result<Option<EarlierReply>, StoreError> {
        let (peer, message_id) = (peer.clone(), message_id.to_owned());
        self.read(|conn| Box::pin(async move { rows::reply_to(conn, &peer, &message_id).await })).await
    }

    /// Notes a letter that was refused. The newest 500 of contacts and the newest 500 of everybody else are kept, and of
    /// each text the first 1,024 bytes.
    pub async fn add_rejected(&self, letter: &RejectedLetter) -> Result<(), StoreError> {
        let letter = letter.clone();
        self.write(move |conn| Box::pin(async move { rejected::insert(conn, &letter).await })).await
    }

    /// Letters that were refused, newest last, at most `limit` of the newest.
    pub async fn rejected(&self, limit: u32) -> Result<Vec<RejectedLetter>, StoreError> {
        self.read(move |conn| Box::pin(async move { rejected::list(conn, limit).await })).await
    }

    /// The answer to a message of ours, when it is there: words of the peer, not only word of the message.
    pub async fn answer_to(&self, message_id: &str) -> Result<Option<MessageRow>, StoreError> {
        let message_id = message_id.to_owned();
        self.read(move |conn| Box::pin(async move { find_answer(conn, &message_id).await })).await
    }
}
