//! Asking a contact who knows something (5.2, `referral/request`).
use std::time::Duration;

use muretai_protocol::{Did, UnixSeconds};

use super::TrustError;
use crate::Agent;

/// What `referral` is told.
#[derive(Debug, Clone)]
pub struct ReferralRequest {
    /// The need, in words.
    pub topic: String,
    /// Whom to ask: a contact's name or a DID.
    pub ask: String,
    /// At most so many, 1 to 20.
    pub limit: u32,
    /// For the request.
    pub timeout: Duration,
}

/// Somebody whom the contact names; the introduction verified and is kept for the first message.
#[derive(Debug, Clone)]
pub struct Referral {
    /// Who.
    pub did: Did,
    /// The local name that it got.
    pub name: String,
    /// What it is said to know; unsafe to show raw.
    pub expertise: Vec<String>,
    /// 0 to 1000.
    pub trust_level_bp: Option<u16>,
    /// Until when the introduction stands.
    pub valid_until: UnixSeconds,
}

/// The contact's answer.
#[derive(Debug, Clone)]
pub struct Referred {
    /// Whom it named.
    pub referrals: Vec<Referral>,
    /// Its owner decides first; what is named then arrives as messages.
    pub is_queued: bool,
    /// How many of its answers did not verify and were dropped.
    pub dropped: u32,
}

impl Agent {
    /// Asks.
    pub async fn referral(&self, request: &ReferralRequest) -> Result<Referred, TrustError> {
        let _ = request;
        todo!()
    }
}
