//! Who waits, and what was answered: true only while the process lives, so it is in memory alone.
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use muretai_protocol::{Did, UnixSeconds};

use crate::mailboxes::{ANSWER_KEPT_SECS, Qid};

/// Bytes of answers that nobody has taken. Over it a listener is told that its answer did not arrive, and sends a letter.
const MAX_ANSWER_BYTES: usize = 64 * 1_048_576;

#[derive(Default)]
pub(super) struct Online {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    listeners: HashSet<Box<str>>,
    answers: HashMap<Qid, Answer>,
    answer_bytes: usize,
}

struct Answer {
    blob: String,
    until: i64,
}

impl Online {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last word about each counts. Gives those who ceased to wait.
    pub(super) fn change(&self, changes: &[(Did, bool)]) -> Vec<Did> {
        let mut inner = self.lock();
        let mut gone: HashMap<&str, &Did> = HashMap::new();
        for (did, is_online) in changes {
            if *is_online {
                inner.listeners.insert(did.as_str().into());
                gone.remove(did.as_str());
            } else if inner.listeners.remove(did.as_str()) {
                gone.insert(did.as_str(), did);
            }
        }
        gone.into_values().cloned().collect()
    }

    pub(super) fn has(&self, did: &Did) -> bool {
        self.lock().listeners.contains(did.as_str())
    }

    /// A later answer takes the place of an earlier one that nobody has taken.
    pub(super) fn leave_answer(&self, qid: Qid, blob: &str, now: UnixSeconds) -> bool {
        let mut inner = self.lock();
        inner.take(qid);
        if inner.answer_bytes + blob.len() > MAX_ANSWER_BYTES {
            inner.forget_answers(now);
        }
        if inner.answer_bytes + blob.len() > MAX_ANSWER_BYTES {
            return false;
        }
        inner.answer_bytes += blob.len();
        inner.answers.insert(qid, Answer { blob: blob.to_owned(), until: now.0.saturating_add(ANSWER_KEPT_SECS) });
        true
    }

    pub(super) fn take_answer(&self, qid: Qid) -> Option<String> {
        self.lock().take(qid)
    }

    pub(super) fn forget_answers(&self, now: UnixSeconds) {
        self.lock().forget_answers(now);
    }
}

impl Inner {
    fn take(&mut self, qid: Qid) -> Option<String> {
        let answer = self.answers.remove(&qid)?;
        self.answer_bytes -= answer.blob.len();
        Some(answer.blob)
    }

    fn forget_answers(&mut self, now: UnixSeconds) {
        let bytes = &mut self.answer_bytes;
        self.answers.retain(|_, answer| {
            let is_kept = answer.until > now.0;
            if !is_kept {
                *bytes -= answer.blob.len();
            }
            is_kept
        });
    }
}
