//! `muretai send`: one signed message, and its verified reply.

use std::{future::Future, io::Read, sync::OnceLock, time::Duration};

use muretai_node::{
    Agent,
    send::{ResendRequest, SendError, SendRequest, Sent, SentStatus},
};
use muretai_protocol::limits::MAX_TEXT_BYTES;
use muretai_transports::TransportName;

use crate::{
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    parse, people, progress, stdin,
};

mod report;
mod wait;

/// Send a signed message and print the verified reply
///
/// TARGET is a contact's name, a DID, a card URL or a bare domain. TEXT of `-` is read from standard input, as it is.
/// Text that starts with a dash goes after `--`. When nothing is received in time the same message is tried again under
/// the same id, so that the peer handles it once. The reply's text is the only thing on standard output; an automatic
/// answer such as "no answer" is a note.
///
/// It goes straight to the peer, and where that fails to the relay that the peer named, sealed, to wait there until the
/// peer fetches it. What reached nobody stays in the outbox: `muretai serve` and `muretai outbox flush` send it again for
/// 7 days. A reply that comes later is in the inbox, or is waited for with --wait.
#[derive(Debug, clap::Args)]
#[command(override_usage = "muretai send [OPTIONS] <TARGET> [--] <TEXT>\n       \
                            muretai send [OPTIONS] --resend <MESSAGE-ID>")]
#[command(after_help = "Examples:\n\
\x20 muretai send south 'hello'\n\
\x20 muretai send south -- '--help is a flag'\n\
\x20 git diff | muretai send https://south.example/ - --timeout 2m --json\n\
\x20 muretai send south 'are you there?' --wait 10m")]
pub(crate) struct Args {
    /// Who gets it
    target: Option<String>,
    /// What to say, at most 65536 bytes; `-` reads standard input
    #[arg(allow_hyphen_values = true, value_parser = text_before_dashes)]
    text: Option<String>,
    /// What stands after `--`: the text, or both
    #[arg(last = true, hide = true)]
    dashed: Vec<String>,
    /// Message that was kept, to be sent again under its own id
    #[arg(long, value_name = "MESSAGE-ID", conflicts_with_all = ["target", "text", "dashed", "context", "reply_to", "unverified"])]
    resend: Option<String>,
    /// Conversation that this belongs to
    #[arg(long, value_name = "ID")]
    context: Option<String>,
    /// Message that this answers
    #[arg(long, value_name = "MESSAGE-ID")]
    reply_to: Option<String>,
    /// How long everything together may take; a card gets at most 10s [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    timeout: Option<Duration>,
    /// How often to try again when nobody can be reached
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = parse::count)]
    retries: u32,
    /// The one way that it may go, now and later [default: http, and then relay]
    #[arg(long, value_name = "WAY", conflicts_with = "resend")]
    via: Option<Via>,
    /// How long to wait for a reply that comes by itself, when none comes at once; letters are fetched meanwhile
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    wait: Option<Duration>,
    /// Fail with exit code 6 when the peer does not have it yet, because it lies at a relay
    #[arg(long)]
    require_delivery: bool,
    /// Speak to an A2A agent that has no DID; its reply proves nothing
    #[arg(long)]
    unverified: bool,
    /// Dial loopback and private addresses that a peer named
    #[arg(long)]
    allow_private: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Via {
    Http,
    Relay,
}

/// What to do with a text that cannot be sent.
const LIMITS: &str = "a text is UTF-8, at most 65536 bytes; send more in parts, or the place where it can be fetched";

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    match &args.resend {
        Some(message_id) => resend(context, args, message_id),
        None => send(context, args),
    }
}

fn send(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let request = request(context, args)?;
    context::block_on(async {
        let agent = context.open(request.timeout).await?;
        let target = people::shown(&request.target);
        let stored = OnceLock::new();
        let attempt = format!("cannot send to `{target}`");
        let sent = deliver(context, &target, &attempt, agent.send_watched(&request, &stored), &stored).await;
        let done = match sent {
            Ok(sent) => finish(context, args, &agent, sent).await,
            Err(failure) => Err(failure.about(&request.target)),
        };
        agent.close().await;
        done
    })
}

fn resend(context: &Context, args: &Args, message_id: &str) -> Result<Exit, Failure> {
    let request = ResendRequest {
        message_id: message_id.to_owned(),
        timeout: context.timeout(args.timeout)?,
        retries: args.retries,
        allow_private: context.allow_private(args.allow_private)?,
    };
    context::block_on(async {
        let agent = context.open(request.timeout).await?;
        let attempt = format!("cannot send the message `{}` again", people::shown(message_id));
        let stored = OnceLock::from(message_id.to_owned());
        let sent = deliver(context, "its reply", &attempt, agent.resend(&request), &stored).await;
        let done = match sent {
            Ok(sent) => finish(context, args, &agent, sent).await,
            Err(failure) => Err(failure),
        };
        agent.close().await;
        done
    })
}

