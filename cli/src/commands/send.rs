//! `muretai send`: one signed message, and its verified reply.

use std::{io::Read, time::Duration};

use muretai_node::Agent;
use muretai_node::send::{SendRequest, Sent, SentReply, SentStatus};
use muretai_protocol::{limits::MAX_TEXT_BYTES, text};
use serde::Serialize;

use crate::{
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    parse, people, progress, stdin, wire,
};

/// Send a signed message and print the verified reply
///
/// TARGET is a contact's name, a DID, a card URL or a bare domain. TEXT of `-` is read from standard input, as it is.
/// Text that looks like a flag goes after `--`. When nothing is received in time the same message is tried again under
/// the same id, so that the peer handles it once. The reply's text is the only thing on standard output.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai send south 'hello'\n\
\x20 git diff | muretai send https://south.example/ - --timeout 2m --json")]
pub(crate) struct Args {
    /// Who gets it
    target: String,
    /// What to say, at most 65536 bytes; `-` reads standard input
    #[arg(allow_hyphen_values = true)]
    text: String,
    /// Conversation that this belongs to
    #[arg(long, value_name = "ID")]
    context: Option<String>,
    /// Message that this answers
    #[arg(long, value_name = "MESSAGE-ID")]
    reply_to: Option<String>,
    /// How long everything together may take; fetching a card gets at most 10s of it [default: 30s]
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
struct ReplyJson<'a> {
    text: &'a str,
    from: Option<&'a str>,
    verified: bool,
    message_id: &'a str,
    time: Option<String>,
    auto: bool,
    status: Option<&'a str>,
    context_id: Option<&'a str>,
}

/// What to do with a text that cannot be sent.
const LIMITS: &str = "a text is UTF-8, at most 65536 bytes; send more in parts, or the place where it can be fetched";

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let request = request(context, args)?;
    context::block_on(async {
        let agent = context.open(request.timeout).await?;
        let sent = deliver(context, &agent, &request).await;
        agent.close().await;
        print(context, &sent?)?;
        Ok(Exit::Done)
    })
}

fn request(context: &Context, args: &Args) -> Result<SendRequest, Failure> {
    let text = if args.text == "-" { text_from(stdin::take("the text")?)? } else { args.text.clone() };
    if text.len() > MAX_TEXT_BYTES {
        return Err(Failure::failed(format!(
            "cannot send this text: it is {} bytes, the limit is {MAX_TEXT_BYTES}",
            text.len()
        )));
    }
    Ok(SendRequest {
        target: args.target.clone(),
        text,
        context_id: args.context.clone(),
        reply_to: args.reply_to.clone(),
        timeout: context.timeout(args.timeout)?,
        retries: args.retries,
        unverified: args.unverified,
        allow_private: context.allow_private(args.allow_private)?,
    })
}

fn text_from(source: impl Read) -> Result<String, Failure> {
    stdin::text(source, MAX_TEXT_BYTES, "cannot send the text on standard input")
        .map_err(|failure| failure.hint(LIMITS))
}

async fn deliver(context: &Context, agent: &Agent, request: &SendRequest) -> Result<Sent, Failure> {
    let target = people::shown(&request.target);
    let sending = progress::watch(&context.out, format!("waiting for {target}"), agent.send(request));
    let attempt = format!("cannot send to `{}`", request.target);
    tokio::select! {
        sent = sending => sent.map_err(|error| Failure::of(attempt, &error).about(&request.target)),
        _ = tokio::signal::ctrl_c() => Err(Failure::failed(format!("{attempt}: interrupted"))
            .hint("the peer may have it already")),
    }
}

fn print(context: &Context, sent: &Sent) -> Result<(), Failure> {
    if context.out.is_json {
        return context.out.json(&json(sent));
    }
    let to = people::shown(sent.to_name.as_deref().unwrap_or(sent.to.as_ref().map_or(&sent.url, |did| did.as_str())));
    match &sent.reply {
        Some(reply) => print_reply(context, &to, reply),
        None => {
            context.out.note(match sent.status {
                SentStatus::Duplicate if sent.attempts > 1 => "delivered by an earlier attempt; its reply is not known",
                SentStatus::Duplicate => "the peer says it had this message already; there is no reply",
                SentStatus::Answered | SentStatus::Accepted => "delivered; there is no reply",
            });
            Ok(())
        }
    }
}

fn print_reply(context: &Context, to: &str, reply: &SentReply) -> Result<(), Failure> {
    if !reply.is_verified {
        context.out.warn(&format!("{to} has no DID: this reply is not verified"));
    }
    if reply.text.is_empty() {
        let status = people::shown(reply.status.as_deref().unwrap_or("no text"));
        context.out.note(&format!("delivered; {to} answered: {status}"));
        return Ok(());
    }
    if reply.is_auto {
        context.out.note(&format!("an automatic answer of {to}:"));
    }
    context.out.text(&text::body(&reply.text))
}

fn json(sent: &Sent) -> SentJson<'_> {
    SentJson {
        message_id: &sent.message_id,
        status: match sent.status {
            SentStatus::Answered => "answered",
            SentStatus::Accepted => "accepted",
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
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_input_is_sent_as_it_is_up_to_the_limit() {
        assert_eq!(text_from(&b"- one\r\n\n"[..]).unwrap(), "- one\r\n\n");
        assert_eq!(text_from(&vec![b'x'; MAX_TEXT_BYTES][..]).unwrap().len(), MAX_TEXT_BYTES);
        let failure = text_from(&vec![b'x'; MAX_TEXT_BYTES + 1][..]).unwrap_err();
        assert!(failure.message.contains("65536"), "{}", failure.message);
        assert!(text_from(&[0xff, 0xfe, b'a', 0][..]).is_err());
    }
}
