//! Asking to connect without an invite (5.2).
use std::time::Duration;

use muretai_protocol::Did;
use muretai_store::contacts::Contact;

use super::TrustError;
use crate::Agent;

/// What `connect` is told.
#[derive(Debug, Clone)]
pub struct ConnectRequest {
    /// Whom, as the owner typed it: name, DID, card URL, bare domain.
    pub target: String,
    /// What is said with it; the owner of the peer reads it.
    pub note: Option<String>,
    /// How long to wait for the peer's owner to decide.
    pub wait: Option<Duration>,
    /// Ask this contact to introduce us, instead of asking the target.
    pub ask: Option<String>,
    /// For each request to a peer.
    pub timeout: Duration,
    /// Dial loopback and private addresses that the peer names.
    pub allow_private: bool,
}

/// What came of it.
#[derive(Debug, Clone)]
pub enum Connected {
    /// There is trust both ways, now or since before.
    Connected {
        /// With whom.
        contact: Contact,
        /// There was before.
        was_known: bool,
    },
    /// The peer's owner has to decide.
    Pending {
        /// The number of our row.
        request: i64,
        /// Who was asked.
        did: Did,
        /// Nobody can tell us: no `serve` of this agent runs.
        is_offline: bool,
    },
    /// The peer's owner said no, while we waited.
    Rejected {
        /// Who was asked.
        did: Did,
    },
    /// The introducer was asked; `status` is its answer: `queued`, `proposed` or `declined`.
    Asked {
        /// The number of our row.
        request: i64,
        /// The introducer.
        introducer: Did,
        /// To whom.
        target: Did,
        /// Its answer.
        status: String,
    },
}

impl Agent {
    /// Asks, and waits when told to. Asking again while a request is pending repeats it.
    pub async fn ask_to_connect(&self, request: &ConnectRequest) -> Result<Connected, TrustError> {
        let _ = request;
        todo!()
    }
}
