//! Who listens at this process, and what wakes them (9.3). One current listener per DID; no lock is held while anything
//! waits.
//!
//! Nothing is missed: a listener takes its seat first and looks for letters after; whatever comes in between raises a
//! flag of its [`Signal`], and a raised flag is seen by the next look at it. The order of epochs is the store's to judge;
//! a seat is taken before the epoch is claimed there, so that news of a greater one finds it.
use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use muretai_protocol::{Did, relay::Epoch};
use muretai_store::mailboxes::Qid;
use tokio::time::Instant;

mod hand;
mod listener;

use hand::Hand;
pub(crate) use hand::InHand;
pub(crate) use listener::{Flags, Kind, Listener, Signal};

/// Seats are spread over so many locks.
const SHARDS: usize = 64;
/// How long a mailbox counts as listened at after a poll (9.3), and after a stream, whose end is known at once.
const POLL_LINGER: Duration = Duration::from_secs(60);
const STREAM_LINGER: Duration = Duration::from_secs(10);
/// How long somebody who calls waits for a listener that is between two connections.
const BETWEEN: Duration = Duration::from_secs(3);
/// Seats without a listener that are remembered; beyond that the oldest go at once. Keys cost nothing, so this is a bound
/// on memory.
const MAX_LINGERING: usize = 100_000;

/// The registry of listeners.
pub(crate) struct Hub {
    shards: Box<[Mutex<HashMap<Did, Seat>>]>,
    hasher: RandomState,
    is_stopping: AtomicBool,
    /// Who left when, for polls and for streams.
    left: [Mutex<VecDeque<(Instant, Did)>>; 2],
    /// What the store has yet to hear about who is there.
    changes: Mutex<HashMap<Did, bool>>,
    waiting: [AtomicUsize; 2],
}

/// What a process knows of one mailbox while somebody listens, and for a little longer.
struct Seat {
    epoch: Epoch,
    listener: Option<Arc<Listener>>,
    left: Option<Instant>,
    /// Who left was a stream: nobody is between two polls.
    was_stream: bool,
    hand: Hand,
    /// The store knows that somebody is there.
    is_told: bool,
}

/// Why nobody can sit down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSeat {
    /// A newer listener has the mailbox.
    Superseded,
    /// The relay stops.
    Stopping,
}

/// A listener in its seat; leaves it when dropped.
pub(crate) struct Sitting<'h> {
    hub: &'h Hub,
    listener: Arc<Listener>,
}

impl Hub {
    pub(crate) fn new() -> Hub {
        Hub {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            is_stopping: AtomicBool::new(false),
            left: Default::default(),
            changes: Mutex::default(),
            waiting: Default::default(),
        }
    }

