//! The owner's settings about trust, kept in the store; a running `serve` follows them within a second, but for `gate`,
//! which it reads when it starts.
use muretai_store::StoreError;

use crate::Agent;

/// Who may write without being known (4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GatePolicy {
    /// Contacts, and whom they introduce.
    #[default]
    Closed,
    /// Everybody; the same as `serve --open-door`.
    Open,
}

/// What happens to an introduction by a direct contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IntroductionPolicy {
    /// The owner decides about each.
    #[default]
    Ask,
    /// It is accepted at once.
    Accept,
}

/// Who may ask to connect (5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConnectPolicy {
    /// Anybody, within bounds; the owner decides.
    #[default]
    Filtered,
    /// Everybody is accepted at once.
    Open,
    /// Nobody.
    Closed,
}

/// Who may ask about third parties (5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrustQueryPolicy {
    /// Nobody: everyone only about oneself.
    #[default]
    SelfOnly,
    /// Direct contacts.
    Trusted,
    /// Everybody.
    Public,
}

/// What happens while a revocation list cannot be read (8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RevocationPolicy {
    /// The introduction stands.
    #[default]
    Pass,
    /// It does not.
    Strict,
}

/// What happens to "who of your contacts knows X?" by a direct contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReferralPolicy {
    /// The owner decides about each.
    #[default]
    Ask,
    /// Contacts whose tags fit are named at once.
    Answer,
    /// Refused.
    Closed,
}

/// Whether a sender who is no direct contact needs a verified domain (4.3, `-32015`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DomainPolicy {
    /// It does not matter.
    #[default]
    Any,
    /// A verdict that is not older than 30 days.
    Required,
}

/// All of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policies {
    /// `gate`
    pub gate: GatePolicy,
    /// `introductions`
    pub introductions: IntroductionPolicy,
    /// `connect`
    pub connect: ConnectPolicy,
    /// `trust-query`
    pub trust_query: TrustQueryPolicy,
    /// `revocation`
    pub revocation: RevocationPolicy,
    /// `referral`
    pub referral: ReferralPolicy,
    /// `domain`
    pub domain: DomainPolicy,
    /// `pending`: how many requests of strangers may wait, 1 to 1,000.
    pub pending: u32,
}

/// One setting as `policy show` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Whether the owner never set it.
    pub is_default: bool,
    /// What may be set.
    pub values: &'static str,
    /// What the value means, one short sentence.
    pub meaning: &'static str,
}

impl Agent {
    /// Reads the settings.
    pub async fn policies(&self) -> Result<Policies, StoreError> {
        todo!()
    }

    /// Lists the settings, in a fixed order.
    pub async fn policy_list(&self) -> Result<Vec<Policy>, StoreError> {
        todo!()
    }

    /// Changes one. A name or value that is unknown changes nothing.
    pub async fn set_policy(&self, name: &str, value: &str) -> Result<Policy, super::TrustError> {
        let _ = (name, value);
        todo!()
    }
}
