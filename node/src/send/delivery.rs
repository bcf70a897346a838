//! One message on its way to one peer: the ways that it tries, and what becomes of it (9.7).
use std::time::Duration;

use muretai_protocol::{
    MessageId, UnixSeconds,
    a2a::Version,
    json::{Object, Value},
    message::{Asked, Role, Verified},
    rpc::Code,
    urls,
};
use muretai_store::{
    StoreError,
    messages::{MessageRow, OutStatus, Outgoing},
    outbox::{Keep, OutboxRow},
};
use muretai_transports::{TransportError, TransportName};
use tokio::time::Instant;

use crate::{
    Agent,
    agent::{now, random},
    send::{
        SendError, SendRequest, Sent, SentReply, SentStatus,
        answer::{self, PeerRefusal, Response},
        backoff,
        outbox::refused,
        presented::{self, Presented},
        resolve::ResolvedPeer,
    },
};

mod direct;
mod relayed;
mod wording;

/// Seconds after which a signature is not sent again (9.7): the receiver's window is 300 s.
const SIGNATURE_LIFE_SECS: i64 = 250;
/// What is left to a relay of the time for everything, when there is one.
const RELAY_RESERVE: Duration = Duration::from_secs(5);
/// Beyond its timeout, a sender has a row of the outbox for itself for so long: what it records comes after.
const LEASE_RESERVE_SECS: i64 = 30;
/// The first wait between attempts; it doubles, with up to as much again at random.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A message on its way to one peer.
pub(super) struct Delivery<'a> {
    agent: &'a Agent,
    request: &'a SendRequest,
    /// Unsigned metadata of every attempt.
    extra: Object,
    /// The introduction among it.
    presented: Option<Presented>,
    peer: ResolvedPeer,
    role: Role,
    started: Instant,
    deadline: Instant,
    /// Where it is being sent, and how long that may take.
    way: Way,
    message_id: MessageId,
    seq: i64,
    signed: Value,
    signed_at: UnixSeconds,
    version: Version,
    attempts: u32,
    /// Somebody waits for the answer.
    is_awaited: bool,
    /// It is no reply and no notice: its peer has something to say about it.
    has_answer: bool,
    /// Copies of it may be on their way from earlier.
    is_again: bool,
    /// It is in the outbox, and so tried again when this fails.
    is_kept: bool,
    /// How often it failed before.
    failures: u32,
    /// Every attempt so far failed before a byte of the request left.
    cannot_have_arrived: bool,
}

