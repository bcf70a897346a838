//! `trust/status` (5.2): where somebody stands here. About oneself everybody may ask; about others whom the owner lets.
//! Nothing changes, so nothing is remembered.
use muretai_protocol::{json::Value, rpc::Refusal};
use muretai_store::messages::Standing;

use super::{Desk, internal, params::StatusParams};
use crate::{
    receive::{gate::Sender, ladder::Passed, refusals as say},
    trust::{
        policies::TrustQueryPolicy,
        status::{Evaluated, Relation},
    },
};

/// Answers.
pub(crate) async fn answer(desk: &Desk<'_>, passed: Passed, params: StatusParams) -> Result<Value, Refusal> {
    let asker = passed.verified.from();
    let subject = params.subject.as_ref().unwrap_or(asker);
    let is_about_itself = subject == asker;
    if !is_about_itself && !may_ask(desk.policies.trust_query, &passed) {
        return Err(say::query_not_permitted());
    }
    let evaluated = desk.agent.evaluate(subject, desk.gate.is_open(), &desk.policies, desk.now).await;
    let Evaluated { mut status, is_blocked } = evaluated.map_err(internal)?;
    // Somebody who is blocked hears of what it asked what a stranger hears.
    if is_blocked && is_about_itself && desk.agent.store().has_hidden(subject, desk.now).await.map_err(internal)? {
        status.relation = Relation::Pending;
    }
    // What waits is told to whom it concerns.
    if status.relation == Relation::Pending && !is_about_itself {
        status.relation = Relation::None;
    }
    if status.relation != Relation::Own {
        let standing = Standing {
            handled: None,
            is_direct: status.relation == Relation::Direct,
            is_introduced: status.relation == Relation::Introduced,
            is_blocked,
        };
        let sender = Sender { did: subject, standing: &standing, vc: None, method: "message/send", now: desk.now };
        status.trusted = desk.gate.would_admit(&sender, status.trusted).await;
    }
    Ok(status.to_json())
}

fn may_ask(policy: TrustQueryPolicy, passed: &Passed) -> bool {
    match policy {
        TrustQueryPolicy::SelfOnly => false,
        TrustQueryPolicy::Trusted => passed.is_from_contact(),
        TrustQueryPolicy::Public => true,
    }
}
