//! A relay: mailboxes of sealed letters behind HTTP (section 9). It checks who deposits and who fetches, keeps letters
//! within quotas, wakes listeners, and learns nothing of what letters say.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use muretai_protocol::UnixSeconds;
use muretai_store::mailboxes::{MailboxError, Mailboxes, Quotas};
use muretai_transports::{
    Stop, TransportError,
    http::{ServerLimits, site::SiteServer},
};

mod address;
mod answer;
mod budget;
mod calls;
mod deposit;
mod directory;
mod files;
mod hub;
mod jitter;
mod letters;
mod metrics;
mod poll;
mod proof;
mod query;
mod rate;
mod resync;
mod senders;
mod shared;
mod site;
mod stats;
mod stream;
#[cfg(test)]
mod stress;
#[cfg(test)]
mod testing;
mod upkeep;

pub use stats::{Limit, Metric, Stats, StatsError, fetch_stats};

use shared::{Parts, Shared};
use site::RelaySite;

/// What `muretai relay serve` is told. Every bound is shown by [`stats`](fetch_stats).
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// Where to listen; port 0 picks one.
    pub listen: SocketAddr,
    /// Public base URLs, canonical; the first one is in links, its path is the mount. Their origins are the only ones
    /// that tokens are taken for. Empty: the bound address.
    pub urls: Vec<String>,
    /// Bounds of mailboxes, as the store was opened with.
    pub quotas: Quotas,
    /// Limits of the HTTP server.
    pub limits: ServerLimits,
    /// Bounds of requests.
    pub bounds: Bounds,
    /// Who may read `/metrics`.
    pub metrics: MetricsAccess,
}

/// Bounds that are not those of mailboxes.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Bytes of a deposit's body, 1 MiB.
    pub max_deposit_bytes: usize,
    /// Longest wait of a long poll, 25 s.
    pub max_wait: Duration,
    /// How long `POST /rpc` waits for an answer, 25 s.
    pub rpc_wait: Duration,
    /// How long a letter that was handed out may stay unacknowledged before it is handed out again, 60 s.
    pub redeliver_after: Duration,
    /// Letters and bytes in one answer to a poll: 100, 1 MiB.
    pub max_batch: (u32, u64),
    /// Between two signs of life on a stream, 30 s.
    pub heartbeat: Duration,
    /// How long a stream may last before its listener has to prove itself again, 1 h.
    pub stream_life: Duration,
    /// Deposits that one sender may make in a minute, in all mailboxes together; `None` is off. 600.
    pub deposits_per_minute: Option<u32>,
    /// Synchronous calls that wait at once.
    pub max_rpc_waiting: usize,
    /// How often what is too old is deleted, 60 s.
    pub sweep_every: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            max_deposit_bytes: 1_048_576,
            max_wait: Duration::from_secs(25),
            rpc_wait: Duration::from_secs(25),
            redeliver_after: Duration::from_secs(60),
            max_batch: (100, 1_048_576),
            heartbeat: Duration::from_secs(30),
            stream_life: Duration::from_secs(3_600),
            deposits_per_minute: Some(600),
            max_rpc_waiting: 4_096,
            sweep_every: Duration::from_secs(60),
        }
    }
}

/// Who may read `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsAccess {
    /// Connections from loopback that no proxy forwarded.
    Loopback,
    /// Everybody.
    Public,
    /// Nobody.
    Off,
}

/// Why a relay could not start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// A URL is no canonical base.
    #[error("{url} cannot be the relay's address")]
    BadUrl {
        /// As given.
        url: String,
        /// Why.
        #[source]
        source: muretai_protocol::urls::BaseUrlError,
    },
    /// Binding or listening failed.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: TransportError,
    },
    /// The store failed.
    #[error("the store of mailboxes failed")]
    Store(#[from] MailboxError),
}

/// A relay that is bound and not yet running.
pub struct Relay {
    server: SiteServer,
    shared: Arc<Shared>,
    warnings: Vec<String>,
}

impl Relay {
    /// Binds and takes the store. Nothing is answered before [`Relay::run`]. Raises this process's limit of open files as
    /// far as it may.
    ///
    /// # Errors
    /// [`RelayError::BadUrl`], [`RelayError::Listen`]; the store is dropped then.
    pub async fn bind(options: RelayOptions, store: Box<dyn Mailboxes>) -> Result<Relay, RelayError> {
        let RelayOptions { listen, urls, quotas, limits, bounds, metrics } = options;
        let mount = address::mount_of(&urls)?;
        let fail = |source| RelayError::Listen { address: listen, source };
        let server = SiteServer::bind(listen, &mount, limits.clone()).await.map_err(fail)?;
        let bound = server.local_addr();
        let mut warnings = address::warnings(&urls, bound);
        warnings.extend(files::raise_limit(limits.max_connections));
        let shared = Shared::new(Parts {
            store,
            base: urls.first().cloned().unwrap_or_else(|| format!("http://{bound}")),
            origins: address::origins(&urls, bound),
            bounds,
            quotas,
            limits,
            access: metrics,
            clock: Box::new(system_clock),
        });
        Ok(Relay { server, shared: Arc::new(shared), warnings })
    }

    /// The public base.
    pub fn url(&self) -> &str {
        &self.shared.base
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// What the owner should know, one sentence each: an address that nobody can dial, too few file descriptors.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Serves until stopped; then tells listeners to go elsewhere, finishes deposits that are under way, and closes the
    /// store.
    ///
    /// # Errors
    /// [`RelayError::Listen`]. A store that fails later is no reason to end: requests are refused until it works again.
    pub async fn run(self, stop: Stop) -> Result<(), RelayError> {
        let Relay { server, shared, .. } = self;
        let address = server.local_addr();
        let mut tasks = upkeep::begin(&shared, &stop);
        let site = Arc::new(RelaySite(Arc::clone(&shared)));
        let served = server.run(site, stop).await;
        tasks.shutdown().await;
        upkeep::end(&shared).await;
        served.map_err(|source| RelayError::Listen { address, source })
    }
}

fn system_clock() -> UnixSeconds {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    UnixSeconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
