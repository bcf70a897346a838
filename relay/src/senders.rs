//! Senders whose signatures were good a while ago. A key has to be decompressed before it verifies anything, which costs
//! a tenth of the verification; who deposits again has that done.
use std::{
    collections::HashSet,
    mem,
    sync::{Mutex, PoisonError},
};

use muretai_protocol::Did;

/// Senders in one generation; there are two, of about 0.4 KiB a sender.
const GENERATION: usize = 2_048;

/// The DIDs of recent senders, their keys ready to verify.
#[derive(Debug, Default)]
pub(crate) struct Senders(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashSet<Did>,
    old: HashSet<Did>,
}

impl Senders {
    /// The same DID, with its key ready when it deposited something lately.
    pub(crate) fn known(&self, did: Did) -> Did {
        let generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = generations.young.get(&did).or_else(|| generations.old.get(&did)).cloned();
        known.unwrap_or(did)
    }

    /// Remembers one whose signature was good. Strangers' keys cost nothing, so the oldest are forgotten.
    pub(crate) fn remember(&self, did: &Did) {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if generations.young.contains(did) {
            return;
        }
        if generations.young.len() >= GENERATION {
            generations.old = mem::take(&mut generations.young);
        }
        generations.young.insert(did.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::key;

    #[test]
    fn recent_senders_are_known_and_not_too_many() {
        let senders = Senders::default();
        let first = key(1).did().clone();
        assert_eq!(senders.known(first.clone()), first, "nobody is known, and the same comes back");
        senders.remember(&first);
        senders.remember(&first);
        assert_eq!(senders.0.lock().unwrap().young.len(), 1);
        let did = |n: u32| {
            let mut key = [7; 32];
            key[..4].copy_from_slice(&n.to_be_bytes());
            Did::from_key(&muretai_protocol::did::PublicKey::Ed25519(key))
        };
        for n in 0..3 * GENERATION as u32 {
            senders.remember(&did(n));
        }
        let generations = senders.0.lock().unwrap();
        assert_eq!((generations.young.len(), generations.old.len()), (1, GENERATION), "the first made one more");
        assert!(!generations.young.contains(&first) && !generations.old.contains(&first));
    }
}
