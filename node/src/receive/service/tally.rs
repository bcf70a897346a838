//! How many letters came from which relay, as far as this process knows.
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Counters, one pair for each relay that this process listens at.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<HashMap<String, Counted>>);

/// What came from a relay.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    /// Letters that were taken, for good or for bad.
    pub(super) letters: u64,
    /// Of these, letters that were refused or did not open.
    pub(super) rejected: u64,
}

impl Tally {
    /// One more letter.
    pub(super) fn letter(&self, relay: &str) {
        self.change(relay, |counted| counted.letters += 1);
    }

    /// It was refused, or did not open.
    pub(super) fn rejected(&self, relay: &str) {
        self.change(relay, |counted| counted.rejected += 1);
    }

    /// Of one relay.
    pub(super) fn of(&self, relay: &str) -> Counted {
        self.lock().get(relay).copied().unwrap_or_default()
    }

    /// Of all relays.
    pub(super) fn all(&self) -> Counted {
        self.lock().values().fold(Counted::default(), |all, one| Counted {
            letters: all.letters + one.letters,
            rejected: all.rejected + one.rejected,
        })
    }

    fn change(&self, relay: &str, change: impl FnOnce(&mut Counted)) {
        let mut counters = self.lock();
        match counters.get_mut(relay) {
            Some(counted) => change(counted),
            None => change(counters.entry(relay.to_owned()).or_default()),
        }
    }

    /// Nothing in here panics half-way, so a poisoned lock holds whole numbers.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_relay_is_counted_by_itself() {
        let tally = Tally::default();
        tally.letter("https://relay.example");
        tally.letter("https://relay.example");
        tally.rejected("https://relay.example");
        tally.letter("https://relay2.example");
        assert_eq!(tally.of("https://relay.example"), Counted { letters: 2, rejected: 1 });
        assert_eq!(tally.of("https://relay3.example"), Counted::default());
        assert_eq!(tally.all(), Counted { letters: 3, rejected: 1 });
    }
}
