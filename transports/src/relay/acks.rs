//! When letters are acknowledged: a hundred at a time, when nothing else is to be done, or after a moment, one request
//! at a time; a failed one is repeated after a pause. No clock here: times come in as arguments.
use std::time::Duration;

use tokio::time::Instant;

/// Letters in one acknowledgement.
const MAX_BATCH: usize = 100;
/// How long one waits for others.
const MAX_DELAY: Duration = Duration::from_millis(50);

/// What is to be acknowledged.
#[derive(Debug, Default)]
pub(super) struct Acks {
    pending: Vec<String>,
    /// When the oldest that is pending came.
    since: Option<Instant>,
    is_under_way: bool,
    not_before: Option<Instant>,
}

impl Acks {
    /// A letter is on disk.
    pub(super) fn add(&mut self, qid: String, now: Instant) {
        self.pending.push(qid);
        self.since.get_or_insert(now);
    }

    /// Everything is acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty() && !self.is_under_way
    }

    /// What to send now, if anything; then it is under way.
    pub(super) fn due(&mut self, now: Instant, is_idle: bool) -> Option<Vec<String>> {
        if self.is_under_way || self.pending.is_empty() || self.not_before.is_some_and(|at| now < at) {
            return None;
        }
        let is_due = is_idle || self.pending.len() >= MAX_BATCH || self.since.is_some_and(|at| now >= at + MAX_DELAY);
        if !is_due {
            return None;
        }
        self.is_under_way = true;
        let rest = self.pending.split_off(self.pending.len().min(MAX_BATCH));
        let batch = std::mem::replace(&mut self.pending, rest);
        self.since = (!self.pending.is_empty()).then_some(now);
        Some(batch)
    }

    /// When something will be due if nothing else happens.
    pub(super) fn next_due(&self) -> Option<Instant> {
        if self.is_under_way {
            return None;
        }
        let due = self.since? + MAX_DELAY;
        Some(self.not_before.map_or(due, |at| at.max(due)))
    }

    /// The relay has what was under way.
    pub(super) fn arrived(&mut self) {
        self.is_under_way = false;
        self.not_before = None;
    }

    /// Forgets the pause after a failure: this is the last occasion.
    pub(super) fn hurry(&mut self) {
        self.not_before = None;
    }

    /// It did not take it; again, first of all, and not before `again`.
    pub(super) fn failed(&mut self, mut batch: Vec<String>, now: Instant, again: Instant) {
        self.is_under_way = false;
        self.not_before = Some(again);
        batch.append(&mut self.pending);
        self.pending = batch;
        self.since.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn waits_a_moment_for_others_unless_there_is_nothing_else_to_do() {
        let (mut acks, now) = (Acks::default(), Instant::now());
        acks.add("1".to_owned(), now);
        acks.add("2".to_owned(), now + ms(10));
        assert_eq!(acks.due(now + ms(49), false), None);
        assert_eq!(acks.next_due(), Some(now + ms(50)));
        assert_eq!(acks.due(now + ms(50), false), Some(vec!["1".to_owned(), "2".to_owned()]));
        acks.add("3".to_owned(), now + ms(51));
        assert_eq!(acks.due(now + ms(900), true), None, "one at a time");
        assert_eq!(acks.next_due(), None);
        acks.arrived();
        assert!(!acks.is_empty());
        assert_eq!(acks.due(now + ms(52), true), Some(vec!["3".to_owned()]));
        acks.arrived();
        assert!(acks.is_empty() && acks.next_due().is_none());
    }

    #[test]
    fn a_hundred_are_sent_at_once() {
        let (mut acks, now) = (Acks::default(), Instant::now());
        (0..130).for_each(|n| acks.add(n.to_string(), now));
        assert_eq!(acks.due(now, false).unwrap().len(), 100);
        acks.arrived();
        assert_eq!(acks.due(now, false), None);
        assert_eq!(acks.due(now + ms(50), false).unwrap()[0], "100");
    }

    #[test]
    fn a_failed_one_is_repeated_after_its_pause_and_before_the_others() {
        let (mut acks, now) = (Acks::default(), Instant::now());
        acks.add("1".to_owned(), now);
        let batch = acks.due(now, true).unwrap();
        acks.add("2".to_owned(), now);
        acks.failed(batch, now, now + ms(3_000));
        assert_eq!(acks.due(now + ms(2_999), true), None);
        assert_eq!(acks.next_due(), Some(now + ms(3_000)));
        assert_eq!(acks.due(now + ms(3_000), true), Some(vec!["1".to_owned(), "2".to_owned()]));
    }
}
