//! From a target to somebody who can be dialled.
use muretai_protocol::{Did, json::Value, urls};
use muretai_store::{
    StoreError,
    contacts::{Contact, CoordinateSource, Coordinates},
};
use muretai_transports::{MailboxAddress, guard::Policy};

use crate::{
    Agent,
    send::{
        SendError,
        access::{Network, network_of},
        peer::{FetchedCard, PeerCard},
        target::{self, Target},
    },
};

/// A peer that can be dialled.
#[derive(Debug, Clone)]
pub struct ResolvedPeer {
    /// Whom.
    pub did: Did,
    /// The contact's local name, when it is a contact.
    pub name: Option<String>,
    /// The owner blocked it.
    pub is_blocked: bool,
    /// The canonical base; empty when only its mailbox is known.
    pub url: String,
    /// What may be dialled for the base.
    pub(crate) policy: Policy,
    /// Its mailbox at a relay, when it is known to have one.
    pub mailbox: Option<MailboxAddress>,
    /// The address is remembered, not fresh from a card, so a new card may help.
    pub(crate) is_stored: bool,
}

/// Who is meant.
pub(crate) enum Recipient {
    Peer(ResolvedPeer),
    Foreign { card: Box<Value>, url: String },
}

impl Agent {
    /// Finds out who is meant, by the shape of the text: what is a host or a DID is no name, whatever a contact is
    /// called. Only a URL or a domain costs a request.
    pub(crate) async fn resolve(&self, text: &str, allow_private: bool) -> Result<Recipient, SendError> {
        let url = match target::parse(text)? {
            Target::Name(name) => match self.store().contact_named(&name).await? {
                Some(contact) => return self.resolve_contact(contact, allow_private).await,
                None => return Err(SendError::NoSuchContact(name)),
            },
            Target::Invite(_) => return Err(SendError::InviteNotClaimed),
            Target::Did(did) => match self.store().contact(&did).await? {
                Some(contact) => return self.resolve_contact(contact, allow_private).await,
                None => return Err(SendError::NoAddress { who: did.to_string(), is_contact: false }),
            },
            Target::Url(url) => url,
            Target::Domain(domain) => target::domain_url(&domain),
        };
        match self.fetch_card_under(&url, None, Policy::Owner).await? {
            FetchedCard::Foreign { card, url } => Ok(Recipient::Foreign { card, url }),
            FetchedCard::Peer(peer) => Ok(Recipient::Peer(self.met(*peer).await?)),
        }
    }

    /// Fetches and verifies the card of whoever is meant.
    pub async fn card_of(&self, text: &str, allow_private: bool) -> Result<FetchedCard, SendError> {
        let did = match target::parse(text)? {
            Target::Name(name) => match self.store().contact_named(&name).await? {
                Some(contact) => contact.did,
                None => return Err(SendError::NoSuchContact(name)),
            },
            Target::Did(did) => did,
            Target::Url(url) => return Ok(self.fetch_card_under(&url, None, Policy::Owner).await?),
            Target::Domain(domain) => {
                return Ok(self.fetch_card_under(&target::domain_url(&domain), None, Policy::Owner).await?);
            }
            Target::Invite(_) => return Err(SendError::InviteNotClaimed),
        };
        match self.resolve(did.as_str(), allow_private).await? {
            Recipient::Peer(peer) => Ok(self.fetch_card_under(&peer.url, Some(&did), peer.policy).await?),
            Recipient::Foreign { card, url } => Ok(FetchedCard::Foreign { card, url }),
        }
    }

    async fn resolve_contact(&self, contact: Contact, allow_private: bool) -> Result<Recipient, SendError> {
        match self.contact_at(&contact, allow_private).await? {
            Some(peer) => Ok(Recipient::Peer(peer)),
            None => Err(SendError::NoAddress { who: contact.name, is_contact: true }),
        }
    }

