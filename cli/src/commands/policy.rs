//! `muretai policy`: whom this agent lets in, and what it tells.

use muretai_node::{Agent, trust::Policy};
use serde::Serialize;

use crate::{
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    output::{self, DIM, paint},
    people,
};

/// Show and change whom this agent lets in and what it tells
///
/// Without a command the settings are shown. A running `muretai serve` follows a change within a second, except that of
/// `gate`, which it reads when it starts.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai policy show\n\
\x20 muretai policy set connect closed")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the settings, what they mean, and what they take
    #[command(
        visible_alias = "list",
        after_help = "Examples:\n\
\x20 muretai policy show\n\
\x20 muretai policy show gate --json"
    )]
    Show {
        /// Only this one
        name: Option<String>,
    },
    /// Change a setting
    #[command(after_help = "Examples:\n\
\x20 muretai policy set trust-query trusted\n\
\x20 muretai policy set revocation strict")]
    Set {
        /// Which
        name: String,
        /// What it shall be
        value: String,
    },
}

#[derive(Serialize)]
struct PolicyJson<'a> {
    name: &'a str,
    value: &'a str,
    default: bool,
    values: &'a str,
    meaning: &'a str,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    context::block_on(async {
        let agent = context.open(context.timeout(None)?).await?;
        let done = match &args.command {
            None => show(context, &agent, None).await,
            Some(Command::Show { name }) => show(context, &agent, name.as_deref()).await,
            Some(Command::Set { name, value }) => set(context, &agent, name, value).await,
        };
        agent.close().await;
        done.map(|()| Exit::Done)
    })
}

async fn show(context: &Context, agent: &Agent, only: Option<&str>) -> Result<(), Failure> {
    let policies = agent.policy_list().await.map_err(|error| Failure::of("cannot read the policies", &error))?;
    let shown: Vec<&Policy> = policies.iter().filter(|policy| only.is_none_or(|name| name == policy.name)).collect();
    if let (true, Some(name)) = (shown.is_empty(), only) {
        let message = format!("cannot show the policy: there is no policy `{}`", people::shown(name));
        return Err(Failure::usage(message).hint("`muretai policy show` lists them"));
    }
    for policy in shown {
        context.out.either(&json(policy), || line(policy))?;
    }
    Ok(())
}

async fn set(context: &Context, agent: &Agent, name: &str, value: &str) -> Result<(), Failure> {
    let attempt = format!("cannot set `{}`", people::shown(name));
    let policy = agent.set_policy(name, value).await.map_err(|error| match Failure::of(attempt, &error) {
        failure if failure.hint.is_none() => failure.hint("`muretai policy show` lists the settings and their values"),
        failure => failure,
    })?;
    context.out.either(&json(&policy), || line(&policy))?;
    if policy.name == "gate" && agent.served_by().is_some() {
        context.out.note("the running `serve` follows it when it is started again");
    }
    Ok(())
}

fn line(policy: &Policy) -> String {
    let Policy { name, value, values, meaning, .. } = policy;
    let default = if policy.is_default { " (default)" } else { "" };
    let value = paint(output::STRONG, value);
    format!("{name:<13}  {value}{default}\n               {meaning}\n               {}", paint(DIM, values))
}

fn json(policy: &Policy) -> PolicyJson<'_> {
    PolicyJson {
        name: policy.name,
        value: &policy.value,
        default: policy.is_default,
        values: policy.values,
        meaning: policy.meaning,
    }
}
