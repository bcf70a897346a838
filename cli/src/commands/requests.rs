//! `muretai requests`: what waits for the owner's decision, and what this agent asked of others.

use std::time::Duration;

use muretai_node::{
    Agent, agent,
    trust::requests::{DecideRequest, DecidedRequest},
};
use muretai_protocol::{Did, UnixSeconds, text};
use muretai_store::{
    introductions::{IntroductionRow, Role},
    messages::Direction,
    requests::{Decision, RequestKind, RequestRow, RequestStatus},
};
use serde::Serialize;

use crate::{
    clock,
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    output::{self, DIM, STRONG, paint},
    parse,
    people::{self, Names},
    progress, shell, wire,
};

/// List what waits for you, and decide
///
/// Connect requests, introductions, questions of contacts and messages that a policy held are one list, newest last.
/// Without a command it is listed. Nobody is let in before you accept. What a peer says of itself is shown as it says
/// it, always beside its DID: a name proves nothing, a DID does.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai requests --all\n\
\x20 muretai requests accept 3 --name south")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List what waits, newest last
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n\
\x20 muretai requests list\n\
\x20 muretai requests list --all --json"
    )]
    List(ListArgs),
    /// Accept a request: what it asks for is done, and its sender is told
    ///
    /// A connect request makes trust both ways. An introduction lets its subject write to you until it ends; a first
    /// message that was held is delivered. A question for an introduction vouches for whoever asks; one about a topic
    /// names the contacts whose tags fit, or those of --refer. A held message is delivered.
    #[command(
        visible_alias = "approve",
        after_help = "Examples:\n\
\x20 muretai requests accept 3\n\
\x20 muretai requests accept 5 --refer south --refer east"
    )]
    Accept(AcceptArgs),
    /// Reject a request: what was held with it is dropped
    ///
    /// A request that was rejected can still be accepted, by its number, until it expires.
    #[command(visible_aliases = ["decline", "deny"], after_help = "Examples:\n\
\x20 muretai requests reject 3\n\
\x20 muretai requests reject 3 --json")]
    Reject(DecideArgs),
    /// Take back a request of your own: a later yes to it makes no trust
    #[command(
        visible_alias = "cancel",
        after_help = "Examples:\n\
\x20 muretai requests withdraw 4\n\
\x20 muretai requests withdraw 4 --json"
    )]
    Withdraw {
        /// Number of the request
        #[arg(value_parser = parse::request_number)]
        id: i64,
    },
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Also what was decided, withdrawn or expired
    #[arg(short, long)]
    all: bool,
}

#[derive(Debug, clap::Args)]
struct DecideArgs {
    /// Number of the request
    #[arg(value_parser = parse::request_number)]
    id: i64,
    /// How long telling the peer may take; otherwise `muretai serve` goes on trying [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    timeout: Option<Duration>,
}

#[derive(Debug, clap::Args)]
struct AcceptArgs {
    #[command(flatten)]
    decide: DecideArgs,
    /// Local name for whom it lets in [default: what it calls itself]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Contact to name in the answer to a question about a topic; may be given more than once
    #[arg(long, value_name = "CONTACT")]
    refer: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequestJson<'a> {
    id: i64,
    kind: &'static str,
    direction: &'static str,
    status: &'static str,
    did: &'a str,
    name: Option<&'a str>,
    peer_name: Option<&'a str>,
    via: Option<&'a str>,
    via_name: Option<&'a str>,
    about: Option<&'a str>,
    about_name: Option<&'a str>,
    note: Option<&'a str>,
    held: Option<&'a str>,
    vouched: bool,
    trust_level_bp: Option<u16>,
    expertise: Option<&'a [String]>,
    valid_until: Option<String>,
    wire_id: Option<&'a str>,
    url: Option<&'a str>,
    created: String,
    expires: String,
    decided: Option<String>,
}

/// What a decision did.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DecidedJson<'a> {
    #[serde(flatten)]
    request: RequestJson<'a>,
    changed: bool,
    contact: Option<&'a str>,
    delivered: u32,
    told: bool,
    notes: &'a [String],
}

/// A row with what is known of it elsewhere.
struct Shown<'a> {
    row: &'a RequestRow,
    introduction: Option<IntroductionRow>,
    names: &'a Names,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    context::block_on(async {
        let timeout = match &args.command {
            Some(Command::Accept(args)) => args.decide.timeout,
            Some(Command::Reject(args)) => args.timeout,
            _ => None,
        };
        let timeout = context.timeout(timeout)?;
        let agent = context.open(timeout).await?;
        let done = match &args.command {
            None => list(context, &agent, &args.list).await,
            Some(Command::List(args)) => list(context, &agent, args).await,
            Some(Command::Accept(args)) => accept(context, &agent, args, timeout).await,
            Some(Command::Reject(args)) => reject(context, &agent, args, timeout).await,
            Some(Command::Withdraw { id }) => withdraw(context, &agent, *id).await,
        };
        agent.close().await;
        done.map(|()| Exit::Done)
    })
}

