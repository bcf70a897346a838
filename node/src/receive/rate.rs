//! Rate limits (section 12.4): per account first, then in total, counted over a sliding minute.
//!
//! Memory is bounded by the total: only an admitted message makes an entry, entries without a message in the last
//! minute are swept, and no entry is evicted before that. So nobody resets a limit by pushing entries out.
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use muretai_protocol::Did;

/// Signed replies per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Per account.
    pub per_account: u32,
    /// In total.
    pub total: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        RateLimit { per_account: 60, total: 600 }
    }
}

/// Slots of a sliding minute; a message counts for 60 to 65 seconds, never for less.
const SLOTS: usize = 13;
const SLOT_SECS: u64 = 5;
/// Accounts in one minute that memory is spent on, however high the total is set.
const MAX_ACCOUNTS: usize = 65_536;
const FIRST_SWEEP: usize = 1_024;

/// Messages per slot, as a ring. `newest` is the slot number of the last message.
#[derive(Default, Clone)]
struct Window {
    counts: [u32; SLOTS],
    newest: u64,
    sum: u32,
}

impl Window {
    /// Forgets slots that are older than a minute.
    fn advance(&mut self, slot: u64) {
        let steps = slot.saturating_sub(self.newest).min(SLOTS as u64);
        for step in 1..=steps {
            let index = index_of(self.newest + step);
            self.sum -= self.counts[index];
            self.counts[index] = 0;
        }
        self.newest = self.newest.max(slot);
    }
    fn take(&mut self) {
        self.counts[index_of(self.newest)] += 1;
        self.sum += 1;
    }
    /// Seconds until the oldest counted message leaves.
    fn retry_after(&self, now_secs: u64) -> u64 {
        let first = (self.newest + 1).saturating_sub(SLOTS as u64);
        let oldest = (first..=self.newest).find(|slot| self.counts[index_of(*slot)] > 0).unwrap_or(self.newest);
        ((oldest + SLOTS as u64) * SLOT_SECS).saturating_sub(now_secs).max(1)
    }
}

/// The remainder is below `SLOTS`, so the cast loses nothing.
fn index_of(slot: u64) -> usize {
    (slot % SLOTS as u64) as usize
}

struct Windows {
    total: Window,
    accounts: HashMap<Did, Window>,
    sweep_at: usize,
    swept: u64,
}

/// Counts messages against one limit.
pub struct RateLimiter {
    limit: RateLimit,
    started: Instant,
    windows: Mutex<Windows>,
}

impl RateLimiter {
    /// A limiter that has counted nothing yet.
    pub fn new(limit: RateLimit) -> RateLimiter {
        let windows = Windows { total: Window::default(), accounts: HashMap::new(), sweep_at: FIRST_SWEEP, swept: 0 };
        RateLimiter { limit, started: Instant::now(), windows: Mutex::new(windows) }
    }

    /// Counts a message of this account, or says in how many seconds to try again. What is refused is not counted.
    pub fn admit(&self, account: &Did) -> Result<(), u64> {
        self.admit_at(account, self.started.elapsed())
    }

    fn admit_at(&self, account: &Did, since_start: Duration) -> Result<(), u64> {
        let now_secs = since_start.as_secs();
        let slot = now_secs / SLOT_SECS;
        // Nothing below panics while counts are half changed, so a poisoned lock is still usable.
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        windows.total.advance(slot);
        if let Some(window) = windows.accounts.get_mut(account) {
            window.advance(slot);
            if window.sum >= self.limit.per_account {
                return Err(window.retry_after(now_secs));
            }
        } else if self.limit.per_account == 0 {
            return Err(60);
        }
        if windows.total.sum >= self.limit.total {
            return Err(windows.total.retry_after(now_secs));
        }
        windows.make_room(slot);
        if windows.accounts.len() >= MAX_ACCOUNTS && !windows.accounts.contains_key(account) {
            return Err(SLOT_SECS);
        }
        let window = windows.accounts.entry(account.clone()).or_default();
        window.advance(slot);
        window.take();
        windows.total.take();
        Ok(())
    }

