//! What is in the outbox, sent again: by `serve` when it is due, by the owner's word at once.
//!
//! Messages to one peer go one after the other, in the order in which they were written, and stop at the first that does
//! not get through: whoever is not there is not asked again for each. Different peers are side by side.
use std::{collections::BTreeMap, time::Duration};

use muretai_protocol::{
    Did, UnixSeconds,
    json::{self, Object, Value},
    rpc::Code,
};
use muretai_store::{
    StoreError,
    contacts::Coordinates,
    messages::{MessageRow, OutStatus},
    outbox::OutboxRow,
};
use muretai_transports::{TransportError, TransportName, guard::Policy};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::Instant,
};

use crate::{
    Agent,
    agent::now,
    send::{
        ResolvedPeer, SendError, SendRequest, Sent, backoff, delivery::Delivery, resend::other_did, resolve::Recipient,
    },
};

/// Rows that are taken at once.
const BATCH: u32 = 64;
/// Peers that are written to side by side.
const MAX_PEERS: usize = 8;
/// How long taken rows belong to whoever took them.
const LEASE_SECS: i64 = 300;
/// For one message that nobody waits for.
const TIMEOUT: Duration = Duration::from_secs(20);

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
    /// As it is now; of one that has left the outbox, as it was in its last attempt.
    pub row: OutboxRow,
    /// Sent, or why not; [`SendError::NotTried`] when an earlier one did not reach the same peer.
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

/// How a row is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) timeout: Duration,
    pub(super) retries: u32,
    pub(super) allow_private: bool,
    /// Somebody waits for the answer.
    pub(super) is_awaited: bool,
    /// Whoever asked has taken the rows already.
    pub(super) are_taken: bool,
}

impl How {
    fn in_background() -> How {
        How { timeout: TIMEOUT, retries: 0, allow_private: false, is_awaited: false, are_taken: true }
    }

    pub(super) fn by_hand(allow_private: bool) -> How {
        How { timeout: TIMEOUT, retries: 1, allow_private, is_awaited: true, are_taken: true }
    }

    /// Until when a row belongs to whoever sends it so.
    pub(super) fn lease(&self) -> UnixSeconds {
        let timeout = i64::try_from(self.timeout.as_secs()).unwrap_or(i64::MAX).min(backoff::LIFE_SECS);
        UnixSeconds(now().0 + timeout + LEASE_SECS)
    }
}

impl Agent {
    /// Rung whenever this process writes a message into the outbox, or makes one due.
    pub fn outbox_written(&self) -> &Notify {
        &self.inner.outbox_written
    }

