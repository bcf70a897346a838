//! `muretai claim`: redeem an invite, which makes trust both ways.

use std::{io::Read, time::Duration};

use muretai_node::{
    invites::{ClaimRequest, Claimed},
    send::target,
};
use muretai_protocol::invite::MAX_LINK_BYTES;
use serde::Serialize;

use crate::{
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    mail::Reception,
    output, parse, people, progress, shell, stdin,
};

/// Redeem an invite link: from then on both sides trust each other
///
/// The invite's signature is checked before anything is stored. Claiming twice changes nothing: a contact keeps its
/// name and gets no second greeting. A claim that the peer refuses leaves no contact behind.
///
/// An invite that a relay keeps can be claimed while the inviter is off: the claim waits there, sealed. You trust the
/// inviter at once, and it trusts you when it has fetched the claim; its answer comes as a letter, or is waited for with
/// --wait.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai claim https://south.example/i/Xk3v9Q2m\n\
\x20 muretai --as south invite create | muretai --as north claim -\n\
\x20 muretai claim https://relay.example/i/Xk3v9Q2m --wait 10m")]
pub(crate) struct Args {
    /// The link; `-` reads it from standard input
    link: String,
    /// Local name of the new contact, 1 to 64 characters [default: what it calls itself]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Dial loopback and private addresses that the invite names
    #[arg(long)]
    allow_private: bool,
    /// How long everything together may take; each request gets at most 10s of it [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    timeout: Option<Duration>,
    /// Send no greeting afterwards
    #[arg(long)]
    no_greeting: bool,
    /// How long to wait for the answer of an inviter that is off, beyond --timeout
    #[arg(long, value_name = "TIME", value_parser = parse::duration, help_heading = "Relays")]
    wait: Option<Duration>,
    /// Relay where that answer comes to [default: where this agent has a mailbox, else the invite's]
    #[arg(long, value_name = "URL", value_parser = parse::relay, help_heading = "Relays")]
    relay: Option<String>,
    /// Fail with exit code 6 when the inviter does not have the claim yet, because it lies at a relay
    #[arg(long, help_heading = "Relays")]
    require_delivery: bool,
}

#[derive(Serialize)]
struct ClaimedJson<'a> {
    name: &'a str,
    did: &'a str,
    url: Option<&'a str>,
    known: bool,
    /// The claim lies at a relay; the inviter has not answered yet.
    pending: bool,
    /// The contact's relay.
    relay: Option<&'a str>,
    purpose: Option<&'a str>,
    notes: &'a [String],
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    if let Some(name) = &args.name {
        let refused = |reason| Failure::usage(format!("cannot name the contact `{name}`: {reason}"));
        target::check_name(name, &context.agent_dir()?.name).map_err(refused)?;
    }
    let mut request = ClaimRequest {
        link: if args.link == "-" { link_from(stdin::take("a link")?)? } else { args.link.clone() },
        timeout: context.timeout(args.timeout)?,
        allow_private: context.allow_private(args.allow_private)?,
        name: args.name.clone(),
        no_greeting: args.no_greeting,
        relay: args.relay.clone(),
        wait: args.wait.unwrap_or_default(),
        receiver: Default::default(),
    };
    context::block_on(async {
        let agent = context.open(request.timeout).await?;
        let attempt = "cannot claim the invite";
        // Letters are received while the answer is waited for, and by nobody otherwise.
        let reception = match args.wait {
            Some(_) => Some(Reception::open(context, &agent, attempt).await?),
            None => None,
        };
        if let Some(reception) = &reception {
            request.receiver = reception.options.clone();
        }
        let claiming = progress::watch(&context.out, "claiming the invite".to_owned(), agent.claim(&request));
        let claimed = tokio::select! {
            claimed = claiming => claimed.map_err(|error| Failure::of(attempt, &error)),
            _ = tokio::signal::ctrl_c() => Err(Failure::failed(format!("{attempt}: interrupted"))
                .hint("claiming the same link again goes on where this stopped")),
        };
        drop(request);
        if let Some(reception) = reception {
            reception.close().await;
        }
        agent.close().await;
        finish(context, args, &claimed?)
    })
}

/// Reads a link with whatever a mail program put into and around it; what is one link is decided where it is read.
fn link_from(source: impl Read) -> Result<String, Failure> {
    let attempt = "cannot read a link from standard input";
    let text = stdin::text(source, MAX_LINK_BYTES, attempt)?;
    let link = text.trim_start_matches('\u{feff}').trim();
    if link.is_empty() { Err(Failure::failed(format!("{attempt}: it is empty"))) } else { Ok(link.to_owned()) }
}

fn finish(context: &Context, args: &Args, claimed: &Claimed) -> Result<Exit, Failure> {
    print(context, claimed)?;
    if !claimed.is_pending {
        return Ok(Exit::Done);
    }
    let name = people::shown(&claimed.contact.name);
    let relay = people::shown(claimed.at_relay.as_deref().unwrap_or("a relay"));
    let hint = "claiming the same link again asks again; `muretai inbox --sync` fetches the answer when it is there";
    if args.require_delivery {
        let message = format!("{name} does not have the claim yet: it lies at {relay}");
        return Err(Failure::new(Exit::AtRelay, message).hint(hint));
    }
    match args.wait {
        Some(wait) => {
            let message = format!("no answer of {name} within {} s: the claim lies at {relay}", wait.as_secs_f32());
            Err(Failure::new(Exit::Unreachable, message).hint(hint))
        }
        None => Ok(Exit::Done),
    }
}

fn print(context: &Context, claimed: &Claimed) -> Result<(), Failure> {
    let contact = &claimed.contact;
    let json = ClaimedJson {
        name: &contact.name,
        did: contact.did.as_str(),
        url: contact.coordinates.url.as_deref(),
        known: claimed.was_known,
        pending: claimed.is_pending,
        relay: contact.coordinates.relay.as_deref(),
        purpose: claimed.purpose.as_deref(),
        notes: &claimed.notes,
    };
    context.out.either(&json, || {
        format!("{}  {}", output::paint(output::STRONG, &people::shown(&contact.name)), contact.did)
    })?;
    if let Some(purpose) = &claimed.purpose {
        context.out.note(&format!("the invite is for: {}", people::shown(purpose)));
    }
    for note in &claimed.notes {
        context.out.note(&people::shown(note));
    }
    if claimed.is_pending {
        let name = people::shown(&contact.name);
        let relay = people::shown(claimed.at_relay.as_deref().unwrap_or("a relay"));
        context.out.note(&format!("the claim lies at {relay}: {name} is off, and trusts you when it has fetched it"));
        context.next(&format!(
            "next: `muretai inbox --sync` fetches its answer; what you send meanwhile waits there too: `muretai send {} 'hello'`",
            shell::quoted(&contact.name)
        ));
        return Ok(());
    }
    let known = if claimed.was_known { "was a contact before" } else { "and you trust each other now" };
    let name = people::shown(&contact.name);
    context.next(&format!("{name} {known}; next: `muretai send {name} 'hello'`"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_on_a_stream_is_trimmed_and_bounded() {
        assert_eq!(link_from("\u{feff} agent://invite?d=x \r\n".as_bytes()).unwrap(), "agent://invite?d=x");
        assert!(link_from(&b" \n"[..]).is_err());
        assert!(link_from(&vec![b'a'; MAX_LINK_BYTES + 1][..]).is_err());
        assert!(link_from(&[0xff, 0xfe][..]).is_err());
    }
}
