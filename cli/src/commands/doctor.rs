//! `muretai doctor`: what is wrong, and what to do about it.

use std::time::Duration;

use muretai_protocol::text::one_line;
use serde::Serialize;

use crate::{
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    output::{self, paint},
    parse,
};

mod checks;
mod mail;

/// Characters of a finding that a terminal shows.
const MAX_SHOWN_CHARS: usize = 1_000;

/// Check that everything works, and say what to do when it does not
///
/// Looks at the home, the disk, the plugins, the permissions, the keys, the databases, the running services, the relays,
/// the outbox and the clock: of all agents, or of the one that --as names. Plugins are started and ended for that. With
/// TARGET also whether that peer can be reached and shows a card that verifies.
/// Changes nothing. It ends with 1 when something is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai doctor\n\
\x20 muretai --as north doctor south")]
pub(crate) struct Args {
    /// Peer to look for: a contact's name, a DID, a card URL or a bare domain
    target: Option<String>,
    /// How long the peer may take; its card gets at most 10s [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    timeout: Option<Duration>,
    /// Dial loopback and private addresses that a peer named
    #[arg(long)]
    allow_private: bool,
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    version: &'static str,
    home: String,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Check {
    agent: Option<String>,
    check: &'static str,
    status: Status,
    detail: String,
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warning,
    Failed,
}

/// Collects what was found.
struct Doctor {
    agent: Option<String>,
    checks: Vec<Check>,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let home = context.bare_home()?;
    let mut doctor = Doctor { agent: None, checks: Vec::new() };
    doctor.clock(None);
    let mut agents = Vec::new();
    if doctor.home(&home) {
        doctor.disk(home.root());
        doctor.configuration(&home);
        agents = doctor.agents(context, &home);
        context::block_on(async {
            doctor.plugins(&home).await;
            Ok(())
        })?;
    }
    for dir in &agents {
        doctor.agent = Some(dir.name.clone());
        context::block_on(async {
            doctor.examine(context, dir).await;
            Ok(())
        })?;
    }
    if let Some(target) = &args.target {
        doctor.agent = None;
        doctor.peer(context, target, args)?;
    }
    let ok = doctor.checks.iter().all(|check| check.status != Status::Failed);
    let report = Report {
        ok,
        version: env!("CARGO_PKG_VERSION"),
        home: home.root().display().to_string(),
        checks: doctor.checks,
    };
    context.out.either(&report, || text(&report))?;
    if ok && agents.is_empty() {
        context.next("\nnext: `muretai keygen NAME` makes an identity, `muretai tour` shows how it works");
    } else if ok {
        context.next("\nnothing is wrong; `muretai serve` makes an agent reachable, `muretai tour` shows how it works");
    }
    Ok(if ok { Exit::Done } else { Exit::Failed })
}

fn text(report: &Report) -> String {
    let mut lines = Vec::new();
    for check in &report.checks {
        let (style, word) = match check.status {
            Status::Ok => (output::GOOD, "ok  "),
            Status::Warning => (output::WARNING, "warn"),
            Status::Failed => (output::ERROR, "FAIL"),
        };
        let subject = match &check.agent {
            Some(agent) => format!("{agent} {}", check.check),
            None => check.check.to_owned(),
        };
        lines.push(format!("{}  {subject}: {}", paint(style, word), one_line(&check.detail, MAX_SHOWN_CHARS)));
        if let Some(hint) = &check.hint {
            lines.push(format!("      {}", one_line(hint, MAX_SHOWN_CHARS)));
        }
    }
    lines.join("\n")
}
