//! Mail: what reaches an agent through relays, with a server or without one (section 9).
//!
//! `sync` empties mailboxes once, `until` waits for one letter, [`serve`](crate::serve) listens; whichever it is, one
//! process of an agent and a home does it at a time (`lock`), because a second listener supersedes the first.
use std::sync::Arc;

use async_trait::async_trait;
use muretai_protocol::{Did, relay::Epoch, sealed::SealingKey, sign::SigningKey, urls};
use muretai_store::StoreError;
use muretai_transports::{
    TransportError,
    guard::Policy,
    relay::{Keyring, Place, RelayTimes, RelayTransport},
};

use crate::Agent;

mod keys;
mod lock;
mod mailboxes;
mod sync;
mod until;

pub use mailboxes::{Forgotten, RELAYS_SETTING};
pub use sync::{SyncRequest, Synced};

/// Letters that were refused, as far as they are counted.
const MAX_REJECTED: u32 = 1_000;

/// Why mail was not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MailError {
    /// No relay is known.
    #[error("this agent has no mailbox at any relay")]
    NoRelay,
    /// The URL is none of a relay.
    #[error("{url:?} cannot be a relay's address")]
    BadRelay {
        /// As given.
        url: String,
    },
    /// A relay could not be used.
    #[error("the mailbox at {relay} could not be emptied")]
    Transport {
        /// Which.
        relay: String,
        /// Why.
        #[source]
        source: TransportError,
    },
    /// Another program of this agent fetches its mail, and was not done in time.
    #[error("another program fetches the mail of this agent")]
    Elsewhere,
    /// The file that keeps programs apart could not be used.
    #[error("cannot lock {path}")]
    Lock {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

/// What there is to say about an agent's mail, for its owner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailStatus {
    /// The relays where it has a mailbox.
    pub mailboxes: Vec<String>,
    /// The relays that a running `serve` listens at, connected or trying to be.
    pub served: Vec<String>,
    /// Of these, the ones that it is connected to.
    pub connected: Vec<String>,
    /// Letters that were refused or did not open, at most 1,000.
    pub rejected: usize,
}

/// An agent's keys, for transports that seal.
struct Keys(Agent);

#[async_trait]
impl Keyring for Keys {
    fn signing(&self) -> &SigningKey {
        &self.0.inner.key
    }
    fn sealing(&self) -> &SealingKey {
        &self.0.inner.sealing
    }
    async fn enc_pub_of(&self, peer: &Did) -> Option<String> {
        let contact = self.0.store().contact(peer).await.ok()??;
        contact.coordinates.enc_pub
    }
}

impl Agent {
    /// What there is to say about its mail.
    pub async fn mail_status(&self) -> Result<MailStatus, StoreError> {
        let mailboxes = self.mailboxes().await?;
        let (served, connected) = self.served_by().map(|holder| (holder.mailboxes, holder.relays)).unwrap_or_default();
        let rejected = self.store().rejected(MAX_REJECTED).await?.len();
        Ok(MailStatus { mailboxes, served, connected, rejected })
    }

    /// A transport that deposits letters of this agent.
    pub fn relay_transport(&self, times: RelayTimes) -> RelayTransport {
        RelayTransport::new(Arc::new(Keys(self.clone())), Arc::clone(&self.inner.http), times)
    }

    /// Whether a running `serve` of this agent listens at a relay, or tries to.
    fn is_served_at(&self, relay: &str) -> bool {
        self.served_by().is_some_and(|holder| is_among(&holder.mailboxes, relay))
    }
}

/// A relay's address as it is kept: of the shape of 12.2, without a slash at its end.
pub(crate) fn base(relay: &str) -> Option<String> {
    let relay = relay.trim().trim_end_matches('/');
    (urls::is_plain_url(relay) && !urls::origin(relay).is_empty()).then(|| relay.to_owned())
}

/// Whether a list of relays has this one, however it is spelled.
pub(crate) fn is_among(relays: &[String], relay: &str) -> bool {
    relays.iter().any(|known| known == relay || urls::same_scope(known, relay))
}

/// A listener that begins now.
pub(crate) fn place(relay: &str, policy: Policy) -> Place {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let epoch = Epoch::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX), std::process::id());
    Place { relay: relay.to_owned(), policy, epoch, poll_only: false }
}

/// The end of a DID, for logs.
pub(crate) fn tail(did: &Did) -> &str {
    let did = did.as_str();
    did.get(did.len().saturating_sub(8)..).unwrap_or(did)
}

#[cfg(test)]
mod tests;
