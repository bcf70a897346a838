//! What became of a message, for people and for programs.

use muretai_node::send::{Sent, SentReply, SentStatus, outbox::ReplyCommand};
use muretai_protocol::text;
use muretai_transports::TransportName;
use serde::Serialize;

use crate::{context::Context, exit::Exit, failure::Failure, people, shell, wire};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SentJson<'a> {
    message_id: &'a str,
    status: &'static str,
    to: Option<&'a str>,
    to_name: Option<&'a str>,
    /// What was dialled.
    url: &'a str,
    /// `http` or `relay`.
    via: String,
    /// The relay, when it went by one.
    relay: Option<&'a str>,
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

/// Prints a message that went out, and its reply.
pub(super) fn print(context: &Context, sent: &Sent) -> Result<(), Failure> {
    if sent.is_blocked && !context.out.is_json {
        context.out.warn("you have blocked this contact: it can answer, and what it writes by itself is refused");
    }
    if context.out.is_json {
        return context.out.json(&json(sent));
    }
    let to = people::shown(sent.to_name.as_deref().unwrap_or(sent.to.as_ref().map_or(&sent.url, |did| did.as_str())));
    match &sent.reply {
        Some(reply) => print_reply(context, sent, &to, reply),
        None if sent.status == SentStatus::AtRelay => {
            let relay = people::shown(&sent.url);
            context.out.note(&format!("at relay: {relay} keeps it until {to} fetches its letters, at most 7 days"));
            context.next("next: `muretai outbox list` shows whether it did; its reply comes into the inbox");
            Ok(())
        }
        None => {
            context.out.note(match sent.status {
                SentStatus::Duplicate if sent.attempts > 1 => "delivered by an earlier attempt; its reply is not known",
                SentStatus::Duplicate => "the peer says it had this message already; there is no reply",
                _ => "delivered; there is no reply",
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

/// The failure that `--require-delivery` makes of a message that only lies at a relay.
pub(super) fn undelivered(sent: &Sent) -> Failure {
    let to = sent.to_name.as_deref().or(sent.to.as_ref().map(|did| did.as_str())).unwrap_or("the peer");
    let message =
        format!("{} does not have the message yet: it lies at {}", people::shown(to), people::shown(&sent.url));
    Failure { message_id: Some(sent.message_id.clone()), ..Failure::new(Exit::AtRelay, message) }
        .hint("it stays there until the peer fetches its letters; `muretai outbox list` shows whether it did")
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
        via: sent.via.to_string(),
        relay: (sent.via == TransportName::Relay).then_some(sent.url.as_str()),
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