    /// Sends what is due in the outbox, and says how many messages reached their peer or a relay. Fails for nobody: what
    /// was not sent is tried later. Dropping the future leaves the rest to a later run.
    pub async fn run_outbox(&self) -> u32 {
        let mut sent = 0;
        loop {
            let lease = UnixSeconds(now().0 + LEASE_SECS);
            let rows = match self.store().take_outbox(now(), lease, BATCH).await {
                Ok(rows) if rows.is_empty() => return sent,
                Ok(rows) => rows,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the outbox cannot be read");
                    return sent;
                }
            };
            let count = |outcome: FlushOutcome| sent += u32::from(outcome.result.is_ok());
            self.send_rows(rows, How::in_background(), count).await;
        }
    }

    /// Sends what is queued at once, due or not, and tells `progress` each outcome.
    ///
    /// # Errors
    /// An id that is not in the outbox, or lies at a relay; the store.
    pub async fn flush_outbox(
        &self,
        request: &FlushRequest,
        progress: &(dyn Fn(&FlushOutcome) + Send + Sync),
    ) -> Result<Vec<FlushOutcome>, SendError> {
        let how = How { timeout: request.timeout, ..How::by_hand(request.allow_private) };
        let rows = match &request.message_id {
            Some(id) => vec![self.take_named(id.trim(), &how).await?],
            None => self.store().outbox(true).await?.into_iter().filter(|row| row.at_relay.is_none()).collect(),
        };
        let is_one = request.message_id.is_some();
        let how = How { is_awaited: is_one, are_taken: is_one, ..how };
        let mut outcomes = Vec::with_capacity(rows.len());
        let note = |outcome| {
            progress(&outcome);
            outcomes.push(outcome);
        };
        self.send_rows(rows, how, note).await;
        outcomes.sort_by_key(|outcome| outcome.row.seq);
        Ok(outcomes)
    }

    async fn take_named(&self, message_id: &str, how: &How) -> Result<OutboxRow, SendError> {
        if let Some(row) = self.store().take_outgoing(message_id, how.lease()).await? {
            return Ok(row);
        }
        match self.store().outbox_row(message_id).await? {
            Some(_) => {
                let message_id = message_id.to_owned();
                Err(SendError::NotResendable { message_id, why: "it lies at a relay" })
            }
            None => Err(SendError::NoSuchMessage(message_id.to_owned())),
        }
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

    /// Sends rows, peer by peer, and tells each outcome.
    async fn send_rows(&self, rows: Vec<OutboxRow>, how: How, mut note: impl FnMut(FlushOutcome)) {
        let mut by_peer: BTreeMap<String, Vec<OutboxRow>> = BTreeMap::new();
        for row in rows {
            by_peer.entry(row.peer.clone()).or_default().push(row);
        }
        let (outcomes, mut noted) = mpsc::channel(MAX_PEERS);
        let mut waiting = by_peer.into_values();
        let mut at_work = JoinSet::new();
        loop {
            while at_work.len() < MAX_PEERS
                && let Some(rows) = waiting.next()
            {
                let (agent, outcomes) = (self.clone(), outcomes.clone());
                at_work.spawn(async move { agent.send_to_one(rows, how, outcomes).await });
            }
            if at_work.is_empty() {
                break;
            }
            tokio::select! {
                Some(outcome) = noted.recv() => note(outcome),
                Some(done) = at_work.join_next() => if let Err(error) = done {
                    tracing::error!(%error, "sending messages of the outbox ended badly");
                },
            }
        }
        drop(outcomes);
        while let Some(outcome) = noted.recv().await {
            note(outcome);
        }
    }

    /// Sends rows to one peer, in order, until one does not get through; the others are put off as long as that one.
    async fn send_to_one(&self, rows: Vec<OutboxRow>, how: How, outcomes: mpsc::Sender<FlushOutcome>) {
        let mut rows = rows.into_iter();
        while let Some(row) = rows.next() {
            let taken = match self.still_due(row, &how).await {
                Ok(Some(row)) => row,
                Ok(None) => continue,
                Err(error) => return warn_of(&error),
            };
            let result = self.send_row(&taken, &how).await;
            let blocks_others = result.as_ref().is_err_and(|error| blocks_others(error, &taken));
            let is_kept = self.store().is_queued(taken.seq).await.unwrap_or(true);
            let (seq, peer) = (taken.seq, taken.peer.clone());
            let row = self.row_after(taken, 1).await;
            outcomes.send(FlushOutcome { row, result, is_kept }).await.ok();
            if blocks_others {
                return self.put_off(seq, &peer, rows.collect(), how, outcomes).await;
            }
        }
    }

    /// The others wait as long as the one that did not get through.
    async fn put_off(
        &self,
        seq: i64,
        peer: &str,
        rest: Vec<OutboxRow>,
        how: How,
        outcomes: mpsc::Sender<FlushOutcome>,
    ) {
        let taken: Vec<i64> = rest.iter().filter(|_| how.are_taken).map(|row| row.seq).collect();
        if let Err(error) = self.store().put_off_behind(seq, peer, &taken, now()).await {
            warn_of(&error);
        }
        for row in rest {
            let who = row.name.clone().unwrap_or_else(|| row.peer.clone());
            let result = Err(SendError::NotTried { who, message_id: row.message_id.clone() });
            let row = self.row_after(row, 0).await;
            outcomes.send(FlushOutcome { row, result, is_kept: true }).await.ok();
        }
    }

    /// What an attempt made of a row.
    async fn row_after(&self, row: OutboxRow, attempts: u32) -> OutboxRow {
        match self.store().outbox_row(&row.message_id).await {
            Ok(Some(now)) if now.seq == row.seq => now,
            _ => OutboxRow { attempts: row.attempts.saturating_add(attempts), last_error: None, ..row },
        }
    }

    /// The row, while it is nobody else's: it may have been settled or dropped while those before it were sent, or they
    /// may have taken so long that another process has it now.
    async fn still_due(&self, row: OutboxRow, how: &How) -> Result<Option<OutboxRow>, StoreError> {
        if !how.are_taken {
            return self.store().take_queued(row.seq, now(), how.lease()).await;
        }
        let left = row.due.0 - now().0;
        let is_ours = u64::try_from(left).is_ok_and(|left| left > how.timeout.as_secs());
        Ok((is_ours && self.store().is_queued(row.seq).await?).then_some(row))
    }

    /// Sends one row that was taken. Whatever comes of it is recorded.
    pub(super) async fn send_row(&self, row: &OutboxRow, how: &How) -> Result<Sent, SendError> {
        let deadline = Instant::now() + how.timeout;
        let request = SendRequest {
            target: row.peer.clone(),
            text: row.text.clone(),
            context_id: row.context_id.clone(),
            reply_to: row.reply_to.clone(),
            timeout: how.timeout,
            retries: how.retries,
            unverified: false,
            allow_private: how.allow_private || row.keep.allow_private,
            via: row.keep.via.as_deref().and_then(way_named),
        };
        let extra = extra_of(row);
        let delivery = match self.recipient_of(row, &request, deadline).await {
            Ok(peer) => Delivery::of_row(self, &request, extra, peer, deadline, row, how.is_awaited).await,
            Err(error) => Err(error),
        };
        match delivery {
            Ok(delivery) => delivery.run().await,
            Err(error) => {
                let next = backoff::next(now(), row.attempts, None);
                self.store().postpone_outgoing(row.seq, next, &backoff::words(&error)).await?;
                Err(error)
            }
        }
    }

    /// Whom a row is for: the contact as it is known now, or as the sender typed it, or the mailbox that it is a reply to.
    async fn recipient_of(
        &self,
        row: &OutboxRow,
        request: &SendRequest,
        deadline: Instant,
    ) -> Result<ResolvedPeer, SendError> {
        let did: Did = row.peer.parse().map_err(|_| StoreError::Damaged)?;
        let contact = self.store().contact(&did).await?;
        let fallback =
            Coordinates { relay: row.keep.relay.clone(), enc_pub: row.keep.enc_pub.clone(), ..Coordinates::default() };
        let is_near = |relay: &str| self.policy_for_named(relay, request.allow_private) == Policy::Owner;
        let mailbox = self.mailbox_at(&fallback, is_near).await?;
        if let Some(contact) = &contact
            && let Some(peer) = self.contact_at(contact, request.allow_private).await?
        {
            return Ok(ResolvedPeer { mailbox: peer.mailbox.clone().or(mailbox), ..peer });
        }
        if let Some(target) = self.store().target_of(&row.message_id).await? {
            let request = SendRequest { target, ..request.clone() };
            return match self.resolve_in_time(&request, deadline).await? {
                Recipient::Peer(peer) if peer.did == did => Ok(peer),
                Recipient::Peer(peer) => Err(other_did(request.target, peer.did.to_string(), did)),
                Recipient::Foreign { url, .. } => Err(other_did(url, "an agent without a DID".to_owned(), did)),
            };
        }
        let name = contact.map(|contact| contact.name);
        if mailbox.is_none() {
            let is_contact = name.is_some();
            return Err(SendError::NoAddress { who: name.unwrap_or_else(|| did.to_string()), is_contact });
        }
        let (url, policy) = (String::new(), Policy::Peer);
        Ok(ResolvedPeer { did, name, is_blocked: false, url, policy, mailbox, is_stored: true })
    }
}

