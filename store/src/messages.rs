//! Messages in and out, and the durable set of handled ids (section 4.5).
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, SqliteConnection, query};
use tokio::sync::oneshot;

use crate::{
    Store, StoreError,
    batch::Pending,
    contacts::peer_id,
    handled::{handled_key, mark_handled},
    listing::find_outgoing,
    outbox::{Keep, rows},
    reader::ReadJob,
    standing::Asked,
    writer::WriteJob,
};

/// Before a message id: the setting that keeps the message's target.
pub(crate) const TARGET_SETTING: &str = "target:";

/// A verified incoming message with the signed reply that answers it.
#[derive(Debug, Clone)]
pub struct Received {
    /// Who signed it.
    pub from: Did,
    /// Its id.
    pub message_id: String,
    /// The conversation.
    pub context_id: Option<String>,
    /// The id that it answers.
    pub reply_to: Option<String>,
    /// The text.
    pub text: String,
    /// The signed time.
    pub timestamp: UnixSeconds,
    /// Our clock on arrival.
    pub received: UnixSeconds,
    /// Equal for an honest re-send.
    pub digest: [u8; 32],
    /// The signature.
    pub sig: String,
    /// Unknown metadata and parts that are no text, as compact JSON; `None` when there is nothing beyond the envelope.
    pub extra: Option<String>,
    /// A machine's notice, hidden from the conversation by default.
    pub is_auto: bool,
    /// The signed answer, stored in the same transaction.
    pub reply: Option<Reply>,
    /// Nobody waits for the reply: it goes to the outbox, in the same transaction.
    pub reply_by: Option<ReplyBy>,
    /// What the message says about one that this agent sent to the same peer. Without effect when there is none such.
    pub settles: Option<Settles>,
}
/// How a reply reaches a peer that does not wait for it.
#[derive(Debug, Clone, Default)]
pub struct ReplyBy {
    /// Unsigned metadata of the reply, as a JSON object.
    pub extra: Option<String>,
    /// Relay and key to fall back on where the contact has none: those of the letter that it answers.
    pub relay: Option<String>,
    /// The key that opened that letter.
    pub enc_pub: Option<String>,
    /// When to give up.
    pub expires: Option<UnixSeconds>,
}
/// What an incoming message says about an outgoing one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settles {
    /// The id of the outgoing message.
    pub asked: String,
    /// What became of it: `Delivered` or `Refused`. What was delivered stays so.
    pub status: OutStatus,
    /// The code of a refusal.
    pub code: Option<i64>,
    /// The incoming message is its answer, not only word of it.
    pub is_answer: bool,
}
/// The signed answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Its id.
    pub message_id: String,
    /// The text.
    pub text: String,
    /// The signed time.
    pub timestamp: UnixSeconds,
    /// The signature.
    pub sig: String,
    /// `auto:true` acknowledgements and failures, hidden from the conversation by default.
    pub is_auto: bool,
}

/// What the commit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// The message and its reply are on disk.
    Stored {
        /// The message's place; its reply has the next one.
        seq: i64,
    },
    /// Another process or an earlier life stored this id; nothing was written.
    Duplicate {
        /// An honest re-send; otherwise the sender used one id for two messages.
        same_content: bool,
    },
}

/// A handled id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handled {
    /// The content that was handled under this id.
    pub digest: [u8; 32],
}

/// What the store knows of a sender and an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Set when the id was handled before.
    pub handled: Option<Handled>,
    /// The sender is a direct contact.
    pub is_direct: bool,
    /// The sender was introduced; whether an introduction still stands is another question.
    pub is_introduced: bool,
    /// The owner blocked the sender.
    pub is_blocked: bool,
}

/// The request that an act answers: its id counts as handled in the same transaction.
#[derive(Debug, Clone)]
pub struct Handling {
    /// Who signed it.
    pub from: Did,
    /// Its id.
    pub message_id: String,
    /// Its content digest.
    pub digest: [u8; 32],
}

/// In or out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the peer.
    In,
    /// To the peer.
    Out,
}

/// What became of an outgoing message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutStatus {
    /// Written before the first attempt.
    Queued,
    /// The peer has it.
    Delivered,
    /// The peer refused it.
    Refused,
    /// Nobody was reached, and the owner does not want it to be tried any more.
    Failed,
    /// A relay keeps it; the peer has said nothing about it.
    AtRelay,
    /// Nobody said anything about it for as long as it was kept.
    Expired,
}

