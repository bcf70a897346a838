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
    /// The canonical base; empty when it is reached through its mailbox alone.
    pub url: String,
    /// Its mailbox, when it has one and its sealing key is known.
    pub mailbox: Option<MailboxAddress>,
    /// What may be dialled for it.
    pub(crate) policy: Policy,
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
        match self.contact_at(&contact, allow_private) {
            Some(peer) => Ok(Recipient::Peer(peer)),
            None => Err(SendError::NoAddress { who: contact.name, is_contact: true }),
        }
    }

    /// A contact at the address that it is known to have.
    pub(crate) fn contact_at(&self, contact: &Contact, allow_private: bool) -> Option<ResolvedPeer> {
        let url = contact.coordinates.url.clone().unwrap_or_default();
        let mailbox = self.mailbox_of(contact, allow_private);
        if url.is_empty() && mailbox.is_none() {
            return None;
        }
        let policy = self.policy_for_contact(contact, &url, allow_private);
        Some(ResolvedPeer {
            did: contact.did.clone(),
            name: Some(contact.name.clone()),
            is_blocked: contact.is_blocked,
            url,
            mailbox,
            policy,
            is_stored: true,
        })
    }

    /// The mailbox that a contact is known to have.
    pub(crate) fn mailbox_of(&self, contact: &Contact, allow_private: bool) -> Option<MailboxAddress> {
        let Coordinates { relay, enc_pub, enc_pub_pq, .. } = &contact.coordinates;
        let relay = relay.clone().filter(|relay| urls::is_plain_url(relay))?;
        let is_own =
            self.inner.relays.get().is_some_and(|relays| relays.iter().any(|own| urls::same_scope(own, &relay)));
        let allow_private = is_own || self.policy_for_contact(contact, &relay, allow_private) == Policy::Owner;
        Some(MailboxAddress { relay, allow_private, enc_pub: enc_pub.clone()?, enc_pub_pq: enc_pub_pq.clone() })
    }

    /// A peer whose card was just fetched. What a proven card says about a contact is remembered.
    pub(crate) async fn met(&self, peer: PeerCard) -> Result<ResolvedPeer, StoreError> {
        let did = peer.card.did.clone();
        let contact = self.store().contact(&did).await?;
        if contact.is_some() && peer.is_signed {
            self.store().update_coordinates(&did, &coordinates(&peer), CoordinateSource::Card).await?;
        }
        let contact = match contact {
            Some(_) => self.store().contact(&did).await?,
            None => None,
        };
        let is_blocked = contact.as_ref().is_some_and(|contact| contact.is_blocked);
        let mailbox = contact.as_ref().and_then(|contact| self.mailbox_of(contact, false));
        let name = contact.map(|contact| contact.name);
        Ok(ResolvedPeer { did, name, is_blocked, url: peer.base, mailbox, policy: peer.policy, is_stored: false })
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
