//! One message on its way to one peer, attempt by attempt.
use std::time::Duration;

use bytes::Bytes;
use muretai_protocol::{
    Did, MessageId, UnixSeconds,
    a2a::Version,
    json::{Object, Value},
    message::{self, Asked, Draft, Message, Role, Verified},
    rpc::{self, Code},
    urls,
};
use muretai_store::{
    StoreError,
    messages::{Answered, MessageRow, OutStatus, Outgoing},
};
use muretai_transports::{TransportError, TransportName, http::Fetched};
use tokio::time::Instant;

use crate::{
    Agent,
    agent::{now, random},
    send::{
        SendError, SendRequest, Sent, SentReply, SentStatus,
        answer::{self, PeerRefusal, Response},
        commands,
        outbox::{VERSION_HEADER, refused},
        peer::{CardFetchError, FetchedCard},
        presented::{self, Presented},
        resolve::ResolvedPeer,
    },
};

/// Seconds after which a signature is not sent again (9.7): the receiver's window is 300 s.
const SIGNATURE_LIFE_SECS: i64 = 250;
/// The first wait between attempts; it doubles, with up to as much again at random.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

/// A message on its way to one peer.
pub(super) struct Delivery<'a> {
    agent: &'a Agent,
    request: &'a SendRequest,
    /// Unsigned metadata of every attempt.
    extra: Object,
    /// The introduction among it.
    presented: Option<Presented>,
    peer: ResolvedPeer,
    deadline: Instant,
    message_id: MessageId,
    seq: i64,
    signed: Value,
    signed_at: UnixSeconds,
    version: Version,
    attempts: u32,
    /// Copies of it may be on their way from earlier.
    is_again: bool,
    /// Every attempt so far failed before a byte of the request left.
    cannot_have_arrived: bool,
}

/// How one attempt ended, when it did not end the delivery.
enum Setback {
    /// The same again may work.
    TryAgain(SendError),
    /// The peer speaks the other version.
    OtherMethod(SendError),
    /// Somebody else answers there; the peer may have moved.
    NotOurs(SendError),
    /// Nothing helps.
    GiveUp(SendError),
}

