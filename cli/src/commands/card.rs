//! `muretai card`: what an agent says about itself, and whether that is proven.

use std::time::Duration;

use muretai_node::{
    Agent, agent,
    card::CardFacts,
    send::peer::{FetchedCard, PeerCard},
    serve::URL_SETTING,
    trust::policies::GatePolicy,
};
use muretai_protocol::json::Value;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    clock,
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    output::{self, paint},
    parse, people, progress, wire,
};

/// Show your own card, or fetch a peer's and verify it
///
/// Without TARGET: the card that `muretai serve` serves, as JSON. With one: who is there, and whether the card is
/// signed by its DID for that address. A card that does not verify is an error.
///
/// A DID whose address is not known is looked up at the relays of `relay` in config.toml, and at those where this agent has
/// a mailbox. They keep copies that their agents signed; how old a copy is, is shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai card\n\
\x20 muretai card south.example --json")]
pub(crate) struct Args {
    /// A contact's name, a DID, a card URL or a bare domain
    target: Option<String>,
    /// How long it may take; a peer's card gets at most 10s [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    timeout: Option<Duration>,
    /// Dial loopback and private addresses that a peer named
    #[arg(long)]
    allow_private: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CardJson<'a> {
    card: Box<RawValue>,
    /// The envelope beside the card verified; `null` for the own card, which nobody has to prove here.
    signed: Option<bool>,
    url: &'a str,
    did: Option<&'a str>,
    name: Option<&'a str>,
    /// Of a copy that a relay keeps: when its agent signed it, and which relay that is.
    copy_signed: Option<String>,
    relay: Option<&'a str>,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let timeout = context.timeout(args.timeout)?;
    context::block_on(async {
        let agent = context.open(timeout).await?;
        let done = match &args.target {
            None => own(context, &agent).await,
            Some(target) => peer(context, &agent, target, args.allow_private).await,
        };
        agent.close().await;
        done.map(|()| Exit::Done)
    })
}

async fn own(context: &Context, agent: &Agent) -> Result<(), Failure> {
    let url = agent.store().setting(URL_SETTING).await;
    let url = url.map_err(|error| Failure::of("cannot show the card", &error))?.unwrap_or_default();
    let policies = agent.policies().await.map_err(|error| Failure::of("cannot show the card", &error))?;
    // What plugins offer is on the card as it is served: it takes loading them.
    let open_door = policies.gate == GatePolicy::Open;
    let relays = agent.served_by().map(|holder| holder.relays).unwrap_or_default();
    let relay = relays.first().map(String::as_str);
    let card = agent.card_with(&CardFacts { url: &url, open_door, policies: &policies, skills: &[], relay });
    if url.is_empty() && relay.is_none() {
        context.next("it has no address yet: `muretai serve` gives it one");
    }
    let json = CardJson {
        card: wire::raw(&card),
        signed: None,
        url: &url,
        did: Some(agent.did().as_str()),
        name: Some(agent.name()),
        copy_signed: None,
        relay: None,
    };
    context.out.either(&json, || {
        let value: Option<serde_json::Value> = serde_json::from_str(&card.to_json()).ok();
        value.map_or_else(|| card.to_json(), |value| format!("{value:#}"))
    })
}

async fn peer(context: &Context, agent: &Agent, target: &str, allow_private: bool) -> Result<(), Failure> {
    let allow_private = context.allow_private(allow_private)?;
    let shown = people::shown(target);
    let fetching =
        progress::watch(&context.out, format!("fetching the card of {shown}"), agent.card_of(target, allow_private));
    let attempt = format!("cannot show the card of `{target}`");
    let fetched = fetching.await.map_err(|error| Failure::of(attempt, &error).about(target))?;
    match fetched {
        FetchedCard::Peer(peer) => context.out.either(&peer_json(&peer), || peer_text(&peer)),
        FetchedCard::Foreign { card, url } => {
            context.out.warn("this agent has no DID: nothing that it says can be verified");
            let name = card.member("name").and_then(Value::as_str);
            let json = CardJson {
                card: wire::raw(&card),
                signed: Some(false),
                url: &url,
                did: None,
                name,
                copy_signed: None,
                relay: None,
            };
            context.out.either(&json, || facts(name.unwrap_or_default(), "none", &url, "unproven", &card))
        }
    }
}

