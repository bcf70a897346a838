//! The agent: a key, a store, transports.
use std::sync::{Arc, OnceLock};

use muretai_protocol::{
    Did, UnixSeconds,
    sealed::SealingKey,
    sign::{Seed, SigningKey},
};
use muretai_store::{Store, StoreError};
use muretai_transports::http::HttpTransport;
use tokio::sync::Notify;

use crate::{home::AgentDir, trust::revocations::RevocationCache};

/// One agent at work. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) dir: AgentDir,
    pub(crate) key: SigningKey,
    pub(crate) sealing: SealingKey,
    pub(crate) store: Store,
    pub(crate) http: Arc<HttpTransport>,
    /// Relays that the owner configured.
    pub(crate) relays: OnceLock<Vec<String>>,
    pub(crate) revocations: RevocationCache,
    /// Rung when this process writes a row of the outbox.
    pub(crate) outbox_written: Notify,
}

impl Agent {
    /// Opens the store and expands the key. The HTTP client is cheap until it is used.
    ///
    /// # Errors
    /// A database that another agent's key made is refused, and stays as it is.
    pub async fn open(dir: AgentDir, seed: &Seed, http: HttpTransport) -> Result<Agent, StoreError> {
        let key = SigningKey::from_seed(seed);
        let store = Store::open_of(&dir.database(), key.did()).await?;
        let (sealing, revocations) = (SealingKey::from_seed(seed), RevocationCache::default());
        let (http, relays, outbox_written) = (Arc::new(http), OnceLock::new(), Notify::new());
        let inner = Inner { dir, key, sealing, store, http, relays, revocations, outbox_written };
        Ok(Agent { inner: Arc::new(inner) })
    }
    /// The address.
    pub fn did(&self) -> &Did {
        self.inner.key.did()
    }
    /// The local name.
    pub fn name(&self) -> &str {
        &self.inner.dir.name
    }
    /// What it remembers.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }
    /// The key that signs; it shows itself to nobody.
    pub(crate) fn key(&self) -> &SigningKey {
        &self.inner.key
    }
    /// The public half of the sealing key, 64 hex digits.
    pub fn enc_pub(&self) -> String {
        self.inner.sealing.enc_pub()
    }
    /// Waits for writes and closes the store.
    pub async fn close(&self) {
        self.inner.store.close().await
    }
}

/// The clock.
pub fn now() -> UnixSeconds {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    UnixSeconds(since.as_secs() as i64)
}

/// Random bytes of the operating system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    bytes
}
