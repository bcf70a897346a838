//! Receiving without a service: the same plugins and policies as `serve` has, for as long as one command takes.

use muretai_node::{
    Agent,
    receive::{rate::RateLimit, service::ReceiverOptions},
    trust::policies::GatePolicy,
};
use muretai_plugins::set::PluginSet;
use muretai_transports::relay::RelayTimes;

use crate::{commands::plugin, context::Context, env, failure::Failure};

/// How relays are treated: as ever, except in crash tests.
pub(crate) fn relay_times() -> Result<RelayTimes, Failure> {
    let Some(fault) = env::value(env::MURETAI_FAULT) else { return Ok(RelayTimes::default()) };
    let fault = fault.to_string_lossy().parse();
    let fault = fault.map_err(|error| Failure::usage(format!("cannot use {}: {error}", env::MURETAI_FAULT)))?;
    Ok(RelayTimes { fault: Some(fault), ..RelayTimes::default() })
}

/// What a command needs to receive letters.
pub(crate) struct Reception {
    plugins: PluginSet,
    /// How they are received.
    pub(crate) options: ReceiverOptions,
}

impl Reception {
    /// Starts the plugins of an agent. One that does not start lets no letter in, as it keeps an agent from being
    /// served.
    pub(crate) async fn open(context: &Context, agent: &Agent, attempt: &str) -> Result<Reception, Failure> {
        let policies = agent.policies().await.map_err(|error| Failure::of(attempt, &error))?;
        let plugins = plugin::start(context, agent.name(), attempt).await?;
        let options = ReceiverOptions {
            open_door: policies.gate == GatePolicy::Open,
            rate: Some(RateLimit::default()),
            skills: plugins.skills(),
            policies: plugins.policies(),
            ..ReceiverOptions::default()
        };
        Ok(Reception { plugins, options })
    }
    /// Ends the plugins.
    pub(crate) async fn close(self) {
        drop(self.options);
        self.plugins.close().await;
    }
}
