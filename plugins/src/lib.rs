//! What skills and trust policies implement. The built-in ones and those that are loaded attach in the same place.
#![forbid(unsafe_code)]
use async_trait::async_trait;
use muretai_protocol::{Did, message::Verified, rpc::Refusal};

/// What a trust policy is told about a sender whose signature verified.
#[derive(Debug)]
#[non_exhaustive]
pub struct Applicant<'a> {
    /// The sender.
    pub did: &'a Did,
    /// Blocked by the owner.
    pub is_blocked: bool,
    /// A direct contact.
    pub is_direct: bool,
    /// The message.
    pub message: &'a Verified,
}
impl<'a> Applicant<'a> {
    /// For whoever runs the gate.
    pub fn new(did: &'a Did, is_blocked: bool, is_direct: bool, message: &'a Verified) -> Self {
        Applicant { did, is_blocked, is_direct, message }
    }
}

/// What one policy says. The gate asks its policies in order until one decides; nobody deciding is a refusal.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Let the message in.
    Admit,
    /// Refuse it.
    Refuse(Refusal),
    /// Not for this policy to say.
    Pass,
}

/// Decides about a sender (section 4.3).
#[async_trait]
pub trait TrustPolicy: Send + Sync {
    /// A short name for logs and `doctor`.
    fn name(&self) -> &str;
    /// Decides; a policy that fails says `Refuse`, never `Admit`.
    async fn decide(&self, applicant: &Applicant<'_>) -> Decision;
}

/// The text of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// What the reply says; may be empty.
    pub text: String,
    /// Machine-made acknowledgement or failure: `auto:true`.
    pub is_auto: bool,
    /// The additive metadata member `status`: `accepted`, `no-answer`.
    pub status: Option<&'static str>,
}

/// Answers messages that passed the gate.
#[async_trait]
pub trait Responder: Send + Sync {
    /// Answers. Never fails: a fault is an honest response that says so.
    async fn respond(&self, message: &Verified) -> Response;
}
