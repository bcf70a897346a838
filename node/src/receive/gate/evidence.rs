//! What speaks for a sender who is no direct contact: an introduction that was accepted, or the one that it presents
//! (section 8.3).
use muretai_plugins::{ContactState, IntroductionFacts};
use muretai_protocol::{
    UnixSeconds,
    introduction::{self, Introduction, Parties},
    json::{self, Value},
    rpc::{Code, Refusal},
};
use muretai_store::{
    StoreError,
    introductions::{IntroductionRow, IntroductionStatus, Role},
};

use super::Sender;
use crate::{
    Agent,
    mail::tail,
    receive::refusals::{self as say, plain},
    trust::{Policies, revocations::Verdict},
};

/// What was found.
pub(super) enum Evidence {
    /// Nothing is stored, and nothing was presented.
    None,
    /// The owner accepted it, and it stands.
    Accepted(IntroductionFacts),
    /// It is good, by a direct contact, and the owner has not decided.
    Waiting(Box<Introduction>, IntroductionFacts),
    /// It is no good, or does not help. With facts when its proof verified.
    Bad(Refusal, Option<IntroductionFacts>),
}

impl Evidence {
    pub(super) fn state(&self, sender: &Sender<'_>) -> ContactState {
        match self {
            _ if sender.is_known() => ContactState::Direct,
            Evidence::Accepted(_) => ContactState::Introduced,
            _ => ContactState::None,
        }
    }

    pub(super) fn facts(&self) -> Option<&IntroductionFacts> {
        match self {
            Evidence::None => None,
            Evidence::Accepted(facts) | Evidence::Waiting(_, facts) => Some(facts),
            Evidence::Bad(_, facts) => facts.as_ref(),
        }
    }

    pub(super) fn into_waiting(self) -> Option<Box<Introduction>> {
        match self {
            Evidence::Waiting(introduction, _) => Some(introduction),
            _ => None,
        }
    }
}

/// Looks for it: first what the owner accepted, then what the sender presents. What is accepted is no evidence for
/// somebody who is blocked.
pub(super) async fn find(agent: &Agent, sender: &Sender<'_>, policies: &Policies) -> Result<Evidence, StoreError> {
    let mut has_failed = false;
    if sender.standing.is_introduced && !sender.standing.is_blocked {
        let standing = agent.standing_introductions(sender.did, policies.revocation, sender.now).await?;
        if let Some(row) = standing.rows.first() {
            return Ok(Evidence::Accepted(facts_of_row(row)));
        }
        has_failed = standing.has_failed;
    }
    match sender.vc {
        Some(vc) => judge(agent, sender, vc, policies).await,
        None if has_failed => Ok(Evidence::Bad(invalid(), None)),
        None => Ok(Evidence::None),
    }
}

/// An introduction that was proposed and waits for the owner, judged as if its subject presented it. Nobody who is
/// blocked has one.
pub(super) async fn find_proposed(
    agent: &Agent,
    sender: &Sender<'_>,
    policies: &Policies,
) -> Result<Option<Evidence>, StoreError> {
    if sender.standing.is_blocked {
        return Ok(None);
    }
    for row in agent.store().waiting_introductions(sender.did, sender.now).await? {
        let vc = json::parse(row.vc.as_bytes()).map_err(|_| StoreError::Damaged)?;
        let evidence = judge(agent, sender, &vc, policies).await?;
        if matches!(evidence, Evidence::Waiting(..) | Evidence::Accepted(_)) {
            return Ok(Some(evidence));
        }
    }
    Ok(None)
}