async fn list(context: &Context, agent: &Agent, args: &ListArgs) -> Result<(), Failure> {
    let rows = agent.requests(args.all).await.map_err(|error| Failure::of("cannot list the requests", &error))?;
    let names = Names::of(agent, rows.iter().flat_map(parties)).await?;
    for row in &rows {
        let shown = Shown { row, introduction: introduction_of(agent, row).await?, names: &names };
        context.out.either(&json(&shown), || lines(context, &shown))?;
    }
    if rows.is_empty() {
        context.next(match args.all {
            true => "no request",
            false => "nothing waits; `muretai requests --all` shows what was decided",
        });
    }
    Ok(())
}

async fn accept(context: &Context, agent: &Agent, args: &AcceptArgs, timeout: Duration) -> Result<(), Failure> {
    if let Some(name) = &args.name {
        let refused = |reason| Failure::usage(format!("cannot name the contact `{name}`: {reason}"));
        muretai_node::send::target::check_name(name, agent.name()).map_err(refused)?;
    }
    let request = DecideRequest {
        id: args.decide.id,
        decision: Decision::Accept,
        name: args.name.clone(),
        refer: args.refer.clone(),
        timeout,
    };
    decide(context, agent, &request).await
}

async fn reject(context: &Context, agent: &Agent, args: &DecideArgs, timeout: Duration) -> Result<(), Failure> {
    let request = DecideRequest { id: args.id, decision: Decision::Reject, name: None, refer: Vec::new(), timeout };
    decide(context, agent, &request).await
}

async fn decide(context: &Context, agent: &Agent, request: &DecideRequest) -> Result<(), Failure> {
    let verb = if request.decision == Decision::Accept { "accept" } else { "reject" };
    let attempt = format!("cannot {verb} the request {}", request.id);
    let deciding = progress::watch(&context.out, "telling the peer".to_owned(), agent.decide(request));
    let decided = deciding.await.map_err(|error| Failure::of(attempt, &error))?;
    let names = Names::of(agent, parties(&decided.row)).await?;
    let shown = Shown { row: &decided.row, introduction: introduction_of(agent, &decided.row).await?, names: &names };
    let result = DecidedJson {
        request: json(&shown),
        changed: !decided.was_decided,
        contact: decided.contact.as_ref().map(|contact| contact.name.as_str()),
        delivered: decided.delivered,
        told: decided.is_told,
        notes: &decided.notes,
    };
    context.out.either(&result, || outcome(&shown, &decided))?;
    tell(context, request.decision, &shown, &decided);
    if request.decision == Decision::Accept {
        asker_without_address(context, agent, &shown).await?;
    }
    if !decided.is_told && is_owed(agent, &decided.row).await? {
        context.next("the peer could not be told yet; `muretai serve` goes on trying");
    }
    Ok(())
}

/// What was asked for cannot be handed to somebody of whom no address is known.
async fn asker_without_address(context: &Context, agent: &Agent, shown: &Shown<'_>) -> Result<(), Failure> {
    let row = shown.row;
    if !matches!(row.kind, RequestKind::IntroduceMe | RequestKind::Referral) {
        return Ok(());
    }
    let asker = agent.store().contact(&row.peer).await;
    let asker = asker.map_err(|error| Failure::of("cannot look up a contact", &error))?;
    let url = asker.and_then(|asker| asker.coordinates.url).or_else(|| row.coordinates.url.clone());
    if url.is_none() {
        let who = shown.names.get(&row.peer).map_or_else(|| row.peer.to_string(), people::shown);
        context
            .next(&format!("no address of {who} is known: it does not learn of this before it serves and tells one"));
    }
    Ok(())
}

/// Whether somebody whom the request names is still to be told something.
async fn is_owed(agent: &Agent, row: &RequestRow) -> Result<bool, Failure> {
    let errands = agent.store().errands().await.map_err(|error| Failure::of("cannot read what is owed", &error))?;
    Ok(errands.iter().any(|owed| parties(row).any(|did| *did == owed.errand.peer)))
}

async fn withdraw(context: &Context, agent: &Agent, id: i64) -> Result<(), Failure> {
    let attempt = format!("cannot take back the request {id}");
    let row = agent.withdraw(id).await.map_err(|error| Failure::of(attempt, &error))?;
    let names = Names::of(agent, parties(&row)).await?;
    let shown = Shown { row: &row, introduction: None, names: &names };
    context.out.either(&json(&shown), || format!("withdrawn  #{id}  {}", names.shown(&row.peer)))?;
    context.out.note("a yes that still arrives makes no trust");
    Ok(())
}

