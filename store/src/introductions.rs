//! Introductions (section 8): the ones that this agent wrote, was told of, and was given.
use muretai_protocol::{Did, UnixSeconds};

use crate::{Store, StoreError, contacts::Contact, errands::NewErrand, messages::Handling, requests::Decision};

/// Which of the three parties this agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The issuer: this agent vouches.
    Issued,
    /// The target: somebody is introduced to this agent.
    Received,
    /// The subject: this agent was introduced, and presents the introduction to the target.
    Held,
}

/// What became of an introduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntroductionStatus {
    /// Waits: for the target's answer (issued), the owner's decision (received), or its first use (held).
    Pending,
    /// The target accepted it (issued), the owner did (received), or it was used and worked (held).
    Accepted,
    /// Somebody said no.
    Rejected,
    /// The issuer took it back.
    Revoked,
    /// Ended by what became of its issuer: the owner removed the contact. Comes never back to life.
    Ended,
}

/// One introduction. Whether it has expired is for the reader to see: [`IntroductionRow::valid_until`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntroductionRow {
    /// The credential's id, unique for its issuer.
    pub id: String,
    /// Which party this agent is.
    pub role: Role,
    /// Who vouches.
    pub issuer: Did,
    /// Who is introduced.
    pub subject: Did,
    /// To whom.
    pub target: Did,
    /// What became of it.
    pub status: IntroductionStatus,
    /// How far the issuer trusts the subject, 0 to 1000.
    pub trust_level_bp: Option<u16>,
    /// What the issuer says that the subject knows; unsafe to show raw.
    pub expertise: Vec<String>,
    /// When it was signed.
    pub issued: UnixSeconds,
    /// The first second in which it is no longer valid.
    pub valid_until: UnixSeconds,
    /// Where its revocation is asked.
    pub issuer_endpoint: Option<String>,
    /// The subject asked for it, and its signed request is inside.
    pub is_requested: bool,
    /// The signed credential as compact JSON.
    pub vc: String,
    /// When it was written here.
    pub created: UnixSeconds,
    /// When its status changed last.
    pub changed: UnixSeconds,
}

/// What came of keeping an introduction that somebody gave this agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Stored now, or stored before with the same content; the target as a contact.
    Stored(Contact),
    /// There is direct trust to the target already: nothing to keep.
    NotNeeded(Contact),
    /// The owner blocked the target, or the bound on what an issuer may give is reached.
    Refused,
}

impl Store {
    /// Stores an introduction that this agent signed, with the errand that takes it on its way. The same id twice is
    /// [`StoreError::InviteExists`]'s kind of programming error and fails.
    pub async fn add_issued(&self, row: &IntroductionRow, errand: Option<NewErrand>) -> Result<(), StoreError> {
        let _ = (row, errand);
        todo!()
    }

    /// Introductions of one role, or all, newest first.
    pub async fn introductions(&self, role: Option<Role>) -> Result<Vec<IntroductionRow>, StoreError> {
        let _ = role;
        todo!()
    }

    /// One introduction.
    pub async fn introduction(
        &self,
        role: Role,
        issuer: &Did,
        id: &str,
    ) -> Result<Option<IntroductionRow>, StoreError> {
        let _ = (role, issuer, id);
        todo!()
    }

    /// The introductions that let `subject` in now, best trust level first: accepted by the owner, unexpired, issued by
    /// somebody who is a direct contact and not blocked. Both ways: as the subject of one that was received, and as the
    /// target of one that was held and has worked.
    pub async fn standing_introductions(
        &self,
        subject: &Did,
        now: UnixSeconds,
    ) -> Result<Vec<IntroductionRow>, StoreError> {
        let _ = (subject, now);
        todo!()
    }

    /// The best introduction to present to `target`: held, unexpired, neither rejected nor revoked, its issuer a direct
    /// contact.
    pub async fn held_for(&self, target: &Did, now: UnixSeconds) -> Result<Option<IntroductionRow>, StoreError> {
        let _ = (target, now);
        todo!()
    }

    /// Keeps an introduction that somebody gave this agent: the row, and its target as a contact of relation
    /// [`crate::contacts::Relation::Offered`] with a name and coordinates (source `Peer`). An issuer may give at most
    /// 256 live ones. A contact that is there keeps its stronger relation.
    pub async fn keep_held(
        &self,
        row: &IntroductionRow,
        target: &crate::contacts::Introduce,
    ) -> Result<Kept, StoreError> {
        let _ = (row, target);
        todo!()
    }

    /// Records that a held introduction was presented: `worked` makes it accepted, and the contact `Introduced`; otherwise
    /// `status` says what the target answered.
    pub async fn record_presented(
        &self,
        issuer: &Did,
        id: &str,
        status: IntroductionStatus,
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        let _ = (issuer, id, status, now);
        todo!()
    }

    /// Takes back an introduction that this agent issued; `None` when there is none. Twice changes nothing. The errands
    /// (such as telling the target) are stored in the same transaction, and a pending delivery of it is dropped.
    pub async fn revoke_issued(
        &self,
        id: &str,
        now: UnixSeconds,
        errand: Option<NewErrand>,
    ) -> Result<Option<IntroductionRow>, StoreError> {
        let _ = (id, now, errand);
        todo!()
    }

    /// The ids of what this agent issued, revoked, and would otherwise still be valid: sorted.
    pub async fn revoked_ids(&self, now: UnixSeconds) -> Result<Vec<String>, StoreError> {
        let _ = now;
        todo!()
    }

    /// Marks what a verified list of `issuer` names, received and held, as revoked; contacts that nothing else vouches
    /// for go back to none. Gives how many changed. An id that is not here costs nothing.
    pub async fn mark_revoked(&self, issuer: &Did, ids: &[String], now: UnixSeconds) -> Result<u64, StoreError> {
        let _ = (issuer, ids, now);
        todo!()
    }

    /// Records the target's answer to an introduction of ours, from `introduce/respond`, with the errand that gives the
    /// subject its introduction. The id counts as handled in the same transaction, whatever was found.
    pub async fn settle_issued(
        &self,
        id: &str,
        target: &Did,
        decision: Decision,
        errand: Option<NewErrand>,
        handling: &Handling,
        now: UnixSeconds,
    ) -> Result<Settled, StoreError> {
        let _ = (id, target, decision, errand, handling, now);
        todo!()
    }
}

/// What came of a target's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Recorded now; the row as it is.
    Recorded(IntroductionRow),
    /// No pending introduction with this id to this target.
    NoSuch,
    /// The request's id was handled before; nothing changed.
    Duplicate {
        /// An honest re-send.
        same_content: bool,
    },
}
