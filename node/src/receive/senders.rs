//! Senders whose signatures verified lately: their DIDs need not be read, and their keys not be decompressed, again.
//!
//! Knowing a sender here decides nothing; every signature is verified all the same.
use std::{
    collections::HashSet,
    hash::{Hash, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

use muretai_protocol::Did;

/// Senders in one generation; two are kept, about 0.5 KiB for each sender.
const GENERATION_LEN: usize = 512;

/// A bounded cache. Whoever makes many keys can push others out, which costs those a few microseconds.
#[derive(Default)]
pub(crate) struct Senders(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashSet<ByText>,
    old: HashSet<ByText>,
}

/// A DID that is found by its text.
struct ByText(Did);

impl std::borrow::Borrow<str> for ByText {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}
impl Hash for ByText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}
impl PartialEq for ByText {
    fn eq(&self, other: &ByText) -> bool {
        self.0 == other.0
    }
}
impl Eq for ByText {}

impl Senders {
    /// The sender of this name, when it is known.
    pub(crate) fn find(&self, from: &str) -> Option<Did> {
        let generations = self.lock();
        let found = generations.young.get(from).or_else(|| generations.old.get(from));
        found.map(|found| found.0.clone())
    }

    /// Remembers a sender whose signature verified.
    pub(crate) fn remember(&self, did: &Did) {
        let mut generations = self.lock();
        if generations.young.contains(did.as_str()) {
            return;
        }
        if generations.young.len() >= GENERATION_LEN {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(ByText(did.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use muretai_protocol::did::PublicKey;

    use super::*;

    fn did(n: u16) -> Did {
        let mut key = [7; 32];
        key[..2].copy_from_slice(&n.to_be_bytes());
        Did::from_key(&PublicKey::Ed25519(key))
    }

    #[test]
    fn stays_bounded_and_keeps_who_came_lately() {
        let senders = Senders::default();
        for n in 0..3 * GENERATION_LEN as u16 + 10 {
            senders.remember(&did(n));
            assert_eq!(senders.find(did(n).as_str()), Some(did(n)));
        }
        assert_eq!(senders.find(did(0).as_str()), None);
        assert!(senders.find(did(3 * GENERATION_LEN as u16 - 1).as_str()).is_some(), "the generation before");
        let generations = senders.lock();
        assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION_LEN);
    }
}