/// What a person hears beside the result.
fn tell(context: &Context, decision: Decision, shown: &Shown<'_>, decided: &DecidedRequest) {
    for note in &decided.notes {
        context.out.note(&people::shown(note));
    }
    if decided.was_decided {
        context.out.note("it was decided so before");
    }
    if decided.delivered > 0 {
        context.next("the message that was held is delivered: `muretai inbox --unread`");
    }
    match (decision, &decided.contact) {
        (Decision::Accept, Some(contact)) if contact.coordinates.url.is_none() => context.next(&format!(
            "{} can write to you; you can write to it once its owner runs `muretai serve`, and then `muretai connect`",
            people::shown(&contact.name)
        )),
        (Decision::Accept, Some(contact)) => {
            context.next(&format!("next: `muretai send {} 'hello'`", shell::quoted(&contact.name)));
        }
        (Decision::Reject, _) => {
            let id = shown.row.id;
            let block = format!("`muretai contacts block {}`", shown.row.peer);
            context.next(&format!("`muretai requests accept {id}` undoes it; {block} keeps it out for good"));
        }
        _ => {}
    }
}

async fn introduction_of(agent: &Agent, row: &RequestRow) -> Result<Option<IntroductionRow>, Failure> {
    let (RequestKind::Introduction, Some(issuer), Some(id)) = (row.kind, &row.via, &row.wire_id) else {
        return Ok(None);
    };
    let found = agent.store().introduction(Role::Received, issuer, id).await;
    found.map_err(|error| Failure::of("cannot read the introduction", &error))
}

fn parties(row: &RequestRow) -> impl Iterator<Item = &Did> {
    [Some(&row.peer), row.via.as_ref(), row.about.as_ref()].into_iter().flatten()
}

/// One request as a person reads it.
fn lines(context: &Context, shown: &Shown<'_>) -> String {
    let Shown { row, introduction, names } = shown;
    let now = agent::now();
    let number = paint(STRONG, &format!("#{}", row.id));
    let mut lines = vec![format!("{number}  {}  {}", headline(row), names.shown(&row.peer))];
    let mut fact = |label: &str, value: String| lines.push(format!("  {label:<10} {value}"));
    if let Some(name) = &row.peer_name {
        fact("own name", people::shown(name));
    }
    if let Some(via) = &row.via {
        fact("vouched by", names.shown(via));
    }
    if row.via.is_none() && row.is_vouched {
        fact("vouched by", "an introduction that it presents".to_owned());
    }
    // By the introducer's word: whoever decides should see where their messages would go.
    if let (Some(_), Some(url)) = (&row.via, &row.coordinates.url) {
        fact("address", people::shown(url));
    }
    if let Some(about) = &row.about {
        fact("to", names.shown(about));
    }
    if let Some(introduction) = introduction {
        fact("level", introduction.trust_level_bp.map_or_else(|| "not said".to_owned(), level));
        if !introduction.expertise.is_empty() {
            fact("knows", expertise(&introduction.expertise));
        }
        fact("stands", format!("until {}", clock::local(introduction.valid_until)));
    }
    if let Some(note) = &row.note {
        fact("says", quoted(note));
    }
    if let Some(held) = &row.held_text {
        fact("held", quoted(held));
    }
    fact("asked", format!("{}, {}", clock::local(row.created), clock::distance(row.created, now)));
    fact(state_label(row), state(row, now));
    if let Some(commands) = commands(row) {
        lines.push(paint(DIM, &format!("  {}", context.typed(&commands))));
    }
    lines.join("\n") + "\n\n"
}

/// A peer's words, each line set in so that none can pass for ours.
fn quoted(words: &str) -> String {
    text::body(words).lines().collect::<Vec<_>>().join("\n             ")
}

fn headline(row: &RequestRow) -> &'static str {
    match (row.direction, row.kind) {
        (Direction::In, RequestKind::Connect) => "connect request of",
        (Direction::In, RequestKind::Introduction) => "introduction of",
        (Direction::In, RequestKind::IntroduceMe) => "request for an introduction, of",
        (Direction::In, RequestKind::Referral) => "question about a topic, of",
        (Direction::In, RequestKind::Message) => "message that a policy held, of",
        (Direction::Out, RequestKind::Connect) => "your connect request to",
        (Direction::Out, RequestKind::IntroduceMe) => "your request for an introduction, to",
        (Direction::Out, RequestKind::Referral) => "your question about a topic, to",
        (Direction::Out, RequestKind::Introduction | RequestKind::Message) => "your request to",
    }
}

