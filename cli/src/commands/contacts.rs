//! `muretai contacts`: whom this agent knows, trusts and blocks.

use muretai_node::{Agent, agent, send::target};
use muretai_protocol::Did;
use muretai_store::contacts::{Contact, CoordinateSource, Relation};
use serde::Serialize;

use crate::{
    clock,
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    output, parse,
    people::{self, Names},
    wire,
};

/// List, show, rename, tag, remove and block contacts
///
/// A contact is named by its local name or its DID.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai contacts list\n\
\x20 muretai contacts rename south-2 work")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the contacts by name
    #[command(after_help = "Examples:\n\
\x20 muretai contacts list\n\
\x20 muretai contacts list --json")]
    List,
    /// Show one contact
    #[command(after_help = "Examples:\n\
\x20 muretai contacts show south\n\
\x20 muretai contacts show south --json")]
    Show {
        /// Local name or DID
        contact: String,
    },
    /// Give a contact another local name
    #[command(after_help = "Examples:\n\
\x20 muretai contacts rename south-2 work\n\
\x20 muretai contacts rename did:key:z6Mk… work")]
    Rename {
        /// Local name or DID
        contact: String,
        /// The new name, which no other contact has: 1 to 64 characters without blanks, dots, colons and slashes
        name: String,
    },
    /// Say what a contact knows: tags, for introductions and for questions about a topic
    ///
    /// At most 16 tags of 64 bytes. Only you and the peers whom you tell see them.
    #[command(after_help = "Examples:\n\
\x20 muretai contacts tag south translation 'contract law'\n\
\x20 muretai contacts tag south --remove translation")]
    Tag {
        /// Local name or DID
        contact: String,
        /// What it knows
        #[arg(required = true, value_name = "TAG", value_parser = parse::not_blank)]
        tags: Vec<String>,
        /// Take these tags away
        #[arg(long)]
        remove: bool,
    },
    /// Remove a contact: it is a stranger again. Messages stay
    #[command(after_help = "Examples:\n\
\x20 muretai contacts remove south\n\
\x20 muretai contacts remove south --yes")]
    Remove {
        /// Local name or DID
        contact: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Block a peer, known or not: it is answered like a stranger, whatever it claims later
    #[command(after_help = "Examples:\n\
\x20 muretai contacts block south\n\
\x20 muretai contacts block did:key:z6Mk…")]
    Block {
        /// Local name or DID
        peer: String,
    },
    /// Unblock a peer
    #[command(after_help = "Examples:\n\
\x20 muretai contacts unblock south\n\
\x20 muretai contacts unblock did:key:z6Mk…")]
    Unblock {
        /// Local name or DID
        peer: String,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContactJson<'a> {
    name: &'a str,
    did: &'a str,
    peer_name: Option<&'a str>,
    relation: &'static str,
    /// Who vouches, for a contact that was introduced.
    vouched_by: Vec<&'a str>,
    tags: &'a [String],
    blocked: bool,
    url: Option<&'a str>,
    relay: Option<&'a str>,
    enc_pub: Option<&'a str>,
    enc_pub_pq: Option<&'a str>,
    source: &'static str,
    allow_private: bool,
    added: String,
    last_seen: Option<String>,
}

/// What a change left behind.
#[derive(Serialize)]
struct Change<'a> {
    did: &'a str,
    /// `null` for a peer that is no contact.
    name: Option<&'a str>,
    blocked: bool,
    removed: bool,
    /// `false` when it was so before.
    changed: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    context::block_on(async {
        let agent = context.open(context.timeout(None)?).await?;
        let done = match &args.command {
            Command::List => list(context, &agent).await,
            Command::Show { contact } => show(context, &agent, contact).await,
            Command::Rename { contact, name } => rename(context, &agent, contact, name).await,
            Command::Tag { contact, tags, remove } => tag(context, &agent, contact, tags, *remove).await,
            Command::Remove { contact, yes } => remove(context, &agent, contact, *yes).await,
            Command::Block { peer } => set_blocked(context, &agent, peer, true).await,
            Command::Unblock { peer } => set_blocked(context, &agent, peer, false).await,
        };
        agent.close().await;
        done.map(|()| Exit::Done)
    })
}

async fn list(context: &Context, agent: &Agent) -> Result<(), Failure> {
    let contacts = agent.store().contacts().await.map_err(|error| Failure::of("cannot list the contacts", &error))?;
    if contacts.is_empty() {
        context.next("no contact yet; `muretai claim LINK` makes one, `muretai invite create` lets one in");
    }
    let width = contacts.iter().map(|contact| contact.name.chars().count()).max().unwrap_or_default();
    for contact in &contacts {
        let vouchers = vouchers(agent, contact).await?;
        context.out.either(&json(contact, &vouchers), || {
            let name = people::shown(&contact.name);
            let url = people::shown(contact.coordinates.url.as_deref().unwrap_or("-"));
            let mut line = format!("{name:width$}  {}  {:10}  {url}", contact.did, standing(contact));
            for did in &vouchers {
                let by = contacts.iter().find(|other| other.did == *did).map_or(did.as_str(), |other| &other.name);
                line.push_str(&format!("  by {}", people::shown(by)));
            }
            line
        })?;
    }
    Ok(())
}

