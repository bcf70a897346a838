//! Cards that relays keep for their agents (9.6): where somebody is who is known by a DID alone.
//!
//! Only relays that the owner chose are asked, so that no peer learns from its relay whom this agent looks for. A relay
//! is not believed: a card is good when its DID signed it, of several the newest one counts, and one that is older than
//! what was seen before is a replay.
use std::time::Duration;

use muretai_protocol::{
    Did, UnixSeconds,
    card::{self, Card},
    urls,
};
use muretai_store::StoreError;
use muretai_transports::{
    guard::{self, Policy},
    relay::directory::Relay,
};
use tokio::task::JoinSet;

use crate::{Agent, agent::now, send::peer::PeerCard};

/// For all relays together. Somebody waits for a name to be found, and whoever has no answer by then is no help.
const PATIENCE: Duration = Duration::from_secs(2);
/// Before a DID: the setting that keeps the time of the newest card that a directory ever showed of it.
const NEWEST: &str = "directory.newest:";

/// A card out of a directory, proven to be of the DID that was looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectoryCard {
    /// The card.
    pub card: Card,
    /// When it was signed. It may be old: its agent may sleep.
    pub signed: UnixSeconds,
    /// The relay that has it, as a base URL.
    pub relay: String,
}

/// What relays say about a DID.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The newest card.
    pub(crate) card: Option<DirectoryCard>,
    /// Relays that gave no answer that can be used.
    pub(crate) silent: Vec<String>,
}

impl Agent {
    /// Asks the relays that the owner chose for the card of a DID; `None` when none has one that is good. Takes two
    /// seconds at most, and no time when there is no relay.
    pub async fn directory_card(&self, did: &Did) -> Result<Option<DirectoryCard>, StoreError> {
        Ok(self.look_up(did).await?.card)
    }

    /// The same, and says which relays were no help.
    pub(crate) async fn look_up(&self, did: &Did) -> Result<Listing, StoreError> {
        let mut asking = JoinSet::new();
        let mut silent = self.known_relays().await?;
        for relay in silent.iter().cloned() {
            let (http, did) = (self.inner.http.clone(), did.clone());
            let policy = self.mailbox_policy(&relay).await?;
            asking.spawn(async move {
                let place = Relay { base: &relay, policy, timeout: PATIENCE };
                let answer = place.card(&http, &did).await;
                (relay, answer)
            });
        }
        let mut newest = None::<DirectoryCard>;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while let Ok(Some(answered)) = tokio::time::timeout_at(deadline, asking.join_next()).await {
            let Ok((relay, answer)) = answered else { continue };
            let envelope = match answer {
                Ok(envelope) => envelope,
                Err(error) => {
                    tracing::info!(relay, error = &error as &dyn std::error::Error, "a directory could not be asked");
                    continue;
                }
            };
            match envelope.map(|envelope| card::verify_copy(&envelope, did, now())).transpose() {
                Ok(copy) => {
                    silent.retain(|other| *other != relay);
                    let found = copy.map(|copy| DirectoryCard { card: copy.card, signed: copy.ts, relay });
                    newest = newer(newest, found);
                }
                Err(error) => {
                    tracing::warn!(relay, error = &error as &dyn std::error::Error, "a directory's card is not good");
                }
            }
        }
        let card = match newest {
            Some(found) => self.unless_replayed(did, found).await?,
            None => None,
        };
        Ok(Listing { card, silent })
    }

    /// The card, unless a newer one was seen before.
    async fn unless_replayed(&self, did: &Did, found: DirectoryCard) -> Result<Option<DirectoryCard>, StoreError> {
        let key = format!("{NEWEST}{did}");
        let seen = self.store().setting(&key).await?.and_then(|seen| seen.parse::<i64>().ok());
        match seen {
            Some(seen) if seen > found.signed.0 => {
                tracing::warn!(relay = found.relay, "a directory shows an older card than was seen before");
                return Ok(None);
            }
            Some(seen) if seen == found.signed.0 => {}
            _ => self.store().set_setting(&key, Some(&found.signed.0.to_string())).await?,
        }
        Ok(Some(found))
    }
}

impl DirectoryCard {
    /// The card as if its agent had served it, with what may be dialled of what it names.
    pub(crate) fn into_peer(self, agent: &Agent, allow_private: bool) -> PeerCard {
        let base = urls::canonical_base(&self.card.url).ok();
        let base = base.filter(|base| !urls::is_wildcard(base) && guard::check_url(base, Policy::Owner).is_ok());
        let base = base.unwrap_or_default();
        PeerCard {
            is_signed: true,
            fetched_from: urls::join(&self.relay, &format!("card/{}", self.card.did)),
            policy: agent.policy_for_named(&base, allow_private),
            base,
            copy_signed: Some(self.signed),
            card: self.card,
        }
    }
}

fn newer(one: Option<DirectoryCard>, other: Option<DirectoryCard>) -> Option<DirectoryCard> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.signed > one.signed { other } else { one }),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
