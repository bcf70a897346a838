//! From a target to somebody who can be dialled.
use muretai_protocol::{Did, json::Value, urls};
use muretai_store::{
    StoreError,
    contacts::{Contact, CoordinateSource, Coordinates},
};
use muretai_transports::{MailboxAddress, guard::Policy};

use crate::{
    Agent, Fault,
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
    /// called. A URL or a domain costs a request; so does whoever is known by a DID alone, when relays may know more.
    pub(crate) async fn resolve(&self, text: &str, allow_private: bool) -> Result<Recipient, SendError> {
        let url = match target::parse(text)? {
            Target::Name(name) => match self.store().contact_named(&name).await? {
                Some(contact) => return self.resolve_contact(contact, allow_private).await,
                None => return Err(SendError::NoSuchContact(name)),
            },
            Target::Invite(_) => return Err(SendError::InviteNotClaimed),
            Target::Did(did) => match self.store().contact(&did).await? {
                Some(contact) => return self.resolve_contact(contact, allow_private).await,
                None => {
                    let card = self.listed(&did, None, allow_private).await?;
                    return Ok(Recipient::Peer(self.met_in_directory(card, None).await?));
                }
            },
            Target::Url(url) => url,
            Target::Domain(domain) => target::domain_url(&domain),
        };
        match self.fetch_card_under(&url, None, Policy::Owner).await? {
            FetchedCard::Foreign { card, url } => Ok(Recipient::Foreign { card, url }),
            FetchedCard::Peer(peer) => Ok(Recipient::Peer(self.met(*peer).await?)),
        }
    }

    /// Fetches and verifies the card of whoever is meant: what its agent serves, and where nobody is there, or nobody
    /// knows where it is, the copy that relays keep.
    pub async fn card_of(&self, text: &str, allow_private: bool) -> Result<FetchedCard, SendError> {
        let contact = match target::parse(text)? {
            Target::Name(name) => match self.store().contact_named(&name).await? {
                Some(contact) => contact,
                None => return Err(SendError::NoSuchContact(name)),
            },
            Target::Did(did) => match self.store().contact(&did).await? {
                Some(contact) => contact,
                None => return Ok(FetchedCard::Peer(Box::new(self.listed(&did, None, allow_private).await?))),
            },
            Target::Url(url) => return Ok(self.fetch_card_under(&url, None, Policy::Owner).await?),
            Target::Domain(domain) => {
                return Ok(self.fetch_card_under(&target::domain_url(&domain), None, Policy::Owner).await?);
            }
            Target::Invite(_) => return Err(SendError::InviteNotClaimed),
        };
        let Some(url) = contact.coordinates.url.as_deref().filter(|url| !url.is_empty()) else {
            return Ok(FetchedCard::Peer(Box::new(self.listed(&contact.did, Some(&contact), allow_private).await?)));
        };
        let policy = self.policy_for_contact(&contact, url, allow_private);
        match self.fetch_card_under(url, Some(&contact.did), policy).await {
            Err(error) if error.fault() == Fault::Unreachable => {
                match self.listed(&contact.did, Some(&contact), allow_private).await {
                    Ok(copy) => Ok(FetchedCard::Peer(Box::new(copy))),
                    Err(SendError::Store(error)) => Err(error.into()),
                    Err(_) => Err(error.into()),
                }
            }
            result => Ok(result?),
        }
    }

    /// The card that relays have of a DID.
    pub(crate) async fn listed(
        &self,
        did: &Did,
        contact: Option<&Contact>,
        allow_private: bool,
    ) -> Result<PeerCard, SendError> {
        let listing = self.look_up(did).await?;
        let allow_private = allow_private || contact.is_some_and(|contact| contact.allow_private);
        match listing.card {
            Some(card) => Ok(card.into_peer(self, allow_private)),
            None => {
                let who = contact.map_or_else(|| did.to_string(), |contact| contact.name.clone());
                if listing.silent.is_empty() {
                    return Err(SendError::NoAddress { who, is_contact: contact.is_some() });
                }
                Err(SendError::NotListed { who, silent: listing.silent })
            }
        }
    }

    async fn resolve_contact(&self, contact: Contact, allow_private: bool) -> Result<Recipient, SendError> {
        if let Some(peer) = self.contact_at(&contact, allow_private).await? {
            return Ok(Recipient::Peer(peer));
        }
        let card = self.listed(&contact.did, Some(&contact), allow_private).await?;
        Ok(Recipient::Peer(self.met_in_directory(card, Some(contact)).await?))
    }

    /// A peer whose card a relay has; it may name no place at all.
    pub(crate) async fn met_in_directory(
        &self,
        card: PeerCard,
        contact: Option<Contact>,
    ) -> Result<ResolvedPeer, SendError> {
        let peer = self.met(card).await?;
        if peer.url.is_empty() && peer.mailbox.is_none() {
            let is_contact = contact.is_some();
            let who = contact.map_or_else(|| peer.did.to_string(), |contact| contact.name);
            return Err(SendError::NoAddress { who, is_contact });
        }
        Ok(peer)
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

    /// The same, and looks in directories for a contact that has neither.
    pub(crate) async fn contact_found(
        &self,
        contact: &Contact,
        allow_private: bool,
    ) -> Result<Option<ResolvedPeer>, StoreError> {
        if let Some(peer) = self.contact_at(contact, allow_private).await? {
            return Ok(Some(peer));
        }
        let Some(card) = self.directory_card(&contact.did).await? else { return Ok(None) };
        let peer = self.met(card.into_peer(self, allow_private || contact.allow_private)).await?;
        Ok(Some(peer).filter(|peer| !peer.url.is_empty() || peer.mailbox.is_some()))
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

    /// Whether the owner chose this relay: it is configured, or this agent has a mailbox there, and not on a peer's word.
    pub(crate) async fn is_own_relay(&self, relay: &str) -> Result<bool, StoreError> {
        let is_known = self.known_relays().await?.iter().any(|known| urls::same_scope(known, relay));
        Ok(is_known && self.mailbox_policy(relay).await? == Policy::Owner)
    }

    /// A peer whose card was just fetched. What a proven card says about a contact is remembered.
    pub(crate) async fn met(&self, peer: PeerCard) -> Result<ResolvedPeer, StoreError> {
        let did = peer.card.did.clone();
        let mut contact = self.store().contact(&did).await?;
        let mut coordinates = coordinates(&peer);
        if contact.is_some() && peer.is_signed {
            self.store().update_coordinates(&did, &coordinates, CoordinateSource::Card).await?;
            contact = self.store().contact(&did).await?;
        }
        if let Some(contact) = &contact {
            coordinates = contact.coordinates.clone();
        }
        // Whoever is dialled on a local network at the owner's word may have its relay on that network.
        let network = if peer.policy == Policy::Owner { network_of(&peer.base) } else { Network::Other };
        let is_allowed = contact.as_ref().is_some_and(|contact| contact.allow_private);
        let is_near = |relay: &str| {
            let is_beside = network != Network::Other && network_of(relay) == network;
            let is_all_there_is = peer.base.is_empty() && peer.policy == Policy::Owner;
            self.policy_for_named(relay, is_allowed || is_beside || is_all_there_is) == Policy::Owner
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
        url: Some(peer.base.clone()).filter(|base| !base.is_empty()),
        relay: peer.card.relay.clone().filter(|relay| urls::is_plain_url(relay)),
        enc_pub: peer.card.enc_pub.clone(),
        enc_pub_pq: peer.card.enc_pub_pq.clone().filter(|_| peer.is_signed),
    }
}