/// Who vouches for an introduced contact now, and who introduced this agent to an offered one.
async fn vouchers(agent: &Agent, contact: &Contact) -> Result<Vec<Did>, Failure> {
    let failed = |error| Failure::of(format!("cannot look up who vouches for `{}`", contact.name), &error);
    let mut issuers: Vec<Did> = match contact.relation {
        Relation::Introduced => {
            let standing = agent.store().standing_introductions(&contact.did, agent::now()).await.map_err(failed)?;
            standing.into_iter().map(|introduction| introduction.issuer).collect()
        }
        Relation::Offered => {
            let held = agent.store().held_for(&contact.did, agent::now()).await.map_err(failed)?;
            held.into_iter().map(|introduction| introduction.issuer).collect()
        }
        Relation::Direct | Relation::None => Vec::new(),
    };
    issuers.dedup();
    Ok(issuers)
}

async fn show(context: &Context, agent: &Agent, who: &str) -> Result<(), Failure> {
    let contact = people::contact(agent, who).await?;
    let vouchers = vouchers(agent, &contact).await?;
    let names = Names::of(agent, &vouchers).await?;
    context.out.either(&json(&contact, &vouchers), || {
        let optional = |value: &Option<String>| people::shown(value.as_deref().unwrap_or("-"));
        let name = output::paint(output::STRONG, &people::shown(&contact.name));
        let seen = contact.last_seen.map_or("never".to_owned(), clock::local);
        let mut lines = vec![
            format!("name       {name}"),
            format!("did        {}", contact.did),
            format!("own name   {}", optional(&contact.peer_name)),
            format!("standing   {}", standing(&contact)),
            format!("url        {} (from {})", optional(&contact.coordinates.url), source(&contact)),
            format!("dialling   {}", dialling(&contact)),
            format!("relay      {}", optional(&contact.coordinates.relay)),
            format!("sealing    {}", sealing(&contact)),
            format!("added      {}", clock::local(contact.added)),
            format!("last seen  {seen}"),
        ];
        let by = if contact.relation == Relation::Offered { "by" } else { "vouched by" };
        lines.extend(vouchers.iter().map(|did| format!("{by:<10} {}", names.shown(did))));
        if !contact.expertise.is_empty() {
            lines.push(format!("tags       {}", super::requests::expertise(&contact.expertise)));
        }
        lines.join("\n")
    })
}

/// What is left of a contact's tags, or what they grew to, in the order in which they were given.
fn changed_tags(before: &[String], tags: &[String], remove: bool) -> Vec<String> {
    let tags = tags.iter().map(|tag| tag.trim());
    let mut changed: Vec<String> = before.to_vec();
    for tag in tags {
        changed.retain(|other| !(remove && other.as_str() == tag));
        if !remove && !changed.iter().any(|other| other.as_str() == tag) {
            changed.push(tag.to_owned());
        }
    }
    changed
}

async fn tag(context: &Context, agent: &Agent, who: &str, tags: &[String], remove: bool) -> Result<(), Failure> {
    let mut contact = people::contact(agent, who).await?;
    let attempt = format!("cannot tag `{}`", contact.name);
    let tags = changed_tags(&contact.expertise, tags, remove);
    agent.store().set_expertise(&contact.did, &tags).await.map_err(|error| Failure::of(attempt, &error))?;
    contact.expertise = tags;
    let vouchers = vouchers(agent, &contact).await?;
    context.out.either(&json(&contact, &vouchers), || {
        let tags = match contact.expertise.as_slice() {
            [] => "no tags".to_owned(),
            tags => super::requests::expertise(tags),
        };
        format!("{}  {}  {tags}", people::shown(&contact.name), contact.did)
    })
}

async fn rename(context: &Context, agent: &Agent, who: &str, name: &str) -> Result<(), Failure> {
    let contact = people::contact(agent, who).await?;
    let attempt = format!("cannot rename `{}`", contact.name);
    target::check_name(name, agent.name())
        .map_err(|reason| Failure::usage(format!("{attempt} to `{name}`: {reason}")))?;
    let renamed = agent.store().rename_contact(&contact.did, name).await;
    renamed.map_err(|error| Failure::of(attempt, &error))?;
    let change = Change {
        did: contact.did.as_str(),
        name: Some(name),
        blocked: contact.is_blocked,
        removed: false,
        changed: contact.name != name,
    };
    context.out.either(&change, || format!("{name}  {}", contact.did))
}

