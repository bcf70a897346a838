//! The trust gate (section 4.3): who may write, who waits for the owner, who is refused and how.
//!
//! The order: policies of plugins as the owner configured them, then the built-in gate: direct contact, standing
//! introduction, verified domain when the owner wants one, open door, refusal. The first that decides has decided. Whose
//! introduction waits for the owner need not present it. A blocked sender goes the way of a stranger; where a stranger would get anywhere, it gets what a stranger without an
//! introduction gets.
//!
//! Nothing is looked up for a direct contact when there are no plugin policies. An introduction is evaluated once, and
//! facts about it reach policies only when its proof verified.
use std::sync::Arc;

use muretai_plugins::{Applicant, ContactState, Decision, IntroductionFacts, TrustPolicy};
use muretai_protocol::{
    Did, UnixSeconds,
    introduction::Introduction,
    json::Value,
    rpc::{Code, Refusal},
};
use muretai_store::{StoreError, messages::Standing};

use super::{
    refusals::{self as say, plain},
    settings::Settings,
};
use crate::{
    Agent,
    trust::{
        Policies,
        policies::{DOMAIN_LIFE_SECS, DomainPolicy, IntroductionPolicy},
    },
};

mod evidence;
pub(crate) mod verdicts;

use evidence::Evidence;
pub(crate) use evidence::{facts_of, fresh_introduction};

/// The gate of one agent.
pub struct Gate {
    agent: Agent,
    is_open: bool,
    plugins: Vec<Arc<dyn TrustPolicy>>,
    settings: Settings,
}

/// Somebody whose signature verified.
#[derive(Clone, Copy)]
pub(crate) struct Sender<'a> {
    pub(crate) did: &'a Did,
    pub(crate) standing: &'a Standing,
    /// The introduction that it presents, unverified.
    pub(crate) vc: Option<&'a Value>,
    pub(crate) method: &'static str,
    pub(crate) now: UnixSeconds,
}

impl Sender<'_> {
    /// A direct contact whom the owner wants to hear.
    fn is_known(&self) -> bool {
        self.standing.is_direct && !self.standing.is_blocked
    }
}

/// What becomes of a message that is not refused.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is let in, from somebody of this standing.
    Admitted(ContactState),
    /// It is let in as soon as this introduction is accepted, and the owner accepts what contacts vouch for.
    Vouched(Box<Introduction>),
    /// It waits for the owner, on this introduction when there is one.
    Held(Option<Box<Introduction>>),
}

/// What the policies of plugins say together.
enum Said {
    Admit,
    Hold,
    Nothing,
}

impl Gate {
    /// The gate of this agent, with the policies of plugins in their order.
    pub(crate) fn new(agent: &Agent, is_open: bool, plugins: Vec<Arc<dyn TrustPolicy>>) -> Gate {
        Gate { agent: agent.clone(), is_open, plugins, settings: Settings::default() }
    }

    /// Strangers are answered.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The owner's policies as they are now.
    pub(crate) async fn policies(&self) -> Result<Policies, Refusal> {
        self.settings.now(&self.agent).await
    }

    #[cfg(test)]
    pub(crate) fn forget_policies(&self) {
        self.settings.forget();
    }

    /// Judges a message.
    pub(crate) async fn judge(&self, sender: &Sender<'_>) -> Result<Verdict, Refusal> {
        if sender.is_known() && self.plugins.is_empty() {
            return Ok(Verdict::Admitted(ContactState::Direct));
        }
        let verdict = self.judge_at_length(sender).await;
        if sender.standing.is_blocked {
            return verdict.and_then(|_| Err(say::introduction_required()));
        }
        verdict
    }

    async fn judge_at_length(&self, sender: &Sender<'_>) -> Result<Verdict, Refusal> {
        let policies = self.policies().await?;
        let mut evidence = self.evidence(sender, &policies).await?;
        if self.may_have_been_proposed(sender, &evidence)
            && let Some(proposed) = evidence::find_proposed(&self.agent, sender, &policies).await.map_err(internal)?
        {
            evidence = proposed;
        }
        let domain = self.domain(sender, &policies).await?;
        let state = evidence.state(sender);
        let applicant = self.applicant(sender, state, evidence.facts(), domain);
        match self.ask_plugins(&applicant).await? {
            Said::Admit => return Ok(Verdict::Admitted(state)),
            Said::Hold => return Ok(Verdict::Held(evidence.into_waiting())),
            Said::Nothing => {}
        }
        if state == ContactState::Direct {
            return Ok(Verdict::Admitted(state));
        }
        if policies.domain == DomainPolicy::Required && applicant.domain.is_none() {
            return Err(plain(Code::VerifiedDomainRequired, say::DOMAIN_REQUIRED));
        }
        match evidence {
            Evidence::Accepted(_) => Ok(Verdict::Admitted(state)),
            _ if self.is_open => Ok(Verdict::Admitted(state)),
            Evidence::Waiting(introduction, _) if policies.introductions == IntroductionPolicy::Accept => {
                Ok(Verdict::Vouched(introduction))
            }
            Evidence::Waiting(introduction, _) => Ok(Verdict::Held(Some(introduction))),
            Evidence::Bad(refusal, _) => Err(refusal),
            Evidence::None => Err(say::introduction_required()),
        }
    }

