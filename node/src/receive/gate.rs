//! The trust gate (section 4.3): an ordered list of policies. The first that decides has decided; when none does, the
//! sender needs an introduction. Later policies attach between [`Direct`] and [`OpenDoor`].
use std::sync::Arc;

use async_trait::async_trait;
use muretai_plugins::{Applicant, ContactState, Decision, TrustPolicy};
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
        let mut policies: Vec<Arc<dyn TrustPolicy>> = vec![Arc::new(Direct)];
        policies.extend(others);
        if open_door {
            policies.push(Arc::new(OpenDoor));
        }
        Gate { policies }
    }

    /// Lets the message in, or says why not.
    pub async fn admit(&self, applicant: &Applicant, is_blocked: bool) -> Result<(), Refusal> {
        if is_blocked {
            return Err(introduction_required());
        }
        for policy in &self.policies {
            match policy.decide(applicant).await {
                Decision::Admit => return Ok(()),
                Decision::Refuse(refusal) => {
                    tracing::debug!(policy = policy.name(), from = %applicant.did, "the gate refused a message");
                    return Err(refusal);
                }
                Decision::Pass | Decision::Hold => {}
            }
        }
        Err(introduction_required())
    }
}

/// One text for strangers and for the blocked: a block must not show.
fn introduction_required() -> Refusal {
    plain(Code::IntroductionRequired, say::INTRODUCTION)
}

/// Admits direct contacts.
pub struct Direct;

#[async_trait]
impl TrustPolicy for Direct {
    fn name(&self) -> &str {
        "direct"
    }
    async fn decide(&self, applicant: &Applicant) -> Decision {
        if applicant.contact == ContactState::Direct { Decision::Admit } else { Decision::Pass }
    }
}

/// Admits everybody.
pub struct OpenDoor;

#[async_trait]
impl TrustPolicy for OpenDoor {
    fn name(&self) -> &str {
        "open-door"
    }
    async fn decide(&self, _: &Applicant) -> Decision {
        Decision::Admit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::testing::key;
    use muretai_protocol::UnixSeconds;

    async fn admits(gate: &Gate, is_blocked: bool, is_direct: bool) -> bool {
        let applicant = Applicant {
            did: key(1).did().clone(),
            contact: if is_direct { ContactState::Direct } else { ContactState::None },
            introduction: None,
            domain: None,
            method: "message/send",
            now: UnixSeconds(1_784_273_700),
        };
        match gate.admit(&applicant, is_blocked).await {
            Ok(()) => true,
            Err(refusal) => {
                assert_eq!(refusal, introduction_required());
                false
            }
        }
    }

    #[tokio::test]
    async fn blocked_comes_before_direct_and_direct_before_strangers() {
        for (open_door, expected) in [(false, [false, true, false, false]), (true, [true, true, false, false])] {
            let gate = Gate::new(open_door);
            let mut admitted = Vec::new();
            for (is_blocked, is_direct) in [(false, false), (false, true), (true, false), (true, true)] {
                admitted.push(admits(&gate, is_blocked, is_direct).await);
            }
            assert_eq!(admitted, expected);
        }
    }

    struct Fixed(Decision);

    #[async_trait]
    impl TrustPolicy for Fixed {
        fn name(&self) -> &str {
            "fixed"
        }
        async fn decide(&self, _: &Applicant) -> Decision {
            self.0.clone()
        }
    }

    #[tokio::test]
    async fn a_further_policy_decides_about_strangers_only() {
        let policy = |decision| [Arc::new(Fixed(decision)) as Arc<dyn TrustPolicy>];
        let admitting = Gate::with_policies(false, policy(Decision::Admit));
        assert!(admits(&admitting, false, false).await);
        assert!(!admits(&admitting, true, false).await, "a block stands");
        let refusing = Gate::with_policies(true, policy(Decision::Refuse(introduction_required())));
        assert!(!admits(&refusing, false, false).await, "the open door comes last");
        assert!(admits(&refusing, false, true).await);
        assert!(!admits(&Gate::with_policies(false, policy(Decision::Pass)), false, false).await);
    }
}
