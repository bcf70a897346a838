//! `muretai outbox`: what is on its way, and what does not get on.

use std::time::Duration;

use muretai_node::{
    Agent, Fault, agent,
    send::{FlushOutcome, FlushRequest, SentStatus},
};
use muretai_protocol::UnixSeconds;
use muretai_store::{messages::OutStatus, outbox::OutboxRow};
use serde::Serialize;

use crate::{
    clock,
    commands::inbox,
    context::{self, Context},
    exit::Exit,
    failure::{Explain, Failure},
    output::{self, DIM, STRONG, paint},
    parse, people,
    progress::Counter,
    wire,
};

/// List, send and drop messages that are on their way
///
/// A message stays here until its peer has it, for 7 days: `queued` when nobody could be reached, `at relay` while it
/// waits there for the peer. A reply of the responder, or a machine's notice, is done as soon as a relay has it, because
/// nobody says anything about it. `muretai serve` sends again what is queued, 30 to 38 seconds after the first failure,
/// then after twice as long each time, up to 60 to 75 minutes, always under the same id, so that a peer takes it once.
/// While somebody sends a message, or was killed while sending it, `next` is when it is free again: 30 seconds after the
/// --timeout of that attempt.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai outbox list\n\
\x20 muretai outbox flush --json")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List what is on its way, oldest first
    ///
    /// Shown are the message's number and state, for whom it is and since when, which way it may go, when it is tried
    /// next or given up, and why the last attempt failed.
    #[command(after_help = "Examples:\n\
\x20 muretai outbox list\n\
\x20 muretai outbox list --all --json")]
    List {
        /// Also notices of machines, such as acknowledgements
        #[arg(short, long)]
        all: bool,
    },
    /// Send what is queued, now
    ///
    /// It ends with 0 when all of it was delivered or lies at a relay, with 3 when a peer refused, and with 4 when
    /// something is still queued.
    #[command(after_help = "Examples:\n\
\x20 muretai outbox flush\n\
\x20 muretai outbox flush 12 --timeout 1m")]
    Flush(FlushArgs),
    /// Give a message up
    ///
    /// It is not sent again. What lies at a relay may still be delivered.
    #[command(after_help = "Examples:\n\
\x20 muretai outbox drop 12\n\
\x20 muretai outbox drop 12 --yes")]
    Drop {
        /// Number or message id
        id: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
struct FlushArgs {
    /// Number or message id of the one to send [default: all]
    id: Option<String>,
    /// How long each message may take [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    timeout: Option<Duration>,
    /// Dial loopback and private addresses that a peer named
    #[arg(long)]
    allow_private: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RowJson<'a> {
    id: i64,
    message_id: &'a str,
    to: &'a str,
    name: Option<&'a str>,
    status: &'static str,
    /// The one way that it may go; `null` for any.
    via: Option<&'a str>,
    /// The relay that keeps it, and since when.
    relay: Option<&'a str>,
    relay_since: Option<String>,
    attempts: u32,
    created: String,
    /// When it is tried next; `null` while it lies at a relay.
    next: Option<String>,
    expires: String,
    last_error: Option<&'a str>,
    context_id: Option<&'a str>,
    reply_to: Option<&'a str>,
    text: &'a str,
    /// It is the reply of this agent's responder.
    reply: bool,
    auto: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FlushJson<'a> {
    #[serde(flatten)]
    row: RowJson<'a>,
    /// What became of it: `delivered`, `at relay`, `refused`, `queued` or `failed`.
    result: &'static str,
    error: Option<String>,
    code: Option<i64>,
}

#[derive(Serialize)]
struct DropJson<'a> {
    #[serde(flatten)]
    row: RowJson<'a>,
    dropped: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let timeout = match &args.command {
        Command::Flush(args) => args.timeout,
        _ => None,
    };
    let timeout = context.timeout(timeout)?;
    context::block_on(async {
        let agent = context.open(timeout).await?;
        let done = match &args.command {
            Command::List { all } => list(context, &agent, *all).await,
            Command::Flush(args) => flush(context, &agent, args, timeout).await,
            Command::Drop { id, yes } => give_up(context, &agent, id, *yes).await,
        };
        agent.close().await;
        done
    })
}

async fn list(context: &Context, agent: &Agent, all: bool) -> Result<Exit, Failure> {
    let rows = rows(agent, all).await?;
    if rows.is_empty() {
        context.out.note("nothing is on its way");
    }
    let now = agent::now();
    let lines: Vec<Line> = rows.iter().map(|row| Line::of(row, now)).collect();
    let widths = Line::widths(&lines);
    for (row, line) in rows.iter().zip(&lines) {
        context.out.either(&json(row), || line.shown(row, widths))?;
    }
    let is_queued = rows.iter().any(|row| row.status == OutStatus::Queued);
    if is_queued && agent.served_by().is_none() {
        context.next("next: `muretai outbox flush` sends what is queued now, `muretai serve` goes on trying");
    }
    Ok(Exit::Done)
}

