//! The signal that ends listeners.
use std::sync::Arc;

use tokio::sync::watch;

/// Told once to stop; clones see it too.
#[derive(Clone, Debug)]
pub struct Stop {
    fired: Arc<watch::Sender<bool>>,
}

impl Stop {
    /// Makes a signal that nothing has fired yet.
    pub fn new() -> Stop {
        Stop { fired: Arc::new(watch::Sender::new(false)) }
    }

    /// Fires it. Firing twice is harmless.
    pub fn stop(&self) {
        self.fired.send_replace(true);
    }

    /// Says whether it has fired.
    pub fn is_stopped(&self) -> bool {
        *self.fired.borrow()
    }

    /// Waits until it fires; returns at once when it already has. Dropping the future is harmless.
    pub async fn stopped(&self) {
        let mut fired = self.fired.subscribe();
        // The sender lives in `self`, so the channel cannot close while this waits.
        let _ = fired.wait_for(|fired| *fired).await;
    }
}

impl Default for Stop {
    fn default() -> Stop {
        Stop::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wakes_every_clone_and_stays_fired() {
        let stop = Stop::new();
        let waiting = tokio::spawn({
            let stop = stop.clone();
            async move { stop.stopped().await }
        });
        assert!(!stop.is_stopped());
        stop.clone().stop();
        stop.stop();
        waiting.await.unwrap();
        assert!(stop.is_stopped());
        stop.stopped().await;
    }
}
