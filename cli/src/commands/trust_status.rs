//! `muretai trust-status`: where somebody stands, here or as a peer says.

use std::time::Duration;

use muretai_node::{
    Agent,
    trust::status::{Relation, TrustStatus},
};
use muretai_protocol::Did;
use serde_json::{Value, json};

use super::requests;
use crate::{
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    output::{self, paint},
    parse,
    people::{self, Names},
    progress,
};

/// Show where somebody stands: here, or as a peer sees it
///
/// SUBJECT is a contact's name or a DID, and this agent itself when it is left out. With --ask the answer is the peer's
/// word: anybody may ask about itself, and the peer's owner decides who may ask about others. The first line is the
/// relation: self, direct, introduced, pending or none.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai trust-status --ask south\n\
\x20 muretai trust-status north --json")]
pub(crate) struct Args {
    /// Whose standing [default: this agent's]
    subject: Option<String>,
    /// Peer that is asked: a contact's name, a DID, a card URL or a bare domain
    #[arg(long, value_name = "PEER")]
    ask: Option<String>,
    /// How long the peer may take [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration, requires = "ask")]
    timeout: Option<Duration>,
    /// Dial loopback and private addresses that the peer named
    #[arg(long, requires = "ask")]
    allow_private: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let timeout = context.timeout(args.timeout)?;
    context::block_on(async {
        let agent = context.open(timeout).await?;
        let done = show(context, &agent, args, timeout).await;
        agent.close().await;
        done.map(|()| Exit::Done)
    })
}

async fn show(context: &Context, agent: &Agent, args: &Args, timeout: Duration) -> Result<(), Failure> {
    let status = match &args.ask {
        Some(peer) => asked(context, agent, args, peer, timeout).await?,
        None => {
            let subject = match &args.subject {
                Some(subject) => people::did(agent, subject).await?,
                None => agent.did().clone(),
            };
            let status = agent.trust_status(&subject).await;
            status.map_err(|error| Failure::of(format!("cannot tell where {subject} stands"), &error))?
        }
    };
    let names = Names::of(agent, [&status.subject].into_iter().chain(&status.vouched_by)).await?;
    context.out.either(&with_names(&status, &names), || text(agent.did(), &status, &names))
}

async fn asked(
    context: &Context,
    agent: &Agent,
    args: &Args,
    peer: &str,
    timeout: Duration,
) -> Result<TrustStatus, Failure> {
    let allow_private = context.allow_private(args.allow_private)?;
    let shown = people::shown(peer);
    let asking = agent.ask_trust_status(peer, args.subject.as_deref(), timeout, allow_private);
    let asked = progress::watch(&context.out, format!("asking {shown}"), asking).await;
    asked.map_err(|error| Failure::of(format!("cannot ask `{shown}`"), &error).about(peer))
}

fn text(me: &Did, status: &TrustStatus, names: &Names) -> String {
    let style = if status.trusted { output::GOOD } else { output::STRONG };
    let subject = if status.subject == *me { format!("you  {me}") } else { names.shown(&status.subject) };
    let mut lines = vec![paint(style, relation(status.relation)), format!("subject     {subject}")];
    if let Some(depth) = status.depth() {
        lines.push(format!("depth       {depth}"));
    }
    lines.push(format!("let in      {}", if status.trusted { "yes" } else { "no" }));
    lines.extend(status.vouched_by.iter().map(|did| format!("vouched by  {}", names.shown(did))));
    if let Some(level) = status.trust_level_bp {
        lines.push(format!("level       {}", requests::level(level)));
    }
    if !status.expertise.is_empty() {
        lines.push(format!("knows       {}", requests::expertise(&status.expertise)));
    }
    lines.join("\n")
}

fn relation(relation: Relation) -> &'static str {
    match relation {
        Relation::Own => "self",
        Relation::Direct => "direct",
        Relation::Introduced => "introduced",
        Relation::Pending => "pending",
        Relation::None => "none",
    }
}

/// The wire's object with the local names of whom it names.
fn with_names(status: &TrustStatus, names: &Names) -> Value {
    let mut object: Value = serde_json::from_str(&status.to_json().to_json()).unwrap_or_else(|_| json!({}));
    object["subjectName"] = json!(names.get(&status.subject));
    object["vouchedByNames"] = status.vouched_by.iter().map(|did| json!(names.get(did))).collect();
    object
}
