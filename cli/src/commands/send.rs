//! `muretai send`: one signed message, and its verified reply.

use std::{future::Future, io::Read, sync::OnceLock, time::Duration};

use muretai_node::send::{ResendRequest, SendError, SendRequest, Sent, SentReply, SentStatus, outbox::ReplyCommand};
use muretai_protocol::{limits::MAX_TEXT_BYTES, text};
use serde::Serialize;

use crate::{
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    parse, people, progress, shell, stdin, wire,
};

/// Send a signed message and print the verified reply
///
/// TARGET is a contact's name, a DID, a card URL or a bare domain. TEXT of `-` is read from standard input, as it is.
/// Text that starts with a dash goes after `--`. When nothing is received in time the same message is tried again under
/// the same id, so that the peer handles it once; `--resend` does so later. The reply's text is the only thing on
/// standard output; an automatic answer such as "no answer" is a note.
#[derive(Debug, clap::Args)]
#[command(override_usage = "muretai send [OPTIONS] <TARGET> [--] <TEXT>\n       \
                            muretai send [OPTIONS] --resend <MESSAGE-ID>")]
#[command(after_help = "Examples:\n\
\x20 muretai send south 'hello'\n\
\x20 muretai send south -- '--help is a flag'\n\
\x20 git diff | muretai send https://south.example/ - --timeout 2m --json")]
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
    /// Speak to an A2A agent that has no DID; its reply proves nothing
    #[arg(long)]
    unverified: bool,
    /// Dial loopback and private addresses that a peer named
    #[arg(long)]
    allow_private: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SentJson<'a> {
    message_id: &'a str,
    status: &'static str,
    to: Option<&'a str>,
    to_name: Option<&'a str>,
    url: &'a str,
    context_id: Option<&'a str>,
    attempts: u32,
    reply: Option<ReplyJson<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CommandJson<'a> {
    keyword: &'a str,
    label: &'a str,
    params: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplyJson<'a> {
    text: &'a str,
    from: Option<&'a str>,
    verified: bool,
    message_id: &'a str,
    time: Option<String>,
    auto: bool,
    status: Option<&'a str>,
    context_id: Option<&'a str>,
    commands: Vec<CommandJson<'a>>,
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
        agent.close().await;
        print(context, &sent.map_err(|failure| failure.about(&request.target))?)?;
        Ok(Exit::Done)
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
        agent.close().await;
        print(context, &sent?)?;
        Ok(Exit::Done)
    })
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
        via: None,
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

fn print(context: &Context, sent: &Sent) -> Result<(), Failure> {
    if sent.is_blocked && !context.out.is_json {
        context.out.warn("you have blocked this contact: it can answer, and what it writes by itself is refused");
    }
    if context.out.is_json {
        return context.out.json(&json(sent));
    }
    let to = people::shown(sent.to_name.as_deref().unwrap_or(sent.to.as_ref().map_or(&sent.url, |did| did.as_str())));
    match &sent.reply {
        Some(reply) => print_reply(context, sent, &to, reply),
        None => {
            context.out.note(match sent.status {
                SentStatus::Duplicate if sent.attempts > 1 => "delivered by an earlier attempt; its reply is not known",
                SentStatus::Duplicate => "the peer says it had this message already; there is no reply",
                SentStatus::Answered | SentStatus::Accepted | SentStatus::Held => "delivered; there is no reply",
                SentStatus::AtRelay => "at relay: it waits there for the peer",
            });
            Ok(())
        }
    }
}

fn print_reply(context: &Context, sent: &Sent, to: &str, reply: &SentReply) -> Result<(), Failure> {
    if !reply.is_verified {
        context.out.warn(&format!("{to} has no DID: this reply is not verified"));
    }
    if reply.is_auto && reply.status.as_deref() == Some("held") {
        context.out.note(&format!("held: {to} keeps it for its owner, who has to let you in first"));
        let peer = shell::quoted(sent_to(sent));
        context.next(&format!("`muretai trust-status --ask {peer}` shows how that stands"));
        return Ok(());
    }
    if reply.text.is_empty() {
        let status = people::shown(reply.status.as_deref().unwrap_or("no text"));
        context.out.note(&format!("delivered; {to} answered: {status}"));
        return Ok(());
    }
    if let Some(status) = reply.status.as_deref().filter(|_| reply.is_auto) {
        // A word of the machine about the answer that is not there: whoever reads standard output wants the answer.
        let words = people::shown(&reply.text);
        context.out.note(&match status {
            "no-answer" => format!("delivered; {to} has {words}", words = no_answer(&words)),
            _ => format!("delivered; {to} answered: {words}"),
        });
        return Ok(());
    }
    if reply.is_auto {
        context.out.note(&format!("an automatic answer of {to}:"));
    }
    context.out.text(&text::body(&reply.text))?;
    offer(context, sent, &reply.commands);
    Ok(())
}

/// Shows what the peer offers to be sent next, as it can be typed.
fn offer(context: &Context, sent: &Sent, commands: &[ReplyCommand]) {
    for command in commands {
        let params = command.params.as_deref().map(|params| format!(" {}", people::shown(params))).unwrap_or_default();
        let words = shell::quoted(&format!("{}{params}", people::shown(&command.keyword)));
        let peer = shell::quoted(sent_to(sent));
        context.next(&format!("  {}: `muretai send {peer} {words}`", people::shown(&command.label)));
    }
}

fn command_json(command: &ReplyCommand) -> CommandJson<'_> {
    CommandJson { keyword: &command.keyword, label: &command.label, params: command.params.as_deref() }
}

/// The peer, as the next command names it.
fn sent_to(sent: &Sent) -> &str {
    sent.to_name.as_deref().unwrap_or(&sent.url)
}

/// The words of section 5.4 in a sentence; another peer's words as they are.
fn no_answer(words: &str) -> String {
    if words.starts_with("no answer") { words.to_owned() } else { format!("no answer: {words}") }
}

fn json(sent: &Sent) -> SentJson<'_> {
    SentJson {
        message_id: &sent.message_id,
        status: match sent.status {
            SentStatus::Answered => "answered",
            SentStatus::Accepted => "accepted",
            SentStatus::Held => "held",
            SentStatus::AtRelay => "at relay",
            SentStatus::Duplicate => "duplicate",
        },
        to: sent.to.as_ref().map(|did| did.as_str()),
        to_name: sent.to_name.as_deref(),
        url: &sent.url,
        context_id: sent.context_id.as_deref(),
        attempts: sent.attempts,
        reply: sent.reply.as_ref().map(|reply| ReplyJson {
            text: &reply.text,
            from: reply.from.as_ref().map(|did| did.as_str()),
            verified: reply.is_verified,
            message_id: &reply.message_id,
            time: reply.timestamp.map(wire::time),
            auto: reply.is_auto,
            status: reply.status.as_deref(),
            context_id: reply.context_id.as_deref(),
            commands: reply.commands.iter().map(command_json).collect(),
        }),
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
