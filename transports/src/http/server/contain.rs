//! Keeps a fault in one request from taking the connection, or the process, with it.
use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::Poll,
};

/// Runs a call of what is served; `None` when it panicked.
pub(super) async fn contained<T>(mut call: Pin<Box<dyn Future<Output = T> + Send + '_>>) -> Option<T> {
    poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => {
            tracing::error!("the service panicked");
            Poll::Ready(None)
        }
    })
    .await
}

/// The same for what does not wait.
pub(super) fn contained_now<T>(call: impl FnOnce() -> T) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(call));
    if result.is_err() {
        tracing::error!("the service panicked");
    }
    result.ok()
}
