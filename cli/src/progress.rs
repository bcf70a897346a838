//! A spinner on stderr once something takes longer than a person expects, and a count of what is done.

use std::{sync::Arc, time::Duration};

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

/// A count that a person sees grow; nothing at all where progress is not shown. Dropping it clears the line.
pub(crate) struct Counter(Cleared);

impl Counter {
    /// Begins at zero: `fetching letters: 0`.
    pub(crate) fn start(out: &Output, what: &str) -> Counter {
        let bar = if out.can_animate() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}: {pos} ({elapsed})") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(TICK);
        Counter(Cleared(bar))
    }
    /// What sets it, from whichever thread.
    pub(crate) fn handle(&self) -> Arc<dyn Fn(u64) + Send + Sync> {
        let bar = self.0.0.clone();
        Arc::new(move |count| bar.set_position(count))
    }
}
