//! Looking up a peer's sealing key again.
use std::time::Duration;

use muretai_protocol::{
    Did,
    card::{self, Card},
};
use muretai_store::{StoreError, contacts::Contact};
use muretai_transports::relay::directory::Relay;

use super::is_among;
use crate::{Agent, agent::now, send::peer::FetchedCard};

/// For one card.
const PATIENCE: Duration = Duration::from_secs(10);

impl Agent {
    /// Fetches the signed card of a contact, from its own address or from relays that may have it, and takes its sealing
    /// keys from it. Says whether they are new; nothing happens when no card is found, or when the peer is no contact.
    pub(crate) async fn renew_key(&self, peer: &Did) -> Result<bool, StoreError> {
        let Some(contact) = self.store().contact(peer).await? else { return Ok(false) };
        let Some(card) = self.fresh_card(&contact).await? else { return Ok(false) };
        let Some(enc_pub) = card.enc_pub else { return Ok(false) };
        self.store().renew_keys(peer, &enc_pub, card.enc_pub_pq.as_deref()).await
    }

    async fn fresh_card(&self, contact: &Contact) -> Result<Option<Card>, StoreError> {
        if let Some(url) = contact.coordinates.url.as_deref().filter(|url| !url.is_empty()) {
            let policy = self.policy_for_contact(contact, url, false);
            let fetching = self.fetch_card_under(url, Some(&contact.did), policy);
            if let Ok(Ok(FetchedCard::Peer(peer))) = tokio::time::timeout(PATIENCE, fetching).await
                && peer.is_signed
                && peer.card.enc_pub.is_some()
            {
                return Ok(Some(peer.card));
            }
        }
        self.card_at_relays(contact).await
    }

    /// The newest card that a relay has.
    async fn card_at_relays(&self, contact: &Contact) -> Result<Option<Card>, StoreError> {
        let own = self.known_relays().await?;
        let theirs = contact.coordinates.relay.clone().filter(|relay| !is_among(&own, relay));
        let mut newest = None::<card::SignedCopy>;
        for base in own.iter().chain(&theirs) {
            let policy = match is_among(&own, base) {
                true => self.mailbox_policy(base).await?,
                false => self.policy_for_contact(contact, base, false),
            };
            let relay = Relay { base, policy, timeout: PATIENCE };
            let Ok(Some(envelope)) = relay.card(&self.inner.http, &contact.did).await else { continue };
            let Ok(copy) = card::verify_copy(&envelope, &contact.did, now()) else { continue };
            if newest.as_ref().is_none_or(|newest| copy.ts > newest.ts) {
                newest = Some(copy);
            }
        }
        Ok(newest.map(|copy| copy.card))
    }
}
