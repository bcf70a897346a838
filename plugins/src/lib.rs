//! What skills and trust policies implement. The built-in ones and those that are loaded attach in the same place.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod child;
pub mod contract;
pub mod engine;
pub mod manifest;
pub mod native;
pub mod new;
pub mod set;
pub mod wasm;

use async_trait::async_trait;
use muretai_protocol::{Did, UnixSeconds, message::Verified, rpc::Refusal};

/// What everybody is told who may not write here: strangers, the blocked, and whoever meets a policy that failed. One
/// text, so that none of them can be told apart.
pub const STRANGER_DETAIL: &str = "this agent answers its contacts only; ask its owner for an invite";

/// What this agent's owner has decided about a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContactState {
    /// Nothing. Also what is said of somebody who is blocked: a block must not show.
    None,
    /// A direct contact.
    Direct,
    /// Introduced by a direct contact, and the introduction stands.
    Introduced,
}

/// An introduction whose proof verified, for this sender and this agent. Nothing unverified is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntroductionFacts {
    /// Who vouches.
    pub issuer: Did,
    /// The issuer is a direct contact.
    pub is_issuer_direct: bool,
    /// The owner accepted this introduction.
    pub is_accepted: bool,
    /// Its issuer took it back, as far as is known.
    pub is_revoked: bool,
    /// 0 to 1000.
    pub trust_level_bp: Option<u16>,
    /// What the issuer says that the sender knows.
    pub expertise: Vec<String>,
    /// The first second in which it is no longer valid.
    pub valid_until: UnixSeconds,
}

/// What a trust policy is told about a sender whose signature verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applicant {
    /// The sender: the DID that signed, never one that the message merely names.
    pub did: Did,
    /// What the owner decided.
    pub contact: ContactState,
    /// The introduction that it presents, or that the owner accepted.
    pub introduction: Option<IntroductionFacts>,
    /// A domain that was proven to be the sender's, lately.
    pub domain: Option<String>,
    /// The method: `message/send`, `connect/request` …
    pub method: &'static str,
    /// Our clock.
    pub now: UnixSeconds,
}

/// What one policy says. The gate asks its policies in order until one decides; nobody deciding is a refusal.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Let the message in. For methods that have a policy of their own it means no more than [`Decision::Pass`].
    Admit,
    /// Refuse it.
    Refuse(Refusal),
    /// Put it before the owner.
    Hold,
    /// Not for this policy to say.
    Pass,
}

/// Decides about a sender (section 4.3).
#[async_trait]
pub trait TrustPolicy: Send + Sync {
    /// Names the policy in logs and in `doctor`.
    fn name(&self) -> &str;
    /// Decides. A policy that cannot find out says `Refuse`, never `Admit`. May be dropped before it is done.
    async fn decide(&self, applicant: &Applicant) -> Decision;
}

/// Something that a client may offer to its user instead of typing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What is sent: the first word of a message.
    pub keyword: String,
    /// What is shown.
    pub label: String,
    /// What follows the keyword, for the user to fill in.
    pub params: Option<String>,
}

/// The text of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// What the reply says; may be empty. Longer than `MAX_TEXT_BYTES` is answered as a failure.
    pub text: String,
    /// Made by a machine, an acknowledgement or a failure: `auto:true` on the wire.
    pub is_auto: bool,
    /// The additive metadata member `status`: `accepted`, `no-answer`, `held`.
    pub status: Option<&'static str>,
    /// The additive metadata member `commands`.
    pub commands: Vec<Command>,
}

impl Response {
    /// An answer in the agent's own words.
    pub fn answer(text: String) -> Response {
        Response { text, ..Response::default() }
    }
    /// The acknowledgement of a message that is read later (section 3.5): no text.
    pub fn accepted() -> Response {
        Response { is_auto: true, status: Some("accepted"), ..Response::default() }
    }
    /// The acknowledgement of a message that waits for the owner's decision about its sender.
    pub fn held() -> Response {
        Response { is_auto: true, status: Some("held"), ..Response::default() }
    }
    /// The honest statement that nobody answered, with a short reason that shows nothing internal.
    pub fn no_answer(reason: &str) -> Response {
        Response {
            text: format!("no answer: {reason}"),
            is_auto: true,
            status: Some("no-answer"),
            ..Response::default()
        }
    }
}

/// Answers messages that passed the gate.
#[async_trait]
pub trait Responder: Send + Sync {
    /// Answers. Never fails: a fault is an honest response that says so. Dropping the future stops the work.
    async fn respond(&self, message: &Verified) -> Response;
}

/// A skill as the card shows it (6.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillInfo {
    /// What a message begins with to reach it.
    pub id: String,
    /// For people.
    pub name: String,
    /// For people.
    pub description: String,
    /// For search.
    pub tags: Vec<String>,
    /// Messages that it answers, without the id in front.
    pub examples: Vec<String>,
}

/// The skills of one agent, whatever they are made of.
#[async_trait]
pub trait Skills: Send + Sync {
    /// What the card lists, in order.
    fn list(&self) -> Vec<SkillInfo>;
    /// Answers a message that is addressed to a skill by its first word, or that the default skill takes. `None` when no
    /// skill is meant. A fault is an honest response. Dropping the future stops the work.
    async fn respond(&self, message: &Verified, contact: ContactState) -> Option<Response>;
}
