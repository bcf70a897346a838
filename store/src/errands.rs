//! Errands: calls that this agent owes to a peer and has not made yet. Written with what made them necessary, in one
//! transaction, so that a decision is never lost between two programs; carried out by whoever is at work first.
use muretai_protocol::{Did, UnixSeconds};

use crate::{Store, StoreError};

/// An errand to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewErrand {
    /// Which act, in the node's words.
    pub kind: String,
    /// To whom.
    pub peer: Did,
    /// What the act needs, as JSON.
    pub payload: String,
    /// When it was decided.
    pub created: UnixSeconds,
    /// When to give up.
    pub expires: UnixSeconds,
}

/// An errand that is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    /// Its number.
    pub id: i64,
    /// As it was written.
    pub errand: NewErrand,
    /// How often it was tried.
    pub attempts: u32,
    /// Why the last attempt failed, for the owner.
    pub last_error: Option<String>,
}

impl Store {
    /// Writes an errand alone. At most 10,000 are kept; then the oldest goes.
    pub async fn add_errand(&self, errand: &NewErrand) -> Result<i64, StoreError> {
        let _ = errand;
        todo!()
    }

    /// Takes errands that are due, at most `limit`, and puts each off until `lease` so that no other process does them
    /// at the same moment. Expired ones are deleted instead.
    pub async fn take_errands(
        &self,
        now: UnixSeconds,
        lease: UnixSeconds,
        limit: u32,
    ) -> Result<Vec<Errand>, StoreError> {
        let _ = (now, lease, limit);
        todo!()
    }

    /// All errands, oldest first.
    pub async fn errands(&self) -> Result<Vec<Errand>, StoreError> {
        todo!()
    }

    /// Done, or pointless.
    pub async fn finish_errand(&self, id: i64) -> Result<(), StoreError> {
        let _ = id;
        todo!()
    }

    /// Not now: tried again at `next`.
    pub async fn postpone_errand(&self, id: i64, next: UnixSeconds, why: &str) -> Result<(), StoreError> {
        let _ = (id, next, why);
        todo!()
    }
}
