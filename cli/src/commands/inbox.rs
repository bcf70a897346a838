//! `muretai inbox`: what arrived, in the order in which it arrived here.

use std::time::Duration;

use muretai_node::Agent;
use muretai_protocol::{json, text};
use muretai_store::messages::{Direction, MessageRow, OutStatus, Query};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    clock,
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    output::{self, DIM, STRONG, paint},
    parse, people,
    signals::Signals,
    wire,
};

mod forget;
mod rejected;
mod sync;

/// Messages that are shown unless a flag says otherwise.
const DEFAULT_LIMIT: u32 = 50;
/// Messages that are held in memory at a time.
const PAGE: u32 = 200;
/// How often `--follow` looks for messages that another process stored.
const POLL: Duration = Duration::from_millis(150);

/// Show what arrived, oldest first
///
/// Without flags: the newest 50 messages. What was printed counts as read. Text of peers is shown with its control
/// characters escaped; --json has it as it came. Every message has a number, its order of arrival here, which --since
/// takes. Acknowledgements that no person and no agent wrote are left out.
///
/// With --follow: first what is unread (with --limit the newest N, read or not; with --since all after that number),
/// then each message as it arrives, from whichever process stores it. SIGINT, SIGTERM and a closed pipe end it.
///
/// With --sync: fetches letters from the relays where this agent has a mailbox, receives them as `muretai serve` would,
/// with the same plugins and policies, sends what is due in the outbox, and prints what is unread. It needs no server,
/// and suits cron. While `muretai serve` listens there, it has nothing to do. All relays are asked side by side. It fails
/// when one fails that --relay or config.toml names, or when all do; of others it only tells. --forget takes a relay out
/// of those that are asked.
///
/// Letters that were refused, or did not open, are in no inbox: --rejected shows them, and why.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai inbox --unread\n\
\x20 muretai inbox --follow --json --since 120\n\
\x20 muretai inbox --sync --relay https://relay.example")]
pub(crate) struct Args {
    /// Go on and print messages as they arrive
    #[arg(short, long)]
    follow: bool,
    /// Only unread messages
    #[arg(short, long)]
    unread: bool,
    /// Only messages from (with --sent, also to) this contact, by local name or DID
    who: Option<String>,
    /// The same as WHO
    #[arg(long, value_name = "WHO", conflicts_with = "who")]
    peer: Option<String>,
    /// Only this conversation
    #[arg(long, value_name = "ID")]
    context: Option<String>,
    /// At most N messages: the newest, with --since the first; 0 for all. With --follow, how many to begin with
    /// [default: 50; all with --unread, --since or --follow]
    #[arg(short = 'n', long, value_name = "N", value_parser = parse::count)]
    limit: Option<u32>,
    /// Only messages after this number (`id` in --json)
    #[arg(long, value_name = "ID", value_parser = parse::message_number)]
    since: Option<i64>,
    /// Also what was sent
    #[arg(long)]
    sent: bool,
    /// Everything: sent messages and automatic acknowledgements too
    #[arg(short, long)]
    all: bool,
    /// Leave unread what was printed
    #[arg(long)]
    keep_unread: bool,
    /// Fetch letters once, send what is due, then print what is unread
    #[arg(long, conflicts_with_all = ["follow", "since", "rejected"], help_heading = "Relays")]
    sync: bool,
    /// Relay to fetch from; repeat it for more [default: those where this agent has a mailbox, and those of `relay` in
    /// config.toml]
    #[arg(long, value_name = "URL", requires = "sync", value_parser = parse::relay, help_heading = "Relays")]
    relay: Vec<String>,
    /// How long fetching and sending may take together [default: 2m]
    #[arg(long, value_name = "TIME", requires = "sync", value_parser = parse::duration, help_heading = "Relays")]
    timeout: Option<Duration>,
    /// Ask this relay no more: it is gone, or is not wanted. Letters that lie there expire
    #[arg(long, value_name = "URL", value_parser = parse::relay, help_heading = "Relays")]
    #[arg(conflicts_with_all = ["follow", "unread", "who", "peer", "context", "limit", "since", "sent", "all"])]
    #[arg(conflicts_with_all = ["keep_unread", "sync", "rejected"])]
    forget: Option<String>,
    /// Letters that were refused, newest last
    #[arg(long, help_heading = "Relays")]
    #[arg(conflicts_with_all = ["follow", "unread", "who", "peer", "context", "since", "sent", "all", "keep_unread"])]
    rejected: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageJson<'a> {
    id: i64,
    message_id: &'a str,
    direction: &'static str,
    from: &'a str,
    to: &'a str,
    name: Option<&'a str>,
    text: &'a str,
    time: String,
    received: String,
    context_id: Option<&'a str>,
    reply_to: Option<&'a str>,
    unread: bool,
    verified: bool,
    auto: bool,
    /// Of an automatic message: what it is about, in a word.
    notice: Option<String>,
    status: Option<&'static str>,
    /// The code of a refusal.
    code: Option<i64>,
    extra: Option<Box<RawValue>>,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    if args.follow && args.since.is_some() && args.limit.is_some_and(|limit| limit > 0) {
        return Err(Failure::usage("--limit would leave a gap between --since and what --follow prints")
            .hint("leave out --limit, or --since"));
    }
    context::block_on(async {
        let agent = context.open(context.timeout(None)?).await?;
        let done = show(context, args, &agent).await;
        agent.close().await;
        done.map(|()| Exit::Done)
    })
}

