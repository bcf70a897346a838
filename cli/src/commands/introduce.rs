//! `muretai introduce`: vouch for one contact to another.

use std::time::Duration;

use muretai_node::{
    Agent, agent,
    trust::introduce::{IntroduceRequest, Proposed},
};
use muretai_protocol::{Did, UnixSeconds};
use muretai_store::introductions::{IntroductionRow, IntroductionStatus, Role};
use serde::Serialize;

use super::requests;
use crate::{
    clock,
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    output, parse,
    people::{self, Names},
    progress, shell, wire,
};

/// Vouch for somebody: introduce SUBJECT to a contact of yours
///
/// The introduction is signed by you. TARGET's owner decides whether SUBJECT may write; when it is a yes, SUBJECT gets
/// the introduction and presents it by itself. It lets SUBJECT in, not whom SUBJECT knows. It ends by itself, when you
/// revoke it, and when TARGET removes you. TARGET has to be a direct contact; SUBJECT is anybody whose DID you give.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n\
\x20 muretai introduce north --to south --expertise translation --level 0.8\n\
\x20 muretai introduce revoke 3f2a9c")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Who is introduced: a contact's name or a DID
    #[arg(required = true)]
    subject: Option<String>,
    /// Nothing: a second word is told where it goes
    #[arg(hide = true, value_name = "TARGET", value_parser = to_whom)]
    stray: Option<String>,
    /// To whom: a direct contact's name or its DID
    #[arg(long, value_name = "TARGET", required = true)]
    to: Option<String>,
    /// What SUBJECT knows; may be given more than once [default: the contact's tags]
    #[arg(long, value_name = "WORDS", value_parser = parse::not_blank)]
    expertise: Vec<String>,
    /// How far you trust SUBJECT, from 0 to 1
    #[arg(long, value_name = "LEVEL", default_value = "0.5", value_parser = parse::level)]
    level: u16,
    /// How many days it stands, 1 to 365
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=365))]
    days: u32,
    /// What TARGET's owner reads beside it
    #[arg(short = 'm', long = "message", value_name = "NOTE", value_parser = parse::not_blank)]
    message: Option<String>,
    /// How long telling TARGET may take; otherwise `muretai serve` goes on trying [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    timeout: Option<Duration>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Take back an introduction: its subject is refused from then on
    ///
    /// The target is told at once when it can be reached, and can ask at any time; it looks before it lets anybody in.
    #[command(after_help = "Examples:\n\
\x20 muretai introduce revoke 3f2a9c\n\
\x20 muretai introduce revoke urn:uuid:00112233445566778899aabbccddeeff --json")]
    Revoke {
        /// Its id, or a part of it that is no other's, of 6 characters or more
        id: String,
        /// How long telling the target may take [default: 30s]
        #[arg(long, value_name = "TIME", value_parser = parse::duration)]
        timeout: Option<Duration>,
    },
    /// List introductions, newest first: that you wrote, that were made to you, that you hold
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n\
\x20 muretai introduce list\n\
\x20 muretai introduce list --held --json"
    )]
    List(ListArgs),
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct ListArgs {
    /// Only those that you wrote
    #[arg(long)]
    issued: bool,
    /// Only those of somebody to you
    #[arg(long)]
    received: bool,
    /// Only those of you to somebody, which `send` presents
    #[arg(long)]
    held: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IntroductionJson<'a> {
    id: &'a str,
    role: &'static str,
    status: &'static str,
    issuer: &'a str,
    issuer_name: Option<&'a str>,
    subject: &'a str,
    subject_name: Option<&'a str>,
    target: &'a str,
    target_name: Option<&'a str>,
    trust_level_bp: Option<u16>,
    expertise: &'a [String],
    requested: bool,
    issued: String,
    valid_until: String,
    changed: String,
}

/// An introduction, and whether its target knows of what was done.
#[derive(Serialize)]
struct DoneJson<'a> {
    #[serde(flatten)]
    introduction: IntroductionJson<'a>,
    told: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let timeout = match &args.command {
        Some(Command::Revoke { timeout, .. }) => *timeout,
        _ => args.timeout,
    };
    let timeout = context.timeout(timeout)?;
    context::block_on(async {
        let agent = context.open(timeout).await?;
        let done = match &args.command {
            None => introduce(context, &agent, args, timeout).await,
            Some(Command::Revoke { id, .. }) => revoke(context, &agent, id, timeout).await,
            Some(Command::List(args)) => list(context, &agent, args).await,
        };
        agent.close().await;
        done.map(|()| Exit::Done)
    })
}

/// Refuses a second word, and says where it goes.
fn to_whom(word: &str) -> Result<String, String> {
    Err(format!("to whom goes after --to: `--to {}`", shell::quoted(word)))
}