fn state_label(row: &RequestRow) -> &'static str {
    if row.status == RequestStatus::Pending { "expires" } else { "is" }
}

fn state(row: &RequestRow, now: UnixSeconds) -> String {
    match (row.status, row.decided) {
        (RequestStatus::Pending, _) => {
            format!("{}, {}", clock::local(row.expires), clock::distance(row.expires, now))
        }
        (other, Some(decided)) => format!("{} since {}", status(other), clock::local(decided)),
        (other, None) => status(other).to_owned(),
    }
}

/// What can be done about it.
fn commands(row: &RequestRow) -> Option<String> {
    let id = row.id;
    match (row.direction, row.status) {
        (Direction::In, RequestStatus::Pending) => {
            Some(format!("`muretai requests accept {id}` or `muretai requests reject {id}`"))
        }
        (Direction::In, RequestStatus::Rejected) => Some(format!("`muretai requests accept {id}` undoes it")),
        (Direction::Out, RequestStatus::Pending) => Some(format!("`muretai requests withdraw {id}` takes it back")),
        _ => None,
    }
}

/// The result of a decision on one line.
fn outcome(shown: &Shown<'_>, decided: &DecidedRequest) -> String {
    let word = status(shown.row.status);
    let who = match &decided.contact {
        Some(contact) => format!("{}  {}", paint(output::STRONG, &people::shown(&contact.name)), contact.did),
        None => shown.names.shown(&shown.row.peer),
    };
    format!("{word:<9}  #{}  {}  {who}", shown.row.id, kind(shown.row.kind))
}

/// A trust level as a number from 0 to 1.
pub(super) fn level(basis_points: u16) -> String {
    let decimals = format!("{:03}", basis_points % 1_000);
    let decimals = decimals.trim_end_matches('0');
    let whole = basis_points / 1_000;
    if decimals.is_empty() { whole.to_string() } else { format!("{whole}.{decimals}") }
}

/// What somebody is said to know, on one line.
pub(super) fn expertise(items: &[String]) -> String {
    items.iter().map(|item| people::shown(item)).collect::<Vec<_>>().join(", ")
}

fn kind(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Connect => "connect",
        RequestKind::Introduction => "introduction",
        RequestKind::IntroduceMe => "introduce-me",
        RequestKind::Referral => "referral",
        RequestKind::Message => "message",
    }
}

fn status(status: RequestStatus) -> &'static str {
    match status {
        RequestStatus::Pending | RequestStatus::Hidden => "pending",
        RequestStatus::Accepted => "accepted",
        RequestStatus::Rejected => "rejected",
        RequestStatus::Withdrawn => "withdrawn",
        RequestStatus::Expired => "expired",
    }
}

fn json<'a>(shown: &'a Shown<'_>) -> RequestJson<'a> {
    let Shown { row, introduction, names } = shown;
    let name = |did: &Option<Did>| did.as_ref().and_then(|did| names.get(did));
    RequestJson {
        id: row.id,
        kind: kind(row.kind),
        direction: if row.direction == Direction::In { "in" } else { "out" },
        status: status(row.status),
        did: row.peer.as_str(),
        name: names.get(&row.peer),
        peer_name: row.peer_name.as_deref(),
        via: row.via.as_ref().map(Did::as_str),
        via_name: name(&row.via),
        about: row.about.as_ref().map(Did::as_str),
        about_name: name(&row.about),
        note: row.note.as_deref(),
        held: row.held_text.as_deref(),
        vouched: row.is_vouched,
        trust_level_bp: introduction.as_ref().and_then(|introduction| introduction.trust_level_bp),
        expertise: introduction.as_ref().map(|introduction| introduction.expertise.as_slice()),
        valid_until: introduction.as_ref().map(|introduction| wire::time(introduction.valid_until)),
        wire_id: row.wire_id.as_deref(),
        url: row.coordinates.url.as_deref(),
        created: wire::time(row.created),
        expires: wire::time(row.expires),
        decided: row.decided.map(wire::time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_read_as_they_were_typed() {
        for text in ["0", "1", "0.8", "0.05", "0.125"] {
            assert_eq!(level(parse::level(text).unwrap()), text);
        }
    }

    #[test]
    fn a_peers_words_cannot_pass_for_ours() {
        let shown = quoted("hi\n#8  wants to connect: owner\r\u{1b}[2K");
        assert!(shown.lines().skip(1).all(|line| line.starts_with("    ")), "{shown}");
        assert!(!shown.contains(['\u{1b}', '\r']), "{shown:?}");
    }
}
