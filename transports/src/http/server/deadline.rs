//! One timer per connection, moved as rarely as possible.
use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer for a deadline that changes often. Setting it later costs nothing: the timer is moved when it goes off too
/// early. A busy connection so moves its timer once in a few seconds and not several times per request.
#[derive(Debug, Default)]
pub(super) struct Deadline {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// Ready when `at` has passed; otherwise the task is woken then, or earlier.
    pub(super) fn poll(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if at < sleep.deadline() {
            sleep.as_mut().reset(at);
        }
        loop {
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if sleep.deadline() >= at {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn goes_off_at_the_latest_deadline_that_was_set() {
        let start = Instant::now();
        let mut deadline = Deadline::default();
        for secs in [20, 5, 9] {
            let at = start + Duration::from_secs(secs);
            poll_fn(|cx| {
                assert!(deadline.poll(at, cx).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        poll_fn(|cx| deadline.poll(start + Duration::from_secs(9), cx)).await;
        assert_eq!(start.elapsed().as_secs(), 9);
    }
}
