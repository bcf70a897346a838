//! Messages that slow responders have in hand, counted by number and by size, so that waiting stays cheap.
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Messages in hand at once, those that wait for a responder included.
const MAX_MESSAGES: u32 = 512;
/// Bytes of all of them.
const MAX_BYTES: u32 = 32 * 1_048_576;

/// Room for messages in hand. Cheap to clone.
#[derive(Clone)]
pub(crate) struct InHand {
    messages: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// A message's place; given back when dropped.
pub(crate) struct Place {
    _message: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

impl InHand {
    pub(crate) fn new() -> InHand {
        let semaphore = |permits: u32| Arc::new(Semaphore::new(permits as usize));
        InHand { messages: semaphore(MAX_MESSAGES), bytes: semaphore(MAX_BYTES) }
    }

    /// Room for a few alone.
    pub(crate) fn few(messages: u32) -> InHand {
        let semaphore = |permits: u32| Arc::new(Semaphore::new(permits as usize));
        InHand { messages: semaphore(messages), bytes: semaphore(MAX_BYTES) }
    }

    /// Takes a place for a message of this size, if there is one.
    pub(crate) fn take(&self, bytes: usize) -> Option<Place> {
        let bytes = u32::try_from(bytes).ok()?;
        let message = Arc::clone(&self.messages).try_acquire_owned().ok()?;
        let bytes = Arc::clone(&self.bytes).try_acquire_many_owned(bytes).ok()?;
        Some(Place { _message: message, _bytes: bytes })
    }

    /// Waits for a place, in the order of those that wait; `None` for a size that never fits.
    pub(crate) async fn wait(&self, bytes: usize) -> Option<Place> {
        let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes <= MAX_BYTES)?;
        let message = Arc::clone(&self.messages).acquire_owned().await.ok()?;
        let bytes = Arc::clone(&self.bytes).acquire_many_owned(bytes).await.ok()?;
        Some(Place { _message: message, _bytes: bytes })
    }

    /// Waits until nothing is in hand any more.
    pub(crate) async fn emptied(&self) {
        let _all = self.messages.acquire_many(MAX_MESSAGES).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_number_and_size_are_bounded() {
        let hand = InHand::new();
        let half = MAX_BYTES as usize / 2;
        let first = hand.take(half).unwrap();
        let _second = hand.take(half).unwrap();
        assert!(hand.take(1).is_none(), "too large together");
        drop(first);
        let places: Vec<_> = (1..MAX_MESSAGES).map(|_| hand.take(1).unwrap()).collect();
        assert!(hand.take(1).is_none(), "too many");
        drop(places);
        assert!(hand.take(usize::MAX).is_none());
        assert!(hand.take(half).is_some());
    }

    #[tokio::test]
    async fn who_waits_gets_the_place_of_whoever_leaves() {
        let hand = InHand::new();
        assert!(hand.wait(usize::MAX).await.is_none());
        let all = hand.take(MAX_BYTES as usize).unwrap();
        let waits = tokio::spawn({
            let hand = hand.clone();
            async move { hand.wait(1).await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        drop(all);
        assert!(waits.await.unwrap());
    }
}
