//! Errands: what this agent owes to peers, carried out at once when that works, and by `serve` later when it does not.
//!
//! Each errand has one message id for all its attempts, written with it: what arrived and was not answered is not done
//! twice, whichever program makes the next attempt. Pauses double from 30 s to an hour; after 7 days nobody tries again.
use std::time::Duration;

use muretai_protocol::{
    Did, MessageId, UnixSeconds,
    json::{self, Object, Value},
};
use muretai_store::{
    StoreError,
    errands::{Errand as StoredErrand, NewErrand},
    requests::Decision,
};
use tokio::{task::JoinSet, time::Instant};

use super::TrustError;
use crate::{
    Agent,
    agent::{now, random},
    mail::tail,
};

mod carry;

/// Seconds after which nobody tries any more.
const LIFE_SECS: i64 = 7 * 86_400;
/// Seconds for which an errand is left to whoever took it: longer than [`TIMEOUT`], with room for a busy machine.
const LEASE_SECS: i64 = 120;
/// For one errand of [`Agent::run_errands`].
const TIMEOUT: Duration = Duration::from_secs(20);
/// Errands that are carried out side by side: peers that do not answer hold up few others.
const AT_ONCE: u32 = 8;
/// How often is looked whether another program is done.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The first pause; it doubles.
const FIRST_PAUSE_SECS: i64 = 30;
const LONGEST_PAUSE_SECS: i64 = 3_600;

/// An act that is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Errand {
    /// `connect/respond` to whoever asked; `request` is our row, for undoing when it is no longer wanted.
    ConnectRespond { request: i64, request_id: Option<String>, decision: Decision },
    /// `introduce/respond` to the introducer.
    IntroduceRespond { introduction_id: String, decision: Decision },
    /// `introduce/propose` of an introduction that we issued, to its target, with what its owner reads beside it.
    Propose { introduction_id: String, note: Option<String> },
    /// A `message/send` with `held_vc…` that gives the subject what we issued.
    HandOver { introduction_id: String },
    /// A notice with our revocation list, to the target of what was revoked.
    Revoked,
}

/// What came of one attempt.
#[derive(Debug)]
pub(crate) enum Carried {
    /// The peer knows, or there is nothing to tell any more.
    Done,
    /// Nobody knows where the peer is: it learns when it asks.
    NoAddress,
    /// The peer will not have it; what it stood for is undone here.
    Refused(TrustError),
    /// Tried again later.
    Postponed(TrustError),
    /// Another program is at it, and was not done in time.
    Elsewhere,
}

impl Errand {
    /// As the store keeps it; gives up after 7 days.
    pub(crate) fn to_store(&self, peer: &Did, now: UnixSeconds) -> NewErrand {
        let message_id = MessageId::from_random(random());
        let mut payload = Object::from([("messageId".to_owned(), Value::from(message_id.as_str()))]);
        let mut put = |key: &str, value: Value| payload.insert(key.to_owned(), value);
        match self {
            Errand::ConnectRespond { request, request_id, decision } => {
                put("request", (*request).into());
                put("requestId", request_id.clone().into());
                put("decision", word(*decision).into());
            }
            Errand::IntroduceRespond { introduction_id, decision } => {
                put("introductionId", introduction_id.into());
                put("decision", word(*decision).into());
            }
            Errand::Propose { introduction_id, note } => {
                put("introductionId", introduction_id.into());
                put("note", note.clone().into());
            }
            Errand::HandOver { introduction_id } => _ = put("introductionId", introduction_id.into()),
            Errand::Revoked => {}
        }
        NewErrand {
            kind: self.kind().to_owned(),
            peer: peer.clone(),
            payload: Value::Object(payload).to_json(),
            created: now,
            expires: UnixSeconds(now.0 + LIFE_SECS),
        }
    }

    /// What the store kept, and the id of its message; `None` for what a later version wrote.
    fn from_store(stored: &NewErrand) -> Option<(Errand, MessageId)> {
        let payload = json::parse(stored.payload.as_bytes()).ok()?;
        let text = |key: &str| payload.member(key).and_then(Value::as_str).map(str::to_owned);
        let decision = || match text("decision")?.as_str() {
            "accept" => Some(Decision::Accept),
            "reject" => Some(Decision::Reject),
            _ => None,
        };
        let errand = match stored.kind.as_str() {
            "connect/respond" => Errand::ConnectRespond {
                request: payload.member("request")?.as_i64()?,
                request_id: text("requestId"),
                decision: decision()?,
            },
            "introduce/respond" => {
                Errand::IntroduceRespond { introduction_id: text("introductionId")?, decision: decision()? }
            }
            "introduce/propose" => Errand::Propose { introduction_id: text("introductionId")?, note: text("note") },
            "hand-over" => Errand::HandOver { introduction_id: text("introductionId")? },
            "revoked" => Errand::Revoked,
            _ => return None,
        };
        Some((errand, MessageId::new(&text("messageId")?)?))
    }

