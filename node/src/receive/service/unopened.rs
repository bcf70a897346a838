//! Letters that do not open, and items of a relay that are none (9.5). Whoever knows an address can leave junk there, so
//! each is noted and done with; a contact is told, because its key or ours may have changed.
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use muretai_protocol::{
    Did,
    json::{Object, Value},
    relay::DID_NOT_OPEN,
    text,
};
use muretai_store::{StoreError, contacts::Relation, outbox::RejectedLetter};
use muretai_transports::{Postmark, Unopened, UnopenedReason};

use super::Receiver;
use crate::{Agent, agent, send::notice::Notice};

/// The status of the notice that says that a letter did not open.
const UNOPENED: &str = "unopened";
/// How often one peer is told, and how often its card is fetched when it tells us.
pub(super) const ONCE_IN: Duration = Duration::from_secs(60);
/// Peers that are remembered. Beyond it nobody new is told until the minute of the others is over.
const MAX_PEERS: usize = 1_024;
/// Characters of a sender and of an id that are kept.
const MAX_SHOWN_CHARS: usize = 128;

/// Lets an act about a peer happen once a minute.
#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<HashMap<Did, Instant>>);

impl Throttle {
    /// Whether it may happen now; if so, not again for a minute.
    pub(super) fn admit(&self, peer: &Did) -> bool {
        self.admit_at(peer, Instant::now())
    }

    fn admit_at(&self, peer: &Did, now: Instant) -> bool {
        // Nothing below panics half-way, so a poisoned lock holds a whole map.
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |last: &Instant| now.saturating_duration_since(*last) >= ONCE_IN;
        match peers.get(peer) {
            Some(last) if !is_over(last) => return false,
            _ if peers.len() >= MAX_PEERS => peers.retain(|_, last| !is_over(last)),
            _ => {}
        }
        if peers.len() >= MAX_PEERS {
            return false;
        }
        peers.insert(peer.clone(), now);
        true
    }
}

impl Receiver {
    /// Notes such a letter. `false` when that cannot be stored now.
    pub(super) async fn note_unopened(&self, letter: &Unopened) -> bool {
        let Unopened { postmark, reason, bytes } = letter;
        let kept = self.keep_unopened(postmark, *reason, *bytes).await;
        match kept {
            Ok(()) => {
                self.inner.tally.rejected(&postmark.relay);
                true
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "a letter that did not open could not be noted");
                false
            }
        }
    }

    async fn keep_unopened(&self, postmark: &Postmark, reason: UnopenedReason, bytes: usize) -> Result<(), StoreError> {
        let agent = &self.inner.agent;
        let letter = RejectedLetter {
            received: agent::now(),
            relay: postmark.relay.clone(),
            from: text::one_line(&postmark.from, MAX_SHOWN_CHARS),
            id: text::one_line(&postmark.id, MAX_SHOWN_CHARS),
            reason: words(reason),
            code: None,
            bytes: bytes as u64,
        };
        agent.store().add_rejected(&letter).await?;
        if reason != UnopenedReason::DoesNotOpen {
            return Ok(());
        }
        let Ok(from) = postmark.from.parse::<Did>() else { return Ok(()) };
        let contact = agent.store().contact(&from).await?;
        let contact = contact.filter(|contact| contact.relation == Relation::Direct && !contact.is_blocked);
        if let Some(contact) = contact.filter(|_| self.inner.told.admit(&from)) {
            // Its mailbox is where its letter came from, when nothing better is known.
            let fallback = contact.coordinates.enc_pub.map(|key| (postmark.relay.clone(), key));
            tell(agent, &from, postmark, fallback).await?;
        }
        Ok(())
    }
}

/// Tells a contact. The deposit's id lets it find out which message that was.
async fn tell(
    agent: &Agent,
    to: &Did,
    postmark: &Postmark,
    fallback: Option<(String, String)>,
) -> Result<(), StoreError> {
    let deposit = text::one_line(&postmark.id, MAX_SHOWN_CHARS);
    let notice = Notice {
        to: to.clone(),
        status: UNOPENED,
        text: DID_NOT_OPEN.to_owned(),
        reply_to: None,
        context_id: None,
        extra: Object::from([("deposit".to_owned(), Value::from(deposit))]),
        fallback,
    };
    agent.leave_notice(notice).await.map(drop)
}

fn words(reason: UnopenedReason) -> String {
    match reason {
        UnopenedReason::DoesNotOpen => "no key that is known opens it".to_owned(),
        UnopenedReason::BadItem(why) => format!("the relay's item is damaged: {why}"),
        UnopenedReason::TooLarge => "its sealed box is larger than any letter".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::testing::key;
    use muretai_protocol::did::PublicKey;

    #[test]
    fn a_peer_is_told_once_a_minute_and_nobody_fills_memory() {
        let throttle = Throttle::default();
        let (north, start) = (key(1).did().clone(), Instant::now());
        let at = |secs| throttle.admit_at(&north, start + Duration::from_secs(secs));
        assert!(at(0) && !at(1) && !at(59) && at(60) && !at(61));
        for n in 0..2_000_u32 {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            throttle.admit_at(&Did::from_key(&PublicKey::Ed25519(bytes)), start + Duration::from_secs(61));
        }
        assert_eq!(throttle.0.lock().unwrap().len(), MAX_PEERS);
        assert!(!at(62), "who was told lately is remembered all the same");
        assert!(at(200) && throttle.0.lock().unwrap().len() == 1);
    }
}
