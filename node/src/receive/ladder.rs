//! Steps 1 to 5' of the ladder (section 4.1), in their fixed order: the first failure answers, later steps are not
//! reached. Nothing is written before the signature is known good, so nobody can use up another's id.
use std::{future::Future, sync::Arc, time::Duration};

use muretai_protocol::{
    Did, MessageId, UnixSeconds,
    json::Value,
    message::{EnvelopeError, Message, Stale, Unverified, Verified},
    rpc::{Code, Refusal},
};
use muretai_store::{Store, StoreError, messages::Standing};

pub use super::frame::Profile;
use super::{
    refusals::{self as say, plain},
    replay::{Attempt, Claim, Key, ReplayGuard},
};

/// How long a copy waits for the outcome of the first one. A responder may be slower; the copy is then told so.
const COPY_PATIENCE: Duration = Duration::from_secs(30);

/// Where handled ids are remembered for good; the store, or nothing in a benchmark.
pub trait Memory: Send + Sync {
    /// What is known of a sender and one of its ids. Writes nothing.
    fn standing(&self, from: &str, message_id: &str) -> impl Future<Output = Result<Standing, StoreError>> + Send;
}

impl Memory for Store {
    fn standing(&self, from: &str, message_id: &str) -> impl Future<Output = Result<Standing, StoreError>> + Send {
        Store::standing(self, from, message_id)
    }
}

/// The ladder of one endpoint.
pub struct Ladder<M> {
    me: Did,
    profile: Profile,
    guard: ReplayGuard,
    memory: M,
    /// The refusal that teaches (4.4).
    lesson: Refusal,
}

/// A message that passed every step; its id is claimed until `claim` is confirmed or dropped.
pub struct Passed {
    /// The message, believed. Shared with the task that answers it.
    pub verified: Arc<Verified>,
    /// Its content, as a re-send must have it again.
    pub digest: [u8; 32],
    /// Its id, claimed.
    pub claim: Claim,
    /// What the gate wants to know of the sender.
    pub standing: Standing,
}

/// What step 4 found.
enum Found {
    /// Handled before, with this digest.
    Handled([u8; 32]),
    /// Not handled.
    Fresh(Standing),
}

impl<M: Memory> Ladder<M> {
    /// A ladder for messages to `me`. `requirement` is the object of the card (6.5).
    pub fn new(me: Did, profile: Profile, guard: ReplayGuard, memory: M, requirement: Value) -> Ladder<M> {
        let lesson = plain(Code::Signature, say::UNSIGNED).with("accepts", vec![requirement]);
        Ladder { me, profile, guard, memory, lesson }
    }

    /// The replay guard.
    pub fn guard(&self) -> &ReplayGuard {
        &self.guard
    }

    /// Climbs. Cancelling releases what was claimed.
    pub async fn climb(&self, message: Message, now: UnixSeconds) -> Result<Passed, Refusal> {
        let envelope = message.into_envelope().map_err(|missing| self.teach(&missing))?; // 1
        if !envelope.is_for(&self.me) {
            return Err(plain(Code::NotAddressedToMe, say::OTHER_RECIPIENT)); // 2
        }
        let envelope = check_freshness(envelope, now)?; // 3
        let key = Key::new(&envelope.from, envelope.message.message_id.as_str());
        match self.profile {
            Profile::Node => {
                let standing = match self.look_up(&key, &envelope.from, &envelope.message.message_id).await? {
                    Found::Fresh(standing) => standing,
                    Found::Handled(seen) => return Err(self.repeated(seen, envelope.verify(now).ok().as_ref())), // 4
                };
                let verified = verify(envelope, now)?; // 5
                self.claim(key, verified, standing).await // 5'
            }
            Profile::Door => {
                let verified = verify(envelope, now)?; // row 10
                let message_id = &verified.message().message_id;
                let standing = match self.look_up(&key, verified.from().as_str(), message_id).await? {
                    Found::Fresh(standing) => standing,
                    Found::Handled(seen) => return Err(self.repeated(seen, Some(&verified))), // row 11
                };
                self.claim(key, verified, standing).await
            }
        }
    }

    /// Step 4: the memory guard first, then the store. Writes nothing.
    async fn look_up(&self, key: &Key, from: &str, message_id: &MessageId) -> Result<Found, Refusal> {
        match self.guard.look_up(key) {
            Some(digest) => Ok(Found::Handled(digest)),
            None => self.ask_memory(from, message_id).await,
        }
    }

    async fn ask_memory(&self, from: &str, message_id: &MessageId) -> Result<Found, Refusal> {
        let standing = self.memory.standing(from, message_id.as_str()).await.map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "a message id could not be looked up");
            say::internal()
        })?;
        Ok(match standing.handled {
            Some(handled) => Found::Handled(handled.digest),
            None => Found::Fresh(standing),
        })
    }

    /// Step 5': claims the id, or waits for whoever has it and then answers as for any copy.
    async fn claim(&self, key: Key, verified: Verified, mut standing: Standing) -> Result<Passed, Refusal> {
        let digest = verified.content_digest();
        let patience = tokio::time::sleep(COPY_PATIENCE);
        tokio::pin!(patience);
        loop {
            let mut ended = match self.guard.claim(key) {
                Attempt::Claimed(claim) => {
                    return Ok(Passed { verified: Arc::new(verified), digest, claim, standing });
                }
                Attempt::Handled(seen) => return Err(self.repeated(seen, Some(&verified))),
                Attempt::Pending(ended) => ended,
            };
            tokio::select! {
                // Only ever an error: the sender is dropped when the first copy ends.
                _ = ended.changed() => {}
                () = &mut patience => return Err(plain(Code::ReplayOrStale, say::IN_HAND)),
            }
            // The owner may have decided about the sender meanwhile, or another process stored the message.
            let message_id = &verified.message().message_id;
            match self.ask_memory(verified.from().as_str(), message_id).await? {
                Found::Fresh(newer) => standing = newer,
                Found::Handled(seen) => return Err(self.repeated(seen, Some(&verified))),
            }
        }
    }

    /// The refusal of a seen id. Only its proven sender, sending the same content again, hears `duplicate:true`.
    pub(crate) fn repeated(&self, seen: [u8; 32], proven: Option<&Verified>) -> Refusal {
        match proven {
            Some(verified) if verified.content_digest() == seen => say::duplicate(),
            Some(verified) => {
                self.guard.count_conflict();
                tracing::warn!(from = %verified.from(), "a sender used one message id for two contents");
                say::repeated()
            }
            None => say::repeated(),
        }
    }

    fn teach(&self, missing: &EnvelopeError) -> Refusal {
        match missing {
            EnvelopeError::Unsigned => self.lesson.clone(),
            _ => plain(Code::Signature, say::INCOMPLETE),
        }
    }
}

/// Step 3. The refusal is decided without the signature; only a sender that proves itself learns its skew (4.2).
fn check_freshness(envelope: Unverified, now: UnixSeconds) -> Result<Unverified, Refusal> {
    let Err(stale) = envelope.freshness(now) else { return Ok(envelope) };
    let is_measurable = matches!(stale, Stale::OutsideWindow(_) | Stale::Milliseconds);
    if is_measurable && let Ok(verified) = envelope.verify(now) {
        return Err(say::stale_for_sender(&stale, verified.timestamp(), now));
    }
    Err(say::stale(&stale))
}

fn verify(envelope: Unverified, now: UnixSeconds) -> Result<Verified, Refusal> {
    envelope.verify(now).map_err(|_| plain(Code::Signature, say::BAD_SIGNATURE))
}
