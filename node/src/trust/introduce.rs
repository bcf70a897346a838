//! Vouching: writing an introduction, proposing it to its target, taking it back (8).
use std::time::Duration;

use muretai_store::introductions::IntroductionRow;

use super::TrustError;
use crate::Agent;

/// What `introduce` is told.
#[derive(Debug, Clone)]
pub struct IntroduceRequest {
    /// Who is introduced: a contact's name or a DID.
    pub subject: String,
    /// To whom: a direct contact.
    pub target: String,
    /// What the subject knows; empty takes the contact's tags.
    pub expertise: Vec<String>,
    /// 0 to 1000.
    pub trust_level_bp: u16,
    /// How long it stands, 1 to 365 days.
    pub days: u32,
    /// What the target's owner reads beside it.
    pub note: Option<String>,
    /// For the proposal.
    pub timeout: Duration,
}

/// What came of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposed {
    /// The target has it; its owner decides.
    Pending,
    /// The target was not reached: tried again by `serve`.
    Queued,
}

/// A new introduction.
#[derive(Debug, Clone)]
pub struct Introduced {
    /// The introduction.
    pub introduction: IntroductionRow,
    /// How far it is.
    pub proposed: Proposed,
}

/// What came of taking one back.
#[derive(Debug, Clone)]
pub struct Revoked {
    /// The introduction.
    pub introduction: IntroductionRow,
    /// The target was told, now; otherwise `serve` goes on trying, and whoever asks `/revocations` learns it.
    pub is_told: bool,
}

impl Agent {
    /// Introduces a contact to a contact. A refusal by the target takes the introduction back.
    pub async fn introduce(&self, request: &IntroduceRequest) -> Result<Introduced, TrustError> {
        let _ = request;
        todo!()
    }

    /// Takes back an introduction, by its id or an unambiguous part of it (6 characters or more).
    pub async fn revoke_introduction(&self, id: &str, timeout: Duration) -> Result<Revoked, TrustError> {
        let _ = (id, timeout);
        todo!()
    }
}