/// Waits for the reply where that is wanted, and prints what became of the message.
async fn finish(context: &Context, args: &Args, agent: &Agent, mut sent: Sent) -> Result<Exit, Failure> {
    let waited = match args.wait.filter(|_| wait::may_reply(&sent)) {
        Some(time) => wait::reply(context, agent, &mut sent, time).await,
        None => Ok(()),
    };
    if sent.status == SentStatus::AtRelay && args.require_delivery {
        if context.out.is_json {
            report::print(context, &sent)?;
        }
        return Err(report::undelivered(&sent));
    }
    if waited.is_ok() || context.out.is_json {
        report::print(context, &sent)?;
    }
    waited.map(|()| Exit::Done)
}

fn request(context: &Context, args: &Args) -> Result<SendRequest, Failure> {
    let (target, text) = words(args)?;
    let text = if text == "-" { text_from(stdin::take("the text")?)? } else { text.to_owned() };
    if text.len() > MAX_TEXT_BYTES {
        return Err(Failure::failed(format!(
            "cannot send this text: it is {} bytes, the limit is {MAX_TEXT_BYTES}",
            text.len()
        )));
    }
    Ok(SendRequest {
        target: target.to_owned(),
        text,
        context_id: args.context.clone(),
        reply_to: args.reply_to.clone(),
        timeout: context.timeout(args.timeout)?,
        retries: args.retries,
        unverified: args.unverified,
        allow_private: context.allow_private(args.allow_private)?,
        via: args.via.map(|via| match via {
            Via::Http => TransportName::Http,
            Via::Relay => TransportName::Relay,
        }),
    })
}

/// The target and the text, wherever `--` stands.
fn words(args: &Args) -> Result<(&str, &str), Failure> {
    let words: Vec<&str> = args.target.iter().chain(&args.text).chain(&args.dashed).map(String::as_str).collect();
    match words.as_slice() {
        [target, text] => Ok((target, text)),
        [] => Err(Failure::usage("who gets the message, and what it says, are missing").hint(USAGE)),
        [_] => Err(Failure::usage("what the message says is missing").hint(USAGE)),
        [_, _, more, ..] => Err(Failure::usage(format!("unexpected argument `{}`", people::shown(more))).hint(USAGE)),
    }
}

const USAGE: &str = "`muretai send TARGET TEXT`, with text of several words in quotes, or `-` to read it from stdin";

/// A mistyped flag is not sent as text: before `--`, only what no flag looks like may start with a dash.
fn text_before_dashes(text: &str) -> Result<String, String> {
    let is_flag = text.strip_prefix('-').and_then(|rest| rest.chars().next());
    match is_flag.is_some_and(|c| c == '-' || c.is_alphabetic()) {
        true => Err("there is no such flag; text that starts with a dash goes after `--`".to_owned()),
        false => Ok(text.to_owned()),
    }
}

fn text_from(source: impl Read) -> Result<String, Failure> {
    stdin::text(source, MAX_TEXT_BYTES, "cannot send the text on standard input")
        .map_err(|failure| failure.hint(LIMITS))
}

/// Waits for a delivery, or for Ctrl-C: then it depends on how far the message got what there is to say.
async fn deliver(
    context: &Context,
    whom: &str,
    attempt: &str,
    sending: impl Future<Output = Result<Sent, SendError>>,
    stored: &OnceLock<String>,
) -> Result<Sent, Failure> {
    let sending = progress::watch(&context.out, format!("waiting for {whom}"), sending);
    tokio::select! {
        sent = sending => sent.map_err(|error| Failure::of(attempt, &error)),
        _ = tokio::signal::ctrl_c() => Err(interrupted(attempt, stored.get())),
    }
}

fn interrupted(attempt: &str, stored: Option<&String>) -> Failure {
    let failure = Failure::failed(format!("{attempt}: interrupted"));
    match stored {
        None => failure.hint("nothing was sent"),
        Some(id) => Failure {
            message_id: Some(id.clone()),
            ..failure.hint(format!("the peer may have it already; `muretai send --resend {id}` sends it again"))
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_flag_looks_like_may_start_with_a_dash() {
        for text in ["-", "- item", "-1", "-3.5 degrees", "-", "", "a --flag", "-\n"] {
            assert_eq!(text_before_dashes(text).as_deref(), Ok(text));
        }
        for text in ["--jsno", "-x", "--", "-ä", "---\ntitle"] {
            assert!(text_before_dashes(text).unwrap_err().contains("after `--`"), "{text}");
        }
    }

    #[test]
    fn what_was_interrupted_says_how_far_it_came() {
        let failure = interrupted("cannot send", None);
        assert_eq!(failure.hint.as_deref(), Some("nothing was sent"));
        let failure = interrupted("cannot send", Some(&"id".to_owned()));
        assert_eq!(failure.message_id.as_deref(), Some("id"));
        assert!(failure.hint.unwrap().contains("--resend id"));
    }

    #[test]
    fn standard_input_is_sent_as_it_is_up_to_the_limit() {
        assert_eq!(text_from(&b"- one\r\n\n"[..]).unwrap(), "- one\r\n\n");
        assert_eq!(text_from(&vec![b'x'; MAX_TEXT_BYTES][..]).unwrap().len(), MAX_TEXT_BYTES);
        let failure = text_from(&vec![b'x'; MAX_TEXT_BYTES + 1][..]).unwrap_err();
        assert!(failure.message.contains("65536"), "{}", failure.message);
        assert!(text_from(&[0xff, 0xfe, b'a', 0][..]).is_err());
    }
}