/// The way that is being tried.
struct Way {
    name: TransportName,
    deadline: Instant,
    limit: Duration,
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

impl Setback {
    fn into_error(self) -> SendError {
        match self {
            Setback::TryAgain(error)
            | Setback::OtherMethod(error)
            | Setback::NotOurs(error)
            | Setback::GiveUp(error) => error,
        }
    }
}

impl<'a> Delivery<'a> {
    /// Writes a new message to the store, and into the outbox unless whoever sends it tries again by itself.
    pub(super) async fn queue(
        agent: &'a Agent,
        request: &'a SendRequest,
        extra: Object,
        peer: ResolvedPeer,
        deadline: Instant,
        message_id: MessageId,
        is_kept: bool,
    ) -> Result<Delivery<'a>, SendError> {
        check_ways(&peer, request.via)?;
        let keep = is_kept.then(|| keep(request, &extra));
        let (extra, presented) = presented::attach(agent, &peer.did, extra).await?;
        let mut delivery = Delivery::new(agent, request, extra, peer, deadline, message_id);
        (delivery.presented, delivery.is_kept) = (presented, is_kept);
        delivery.has_answer = !is_notice(&delivery.extra);
        let outgoing = Outgoing {
            peer: delivery.peer.did.to_string(),
            message_id: delivery.id(),
            context_id: request.context_id.clone(),
            reply_to: request.reply_to.clone(),
            text: request.text.clone(),
            timestamp: delivery.signed_at,
            sig: delivery.sig().map(str::to_owned),
            target: delivery.peer.name.is_none().then(|| request.target.clone()),
            is_auto: is_notice(&delivery.extra),
            keep,
        };
        delivery.seq = agent.store().queue_outgoing(&outgoing).await?;
        if is_kept {
            agent.outbox_written().notify_one();
        }
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
        is_kept: bool,
    ) -> Result<Option<Delivery<'a>>, SendError> {
        check_ways(&peer, request.via)?;
        let Some(message_id) = MessageId::new(&stored.message_id) else { return Err(StoreError::Damaged.into()) };
        let keep = is_kept.then(|| keep(request, &extra));
        let (extra, presented) = presented::attach(agent, &peer.did, extra).await?;
        let delivery = Delivery::new(agent, request, extra, peer, deadline, message_id);
        let has_answer = !is_notice(&delivery.extra);
        let store = agent.store();
        let is_queued = store.requeue_outgoing(stored.seq, delivery.signed_at, delivery.sig(), keep.as_ref()).await?;
        Ok(is_queued.then(|| Delivery {
            seq: stored.seq,
            presented,
            has_answer,
            is_kept,
            is_again: true,
            // What was queued may have arrived earlier, whatever becomes of it now.
            cannot_have_arrived: stored.status == Some(OutStatus::Failed),
            ..delivery
        }))
    }

    /// Takes up a row of the outbox that the caller has taken.
    pub(super) async fn of_row(
        agent: &'a Agent,
        request: &'a SendRequest,
        extra: Object,
        peer: ResolvedPeer,
        deadline: Instant,
        row: &OutboxRow,
        is_awaited: bool,
    ) -> Result<Delivery<'a>, SendError> {
        check_ways(&peer, request.via)?;
        let Some(message_id) = MessageId::new(&row.message_id) else { return Err(StoreError::Damaged.into()) };
        let (extra, presented) = presented::attach(agent, &peer.did, extra).await?;
        let delivery = Delivery::new(agent, request, extra, peer, deadline, message_id);
        Ok(Delivery {
            seq: row.seq,
            role: if row.is_reply { Role::Agent } else { Role::User },
            presented,
            is_awaited: is_awaited && !row.is_reply && !row.is_auto,
            has_answer: !row.is_reply && !row.is_auto,
            is_kept: true,
            is_again: true,
            failures: row.attempts,
            cannot_have_arrived: false,
            ..delivery
        }
        .signed_anew())
    }

    fn new(
        agent: &'a Agent,
        request: &'a SendRequest,
        extra: Object,
        peer: ResolvedPeer,
        deadline: Instant,
        message_id: MessageId,
    ) -> Delivery<'a> {
        let delivery = Delivery {
            agent,
            request,
            extra,
            peer,
            role: Role::User,
            started: Instant::now(),
            deadline,
            way: Way { name: TransportName::Http, deadline, limit: request.timeout },
            message_id,
            seq: 0,
            signed: Value::Null,
            signed_at: now(),
            presented: None,
            version: wording::FIRST_VERSION,
            attempts: 0,
            is_awaited: true,
            has_answer: true,
            is_again: false,
            is_kept: false,
            failures: 0,
            cannot_have_arrived: true,
        };
        delivery.signed_anew()
    }

    fn signed_anew(mut self) -> Delivery<'a> {
        self.sign_anew();
        self
    }

    fn sign_anew(&mut self) {
        self.signed_at = now();
        self.signed = wording::sign(
            self.agent,
            self.role,
            self.request,
            &self.extra,
            &self.peer.did,
            &self.message_id,
            self.signed_at,
        );
    }

    fn sig(&self) -> Option<&str> {
        self.signed.member("metadata").and_then(|meta| meta.member("sig")).and_then(Value::as_str)
    }

    /// Sends it until somebody says something about it, or nothing helps: each way in its turn, all within the time.
    pub(super) async fn run(mut self) -> Result<Sent, SendError> {
        let mut failures = Vec::new();
        for name in ways(&self.peer, self.request.via) {
            let tried = match name {
                TransportName::Http => self.go_directly().await,
                TransportName::Relay => self.go_by_relay().await,
            };
            let error = match tried {
                Ok(sent) => {
                    self.hasten_others().await?;
                    return Ok(sent);
                }
                Err(error) => error,
            };
            let ends_it = self.ends_it(&error);
            failures.push((name, error));
            if ends_it {
                break;
            }
        }
        let error = self.sum_up(failures);
        self.record_failure(&error).await?;
        Err(error)
    }

    /// Whether a failure is the peer's own word, or ours, so that another way leads to the same. What another agent at
    /// the peer's old address says is not its word.
    fn ends_it(&self, error: &SendError) -> bool {
        match error {
            SendError::Refused { code, .. } => *code != Code::NotAddressedToMe.number(),
            SendError::ReplyNotVerified { .. } | SendError::Store(_) => true,
            _ => false,
        }
    }

    /// The last failure that ends it, the only one, or all of them by name.
    fn sum_up(&self, mut failures: Vec<(TransportName, SendError)>) -> SendError {
        match failures.pop() {
            Some((_, error)) if failures.is_empty() || self.ends_it(&error) => error,
            Some(last) => {
                failures.push(last);
                let who = self.peer.name.clone().unwrap_or_else(|| self.peer.did.to_string());
                SendError::NoWay { who, ways: failures, after: self.started.elapsed(), message_id: self.id() }
            }
            None => self.no_address(),
        }
    }

    fn no_address(&self) -> SendError {
        no_address(&self.peer)
    }

    /// Sorts what came back, and verifies a reply before anything of it is kept or shown.
    async fn judge(&self, response: Response) -> Result<Sent, Setback> {
        match response {
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
        let reply = wording::sent_reply(&verified);
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
        // What a peer says to a reply is no part of the conversation.
        let answered = match (&reply, self.role) {
            (Some((verified, reply)), Role::User) => Some(wording::answered(verified, reply)),
            _ => None,
        };
        let recorded = self.agent.store().record_outcome(self.seq, OutStatus::Delivered, answered.as_ref()).await;
        recorded.map_err(|error| Setback::GiveUp(error.into()))?;
        Ok(self.sent(status, reply.map(|(_, reply)| reply)))
    }

    fn sent(&self, status: SentStatus, reply: Option<SentReply>) -> Sent {
        Sent {
            message_id: self.id(),
            to: Some(self.peer.did.clone()),
            to_name: self.peer.name.clone(),
            is_blocked: self.peer.is_blocked,
            via: self.way.name,
            url: self.url(),
            context_id: self.request.context_id.clone(),
            status,
            reply,
            attempts: self.attempts,
        }
    }

    fn refused(&self, refusal: PeerRefusal) -> Setback {
        let code = refusal.code;
        let error = refused(refusal, self.id());
        if self.is_in_hand(code) {
            Setback::TryAgain(error)
        } else if code == Code::MethodNotFound.number() {
            Setback::OtherMethod(error)
        } else {
            Setback::GiveUp(error)
        }
    }

    /// On a later attempt "seen, not stored" is our own first copy, still being answered.
    fn is_in_hand(&self, code: i64) -> bool {
        code == Code::ReplayOrStale.number() && (self.attempts > 1 || self.is_again)
    }

    /// Waits before the next attempt; `false` when there is no time for one.
    async fn pause(&self) -> bool {
        let doubled = FIRST_PAUSE * 2_u32.saturating_pow(self.attempts.clamp(1, 16) - 1);
        let base = doubled.min(LONGEST_PAUSE);
        let wait = base + base.mul_f64(f64::from(random::<1>()[0]) / 256.0);
        if Instant::now() + wait >= self.way.deadline {
            return false;
        }
        tokio::time::sleep(wait).await;
        true
    }

    async fn record_failure(&self, error: &SendError) -> Result<(), SendError> {
        if let (Some(presented), SendError::Refused { code, .. }) = (&self.presented, error) {
            presented.refused(self.agent, *code).await;
        }
        let store = self.agent.store();
        match error {
            SendError::Refused { code, .. } if !is_passing(*code) && !self.is_in_hand(*code) => {
                store.record_refused(self.seq, *code).await?;
            }
            _ if self.is_kept && self.is_final(error) => {
                store.record_outcome(self.seq, OutStatus::Failed, None).await?
            }
            _ if self.is_kept => {
                let next = backoff::next(now(), self.failures, error.retry_after());
                store.postpone_outgoing(self.seq, next, &backoff::words(error)).await?;
            }
            SendError::Refused { .. } => {}
            _ if self.cannot_have_arrived => store.record_outcome(self.seq, OutStatus::Failed, None).await?,
            _ => {}
        }
        Ok(())
    }

    /// Whether no attempt by itself would do better: too large, or an address that its owner has to allow first. What was
    /// kept before stays, for the address may be a neighbour's again.
    fn is_final(&self, error: &SendError) -> bool {
        let is_refused_here = matches!(error, SendError::Transport { source: TransportError::Refused { .. }, .. });
        is_too_large(error) || (is_refused_here && !self.is_again)
    }

    /// The peer, or its relay, can be reached: what else waits for it need not wait any longer.
    async fn hasten_others(&self) -> Result<(), SendError> {
        if self.agent.store().hasten_outgoing(self.peer.did.as_str(), now()).await? {
            self.agent.outbox_written().notify_one();
        }
        Ok(())
    }

    fn url(&self) -> String {
        match (self.way.name, &self.peer.mailbox) {
            (TransportName::Relay, Some(mailbox)) => mailbox.relay.clone(),
            _ => urls::post_address(&self.peer.url),
        }
    }

    pub(super) fn id(&self) -> String {
        self.message_id.as_str().to_owned()
    }
}