fn peer_json(peer: &PeerCard) -> CardJson<'_> {
    CardJson {
        card: wire::raw(&peer.card.raw),
        signed: Some(peer.is_signed),
        url: &peer.base,
        did: Some(peer.card.did.as_str()),
        name: Some(&peer.card.name),
        copy_signed: peer.copy_signed.map(wire::time),
        relay: kept_at(peer),
    }
}

/// The relay that keeps the copy.
fn kept_at(peer: &PeerCard) -> Option<&str> {
    peer.copy_signed?;
    peer.fetched_from.rsplit_once("/card/").map(|(relay, _)| relay)
}

fn peer_text(peer: &PeerCard) -> String {
    let proof = match (peer.copy_signed, peer.is_signed) {
        (Some(signed), _) => {
            let relay = people::shown(kept_at(peer).unwrap_or("a relay"));
            format!("a copy at {relay}, signed by this DID {}", clock::distance(signed, agent::now()))
        }
        (None, true) => "signed by this DID for this address".to_owned(),
        (None, false) => "unproven: no signature beside it, so this is a claim of whoever serves it".to_owned(),
    };
    facts(&peer.card.name, peer.card.did.as_str(), &peer.base, &proof, &peer.card.raw)
}

fn facts(name: &str, did: &str, url: &str, proof: &str, card: &Value) -> String {
    let mut lines = vec![
        format!("name    {}", paint(output::STRONG, &people::shown(name))),
        format!("did     {did}"),
        format!("url     {}", people::shown(if url.is_empty() { "none: reached through its relay" } else { url })),
        format!("card    {proof}"),
    ];
    if let Some(relay) = card.member("relay").and_then(Value::as_str) {
        lines.push(format!("relay   {}", people::shown(relay)));
    }
    if let Some(description) = card.member("description").and_then(Value::as_str) {
        lines.push(format!("about   {}", people::shown(description)));
    }
    for skill in card.member("skills").and_then(Value::as_array).unwrap_or_default().iter().take(MAX_SKILLS) {
        let member = |name| people::shown(skill.member(name).and_then(Value::as_str).unwrap_or_default());
        let id = Some(member("id")).filter(|id| !id.is_empty()).map(|id| format!(" ({id})")).unwrap_or_default();
        lines.push(format!("skill   {}{id}: {}", member("name"), member("description")));
        let examples = skill.member("examples").and_then(Value::as_array).unwrap_or_default();
        for example in examples.iter().filter_map(Value::as_str).take(MAX_EXAMPLES) {
            lines.push(format!("          for example: {}", people::shown(example)));
        }
    }
    lines.join("\n")
}

/// Skills that a person is shown; --json has them all.
const MAX_SKILLS: usize = 32;
/// Examples of each of them.
const MAX_EXAMPLES: usize = 8;

#[cfg(test)]
mod tests {
    use muretai_protocol::json;

    use super::*;

    #[test]
    fn a_card_of_a_stranger_is_shown_line_by_line_without_its_tricks() {
        let card = json!({
            "description": "kind\ndid     did:key:zForged",
            "skills": [{ "name": "a\u{1b}[2K", "description": "b", "id": "i\n", "examples": ["x\nskill   y", 7] }, 7],
        });
        let shown = facts("n\u{202e}", "did:key:z6Mk", "http://x", "unproven", &card);
        let plain = anstream::adapter::strip_str(&shown).to_string();
        assert_eq!(plain.lines().filter(|line| line.starts_with("did ")).count(), 1, "{plain}");
        assert!(!plain.contains(['\u{1b}', '\u{202e}']), "{plain:?}");
        assert_eq!(plain.lines().filter(|line| line.starts_with("skill ")).count(), 2);
        assert!(plain.contains("(i") && plain.contains("\n          for example: x"), "{plain}");
    }
}
