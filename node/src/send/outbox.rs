//! One message out: persisted before the first attempt, sent with one id however often, its reply verified.
//!
//! Sections 3.5 and 9.7. A request that may have arrived is sent again with the same message id, which the receiver
//! deduplicates; after 250 s with a fresh timestamp and signature. What became of the message is in the store: `Queued`,
//! and in the outbox, until somebody said something about it, and `AtRelay` while a relay alone has it.
use std::{sync::OnceLock, time::Duration};

use muretai_protocol::{Did, MessageId, UnixSeconds, json::Object, limits::MAX_TEXT_BYTES};
use muretai_store::messages::OutStatus;
use muretai_transports::{TransportError, TransportName};
use tokio::time::Instant;

use crate::{
    Agent,
    agent::random,
    send::{
        SendError,
        answer::PeerRefusal,
        delivery::Delivery,
        foreign,
        peer::CardFetchError,
        resolve::{Recipient, ResolvedPeer},
        target::{self, Target},
    },
};

/// Bytes of a context id or of the id of a message that is replied to.
pub(crate) const MAX_ID_BYTES: usize = 1_024;
/// Says which A2A version a request speaks (6.7).
pub(crate) const VERSION_HEADER: &str = "A2A-Version";

/// What to send.
#[derive(Debug, Clone)]
pub struct SendRequest {
    /// TARGET as typed.
    pub target: String,
    /// What to say, 1 to `MAX_TEXT_BYTES` bytes.
    pub text: String,
    /// The conversation, echoed by the peer.
    pub context_id: Option<String>,
    /// The id of the message that this one answers.
    pub reply_to: Option<String>,
    /// For everything together.
    pub timeout: Duration,
    /// Connection failures are tried again this often, with the same message id.
    pub retries: u32,
    /// Speak to an A2A agent without a DID.
    pub unverified: bool,
    /// Dial loopback and private addresses that a peer named.
    pub allow_private: bool,
    /// The one way that it may go; `None` picks the best and falls back on the others.
    pub via: Option<TransportName>,
}

/// What became of it.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Its id, the same in every attempt.
    pub message_id: String,
    /// Whom it reached; `None` for an agent without a DID.
    pub to: Option<Did>,
    /// The contact's local name.
    pub to_name: Option<String>,
    /// The owner blocked that contact, which therefore cannot write by itself.
    pub is_blocked: bool,
    /// The way that it went.
    pub via: TransportName,
    /// What was dialled: the peer's address, or the relay's.
    pub url: String,
    /// The conversation.
    pub context_id: Option<String>,
    /// What the peer said about it.
    pub status: SentStatus,
    /// The answer, when there is one.
    pub reply: Option<SentReply>,
    /// How often it was sent.
    pub attempts: u32,
}

/// Delivered, with or without a reply in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentStatus {
    /// Answered.
    Answered,
    /// The peer has it and will answer later, or not (`auto`, `status`).
    Accepted,
    /// The peer has it and shows it to nobody before its owner has decided about this agent (`status:"held"`).
    Held,
    /// The peer said that it had it already (`duplicate:true`): delivered by an earlier attempt when there was one,
    /// and otherwise as it says.
    Duplicate,
    /// A relay keeps it; the peer has not said anything about it yet.
    AtRelay,
}

/// The reply. Its text and ids are the peer's words: safe to store, not to show raw.
#[derive(Debug, Clone)]
pub struct SentReply {
    /// Its id.
    pub message_id: String,
    /// What the peer says.
    pub text: String,
    /// Who signed it; `None` for an agent without a DID.
    pub from: Option<Did>,
    /// The signed time.
    pub timestamp: Option<UnixSeconds>,
    /// Every check of 3.5 passed.
    pub is_verified: bool,
    /// Made by a machine without thought, such as an acknowledgement.
    pub is_auto: bool,
    /// `accepted`, or another word about an answer that is not there.
    pub status: Option<String>,
    /// The conversation.
    pub context_id: Option<String>,
    /// What the peer offers to choose from, safe to show on one line each.
    pub commands: Vec<ReplyCommand>,
}

/// Something that the peer offers to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyCommand {
    /// What is sent: the first word of a message.
    pub keyword: String,
    /// What it does, in the peer's words.
    pub label: String,
    /// What follows the keyword, in the peer's words.
    pub params: Option<String>,
}

/// A machine's notice that is owed to a peer: it may have been sent before.
#[derive(Debug)]
pub(crate) struct OwedNotice {
    /// Its id in every attempt.
    pub(crate) message_id: MessageId,
    /// The word that says what it is about.
    pub(crate) status: &'static str,
    /// Further unsigned metadata.
    pub(crate) extra: Object,
}

impl Agent {
    /// Sends one message. Cancelling leaves it `Queued` in the outbox, and so does every failure after which it may be
    /// tried again.
    ///
    /// # Errors
    /// See [`SendError`]. Errors in the request and in the target come before anything is stored or dialled.
    pub async fn send(&self, request: &SendRequest) -> Result<Sent, SendError> {
        self.send_watched(request, &OnceLock::new()).await
    }

    /// The same, and says in `stored` under which id the message is in the store, from the moment on at which it may
    /// leave: whoever cancels can tell whether the peer may have it.
    pub async fn send_watched(&self, request: &SendRequest, stored: &OnceLock<String>) -> Result<Sent, SendError> {
        self.send_with(request, extra_for(request), stored).await
    }

