//! Mail: what reaches an agent through relays, with a server or without one (section 9).
use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use muretai_protocol::{Did, sealed::SealingKey, sign::SigningKey};
use muretai_store::StoreError;
use muretai_transports::{
    TransportError,
    relay::{Keyring, RelayTimes, RelayTransport},
};

use crate::{Agent, receive::service::ReceiverOptions};

/// The setting that lists the relays where this agent has a mailbox, as a JSON list of base URLs.
pub const RELAYS_SETTING: &str = "mail.relays";

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
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

/// What `inbox --sync` is told.
#[derive(Debug, Clone)]
pub struct SyncRequest {
    /// Relays; empty takes those where this agent has a mailbox.
    pub relays: Vec<String>,
    /// For everything together.
    pub timeout: Duration,
}

/// What it did at one relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synced {
    /// Which.
    pub relay: String,
    /// Letters that came, refused ones among them.
    pub letters: u64,
    /// Of these, letters that were refused or did not open.
    pub rejected: u64,
    /// Letters that could not be stored now; the relay keeps them.
    pub left: u64,
    /// A running `serve` of this agent listens there already: nothing was to do.
    pub is_served: bool,
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
    /// Relays that the owner configured, in order; the first call decides.
    pub fn configure_relays(&self, relays: Vec<String>) {
        self.inner.relays.set(relays).ok();
    }

    /// The relays that may be asked about peers: those that are configured, and those where this agent has a mailbox.
    pub async fn known_relays(&self) -> Result<Vec<String>, StoreError> {
        todo!()
    }

    /// The relays where this agent has a mailbox, its own choice first.
    pub async fn mailboxes(&self) -> Result<Vec<String>, StoreError> {
        todo!()
    }

    /// Remembers that this agent has a mailbox at a relay; most recent first, at most 4.
    pub async fn remember_mailbox(&self, relay: &str) -> Result<(), StoreError> {
        let _ = relay;
        todo!()
    }

    /// A transport that deposits letters of this agent.
    pub fn relay_transport(&self, times: RelayTimes) -> RelayTransport {
        RelayTransport::new(Arc::new(Keys(self.clone())), Arc::clone(&self.inner.http), times)
    }

    /// Empties this agent's mailboxes once, as `receiver` says that messages are received, and sends what is due in the
    /// outbox, the answers among it. `progress` is told how many letters came so far.
    pub async fn sync_mail(
        &self,
        request: &SyncRequest,
        receiver: &ReceiverOptions,
        progress: Arc<dyn Fn(u64) + Send + Sync>,
    ) -> Result<Vec<Synced>, MailError> {
        let _ = (request, receiver, progress);
        todo!()
    }

    /// Fetches mail, or watches a running `serve` do it, until `is_there` finds what somebody waits for, or the time is
    /// over (`None`).
    pub async fn mail_until<T, F>(
        &self,
        timeout: Duration,
        receiver: &ReceiverOptions,
        is_there: impl Fn() -> F + Send + Sync,
    ) -> Result<Option<T>, MailError>
    where
        F: Future<Output = Result<Option<T>, StoreError>> + Send,
        T: Send,
    {
        let _ = (timeout, receiver, is_there().await?);
        todo!()
    }
}
