//! The clock that tokens are made with: this machine's, put right by what a relay says when it refuses one.
//!
//! Believing a relay here costs nothing: a token is good at its own origin alone.
use std::{
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use muretai_protocol::{UnixSeconds, relay::minute_of};

/// Clocks that are no further apart than this are not worth a warning.
const WORTH_A_WARNING_SECS: u64 = 60;

/// A clock for the tokens of one listener at one relay.
#[derive(Debug, Default)]
pub(super) struct RelayClock {
    /// Seconds that the relay is ahead of us.
    offset_secs: AtomicI64,
    has_warned: AtomicBool,
}

impl RelayClock {
    /// The minute for a token made now.
    pub(super) fn minute(&self) -> i64 {
        self.minute_at(unix_now())
    }

    fn minute_at(&self, now: i64) -> i64 {
        minute_of(UnixSeconds(now.saturating_add(self.offset_secs.load(Ordering::Relaxed))))
    }

    /// Takes the relay's time over. `false` when a token of it would be the one that was just refused.
    pub(super) fn correct(&self, relay: &str, relay_now: i64, refused_minute: i64) -> bool {
        let apart = self.correct_at(unix_now(), relay_now);
        if apart.unsigned_abs() > WORTH_A_WARNING_SECS && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(relay, seconds_ahead = apart, "the relay's clock is not ours; tokens follow the relay's");
        }
        minute_of(UnixSeconds(relay_now)) != refused_minute
    }

    fn correct_at(&self, now: i64, relay_now: i64) -> i64 {
        let apart = relay_now.saturating_sub(now);
        self.offset_secs.store(apart, Ordering::Relaxed);
        apart
    }
}

/// Seconds since 1970; 0 on a machine whose clock stands before that.
fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_follow_the_relay_once_it_has_said_its_time() {
        let clock = RelayClock::default();
        assert_eq!(clock.minute_at(6_000), 100);
        assert_eq!(clock.correct_at(6_000, 6_000 + 3_600), 3_600);
        assert_eq!(clock.minute_at(6_060), 161);
        clock.correct_at(6_000, 5_940);
        assert_eq!(clock.minute_at(6_000), 99);
    }

    #[test]
    fn a_refusal_of_the_relays_own_minute_is_about_something_else() {
        let clock = RelayClock::default();
        assert!(clock.correct("https://relay.example", 7_000, 100));
        assert!(!clock.correct("https://relay.example", 6_030, 100));
    }

    #[test]
    fn a_time_that_is_none_does_not_overflow() {
        let clock = RelayClock::default();
        for relay_now in [i64::MIN, i64::MAX] {
            clock.correct("https://relay.example", relay_now, 0);
            let _ = clock.minute();
            clock.minute_at(i64::MIN);
            clock.minute_at(i64::MAX);
        }
    }
}