    /// Sends a machine's notice: `auto`, with a word that says what it is about. Its receiver stores it and does not
    /// take it for conversation.
    pub(crate) async fn send_notice(&self, request: &SendRequest, status: &str) -> Result<Sent, SendError> {
        let extra = notice(extra_for(request), status);
        self.send_with(request, extra, &OnceLock::new()).await
    }

    /// Sends a notice that an errand stands for, under the id that it has: what an earlier attempt delivered is not
    /// sent again, and what an earlier attempt wrote is not written again.
    pub(crate) async fn send_owed(
        &self,
        peer: ResolvedPeer,
        request: &SendRequest,
        owed: OwedNotice,
    ) -> Result<(), SendError> {
        check(request)?;
        let deadline = Instant::now() + request.timeout;
        let extra = notice(owed.extra, owed.status);
        let delivery = match self.store().outgoing(owed.message_id.as_str()).await? {
            Some(stored) if stored.status == Some(OutStatus::Delivered) => return Ok(()),
            Some(stored) => Delivery::resume(self, request, extra, peer, deadline, &stored, false).await?,
            // The errand is what tries it again.
            None => Some(Delivery::queue(self, request, extra, peer, deadline, owed.message_id, false).await?),
        };
        match delivery {
            Some(delivery) => delivery.run().await.map(|_| ()),
            None => Ok(()),
        }
    }

    async fn send_with(
        &self,
        request: &SendRequest,
        extra: Object,
        stored: &OnceLock<String>,
    ) -> Result<Sent, SendError> {
        check(request)?;
        self.refuse_self(&request.target).await?;
        let deadline = Instant::now() + request.timeout;
        match self.resolve_in_time(request, deadline).await? {
            Recipient::Peer(peer) if peer.did == *self.did() => Err(SendError::Yourself),
            Recipient::Peer(peer) => {
                let peer = self.with_address(peer, request).await?;
                let message_id = MessageId::from_random(random());
                let delivery = Delivery::queue(self, request, extra, peer, deadline, message_id, true).await?;
                stored.set(delivery.id()).ok();
                delivery.run().await
            }
            Recipient::Foreign { url, .. } if !request.unverified => Err(SendError::Foreign { url }),
            Recipient::Foreign { card, url } => foreign::send(self, request, &card, &url, deadline, None, stored).await,
        }
    }

    /// Whoever is known by a mailbox alone may have published an address, which is the shorter way.
    async fn with_address(&self, peer: ResolvedPeer, request: &SendRequest) -> Result<ResolvedPeer, SendError> {
        if request.via == Some(TransportName::Relay) {
            return Ok(peer);
        }
        let is_wanted = request.via == Some(TransportName::Http);
        Ok(self.find_address(peer, request.allow_private, is_wanted, request.timeout).await?)
    }

    pub(super) async fn resolve_in_time(
        &self,
        request: &SendRequest,
        deadline: Instant,
    ) -> Result<Recipient, SendError> {
        let resolve = self.resolve(&request.target, request.allow_private);
        match tokio::time::timeout_at(deadline, resolve).await {
            Ok(recipient) => recipient,
            Err(_) => {
                let url = request.target.trim().to_owned();
                let source = TransportError::Timeout { url: url.clone(), limit: request.timeout };
                Err(CardFetchError::Transport { url, source }.into())
            }
        }
    }

    /// Finds out without a request that the owner means this agent.
    pub(crate) async fn refuse_self(&self, target: &str) -> Result<(), SendError> {
        let is_self = match target::parse(target) {
            Ok(Target::Did(did)) => did == *self.did(),
            Ok(Target::Name(name)) => name == self.name() && self.store().contact_named(&name).await?.is_none(),
            _ => false,
        };
        if is_self { Err(SendError::Yourself) } else { Ok(()) }
    }
}

/// The unsigned metadata that a request asks for.
pub(super) fn extra_for(request: &SendRequest) -> Object {
    let mut extra = Object::new();
    if let Some(reply_to) = &request.reply_to {
        extra.insert("replyTo".to_owned(), reply_to.as_str().into());
    }
    extra
}

/// Metadata that keeps a message out of the conversation.
pub(super) fn notice(mut extra: Object, status: &str) -> Object {
    extra.insert("auto".to_owned(), true.into());
    extra.insert("status".to_owned(), status.into());
    extra
}

/// A peer's refusal as an error.
pub(crate) fn refused(refusal: PeerRefusal, message_id: String) -> SendError {
    let PeerRefusal { code, message, detail, data } = refusal;
    SendError::Refused { code, message, detail, data, message_id }
}

/// Everything about a request that can be wrong by itself.
fn check(request: &SendRequest) -> Result<(), SendError> {
    let text = &request.text;
    if text.is_empty() {
        return Err(SendError::EmptyText);
    }
    if text.len() > MAX_TEXT_BYTES {
        return Err(SendError::TextTooLong { bytes: text.len() });
    }
    if let Some(at) = text.find('\0') {
        return Err(SendError::NulInText { at });
    }
    for (what, id) in [("context id", &request.context_id), ("id of the answered message", &request.reply_to)] {
        if let Some(id) = id.as_ref().filter(|id| id.trim().is_empty() || id.len() > MAX_ID_BYTES) {
            return Err(SendError::BadId { what, bytes: id.len() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