async fn show(context: &Context, args: &Args, agent: &Agent) -> Result<(), Failure> {
    if let Some(relay) = &args.forget {
        return forget::forget(context, agent, relay).await;
    }
    if args.rejected {
        return rejected::show(context, agent, args.limit.unwrap_or(DEFAULT_LIMIT)).await;
    }
    let fetched = if args.sync { sync::fetch(context, args, agent).await } else { Ok(()) };
    // What came before something failed is here.
    Inbox { context, args, agent }.show().await.and(fetched)
}

struct Inbox<'a> {
    context: &'a Context,
    args: &'a Args,
    agent: &'a Agent,
}

impl Inbox<'_> {
    async fn show(&self) -> Result<(), Failure> {
        let query = self.query().await?;
        if !self.args.follow {
            return self.once(query).await;
        }
        let mut signals = Signals::catch()?;
        tokio::select! {
            ended = self.follow(query) => ended,
            () = signals.next() => Ok(()),
        }
    }

    async fn query(&self) -> Result<Query, Failure> {
        let args = self.args;
        let peer = match args.who.as_ref().or(args.peer.as_ref()) {
            Some(who) => Some(people::did(self.agent, who).await?.to_string()),
            None => None,
        };
        Ok(Query {
            after_seq: args.since,
            peer,
            context_id: args.context.clone(),
            unread_only: args.unread || args.sync,
            with_sent: args.sent || args.all,
            with_auto: args.all,
            limit: args.limit.filter(|limit| *limit > 0),
        })
    }

    async fn once(&self, mut query: Query) -> Result<(), Failure> {
        let args = self.args;
        if args.limit.is_none() && args.since.is_none() && !args.unread && !args.sync {
            query.limit = Some(DEFAULT_LIMIT);
        }
        let printed = match query.limit {
            None => self.pages(query).await?,
            Some(limit) => self.newest(query, limit).await?,
        };
        if printed.is_none() {
            self.context.out.note(if args.unread || args.sync { "nothing unread" } else { "no message" });
        }
        Ok(())
    }

    /// Prints the newest (after `--since`: the first) messages of a query, and says when there are more.
    async fn newest(&self, mut query: Query, limit: u32) -> Result<Option<i64>, Failure> {
        // One more than asked for tells whether there are more.
        query.limit = Some(limit.saturating_add(1));
        let mut rows = self.rows(&query).await?;
        let has_more = rows.len() > limit as usize;
        if has_more && query.after_seq.is_some() {
            rows.pop();
        } else if has_more {
            rows.remove(0);
        }
        self.print(&rows).await?;
        if has_more {
            let which = if query.after_seq.is_some() { "later" } else { "older" };
            self.context.out.note(&format!("there are {which} messages: --limit N shows more, --limit 0 all"));
        }
        Ok(rows.last().map(|row| row.seq))
    }

    /// Prints all messages of a query, a page at a time; gives the highest number.
    async fn pages(&self, mut query: Query) -> Result<Option<i64>, Failure> {
        let mut last = None;
        query.limit = Some(PAGE);
        loop {
            query.after_seq = last.or(query.after_seq).or(Some(0));
            let rows = self.rows(&query).await?;
            self.print(&rows).await?;
            last = rows.last().map(|row| row.seq).or(last);
            if rows.len() < PAGE as usize {
                return Ok(last);
            }
        }
    }

    /// Prints what is unread (or what the flags ask for), then messages as they arrive, in order, each once.
    async fn follow(&self, mut query: Query) -> Result<(), Failure> {
        // Read before the list: what arrives in between is printed with the list and moves the cursor.
        let mut seen = self.last_seq().await?;
        let is_unread_first = self.args.since.is_none() && self.args.limit.is_none();
        let first = Query { unread_only: query.unread_only || is_unread_first, ..query.clone() };
        let printed = match first.limit {
            None => self.pages(first).await?,
            Some(limit) => self.newest(first, limit).await?,
        };
        seen = seen.max(printed.unwrap_or_default());
        let mut ticks = tokio::time::interval(POLL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if output::is_reader_gone() {
                return Err(Failure::reader_gone());
            }
            let newest = self.last_seq().await?;
            if newest > seen {
                query.after_seq = Some(seen);
                let printed = self.pages(query.clone()).await?;
                seen = newest.max(printed.unwrap_or_default());
            }
        }
    }

    /// Prints, and marks as read what standard output took, even when it broke off halfway.
    async fn print(&self, rows: &[MessageRow]) -> Result<(), Failure> {
        let mut taken = Vec::new();
        let mut printed = Ok(());
        for row in rows {
            let me = self.agent.did().as_str();
            printed = self.context.out.either(&message_json(row, me), || shown(row));
            if printed.is_err() {
                break;
            }
            if row.is_unread {
                taken.push(row.seq);
            }
        }
        if !taken.is_empty() && !self.args.keep_unread {
            let marked = self.agent.store().mark_read(&taken).await;
            marked.map_err(|error| Failure::of("cannot mark the messages as read", &error))?;
        }
        printed
    }

    async fn rows(&self, query: &Query) -> Result<Vec<MessageRow>, Failure> {
        let rows = self.agent.store().messages(query).await;
        rows.map_err(|error| Failure::of("cannot read the messages", &error))
    }

    async fn last_seq(&self) -> Result<i64, Failure> {
        let seq = self.agent.store().last_seq().await;
        seq.map_err(|error| Failure::of("cannot read the messages", &error))
    }
}

