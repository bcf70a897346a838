//! `muretai invite`: links that let somebody in.

use std::time::Duration;

use muretai_node::{Agent, agent, invites::InviteRequest};
use muretai_protocol::UnixSeconds;
use muretai_store::invites::InviteRow;
use serde::Serialize;

use crate::{
    clock,
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    parse, people, stdin, wire,
};

/// Make, list and revoke invites
///
/// An invite is a link that one peer can claim once. Claiming it makes trust both ways.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai invite create --ttl 12h --note 'for east'\n\
\x20 muretai invite revoke https://south.example/i/Xk3v9Q2m")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make an invite and print its link
    ///
    /// Whoever has the link can claim it once, until it expires or is revoked. Claims arrive at `muretai serve`, which
    /// has to run by then.
    ///
    /// With --relay a relay keeps the invite, and the claim too: both work while this agent is off. The claim is a letter
    /// that `muretai serve --relay` or `muretai inbox --sync` fetches.
    #[command(after_help = "Examples:\n\
\x20 muretai invite create\n\
\x20 muretai invite create --relay https://relay.example --ttl 12h --note 'for east'")]
    Create(CreateArgs),
    /// List the invites, newest first, and what became of them
    #[command(after_help = "Examples:\n\
\x20 muretai invite list\n\
\x20 muretai invite list --json")]
    List,
    /// Revoke an invite: nobody can claim it any more
    ///
    /// Trust that a claim made already stays; `muretai contacts remove` or `block` ends it.
    #[command(after_help = "Examples:\n\
\x20 muretai invite revoke Xk3v9Q2m\n\
\x20 muretai invite revoke https://south.example/i/Xk3v9Q2m")]
    Revoke {
        /// The link, its code or its nonce; `-` reads standard input
        invite: String,
    },
}

#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// How long it can be claimed, 60s to 365d
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "7d")]
    ttl: Duration,
    /// Address where the agent is reached [default: that of the last `muretai serve`]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Relay that keeps the invite and the claim [default without URL: the first of `relay` in config.toml, else where
    /// this agent has a mailbox]
    #[arg(long, value_name = "URL", num_args = 0..=1, value_parser = parse::relay)]
    relay: Option<Option<String>>,
    /// A note for yourself, at most 1000 bytes; it never leaves this machine
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// What the invite is for, at most 1000 bytes; the claimer reads it
    #[arg(long, value_name = "TEXT")]
    purpose: Option<String>,
    /// Print the long link, which holds the whole invite and needs no fetch
    #[arg(long)]
    token: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewJson<'a> {
    link: &'a str,
    token_link: &'a str,
    nonce: &'a str,
    code: &'a str,
    expires: String,
    /// Empty when only the relay is known.
    url: &'a str,
    relay: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InviteJson<'a> {
    nonce: &'a str,
    code: &'a str,
    state: &'static str,
    created: String,
    expires: String,
    note: Option<&'a str>,
    used_by: Option<&'a str>,
    /// The local name of that contact, while it is one.
    used_name: Option<&'a str>,
    used: Option<String>,
    revoked: Option<String>,
    /// The relay that keeps it, when one does.
    relay: Option<&'a str>,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    context::block_on(async {
        let agent = context.open(context.timeout(None)?).await?;
        let done = match &args.command {
            Command::Create(args) => create(context, &agent, args).await,
            Command::List => list(context, &agent).await,
            Command::Revoke { invite } => revoke(context, &agent, invite).await,
        };
        agent.close().await;
        done.map(|()| Exit::Done)
    })
}

async fn create(context: &Context, agent: &Agent, args: &CreateArgs) -> Result<(), Failure> {
    let request = InviteRequest {
        url: args.url.clone(),
        ttl: Some(args.ttl),
        note: args.note.clone(),
        purpose: args.purpose.clone(),
        relay: relay(context, agent, args).await?,
    };
    let invite = agent.create_invite(&request).await.map_err(|error| Failure::of("cannot make an invite", &error))?;
    let json = NewJson {
        link: if args.token { &invite.token_link } else { &invite.link },
        token_link: &invite.token_link,
        nonce: &invite.nonce,
        code: &invite.code,
        expires: wire::time(invite.expires),
        url: &invite.url,
        relay: request.relay.as_deref(),
    };
    context.out.either(&json, || json.link.to_owned())?;
    if let Some(relay) = &request.relay {
        context.out.note(&format!("{} keeps it, and claims of it, while this agent is off", people::shown(relay)));
        context.next("next: `muretai inbox --sync` fetches claims, and so does `muretai serve --relay URL`");
    } else if invite.is_offline {
        let serve = format!("`muretai --as {} serve`", agent.name());
        context.out.warn(&context.typed(&format!("nobody can claim it yet: {serve} is not running")));
    }
    Ok(())
}

