//! Letters in hand. Those of one sender are handled one after the other, in the relay's order; those of different
//! senders side by side; a letter that is in hand is not taken a second time. No clock and no tasks here: times come in
//! as arguments.
//!
//! A letter is in hand from when it is taken until the relay has its acknowledgement. A qid is forgotten then: a relay
//! whose database was restored may give the same number to another letter.
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use muretai_protocol::relay::{BadItem, Item};
use tokio::time::Instant;

/// Senders whose letters are handled at once. A slow responder holds a place for as long as it takes, so there are many;
/// what they cost in memory is bounded by the bytes in hand.
const MAX_RUNNING: usize = 64;
/// Letters in hand; nothing is fetched while there are so many. More than one sender may have in a mailbox, so that none
/// stands in the way of the others.
const MAX_IN_HAND: usize = 512;
/// Bytes of letters in hand. A batch may go beyond it once.
const MAX_BYTES_IN_HAND: usize = 16 * 1_048_576;

/// A letter as it was fetched.
#[derive(Debug)]
pub(super) enum Letter {
    /// One that can be tried to open.
    Sealed(Item),
    /// One that cannot be read.
    Damaged {
        /// Its number.
        qid: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl Letter {
    /// `None` for what cannot even be acknowledged.
    pub(super) fn of(item: Result<Item, BadItem>) -> Option<Letter> {
        match item {
            Ok(item) => Some(Letter::Sealed(item)),
            Err(BadItem { qid, why }) => qid.map(|qid| Letter::Damaged { qid, why }),
        }
    }

    pub(super) fn qid(&self) -> &str {
        match self {
            Letter::Sealed(item) => &item.qid,
            Letter::Damaged { qid, .. } => qid,
        }
    }

    fn sender(&self) -> &str {
        match self {
            Letter::Sealed(item) => &item.from,
            Letter::Damaged { .. } => "",
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Letter::Sealed(item) => item.blob.len(),
            Letter::Damaged { .. } => 0,
        }
    }
}

/// The name of a lane: whoever the relay says deposited the letter.
pub(super) type Sender = Arc<str>;

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Arc<Letter>>,
    is_running: bool,
    not_before: Option<Instant>,
    failures: u32,
}

/// All letters in hand.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: HashMap<Sender, Lane>,
    /// Lanes with a letter that can be handled now, in the order in which they came to be so.
    ready: VecDeque<Sender>,
    running: usize,
    /// Bytes of each letter in hand, by qid.
    in_hand: HashMap<String, usize>,
    bytes: usize,
}

impl Lanes {
    /// Whether more letters may be fetched.
    pub(super) fn has_room(&self) -> bool {
        self.in_hand.len() < MAX_IN_HAND && self.bytes < MAX_BYTES_IN_HAND
    }

    /// Nothing is handled, and nothing could be now.
    pub(super) fn is_idle(&self) -> bool {
        self.running == 0 && self.ready.is_empty()
    }

    /// Takes a letter in hand. `false`: it is in hand already.
    pub(super) fn take(&mut self, letter: Letter) -> bool {
        if self.in_hand.contains_key(letter.qid()) {
            return false;
        }
        self.bytes += letter.bytes();
        self.in_hand.insert(letter.qid().to_owned(), letter.bytes());
        let sender = match self.lanes.get_key_value(letter.sender()) {
            Some((sender, _)) => Arc::clone(sender),
            None => Arc::from(letter.sender()),
        };
        let lane = self.lanes.entry(Arc::clone(&sender)).or_default();
        lane.waiting.push_back(Arc::new(letter));
        if lane.waiting.len() == 1 {
            self.ready.push_back(sender);
        }
        true
    }

    /// The next letter to handle, if any may be handled now.
    pub(super) fn start(&mut self) -> Option<(Sender, Arc<Letter>)> {
        if self.running == MAX_RUNNING {
            return None;
        }
        let sender = self.ready.pop_front()?;
        let lane = self.lanes.get_mut(&sender).expect("a ready lane is there");
        lane.is_running = true;
        self.running += 1;
        let letter = lane.waiting.front().expect("a ready lane has a letter");
        Some((sender, Arc::clone(letter)))
    }

    /// The letter at hand in a lane was handled, for good or for bad. It stays in hand until [`Lanes::acked`].
    pub(super) fn handled(&mut self, sender: &Sender) {
        let Some(lane) = self.stopped(sender) else { return };
        lane.waiting.pop_front();
        lane.failures = 0;
        if lane.waiting.is_empty() {
            self.lanes.remove(sender);
        } else {
            self.ready.push_back(Arc::clone(sender));
        }
    }

    /// The letter at hand in a lane could not be handled now. It, and those behind it, wait until `again`.
    pub(super) fn postponed(&mut self, sender: &Sender, again: impl FnOnce(u32) -> Instant) {
        if let Some(lane) = self.stopped(sender) {
            lane.not_before = Some(again(lane.failures));
            lane.failures = lane.failures.saturating_add(1);
        }
    }

    /// The letter at hand could not be handled and will not be tried again by us; nor will those behind it, so that
    /// their order is kept. They stay in hand.
    pub(super) fn abandoned(&mut self, sender: &Sender) {
        self.stopped(sender);
    }

    /// Letters that are in hand and were not handled.
    pub(super) fn waiting(&self) -> u64 {
        self.lanes.values().map(|lane| lane.waiting.len() as u64).sum()
    }

    fn stopped(&mut self, sender: &Sender) -> Option<&mut Lane> {
        let lane = self.lanes.get_mut(sender).filter(|lane| lane.is_running)?;
        lane.is_running = false;
        self.running -= 1;
        Some(lane)
    }

    /// Makes the lanes ready whose pause is over.
    pub(super) fn wake(&mut self, now: Instant) {
        for (sender, lane) in &mut self.lanes {
            if lane.not_before.is_some_and(|at| at <= now) {
                lane.not_before = None;
                self.ready.push_back(Arc::clone(sender));
            }
        }
    }

    /// When the next pause is over.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.lanes.values().filter_map(|lane| lane.not_before).min()
    }

    /// Lets go of what was not begun: the relay has it.
    pub(super) fn drop_waiting(&mut self) {
        self.ready.clear();
        for lane in self.lanes.values_mut() {
            lane.not_before = None;
            lane.waiting.truncate(usize::from(lane.is_running));
        }
    }

    /// The relay has the acknowledgement of a letter.
    pub(super) fn acked(&mut self, qid: &str) {
        self.bytes -= self.in_hand.remove(qid).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests;
