//! The trust policy of a plugin.
use std::sync::Arc;

use async_trait::async_trait;
use muretai_protocol::rpc::{Code, Refusal};

use super::Plugin;
use crate::{Applicant, Decision, STRANGER_DETAIL, TrustPolicy, contract, engine::CallKind};

pub(super) struct PluginPolicy(pub(super) Arc<Plugin>);

#[async_trait]
impl TrustPolicy for PluginPolicy {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn decide(&self, applicant: &Applicant) -> Decision {
        let plugin = &self.0;
        let request = contract::policy_request(applicant);
        let answer = plugin.engine.call(CallKind::Policy, &request, plugin.limits.policy_timeout).await;
        match answer.and_then(|answer| contract::PolicyAnswer::parse(&answer)) {
            Ok(contract::PolicyAnswer(decision)) => decision,
            Err(fault) => {
                plugin.faults.log(&plugin.name, "policy", &fault);
                // Closed, for contacts too: who could make a policy fail must not pass by it.
                Decision::Refuse(Refusal::new(Code::IntroductionRequired, STRANGER_DETAIL))
            }
        }
    }
}
