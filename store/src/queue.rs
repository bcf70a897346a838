//! How the tasks that own connections take their requests.
use tokio::{sync::mpsc, task::yield_now};

/// Waits for requests and takes what is there, at most `limit`. Gives how many; 0 once every sender is gone.
///
/// The task steps back once before it takes them: the scheduler runs a task that was just woken ahead of those that were
/// ready before, so the first request would always travel alone, and a trip to the database costs the same for many.
pub(crate) async fn take_waiting<T>(jobs: &mut mpsc::Receiver<T>, waiting: &mut Vec<T>, limit: usize) -> usize {
    let first = jobs.recv_many(waiting, limit).await;
    if first == 0 || first == limit {
        return first;
    }
    yield_now().await;
    let mut taken = first;
    while taken < limit
        && let Ok(job) = jobs.try_recv()
    {
        waiting.push(job);
        taken += 1;
    }
    taken
}
