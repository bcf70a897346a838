//! Peers that could not open a letter of ours: their cards are fetched again, because their sealing keys may have changed
//! (9.5). The stored key stays until a signed card says another.
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use muretai_protocol::Did;

use super::{Receiver, unopened::Throttle};

/// Peers that wait for it. Whoever comes later may say so again in a minute.
const MAX_WAITING: usize = 64;

/// The peers to ask.
#[derive(Debug, Default)]
pub(super) struct StaleKeys {
    asked: Throttle,
    waiting: Mutex<VecDeque<Did>>,
}

impl StaleKeys {
    /// Wants the card of a peer fetched, at most once a minute. Says whether there is something to do now.
    pub(super) fn note(&self, peer: &Did) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_WAITING || !self.asked.admit(peer) {
            return false;
        }
        waiting.push_back(peer.clone());
        true
    }

    pub(super) fn take(&self) -> Option<Did> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Receiver {
    /// Fetches the cards of peers that could not open a letter of ours. Dropping it leaves the rest for the next time.
    pub async fn renew_keys(&self) {
        while let Some(peer) = self.inner.stale_keys.take() {
            let agent = &self.inner.agent;
            match agent.renew_key(&peer).await {
                Ok(is_new) => {
                    tracing::info!(peer = crate::mail::tail(&peer), is_new, "a sealing key was looked up again")
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, "the store failed while a sealing key was looked up");
                }
            }
        }
    }
}
