//! The source that empties a mailbox and ends. It fetches while earlier letters are still handled and acknowledged.
use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{RelayTimes, mailbox::Mailbox, session::Feed};
use crate::TransportError;

/// Letters after which a mailbox counts as one that is never empty; ours hold 1,000.
const MAX_LETTERS: usize = 100_000;
/// Longer than any sensible wait, short enough to be added to a clock.
const MAX_WAIT: Duration = Duration::from_secs(366 * 86_400);
/// As for a listener: a relay that answers sooner without a letter did not wait.
const EARLY: Duration = Duration::from_secs(2);

/// Fetches until the mailbox is empty, or holds only what was left there; waits so long for the first letter.
pub(super) async fn run(
    mailbox: Arc<Mailbox>,
    times: RelayTimes,
    mut feed: Feed,
    wait: Duration,
) -> Result<(), TransportError> {
    let deadline = Instant::now() + wait.min(MAX_WAIT);
    let mut letters = 0;
    // A relay that hands out again what was acknowledged would never be done.
    let mut seen = HashSet::new();
    while letters < MAX_LETTERS {
        let began = Instant::now();
        let patience = if letters == 0 { deadline.saturating_duration_since(began) } else { Duration::ZERO };
        feed.mark();
        let batch = mailbox.poll(patience).await?;
        let is_empty = batch.items.is_empty();
        let qids = batch
            .items
            .iter()
            .filter_map(|item| item.as_ref().map_or_else(|bad| bad.qid.as_ref(), |item| Some(&item.qid)));
        let is_unseen = qids.filter(|qid| seen.insert((*qid).clone())).count() > 0;
        let new = feed.give(batch.items).await;
        letters += new;
        if new > 0 && is_unseen {
            continue;
        }
        if new > 0 {
            tracing::warn!(relay = mailbox.relay(), "the relay hands out again what was acknowledged");
            return Ok(());
        }
        if !is_empty {
            // Copies of what is in hand: a relay that hands out again what is not acknowledged. It may hold more.
            if feed.progressed().await {
                continue;
            }
            return Ok(());
        }
        if letters > 0 || Instant::now() >= deadline {
            return Ok(());
        }
        if began.elapsed() < EARLY {
            tokio::time::sleep(times.min_pause.min(deadline.saturating_duration_since(Instant::now()))).await;
        }
    }
    tracing::warn!(relay = mailbox.relay(), letters, "the mailbox did not get empty");
    Ok(())
}