async fn rows(agent: &Agent, all: bool) -> Result<Vec<OutboxRow>, Failure> {
    agent.store().outbox(all).await.map_err(|error| Failure::of("cannot read the outbox", &error))
}

/// The message that a number or an id means.
async fn meant(agent: &Agent, id: &str) -> Result<OutboxRow, Failure> {
    let number = id.trim().strip_prefix('#').unwrap_or(id.trim()).parse::<i64>().ok();
    let found = rows(agent, true).await?.into_iter();
    let found = found.into_iter().find(|row| row.message_id == id.trim() || Some(row.seq) == number);
    found.ok_or_else(|| {
        Failure::failed(format!("there is no message `{}` in the outbox", people::shown(id)))
            .hint("`muretai outbox list` shows what is there, `muretai inbox --sent` what became of the others")
    })
}

async fn flush(context: &Context, agent: &Agent, args: &FlushArgs, timeout: Duration) -> Result<Exit, Failure> {
    let message_id = match &args.id {
        Some(id) => Some(meant(agent, id).await?.message_id),
        None => None,
    };
    let allow_private = context.allow_private(args.allow_private)?;
    let counter = Counter::start(&context.out, "messages tried");
    let (set, tried) = (counter.handle(), std::sync::atomic::AtomicU64::new(0));
    let told = move |_: &FlushOutcome| set(1 + tried.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    let request = FlushRequest { message_id, timeout, allow_private };
    let flushed = tokio::select! {
        flushed = agent.flush_outbox(&request, &told) => flushed,
        _ = tokio::signal::ctrl_c() => {
            return Err(Failure::failed("interrupted while sending").hint("`muretai outbox list` shows what is left"));
        }
    };
    drop(counter);
    let outcomes = flushed.map_err(|error| Failure::of("cannot send what is in the outbox", &error))?;
    if outcomes.is_empty() {
        context.out.note("nothing is queued");
    }
    for outcome in &outcomes {
        context.out.either(&outcome_json(outcome), || outcome_text(outcome))?;
    }
    Ok(exit_of(&outcomes))
}

/// 4 when something is left, 3 when a peer refused.
fn exit_of(outcomes: &[FlushOutcome]) -> Exit {
    let refused = |outcome: &FlushOutcome| matches!(&outcome.result, Err(error) if error.fault() == Fault::PeerRefused);
    let failed = |outcome: &FlushOutcome| outcome.result.is_err();
    if outcomes.iter().any(|outcome| outcome.is_kept && outcome.result.is_err()) {
        Exit::Unreachable
    } else if outcomes.iter().any(refused) {
        Exit::PeerRefused
    } else if outcomes.iter().any(failed) {
        Exit::Failed
    } else {
        Exit::Done
    }
}

fn outcome_word(outcome: &FlushOutcome) -> &'static str {
    match &outcome.result {
        Ok(sent) if sent.status == SentStatus::AtRelay => "at relay",
        Ok(_) => "delivered",
        Err(_) if outcome.is_kept => "queued",
        Err(error) if error.fault() == Fault::PeerRefused => "refused",
        Err(_) => "failed",
    }
}

fn outcome_json(outcome: &FlushOutcome) -> FlushJson<'_> {
    let error = outcome.result.as_ref().err();
    FlushJson {
        row: row_json(outcome),
        result: outcome_word(outcome),
        error: error.map(|error| output::in_one_line(&Failure::of("not sent", error))),
        code: error.and_then(Explain::refusal).map(|refusal| refusal.code),
    }
}

/// The row as it is now; one that has left the outbox has the status that it left it with.
fn row_json(outcome: &FlushOutcome) -> RowJson<'_> {
    let row = json(&outcome.row);
    match outcome_word(outcome) {
        status @ ("delivered" | "refused" | "failed") => RowJson { status, next: None, ..row },
        // A reply or a notice is done; what else lies at a relay is still listed there.
        "at relay" => RowJson { status: "at relay", next: None, ..row },
        _ => row,
    }
}