fn message_json<'a>(row: &'a MessageRow, me: &'a str) -> MessageJson<'a> {
    let is_incoming = row.direction == Direction::In;
    let (from, to) = if is_incoming { (row.peer.as_str(), me) } else { (me, row.peer.as_str()) };
    MessageJson {
        id: row.seq,
        message_id: &row.message_id,
        direction: if is_incoming { "in" } else { "out" },
        from,
        to,
        name: row.name.as_deref(),
        text: &row.text,
        time: wire::time(row.timestamp),
        received: wire::time(row.received),
        context_id: row.context_id.as_deref(),
        reply_to: row.reply_to.as_deref(),
        unread: row.is_unread,
        verified: row.is_verified,
        auto: row.is_auto,
        notice: notice(row),
        status: row.status.map(status),
        code: row.code,
        extra: row.extra.clone().map(wire::raw_text),
    }
}

/// The state of an outgoing message in a word.
pub(super) fn status(status: OutStatus) -> &'static str {
    match status {
        OutStatus::Queued => "queued",
        OutStatus::Delivered => "delivered",
        OutStatus::Refused => "refused",
        OutStatus::Failed => "failed",
        OutStatus::AtRelay => "at relay",
        OutStatus::Expired => "expired",
    }
}

/// The state with the code of a refusal: `refused -32010`.
fn state(row: &MessageRow) -> String {
    let word = row.status.map_or("", status);
    match row.code.filter(|_| row.status == Some(OutStatus::Refused)) {
        Some(code) => format!("{word} {code}"),
        None => word.to_owned(),
    }
}

/// One message for a person: a line of facts, then the text, indented so that no text can pass for a line of facts.
fn shown(row: &MessageRow) -> String {
    let name = people::shown(row.name.as_deref().unwrap_or("(no contact)"));
    let way = if row.direction == Direction::In { "from" } else { "to" };
    let mut facts = format!(
        "{} {way} {}  {}  {}",
        paint(DIM, &format!("#{} {}", row.seq, clock::local(row.received))),
        paint(STRONG, &name),
        people::shown(&row.peer),
        paint(DIM, &ids(row)),
    );
    let notice = notice(row);
    let signed_later = row.timestamp.0.abs_diff(row.received.0) > 600;
    for (is_set, word) in [
        (row.is_unread, "new".to_owned()),
        (row.direction == Direction::In && !row.is_verified, "not verified".to_owned()),
        (row.is_auto, notice.as_deref().map_or("automatic".to_owned(), |word| format!("automatic: {word}"))),
        (row.status.is_some_and(|status| status != OutStatus::Delivered), state(row)),
        (signed_later, format!("signed {}", clock::local(row.timestamp))),
        (has_other_parts(row), "has more than text, see --json".to_owned()),
    ] {
        if is_set {
            facts.push_str(&format!("  [{word}]"));
        }
    }
    let hint = match (row.direction, notice.as_deref()) {
        (Direction::In, Some("introduction")) => "\n  (`muretai introduce list --held` shows whether it was kept)",
        _ => "",
    };
    let body: String = text::body(&row.text).lines().map(|line| format!("\n  {line}")).collect();
    format!("{facts}{body}{hint}\n\n", hint = paint(DIM, hint))
}

