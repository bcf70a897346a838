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
    output, parse, people, progress, stdin,
};

/// Redeem an invite link: from then on both sides trust each other
///
/// The invite's signature is checked before anything is stored. Claiming twice changes nothing: a contact keeps its
/// name and gets no second greeting. A claim that the peer refuses leaves no contact behind.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai claim https://south.example/i/Xk3v9Q2m\n\
\x20 muretai --as south invite create | muretai --as north claim -")]
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
}

#[derive(Serialize)]
struct ClaimedJson<'a> {
    name: &'a str,
    did: &'a str,
    url: Option<&'a str>,
    known: bool,
    purpose: Option<&'a str>,
    notes: &'a [String],
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    if let Some(name) = &args.name {
        let refused = |reason| Failure::usage(format!("cannot name the contact `{name}`: {reason}"));
        target::check_name(name, &context.agent_dir()?.name).map_err(refused)?;
    }
    let request = ClaimRequest {
        link: if args.link == "-" { link_from(stdin::take("a link")?)? } else { args.link.clone() },
        timeout: context.timeout(args.timeout)?,
        allow_private: context.allow_private(args.allow_private)?,
        name: args.name.clone(),
        no_greeting: args.no_greeting,
        relay: None,
        wait: Duration::ZERO,
        receiver: Default::default(),
    };
    context::block_on(async {
        let agent = context.open(request.timeout).await?;
        let claimed = progress::watch(&context.out, "claiming the invite".to_owned(), agent.claim(&request)).await;
        agent.close().await;
        print(context, &claimed.map_err(|error| Failure::of("cannot claim the invite", &error))?)?;
        Ok(Exit::Done)
    })
}

/// Reads a link with whatever a mail program put into and around it; what is one link is decided where it is read.
fn link_from(source: impl Read) -> Result<String, Failure> {
    let attempt = "cannot read a link from standard input";
    let text = stdin::text(source, MAX_LINK_BYTES, attempt)?;
    let link = text.trim_start_matches('\u{feff}').trim();
    if link.is_empty() { Err(Failure::failed(format!("{attempt}: it is empty"))) } else { Ok(link.to_owned()) }
}

fn print(context: &Context, claimed: &Claimed) -> Result<(), Failure> {
    let contact = &claimed.contact;
    let json = ClaimedJson {
        name: &contact.name,
        did: contact.did.as_str(),
        url: contact.coordinates.url.as_deref(),
        known: claimed.was_known,
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
