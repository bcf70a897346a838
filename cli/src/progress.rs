//! A spinner on stderr, once something takes longer than a person expects.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Output;

/// How long a person waits without asking why.
const PATIENCE: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(100);

/// Runs a future, and shows what is waited for when it takes more than half a second. Dropping it clears the line.
pub(crate) async fn watch<T>(out: &Output, what: String, work: impl Future<Output = T>) -> T {
    if !out.can_animate() {
        return work.await;
    }
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = tokio::time::sleep(PATIENCE) => {}
    }
    let spinner = Cleared(ProgressBar::new_spinner());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        spinner.0.set_style(style);
    }
    spinner.0.set_message(what);
    spinner.0.enable_steady_tick(TICK);
    work.await
}

struct Cleared(ProgressBar);

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