    /// Takes the seat of a DID whose token was good. Listeners with a lower epoch are superseded, an older connection of
    /// the same listener is replaced.
    pub(crate) fn sit(&self, did: &Did, epoch: &Epoch, kind: Kind) -> Result<Sitting<'_>, NoSeat> {
        let listener = Arc::new(Listener { did: did.clone(), epoch: epoch.clone(), kind, signal: Signal::default() });
        self.seat(&listener)?;
        if kind != Kind::Drain {
            self.waiting[usize::from(kind == Kind::Stream)].fetch_add(1, Ordering::Relaxed);
        }
        let sitting = Sitting { hub: self, listener };
        // Asked after the seat is taken: whoever stops the hub raises flags after saying so.
        if self.is_stopping.load(Ordering::SeqCst) { Err(NoSeat::Stopping) } else { Ok(sitting) }
    }

    fn seat(&self, listener: &Arc<Listener>) -> Result<(), NoSeat> {
        let mut shard = self.shard(&listener.did);
        let seat = shard.entry(listener.did.clone()).or_insert_with(|| Seat::of(&listener.epoch));
        if seat.epoch > listener.epoch {
            return Err(NoSeat::Superseded);
        }
        if let Some(older) = seat.listener.take() {
            let is_older = older.epoch < listener.epoch;
            older.signal.raise(if is_older { Flags::SUPERSEDED } else { Flags::REPLACED });
        }
        // What went into a stream that broke did not arrive, for all that is known.
        if seat.epoch < listener.epoch || listener.kind == Kind::Stream {
            seat.hand.clear();
        }
        seat.epoch = listener.epoch.clone();
        seat.listener = Some(Arc::clone(listener));
        if listener.kind != Kind::Drain && !seat.is_told {
            seat.is_told = true;
            self.change(&listener.did, true);
        }
        Ok(())
    }

    fn leave(&self, listener: &Arc<Listener>) {
        if listener.kind != Kind::Drain {
            self.waiting[usize::from(listener.kind == Kind::Stream)].fetch_sub(1, Ordering::Relaxed);
        }
        let now = Instant::now();
        {
            let mut shard = self.shard(&listener.did);
            let Some(seat) = shard.get_mut(&listener.did) else { return };
            if !seat.listener.as_ref().is_some_and(|current| Arc::ptr_eq(current, listener)) {
                return;
            }
            seat.listener = None;
            if listener.kind != Kind::Drain {
                seat.left = Some(now);
                seat.was_stream = listener.kind == Kind::Stream;
            }
            if !seat.is_told && seat.hand.is_empty() {
                shard.remove(&listener.did);
                return;
            }
        }
        let mut left =
            self.left[usize::from(listener.kind == Kind::Stream)].lock().unwrap_or_else(PoisonError::into_inner);
        left.push_back((now, listener.did.clone()));
    }

    /// Wakes the listener of a DID: a letter came.
    pub(crate) fn wake(&self, did: &Did) {
        if let Some(listener) = self.shard(did).get(did).and_then(|seat| seat.listener.as_ref()) {
            listener.signal.raise(Flags::LETTERS);
        }
    }

    /// A listener with this epoch took the mailbox, here or elsewhere.
    pub(crate) fn supersede(&self, did: &Did, epoch: &Epoch) {
        let mut shard = self.shard(did);
        let Some(seat) = shard.get_mut(did).filter(|seat| seat.epoch < *epoch) else { return };
        seat.epoch = epoch.clone();
        seat.hand.clear();
        if let Some(listener) = &seat.listener {
            listener.signal.raise(Flags::SUPERSEDED);
        }
    }

    /// Whether the listener of this epoch sits here and has all these letters in hand. When not, it may be elsewhere.
    pub(crate) fn has_in_hand(&self, did: &Did, epoch: &Epoch, qids: &[Qid]) -> bool {
        let shard = self.shard(did);
        shard.get(did).is_some_and(|seat| seat.epoch == *epoch && seat.hand.has(qids))
    }

    /// Letters were acknowledged, here or elsewhere.
    pub(crate) fn acked(&self, did: &Did, qids: &[Qid]) {
        if let Some(seat) = self.shard(did).get_mut(did) {
            seat.acked(qids);
        }
    }

    /// Whether somebody listens for a DID here, or will be back in a moment.
    pub(crate) fn is_listening(&self, did: &Did) -> bool {
        let now = Instant::now();
        self.shard(did).get(did).is_some_and(|seat| {
            seat.listener.as_ref().is_some_and(|listener| listener.kind != Kind::Drain)
                || seat.left.is_some_and(|left| now.duration_since(left) < BETWEEN)
        })
    }

    /// Whether a letter for a DID reaches somebody now, as far as can be told here; `None` when it never listened here. Who
    /// listened here and left is not waited for: where it went, the letter finds it as mail.
    pub(crate) fn reaches(&self, did: &Did) -> Option<bool> {
        let now = Instant::now();
        let shard = self.shard(did);
        let seat = shard.get(did)?;
        if let Some(listener) = &seat.listener {
            return (listener.kind != Kind::Drain).then_some(true);
        }
        let is_between = !seat.was_stream && seat.left.is_some_and(|left| now.duration_since(left) < BETWEEN);
        seat.left.map(|_| is_between)
    }

    /// Whether this epoch has the mailbox as far as is known here; `None` when nothing is known.
    pub(crate) fn is_current(&self, did: &Did, epoch: &Epoch) -> Option<bool> {
        let shard = self.shard(did);
        let seat = shard.get(did)?;
        match seat.epoch.cmp(epoch) {
            std::cmp::Ordering::Greater => Some(false),
            std::cmp::Ordering::Equal if seat.listener.is_some() => Some(true),
            _ => None,
        }
    }

    /// Everybody who has to look again. The store is told again who is there.
    pub(crate) fn resync(&self) -> Vec<Arc<Listener>> {
        let mut all = Vec::new();
        self.each(|did, seat| {
            all.extend(seat.listener.clone());
            if seat.is_told {
                self.change(did, true);
            }
        });
        all
    }

    /// Sends everybody away, those too who come later.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.each(|_, seat| {
            if let Some(listener) = &seat.listener {
                listener.signal.raise(Flags::STOP);
            }
        });
    }

    /// Forgets those who left and did not come back.
    pub(crate) fn expire(&self, now: Instant) {
        for (left, linger) in self.left.iter().zip([POLL_LINGER, STREAM_LINGER]) {
            while let Some((at, did)) = pop_due(left, now, linger) {
                self.forget(&did, at);
            }
        }
    }

    fn forget(&self, did: &Did, left_at: Instant) {
        let mut shard = self.shard(did);
        let is_back = |seat: &Seat| seat.listener.is_some() || seat.left.is_some_and(|left| left > left_at);
        if shard.get(did).is_none_or(is_back) {
            return;
        }
        if shard.remove(did).is_some_and(|seat| seat.is_told) {
            self.change(did, false);
        }
    }

    /// Takes some of what the store has yet to hear.
    pub(crate) fn take_changes(&self, most: usize) -> Vec<(Did, bool)> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() <= most {
            return changes.drain().collect();
        }
        let taken: Vec<(Did, bool)> = changes.iter().take(most).map(|(did, is_on)| (did.clone(), *is_on)).collect();
        for (did, _) in &taken {
            changes.remove(did);
        }
        taken
    }

    /// Puts back what the store did not take, unless there is news since.
    pub(crate) fn put_back(&self, taken: Vec<(Did, bool)>) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        for (did, is_on) in taken {
            changes.entry(did).or_insert(is_on);
        }
    }

    /// All of whom the store thinks that they are there; for the end.
    pub(crate) fn told(&self) -> Vec<Did> {
        let mut told = Vec::new();
        self.each(|did, seat| told.extend(seat.is_told.then(|| did.clone())));
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        told.extend(changes.iter().filter(|(_, is_on)| !**is_on).map(|(did, _)| did.clone()));
        told
    }

    /// Polls and streams that wait.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let [polls, streams] = &self.waiting;
        (polls.load(Ordering::Relaxed), streams.load(Ordering::Relaxed))
    }

    fn change(&self, did: &Did, is_on: bool) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).insert(did.clone(), is_on);
    }

    fn each(&self, mut look: impl FnMut(&Did, &Seat)) {
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.iter().for_each(|(did, seat)| look(did, seat));
        }
    }

    fn shard(&self, did: &Did) -> MutexGuard<'_, HashMap<Did, Seat>> {
        let at = self.hasher.hash_one(did) as usize % self.shards.len();
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pop_due(left: &Mutex<VecDeque<(Instant, Did)>>, now: Instant, linger: Duration) -> Option<(Instant, Did)> {
    let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = left.front().is_some_and(|(at, _)| now.duration_since(*at) >= linger) || left.len() > MAX_LINGERING;
    is_due.then(|| left.pop_front())?
}