async fn remove(context: &Context, agent: &Agent, who: &str, yes: bool) -> Result<(), Failure> {
    let contact = people::contact(agent, who).await?;
    let name = people::shown(&contact.name);
    context.out.confirm(&format!("Remove `{name}`, {}?", contact.did), yes)?;
    let removed = agent.store().remove_contact(&contact.did).await;
    let changed = removed.map_err(|error| Failure::of(format!("cannot remove `{}`", contact.name), &error))?;
    let change = Change {
        did: contact.did.as_str(),
        name: Some(&contact.name),
        blocked: contact.is_blocked,
        removed: true,
        changed,
    };
    context.out.either(&change, || format!("removed {name}  {}", contact.did))?;
    let block = format!("`muretai contacts block {}`", contact.did);
    context.next(&format!("its messages stay, and it may still trust you; {block} also keeps it out"));
    Ok(())
}

async fn set_blocked(context: &Context, agent: &Agent, who: &str, blocked: bool) -> Result<(), Failure> {
    let verb = if blocked { "block" } else { "unblock" };
    let attempt = format!("cannot {verb} `{who}`");
    let did = people::did(agent, who).await.map_err(|failure| match failure.exit {
        Exit::Failed => {
            failure.hint("a peer that is no contact is named by its DID; `muretai contacts list` shows the others")
        }
        _ => failure,
    })?;
    if did == *agent.did() {
        return Err(Failure::usage(format!("{attempt}: that is this agent itself")));
    }
    let before = agent.store().contact(&did).await.map_err(|error| Failure::of(attempt.as_str(), &error))?;
    let changed = before.as_ref().is_some_and(|contact| contact.is_blocked) != blocked;
    let done = agent.store().set_blocked(&did, blocked, agent::now()).await;
    done.map_err(|error| Failure::of(attempt, &error))?;
    let name = before.as_ref().map(|contact| contact.name.as_str());
    let change = Change { did: did.as_str(), name, blocked, removed: false, changed };
    context.out.either(&change, || match (changed, blocked) {
        (true, _) => format!("{verb}ed {did}"),
        (false, true) => format!("was blocked before: {did}"),
        (false, false) => format!("was not blocked: {did}"),
    })
}

/// Which addresses are dialled for a contact. Local ones, on this machine or in a private network, need a reason.
fn dialling(contact: &Contact) -> &'static str {
    if contact.allow_private || contact.source == CoordinateSource::Owner {
        "public and local addresses"
    } else {
        "public addresses; local ones with --allow-private, or while an agent here is served on the same network"
    }
}

/// With which keys letters to a contact are sealed.
fn sealing(contact: &Contact) -> String {
    let Some(key) = &contact.coordinates.enc_pub else {
        return "no key yet: it comes with an invite, a signed card or a letter".to_owned();
    };
    let kind = if contact.coordinates.enc_pub_pq.is_some() { "X25519 and ML-KEM-768" } else { "X25519" };
    format!("{kind}, key {}", people::shown(key))
}

fn standing(contact: &Contact) -> &'static str {
    match (contact.is_blocked, contact.relation) {
        (true, _) => "blocked",
        (false, Relation::Direct) => "trusted",
        (false, Relation::Introduced) => "introduced",
        (false, Relation::Offered) => "offered",
        (false, Relation::None) => "stranger",
    }
}

fn source(contact: &Contact) -> &'static str {
    match contact.source {
        CoordinateSource::Introducer => "introducer",
        CoordinateSource::Peer => "peer",
        CoordinateSource::Invite => "invite",
        CoordinateSource::Card => "card",
        CoordinateSource::Owner => "owner",
    }
}

fn json<'a>(contact: &'a Contact, vouchers: &'a [Did]) -> ContactJson<'a> {
    ContactJson {
        name: &contact.name,
        did: contact.did.as_str(),
        peer_name: contact.peer_name.as_deref(),
        relation: match contact.relation {
            Relation::Direct => "direct",
            Relation::Introduced => "introduced",
            Relation::Offered => "offered",
            Relation::None => "none",
        },
        vouched_by: vouchers.iter().map(Did::as_str).collect(),
        tags: &contact.expertise,
        blocked: contact.is_blocked,
        url: contact.coordinates.url.as_deref(),
        relay: contact.coordinates.relay.as_deref(),
        enc_pub: contact.coordinates.enc_pub.as_deref(),
        enc_pub_pq: contact.coordinates.enc_pub_pq.as_deref(),
        source: source(contact),
        allow_private: contact.allow_private,
        added: wire::time(contact.added),
        last_seen: contact.last_seen.map(wire::time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_added_once_and_taken_away() {
        let tags = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let before = tags(&["law", "music"]);
        assert_eq!(changed_tags(&before, &tags(&["law", " maths "]), false), tags(&["law", "music", "maths"]));
        assert_eq!(changed_tags(&before, &tags(&["law", "maths"]), true), tags(&["music"]));
    }
}