    #[cfg(test)]
    fn accounts(&self) -> usize {
        self.windows.lock().unwrap().accounts.len()
    }
}

impl Windows {
    /// Sweeps accounts that were silent for a minute, at most once per slot and only when there are many.
    fn make_room(&mut self, slot: u64) {
        if self.accounts.len() < self.sweep_at || self.swept == slot {
            return;
        }
        self.accounts.retain(|_, window| {
            window.advance(slot);
            window.sum > 0
        });
        self.swept = slot;
        self.sweep_at = (self.accounts.len() * 2).clamp(FIRST_SWEEP, MAX_ACCOUNTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muretai_protocol::did::PublicKey;

    fn account(n: u32) -> Did {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&n.to_be_bytes());
        Did::from_key(&PublicKey::Ed25519(key))
    }
    fn at(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn an_account_has_its_own_limit_and_does_not_spend_the_total_when_refused() {
        let limiter = RateLimiter::new(RateLimit { per_account: 3, total: 5 });
        for _ in 0..3 {
            limiter.admit_at(&account(1), at(0)).unwrap();
        }
        for _ in 0..100 {
            assert_eq!(limiter.admit_at(&account(1), at(1)), Err(64));
        }
        limiter.admit_at(&account(2), at(1)).unwrap();
        limiter.admit_at(&account(3), at(1)).unwrap();
        assert!(limiter.admit_at(&account(4), at(1)).is_err(), "the total is spent");
    }

    #[test]
    fn a_refusal_by_the_total_does_not_count_against_the_account() {
        let limiter = RateLimiter::new(RateLimit { per_account: 2, total: 1 });
        limiter.admit_at(&account(1), at(0)).unwrap();
        for _ in 0..5 {
            assert!(limiter.admit_at(&account(2), at(0)).is_err());
        }
        limiter.admit_at(&account(2), at(65)).unwrap();
    }

    #[test]
    fn no_sixty_seconds_ever_hold_more_than_the_limit() {
        let limiter = RateLimiter::new(RateLimit { per_account: 60, total: 600 });
        let mut admitted = Vec::new();
        for tenth in 0..3_000u64 {
            let now = Duration::from_millis(tenth * 100);
            if limiter.admit_at(&account(1), now).is_ok() {
                admitted.push(now);
            }
        }
        for (n, first) in admitted.iter().enumerate() {
            let in_window = admitted[n..].iter().filter(|t| **t - *first < at(60)).count();
            assert!(in_window <= 60, "{in_window} messages within a minute");
        }
        assert!(admitted.len() >= 240, "the limit is used, not only kept: {}", admitted.len());
    }

    #[test]
    fn the_hint_is_when_the_message_would_pass() {
        let limiter = RateLimiter::new(RateLimit { per_account: 1, total: 10 });
        limiter.admit_at(&account(1), at(7)).unwrap();
        let wait = limiter.admit_at(&account(1), at(20)).unwrap_err();
        assert!(limiter.admit_at(&account(1), at(20 + wait - 1)).is_err());
        limiter.admit_at(&account(1), at(20 + wait)).unwrap();
    }

    #[test]
    fn many_accounts_neither_fill_memory_nor_reset_a_limit() {
        let limiter = RateLimiter::new(RateLimit { per_account: 1, total: 2_000 });
        limiter.admit_at(&account(0), at(0)).unwrap();
        for n in 1..100_000 {
            let _ = limiter.admit_at(&account(n), at(0));
        }
        assert!(limiter.admit_at(&account(0), at(1)).is_err(), "still counted");
        assert!(limiter.accounts() <= 2_000);
        for n in 0..3_000 {
            let _ = limiter.admit_at(&account(200_000 + n), at(100));
        }
        assert!(limiter.accounts() <= 2_049, "{} accounts", limiter.accounts());
    }

    #[test]
    fn a_limit_of_nothing_admits_nothing() {
        let limiter = RateLimiter::new(RateLimit { per_account: 0, total: 0 });
        assert!(limiter.admit_at(&account(1), at(0)).is_err());
    }
}
