//! `inbox --forget`: a relay that is gone is asked no more.

use muretai_node::{Agent, mail::Forgotten};
use serde::Serialize;

use crate::{context::Context, failure::Failure, people};

#[derive(Serialize)]
struct ForgottenJson<'a> {
    relay: &'a str,
    forgotten: bool,
}

/// Forgets a mailbox, and says when the configuration still names it.
pub(super) async fn forget(context: &Context, agent: &Agent, relay: &str) -> Result<(), Failure> {
    let forgotten = agent.forget_mailbox(relay).await;
    let forgotten = forgotten.map_err(|error| Failure::of("cannot forget the mailbox", &error))?;
    let shown = people::shown(relay);
    match forgotten {
        Forgotten { is_configured: true, .. } => {
            Err(Failure::failed(format!("{shown} is a relay of the configuration"))
                .hint("take it out of `relay` in config.toml"))
        }
        Forgotten { was_remembered: false, .. } => Err(Failure::failed(format!("there is no mailbox at {shown}"))
            .hint("`muretai doctor` lists the relays where this agent has one")),
        Forgotten { was_remembered: true, .. } => {
            let said = ForgottenJson { relay, forgotten: true };
            context.out.either(&said, || format!("forgotten: {shown}"))
        }
    }
}
