//! How many calls run at the same time. Slow skills must not keep the gate from its policy.
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::engine::{CallKind, PluginFault};

/// A lane for each call that may run, and one more that only policies take.
pub(super) struct Lanes {
    all: Semaphore,
    reserved: Semaphore,
}

impl Lanes {
    pub(super) fn new(max_running: usize) -> Lanes {
        Lanes { all: Semaphore::new(max_running.clamp(1, 1024)), reserved: Semaphore::new(1) }
    }

    /// Waits for a lane, in order of arrival.
    ///
    /// # Errors
    /// `TimedOut` when none became free.
    pub(super) async fn enter(&self, kind: CallKind, timeout: Duration) -> Result<SemaphorePermit<'_>, PluginFault> {
        if let Ok(permit) = self.all.try_acquire() {
            return Ok(permit);
        }
        let entered = async {
            if kind == CallKind::Skill {
                return self.all.acquire().await;
            }
            tokio::select! {
                biased;
                permit = self.reserved.acquire() => permit,
                permit = self.all.acquire() => permit,
            }
        };
        match tokio::time::timeout(timeout, entered).await {
            // Neither is ever closed.
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(PluginFault::TimedOut(timeout)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_policy_has_a_lane_when_skills_take_all_others() {
        let lanes = Lanes::new(2);
        let second = Duration::from_secs(1);
        let _busy =
            (lanes.enter(CallKind::Skill, second).await.unwrap(), lanes.enter(CallKind::Skill, second).await.unwrap());
        assert_eq!(lanes.enter(CallKind::Skill, second).await.err(), Some(PluginFault::TimedOut(second)));
        let policy = lanes.enter(CallKind::Policy, second).await.unwrap();
        assert_eq!(lanes.enter(CallKind::Policy, second).await.err(), Some(PluginFault::TimedOut(second)));
        drop(policy);
        let _policy = lanes.enter(CallKind::Policy, second).await.unwrap();
    }
}