    /// A contact at the address or the mailbox that it is known to have.
    pub(crate) async fn contact_at(
        &self,
        contact: &Contact,
        allow_private: bool,
    ) -> Result<Option<ResolvedPeer>, StoreError> {
        let Coordinates { url, .. } = &contact.coordinates;
        let url = url.clone().unwrap_or_default();
        let policy = self.policy_for_contact(contact, &url, allow_private);
        let mailbox = self.mailbox_at(&contact.coordinates, |relay| {
            self.policy_for_contact(contact, relay, allow_private) == Policy::Owner
        });
        let mailbox = mailbox.await?;
        Ok((!url.is_empty() || mailbox.is_some()).then(|| ResolvedPeer {
            did: contact.did.clone(),
            name: Some(contact.name.clone()),
            is_blocked: contact.is_blocked,
            url,
            policy,
            mailbox,
            is_stored: true,
        }))
    }

    /// The mailbox that coordinates name. A relay that the owner uses is dialled wherever it is; of any other, `is_near`
    /// says whether it may be on loopback or a private network.
    pub(crate) async fn mailbox_at(
        &self,
        coordinates: &Coordinates,
        is_near: impl FnOnce(&str) -> bool,
    ) -> Result<Option<MailboxAddress>, StoreError> {
        let Coordinates { relay: Some(relay), enc_pub: Some(enc_pub), enc_pub_pq, .. } = coordinates else {
            return Ok(None);
        };
        if !urls::is_plain_url(relay) {
            return Ok(None);
        }
        let relay = relay.trim_end_matches('/').to_owned();
        let allow_private = is_near(&relay) || self.is_own_relay(&relay).await?;
        let (enc_pub, enc_pub_pq) = (enc_pub.clone(), enc_pub_pq.clone());
        Ok(Some(MailboxAddress { relay, allow_private, enc_pub, enc_pub_pq }))
    }

    /// Whether the owner chose this relay: it is configured, or this agent has a mailbox there.
    pub(crate) async fn is_own_relay(&self, relay: &str) -> Result<bool, StoreError> {
        Ok(self.known_relays().await?.iter().any(|known| urls::same_scope(known, relay)))
    }

    /// A peer whose card was just fetched. What a proven card says about a contact is remembered.
    pub(crate) async fn met(&self, peer: PeerCard) -> Result<ResolvedPeer, StoreError> {
        let did = peer.card.did.clone();
        let contact = self.store().contact(&did).await?;
        let coordinates = coordinates(&peer);
        if contact.is_some() && peer.is_signed {
            self.store().update_coordinates(&did, &coordinates, CoordinateSource::Card).await?;
        }
        // Whoever is dialled on a local network at the owner's word may have its relay on that network.
        let network = if peer.policy == Policy::Owner { network_of(&peer.base) } else { Network::Other };
        let is_allowed = contact.as_ref().is_some_and(|contact| contact.allow_private);
        let is_near = |relay: &str| {
            let is_beside = network != Network::Other && network_of(relay) == network;
            self.policy_for_named(relay, is_allowed || is_beside) == Policy::Owner
        };
        let mailbox = self.mailbox_at(&coordinates, is_near).await?;
        let is_blocked = contact.as_ref().is_some_and(|contact| contact.is_blocked);
        let name = contact.map(|contact| contact.name);
        Ok(ResolvedPeer { did, name, is_blocked, url: peer.base, policy: peer.policy, mailbox, is_stored: false })
    }
}

/// Where a card says that its agent is.
pub(crate) fn coordinates(peer: &PeerCard) -> Coordinates {
    Coordinates {
        url: Some(peer.base.clone()),
        relay: peer.card.relay.clone().filter(|relay| urls::is_plain_url(relay)),
        enc_pub: peer.card.enc_pub.clone(),
        enc_pub_pq: peer.card.enc_pub_pq.clone().filter(|_| peer.is_signed),
    }
}
