//! Whom this agent knows.
use crate::{Store, StoreError};
use muretai_protocol::{Did, UnixSeconds};

/// How a contact came to be; a later relation never silently replaces a stronger one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Relation {
    Direct,
    None,
}

/// Where the coordinates came from, weakest first: a claim never overwrites what a signed card said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum CoordinateSource {
    Peer,
    Invite,
    Card,
    Owner,
}

/// Coordinates of a peer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Coordinates {
    pub url: Option<String>,
    pub relay: Option<String>,
    pub enc_pub: Option<String>,
}

/// One contact.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Contact {
    pub did: Did,
    /// Unique local name; the owner's, or derived from what the peer calls itself (`north`, `north-2`).
    pub name: String,
    /// What the peer calls itself, unsafe to show raw.
    pub peer_name: Option<String>,
    pub relation: Relation,
    pub is_blocked: bool,
    pub coordinates: Coordinates,
    pub source: CoordinateSource,
    /// The owner lets us dial loopback and private addresses of this contact.
    pub allow_private: bool,
    pub added: UnixSeconds,
    /// Last verified message from it.
    pub last_seen: Option<UnixSeconds>,
}

/// What a claim or an invite tells about a peer.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Introduce {
    pub did: Did,
    pub peer_name: Option<String>,
    pub coordinates: Coordinates,
    pub source: CoordinateSource,
    pub allow_private: bool,
    pub now: UnixSeconds,
}

impl Store {
    /// All contacts, by name.
    pub async fn contacts(&self) -> Result<Vec<Contact>, StoreError> {
        todo!()
    }
    /// By DID.
    pub async fn contact(&self, _did: &Did) -> Result<Option<Contact>, StoreError> {
        todo!()
    }
    /// By local name, exactly.
    pub async fn contact_named(&self, _name: &str) -> Result<Option<Contact>, StoreError> {
        todo!()
    }
    /// Makes direct trust, or refreshes it: an existing contact keeps its name, its block and stronger coordinates.
    pub async fn connect(&self, _who: &Introduce) -> Result<Contact, StoreError> {
        todo!()
    }
    /// Records newer coordinates of a known contact, when their source is at least as strong.
    pub async fn update_coordinates(
        &self,
        _did: &Did,
        _coordinates: &Coordinates,
        _source: CoordinateSource,
    ) -> Result<(), StoreError> {
        todo!()
    }
    /// Renames; `NameTaken` when another contact has the name. `false` when there is no such contact.
    pub async fn rename_contact(&self, _did: &Did, _name: &str) -> Result<bool, StoreError> {
        todo!()
    }
    /// Removes; its messages and handled ids stay. `false` when there is none.
    pub async fn remove_contact(&self, _did: &Did) -> Result<bool, StoreError> {
        todo!()
    }
    /// Blocks or unblocks a DID, known or not: a block outlives re-invites.
    pub async fn set_blocked(&self, _did: &Did, _blocked: bool, _now: UnixSeconds) -> Result<(), StoreError> {
        todo!()
    }
}