    fn kind(&self) -> &'static str {
        match self {
            Errand::ConnectRespond { .. } => "connect/respond",
            Errand::IntroduceRespond { .. } => "introduce/respond",
            Errand::Propose { .. } => "introduce/propose",
            Errand::HandOver { .. } => "hand-over",
            Errand::Revoked => "revoked",
        }
    }
}

/// A decision as the wire has it.
pub(super) fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Accept => "accept",
        Decision::Reject => "reject",
    }
}

impl Agent {
    /// Carries out what is due, a few at a time; failures are put off with growing pauses. Gives how many are done.
    ///
    /// Several programs may do so at once: each errand is taken by one of them. A future that is dropped leaves its
    /// errands to whoever comes two minutes later.
    pub async fn run_errands(&self) -> usize {
        let lease = UnixSeconds(now().0 + LEASE_SECS);
        let taken = match self.store().take_errands(now(), lease, AT_ONCE).await {
            Ok(taken) => taken,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "errands could not be read");
                return 0;
            }
        };
        let mut running = JoinSet::new();
        for stored in taken {
            let agent = self.clone();
            running.spawn(async move { agent.carry_out(&stored, TIMEOUT).await });
        }
        let mut done = 0;
        while let Some(carried) = running.join_next().await {
            done += usize::from(matches!(carried, Ok(Ok(Carried::Done | Carried::NoAddress | Carried::Refused(_)))));
        }
        done
    }

    /// Carries out errands that were written just now, at once and in their order. What another program took first is
    /// left to it.
    pub(crate) async fn tell(&self, written: &[NewErrand], timeout: Duration) -> Result<Vec<Carried>, StoreError> {
        let lease = i64::try_from(timeout.as_secs()).unwrap_or(LEASE_SECS).max(LEASE_SECS);
        let mut told = Vec::with_capacity(written.len());
        for new in written {
            let taken = self.store().take_errand(&new.payload, now(), UnixSeconds(now().0 + lease)).await?;
            told.push(match taken {
                Some(stored) => self.carry_out(&stored, timeout).await?,
                None => self.wait_for(&new.payload, timeout).await?,
            });
        }
        Ok(told)
    }

    /// Waits for another program that carries out an errand: done is what is no longer owed.
    async fn wait_for(&self, payload: &str, timeout: Duration) -> Result<Carried, StoreError> {
        let until = Instant::now() + timeout;
        loop {
            let owed = self.store().errands().await?;
            match owed.iter().find(|owed| owed.errand.payload == payload) {
                None => return Ok(Carried::Done),
                Some(owed) if owed.last_error.is_some() || Instant::now() >= until => return Ok(Carried::Elsewhere),
                Some(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// One attempt, and what the store has to know of it.
    async fn carry_out(&self, stored: &StoredErrand, timeout: Duration) -> Result<Carried, StoreError> {
        let (peer, kind) = (&stored.errand.peer, stored.errand.kind.as_str());
        let Some((errand, message_id)) = Errand::from_store(&stored.errand) else {
            tracing::warn!(peer = tail(peer), kind, "an errand of another version is left alone");
            let next = UnixSeconds(now().0 + LONGEST_PAUSE_SECS);
            self.store().postpone_errand(stored.id, next, "this version cannot read it").await?;
            return Ok(Carried::Elsewhere);
        };
        let carried = self.carry(&errand, peer, message_id, timeout).await?;
        match &carried {
            Carried::Done | Carried::Elsewhere => tracing::info!(peer = tail(peer), kind, "an errand is done"),
            Carried::NoAddress => tracing::info!(peer = tail(peer), kind, "an errand has nowhere to go"),
            Carried::Refused(error) => {
                tracing::warn!(
                    peer = tail(peer),
                    kind,
                    error = error as &dyn std::error::Error,
                    "a peer refused an errand"
                );
            }
            Carried::Postponed(error) => {
                tracing::info!(
                    peer = tail(peer),
                    kind,
                    error = error as &dyn std::error::Error,
                    "an errand is put off"
                );
                let next = UnixSeconds(now().0 + pause_secs(stored.attempts));
                self.store().postpone_errand(stored.id, next, &error.to_string()).await?;
                return Ok(carried);
            }
        }
        self.store().finish_errand(stored.id).await?;
        Ok(carried)
    }
}

/// The pause after an attempt that came after so many others.
fn pause_secs(attempts: u32) -> i64 {
    (FIRST_PAUSE_SECS << attempts.min(7)).min(LONGEST_PAUSE_SECS)
}

#[cfg(test)]
mod tests;
