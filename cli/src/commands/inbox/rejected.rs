//! `inbox --rejected`: letters that got into no inbox, and why.

use muretai_node::Agent;
use muretai_protocol::Did;
use muretai_store::outbox::RejectedLetter;
use serde::Serialize;

use crate::{
    clock,
    context::Context,
    failure::Failure,
    output::{DIM, paint},
    people::{self, Names},
    wire,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RejectedJson<'a> {
    received: String,
    relay: &'a str,
    /// Who deposited it, as the relay says, or who signed it.
    from: &'a str,
    from_name: Option<&'a str>,
    id: &'a str,
    reason: &'a str,
    code: Option<i64>,
    bytes: u64,
}

/// Prints the newest ones, newest last; 0 is all that are kept.
pub(super) async fn show(context: &Context, agent: &Agent, limit: u32) -> Result<(), Failure> {
    let limit = if limit == 0 { u32::MAX } else { limit };
    let letters = agent.store().rejected(limit).await;
    let letters = letters.map_err(|error| Failure::of("cannot read what was refused", &error))?;
    if letters.is_empty() {
        context.out.note("no letter was refused");
    }
    let senders: Vec<Did> = letters.iter().filter_map(|letter| letter.from.parse().ok()).collect();
    let names = Names::of(agent, &senders).await?;
    for letter in &letters {
        let did: Option<Did> = letter.from.parse().ok();
        let name = did.as_ref().and_then(|did| names.get(did));
        context.out.either(&json(letter, name), || text(letter, name))?;
    }
    Ok(())
}

fn json<'a>(letter: &'a RejectedLetter, name: Option<&'a str>) -> RejectedJson<'a> {
    RejectedJson {
        received: wire::time(letter.received),
        relay: &letter.relay,
        from: &letter.from,
        from_name: name,
        id: &letter.id,
        reason: &letter.reason,
        code: letter.code,
        bytes: letter.bytes,
    }
}

fn text(letter: &RejectedLetter, name: Option<&str>) -> String {
    let from = match name {
        Some(name) => format!("{}  {}", people::shown(name), people::shown(&letter.from)),
        None if letter.from.is_empty() => "(unknown)".to_owned(),
        None => people::shown(&letter.from),
    };
    let code = letter.code.map(|code| format!("{code} ")).unwrap_or_default();
    let facts =
        format!("{} bytes from {}  id {}", letter.bytes, people::shown(&letter.relay), people::shown(&letter.id));
    format!(
        "{} from {from}\n  {code}{}\n  {}",
        paint(DIM, &clock::local(letter.received)),
        people::shown(&letter.reason),
        paint(DIM, &facts)
    )
}

#[cfg(test)]
mod tests {
    use muretai_protocol::UnixSeconds;

    use super::*;

    #[test]
    fn what_was_refused_is_told_with_its_reason_and_without_tricks() {
        let letter = RejectedLetter {
            received: UnixSeconds(1_000),
            relay: "https://relay.example".to_owned(),
            from: "did:key:z6Mk\u{1b}[2K".to_owned(),
            id: "m\n".to_owned(),
            reason: "Introduction required".to_owned(),
            code: Some(-32010),
            bytes: 512,
        };
        let shown = anstream::adapter::strip_str(&text(&letter, Some("west\u{202e}"))).to_string();
        assert!(shown.contains("-32010 Introduction required") && shown.contains("512 bytes"), "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{202e}']) && shown.lines().count() == 3, "{shown:?}");
        assert_eq!(serde_json::to_value(json(&letter, None)).unwrap()["code"], -32010);
    }
}