/// What `send --reply-to` and `send --context` take to answer a message.
fn ids(row: &MessageRow) -> String {
    let id = format!("id {}", people::shown(&row.message_id));
    match &row.context_id {
        Some(context) => format!("{id} context {}", people::shown(context)),
        None => id,
    }
}

/// What an automatic message is about, in the one word of its metadata: `introduction`, `revocation`, `greeting`.
fn notice(row: &MessageRow) -> Option<String> {
    let extra = row.extra.as_ref().filter(|_| row.is_auto)?;
    let extra = json::parse(extra.as_bytes()).ok()?;
    let word = extra.member("metadata")?.member("status")?.as_str()?;
    Some(people::shown(word))
}

/// Whether parts that are no text came with it; they are unsigned and never shown.
fn has_other_parts(row: &MessageRow) -> bool {
    let extra = row.extra.as_ref().and_then(|extra| json::parse(extra.as_bytes()).ok());
    extra.is_some_and(|extra| extra.member("parts").is_some())
}

#[cfg(test)]
mod tests {
    use muretai_protocol::UnixSeconds;

    use super::*;

    fn row(text: &str) -> MessageRow {
        MessageRow {
            seq: 7,
            direction: Direction::In,
            peer: "did:key:z6Mk".to_owned(),
            name: Some("south\u{202e}".to_owned()),
            message_id: "m".to_owned(),
            context_id: None,
            reply_to: None,
            text: text.to_owned(),
            timestamp: UnixSeconds(1_000),
            received: UnixSeconds(1_001),
            is_unread: true,
            is_auto: false,
            is_verified: true,
            status: None,
            extra: None,
            code: None,
        }
    }

    #[test]
    fn text_of_a_peer_cannot_forge_a_line_of_facts() {
        let shown = anstream::adapter::strip_str(&shown(&row("hi\n#8 from owner\r\u{1b}[2Kx"))).to_string();
        assert_eq!(shown.lines().filter(|line| line.starts_with('#')).count(), 1, "{shown}");
        assert!(!shown.contains(['\u{1b}', '\r', '\u{202e}']), "{shown:?}");
        assert!(shown.contains("did:key:z6Mk"));
    }

    #[test]
    fn an_introduction_says_what_it_is_and_where_it_went() {
        let extra = Some(r#"{"metadata":{"auto":true,"status":"introduction","held_vc":{}}}"#.to_owned());
        let message = MessageRow { is_auto: true, extra, ..row("west introduces you to south") };
        let shown = anstream::adapter::strip_str(&shown(&message)).to_string();
        assert!(shown.contains("[automatic: introduction]") && shown.contains("introduce list --held"), "{shown}");
        assert_eq!(message_json(&message, "did:key:me").notice.as_deref(), Some("introduction"));
        let forged = MessageRow { is_auto: true, extra: Some(r#"{"metadata":{"status":7}}"#.to_owned()), ..row("x") };
        assert_eq!(notice(&forged), None);
        assert_eq!(notice(&MessageRow { is_auto: false, ..message }), None);
    }

    #[test]
    fn what_became_of_a_sent_message_is_told_with_its_code() {
        let sent = MessageRow { direction: Direction::Out, is_unread: false, ..row("hi") };
        let told = |status, code| {
            let shown = shown(&MessageRow { status: Some(status), code, ..sent.clone() });
            anstream::adapter::strip_str(&shown).to_string()
        };
        assert!(told(OutStatus::Refused, Some(-32010)).contains("[refused -32010]"));
        assert!(told(OutStatus::AtRelay, None).contains("[at relay]"));
        assert!(told(OutStatus::Expired, None).contains("[expired]"));
        assert!(!told(OutStatus::Delivered, None).contains('['), "what went well needs no word");
    }

    #[test]
    fn a_letter_that_slept_at_a_relay_shows_when_it_was_signed() {
        let late = MessageRow { received: UnixSeconds(90_000), ..row("hi") };
        let signed = format!("[signed {}]", clock::local(UnixSeconds(1_000)));
        assert!(anstream::adapter::strip_str(&shown(&late)).to_string().contains(&signed), "{}", shown(&late));
        assert!(!shown(&row("hi")).contains("signed"), "one that came at once needs no second time");
    }

    #[test]
    fn json_has_the_names_that_scripts_rely_on() {
        let message = row("hi");
        let line = serde_json::to_value(message_json(&message, "did:key:me")).unwrap();
        for name in ["id", "messageId", "from", "name", "text", "time", "received", "contextId", "replyTo", "unread"] {
            assert!(line.get(name).is_some(), "{name}");
        }
        assert_eq!((line["from"].as_str(), line["to"].as_str()), (Some("did:key:z6Mk"), Some("did:key:me")));
    }
}
