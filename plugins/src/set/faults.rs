//! What is logged of faults: each kind once a minute, with how many were passed over since.
use std::{
    collections::HashMap,
    mem::{self, Discriminant},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::engine::PluginFault;

/// How long one kind of fault is told only once.
const QUIET: Duration = Duration::from_secs(60);

/// Remembers which kinds of faults of one plugin were told lately.
#[derive(Default)]
pub(super) struct FaultLog {
    told: Mutex<HashMap<Discriminant<PluginFault>, Told>>,
}

struct Told {
    at: Instant,
    passed_over: u64,
}

impl FaultLog {
    /// Logs a fault of a plugin, unless its kind was logged within the last minute.
    pub(super) fn log(&self, plugin: &str, what: &str, fault: &PluginFault) {
        if let Some(passed_over) = self.is_news(fault, Instant::now()) {
            tracing::warn!(plugin, what, error = fault as &dyn std::error::Error, passed_over, "a plugin failed");
        }
    }

    /// How many of this kind were passed over before this one, when it is to be told.
    fn is_news(&self, fault: &PluginFault, now: Instant) -> Option<u64> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match told.get_mut(&mem::discriminant(fault)) {
            Some(told) if now.saturating_duration_since(told.at) < QUIET => {
                told.passed_over += 1;
                None
            }
            Some(told) => {
                told.at = now;
                Some(mem::take(&mut told.passed_over))
            }
            None => {
                told.insert(mem::discriminant(fault), Told { at: now, passed_over: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_once_a_minute() {
        let (log, start) = (FaultLog::default(), Instant::now());
        let ended = |why: &str| PluginFault::Ended(why.to_owned());
        assert_eq!(log.is_news(&ended("a"), start), Some(0));
        assert_eq!(log.is_news(&PluginFault::Resting, start), Some(0));
        for _ in 0..1_000 {
            assert_eq!(log.is_news(&ended("b"), start + QUIET / 2), None);
        }
        assert_eq!(log.is_news(&ended("c"), start + QUIET), Some(1_000));
        assert_eq!(log.is_news(&ended("d"), start + QUIET), None);
    }
}
