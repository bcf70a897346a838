//! Making and claiming invites (section 7).
use crate::{Agent, Fault};
use muretai_protocol::{Did, UnixSeconds};
use muretai_store::{contacts::Contact, invites::InviteRow};
use std::time::Duration;

/// What `invite create` is told.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)]
pub struct InviteRequest {
    /// Base URL; `None` takes the one that `serve` recorded.
    pub url: Option<String>,
    pub ttl: Option<Duration>,
    pub note: Option<String>,
    pub purpose: Option<String>,
}
/// A new invite.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct NewInvite {
    /// `<url>/i/<code>`.
    pub link: String,
    /// `agent://invite?d=…`, needs no fetch.
    pub token_link: String,
    pub nonce: String,
    pub code: String,
    pub expires: UnixSeconds,
    pub url: String,
    /// No `serve` of this agent is running now.
    pub is_offline: bool,
}

/// What `claim` is told.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct ClaimRequest {
    pub link: String,
    pub timeout: Duration,
    pub allow_private: bool,
    /// Local name for the new contact.
    pub name: Option<String>,
    /// No greeting message afterwards.
    pub no_greeting: bool,
}
/// What came of it.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Claimed {
    pub contact: Contact,
    /// We were connected already.
    pub was_known: bool,
    pub notes: Vec<String>,
}

/// Why an invite was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InviteError {
    /// No base URL.
    #[error("this agent has no address that an invite could name")]
    NoUrl,
    // To be split further: bad url, ttl out of range, store.
}
/// Why a claim failed; distinct for expired, forged, own, refused (unknown, used or revoked), unreachable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The own invite.
    #[error("this invite is your own: {0}")]
    Own(Did),
    // To be split further.
}
impl InviteError {
    /// Whose fault.
    pub fn fault(&self) -> Fault {
        todo!()
    }
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        todo!()
    }
}
impl ClaimError {
    /// Whose fault.
    pub fn fault(&self) -> Fault {
        todo!()
    }
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        todo!()
    }
}

impl Agent {
    /// Mints and stores an invite.
    pub async fn create_invite(&self, _request: &InviteRequest) -> Result<NewInvite, InviteError> {
        todo!()
    }
    /// All invites, newest first.
    pub async fn invites(&self) -> Result<Vec<InviteRow>, InviteError> {
        todo!()
    }
    /// Revokes by link, nonce or code.
    pub async fn revoke_invite(&self, _what: &str) -> Result<Option<InviteRow>, InviteError> {
        todo!()
    }
    /// Redeems a link: verify, store the contact, `onboard/claim`, greeting. A refused claim leaves no contact behind.
    pub async fn claim(&self, _request: &ClaimRequest) -> Result<Claimed, ClaimError> {
        todo!()
    }
}
