//! Memory for letters on their way out. A reader who does not read keeps what it was to get in memory for as long as a
//! write may take; without a bound, many of them would keep gigabytes.
use std::{sync::Arc, time::Duration};

use muretai_store::mailboxes::Fetched;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Fetches at a time: each may hold as many bytes as one answer until it is known how many there are.
const FETCHES: usize = 64;
/// How long a fetch may wait for its turn: a store that is away makes everybody wait, and they should hear of it.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// All large answers together.
const LARGE_BYTES: usize = 256 * 1_048_576;
/// Up to here an answer is small and not counted.
const SMALL_BYTES: usize = 16_384;
/// What the budget is counted in.
const UNIT: usize = 1_024;

/// The budget of one process.
pub(crate) struct Budget {
    fetches: Semaphore,
    large: Arc<Semaphore>,
    max_letter: usize,
}

/// A share of the budget, given back when dropped.
pub(crate) type Share = Option<OwnedSemaphorePermit>;

impl Budget {
    pub(crate) fn new(max_letter: usize) -> Budget {
        let units = (LARGE_BYTES.max(max_letter) / UNIT).min(Semaphore::MAX_PERMITS);
        Budget { fetches: Semaphore::new(FETCHES), large: Arc::new(Semaphore::new(units)), max_letter }
    }

    /// Fetches at most about `max_bytes`, and the share to hold for as long as the letters are in memory. `late` says that
    /// there was no turn in time.
    pub(crate) async fn fetch<E, F>(
        &self,
        max_bytes: u64,
        late: impl Fn() -> E,
        mut fetch: impl FnMut() -> F,
    ) -> Result<(Fetched, Share), E>
    where
        F: Future<Output = Result<Fetched, E>>,
    {
        {
            let _turn = timeout(TURN_TIMEOUT, self.fetches.acquire()).await.map_err(|_| late())?;
            let fetched = fetch().await?;
            let bytes = size_of(&fetched);
            if bytes <= SMALL_BYTES {
                return Ok((fetched, None));
            }
            if let Ok(share) = Arc::clone(&self.large).try_acquire_many_owned(units(bytes)) {
                return Ok((fetched, Some(share)));
            }
        }
        // No room now. What was fetched is let go, so that those who wait hold nothing.
        let most = usize::try_from(max_bytes).unwrap_or(usize::MAX).max(self.max_letter).min(LARGE_BYTES);
        let share = Arc::clone(&self.large).acquire_many_owned(units(most)).await.ok();
        let _turn = timeout(TURN_TIMEOUT, self.fetches.acquire()).await.map_err(|_| late())?;
        let fetched = fetch().await?;
        let mut share = share;
        let unused = units(most).saturating_sub(units(size_of(&fetched)));
        drop(share.as_mut().and_then(|share| share.split(unused as usize)));
        Ok((fetched, share))
    }
}

fn size_of(fetched: &Fetched) -> usize {
    fetched.letters.iter().map(|letter| letter.blob.len() + letter.id.len()).sum()
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use muretai_protocol::UnixSeconds;
    use muretai_store::mailboxes::StoredLetter;

    use super::*;

    fn letters(bytes: usize) -> Fetched {
        let letter = StoredLetter {
            qid: 1,
            id: String::new(),
            from: String::new(),
            from_enc: None,
            blob: "A".repeat(bytes),
            ts: UnixSeconds(0),
            awaited_until: None,
        };
        Fetched { letters: vec![letter], has_more: false }
    }

    #[tokio::test]
    async fn large_answers_wait_for_each_other_and_small_ones_do_not() {
        let budget = Budget::new(1_048_576);
        let fetch = |bytes| budget.fetch(1_048_576, || (), move || async move { Ok::<_, ()>(letters(bytes)) });
        let mut shares = Vec::new();
        for _ in 0..256 {
            shares.push(fetch(1_048_576).await.unwrap().1.unwrap());
        }
        assert_eq!(budget.large.available_permits(), 0);
        assert!(fetch(SMALL_BYTES).await.unwrap().1.is_none());
        let (second, ()) = tokio::join!(fetch(100_000), async { drop(shares.pop()) });
        assert_eq!(second.unwrap().1.unwrap().num_permits(), 98);
        assert_eq!(budget.large.available_permits(), 1_024, "what was given back");
    }
}
