//! The schedule of signs of life. One task turns it for all streams; each turn wakes the streams of one slot, so that a
//! thousand timers become one, and the work is spread over the whole period.
use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::hub::{Flags, Listener};

/// Parts of the period. Fewer are woken less often and do more at once.
const SLOTS: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Wheel {
    slots: [Mutex<Vec<Weak<Listener>>>; SLOTS],
    next: AtomicUsize,
    turn: AtomicUsize,
}

impl Wheel {
    /// Gives a listener signs of life from now on, for as long as it lives.
    pub(crate) fn enroll(&self, listener: &Arc<Listener>) {
        let slot = self.next.fetch_add(1, Ordering::Relaxed) % SLOTS;
        let mut slot = self.slots[slot].lock().unwrap_or_else(PoisonError::into_inner);
        slot.push(Arc::downgrade(listener));
    }

    /// How long a turn takes.
    pub(crate) fn pace(heartbeat: Duration) -> Duration {
        (heartbeat / SLOTS as u32).max(Duration::from_millis(10))
    }

    /// Wakes the next slot.
    pub(crate) fn turn(&self) {
        let slot = self.turn.fetch_add(1, Ordering::Relaxed) % SLOTS;
        let mut slot = self.slots[slot].lock().unwrap_or_else(PoisonError::into_inner);
        slot.retain(|listener| match listener.upgrade() {
            Some(listener) => {
                listener.signal.raise(Flags::BEAT);
                true
            }
            None => false,
        });
        if slot.capacity() > 4 * slot.len() {
            slot.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use muretai_protocol::relay::Epoch;

    use super::*;
    use crate::{
        hub::{Kind, Signal},
        testing::key,
    };

    #[test]
    fn each_listener_is_woken_once_a_round() {
        let wheel = Wheel::default();
        let listener = || {
            let (did, epoch) = (key(1).did().clone(), Epoch::new(1, 1));
            Arc::new(Listener { did, epoch, kind: Kind::Stream, signal: Signal::default() })
        };
        let mut listeners: Vec<_> = (0..2 * SLOTS).map(|_| listener()).collect();
        listeners.iter().for_each(|listener| wheel.enroll(listener));
        wheel.turn();
        let woken = |listeners: &[Arc<Listener>]| {
            listeners.iter().filter(|listener| listener.signal.is_up(Flags::BEAT)).count()
        };
        assert_eq!(woken(&listeners), 2);
        (1..SLOTS).for_each(|_| wheel.turn());
        assert_eq!(woken(&listeners), 2 * SLOTS);
        listeners.truncate(1);
        (0..SLOTS).for_each(|_| wheel.turn());
        let kept: usize = wheel.slots.iter().map(|slot| slot.lock().unwrap().len()).sum();
        assert_eq!(kept, 1, "those that have gone are forgotten");
    }
}