impl<'a> Delivery<'a> {
    /// Writes a new message to the store.
    pub(super) async fn queue(
        agent: &'a Agent,
        request: &'a SendRequest,
        extra: Object,
        peer: ResolvedPeer,
        deadline: Instant,
        message_id: MessageId,
    ) -> Result<Delivery<'a>, SendError> {
        let (extra, presented) = presented::attach(agent, &peer.did, extra).await?;
        let mut delivery = Delivery::new(agent, request, extra, peer, deadline, message_id);
        delivery.presented = presented;
        let outgoing = Outgoing {
            peer: delivery.peer.did.to_string(),
            message_id: delivery.id(),
            context_id: request.context_id.clone(),
            reply_to: request.reply_to.clone(),
            text: request.text.clone(),
            timestamp: delivery.signed_at,
            sig: delivery.sig().map(str::to_owned),
            target: delivery.peer.name.is_none().then(|| request.target.clone()),
            is_auto: false,
            keep: None,
        };
        delivery.seq = agent.store().queue_outgoing(&outgoing).await?;
        Ok(delivery)
    }

    /// Takes up a message that is in the store and was not delivered, under its own id; `None` when it was, meanwhile.
    pub(super) async fn resume(
        agent: &'a Agent,
        request: &'a SendRequest,
        extra: Object,
        peer: ResolvedPeer,
        deadline: Instant,
        stored: &MessageRow,
    ) -> Result<Option<Delivery<'a>>, SendError> {
        let Some(message_id) = MessageId::new(&stored.message_id) else { return Err(StoreError::Damaged.into()) };
        let (extra, presented) = presented::attach(agent, &peer.did, extra).await?;
        let delivery = Delivery::new(agent, request, extra, peer, deadline, message_id);
        let is_queued = agent.store().requeue_outgoing(stored.seq, delivery.signed_at, delivery.sig(), None).await?;
        Ok(is_queued.then(|| Delivery {
            seq: stored.seq,
            presented,
            is_again: true,
            // What was queued may have arrived earlier, whatever becomes of it now.
            cannot_have_arrived: stored.status == Some(OutStatus::Failed),
            ..delivery
        }))
    }

    fn new(
        agent: &'a Agent,
        request: &'a SendRequest,
        extra: Object,
        peer: ResolvedPeer,
        deadline: Instant,
        message_id: MessageId,
    ) -> Delivery<'a> {
        let signed_at = now();
        let signed = sign(agent, request, &extra, &peer.did, &message_id, signed_at);
        Delivery {
            agent,
            request,
            extra,
            peer,
            deadline,
            message_id,
            seq: 0,
            signed,
            signed_at,
            presented: None,
            version: Version::V0_3,
            attempts: 0,
            is_again: false,
            cannot_have_arrived: true,
        }
    }

    fn sig(&self) -> Option<&str> {
        self.signed.member("metadata").and_then(|meta| meta.member("sig")).and_then(Value::as_str)
    }

    /// Sends it until somebody says something about it, or nothing helps.
    pub(super) async fn run(mut self) -> Result<Sent, SendError> {
        let mut retries_left = self.request.retries;
        let mut may_refetch = self.peer.is_stored;
        loop {
            let error = match self.attempt().await {
                Ok(sent) => return Ok(sent),
                Err(Setback::OtherMethod(_)) if self.version == Version::V0_3 => {
                    self.version = self.version.other();
                    continue;
                }
                Err(Setback::NotOurs(_)) if std::mem::take(&mut may_refetch) && self.has_moved().await? => continue,
                Err(Setback::TryAgain(error)) if retries_left > 0 => {
                    retries_left -= 1;
                    if self.back_off().await { continue } else { error }
                }
                Err(
                    Setback::TryAgain(error)
                    | Setback::OtherMethod(error)
                    | Setback::NotOurs(error)
                    | Setback::GiveUp(error),
                ) => error,
            };
            self.record_failure(&error).await?;
            return Err(error);
        }
    }

    /// One POST, and what its answer means.
    async fn attempt(&mut self) -> Result<Sent, Setback> {
        self.attempts += 1;
        let response = self.post().await?;
        match answer::sort(&response, self.message_id.as_str()) {
            Response::Result(result) => self.accept(result).await,
            Response::Refusal(refusal) if refusal.is_duplicate() => self.conclude(SentStatus::Duplicate, None).await,
            Response::Refusal(refusal) => Err(self.refused(refusal)),
            Response::Status { status, retry_after } => {
                let error = SendError::HttpStatus { url: self.url(), status, retry_after, message_id: self.id() };
                let is_elsewhere = matches!(status, 300..=399 | 404 | 405 | 410);
                Err(if is_elsewhere { Setback::NotOurs(error) } else { Setback::GiveUp(error) })
            }
            Response::NotAnAnswer(what) => {
                Err(Setback::NotOurs(SendError::NotAnAnswer { url: self.url(), what, message_id: self.id() }))
            }
        }
    }

    async fn post(&mut self) -> Result<Fetched, Setback> {
        if now().0 - self.signed_at.0 > SIGNATURE_LIFE_SECS {
            self.signed_at = now();
            self.signed = sign(self.agent, self.request, &self.extra, &self.peer.did, &self.message_id, self.signed_at);
        }
        let message = match self.version {
            Version::V0_3 => self.signed.clone(),
            Version::V1_0 => to_v1(&self.signed),
        };
        let mut params = Object::new();
        params.insert("message".to_owned(), message);
        let body = rpc::request(self.message_id.as_str(), self.version.send_method(), &params.into());
        let headers: Vec<_> = self.version.header().map(|v| (VERSION_HEADER, v.to_owned())).into_iter().collect();
        let url = self.url();
        let call = self.agent.inner.http.post(&url, Bytes::from(body), &headers, self.peer.policy);
        match tokio::time::timeout_at(self.deadline, call).await {
            Ok(Ok(fetched)) => {
                self.cannot_have_arrived = false;
                Ok(fetched)
            }
            Ok(Err(source)) => Err(self.not_through(source)),
            Err(_) => {
                self.cannot_have_arrived = false;
                let after = self.request.timeout;
                Err(Setback::GiveUp(SendError::TimedOut { url, after, message_id: self.id() }))
            }
        }
    }

    fn not_through(&mut self, source: TransportError) -> Setback {
        self.cannot_have_arrived &= source.is_unreachable();
        let may_pass = matches!(
            source,
            TransportError::Unresolvable { .. }
                | TransportError::Connect { .. }
                | TransportError::ConnectTimeout { .. }
                | TransportError::Closed { .. }
        );
        let is_elsewhere = matches!(source, TransportError::RedirectRefused { .. } | TransportError::NotHttp { .. });
        let error = SendError::Transport { url: self.url(), attempts: self.attempts, message_id: self.id(), source };
        match (may_pass, is_elsewhere) {
            (true, _) => Setback::TryAgain(error),
            (_, true) => Setback::NotOurs(error),
            _ => Setback::GiveUp(error),
        }
    }

    /// Verifies the reply before anything of it is kept or shown.
    async fn accept(&self, result: Value) -> Result<Sent, Setback> {
        let asked = Asked {
            addressed: &self.peer.did,
            me: self.agent.did(),
            message_id: &self.message_id,
            context_id: self.request.context_id.as_deref(),
        };
        let verified = answer::reply(result, self.version, &asked, now()).map_err(|source| {
            let (url, message_id) = (self.url(), self.id());
            Setback::GiveUp(SendError::ReplyNotVerified { url, message_id, source: source.into() })
        })?;
        let reply = sent_reply(&verified);
        let status = match reply.status.as_deref() {
            Some("held") => SentStatus::Held,
            None if !(reply.is_auto && reply.text.is_empty()) => SentStatus::Answered,
            _ => SentStatus::Accepted,
        };
        if let (Some(presented), true) = (&self.presented, status != SentStatus::Held) {
            presented.worked(self.agent).await;
        }
        self.conclude(status, Some((verified, reply))).await
    }

    async fn conclude(&self, status: SentStatus, reply: Option<(Verified, SentReply)>) -> Result<Sent, Setback> {
        let answered = reply.as_ref().map(|(verified, reply)| answered(verified, reply));
        let recorded = self.agent.store().record_outcome(self.seq, OutStatus::Delivered, answered.as_ref()).await;
        recorded.map_err(|error| Setback::GiveUp(error.into()))?;
        Ok(Sent {
            message_id: self.id(),
            to: Some(self.peer.did.clone()),
            to_name: self.peer.name.clone(),
            is_blocked: self.peer.is_blocked,
            via: TransportName::Http,
            url: self.url(),
            context_id: self.request.context_id.clone(),
            status,
            reply: reply.map(|(_, reply)| reply),
            attempts: self.attempts,
        })
    }

    fn refused(&self, refusal: PeerRefusal) -> Setback {
        let code = refusal.code;
        let error = refused(refusal, self.id());
        // On a later attempt "seen, not stored" is our own first copy, still being answered.
        if code == Code::ReplayOrStale.number() && (self.attempts > 1 || self.is_again) {
            Setback::TryAgain(error)
        } else if code == Code::MethodNotFound.number() {
            Setback::OtherMethod(error)
        } else {
            Setback::GiveUp(error)
        }
    }

    /// Fetches the card again from where the peer was; says whether it now names another address.
    async fn has_moved(&mut self) -> Result<bool, SendError> {
        let fetch = self.agent.fetch_card_under(&self.peer.url, Some(&self.peer.did), self.peer.policy);
        match tokio::time::timeout_at(self.deadline, fetch).await {
            Ok(Ok(FetchedCard::Peer(card))) => {
                let fresh = self.agent.met(*card).await?;
                let has_moved = fresh.url != self.peer.url;
                self.peer = ResolvedPeer { name: self.peer.name.take(), is_blocked: self.peer.is_blocked, ..fresh };
                Ok(has_moved)
            }
            // That somebody else lives there now says more than the answer that made us look.
            Ok(Err(error @ CardFetchError::OtherDid { .. })) => Err(error.into()),
            _ => Ok(false),
        }
    }

    /// Waits before the next attempt; `false` when there is no time for one.
    async fn back_off(&self) -> bool {
        let doubled = FIRST_BACKOFF * 2_u32.saturating_pow(self.attempts.min(16) - 1);
        let base = doubled.min(LONGEST_BACKOFF);
        let wait = base + base.mul_f64(f64::from(random::<1>()[0]) / 256.0);
        if Instant::now() + wait >= self.deadline {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }

    async fn record_failure(&self, error: &SendError) -> Result<(), SendError> {
        if let (Some(presented), SendError::Refused { code, .. }) = (&self.presented, error) {
            presented.refused(self.agent, *code).await;
        }
        let status = match error {
            SendError::Refused { code, .. } if is_passing(*code) => return Ok(()),
            SendError::Refused { .. } => OutStatus::Refused,
            _ if self.cannot_have_arrived => OutStatus::Failed,
            _ => return Ok(()),
        };
        Ok(self.agent.store().record_outcome(self.seq, status, None).await?)
    }

    fn url(&self) -> String {
        urls::post_address(&self.peer.url)
    }

    pub(super) fn id(&self) -> String {
        self.message_id.as_str().to_owned()
    }
}