/// Whether the next message to the same peer would fare no better.
fn blocks_others(error: &SendError, row: &OutboxRow) -> bool {
    let is_about_the_way = match error {
        SendError::Refused { code, .. } => *code == Code::RateLimited.number(),
        SendError::ReplyNotVerified { .. } => false,
        SendError::Transport { source: TransportError::RelayRefused { status: 413, .. }, .. } => false,
        _ => true,
    };
    is_about_the_way && row.keep.via.is_none()
}

/// The unsigned metadata of every attempt.
fn extra_of(row: &OutboxRow) -> Object {
    let kept = row.keep.extra.as_deref().and_then(|extra| json::parse(extra.as_bytes()).ok());
    let mut extra = kept.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(reply_to) = &row.reply_to {
        extra.insert("replyTo".to_owned(), reply_to.as_str().into());
    }
    if row.is_auto {
        extra.insert("auto".to_owned(), true.into());
    }
    extra
}

fn way_named(name: &str) -> Option<TransportName> {
    [TransportName::Http, TransportName::Relay].into_iter().find(|way| way.to_string() == name)
}

fn warn_of(error: &StoreError) {
    tracing::warn!(error = error as &dyn std::error::Error, "a message of the outbox cannot be taken");
}

#[cfg(test)]
mod tests;
