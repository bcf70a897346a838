//! The owner's policies as the receiver knows them: read again at most once a second, and only when somebody asks who
//! is no direct contact, or for a document.
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use muretai_protocol::rpc::Refusal;

use super::refusals as say;
use crate::{Agent, trust::Policies};

const LIFE: Duration = Duration::from_secs(1);

/// A cache of one value.
#[derive(Debug, Default)]
pub(crate) struct Settings(Mutex<Option<(Instant, Policies)>>);

impl Settings {
    /// The policies, not older than a second. While they cannot be read, the last ones that could stand.
    pub(crate) async fn now(&self, agent: &Agent) -> Result<Policies, Refusal> {
        let known = self.known();
        if let Some((policies, true)) = known {
            return Ok(policies);
        }
        match agent.policies().await {
            Ok(policies) => {
                *self.lock() = Some((Instant::now(), policies));
                Ok(policies)
            }
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the policies could not be read");
                known.map(|(policies, _)| policies).ok_or_else(say::internal)
            }
        }
    }

    /// What is in memory, and whether it counts. Whoever finds it too old reads it anew; others go on with it meanwhile.
    fn known(&self) -> Option<(Policies, bool)> {
        let mut cached = self.lock();
        let (read, policies) = cached.as_mut()?;
        let is_fresh = read.elapsed() < LIFE;
        if !is_fresh {
            *read = Instant::now();
        }
        Some((*policies, is_fresh))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Policies)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next question read them, as a second later would.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }
}