impl Seat {
    fn of(epoch: &Epoch) -> Seat {
        Seat {
            epoch: epoch.clone(),
            listener: None,
            left: None,
            was_stream: false,
            hand: Hand::default(),
            is_told: false,
        }
    }

    fn acked(&mut self, qids: &[Qid]) {
        if self.hand.acked(qids) > 0
            && let Some(listener) = &self.listener
        {
            // There is room in its hand; whether there are letters for it, it will see.
            listener.signal.raise(Flags::LETTERS);
        }
    }
}

impl Sitting<'_> {
    pub(crate) fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    pub(crate) fn signal(&self) -> &Signal {
        &self.listener.signal
    }

    /// What this listener has in hand.
    pub(crate) fn in_hand(&self) -> InHand {
        self.with_hand(|hand| hand.look(Instant::now())).unwrap_or_default()
    }

    /// Notes that letters of these sizes are handed out.
    pub(crate) fn give(&self, letters: &[(Qid, u64)], until: Instant) {
        self.with_hand(|hand| hand.give(letters, until));
    }

    fn with_hand<T>(&self, act: impl FnOnce(&mut Hand) -> T) -> Option<T> {
        let mut shard = self.hub.shard(&self.listener.did);
        let seat = shard.get_mut(&self.listener.did)?;
        let is_ours = seat.listener.as_ref().is_some_and(|current| Arc::ptr_eq(current, &self.listener));
        is_ours.then(|| act(&mut seat.hand))
    }
}

impl Drop for Sitting<'_> {
    fn drop(&mut self) {
        self.hub.leave(&self.listener);
    }
}

#[cfg(test)]
mod tests;
