//! Notices that the machine slept: the wall clock then ran on while ours stood, or a tick came far too late. What was
//! connected before is not connected any more, though nothing has said so.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Between two looks at the clocks.
const TICK: Duration = Duration::from_secs(5);
/// How far the clocks may part between two looks; whoever sets a clock by hand causes one needless reconnect.
const MAX_DRIFT: Duration = Duration::from_secs(15);
/// How late a look may be. A machine under load is late by less.
const MAX_LATENESS: Duration = Duration::from_secs(30);

/// What the clocks said.
#[derive(Debug, Clone, Copy)]
struct Look {
    /// Since 1970.
    wall: Duration,
    /// Since some moment; may stand still while the machine sleeps.
    steady: Duration,
}

impl Look {
    /// Whether the machine slept between the two.
    fn slept_since(&self, before: Look) -> bool {
        let steady = self.steady.saturating_sub(before.steady);
        // A wall clock that was set back says nothing.
        let wall = self.wall.saturating_sub(before.wall);
        wall > steady + MAX_DRIFT || steady > TICK + MAX_LATENESS
    }
}

/// Returns once the machine has slept. Dropping the future is harmless.
pub(super) async fn slept() {
    let start = Instant::now();
    let look =
        || Look { wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(), steady: start.elapsed() };
    let mut before = look();
    loop {
        tokio::time::sleep(TICK).await;
        let now = look();
        if now.slept_since(before) {
            return;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(wall: u64, steady: u64) -> Look {
        Look { wall: Duration::from_secs(wall), steady: Duration::from_secs(steady) }
    }

    #[test]
    fn a_wall_clock_that_ran_on_tells_of_sleep() {
        let before = look(1_000_000, 50);
        assert!(!look(1_000_005, 55).slept_since(before));
        assert!(!look(1_000_015, 55).slept_since(before), "drift");
        assert!(look(1_003_600, 55).slept_since(before), "an hour, in which the steady clock stood");
    }

    #[test]
    fn a_look_that_comes_late_tells_of_sleep_where_the_steady_clock_runs_on() {
        let before = look(1_000_000, 50);
        assert!(!look(1_000_020, 70).slept_since(before), "a busy machine");
        assert!(look(1_003_600, 3_650).slept_since(before));
    }

    #[test]
    fn a_clock_that_is_set_back_tells_nothing() {
        let before = look(1_000_000, 50);
        assert!(!look(996_400, 55).slept_since(before));
        assert!(!look(0, 55).slept_since(before));
    }
}
