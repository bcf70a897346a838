//! What the methods do with a message that passed the ladder: one module each.
//!
//! A blocked peer is a stranger to every method, and is answered with the same bytes. A request that changes something
//! is recorded as handled in the transaction that changes it; one that changes nothing is not remembered at all, so the
//! same request again is answered anew.
pub(crate) mod about;
pub mod claim;
pub(crate) mod connect;
pub(crate) mod hold;
pub(crate) mod introduce;
pub mod params;
pub(crate) mod question;
pub(crate) mod referral;
pub mod send;
pub(crate) mod status;
pub(crate) mod told;

use muretai_plugins::IntroductionFacts;
use muretai_protocol::{
    UnixSeconds,
    json::Value,
    rpc::{Code, Refusal},
};
use muretai_store::{StoreError, requests::PendingLimits};
use tokio::sync::Notify;

use super::{
    gate::{Gate, Sender},
    ladder::Passed,
    refusals::{self as say, plain},
};
use crate::{Agent, trust::Policies};

/// Connect requests and held messages of strangers whom nobody vouches for, within an hour (5.2).
const STRANGERS_PER_HOUR: u32 = 5;
/// How long a request waits for its owner.
const REQUEST_LIFE_SECS: i64 = 30 * 86_400;

/// What a method has at hand.
pub(crate) struct Desk<'a> {
    pub(crate) agent: &'a Agent,
    /// Where this agent is served.
    pub(crate) url: &'a str,
    pub(crate) gate: &'a Gate,
    pub(crate) policies: Policies,
    pub(crate) now: UnixSeconds,
    /// Rung when an errand was written.
    pub(crate) errands: &'a Notify,
}

impl Desk<'_> {
    /// Methods of introducers are none of an open door's business.
    fn refuse_at_open_door(&self) -> Result<(), Refusal> {
        if self.gate.is_open() { Err(say::no_trust_layer()) } else { Ok(()) }
    }

    /// Asks the policies of plugins; gives whether the owner has to decide in any case.
    async fn ask_gate(
        &self,
        passed: &Passed,
        method: &'static str,
        facts: Option<&IntroductionFacts>,
    ) -> Result<bool, Refusal> {
        self.gate.ask(&self.sender(passed, method, None), facts).await
    }

    fn sender<'p>(&self, passed: &'p Passed, method: &'static str, vc: Option<&'p Value>) -> Sender<'p> {
        Sender { did: passed.verified.from(), standing: &passed.standing, vc, method, now: self.now }
    }

    fn limits(&self) -> PendingLimits {
        PendingLimits { total: self.policies.pending, strangers_per_hour: STRANGERS_PER_HOUR }
    }

    fn request_expires(&self) -> UnixSeconds {
        UnixSeconds(self.now.0.saturating_add(REQUEST_LIFE_SECS))
    }
}

/// The note of a signed text that has to name its method (5.1): another message of the same sender must not serve as
/// one. The signed note is the note; one in the params is taken where the text has none, and must be the same otherwise.
fn note(passed: &Passed, method: &str, param: Option<&str>) -> Result<Option<String>, Refusal> {
    let invalid = |wrong| Err(plain(Code::InvalidParams, wrong));
    let text = passed.verified.message().text.as_str();
    let signed = match text.strip_prefix(method) {
        Some("") => None,
        Some(rest) if rest.starts_with('\n') => Some(&rest[1..]).filter(|note| !note.is_empty()),
        _ => return invalid(say::METHOD_TEXT),
    };
    if signed.is_some_and(|note| note.len() > params::MAX_NOTE_BYTES) {
        return invalid(say::BAD_NOTE);
    }
    if signed.is_some() && param.is_some() && signed != param {
        return invalid(say::OTHER_NOTE);
    }
    Ok(signed.or(param).map(str::to_owned))
}

/// Our fault; what failed has changed nothing.
fn internal(error: StoreError) -> Refusal {
    tracing::error!(error = &error as &dyn std::error::Error, "a request could not be answered");
    say::internal()
}
