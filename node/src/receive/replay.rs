//! The replay guard in memory (sections 4.1 and 4.5): which ids are being handled and which were handled lately.
//!
//! It saves disk look-ups and makes concurrent copies of one message wait for each other. The store has the last word:
//! an id that fell out of memory is still found there, so forgetting can only cost a look-up, never let a copy through.
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use sha2::{Digest, Sha256};
use tokio::sync::watch;

/// Handled ids that are kept in memory (section 12.4).
pub const MAX_ENTRIES: usize = 20_000;

/// A sender and one of its message ids, in constant space however long the id is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// Hashes the pair.
    pub fn new(from: &str, message_id: &str) -> Key {
        let mut hash = Sha256::new();
        hash.update((from.len() as u64).to_be_bytes());
        hash.update(from.as_bytes());
        hash.update(message_id.as_bytes());
        Key(hash.finalize().into())
    }
}

/// What the guard knows of an id.
enum Entry {
    /// Being handled; whoever waits holds a receiver that wakes when the sender in here is dropped.
    Pending(Option<watch::Sender<()>>),
    /// Stored, with the digest of its content.
    Handled([u8; 32]),
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<Key, Entry>,
    /// Handled keys, oldest first.
    order: VecDeque<Key>,
}

/// The guard of one agent. Cheap to clone.
#[derive(Clone)]
pub struct ReplayGuard {
    entries: Arc<Mutex<Entries>>,
    capacity: usize,
    conflicts: Arc<AtomicU64>,
}

/// What came of an attempt to claim an id.
pub enum Attempt {
    /// Nobody else handles it now.
    Claimed(Claim),
    /// It is stored, with this digest.
    Handled([u8; 32]),
    /// Another copy is being handled: `changed` on this returns when that ends, one way or the other.
    Pending(watch::Receiver<()>),
}

impl Default for ReplayGuard {
    fn default() -> Self {
        ReplayGuard::with_capacity(MAX_ENTRIES)
    }
}

impl ReplayGuard {
    /// A guard that remembers this many handled ids.
    pub fn with_capacity(capacity: usize) -> ReplayGuard {
        ReplayGuard { entries: Arc::default(), capacity: capacity.max(1), conflicts: Arc::default() }
    }

    /// Says whether an id was handled lately, with the digest of its content. Writes nothing.
    pub fn look_up(&self, key: &Key) -> Option<[u8; 32]> {
        match self.lock().by_key.get(key) {
            Some(Entry::Handled(digest)) => Some(*digest),
            _ => None,
        }
    }

    /// Claims an id atomically. The claim is released when it is dropped without being confirmed.
    pub fn claim(&self, key: Key) -> Attempt {
        let mut entries = self.lock();
        match entries.by_key.get_mut(&key) {
            None => {
                entries.by_key.insert(key, Entry::Pending(None));
                Attempt::Claimed(Claim { guard: self.clone(), key, is_settled: false })
            }
            Some(Entry::Handled(digest)) => Attempt::Handled(*digest),
            Some(Entry::Pending(ended)) => {
                Attempt::Pending(ended.get_or_insert_with(|| watch::channel(()).0).subscribe())
            }
        }
    }

    /// Counts a sender that used one id for two contents.
    pub fn count_conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    /// How often one id came with two contents.
    pub fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// How many ids are in memory, handled and being handled.
    pub fn len(&self) -> usize {
        self.lock().by_key.len()
    }

    /// Whether nothing is in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nothing in here can panic half-way, so a poisoned lock holds whole entries.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An id that this task alone handles now. Dropping it releases the id, also when the task is cancelled.
pub struct Claim {
    guard: ReplayGuard,
    key: Key,
    is_settled: bool,
}

impl Claim {
    /// Gives the id up because the store has it already, with another content.
    pub fn conflict(self) {
        self.guard.count_conflict();
    }

    /// Records the id as handled: its message is stored.
    pub fn confirm(mut self, digest: [u8; 32]) {
        self.is_settled = true;
        let mut entries = self.guard.lock();
        entries.by_key.insert(self.key, Entry::Handled(digest));
        entries.order.push_back(self.key);
        while entries.order.len() > self.guard.capacity {
            if let Some(oldest) = entries.order.pop_front() {
                entries.by_key.remove(&oldest);
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_settled {
            self.guard.lock().by_key.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(guard: &ReplayGuard, key: Key) -> Claim {
        match guard.claim(key) {
            Attempt::Claimed(claim) => claim,
            _ => panic!("the id is free"),
        }
    }

    #[test]
    fn a_dropped_claim_releases_its_id() {
        let guard = ReplayGuard::default();
        let key = Key::new("did:key:a", "1");
        drop(claimed(&guard, key));
        assert!(guard.is_empty());
        drop(claimed(&guard, key));
    }

    #[test]
    fn a_confirmed_id_is_handled_with_its_digest() {
        let guard = ReplayGuard::default();
        let key = Key::new("did:key:a", "1");
        claimed(&guard, key).confirm([7; 32]);
        assert_eq!(guard.look_up(&key), Some([7; 32]));
        assert!(matches!(guard.claim(key), Attempt::Handled(digest) if digest == [7; 32]));
        assert_eq!(guard.look_up(&Key::new("did:key:b", "1")), None, "ids of two senders are two ids");
    }

    #[test]
    fn the_oldest_leaves_first_and_a_fresh_id_is_never_refused() {
        let guard = ReplayGuard::with_capacity(10);
        for n in 0..1_000 {
            claimed(&guard, Key::new("did:key:a", &n.to_string())).confirm([0; 32]);
        }
        assert_eq!(guard.len(), 10);
        assert!(guard.look_up(&Key::new("did:key:a", "989")).is_none());
        assert!(guard.look_up(&Key::new("did:key:a", "990")).is_some());
    }

    #[test]
    fn eviction_leaves_ids_in_hand_alone() {
        let guard = ReplayGuard::with_capacity(1);
        let held = Key::new("did:key:a", "held");
        let claim = claimed(&guard, held);
        for n in 0..10 {
            claimed(&guard, Key::new("did:key:a", &n.to_string())).confirm([0; 32]);
        }
        assert!(matches!(guard.claim(held), Attempt::Pending(_)));
        claim.confirm([1; 32]);
        assert_eq!(guard.look_up(&held), Some([1; 32]));
    }

    #[tokio::test]
    async fn copies_wait_for_the_first_one_however_it_ends() {
        let guard = ReplayGuard::default();
        let key = Key::new("did:key:a", "1");
        let first = claimed(&guard, key);
        let Attempt::Pending(mut ended) = guard.claim(key) else { panic!("it is in hand") };
        drop(first);
        assert!(ended.changed().await.is_err(), "woken by the release");
        let second = claimed(&guard, key);
        let Attempt::Pending(mut ended) = guard.claim(key) else { panic!("it is in hand") };
        second.confirm([2; 32]);
        assert!(ended.changed().await.is_err(), "woken by the confirmation");
        assert_eq!(guard.look_up(&key), Some([2; 32]));
    }

    #[test]
    fn the_pair_is_joined_unambiguously() {
        assert_ne!(Key::new("ab", "c"), Key::new("a", "bc"));
    }
}
