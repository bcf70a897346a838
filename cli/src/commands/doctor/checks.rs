//! The single checks of `muretai doctor`. Details are told as they are; whoever prints them escapes.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use muretai_node::{
    Agent, Fault, Home, agent,
    home::AgentDir,
    keyfile,
    send::{
        SendError,
        peer::{FetchedCard, PeerCard},
    },
};
use muretai_plugins::{manifest::Manifest, set};
use muretai_protocol::{Did, sign::Seed, urls};
use muretai_store::messages::Query;
use muretai_transports::{ClientTimeouts, http::HttpTransport};

use super::{Args, Check, Doctor, Status, mail::Mailbox};
use crate::{
    clock,
    commands::plugin,
    config,
    context::{self, Context},
    failure::{Explain, Failure},
    output, people, progress, wire,
};

/// How long the own service may take to show its card.
pub(super) const CARD_TIMEOUT: Duration = Duration::from_secs(5);
/// A clock before this (2026-01-01) is wrong: the program is younger.
const EARLIEST_SECS: i64 = 1_767_225_600;
/// Seconds that the clock may lie behind the newest message before that is worth a word.
const CLOCK_SLACK_SECS: i64 = 300;
#[cfg(unix)]
const MIB: u64 = 1 << 20;
/// Less room than this, and a database cannot even grow its journal.
#[cfg(unix)]
const FULL_BYTES: u64 = 4 * MIB;
/// Less room than this is worth a word.
#[cfg(unix)]
const SCARCE_BYTES: u64 = 64 * MIB;
/// What to do when nobody answers.
const LOOK_AGAIN: &str = "check the address, and whether the peer is being served there and lets this machine in";

impl Doctor {
    pub(super) fn note(
        &mut self,
        check: &'static str,
        status: Status,
        detail: impl Into<String>,
        hint: Option<String>,
    ) {
        self.checks.push(Check { agent: self.agent.clone(), check, status, detail: detail.into(), hint });
    }
    pub(super) fn failed(&mut self, check: &'static str, attempt: &str, error: &impl Explain) {
        self.failure(check, Failure::of(attempt, error));
    }
    fn failure(&mut self, check: &'static str, failure: Failure) {
        let detail = output::in_one_line(&failure);
        self.note(check, Status::Failed, detail, failure.hint);
    }

    /// Whether there is a folder, or could be one.
    pub(super) fn home(&mut self, home: &Home) -> bool {
        let root = home.root();
        match fs::metadata(root) {
            Ok(facts) if facts.is_dir() => self.note("home", Status::Ok, root.display().to_string(), None),
            Ok(_) => {
                let hint = Some("check `--home` or MURETAI_HOME".to_owned());
                self.note("home", Status::Failed, format!("{} is no folder", root.display()), hint);
                return false;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let hint = Some("`muretai keygen NAME` makes it".to_owned());
                self.note("home", Status::Ok, format!("{} is not there yet", root.display()), hint);
            }
            Err(error) => {
                self.failure("home", Failure::io(format!("cannot look at {}", root.display()), &error));
                return false;
            }
        }
        true
    }

    /// Whether the home's disk takes what agents write.
    pub(super) fn disk(&mut self, root: &Path) {
        #[cfg(unix)]
        {
            use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
            let Some(place) = root.ancestors().map(or_here).find(|place| place.exists()) else { return };
            let Ok(facts) = statvfs(place) else { return };
            let free = facts.f_bavail.saturating_mul(facts.f_frsize);
            let shown = format!("{} MiB free", free / MIB);
            let space = || Some("free some space: what cannot be stored is not acknowledged".to_owned());
            if facts.f_flag.contains(StatVfsMountFlags::RDONLY) {
                let hint = Some("--home or MURETAI_HOME names another place".to_owned());
                self.note("disk", Status::Failed, format!("{} cannot be written", place.display()), hint);
            } else if access(place, Access::WRITE_OK).is_err() {
                let hint = Some("check who owns it, and its mode".to_owned());
                self.note("disk", Status::Failed, format!("{} cannot be written", place.display()), hint);
            } else if free < FULL_BYTES {
                self.note("disk", Status::Failed, shown, space());
            } else if free < SCARCE_BYTES {
                self.note("disk", Status::Warning, shown, space());
            } else {
                self.note("disk", Status::Ok, shown, None);
            }
        }
        #[cfg(not(unix))]
        let _ = root;
    }

    pub(super) fn configuration(&mut self, home: &Home) {
        if let Err(failure) = config::read(home.root()) {
            self.failure("config", failure);
        }
    }

    /// Whether each plugin's file is the one that was added, and starts.
    pub(super) async fn plugins(&mut self, home: &Home) {
        let manifest = match Manifest::read(home.root()) {
            Ok(manifest) => manifest,
            Err(error) => return self.failed("plugins", "cannot tell which there are", &error),
        };
        for entry in &manifest.plugins {
            let host = match plugin::host() {
                Ok(host) => host,
                Err(failure) => return self.failure("plugins", failure),
            };
            match set::check(entry, &host).await {
                Ok(_) => {
                    let what = format!("{} {} starts: {}", entry.name, entry.version, entry.offers.join(" "));
                    self.note("plugins", Status::Ok, what, None);
                }
                Err(error) => self.failed("plugins", &format!("{} keeps agents from being served", entry.name), &error),
            }
        }
    }