/// Whether these are the metadata of a machine's notice, which nobody answers.
fn is_notice(extra: &Object) -> bool {
    extra.get("auto").and_then(Value::as_bool) == Some(true) && extra.contains_key("status")
}

/// The ways to a peer that may be tried, in order.
fn ways(peer: &ResolvedPeer, via: Option<TransportName>) -> Vec<TransportName> {
    let is_open = |way: &TransportName| match way {
        TransportName::Http => !peer.url.is_empty(),
        TransportName::Relay => peer.mailbox.is_some(),
    };
    let may = |way: &TransportName| via.is_none_or(|only| only == *way);
    [TransportName::Http, TransportName::Relay].into_iter().filter(|way| is_open(way) && may(way)).collect()
}

/// Refuses what cannot go at all, before anything is stored.
fn check_ways(peer: &ResolvedPeer, via: Option<TransportName>) -> Result<(), SendError> {
    match (ways(peer, via).is_empty(), via) {
        (false, _) => Ok(()),
        (true, Some(via)) if !ways(peer, None).is_empty() => {
            let who = peer.name.clone().unwrap_or_else(|| peer.did.to_string());
            Err(SendError::WayUnknown { who, via })
        }
        (true, _) => Err(no_address(peer)),
    }
}

fn no_address(peer: &ResolvedPeer) -> SendError {
    let who = peer.name.clone().unwrap_or_else(|| peer.did.to_string());
    SendError::NoAddress { who, is_contact: peer.name.is_some() }
}

/// How a message of this request is tried again. The introduction that it may carry is looked for anew each time.
fn keep(request: &SendRequest, extra: &Object) -> Keep {
    let now = now();
    let timeout_secs = i64::try_from(request.timeout.as_secs()).unwrap_or(i64::MAX);
    let lease = now.0.saturating_add(timeout_secs.min(backoff::LIFE_SECS)).saturating_add(LEASE_RESERVE_SECS);
    Keep {
        expires: UnixSeconds(now.0 + backoff::LIFE_SECS),
        via: request.via.map(|via| via.to_string()),
        allow_private: request.allow_private,
        extra: (!extra.is_empty()).then(|| Value::from(extra.clone()).to_json()),
        relay: None,
        enc_pub: None,
        lease: Some(UnixSeconds(lease)),
    }
}

/// Refusals that a later attempt may not meet: the message stays queued.
pub(super) fn is_passing(code: i64) -> bool {
    code == Code::Internal.number() || code == Code::RateLimited.number()
}

/// What no later attempt will change: a letter that is too large for the only way there is.
fn is_too_large(error: &SendError) -> bool {
    matches!(error, SendError::Transport { source: TransportError::RelayRefused { status: 413, .. }, .. })
}

#[cfg(test)]
pub(crate) mod tests;