/// Refusals that a later attempt may not meet: the message stays queued.
fn is_passing(code: i64) -> bool {
    code == Code::Internal.number() || code == Code::RateLimited.number()
}

fn sign(
    agent: &Agent,
    request: &SendRequest,
    extra: &Object,
    to: &Did,
    message_id: &MessageId,
    timestamp: UnixSeconds,
) -> Value {
    let draft = Draft {
        role: Role::User,
        to: to.as_str(),
        message_id,
        context_id: request.context_id.as_deref(),
        text: &request.text,
        timestamp,
        extra: extra.clone(),
    };
    message::sign(agent.key(), &draft)
}

/// The same signed message as A2A 1.0 spells it (6.7): none of the six signed values changes.
fn to_v1(message: &Value) -> Value {
    let mut members = message.as_object().cloned().unwrap_or_default();
    members.remove("kind");
    members.insert("role".to_owned(), "ROLE_USER".into());
    if let Some(Value::Array(parts)) = members.get_mut("parts") {
        for part in parts {
            if let Value::Object(part) = part {
                part.remove("kind");
            }
        }
    }
    members.into()
}

fn sent_reply(verified: &Verified) -> SentReply {
    let message = verified.message();
    SentReply {
        message_id: message.message_id.as_str().to_owned(),
        text: message.text.clone(),
        from: Some(verified.from().clone()),
        timestamp: Some(verified.timestamp()),
        is_verified: true,
        is_auto: message.meta("auto").and_then(Value::as_bool) == Some(true),
        status: message.meta("status").and_then(Value::as_str).map(str::to_owned),
        context_id: message.context_id.clone(),
        commands: message.meta("commands").map(commands::read).unwrap_or_default(),
    }
}

