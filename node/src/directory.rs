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
use muretai_store::{StoreError, contacts::CoordinateSource};
use muretai_transports::{
    guard::{self, Policy},
    relay::directory::Relay,
};
use tokio::task::JoinSet;

use crate::{
    Agent,
    agent::now,
    send::{ResolvedPeer, peer::PeerCard},
};

/// For all relays together. Somebody waits for a name to be found, and whoever has no answer by then is no help.
const PATIENCE: Duration = Duration::from_secs(2);
/// Before a DID: the setting that keeps the time of the newest card that a directory ever showed of it.
const NEWEST: &str = "directory.newest:";
/// Before a DID: the setting that keeps when directories were last asked for the address of a contact.
const ASKED: &str = "directory.asked:";
/// How often they are asked for it on the way to the contact's mailbox.
const ASK_AGAIN_SECS: i64 = 6 * 3_600;
/// How long that may hold a message up.
const GLANCE: Duration = Duration::from_secs(1);
/// A card names an address for so long: its agent publishes one each day while it is served.
const FRESH_SECS: i64 = 2 * 86_400;

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

    /// A contact that is known by its mailbox alone, with the address that its published card names. The address fills
    /// what is empty and replaces nothing; what it may lead to is a peer's word.
    ///
    /// Directories are asked at most once in six hours, and then hold nobody up for more than a second or a quarter of
    /// `timeout`; `is_wanted` asks them now, for two seconds.
    pub(crate) async fn find_address(
        &self,
        peer: ResolvedPeer,
        allow_private: bool,
        is_wanted: bool,
        timeout: Duration,
    ) -> Result<ResolvedPeer, StoreError> {
        if !peer.url.is_empty() || peer.name.is_none() {
            return Ok(peer);
        }
        let Some(contact) = self.store().contact(&peer.did).await? else { return Ok(peer) };
        // Where the owner said where a contact is, a card adds nothing.
        if contact.source == CoordinateSource::Owner || !self.may_ask(&peer.did, is_wanted).await? {
            return Ok(peer);
        }
        let patience = if is_wanted { PATIENCE } else { GLANCE.min(timeout / 4) };
        let Ok(listing) = tokio::time::timeout(patience, self.look_up(&peer.did)).await else { return Ok(peer) };
        let Some(found) = listing?.card.filter(|found| now().0 - found.signed.0 <= FRESH_SECS) else {
            return Ok(peer);
        };
        let base = found.into_peer(self, allow_private).base;
        if base.is_empty() || !self.store().fill_address(&peer.did, &base).await? {
            return Ok(peer);
        }
        let Some(contact) = self.store().contact(&peer.did).await? else { return Ok(peer) };
        Ok(self.contact_at(&contact, allow_private).await?.unwrap_or(peer))
    }

    /// Whether directories are asked for this address now, which is noted.
    async fn may_ask(&self, did: &Did, is_wanted: bool) -> Result<bool, StoreError> {
        if self.known_relays().await?.is_empty() {
            return Ok(false);
        }
        let (key, now) = (format!("{ASKED}{did}"), now().0);
        let asked = self.store().setting(&key).await?.and_then(|asked| asked.parse::<i64>().ok());
        // A time ahead of the clock says nothing.
        if !is_wanted && asked.is_some_and(|asked| (asked..asked.saturating_add(ASK_AGAIN_SECS)).contains(&now)) {
            return Ok(false);
        }
        self.store().set_setting(&key, Some(&now.to_string())).await?;
        Ok(true)
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
