//! `muretai connect`: ask somebody for trust, without an invite.

use std::time::Duration;

use muretai_node::{
    Agent,
    trust::connect::{ConnectRequest, Connected},
};
use serde::Serialize;

use crate::{
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    mail::Reception,
    output::{self, paint},
    parse, people, progress, shell,
};

/// Ask somebody to connect, without an invite
///
/// TARGET is a contact's name, a DID, a card URL or a bare domain. Its owner sees who asks and what -m says, and
/// decides; until then nothing is trusted. An answer arrives by itself while `muretai serve` runs, and with
/// `muretai inbox --sync` when this agent has a mailbox; --wait waits for it here. Asking again repeats the request and changes nothing else.
///
/// With --ask a contact is asked to introduce you instead: its owner vouches for you or not, and TARGET decides. That
/// question has fixed words: -m and --wait do not go with it.
///
/// It ends with 3 when the answer is no, and with 4 when --wait is over and nobody decided; the request stands.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai connect https://south.example -m 'we met at the fair' --wait 60\n\
\x20 muretai connect did:key:z6Mk… --ask west")]
pub(crate) struct Args {
    /// Whom to ask
    target: String,
    /// What its owner reads beside your name and DID
    #[arg(short = 'm', long = "message", value_name = "TEXT", value_parser = parse::not_blank)]
    message: Option<String>,
    /// Wait so long for its owner to decide
    #[arg(long, value_name = "SECS", value_parser = parse::duration, conflicts_with = "ask")]
    wait: Option<Duration>,
    /// Contact that is asked to introduce you to TARGET; without -m
    #[arg(long, value_name = "PEER")]
    ask: Option<String>,
    /// How long each request may take [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    timeout: Option<Duration>,
    /// Dial loopback and private addresses that a peer named
    #[arg(long)]
    allow_private: bool,
}

#[derive(Serialize, Default)]
struct ConnectJson<'a> {
    /// `connected`, `pending`, `rejected` or `asked`.
    status: &'static str,
    did: &'a str,
    name: Option<&'a str>,
    known: bool,
    request: Option<i64>,
    introducer: Option<&'a str>,
    answer: Option<&'a str>,
    offline: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let mut request = ConnectRequest {
        target: args.target.clone(),
        note: args.message.clone(),
        wait: args.wait,
        ask: args.ask.clone(),
        timeout: context.timeout(args.timeout)?,
        allow_private: context.allow_private(args.allow_private)?,
        receiver: Default::default(),
    };
    context::block_on(async {
        let agent = context.open(request.timeout).await?;
        let target = people::shown(&request.target);
        // Letters are received while the answer is waited for, and by nobody otherwise.
        let reception = match request.wait {
            Some(_) => Some(Reception::open(context, &agent, &format!("cannot wait for `{target}`")).await?),
            None => None,
        };
        if let Some(reception) = &reception {
            request.receiver = reception.options.clone();
        }
        let asking = agent.ask_to_connect(&request);
        let asked = tokio::select! {
            asked = progress::watch(&context.out, format!("waiting for {target}"), asking) => Some(asked),
            _ = tokio::signal::ctrl_c() => None,
        };
        request.receiver = Default::default();
        if let Some(reception) = reception {
            reception.close().await;
        }
        let arrival = Arrival::at(&agent).await;
        agent.close().await;
        let Some(asked) = asked else {
            let message = format!("cannot wait for `{target}`: interrupted");
            return Err(Failure::failed(message).hint("the request may stand; `muretai requests` shows it"));
        };
        let (attempt, about) = match &request.ask {
            None => (format!("cannot ask `{target}` to connect"), &request.target),
            Some(peer) => (format!("cannot ask `{}` to introduce you to `{target}`", people::shown(peer)), peer),
        };
        let asked = asked.map_err(|error| Failure::of(attempt, &error).about(about))?;
        print(context, args, &asked, arrival)
    })
}