/// Judges a credential that somebody presents about itself.
async fn judge(agent: &Agent, sender: &Sender<'_>, vc: &Value, policies: &Policies) -> Result<Evidence, StoreError> {
    let parties = Parties { subject: sender.did, target: Some(agent.did()) };
    let introduction = match introduction::verify(vc, &parties, sender.now) {
        Ok(introduction) => introduction,
        Err(error) => {
            tracing::debug!(
                from = tail(sender.did),
                error = &error as &dyn std::error::Error,
                "an introduction is bad"
            );
            return Ok(Evidence::Bad(invalid(), None));
        }
    };
    let mut facts = facts_of(&introduction);
    let Some(issuer) = agent.trusted_issuer(&introduction.issuer).await? else {
        let refusal = plain(Code::IssuerNotTrusted, say::ISSUER_NOT_TRUSTED);
        return Ok(Evidence::Bad(refusal, Some(facts)));
    };
    facts.is_issuer_direct = true;
    let row = agent.store().introduction(Role::Received, &introduction.issuer, &introduction.id).await?;
    let decided = row.as_ref().map(|row| decided(row, &introduction, sender.now));
    if decided == Some(Decided::Ended) {
        facts.is_revoked = true;
        return Ok(Evidence::Bad(invalid(), Some(facts)));
    }
    let endpoint = introduction.issuer_endpoint.as_deref();
    let verdict = agent.revocation(&issuer, endpoint, &introduction.id).await;
    if !verdict.passes(policies.revocation) {
        facts.is_revoked = verdict == Verdict::Revoked;
        return Ok(Evidence::Bad(invalid(), Some(facts)));
    }
    Ok(match decided {
        // A blocked sender is judged as if the owner had never heard of it.
        Some(Decided::Yes) if !sender.standing.is_blocked => {
            facts.is_accepted = true;
            Evidence::Accepted(facts)
        }
        Some(Decided::No) => Evidence::Bad(say::awaiting_approval(), Some(facts)),
        _ => Evidence::Waiting(Box::new(introduction), facts),
    })
}

/// What the stored row of a credential says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decided {
    Open,
    Yes,
    No,
    /// Taken back, ended with its issuer, or another credential under the same id.
    Ended,
}

fn decided(row: &IntroductionRow, presented: &Introduction, now: UnixSeconds) -> Decided {
    let is_same = row.subject == presented.subject && row.valid_until > now;
    match row.status {
        IntroductionStatus::Revoked | IntroductionStatus::Ended => Decided::Ended,
        _ if !is_same => Decided::Ended,
        IntroductionStatus::Pending => Decided::Open,
        IntroductionStatus::Accepted => Decided::Yes,
        IntroductionStatus::Rejected => Decided::No,
    }
}

/// An introduction that a request presents about its own sender, when it is as good as one can be that the owner has
/// not seen: its proof verifies, its issuer is a direct contact, and it was not taken back.
pub(crate) async fn fresh_introduction(
    agent: &Agent,
    sender: &Sender<'_>,
    policies: &Policies,
) -> Result<Option<IntroductionFacts>, StoreError> {
    let Some(vc) = sender.vc else { return Ok(None) };
    Ok(match judge(agent, sender, vc, policies).await? {
        Evidence::Accepted(facts) | Evidence::Waiting(_, facts) => Some(facts),
        Evidence::None | Evidence::Bad(..) => None,
    })
}

fn invalid() -> Refusal {
    plain(Code::IntroductionInvalid, say::INTRODUCTION_INVALID)
}

/// The facts of an introduction whose proof verified, before anything is looked up.
pub(crate) fn facts_of(introduction: &Introduction) -> IntroductionFacts {
    IntroductionFacts {
        issuer: introduction.issuer.clone(),
        is_issuer_direct: false,
        is_accepted: false,
        is_revoked: false,
        trust_level_bp: introduction.trust_level_bp,
        expertise: introduction.expertise.clone(),
        valid_until: introduction.valid_until,
    }
}

fn facts_of_row(row: &IntroductionRow) -> IntroductionFacts {
    IntroductionFacts {
        issuer: row.issuer.clone(),
        is_issuer_direct: true,
        is_accepted: true,
        is_revoked: false,
        trust_level_bp: row.trust_level_bp,
        expertise: row.expertise.clone(),
        valid_until: row.valid_until,
    }
}
