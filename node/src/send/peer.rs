//! A peer's card, fetched and verified: first path, then the second; signed envelope beside it; scope match.
use crate::Agent;
use muretai_protocol::{Did, card::Card};

/// A peer as its card shows it.
#[derive(Debug, Clone)]
pub struct PeerCard {
    /// The card.
    pub card: Card,
    /// The envelope beside it verified. `false`: there was none, the card is an unproven claim.
    pub is_signed: bool,
    /// Where it was fetched.
    pub fetched_from: String,
}

/// A fetched card of either kind.
#[derive(Debug, Clone)]
pub enum FetchedCard {
    /// One of ours.
    Peer(Box<PeerCard>),
    /// An A2A agent without a DID.
    Foreign {
        /// The card.
        card: Box<muretai_protocol::json::Value>,
        /// Where it was fetched.
        url: String,
    },
}

/// Why no usable card was had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CardFetchError {
    /// To be split: transport, HTTP status, not JSON, fields missing, envelope error, other DID, scope.
    #[error("no usable card at {url}")]
    NotACard {
        /// Where.
        url: String,
    },
}
impl Agent {
    /// Fetches and verifies the card at a URL that the owner typed, or that a contact has.
    pub async fn fetch_card(
        &self,
        _url: &str,
        _expect: Option<&Did>,
        _allow_private: bool,
    ) -> Result<FetchedCard, CardFetchError> {
        todo!()
    }
}