/// A row of the inbox or of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRow {
    /// Local arrival sequence: the order of everything, the cursor of `--follow`.
    pub seq: i64,
    /// In or out.
    pub direction: Direction,
    /// The peer's DID as text; a foreign agent's card URL when it has no DID.
    pub peer: String,
    /// The contact's local name, when there is one.
    pub name: Option<String>,
    /// Its id.
    pub message_id: String,
    /// The conversation.
    pub context_id: Option<String>,
    /// The id that it answers.
    pub reply_to: Option<String>,
    /// The text.
    pub text: String,
    /// The signed time.
    pub timestamp: UnixSeconds,
    /// Our clock when it arrived or was written.
    pub received: UnixSeconds,
    /// Arrived and not yet marked as read.
    pub is_unread: bool,
    /// An automatic acknowledgement or failure.
    pub is_auto: bool,
    /// Signature checked.
    pub is_verified: bool,
    /// What became of it; `None` for what arrived and for replies, which travel in the answer to a request.
    pub status: Option<OutStatus>,
    /// What the message carried beyond its text, as compact JSON.
    pub extra: Option<String>,
    /// The code with which the peer refused it.
    pub code: Option<i64>,
}

/// An outgoing message, persisted before the first attempt.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The peer's DID as text; a foreign agent's card URL.
    pub peer: String,
    /// Its id.
    pub message_id: String,
    /// The conversation.
    pub context_id: Option<String>,
    /// The id that it answers.
    pub reply_to: Option<String>,
    /// The text.
    pub text: String,
    /// The signed time.
    pub timestamp: UnixSeconds,
    /// The signature.
    pub sig: Option<String>,
    /// Where it was sent, in the owner's words, when its peer is no contact: whoever sends it again has to know. Kept
    /// until the peer said something about the message.
    pub target: Option<String>,
    /// A machine's notice, hidden from the conversation by default.
    pub is_auto: bool,
    /// How it is tried again; `None`: not at all, unless its owner says so.
    pub keep: Option<Keep>,
}

/// The peer's answer to an outgoing message, verified or (foreign agents) not.
#[derive(Debug, Clone)]
pub struct Answered {
    /// Its id.
    pub message_id: String,
    /// The conversation.
    pub context_id: Option<String>,
    /// The text.
    pub text: String,
    /// The signed time.
    pub timestamp: UnixSeconds,
    /// Our clock on arrival.
    pub received: UnixSeconds,
    /// The signature.
    pub sig: Option<String>,
    /// Its signature was checked.
    pub is_verified: bool,
    /// An automatic acknowledgement or failure.
    pub is_auto: bool,
    /// Its content digest; with one, the id counts as handled, so that the reply cannot be sent to us as a message.
    pub digest: Option<[u8; 32]>,
    /// What it carried beyond its text, as compact JSON.
    pub extra: Option<String>,
}

/// Which messages to list.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only what came later than this seq.
    pub after_seq: Option<i64>,
    /// Only this peer, by DID (or card URL).
    pub peer: Option<String>,
    /// Only this conversation.
    pub context_id: Option<String>,
    /// Only what arrived and was not read; nothing that was sent.
    pub unread_only: bool,
    /// Also what was sent, not only what arrived.
    pub with_sent: bool,
    /// Also `auto` acknowledgements.
    pub with_auto: bool,
    /// At most this many, always listed oldest first: with `after_seq` the first ones after it, so that a reader can page
    /// through everything; without it the newest ones. `None` lists all.
    pub limit: Option<u32>,
}

impl Store {
    /// Stores a message, its id and its reply in one synced transaction, shared with concurrent callers. When this
    /// returns `Stored`, the message survives power loss. A dropped future may still have been committed.
    pub async fn commit_received(&self, message: Received) -> Result<Committed, StoreError> {
        let key = handled_key(message.from.as_str(), &message.message_id);
        let (answer, outcome) = oneshot::channel();
        let job = WriteJob::Received(Pending { message, key, answer });
        self.writer()?.send(job).await.map_err(|_| StoreError::Closed)?;
        outcome.await.map_err(|_| StoreError::Closed)?
    }

