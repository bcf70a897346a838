//! When a message is tried again, and what its owner is told of why it was not sent.
use std::{error::Error, time::Duration};

use muretai_protocol::{UnixSeconds, text::one_line};

use crate::agent::random;

/// How long a message is tried, and how long it may lie at a relay without word of its peer: what relays keep.
pub(crate) const LIFE_SECS: i64 = 7 * 86_400;
/// After the first failure; it doubles.
const FIRST_SECS: i64 = 30;
const LONGEST_SECS: i64 = 3_600;
/// The longest that a peer or a relay can put us off.
const LONGEST_ASKED_SECS: i64 = 86_400;
/// Characters of a reason that are kept.
const MAX_WORDS: usize = 500;

/// The time of the next attempt, after one more failure: 30 s, doubling to an hour, with up to a quarter more at random.
/// Whoever asked us to wait longer is obeyed, for a day at most.
pub(crate) fn next(now: UnixSeconds, failures_before: u32, asked: Option<Duration>) -> UnixSeconds {
    let doubled = FIRST_SECS.saturating_mul(1_i64.checked_shl(failures_before.min(16)).unwrap_or(i64::MAX));
    let base = doubled.min(LONGEST_SECS);
    let wait = base + base * i64::from(random::<1>()[0]) / 1_024;
    let asked = asked.map_or(0, |asked| i64::try_from(asked.as_secs()).unwrap_or(i64::MAX)).min(LONGEST_ASKED_SECS);
    UnixSeconds(now.0.saturating_add(wait.max(asked)))
}

/// An error and what caused it, on one line.
pub(crate) fn words(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    one_line(&words, MAX_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    #[test]
    fn attempts_are_put_off_longer_and_longer() {
        for (failures, least) in [(0, 30), (1, 60), (2, 120), (6, 1_920), (7, 3_600), (40, 3_600), (u32::MAX, 3_600)] {
            for _ in 0..50 {
                let wait = next(NOW, failures, None).0 - NOW.0;
                assert!((least..=least + least / 4).contains(&wait), "{failures}: {wait}");
            }
        }
    }

    #[test]
    fn whoever_asks_for_more_time_gets_it_within_reason() {
        assert_eq!(next(NOW, 0, Some(Duration::from_secs(600))).0, NOW.0 + 600);
        assert_eq!(next(NOW, 0, Some(Duration::MAX)).0, NOW.0 + LONGEST_ASKED_SECS);
        assert!(next(NOW, 7, Some(Duration::from_secs(1))).0 >= NOW.0 + LONGEST_SECS);
        assert_eq!(next(UnixSeconds(i64::MAX), 0, None).0, i64::MAX);
    }
}