fn outcome_text(outcome: &FlushOutcome) -> String {
    let row = &outcome.row;
    let word = outcome_word(outcome);
    let style = match word {
        "delivered" => output::GOOD,
        "at relay" => STRONG,
        _ => output::WARNING,
    };
    let mut text = format!("#{} {}  {}", row.seq, to(row), paint(style, word));
    match &outcome.result {
        Ok(sent) if sent.status == SentStatus::AtRelay => text.push_str(&format!("  {}", people::shown(&sent.url))),
        Ok(_) => {}
        Err(error) => {
            let why = output::in_one_line(&Failure::of(word, error));
            let why = why.strip_prefix(word).and_then(|why| why.strip_prefix(": ")).unwrap_or(&why);
            text.push_str(&format!("  {}", people::shown(why)));
        }
    }
    text
}

async fn give_up(context: &Context, agent: &Agent, id: &str, yes: bool) -> Result<Exit, Failure> {
    let row = meant(agent, id).await?;
    let text = people::shown(&row.text);
    context.out.confirm(&format!("Give up the message to {}, `{text}`?", to(&row)), yes)?;
    let dropped = agent.drop_outgoing(&row.message_id).await;
    let row = dropped.map_err(|error| Failure::of("cannot give the message up", &error))?;
    context.out.either(&DropJson { row: json(&row), dropped: true }, || {
        format!("dropped #{}, to {}  id {}", row.seq, to(&row), people::shown(&row.message_id))
    })?;
    if let Some((relay, _)) = &row.at_relay {
        context.out.note(&format!("it lies at {} and may still be delivered", people::shown(relay)));
    }
    Ok(Exit::Done)
}

/// The contact's name, or the address.
fn to(row: &OutboxRow) -> String {
    people::shown(row.name.as_deref().unwrap_or(&row.peer))
}

/// What a person sees of one message, in columns.
struct Line([String; 5]);

impl Line {
    fn of(row: &OutboxRow, now: UnixSeconds) -> Line {
        let next = match row.status {
            OutStatus::AtRelay => format!("given up {}", clock::distance(row.due, now)),
            _ if row.due <= now => "due".to_owned(),
            _ => match clock::distance(row.due, now).as_str() {
                "now" => "next at once".to_owned(),
                distance => format!("next {distance}"),
            },
        };
        let way = match (&row.at_relay, &row.keep.via) {
            (Some((relay, _)), _) => people::shown(relay),
            (None, Some(via)) => format!("by {} only", people::shown(via)),
            (None, None) => "any way".to_owned(),
        };
        let what = match (row.is_auto, row.is_reply) {
            (true, _) => " notice",
            (false, true) => " reply",
            (false, false) => "",
        };
        let status = format!("{}{what}", inbox::status(row.status));
        Line([
            format!("#{}", row.seq),
            status,
            to(row),
            format!("written {}", clock::distance(row.created, now)),
            format!("{next}  {way}"),
        ])
    }
    fn widths(lines: &[Line]) -> [usize; 5] {
        let mut widths = [0; 5];
        for Line(columns) in lines {
            for (width, column) in widths.iter_mut().zip(columns) {
                *width = (*width).max(column.chars().count());
            }
        }
        widths
    }
    fn shown(&self, row: &OutboxRow, widths: [usize; 5]) -> String {
        let mut columns = self.0.iter().zip(widths).map(|(column, width)| format!("{column:width$}"));
        let mut shown = columns.next().unwrap_or_default();
        for column in columns {
            shown.push_str(&format!("  {column}"));
        }
        let mut shown = shown.trim_end().to_owned();
        let tries = match (&row.at_relay, row.attempts) {
            (Some((_, since)), _) => format!("there since {}", clock::local(*since)),
            (None, 0) => "not tried yet".to_owned(),
            (None, 1) => "tried once".to_owned(),
            (None, n) => format!("tried {n} times"),
        };
        let id = people::shown(&row.message_id);
        shown.push_str(&paint(DIM, &format!("\n    {tries}  id {id}  {}", people::shown(&row.text))));
        if let Some(error) = &row.last_error {
            shown.push_str(&format!("\n    last attempt: {}", people::shown(error)));
        }
        shown
    }
}

fn json(row: &OutboxRow) -> RowJson<'_> {
    RowJson {
        id: row.seq,
        message_id: &row.message_id,
        to: &row.peer,
        name: row.name.as_deref(),
        status: inbox::status(row.status),
        via: row.keep.via.as_deref(),
        relay: row.at_relay.as_ref().map(|(relay, _)| relay.as_str()),
        relay_since: row.at_relay.as_ref().map(|(_, since)| wire::time(*since)),
        attempts: row.attempts,
        created: wire::time(row.created),
        next: (row.status == OutStatus::Queued).then(|| wire::time(row.due)),
        expires: wire::time(row.keep.expires),
        last_error: row.last_error.as_deref(),
        context_id: row.context_id.as_deref(),
        reply_to: row.reply_to.as_deref(),
        text: &row.text,
        reply: row.is_reply,
        auto: row.is_auto,
    }
}

