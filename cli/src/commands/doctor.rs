//! `muretai doctor`: what is wrong, and what to do about it.

use std::{fs, time::Duration};

use muretai_node::{Agent, Fault, agent, home::AgentDir, keyfile, send::peer::FetchedCard};
use muretai_protocol::sign::Seed;
use muretai_store::messages::Query;
use muretai_transports::{ClientTimeouts, http::HttpTransport};
use serde::Serialize;

use crate::{
    config,
    context::{self, Context},
    exit::Exit,
    failure::{Explain, Failure},
    output::{self, paint},
    people, wire,
};

/// How long the own service may take to show its card.
const CARD_TIMEOUT: Duration = Duration::from_secs(5);
/// A clock before this (2026-01-01) is wrong: the program is younger.
const EARLIEST_SECS: i64 = 1_767_225_600;
/// Seconds that the clock may lie behind the newest message before that is worth a word.
const CLOCK_SLACK_SECS: i64 = 300;

/// Check that everything works, and say what to do when it does not
///
/// Looks at the home, its permissions, the keys, the databases, the running services and the clock: of all agents, or
/// of the one that --as names. With TARGET also whether that peer can be reached and shows a card that verifies.
/// Changes nothing. It ends with 1 when something is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai doctor\n\
\x20 muretai --as north doctor south")]
pub(crate) struct Args {
    /// Peer to look for: a contact's name, a DID, a card URL or a bare domain
    target: Option<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    check: &'static str,
    status: Status,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
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
    doctor.configuration(&home);
    doctor.clock(None);
    let agents = doctor.agents(context, &home);
    for dir in &agents {
        doctor.agent = Some(dir.name.clone());
        context::block_on(async {
            doctor.examine(context, dir).await;
            Ok(())
        })?;
    }
    if let Some(target) = &args.target {
        doctor.agent = None;
        doctor.peer(context, target, context.allow_private(args.allow_private)?)?;
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
        context.out.note("\nnext: `muretai keygen NAME` makes an identity, `muretai tour` shows how it works");
    } else if ok {
        context
            .out
            .note("\nnothing is wrong; `muretai serve` makes an agent reachable, `muretai tour` shows how it works");
    }
    Ok(if ok { Exit::Done } else { Exit::Failed })
}

impl Doctor {
    fn note(&mut self, check: &'static str, status: Status, detail: impl Into<String>, hint: Option<String>) {
        self.checks.push(Check { agent: self.agent.clone(), check, status, detail: detail.into(), hint });
    }
    fn failed(&mut self, check: &'static str, error: &impl Explain) {
        let failure = Failure::of("", error);
        let detail = [error.to_string()].into_iter().chain(failure.causes).collect::<Vec<_>>().join(": ");
        self.note(check, Status::Failed, detail, failure.hint);
    }

    fn configuration(&mut self, home: &muretai_node::Home) {
        match config::read(home.root()) {
            Ok(_) => {}
            Err(failure) => self.note("config", Status::Failed, failure.message, failure.hint),
        }
        match fs::metadata(home.root()) {
            Ok(facts) if facts.is_dir() => {
                self.note("home", Status::Ok, home.root().display().to_string(), None);
            }
            Ok(_) => self.note("home", Status::Failed, format!("{} is no folder", home.root().display()), None),
            Err(_) => {
                let detail = format!("{} is not there yet", home.root().display());
                self.note("home", Status::Ok, detail, Some("`muretai keygen NAME` makes it".to_owned()));
            }
        }
    }

    fn agents(&mut self, context: &Context, home: &muretai_node::Home) -> Vec<AgentDir> {
        let named = context.agent_name().ok().flatten();
        let found = match named {
            Some(name) => home.pick(Some(&name)).map(|dir| vec![dir]),
            None => home.agents(),
        };
        found.unwrap_or_else(|error| {
            self.failed("agents", &error);
            Vec::new()
        })
    }

    /// Signatures carry a time, and peers refuse what is more than five minutes off.
    fn clock(&mut self, newest: Option<i64>) {
        let now = agent::now();
        let hint = || Some("set the clock, for example by switching time synchronisation on".to_owned());
        let shown = wire::time(now);
        match newest {
            None if now.0 < EARLIEST_SECS => self.note("clock", Status::Failed, format!("it says {shown}"), hint()),
            None => self.note("clock", Status::Ok, format!("it says {shown}; peers accept 300 s of difference"), None),
            Some(newest) if newest > now.0 + CLOCK_SLACK_SECS => {
                let detail = format!("it says {shown}, but a message arrived {} s later", newest - now.0);
                self.note("clock", Status::Warning, detail, hint());
            }
            Some(_) => {}
        }
    }

