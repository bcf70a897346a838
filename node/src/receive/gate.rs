//! The trust gate (section 4.3): an ordered list of policies. The first that decides has decided; when none does, the
//! sender needs an introduction. Later policies attach between [`Direct`] and [`OpenDoor`].
use std::sync::Arc;

use async_trait::async_trait;
use muretai_plugins::{Applicant, Decision, TrustPolicy};
use muretai_protocol::rpc::{Code, Refusal};

use super::refusals::{self as say, plain};

/// The gate of one agent.
pub struct Gate {
    policies: Vec<Arc<dyn TrustPolicy>>,
}

impl Gate {
    /// The built-in policies: blocked, direct and, when the door is open, everybody.
    pub fn new(open_door: bool) -> Gate {
        Gate::with_policies(open_door, [])
    }

    /// The built-in policies with others in their place: after direct trust, before the open door.
    pub fn with_policies(open_door: bool, others: impl IntoIterator<Item = Arc<dyn TrustPolicy>>) -> Gate {
        let mut policies: Vec<Arc<dyn TrustPolicy>> = vec![Arc::new(Blocked), Arc::new(Direct)];
        policies.extend(others);
        if open_door {
            policies.push(Arc::new(OpenDoor));
        }
        Gate { policies }
    }

    /// Lets the message in, or says why not.
    pub async fn admit(&self, applicant: &Applicant<'_>) -> Result<(), Refusal> {
        for policy in &self.policies {
            match policy.decide(applicant).await {
                Decision::Admit => return Ok(()),
                Decision::Refuse(refusal) => {
                    tracing::debug!(policy = policy.name(), from = %applicant.did, "the gate refused a message");
                    return Err(refusal);
                }
                Decision::Pass => {}
            }
        }
        Err(introduction_required())
    }
}

/// One text for strangers and for the blocked: a block must not show.
fn introduction_required() -> Refusal {
    plain(Code::IntroductionRequired, say::INTRODUCTION)
}

/// Refuses whom the owner blocked, whatever else would admit them.
pub struct Blocked;

#[async_trait]
impl TrustPolicy for Blocked {
    fn name(&self) -> &str {
        "blocked"
    }
    async fn decide(&self, applicant: &Applicant<'_>) -> Decision {
        if applicant.is_blocked { Decision::Refuse(introduction_required()) } else { Decision::Pass }
    }
}

/// Admits direct contacts.
pub struct Direct;

#[async_trait]
impl TrustPolicy for Direct {
    fn name(&self) -> &str {
        "direct"
    }
    async fn decide(&self, applicant: &Applicant<'_>) -> Decision {
        if applicant.is_direct { Decision::Admit } else { Decision::Pass }
    }
}

/// Admits everybody.
pub struct OpenDoor;

#[async_trait]
impl TrustPolicy for OpenDoor {
    fn name(&self) -> &str {
        "open-door"
    }
    async fn decide(&self, _: &Applicant<'_>) -> Decision {
        Decision::Admit
    }
}
