//! What a relay keeps beside letters: signed cards, short invite links, presence (9.6).
use std::time::Duration;

use muretai_protocol::{Did, UnixSeconds, json::Value};

use crate::{TransportError, guard::Policy, http::HttpTransport};

/// A relay to ask.
#[derive(Debug, Clone)]
pub struct Relay<'a> {
    /// Base URL.
    pub base: &'a str,
    /// What may be dialled for it.
    pub policy: Policy,
    /// For one request.
    pub timeout: Duration,
}

/// An invite that a relay keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minted {
    /// Its code.
    pub code: String,
    /// The link, as the relay builds it.
    pub link: String,
}

/// What a relay says about a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presence {
    /// Somebody listens there; `None` when its owner does not tell.
    pub is_online: Option<bool>,
    /// When somebody did last.
    pub last_seen: Option<UnixSeconds>,
}

impl Relay<'_> {
    /// Publishes a signed card envelope. `false`: the relay holds one that is as new or newer.
    pub async fn publish_card(&self, http: &HttpTransport, envelope: &Value) -> Result<bool, TransportError> {
        let _ = (http, envelope);
        todo!()
    }

    /// The envelope that the relay has of a DID, unverified; `None` when it has none.
    pub async fn card(&self, http: &HttpTransport, did: &Did) -> Result<Option<Value>, TransportError> {
        let _ = (http, did);
        todo!()
    }

    /// Leaves a signed invite card there.
    pub async fn mint_invite(&self, http: &HttpTransport, card: &Value) -> Result<Minted, TransportError> {
        let _ = (http, card);
        todo!()
    }

    /// Whether somebody listens for a DID.
    pub async fn presence(&self, http: &HttpTransport, did: &Did) -> Result<Presence, TransportError> {
        let _ = (http, did);
        todo!()
    }
}