    /// The agents to look at; what is there and is none is told.
    pub(super) fn agents(&mut self, context: &Context, home: &Home) -> Vec<AgentDir> {
        let found = match context.agent_name().ok().flatten() {
            Some(name) => home.pick(Some(&name)).map(|dir| vec![dir]),
            None => {
                self.strays(home);
                home.agents()
            }
        };
        found.unwrap_or_else(|error| {
            self.failed("agents", "cannot look at the agents", &error);
            Vec::new()
        })
    }

    /// Keys that are gone, and whatever else is in the agents' folder.
    fn strays(&mut self, home: &Home) {
        for dir in home.keyless().unwrap_or_default() {
            let hint = format!("`muretai keygen {} --restore` brings it back from its 24 words", dir.name);
            self.agent = Some(dir.name.clone());
            self.note("key", Status::Failed, format!("{} has a database and no key", dir.path.display()), Some(hint));
        }
        self.agent = None;
        let Ok(entries) = fs::read_dir(home.root().join("agents")) else { return };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let hint = || Some("move it away, or give it a name that an agent can have".to_owned());
            if name.starts_with('.') {
                continue;
            }
            if !path.is_dir() {
                self.note("agents", Status::Failed, format!("{} is no folder", path.display()), hint());
            } else if home.dir_for(&name).is_err() {
                let detail = format!("{} is passed over: that is no name of an agent", path.display());
                self.note("agents", Status::Warning, detail, hint());
            }
        }
    }

    /// Signatures carry a time, and peers refuse what is more than five minutes off.
    pub(super) fn clock(&mut self, newest: Option<i64>) {
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

    pub(super) async fn examine(&mut self, context: &Context, dir: &AgentDir) {
        match context.permissions(dir) {
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
            Err(error) => self.failed("database", "it cannot be used", &error),
            Ok(agent) => {
                let relays = context.config().map(|config| config.relay.clone()).unwrap_or_default();
                agent.configure_relays(relays.clone());
                self.database(&agent).await;
                self.trust(&agent).await;
                self.service(&agent).await;
                self.mail(&agent, &relays).await;
                agent.close().await;
            }
        }
    }

    /// Reads the key when that needs nobody's help.
    fn key(&mut self, context: &Context, dir: &AgentDir) -> Option<Seed> {
        let is_locked = context.passphrase_source().is_none();
        match keyfile::is_encrypted(dir) {
            Err(error) => {
                self.failed("key", "it cannot be used", &error);
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
                    self.failure("key", failure);
                    None
                }
            },
        }
    }

    async fn database(&mut self, agent: &Agent) {
        match agent.store().check().await {
            Err(error) => return self.failed("database", "it is not sound", &error),
            Ok(()) => self.note("database", Status::Ok, "sound", None),
        }
        let newest = Query { with_sent: true, with_auto: true, limit: Some(1), ..Query::default() };
        match agent.store().messages(&newest).await {
            Err(error) => self.failed("messages", "they cannot be read", &error),
            Ok(rows) => self.clock(rows.first().map(|row| row.received.0).or(Some(i64::MIN))),
        }
    }

    /// What waits for the owner, and what is owed to peers and could not be said yet.
    async fn trust(&mut self, agent: &Agent) {
        match agent.store().pending_count(agent::now()).await {
            Err(error) => self.failed("requests", "they cannot be read", &error),
            Ok(0) => self.note("requests", Status::Ok, "none waits for you", None),
            Ok(count) => {
                let hint = format!("`muretai --as {} requests` lists them", agent.name());
                self.note("requests", Status::Ok, format!("{count} wait for you"), Some(hint));
            }
        }
        match agent.store().errands().await {
            Err(error) => self.failed("errands", "they cannot be read", &error),
            Ok(errands) if errands.is_empty() => {
                self.note("errands", Status::Ok, "no peer has to be told anything", None)
            }
            Ok(errands) => {
                let mut detail = format!("waiting to be told to peers: {}", errands.len());
                if let Some(error) = errands.iter().find_map(|errand| errand.last_error.as_ref()) {
                    detail.push_str(&format!("; the last attempt failed: {error}"));
                }
                let hint = format!("`muretai --as {} serve` goes on trying for 7 days", agent.name());
                self.note("errands", Status::Warning, detail, Some(hint));
            }
        }
    }

    async fn service(&mut self, agent: &Agent) {
        let Some(holder) = agent.served_by() else {
            let hint = format!("`muretai --as {} serve` makes it reachable", agent.name());
            return self.note("service", Status::Ok, "not running", Some(hint));
        };
        if holder.url.is_empty() {
            let detail = format!("process {}, reached through relays alone", holder.pid);
            return self.note("service", Status::Ok, detail, None);
        }
        let running = format!("process {} at {}", holder.pid, holder.url);
        match agent.fetch_card(&holder.url, Some(agent.did()), true).await {
            Ok(FetchedCard::Peer(card)) if card.is_signed => {
                self.note("service", Status::Ok, format!("{running} shows this agent's signed card"), None);
            }
            Ok(_) => self.note("service", Status::Warning, format!("{running} shows an unsigned card"), None),
            Err(error) => {
                let hint = "is --url the address that others dial, and does it lead here?".to_owned();
                let is_away = error.fault() == Fault::Unreachable;
                let what = if is_away { "cannot be reached there" } else { "does not show this agent's card there" };
                let failure = Failure::io(format!("{running} {what}"), &error);
                self.failure("service", failure.hint(hint));
            }
        }
    }
}