#[cfg(test)]
mod tests {
    use muretai_node::send::SendError;
    use muretai_store::outbox::Keep;

    use super::*;

    fn row(status: OutStatus) -> OutboxRow {
        OutboxRow {
            seq: 12,
            peer: "did:key:z6Mk".to_owned(),
            name: Some("south".to_owned()),
            message_id: "m".to_owned(),
            context_id: None,
            reply_to: None,
            text: "hi\n#13 queued".to_owned(),
            is_reply: false,
            is_auto: false,
            status,
            keep: Keep {
                expires: UnixSeconds(700_000),
                via: None,
                allow_private: false,
                extra: None,
                relay: None,
                enc_pub: None,
                lease: None,
            },
            attempts: 3,
            created: UnixSeconds(1_000),
            due: UnixSeconds(1_420),
            last_error: Some("nobody\u{1b}[2K there".to_owned()),
            at_relay: (status == OutStatus::AtRelay).then(|| ("https://relay.example".to_owned(), UnixSeconds(1_100))),
        }
    }

    fn shown(row: &OutboxRow) -> String {
        let line = Line::of(row, UnixSeconds(1_300));
        let widths = Line::widths(std::slice::from_ref(&line));
        anstream::adapter::strip_str(&line.shown(row, widths)).to_string()
    }

    #[test]
    fn people_see_where_a_message_stands_and_nothing_that_text_forges() {
        let queued = shown(&row(OutStatus::Queued));
        assert!(queued.starts_with("#12  queued  south  written 5 min ago  next in 2 min  any way\n"), "{queued}");
        assert!(queued.contains("tried 3 times  id m") && queued.contains("last attempt: nobody"), "{queued}");
        assert!(!queued.contains('\u{1b}') && queued.lines().filter(|line| line.starts_with('#')).count() == 1);
        let waiting = shown(&row(OutStatus::AtRelay));
        assert!(waiting.contains("at relay") && waiting.contains("https://relay.example"), "{waiting}");
        assert!(waiting.contains("there since ") && !waiting.contains("tried"), "{waiting}");
        let reply = shown(&OutboxRow { is_reply: true, ..row(OutStatus::Queued) });
        assert!(reply.starts_with("#12  queued reply  south  "), "{reply}");
        let notice = shown(&OutboxRow { is_auto: true, is_reply: true, ..row(OutStatus::Queued) });
        assert!(notice.starts_with("#12  queued notice  south  "), "{notice}");
    }

    #[test]
    fn what_was_sent_just_now_is_given_up_in_seven_days() {
        let sent = OutboxRow { due: UnixSeconds(1_299 + 7 * 86_400), ..row(OutStatus::AtRelay) };
        assert!(shown(&sent).contains("given up in 7 days"), "{}", shown(&sent));
    }

    #[test]
    fn programs_see_stable_names() {
        let line = serde_json::to_value(json(&row(OutStatus::AtRelay))).unwrap();
        for name in ["id", "messageId", "to", "name", "status", "via", "relay", "relaySince", "attempts", "created"] {
            assert!(line.get(name).is_some(), "{name}");
        }
        assert_eq!((line["status"].as_str(), line["next"].is_null()), (Some("at relay"), true));
        assert!(json(&row(OutStatus::Queued)).next.is_some());
    }

    #[test]
    fn what_is_left_over_shows_in_the_exit_code() {
        let outcome = |is_kept, result| FlushOutcome { row: row(OutStatus::Queued), result, is_kept };
        let gone = || SendError::NoSuchMessage("m".to_owned());
        assert_eq!(exit_of(&[]), Exit::Done);
        assert_eq!(exit_of(&[outcome(true, Err(gone()))]), Exit::Unreachable);
        assert_eq!(exit_of(&[outcome(false, Err(gone()))]), Exit::Failed);
        assert_eq!(outcome_word(&outcome(true, Err(gone()))), "queued");
        let left = outcome(false, Err(gone()));
        let line = serde_json::to_value(outcome_json(&left)).unwrap();
        assert_eq!(
            (line["status"].as_str(), line["next"].is_null()),
            (Some("failed"), true),
            "it is not queued any more"
        );
        let stays = outcome(true, Err(gone()));
        let line = serde_json::to_value(outcome_json(&stays)).unwrap();
        assert_eq!((line["status"].as_str(), line["next"].is_null()), (Some("queued"), false));
    }
}