/// The relay that `--relay` names, with a URL or without.
async fn relay(context: &Context, agent: &Agent, args: &CreateArgs) -> Result<Option<String>, Failure> {
    let Some(wanted) = &args.relay else { return Ok(None) };
    if let Some(relay) = wanted.as_ref().or(context.config()?.relay.first()) {
        return Ok(Some(relay.clone()));
    }
    let mailboxes = agent.mailboxes().await.map_err(|error| Failure::of("cannot make an invite", &error))?;
    match mailboxes.into_iter().next() {
        Some(relay) => Ok(Some(relay)),
        None => Err(Failure::usage("no relay is known that could keep the invite")
            .hint("name one with `--relay URL`, or with the key `relay` in config.toml")),
    }
}

async fn list(context: &Context, agent: &Agent) -> Result<(), Failure> {
    let invites = agent.invites().await.map_err(|error| Failure::of("cannot list the invites", &error))?;
    if invites.is_empty() {
        context.next("no invite yet; `muretai invite create` makes one");
    }
    let now = agent::now();
    for invite in &invites {
        let about = About::of(agent, invite).await?;
        context.out.either(&json(invite, &about, now), || line(invite, &about, now))?;
    }
    Ok(())
}

async fn revoke(context: &Context, agent: &Agent, invite: &str) -> Result<(), Failure> {
    let what = if invite == "-" { stdin::value(stdin::take("an invite")?, "an invite")? } else { invite.to_owned() };
    let revoked = agent.revoke_invite(&what).await.map_err(|error| Failure::of("cannot revoke the invite", &error))?;
    let Some(row) = revoked else {
        let message = format!("cannot revoke `{what}`: this agent made no such invite");
        return Err(Failure::failed(message).hint("`muretai invite list` shows the codes"));
    };
    let (about, now) = (About::of(agent, &row).await?, agent::now());
    context.out.either(&json(&row, &about, now), || line(&row, &about, now))?;
    if row.used_by.is_none() && about.relay.is_some() {
        context.out.note("the relay shows it until it expires; a claim of it is refused");
    }
    if let Some(did) = &row.used_by {
        context.next(&format!("it was claimed before; `muretai contacts remove {did}` ends that trust"));
    }
    Ok(())
}

/// What is known of an invite beside its row.
struct About {
    /// The local name of whoever claimed it.
    name: Option<String>,
    /// The relay that keeps it.
    relay: Option<String>,
}

impl About {
    async fn of(agent: &Agent, invite: &InviteRow) -> Result<About, Failure> {
        let relay = agent.relay_of(invite).await.map_err(|error| Failure::of("cannot list the invites", &error))?;
        let Some(did) = &invite.used_by else { return Ok(About { name: None, relay }) };
        let contact = agent.store().contact(did).await;
        let contact = contact.map_err(|error| Failure::of("cannot list the invites", &error))?;
        Ok(About { name: contact.map(|contact| contact.name), relay })
    }
}

fn state(invite: &InviteRow, now: UnixSeconds) -> &'static str {
    match invite {
        InviteRow { used_by: Some(_), .. } => "used",
        InviteRow { revoked: Some(_), .. } => "revoked",
        _ if invite.expires <= now => "expired",
        _ => "open",
    }
}

fn json<'a>(invite: &'a InviteRow, about: &'a About, now: UnixSeconds) -> InviteJson<'a> {
    InviteJson {
        nonce: &invite.nonce,
        code: &invite.code,
        state: state(invite, now),
        created: wire::time(invite.created),
        expires: wire::time(invite.expires),
        note: invite.note.as_deref(),
        used_by: invite.used_by.as_ref().map(|did| did.as_str()),
        used_name: about.name.as_deref(),
        used: invite.used.map(wire::time),
        revoked: invite.revoked.map(wire::time),
        relay: about.relay.as_deref(),
    }
}

fn line(invite: &InviteRow, about: &About, now: UnixSeconds) -> String {
    let state = state(invite, now);
    let mut line = format!("{}  {state:7}  until {}", invite.code, clock::local(invite.expires));
    if let Some(did) = &invite.used_by {
        let name = about.name.as_ref().map(|name| format!("{} ", people::shown(name))).unwrap_or_default();
        line.push_str(&format!("  by {name}{did}"));
    }
    if let Some(relay) = &about.relay {
        line.push_str(&format!("  at {}", people::shown(relay)));
    }
    if let Some(note) = &invite.note {
        line.push_str(&format!("  {}", people::shown(note)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invite_is_open_until_something_ends_it() {
        let open = InviteRow {
            nonce: String::new(),
            code: String::new(),
            card: String::new(),
            note: None,
            created: UnixSeconds(0),
            expires: UnixSeconds(10),
            revoked: None,
            used_by: None,
            used: None,
        };
        assert_eq!(state(&open, UnixSeconds(9)), "open");
        assert_eq!(state(&open, UnixSeconds(10)), "expired");
        assert_eq!(state(&InviteRow { revoked: Some(UnixSeconds(1)), ..open }, UnixSeconds(9)), "revoked");
    }
}
