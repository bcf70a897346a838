//! What counts against the bounds of a mailbox, for both stores.
use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::mailboxes::{Bound, NewLetter, Quotas};

/// What a letter costs beside its box, for [`Quotas::total_bytes`]: its other columns, index entries and slack. A card or an
/// invite costs no more.
pub(super) const OVERHEAD_BYTES: u64 = 400;

/// Which deposit it is: the same for the same sender and id. The mailbox is not part of it.
pub(super) type Key = [u8; 16];

/// A sender's number, and the deposit's key. Both are too long for two senders to be made to share them.
pub(super) fn numbers(letter: &NewLetter) -> (i64, Key) {
    let from = Sha256::digest(letter.from.as_str());
    let key = Sha256::new_with_prefix(from).chain_update(&letter.id).finalize();
    let mut sender = [0; 8];
    sender.copy_from_slice(&from[..8]);
    let mut short = [0; 16];
    short.copy_from_slice(&key[..16]);
    (i64::from_be_bytes(sender), short)
}

/// What a letter's box weighs.
pub(super) fn size(letter: &NewLetter) -> u32 {
    u32::try_from(letter.blob.len()).unwrap_or(u32::MAX)
}

/// How full a mailbox is. `senders` may know some of them only.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub(super) letters: u32,
    pub(super) bytes: u64,
    pub(super) senders: HashMap<i64, u32>,
}

impl Load {
    /// The first bound that one more letter of this sender would break; the sender's own is named before the mailbox's.
    pub(super) fn bound(&self, quotas: &Quotas, sender: i64, size: u32) -> Option<Bound> {
        if self.senders.get(&sender).is_some_and(|letters| *letters >= quotas.sender_letters)
            || quotas.sender_letters == 0
        {
            return Some(Bound::SenderLetters);
        }
        if self.letters >= quotas.mailbox_letters {
            return Some(Bound::MailboxLetters);
        }
        (self.bytes.saturating_add(size.into()) > quotas.mailbox_bytes).then_some(Bound::MailboxBytes)
    }

    pub(super) fn add(&mut self, sender: i64, size: u32) {
        self.letters += 1;
        self.bytes += u64::from(size);
        *self.senders.entry(sender).or_default() += 1;
    }

    pub(super) fn remove(&mut self, sender: i64, size: u32) {
        self.letters = self.letters.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size.into());
        if let Some(letters) = self.senders.get_mut(&sender) {
            *letters -= 1;
            if *letters == 0 {
                self.senders.remove(&sender);
            }
        }
    }
}

/// How much there is of one kind beside letters: cards, invites.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pile {
    pub(super) count: i64,
    pub(super) bytes: i64,
}

impl Pile {
    pub(super) fn add(&mut self, size: i64) {
        self.count += 1;
        self.bytes += size;
    }

    pub(super) fn remove(&mut self, size: i64) {
        self.count -= 1;
        self.bytes -= size;
    }

    /// Whether there are more of them, or more bytes, than may be; 0 is no bound. The last one is never too much.
    pub(super) fn is_over(self, most: u64, max_bytes: u64) -> bool {
        let count = self.count.max(0).unsigned_abs();
        let bytes = self.bytes.max(0).unsigned_abs() + count * OVERHEAD_BYTES;
        count > 1 && ((most > 0 && count > most) || (max_bytes > 0 && bytes > max_bytes))
    }
}

/// How full everything together is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) letters: i64,
    pub(super) bytes: i64,
}

impl Totals {
    pub(super) fn add(&mut self, size: u32) {
        self.letters += 1;
        self.bytes += i64::from(size);
    }

    pub(super) fn remove(&mut self, size: u32) {
        self.letters -= 1;
        self.bytes -= i64::from(size);
    }

    pub(super) fn plus(self, other: Totals) -> Totals {
        Totals { letters: self.letters + other.letters, bytes: self.bytes + other.bytes }
    }

    /// Whether one more letter breaks [`Quotas::total_bytes`].
    pub(super) fn is_full(self, quotas: &Quotas, size: u32) -> bool {
        let overhead = (self.letters + 1).max(0).unsigned_abs() * OVERHEAD_BYTES;
        quotas.total_bytes > 0 && self.bytes.max(0).unsigned_abs() + u64::from(size) + overhead > quotas.total_bytes
    }
}