impl Doctor {
    /// Whether a peer is there, as the agent that acts sees it.
    pub(super) fn peer(&mut self, context: &Context, target: &str, args: &Args) -> Result<(), Failure> {
        let allow_private = context.allow_private(args.allow_private)?;
        let timeout = context.timeout(args.timeout)?;
        context::block_on(async {
            let agent = match context.open(timeout).await {
                Ok(agent) => agent,
                Err(failure) => {
                    self.failure("peer", failure);
                    return Ok(());
                }
            };
            let what = format!("fetching the card of {}", people::shown(target));
            let fetching = tokio::time::timeout(timeout, agent.card_of(target, allow_private));
            match progress::watch(&context.out, what, fetching).await {
                Err(_) => {
                    let detail = format!("{target} gave no card within {} s", timeout.as_secs_f32());
                    self.note("peer", Status::Failed, detail, Some(LOOK_AGAIN.to_owned()));
                }
                Ok(Ok(card)) => self.card(&agent, target, card, allow_private).await,
                Ok(Err(error)) => {
                    let is_unknown = matches!(error, SendError::NoAddress { .. } | SendError::NotListed { .. });
                    let known = if is_unknown { known_mailbox(&agent, target).await } else { None };
                    let failure = Failure::of(format!("{target} shows no card"), &error);
                    let is_away = error.fault() == Fault::Unreachable && failure.hint.is_some();
                    match known {
                        Some((did, relay)) => {
                            let known = ", and shows no card".to_owned();
                            let mailbox = Mailbox { target, did: &did, relay: &relay, known };
                            self.peer_mailbox(&agent, &mailbox, allow_private).await;
                        }
                        None => self.failure("peer", if is_away { failure.hint(LOOK_AGAIN) } else { failure }),
                    }
                }
            }
            agent.close().await;
            Ok(())
        })
    }

    async fn card(&mut self, agent: &Agent, target: &str, card: FetchedCard, allow_private: bool) {
        match card {
            FetchedCard::Peer(peer) if peer.copy_signed.is_some() => {
                self.copy(agent, target, &peer, allow_private).await;
            }
            FetchedCard::Peer(peer) if peer.is_signed => {
                self.note("peer", Status::Ok, format!("{target} is {} at {}", peer.card.did, peer.base), None);
            }
            FetchedCard::Peer(peer) => {
                let detail = format!("{target} answers at {}, with an unsigned card", peer.base);
                self.note("peer", Status::Warning, detail, None);
            }
            FetchedCard::Foreign { url, .. } => {
                let hint = "`muretai send --unverified` speaks to it".to_owned();
                self.note("peer", Status::Warning, format!("{url} has no DID"), Some(hint));
            }
        }
    }
}

impl Doctor {
    /// A relay's copy of a card says who somebody is, and nothing about whether anybody is there.
    async fn copy(&mut self, agent: &Agent, target: &str, peer: &PeerCard, allow_private: bool) {
        let now = agent::now();
        let when = clock::distance(peer.copy_signed.unwrap_or(now), now);
        if !peer.base.is_empty() {
            let detail = format!(
                "{target} is {}; {} does not answer, and the card is a copy at a relay, signed {when}",
                peer.card.did, peer.base
            );
            self.note("peer", Status::Warning, detail, Some(LOOK_AGAIN.to_owned()));
        }
        match &peer.card.relay {
            Some(relay) if urls::is_plain_url(relay) => {
                let known = format!(", as a copy of its card says, signed {when}");
                let mailbox = Mailbox { target, did: &peer.card.did, relay, known };
                self.peer_mailbox(agent, &mailbox, allow_private).await;
            }
            _ if peer.base.is_empty() => {
                let detail = format!("{target} is {}; its card, signed {when}, names no place", peer.card.did);
                self.note("peer", Status::Failed, detail, Some(LOOK_AGAIN.to_owned()));
            }
            _ => {}
        }
    }
}

/// Where letters to a contact wait that shows no card.
async fn known_mailbox(agent: &Agent, target: &str) -> Option<(Did, String)> {
    let store = agent.store();
    let contact = match target.trim().parse::<Did>() {
        Ok(did) => store.contact(&did).await,
        Err(_) => store.contact_named(target.trim()).await,
    };
    let contact = contact.ok().flatten()?;
    let relay = contact.coordinates.relay.filter(|relay| urls::is_plain_url(relay))?;
    contact.coordinates.enc_pub.map(|_| (contact.did, relay))
}

/// A relative path has an empty ancestor, which stands for the folder that we are in.
#[cfg(unix)]
fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}
