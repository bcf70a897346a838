//! Whom the owner means, for acts that make trust: what is named by an address has to prove its DID.
use std::time::Duration;

use muretai_protocol::{Did, text};
use muretai_store::contacts::{Contact, CoordinateSource, Coordinates, Relation};
use muretai_transports::{TransportError, guard::Policy};
use tokio::time::{Instant, timeout_at};

use super::TrustError;
use crate::{
    Agent,
    send::{
        ResolvedPeer, SendError,
        access::{Network, network_of},
        peer::{CardFetchError, FetchedCard, PeerCard},
        resolve::{Recipient, coordinates},
        target::{self, Target},
    },
};

/// The time for everything together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Until {
    /// When it is over.
    at: Instant,
    /// How long it is, for saying so.
    limit: Duration,
}

impl Until {
    /// From now on.
    pub(super) fn after(limit: Duration) -> Until {
        Until { at: Instant::now() + limit, limit }
    }

    /// What is left of it.
    pub(super) fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }
}

/// A peer, and what is known of it.
#[derive(Debug)]
pub(super) struct Whom {
    /// Where it is dialled.
    pub(super) peer: ResolvedPeer,
    /// What it calls itself.
    pub(super) peer_name: Option<String>,
    /// Where it says that it is.
    pub(super) coordinates: Coordinates,
    /// Who said so.
    pub(super) source: CoordinateSource,
    /// The owner lets us dial its local addresses.
    pub(super) allow_private: bool,
}

impl Agent {
    /// A contact by name or DID, or whoever proves its DID at an address that the owner typed.
    pub(super) async fn whom(&self, text: &str, allow_private: bool, until: Until) -> Result<Whom, TrustError> {
        self.refuse_self(text).await?;
        let url = match target::parse(text).map_err(SendError::from)? {
            Target::Name(name) => {
                let contact = self.store().contact_named(&name).await?;
                return self.whom_of(contact.ok_or(SendError::NoSuchContact(name))?, allow_private).await;
            }
            Target::Did(did) => match self.store().contact(&did).await? {
                Some(contact) => return self.whom_of(contact, allow_private).await,
                None => {
                    let card = self.listed(&did, None, allow_private).await?;
                    let (peer_name, coordinates) = (named(&card.card.name), coordinates(&card));
                    let peer = self.met_in_directory(card, None).await?;
                    return Ok(Whom { peer, peer_name, coordinates, source: CoordinateSource::Card, allow_private });
                }
            },
            Target::Invite(_) => return Err(SendError::InviteNotClaimed.into()),
            Target::Url(url) => url,
            Target::Domain(domain) => target::domain_url(&domain),
        };
        let card = self.signed_card(&url, until).await?;
        // As with an invite: when its host is local, a peer on that same network is what the owner means.
        let typed = network_of(&url);
        let allow_private = allow_private || (typed != Network::Other && network_of(&card.base) == typed);
        let (peer_name, coordinates) = (named(&card.card.name), coordinates(&card));
        let peer = self.met(card).await?;
        Ok(Whom { peer, peer_name, coordinates, source: CoordinateSource::Card, allow_private })
    }

    /// The DID that the owner's words name.
    pub(super) async fn did_of(&self, text: &str, allow_private: bool, until: Until) -> Result<Did, TrustError> {
        match target::parse(text).map_err(SendError::from)? {
            Target::Did(did) if did == *self.did() => Err(SendError::Yourself.into()),
            Target::Did(did) => Ok(did),
            Target::Name(name) => {
                self.refuse_self(text).await?;
                let contact = self.store().contact_named(&name).await?;
                Ok(contact.ok_or(SendError::NoSuchContact(name))?.did)
            }
            _ => Ok(self.whom(text, allow_private, until).await?.peer.did),
        }
    }

    /// A direct contact by name or DID, whom the owner did not block.
    pub(super) async fn direct_contact(&self, text: &str) -> Result<Contact, TrustError> {
        self.refuse_self(text).await?;
        let (contact, who) = match target::parse(text).map_err(SendError::from)? {
            Target::Name(name) => match self.store().contact_named(&name).await? {
                Some(contact) => (Some(contact), name),
                None => return Err(SendError::NoSuchContact(name).into()),
            },
            Target::Did(did) => (self.store().contact(&did).await?, did.to_string()),
            _ => return Err(TrustError::NotDirect { who: text::one_line(text.trim(), 200) }),
        };
        match contact {
            Some(contact) if contact.is_blocked => Err(TrustError::Blocked { who: contact.name }),
            Some(contact) if contact.relation == Relation::Direct => Ok(contact),
            _ => Err(TrustError::NotDirect { who }),
        }
    }

    /// What is known of a DID; an error when the owner blocked it.
    pub(super) async fn refuse_blocked(&self, did: &Did) -> Result<Option<Contact>, TrustError> {
        match self.store().contact(did).await? {
            Some(contact) if contact.is_blocked => Err(TrustError::Blocked { who: contact.name }),
            contact => Ok(contact),
        }
    }

    /// Whoever is to be asked something: a contact, or whoever serves an address, proven or not.
    pub(super) async fn whom_to_ask(
        &self,
        text: &str,
        allow_private: bool,
        until: Until,
    ) -> Result<ResolvedPeer, TrustError> {
        self.refuse_self(text).await?;
        let url = text.trim().to_owned();
        match timeout_at(until.at, self.resolve(text, allow_private)).await {
            Ok(Ok(Recipient::Peer(peer))) if peer.did == *self.did() => Err(SendError::Yourself.into()),
            Ok(Ok(Recipient::Peer(peer))) => Ok(peer),
            Ok(Ok(Recipient::Foreign { url, .. })) => Err(TrustError::Foreign { url }),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(too_slow(url, until)),
        }
    }

    async fn whom_of(&self, contact: Contact, allow_private: bool) -> Result<Whom, TrustError> {
        if let Some(peer) = self.contact_at(&contact, allow_private).await? {
            let Contact { peer_name, coordinates, source, .. } = contact;
            return Ok(Whom { peer, peer_name, coordinates, source, allow_private });
        }
        let card = self.listed(&contact.did, Some(&contact), allow_private).await?;
        let (peer_name, coordinates) = (contact.peer_name.clone(), coordinates(&card));
        let peer = self.met_in_directory(card, Some(contact)).await?;
        Ok(Whom { peer, peer_name, coordinates, source: CoordinateSource::Card, allow_private })
    }

    async fn signed_card(&self, url: &str, until: Until) -> Result<PeerCard, TrustError> {
        let fetched = match timeout_at(until.at, self.fetch_card_under(url, None, Policy::Owner)).await {
            Ok(fetched) => fetched.map_err(SendError::from)?,
            Err(_) => return Err(too_slow(url.to_owned(), until)),
        };
        match fetched {
            FetchedCard::Foreign { url, .. } => Err(TrustError::Foreign { url }),
            FetchedCard::Peer(card) if card.card.did == *self.did() => Err(SendError::Yourself.into()),
            FetchedCard::Peer(card) if !card.is_signed => Err(TrustError::CardNotSigned { url: card.fetched_from }),
            FetchedCard::Peer(card) => Ok(*card),
        }
    }
}

fn too_slow(url: String, until: Until) -> TrustError {
    let source = TransportError::Timeout { url: url.clone(), limit: until.limit };
    SendError::from(CardFetchError::Transport { url, source }).into()
}

fn named(name: &str) -> Option<String> {
    Some(text::peer_name(name)).filter(|name| !name.is_empty())
}