    /// What is known of a sender and one of its message ids, for steps 4 and 6 of the ladder: concurrent look-ups
    /// share one read. Writes nothing.
    pub async fn standing(&self, from: &str, message_id: &str) -> Result<Standing, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let asked = Asked { from: from.to_owned(), key: handled_key(from, message_id), answer };
        self.reader()?.send(ReadJob::Standing(asked)).await.map_err(|_| StoreError::Closed)?;
        outcome.await.map_err(|_| StoreError::Closed)?
    }

    /// Writes an outgoing message as `Queued`, before its first attempt, with its row in the outbox in the same
    /// transaction; gives its seq.
    ///
    /// # Errors
    /// [`StoreError::OutboxFull`] when 100,000 messages of the owner's are on their way. Of replies and notices 10,000 are
    /// kept; then the oldest goes, notices first.
    pub async fn queue_outgoing(&self, message: &Outgoing) -> Result<i64, StoreError> {
        let message = message.clone();
        self.write(|conn| Box::pin(async move { insert_outgoing(conn, &message).await })).await
    }

    /// Writes a message into the outbox unless one with its id was ever written; says whether it was.
    pub async fn queue_once(&self, message: &Outgoing) -> Result<bool, StoreError> {
        let message = message.clone();
        self.write(|conn| {
            Box::pin(async move {
                if is_outgoing(conn, &message.message_id).await? {
                    return Ok(false);
                }
                insert_outgoing(conn, &message).await?;
                Ok(true)
            })
        })
        .await
    }

    /// The outgoing message with this id; a reply that travelled in the answer to a request is none.
    pub async fn outgoing(&self, message_id: &str) -> Result<Option<MessageRow>, StoreError> {
        let message_id = message_id.to_owned();
        self.read(|conn| Box::pin(async move { find_outgoing(conn, &message_id).await })).await
    }

    /// The [`Outgoing::target`] of a message that is still under way.
    pub async fn target_of(&self, message_id: &str) -> Result<Option<String>, StoreError> {
        self.setting(&format!("{TARGET_SETTING}{message_id}")).await
    }

    /// Puts a message that is to be sent once more back to `Queued`, under its new time and signature, and into the
    /// outbox: a row that it still has there is taken as if by [`Store::take_outgoing`] and otherwise stays as it is,
    /// another is made as `keep` says. What lies at a relay stays so. `false`, and nothing changes, when it was delivered
    /// or refused meanwhile.
    pub async fn requeue_outgoing(
        &self,
        seq: i64,
        timestamp: UnixSeconds,
        sig: Option<&str>,
        keep: Option<&Keep>,
    ) -> Result<bool, StoreError> {
        let (sig, keep) = (sig.map(str::to_owned), keep.cloned());
        self.write(move |conn| {
            Box::pin(async move { rows::requeue(conn, seq, timestamp, sig.as_deref(), keep.as_ref()).await })
        })
        .await
    }

    /// Records what became of it, with the reply when there is one, in one transaction, and takes it out of the outbox
    /// unless it is still under way. Doing it again changes nothing, and what was once delivered stays so. The reply is
    /// not unread: whoever sent the message is about to see it.
    pub async fn record_outcome(
        &self,
        seq: i64,
        status: OutStatus,
        reply: Option<&Answered>,
    ) -> Result<(), StoreError> {
        let reply = reply.cloned();
        self.write(move |conn| Box::pin(async move { conclude(conn, seq, status, reply.as_ref()).await })).await
    }

    /// Records the peer's refusal and its code, and takes the message out of the outbox. What was once delivered stays so.
    pub async fn record_refused(&self, seq: i64, code: i64) -> Result<(), StoreError> {
        self.write(move |conn| Box::pin(async move { rows::settle(conn, seq, OutStatus::Refused, Some(code)).await }))
            .await
    }

    /// Marks these incoming messages as read.
    pub async fn mark_read(&self, seqs: &[i64]) -> Result<(), StoreError> {
        if seqs.is_empty() {
            return Ok(());
        }
        let seqs = format!("[{}]", seqs.iter().map(i64::to_string).collect::<Vec<_>>().join(","));
        self.write(|conn| {
            Box::pin(async move {
                query(
                    "UPDATE messages SET is_unread = 0 WHERE seq IN (SELECT value FROM json_each(?)) AND is_unread = 1",
                )
                .bind(seqs)
                .execute(conn)
                .await?;
                Ok(())
            })
        })
        .await
    }

    /// The highest seq so far, 0 for an empty store.
    pub async fn last_seq(&self) -> Result<i64, StoreError> {
        self.read(|conn| {
            Box::pin(async move {
                let row = query("SELECT ifnull(max(seq), 0) FROM messages").fetch_one(conn).await?;
                Ok(row.try_get(0)?)
            })
        })
        .await
    }
}

