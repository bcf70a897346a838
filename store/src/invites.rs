//! Invites that this agent made.
use crate::{
    Store, StoreError,
    contacts::{Contact, Introduce},
};
use muretai_protocol::{Did, UnixSeconds};

/// One invite.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct InviteRow {
    pub nonce: String,
    pub code: String,
    /// The signed card as compact JSON.
    pub card: String,
    /// The owner's note.
    pub note: Option<String>,
    pub created: UnixSeconds,
    pub expires: UnixSeconds,
    pub revoked: Option<UnixSeconds>,
    pub used_by: Option<Did>,
    pub used: Option<UnixSeconds>,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ClaimOutcome {
    /// Spent now, the contact written in the same transaction.
    Accepted(Contact),
    /// The same DID claimed it before, successfully: same success again.
    Repeated(Contact),
    /// Unknown, expired, revoked or spent by another: one answer on the wire; the reason is for the owner's log.
    Refused(ClaimRefusal),
}
/// Why, for the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ClaimRefusal {
    Unknown,
    Expired,
    Revoked,
    Spent,
    /// The claimer is blocked.
    Blocked,
}

/// The request that carries a claim: its id counts as handled in the same transaction.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct ClaimMessage {
    pub message_id: String,
    pub digest: [u8; 32],
}

impl Store {
    /// Stores a minted invite.
    pub async fn add_invite(&self, _invite: &InviteRow) -> Result<(), StoreError> {
        todo!()
    }
    /// All, newest first.
    pub async fn invites(&self) -> Result<Vec<InviteRow>, StoreError> {
        todo!()
    }
    /// The card JSON of a live invite (not revoked, not expired, not spent) by its short code.
    pub async fn invite_card(&self, _code: &str, _now: UnixSeconds) -> Result<Option<String>, StoreError> {
        todo!()
    }
    /// Revokes by nonce or code. `None` when there is no such invite; revoking twice changes nothing.
    pub async fn revoke_invite(
        &self,
        _nonce_or_code: &str,
        _now: UnixSeconds,
    ) -> Result<Option<InviteRow>, StoreError> {
        todo!()
    }
    /// Redeems: checks, spends and writes the contact in one transaction, single use under concurrency.
    pub async fn claim_invite(
        &self,
        _nonce: &str,
        _who: &Introduce,
        _message: &ClaimMessage,
    ) -> Result<ClaimOutcome, StoreError> {
        todo!()
    }
}