fn answered(verified: &Verified, reply: &SentReply) -> Answered {
    Answered {
        message_id: reply.message_id.clone(),
        context_id: reply.context_id.clone(),
        text: reply.text.clone(),
        timestamp: verified.timestamp(),
        received: now(),
        sig: Some(verified.sig().to_owned()),
        is_verified: true,
        is_auto: reply.is_auto,
        digest: Some(verified.content_digest()),
        extra: extra_of(verified.message()),
    }
}

/// What a reply carried beyond its envelope: unsigned metadata and parts that are no text, kept as they came.
fn extra_of(message: &Message) -> Option<String> {
    let is_known = |key: &str, value: &Value| {
        matches!(
            (key, value),
            ("from" | "to" | "sig" | "timestamp", _)
                | (_, Value::Null)
                | ("replyTo", Value::String(_))
                | ("auto", Value::Bool(_))
        )
    };
    let mut metadata = message.metadata.clone();
    metadata.retain(|key, value| !is_known(key, value));
    let mut extra = Object::new();
    if !metadata.is_empty() {
        extra.insert("metadata".to_owned(), metadata.into());
    }
    if !message.other_parts.is_empty() {
        extra.insert("parts".to_owned(), message.other_parts.clone().into());
    }
    (!extra.is_empty()).then(|| Value::Object(extra).to_json())
}