impl Direction {
    /// As it is stored.
    pub(crate) fn from_stored(number: i64) -> Result<Direction, StoreError> {
        match number {
            0 => Ok(Direction::In),
            1 => Ok(Direction::Out),
            _ => Err(StoreError::Damaged),
        }
    }
}

impl OutStatus {
    const ALL: [OutStatus; 6] = [
        OutStatus::Queued,
        OutStatus::Delivered,
        OutStatus::Refused,
        OutStatus::Failed,
        OutStatus::AtRelay,
        OutStatus::Expired,
    ];

    /// As it is stored.
    pub(crate) fn from_stored(number: i64) -> Result<OutStatus, StoreError> {
        OutStatus::ALL.into_iter().find(|status| *status as i64 == number).ok_or(StoreError::Damaged)
    }
}

/// Whether a message of ours with this id was ever written.
pub(crate) async fn is_outgoing(conn: &mut SqliteConnection, message_id: &str) -> Result<bool, StoreError> {
    let row = query("SELECT 1 FROM messages WHERE message_id = ? AND status IS NOT NULL").bind(message_id);
    Ok(row.fetch_optional(conn).await?.is_some())
}

/// Writes an outgoing message, with its row in the outbox when it is kept there.
pub(crate) async fn insert_outgoing(conn: &mut SqliteConnection, message: &Outgoing) -> Result<i64, StoreError> {
    let peer = peer_id(conn, &message.peer).await?;
    let done = query(
        "INSERT INTO messages (peer, direction, is_unread, is_auto, is_verified, status, timestamp, received, \
         message_id, reply_to, context_id, sig, text) VALUES (?, 1, 0, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(peer)
    .bind(message.is_auto)
    .bind(OutStatus::Queued as i64)
    .bind(message.timestamp.0)
    .bind(message.timestamp.0)
    .bind(&message.message_id)
    .bind(&message.reply_to)
    .bind(&message.context_id)
    .bind(&message.sig)
    .bind(&message.text)
    .execute(&mut *conn)
    .await?;
    if let Some(target) = &message.target {
        query("INSERT INTO settings (key, value) VALUES (? || ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value")
            .bind(TARGET_SETTING)
            .bind(&message.message_id)
            .bind(target)
            .execute(&mut *conn)
            .await?;
    }
    let seq = done.last_insert_rowid();
    if let Some(keep) = &message.keep {
        let kind = if message.is_auto { rows::Kind::Notice } else { rows::Kind::Message };
        rows::insert(conn, seq, peer, kind, message.timestamp, keep).await?;
        rows::bound(conn).await?;
    }
    Ok(seq)
}

async fn conclude(
    conn: &mut SqliteConnection,
    seq: i64,
    status: OutStatus,
    reply: Option<&Answered>,
) -> Result<(), StoreError> {
    rows::settle(conn, seq, status, None).await?;
    let Some(reply) = reply else { return Ok(()) };
    let row = query(
        "SELECT peer, address, message_id FROM messages JOIN peers ON id = peer \
         WHERE seq = ? AND status IS NOT NULL AND answer IS NULL",
    )
    .bind(seq)
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(()) };
    let (peer, address, asked): (i64, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if let Some(digest) = &reply.digest
        && !mark_handled(conn, &address, &reply.message_id, digest).await?
    {
        return Ok(());
    }
    let answer = insert_answer(conn, peer, &asked, reply).await?;
    if reply.is_verified {
        query("UPDATE contacts SET last_seen = max(ifnull(last_seen, 0), ?) WHERE peer = ?")
            .bind(reply.received.0)
            .bind(peer)
            .execute(&mut *conn)
            .await?;
    }
    query("UPDATE messages SET answer = ? WHERE seq = ?").bind(answer).bind(seq).execute(conn).await?;
    Ok(())
}

async fn insert_answer(
    conn: &mut SqliteConnection,
    peer: i64,
    asked: &str,
    reply: &Answered,
) -> Result<i64, StoreError> {
    let done = query(
        "INSERT INTO messages (peer, direction, is_unread, is_auto, is_verified, timestamp, received, message_id, \
         reply_to, context_id, sig, text, extra) VALUES (?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(peer)
    .bind(reply.is_auto)
    .bind(reply.is_verified)
    .bind(reply.timestamp.0)
    .bind(reply.received.0)
    .bind(&reply.message_id)
    .bind(asked)
    .bind(&reply.context_id)
    .bind(&reply.sig)
    .bind(&reply.text)
    .bind(&reply.extra)
    .execute(conn)
    .await?;
    Ok(done.last_insert_rowid())
}
