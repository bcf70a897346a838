//! `muretai domain`: which domains belong to which peers.

use std::time::Duration;

use muretai_node::{
    Agent, agent,
    trust::domain::{self, counts_until},
};
use muretai_protocol::{UnixSeconds, linkage::Domain};
use muretai_store::domains::DomainRow;
use serde::Serialize;

use crate::{
    clock,
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    output::{self, paint},
    parse,
    people::{self, Names},
};

/// Verify which peer a domain belongs to, and list what is known
///
/// A verdict holds for 30 days. With `muretai policy set domain required`, senders who are no contacts need one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai domain verify agents.example.com\n\
\x20 muretai domain list")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Ask a domain which DID is its own, and check that the DID says so too
    ///
    /// Fetches the signed card at the domain, which has to list the domain, and its DID configuration, which has to
    /// name the DID: over https, from public addresses, without redirects. Both ways have to hold; then the verdict is
    /// kept. When they no longer do, the earlier verdict is forgotten.
    #[command(after_help = "Examples:\n\
\x20 muretai domain verify agents.example.com\n\
\x20 muretai domain verify agents.example.com --json")]
    Verify {
        /// Bare domain, such as agents.example.com
        domain: String,
        /// How long it may take altogether [default: 30s]
        #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
        timeout: Option<Duration>,
    },
    /// List the verdicts by domain
    #[command(after_help = "Examples:\n\
\x20 muretai domain list\n\
\x20 muretai domain list --json")]
    List,
    /// Forget the verdict about a domain
    #[command(after_help = "Examples:\n\
\x20 muretai domain forget agents.example.com\n\
\x20 muretai domain forget agents.example.com --json")]
    Forget {
        /// Bare domain, such as agents.example.com
        domain: String,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DomainJson<'a> {
    domain: &'a str,
    did: &'a str,
    /// Local name, when the DID is a contact.
    name: Option<&'a str>,
    verified: String,
    /// When it stops to count.
    expires: String,
    fresh: bool,
}

/// What `forget` leaves behind.
#[derive(Serialize)]
struct Forgotten<'a> {
    domain: &'a str,
    did: &'a str,
    forgotten: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    context::block_on(async {
        let flag = match &args.command {
            Command::Verify { timeout, .. } => *timeout,
            _ => None,
        };
        let timeout = context.timeout(flag)?;
        let agent = context.open(timeout).await?;
        let done = match &args.command {
            Command::Verify { domain, .. } => verify(context, &agent, domain, timeout).await,
            Command::List => list(context, &agent).await,
            Command::Forget { domain } => forget(context, &agent, domain).await,
        };
        agent.close().await;
        done.map(|()| Exit::Done)
    })
}

async fn verify(context: &Context, agent: &Agent, domain: &str, timeout: Duration) -> Result<(), Failure> {
    let domain = parsed(domain, "verify")?;
    let failed = |error| Failure::of(format!("cannot verify {domain}"), &error);
    let row = agent.verify_domain(&domain, timeout).await.map_err(failed)?;
    print(context, agent, &[row]).await
}

async fn list(context: &Context, agent: &Agent) -> Result<(), Failure> {
    let rows = agent.store().domains().await.map_err(|error| Failure::of("cannot list the domains", &error))?;
    if rows.is_empty() {
        context.next("no domain was verified yet; `muretai domain verify DOMAIN` does it");
    }
    print(context, agent, &rows).await
}

async fn forget(context: &Context, agent: &Agent, domain: &str) -> Result<(), Failure> {
    let domain = parsed(domain, "forget")?;
    let failed = |error| Failure::of(format!("cannot forget {domain}"), &error);
    let row = agent.forget_domain(&domain).await.map_err(failed)?;
    let forgotten = Forgotten { domain: &row.domain, did: row.did.as_str(), forgotten: true };
    context.out.either(&forgotten, || format!("{} is forgotten; it was that of {}", row.domain, row.did))
}

fn parsed(text: &str, attempt: &str) -> Result<Domain, Failure> {
    domain::parse_domain(text).map_err(|error| Failure::of(format!("cannot {attempt} the domain"), &error))
}

async fn print(context: &Context, agent: &Agent, rows: &[DomainRow]) -> Result<(), Failure> {
    let names = Names::of(agent, rows.iter().map(|row| &row.did)).await?;
    let now = agent::now();
    for row in rows {
        let expires = counts_until(row);
        let json = DomainJson {
            domain: &row.domain,
            did: row.did.as_str(),
            name: names.get(&row.did),
            verified: row.verified.to_iso(),
            expires: expires.to_iso(),
            fresh: expires >= now,
        };
        context.out.either(&json, || line(row, &names, now))?;
    }
    Ok(())
}

fn line(row: &DomainRow, names: &Names, now: UnixSeconds) -> String {
    let note = if counts_until(row) >= now { "" } else { ", too old to count" };
    let domain = paint(output::STRONG, &people::shown(&row.domain));
    format!("{domain}  {}\n  verified {}{note}", names.shown(&row.did), clock::distance(row.verified, now))
}