fn print(context: &Context, args: &Args, asked: &Connected, arrival: Arrival) -> Result<Exit, Failure> {
    context.out.either(&json(asked), || text(asked))?;
    match asked {
        Connected::Connected { contact, was_known } => {
            let name = people::shown(&contact.name);
            let since = if *was_known { "trusted each other before" } else { "trust each other now" };
            let next = format!("`muretai send {} 'hello'`", shell::quoted(&contact.name));
            context.next(&format!("{name} and you {since}; next: {next}"));
            Ok(Exit::Done)
        }
        Connected::Pending { request, .. } => {
            let way = match arrival {
                Arrival::Nowhere => "while `muretai serve` does not run the answer cannot arrive: ask again later",
                Arrival::Mailbox => "`muretai inbox --sync` fetches the answer",
                Arrival::Service => "the answer arrives by itself",
            };
            let undo = format!("`muretai requests withdraw {request}` takes it back");
            context.next(&format!("its owner decides; {way}; {undo}"));
            Ok(if args.wait.is_some() { Exit::Unreachable } else { Exit::Done })
        }
        Connected::Rejected { .. } => {
            context.out.note("its owner said no; nothing was changed here");
            Ok(Exit::PeerRefused)
        }
        Connected::Asked { request, status, .. } => {
            context.next(match status.as_str() {
                "declined" => "it does not introduce you; nothing was changed here",
                _ if arrival == Arrival::Nowhere => OFFLINE,
                _ => "an introduction arrives as a message, `muretai introduce list --held` shows it",
            });
            if status != "declined" {
                context.next(&format!("`muretai requests withdraw {request}` forgets the question"));
            }
            Ok(if status == "declined" { Exit::PeerRefused } else { Exit::Done })
        }
    }
}

/// How an answer gets here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// A running `serve` takes it.
    Service,
    /// It waits in a mailbox.
    Mailbox,
    /// It does not.
    Nowhere,
}

impl Arrival {
    async fn at(agent: &Agent) -> Arrival {
        if agent.served_by().is_some() {
            return Arrival::Service;
        }
        let has_mailbox = agent.mailboxes().await.is_ok_and(|mailboxes| !mailboxes.is_empty());
        if has_mailbox { Arrival::Mailbox } else { Arrival::Nowhere }
    }
}

/// What an answer that comes as a message needs.
pub(super) const OFFLINE: &str = "while `muretai serve` does not run an introduction cannot arrive: ask again later";

fn text(asked: &Connected) -> String {
    match asked {
        Connected::Connected { contact, .. } => {
            format!("connected  {}  {}", paint(output::STRONG, &people::shown(&contact.name)), contact.did)
        }
        Connected::Pending { did, request, .. } => format!("pending    #{request}  {did}"),
        Connected::Rejected { did } => format!("rejected   {did}"),
        Connected::Asked { introducer, target, request, status } => {
            format!("asked      #{request}  {introducer} for {target}: {}", people::shown(status))
        }
    }
}

fn json(asked: &Connected) -> ConnectJson<'_> {
    match asked {
        Connected::Connected { contact, was_known } => ConnectJson {
            status: "connected",
            did: contact.did.as_str(),
            name: Some(&contact.name),
            known: *was_known,
            ..ConnectJson::default()
        },
        Connected::Pending { request, did, is_offline } => ConnectJson {
            status: "pending",
            did: did.as_str(),
            request: Some(*request),
            offline: *is_offline,
            ..ConnectJson::default()
        },
        Connected::Rejected { did } => ConnectJson { status: "rejected", did: did.as_str(), ..ConnectJson::default() },
        Connected::Asked { request, introducer, target, status } => ConnectJson {
            status: "asked",
            did: target.as_str(),
            request: Some(*request),
            introducer: Some(introducer.as_str()),
            answer: Some(status),
            ..ConnectJson::default()
        },
    }
}