    async fn examine(&mut self, context: &Context, dir: &AgentDir) {
        match keyfile::permissions_warning(dir) {
            None => self.note("permissions", Status::Ok, "the key is yours alone", None),
            Some(warning) => self.note("permissions", Status::Failed, warning, None),
        }
        let Some(seed) = self.key(context, dir) else { return };
        if !dir.database().exists() {
            self.note("database", Status::Ok, "none yet; the first command that needs one makes it", None);
            return;
        }
        let http = HttpTransport::client(ClientTimeouts { connect: CARD_TIMEOUT, total: CARD_TIMEOUT });
        match Agent::open(dir.clone(), &seed, http).await {
            Err(error) => self.failed("database", &error),
            Ok(agent) => {
                self.database(&agent).await;
                self.service(&agent).await;
                agent.close().await;
            }
        }
    }

    /// Reads the key when that needs nobody's help.
    fn key(&mut self, context: &Context, dir: &AgentDir) -> Option<Seed> {
        let is_locked = context.passphrase_source().is_none();
        match keyfile::is_encrypted(dir) {
            Err(error) => {
                self.failed("key", &error);
                None
            }
            Ok(true) if is_locked => {
                let hint = "pass --passphrase-file FILE or --passphrase-fd N to look further".to_owned();
                self.note("key", Status::Warning, "it is encrypted, and no passphrase was given", Some(hint));
                None
            }
            Ok(_) => match context.unlock(dir) {
                Ok(seed) => {
                    self.note("key", Status::Ok, dir.key_file().display().to_string(), None);
                    Some(seed)
                }
                Err(failure) => {
                    self.note("key", Status::Failed, failure.message, failure.hint);
                    None
                }
            },
        }
    }

    async fn database(&mut self, agent: &Agent) {
        match agent.store().check().await {
            Err(error) => return self.failed("database", &error),
            Ok(()) => self.note("database", Status::Ok, "sound", None),
        }
        let newest = Query { with_sent: true, with_auto: true, limit: Some(1), ..Query::default() };
        match agent.store().messages(&newest).await {
            Err(error) => self.failed("messages", &error),
            Ok(rows) => self.clock(rows.first().map(|row| row.received.0).or(Some(i64::MIN))),
        }
    }

    async fn service(&mut self, agent: &Agent) {
        let Some(holder) = agent.served_by() else {
            let hint = format!("`muretai --as {} serve` makes it reachable", agent.name());
            return self.note("service", Status::Ok, "not running", Some(hint));
        };
        let running = format!("process {} at {}", holder.pid, people::shown(&holder.url));
        match agent.fetch_card(&holder.url, Some(agent.did()), true).await {
            Ok(FetchedCard::Peer(card)) if card.is_signed => {
                self.note("service", Status::Ok, format!("{running} shows this agent's signed card"), None);
            }
            Ok(_) => self.note("service", Status::Warning, format!("{running} shows an unsigned card"), None),
            Err(error) => {
                let hint = "is --url the address that others dial, and does it lead here?".to_owned();
                let is_away = error.fault() == Fault::Unreachable;
                let what = if is_away { "cannot be reached there" } else { "does not show this agent's card there" };
                self.note("service", Status::Failed, format!("{running} {what}: {error}"), Some(hint));
            }
        }
    }
}

impl Doctor {
    /// Whether a peer is there, as the agent that acts sees it.
    fn peer(&mut self, context: &Context, target: &str, allow_private: bool) -> Result<(), Failure> {
        context::block_on(async {
            let agent = context.open(CARD_TIMEOUT).await?;
            let shown = people::shown(target);
            match agent.card_of(target, allow_private).await {
                Ok(FetchedCard::Peer(peer)) if peer.is_signed => {
                    self.note(
                        "peer",
                        Status::Ok,
                        format!("{shown} is {} at {}", peer.card.did, people::shown(&peer.base)),
                        None,
                    );
                }
                Ok(FetchedCard::Peer(peer)) => {
                    let detail = format!("{shown} answers at {}, with an unsigned card", people::shown(&peer.base));
                    self.note("peer", Status::Warning, detail, None);
                }
                Ok(FetchedCard::Foreign { url, .. }) => {
                    let hint = "`muretai send --unverified` speaks to it".to_owned();
                    self.note("peer", Status::Warning, format!("{} has no DID", people::shown(&url)), Some(hint));
                }
                Err(error) => self.failed("peer", &error),
            }
            agent.close().await;
            Ok(())
        })
    }
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
        lines.push(format!("{}  {subject}: {}", paint(style, word), people::shown(&check.detail)));
        if let Some(hint) = &check.hint {
            lines.push(format!("      {}", people::shown(hint)));
        }
    }
    lines.join("\n")
}
