//! Mailboxes that are known to the last letter. Bounded: what was not used for long is read again when it is needed.
use std::collections::HashMap;

use crate::mailboxes::{
    Qid,
    accounts::{Key, Load},
};

/// Mailboxes and letters in one of the two halves: about 10 MiB. Tests want to see it full.
const MAX_WEIGHT: usize = if cfg!(test) { 40 } else { 65_536 };

/// A mailbox.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) id: i64,
    pub(super) epoch: Option<Box<str>>,
    pub(super) day: i64,
    pub(super) load: Load,
    pub(super) kept: HashMap<Qid, Kept>,
    pub(super) by_key: HashMap<Key, Qid>,
}

/// A letter in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) key: Key,
    pub(super) sender: i64,
    pub(super) size: u32,
}

impl Account {
    pub(super) fn add(&mut self, qid: Qid, kept: Kept) {
        self.load.add(kept.sender, kept.size);
        self.by_key.insert(kept.key, qid);
        self.kept.insert(qid, kept);
    }

    /// Gives what it weighed, when it was there.
    pub(super) fn remove(&mut self, qid: Qid) -> Option<u32> {
        let kept = self.kept.remove(&qid)?;
        self.by_key.remove(&kept.key);
        self.load.remove(kept.sender, kept.size);
        Some(kept.size)
    }
}

/// Two halves: what is used moves to the young one, and when that is full the old one goes.
#[derive(Default)]
pub(super) struct Accounts {
    young: HashMap<Box<str>, Account>,
    old: HashMap<Box<str>, Account>,
    weight: usize,
}

impl Accounts {
    /// Whether it is known, and if so makes it young.
    pub(super) fn has(&mut self, did: &str) -> bool {
        if self.young.contains_key(did) {
            return true;
        }
        match self.old.remove_entry(did) {
            Some((did, account)) => {
                self.put(did, account);
                true
            }
            None => false,
        }
    }

    /// Of one that [`Accounts::has`] or [`Accounts::put`] has made young, before any [`Accounts::turn`].
    pub(super) fn of(&mut self, did: &str) -> Option<&mut Account> {
        self.young.get_mut(did)
    }

    /// The same, to look at.
    pub(super) fn seen(&self, did: &str) -> Option<&Account> {
        self.young.get(did)
    }

    pub(super) fn put(&mut self, did: Box<str>, account: Account) {
        self.weight += 1 + account.kept.len();
        self.young.insert(did, account);
    }

    pub(super) fn forget(&mut self, did: &str) {
        self.young.remove(did);
        self.old.remove(did);
    }

    /// Letters came into mailboxes that are young.
    pub(super) fn grow(&mut self, letters: usize) {
        self.weight += letters;
    }

    /// Between two batches: drops the old half when the young one is full.
    pub(super) fn turn(&mut self) {
        if self.weight > MAX_WEIGHT {
            self.old = std::mem::take(&mut self.young);
            self.weight = 0;
        }
    }
}
