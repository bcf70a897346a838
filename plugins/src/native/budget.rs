//! How often a plugin may end before it is left alone.
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// This many ends within [`WINDOW`] are suffered; at one more it rests.
const MAX_ENDS: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);
/// Nothing is started for so long.
const REST: Duration = Duration::from_secs(60);

/// Counts the ends of one plugin's processes.
#[derive(Debug, Default)]
pub(super) struct Budget {
    ends: VecDeque<Instant>,
    rests_until: Option<Instant>,
}

impl Budget {
    /// A process ended that was not told to.
    pub(super) fn ended(&mut self, now: Instant) {
        self.ends.push_back(now);
        while self.ends.front().is_some_and(|first| now.duration_since(*first) >= WINDOW) {
            self.ends.pop_front();
        }
        if self.ends.len() > MAX_ENDS {
            self.ends.clear();
            self.rests_until = Some(now + REST);
        }
    }

    /// Nothing may be started now.
    pub(super) fn is_resting(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_ends_in_a_minute_earn_a_minute_of_rest() {
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        let mut budget = Budget::default();
        for second in 0..5 {
            budget.ended(at(second));
            assert!(!budget.is_resting(at(second)));
        }
        budget.ended(at(59));
        assert!(budget.is_resting(at(59)) && budget.is_resting(at(118)));
        assert!(!budget.is_resting(at(119)));
        budget.ended(at(120));
        assert!(!budget.is_resting(at(120)), "it begins anew after a rest");
    }

    #[test]
    fn ends_that_lie_apart_are_suffered() {
        let start = Instant::now();
        let mut budget = Budget::default();
        for i in 0..100 {
            let now = start + Duration::from_secs(i * 13);
            budget.ended(now);
            assert!(!budget.is_resting(now), "{i}");
        }
    }
}
