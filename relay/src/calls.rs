//! Depositors that wait for an answer (`POST /rpc`), and the answers that come (`POST /reply`).
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use muretai_protocol::Did;
use muretai_store::mailboxes::Qid;
use tokio::sync::{Notify, mpsc};

/// Depositors that have gone and whose letters are yet to be marked. What does not fit ends by its time.
const MAX_GONE: usize = 4_096;

/// Everybody who waits at this process.
pub(crate) struct Calls {
    waiting: Mutex<HashMap<Qid, Vec<Arc<Call>>>>,
    count: AtomicUsize,
    most: usize,
    is_stopping: AtomicBool,
    gone: mpsc::Sender<(Did, Qid)>,
    /// Taken by whoever marks the letters of depositors that have gone.
    gone_out: Mutex<Option<mpsc::Receiver<(Did, Qid)>>>,
}

/// One who waits.
struct Call {
    to: Did,
    answer: Mutex<Option<String>>,
    notify: Notify,
}

/// The right to wait, one of a bounded number.
pub(crate) struct Place<'c>(&'c Calls);

/// One who waits, until dropped.
pub(crate) struct Waiting<'c> {
    calls: &'c Calls,
    qid: Qid,
    call: Arc<Call>,
    /// The letter says that it is awaited, and nobody will be there.
    has_to_tell: bool,
    _place: Place<'c>,
}

impl Calls {
    pub(crate) fn new(most: usize) -> Calls {
        let (gone, gone_out) = mpsc::channel(MAX_GONE);
        Calls {
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
            most,
            is_stopping: AtomicBool::new(false),
            gone,
            gone_out: Mutex::new(Some(gone_out)),
        }
    }

    /// `None` when as many wait as may.
    pub(crate) fn place(&self) -> Option<Place<'_>> {
        let place = Place(self);
        let is_free = self.count.fetch_add(1, Ordering::Relaxed) < self.most;
        (is_free && !self.is_stopping()).then_some(place)
    }

    /// Begins to wait for the answer of `to`. What was answered before is in the store: look there next.
    pub(crate) fn wait<'c>(&'c self, place: Place<'c>, to: &Did, qid: Qid) -> Waiting<'c> {
        let call = Arc::new(Call { to: to.clone(), answer: Mutex::default(), notify: Notify::new() });
        self.lock().entry(qid).or_default().push(Arc::clone(&call));
        Waiting { calls: self, qid, call, has_to_tell: true, _place: place }
    }

    /// Hands an answer to one who waits here for this letter of this mailbox. Gives the answer back when nobody does.
    pub(crate) fn answer(&self, to: &Did, qid: Qid, blob: String) -> Result<(), String> {
        let waiting = self.lock();
        for call in waiting.get(&qid).into_iter().flatten().filter(|call| call.to == *to) {
            let mut answer = call.answer.lock().unwrap_or_else(PoisonError::into_inner);
            if answer.is_none() {
                *answer = Some(blob);
                call.notify.notify_one();
                return Ok(());
            }
        }
        Err(blob)
    }

    /// An answer may be in the store.
    pub(crate) fn wake(&self, qid: Qid) {
        self.lock().get(&qid).into_iter().flatten().for_each(|call| call.notify.notify_one());
    }

    /// Letters whose answers are awaited here.
    pub(crate) fn awaited(&self) -> Vec<Qid> {
        self.lock().keys().copied().collect()
    }

    fn wake_all(&self) {
        self.lock().values().flatten().for_each(|call| call.notify.notify_one());
    }

    /// Sends everybody away.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Letters whose depositors have gone. Taken once.
    pub(crate) fn gone(&self) -> Option<mpsc::Receiver<(Did, Qid)>> {
        self.gone_out.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Qid, Vec<Arc<Call>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting<'_> {
    /// An answer that was handed over in this process.
    pub(crate) fn take(&self) -> Option<String> {
        self.call.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits for something to look at: an answer here, one in the store, or the end.
    pub(crate) async fn woken(&self) {
        self.call.notify.notified().await;
    }

    /// The letter's time is over by itself; nobody has to be told.
    pub(crate) fn ran_out(&mut self) {
        self.has_to_tell = false;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.calls.lock();
        if let Some(calls) = waiting.get_mut(&self.qid) {
            calls.retain(|call| !Arc::ptr_eq(call, &self.call));
            if calls.is_empty() {
                waiting.remove(&self.qid);
            } else {
                return; // another one waits for the same
            }
        }
        if self.has_to_tell {
            let _ = self.calls.gone.try_send((self.call.to.clone(), self.qid));
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::key;

    #[tokio::test]
    async fn an_answer_goes_to_one_who_waits_for_that_mailbox() {
        let calls = Calls::new(2);
        let (south, west) = (key(2), key(3));
        let waiting = calls.wait(calls.place().unwrap(), south.did(), 7);
        assert!(calls.answer(west.did(), 7, "theirs".to_owned()).is_err());
        assert!(calls.answer(south.did(), 8, "other".to_owned()).is_err());
        calls.answer(south.did(), 7, "AAAA".to_owned()).unwrap();
        waiting.woken().await;
        assert_eq!(waiting.take().as_deref(), Some("AAAA"));
        let also = calls.wait(calls.place().unwrap(), south.did(), 7);
        assert!(calls.place().is_none(), "two places");
        drop((waiting, also));
        assert_eq!(calls.count(), 0);
        assert!(calls.answer(south.did(), 7, String::new()).is_err(), "nobody waits");
        assert_eq!(calls.gone().unwrap().recv().await, Some((south.did().clone(), 7)), "once, by the last one");
    }
}