    /// What speaks for the sender. An open door does not look at what strangers present, unless a plugin wants to know.
    async fn evidence(&self, sender: &Sender<'_>, policies: &Policies) -> Result<Evidence, Refusal> {
        if sender.is_known() {
            return Ok(Evidence::None);
        }
        let vc = sender.vc.filter(|_| !self.is_open || !self.plugins.is_empty());
        let found = evidence::find(&self.agent, &Sender { vc, ..*sender }, policies).await;
        found.map_err(internal)
    }

    /// Whether an introduction that waits for the owner would matter: the sender presents none, and nothing better
    /// speaks for it.
    fn may_have_been_proposed(&self, sender: &Sender<'_>, evidence: &Evidence) -> bool {
        let matters = !self.is_open || !self.plugins.is_empty();
        let is_in = sender.is_known() || matches!(evidence, Evidence::Accepted(_));
        matters && sender.vc.is_none() && !is_in
    }

    async fn domain(&self, sender: &Sender<'_>, policies: &Policies) -> Result<Option<String>, Refusal> {
        let is_wanted = policies.domain == DomainPolicy::Required && !sender.is_known();
        if !is_wanted && self.plugins.is_empty() {
            return Ok(None);
        }
        let since = UnixSeconds(sender.now.0.saturating_sub(DOMAIN_LIFE_SECS));
        let verdict = self.agent.store().domain_of(sender.did, since).await.map_err(internal)?;
        Ok(verdict.map(|verdict| verdict.domain))
    }

    fn applicant(
        &self,
        sender: &Sender<'_>,
        contact: ContactState,
        introduction: Option<&IntroductionFacts>,
        domain: Option<String>,
    ) -> Applicant {
        let introduction = introduction.cloned();
        Applicant { did: sender.did.clone(), contact, introduction, domain, method: sender.method, now: sender.now }
    }

    /// Asks the policies of plugins in their order until one decides.
    async fn ask_plugins(&self, applicant: &Applicant) -> Result<Said, Refusal> {
        for policy in &self.plugins {
            match policy.decide(applicant).await {
                Decision::Admit => return Ok(Said::Admit),
                Decision::Hold => return Ok(Said::Hold),
                Decision::Refuse(refusal) => {
                    verdicts::note(policy.name());
                    return Err(refusal);
                }
                Decision::Pass => {}
            }
        }
        Ok(Said::Nothing)
    }

    /// Asks the policies of plugins about a method that has a policy of its own: letting in means no more than having
    /// nothing to say. Gives whether the owner has to decide in any case.
    pub(crate) async fn ask(&self, sender: &Sender<'_>, facts: Option<&IntroductionFacts>) -> Result<bool, Refusal> {
        if self.plugins.is_empty() {
            return Ok(false);
        }
        let policies = self.policies().await?;
        let (state, stored) = match sender.is_known() {
            true => (ContactState::Direct, None),
            false => {
                let evidence = self.evidence(&Sender { vc: None, ..*sender }, &policies).await?;
                (evidence.state(sender), evidence.facts().cloned())
            }
        };
        let domain = self.domain(sender, &policies).await?;
        let applicant = self.applicant(sender, state, facts.or(stored.as_ref()), domain);
        Ok(matches!(self.ask_plugins(&applicant).await?, Said::Hold))
    }

    /// Whether a message of this peer would be let in now, as far as it needs more than what [`Agent::trust_status`]
    /// knows. `is_trusted` is what that found.
    pub(crate) async fn would_admit(&self, sender: &Sender<'_>, is_trusted: bool) -> bool {
        if self.plugins.is_empty() {
            return is_trusted;
        }
        matches!(self.judge(&Sender { vc: None, ..*sender }).await, Ok(Verdict::Admitted(_)))
    }
}

/// Our fault, for whatever reason.
fn internal(error: StoreError) -> Refusal {
    tracing::error!(error = &error as &dyn std::error::Error, "what is known of a sender could not be looked up");
    say::internal()
}

#[cfg(test)]
mod tests;
