//! Mail: what reaches an agent through relays, with a server or without one (section 9).
//!
//! `sync` empties mailboxes once, `until` waits for one letter, [`serve`](crate::serve) listens; whichever it is, one
//! process of an agent and a home does it at a time (`lock`), because a second listener supersedes the first.
use std::sync::Arc;

use async_trait::async_trait;
use muretai_protocol::{
    Did,
    json::{self, Value},
    relay::Epoch,
    sealed::SealingKey,
    sign::SigningKey,
    urls,
};
use muretai_store::StoreError;
use muretai_transports::{
    TransportError,
    guard::Policy,
    relay::{Keyring, Place, RelayTimes, RelayTransport},
};

use crate::Agent;

mod keys;
mod lock;
mod sync;
mod until;

pub use sync::{SyncRequest, Synced};

/// The setting that lists the relays where this agent has a mailbox, as a JSON list of base URLs.
pub const RELAYS_SETTING: &str = "mail.relays";
/// The setting that lists those of them that a peer named, and the owner has not.
const NAMED_BY_PEERS_SETTING: &str = "mail.relays.named-by-peers";
/// Mailboxes that are remembered.
const MAX_MAILBOXES: usize = 4;
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
    /// Relays that the owner configured, in order; the first call decides.
    pub fn configure_relays(&self, relays: Vec<String>) {
        self.inner.relays.set(relays).ok();
    }

    /// The relays that may be asked about peers: those that are configured, and those where this agent has a mailbox.
    pub async fn known_relays(&self) -> Result<Vec<String>, StoreError> {
        self.mailboxes().await
    }

    /// The relays where this agent has a mailbox, its own choice first: those that are configured, then those that it has
    /// used, most recent first.
    pub async fn mailboxes(&self) -> Result<Vec<String>, StoreError> {
        let configured = self.inner.relays.get().cloned().unwrap_or_default();
        let mut all = Vec::new();
        for relay in
            configured.into_iter().filter_map(|relay| base(&relay)).chain(self.listed_relays(RELAYS_SETTING).await?)
        {
            if !is_among(&all, &relay) {
                all.push(relay);
            }
        }
        Ok(all)
    }

    /// Remembers that this agent has a mailbox at a relay that the owner named; most recent first, at most 4. What is no
    /// relay's address is not.
    pub async fn remember_mailbox(&self, relay: &str) -> Result<(), StoreError> {
        let Some(relay) = base(relay) else { return Ok(()) };
        let mut named = self.listed_relays(NAMED_BY_PEERS_SETTING).await?;
        if is_among(&named, &relay) {
            named.retain(|known| !is_among(std::slice::from_ref(known), &relay));
            self.list_relays(NAMED_BY_PEERS_SETTING, named).await?;
        }
        self.put_first(RELAYS_SETTING, relay).await
    }

    /// The same for a relay that a peer named, and that was dialled as such: it goes on being dialled so, because its name
    /// may lead elsewhere another day.
    pub(crate) async fn adopt_mailbox(&self, relay: &str) -> Result<(), StoreError> {
        let Some(relay) = base(relay) else { return Ok(()) };
        if is_among(&self.mailboxes().await?, &relay) {
            return Ok(());
        }
        self.put_first(NAMED_BY_PEERS_SETTING, relay.clone()).await?;
        self.put_first(RELAYS_SETTING, relay).await
    }

    /// What may be dialled for a relay where this agent has its mailbox.
    pub(crate) async fn mailbox_policy(&self, relay: &str) -> Result<Policy, StoreError> {
        let configured = self.inner.relays.get().is_some_and(|relays| is_among(relays, relay));
        let is_peers = !configured && is_among(&self.listed_relays(NAMED_BY_PEERS_SETTING).await?, relay);
        Ok(if is_peers { Policy::Peer } else { Policy::Owner })
    }

    async fn put_first(&self, key: &str, relay: String) -> Result<(), StoreError> {
        let mut all = self.listed_relays(key).await?;
        if all.first() == Some(&relay) {
            return Ok(());
        }
        all.retain(|known| !urls::same_scope(known, &relay));
        all.insert(0, relay);
        all.truncate(MAX_MAILBOXES);
        self.list_relays(key, all).await
    }

    async fn list_relays(&self, key: &str, all: Vec<String>) -> Result<(), StoreError> {
        let all: Vec<Value> = all.into_iter().map(Value::from).collect();
        self.store().set_setting(key, Some(&Value::from(all).to_json())).await
    }

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

    async fn listed_relays(&self, key: &str) -> Result<Vec<String>, StoreError> {
        let list = self.store().setting(key).await?.unwrap_or_default();
        let Ok(Value::Array(list)) = json::parse(list.as_bytes()) else { return Ok(Vec::new()) };
        Ok(list.iter().filter_map(Value::as_str).filter_map(base).take(MAX_MAILBOXES).collect())
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
