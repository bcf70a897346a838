//! Waiting for events, up to a deadline.
use std::time::{Duration, Instant};

/// How long anything may take before the program counts as broken; generous, because CI machines are slow.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until `condition` gives a value; fails the test, naming `what`, after [`PATIENCE`].
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
