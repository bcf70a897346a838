//! Pauses between attempts: they double, with as much again at random, so that the listeners of a relay that comes back
//! do not come back together.
use std::time::Duration;

/// Longest wait that a relay may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// How long to wait after the next failure.
#[derive(Debug, Clone)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(min: Duration, max: Duration) -> Backoff {
        Backoff { min, max, failures: 0 }
    }

    /// The same after so many failures.
    pub(super) fn after(self, failures: u32) -> Backoff {
        Backoff { failures, ..self }
    }

    /// The pause after one more failure; at least as long as the relay asked for. `random` is uniform.
    pub(super) fn pause(&mut self, random: u32, retry_after: Option<Duration>) -> Duration {
        let half = self.min.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        let pause = half.saturating_add(half.mul_f64(f64::from(random) / f64::from(u32::MAX))).min(self.max);
        pause.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER))
    }

    /// Failures since the last success.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Something worked.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again_after_a_success() {
        let mut backoff = Backoff::new(secs(1), secs(60));
        let pauses: Vec<u64> = (0..8).map(|_| backoff.pause(0, None).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        backoff.reset();
        assert_eq!(backoff.pause(u32::MAX, None), secs(2));
        (0..100).for_each(|_| assert!(backoff.pause(u32::MAX, None) <= secs(60)));
    }

    #[test]
    fn a_relay_may_ask_for_more_within_reason() {
        let mut backoff = Backoff::new(secs(1), secs(60));
        assert_eq!(backoff.pause(0, Some(secs(300))), secs(300));
        assert_eq!(backoff.pause(0, Some(secs(0))), secs(2));
        assert_eq!(backoff.pause(0, Some(secs(86_400))), secs(3_600));
    }
}
