//! What is counted apart, so that nobody spends what others need: strangers what contacts need, who asks what those need
//! who write, and who guesses at invites what those need who hold one.
use muretai_plugins::ContactState;
use muretai_protocol::{Did, rpc::Refusal};

use crate::receive::{
    rate::{RateLimit, RateLimiter},
    refusals as say,
};

/// The counters of one receiver, each with the whole limit.
pub(super) struct Rates {
    contacts: RateLimiter,
    introduced: RateLimiter,
    strangers: RateLimiter,
    /// Requests that are no messages, of contacts and of everybody else.
    contacts_queries: RateLimiter,
    strangers_queries: RateLimiter,
    /// Claims that were redeemed before, by the same DID.
    pub(super) repeated_claims: RateLimiter,
    /// Claims of what is no live invite.
    pub(super) refused_claims: RateLimiter,
}

impl Rates {
    pub(super) fn new(limit: RateLimit) -> Rates {
        let new = || RateLimiter::new(limit);
        Rates {
            contacts: new(),
            introduced: new(),
            strangers: new(),
            contacts_queries: new(),
            strangers_queries: new(),
            repeated_claims: new(),
            refused_claims: new(),
        }
    }

    /// Counts a message.
    pub(super) fn admit_message(&self, from: &Did, state: ContactState) -> Result<(), Refusal> {
        let rate = match state {
            ContactState::Direct => &self.contacts,
            ContactState::Introduced => &self.introduced,
            ContactState::None => &self.strangers,
        };
        rate.admit(from).map_err(say::rate_limited)
    }

    /// Counts any other request but a claim.
    pub(super) fn admit_query(&self, from: &Did, is_contact: bool) -> Result<(), Refusal> {
        let rate = if is_contact { &self.contacts_queries } else { &self.strangers_queries };
        rate.admit(from).map_err(say::rate_limited)
    }
}
