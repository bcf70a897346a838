//! What skills and trust policies implement. The built-in ones and those that are loaded attach in the same place.
#![forbid(unsafe_code)]
use async_trait::async_trait;
use muretai_protocol::{Did, message::Verified, rpc::Refusal};

/// What a trust policy is told about a sender whose signature verified.
#[derive(Debug)]
#[non_exhaustive]
pub struct Applicant<'a> {
    /// The sender: the DID that signed, never one that the message merely names.
    pub did: &'a Did,
    /// The owner blocked it.
    pub is_blocked: bool,
    /// It is a direct contact.
    pub is_direct: bool,
    /// The message. Everything in it beyond the six signed values is unproven.
    pub message: &'a Verified,
}

impl<'a> Applicant<'a> {
    /// Describes a sender, for whoever runs the gate.
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
    /// Names the policy in logs and in `doctor`.
    fn name(&self) -> &str;
    /// Decides. A policy that cannot find out says `Refuse`, never `Admit`. May be dropped before it is done.
    async fn decide(&self, applicant: &Applicant<'_>) -> Decision;
}

/// The text of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// What the reply says; may be empty. Longer than `MAX_TEXT_BYTES` is answered as a failure.
    pub text: String,
    /// Made by a machine, an acknowledgement or a failure: `auto:true` on the wire.
    pub is_auto: bool,
    /// The additive metadata member `status`: `accepted`, `no-answer`.
    pub status: Option<&'static str>,
}

impl Response {
    /// An answer in the agent's own words.
    pub fn answer(text: String) -> Response {
        Response { text, is_auto: false, status: None }
    }
    /// The acknowledgement of a message that is read later (section 3.5): no text.
    pub fn accepted() -> Response {
        Response { text: String::new(), is_auto: true, status: Some("accepted") }
    }
    /// The honest statement that nobody answered, with a short reason that shows nothing internal.
    pub fn no_answer(reason: &str) -> Response {
        Response { text: format!("no answer: {reason}"), is_auto: true, status: Some("no-answer") }
    }
}

/// Answers messages that passed the gate.
#[async_trait]
pub trait Responder: Send + Sync {
    /// Answers. Never fails: a fault is an honest response that says so. Dropping the future stops the work.
    async fn respond(&self, message: &Verified) -> Response;
}