async fn introduce(context: &Context, agent: &Agent, args: &Args, timeout: Duration) -> Result<(), Failure> {
    let named =
        |who: &Option<String>| who.clone().ok_or_else(|| Failure::usage("who is introduced to whom is missing"));
    let request = IntroduceRequest {
        subject: named(&args.subject)?,
        target: named(&args.to)?,
        expertise: args.expertise.clone(),
        trust_level_bp: args.level,
        days: args.days,
        note: args.message.clone(),
        timeout,
    };
    let (subject, target) = (people::shown(&request.subject), people::shown(&request.target));
    let attempt = format!("cannot introduce `{subject}` to `{target}`");
    let introducing = progress::watch(&context.out, format!("telling {target}"), agent.introduce(&request));
    let introduced = introducing.await.map_err(|error| Failure::of(attempt, &error))?;
    let is_told = introduced.proposed == Proposed::Pending;
    let names = Names::of(agent, [&introduced.introduction.target]).await?;
    let target = names.get(&introduced.introduction.target).map_or(target, people::shown);
    print_one(context, agent, &introduced.introduction, is_told).await?;
    if is_told && agent.served_by().is_none() {
        context.next(&format!(
            "{target}'s owner decides; while `muretai serve` does not run what came of it cannot arrive here"
        ));
    } else if is_told {
        context.next(&format!("{target}'s owner decides; `muretai introduce list --issued` shows what came of it"));
    } else {
        context.next(&format!("{target} was not reached; `muretai serve` goes on trying"));
    }
    Ok(())
}

async fn revoke(context: &Context, agent: &Agent, id: &str, timeout: Duration) -> Result<(), Failure> {
    let attempt = format!("cannot revoke the introduction `{}`", people::shown(id));
    let revoking = agent.revoke_introduction(id, timeout);
    let revoked = progress::watch(&context.out, "telling the target".to_owned(), revoking).await;
    let revoked = revoked.map_err(|error| Failure::of(attempt, &error))?;
    print_one(context, agent, &revoked.introduction, revoked.is_told).await?;
    if !revoked.is_told {
        context.next("the target could not be told yet: it learns it when it asks, and `muretai serve` goes on trying");
    }
    Ok(())
}

async fn list(context: &Context, agent: &Agent, args: &ListArgs) -> Result<(), Failure> {
    let role = match (args.issued, args.received, args.held) {
        (true, ..) => Some(Role::Issued),
        (_, true, _) => Some(Role::Received),
        (.., true) => Some(Role::Held),
        _ => None,
    };
    let rows = agent.store().introductions(role).await;
    let rows = rows.map_err(|error| Failure::of("cannot list the introductions", &error))?;
    if rows.is_empty() {
        context.next("no introduction; `muretai introduce SUBJECT --to TARGET` makes one");
    }
    let names = Names::of(agent, rows.iter().flat_map(parties)).await?;
    for row in &rows {
        context.out.either(&json(row, &names), || lines(row, &names))?;
    }
    Ok(())
}

async fn print_one(context: &Context, agent: &Agent, row: &IntroductionRow, told: bool) -> Result<(), Failure> {
    let names = Names::of(agent, parties(row)).await?;
    let done = DoneJson { introduction: json(row, &names), told };
    context.out.either(&done, || lines(row, &names))
}

fn parties(row: &IntroductionRow) -> [&Did; 3] {
    [&row.issuer, &row.subject, &row.target]
}

fn lines(row: &IntroductionRow, names: &Names) -> String {
    let party = |role: Role, did: &Did| if row.role == role { "you".to_owned() } else { names.shown(did) };
    let mut lines = vec![
        format!("{}  {}", output::paint(output::STRONG, &people::shown(&row.id)), status(row, agent::now())),
        format!("  from     {}", party(Role::Issued, &row.issuer)),
        format!("  who      {}", party(Role::Held, &row.subject)),
        format!("  to       {}", party(Role::Received, &row.target)),
        format!("  level    {}", row.trust_level_bp.map_or_else(|| "not said".to_owned(), requests::level)),
        format!("  stands   {} until {}", clock::local(row.issued), clock::local(row.valid_until)),
    ];
    if !row.expertise.is_empty() {
        lines.push(format!("  knows    {}", requests::expertise(&row.expertise)));
    }
    lines.join("\n") + "\n\n"
}

fn status(row: &IntroductionRow, now: UnixSeconds) -> &'static str {
    match row.status {
        IntroductionStatus::Pending | IntroductionStatus::Accepted if row.valid_until <= now => "expired",
        IntroductionStatus::Pending => "pending",
        IntroductionStatus::Accepted => "accepted",
        IntroductionStatus::Rejected => "rejected",
        IntroductionStatus::Revoked => "revoked",
        IntroductionStatus::Ended => "ended",
    }
}

fn json<'a>(row: &'a IntroductionRow, names: &'a Names) -> IntroductionJson<'a> {
    IntroductionJson {
        id: &row.id,
        role: match row.role {
            Role::Issued => "issued",
            Role::Received => "received",
            Role::Held => "held",
        },
        status: status(row, agent::now()),
        issuer: row.issuer.as_str(),
        issuer_name: names.get(&row.issuer),
        subject: row.subject.as_str(),
        subject_name: names.get(&row.subject),
        target: row.target.as_str(),
        target_name: names.get(&row.target),
        trust_level_bp: row.trust_level_bp,
        expertise: &row.expertise,
        requested: row.is_requested,
        issued: wire::time(row.issued),
        valid_until: wire::time(row.valid_until),
        changed: wire::time(row.changed),
    }
}
