//! Being reachable: one resident service per agent.
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use muretai_plugins::{Skills, TrustPolicy};
use muretai_protocol::urls::{self, BaseUrlError};
use muretai_transports::{
    ClientTimeouts, Stop, Transport, TransportError,
    http::{HttpTransport, ServerLimits},
};

use crate::{
    Agent, Fault,
    receive::{
        rate::RateLimit,
        responder::CommandSpec,
        service::{Receiver, ReceiverOptions},
    },
    trust::policies::GatePolicy,
};

mod address;
mod lock;

use lock::ServeLock;
pub use lock::{Holder, LockError};

/// The setting that says where this agent was served last, for invites that are made meanwhile.
pub const URL_SETTING: &str = "serve.url";

/// What `muretai serve` is told.
#[derive(Clone)]
pub struct ServeOptions {
    /// Where to listen; port 0 picks one.
    pub listen: SocketAddr,
    /// The public base for the card; `None` derives it from the bound address.
    pub url: Option<String>,
    /// Strangers are answered; the policy `gate open` says the same.
    pub open_door: bool,
    /// `None` is off.
    pub rate: Option<RateLimit>,
    /// Who answers; `None` acknowledges.
    pub reply_with: Option<CommandSpec>,
    /// What answers before `reply_with` does.
    pub skills: Option<Arc<dyn Skills>>,
    /// What decides about senders before the built-in gate does, in this order.
    pub policies: Vec<Arc<dyn TrustPolicy>>,
    /// Limits of the HTTP server.
    pub limits: ServerLimits,
    /// Relays where this agent listens for its mail, canonical base URLs.
    pub relays: Vec<String>,
    /// Listen at the relays alone: nothing is bound, and the card names no address.
    pub no_http: bool,
}

/// Why serving could not start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another process serves this agent.
    #[error("another `serve` holds this agent: process {pid}, {url}")]
    AlreadyServing {
        /// Its process id.
        pid: u32,
        /// Where.
        url: String,
    },
    /// The URL is no canonical base.
    #[error("--url {url} cannot be the card's address")]
    BadUrl {
        /// As given.
        url: String,
        /// Why.
        #[source]
        source: BaseUrlError,
    },
    /// The URL names no single machine.
    #[error("--url {url} is an address that nobody can dial")]
    UndialableUrl {
        /// As given.
        url: String,
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
    #[error("the store failed")]
    Store(#[from] muretai_store::StoreError),
    /// The lock file could not be used.
    #[error("cannot lock {path}")]
    Lock {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl ServeError {
    /// Says whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            ServeError::BadUrl { .. } | ServeError::UndialableUrl { .. } => Fault::Usage,
            _ => Fault::Failed,
        }
    }

    /// Says what to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            ServeError::AlreadyServing { pid, .. } => {
                Some(format!("one `serve` per agent is enough; stop process {pid} to start another"))
            }
            ServeError::BadUrl { source: BaseUrlError::NotCanonical { corrected }, .. } => {
                Some(format!("write it as --url {corrected}"))
            }
            ServeError::BadUrl { .. } => {
                Some("give a base such as https://agent.example or https://example.com/me".into())
            }
            ServeError::UndialableUrl { .. } => Some("name the address or the host that others dial".into()),
            ServeError::Listen { .. } => Some("--listen 127.0.0.1:0 picks a free port".into()),
            ServeError::Store(_) | ServeError::Lock { .. } => None,
        }
    }
}

/// A service that is bound and not yet running; dropping it releases the agent.
pub struct Serving {
    agent: Agent,
    transport: HttpTransport,
    receiver: Receiver,
    local: SocketAddr,
    url: String,
    warnings: Vec<String>,
    /// How long responders may go on after the stop signal.
    grace: Duration,
    _lock: ServeLock,
}

impl Agent {
    /// Takes the lock, binds, records the URL in the store. Nothing is answered before [`Serving::run`].
    ///
    /// A second `serve` of the same agent is refused with the process and the address of the first; a lock file that a
    /// killed process left behind is no obstacle.
    pub async fn serve(&self, options: &ServeOptions) -> Result<Serving, ServeError> {
        if let Some(url) = &options.url {
            check_url(url)?;
        }
        let path = self.inner.dir.serve_lock();
        let mut lock = ServeLock::take(&path).await.map_err(|error| lock_error(&path, error))?;
        let listen_error = |source| ServeError::Listen { address: options.listen, source };
        let mount = options.url.as_deref().map_or("", mount_of);
        let transport = HttpTransport::client(CLIENT_TIMEOUTS)
            .bind(options.listen, mount, options.limits.clone())
            .await
            .map_err(listen_error)?;
        let local = transport.local_addr().unwrap_or(options.listen);
        let mut warnings = Vec::new();
        let url = match &options.url {
            Some(url) => url.clone(),
            None => address::public_base(local, &mut warnings),
        };
        lock.write(&url).map_err(|error| lock_error(&path, error.into()))?;
        self.store().set_setting(URL_SETTING, Some(&url)).await?;
        let receiver = Receiver::new(
            self,
            &ReceiverOptions {
                url: url.clone(),
                open_door: options.open_door || self.policies().await?.gate == GatePolicy::Open,
                rate: options.rate,
                reply_with: options.reply_with.clone(),
                skills: options.skills.clone(),
                policies: options.policies.clone(),
            },
        );
        // Half of what the listener waits: the answers have to be written, too.
        let grace = options.limits.stop_timeout / 2;
        Ok(Serving { agent: self.clone(), transport, receiver, local, url, warnings, grace, _lock: lock })
    }

    /// Says which process serves this agent now, if any.
    pub fn served_by(&self) -> Option<Holder> {
        lock::holder(&self.inner.dir.serve_lock())
    }
}

impl Serving {
    /// The public base, as the card has it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Warnings to print, such as about a wildcard address without `--url`.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Serves until stopped, then finishes what is under way and closes the store. Responders that are still at work
    /// some seconds after the stop are cut short: their askers get a signed "no answer". The recorded URL stays, so
    /// that an invite made later still names it.
    pub async fn run(self, stop: Stop) -> Result<(), ServeError> {
        let receiver = self.receiver.clone();
        let hurry = async {
            stop.stopped().await;
            tokio::time::sleep(self.grace).await;
            receiver.hurry();
            std::future::pending::<()>().await
        };
        let served = tokio::select! {
            served = self.transport.listen(Arc::new(self.receiver.clone()), stop.clone()) => served,
            () = hurry => Ok(()),
            () = self.keep_house(&stop) => Ok(()),
        };
        self.receiver.hurry();
        self.receiver.idle().await;
        self.agent.close().await;
        served.map_err(|source| ServeError::Listen { address: self.local, source })
    }
}

impl Serving {
    /// Carries out errands, at once when a request made one and now and then otherwise, and sweeps the store. Never ends;
    /// begins nothing new once the stop is signalled. Dropping it leaves an errand to whoever serves next.
    async fn keep_house(&self, stop: &Stop) {
        let work = async {
            let mut swept = None::<Instant>;
            loop {
                self.agent.run_errands().await;
                if swept.is_none_or(|swept| swept.elapsed() >= SWEEP_EVERY) {
                    swept = Some(Instant::now());
                    if let Err(error) = self.agent.store().sweep_trust(crate::agent::now()).await {
                        tracing::error!(error = &error as &dyn std::error::Error, "the store could not be swept");
                    }
                }
                let _ = tokio::time::timeout(ERRANDS_EVERY, self.receiver.errand_written()).await;
            }
        };
        tokio::select! {
            () = stop.stopped() => std::future::pending().await,
            () = work => {}
        }
    }
}

/// The URL that a lock says, when somebody holds it; empty when its holder has not said where yet.
pub(crate) fn running_url(lock: &std::path::Path) -> Option<String> {
    lock::holder(lock).map(|holder| holder.url)
}

/// How often errands are looked for that were put off, or that another process wrote.
const ERRANDS_EVERY: Duration = Duration::from_secs(5);
/// How often what nobody needs any more is deleted.
const SWEEP_EVERY: Duration = Duration::from_secs(3_600);

/// The listening side dials nobody.
const CLIENT_TIMEOUTS: ClientTimeouts =
    ClientTimeouts { connect: Duration::from_secs(5), total: Duration::from_secs(10) };

fn check_url(url: &str) -> Result<(), ServeError> {
    urls::check_base(url).map_err(|source| ServeError::BadUrl { url: url.to_owned(), source })?;
    if address::is_undialable(url) {
        return Err(ServeError::UndialableUrl { url: url.to_owned() });
    }
    Ok(())
}

fn lock_error(path: &std::path::Path, error: LockError) -> ServeError {
    match error {
        LockError::Held(Holder { pid, url }) => ServeError::AlreadyServing { pid, url },
        LockError::Io(source) => ServeError::Lock { path: path.display().to_string(), source },
    }
}

/// The path of a canonical base: where its documents are mounted, `""` at a bare origin.
pub(crate) fn mount_of(base: &str) -> &str {
    let rest = base.split_once("://").map_or(base, |(_, rest)| rest);
    rest.find('/').map_or("", |at| &rest[at..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::testing::agent_in;
    use muretai_transports::{Service, http::FetchOptions};

    #[test]
    fn the_mount_is_the_path_of_the_base() {
        assert_eq!(mount_of("https://agent.example"), "");
        assert_eq!(mount_of("https://example.com/me/too"), "/me/too");
        assert_eq!(mount_of("http://[::1]:8080"), "");
        assert_eq!(mount_of(""), "");
    }

    fn options(listen: &str) -> ServeOptions {
        ServeOptions {
            listen: listen.parse().unwrap(),
            url: None,
            open_door: false,
            rate: Some(RateLimit::default()),
            reply_with: None,
            skills: None,
            policies: Vec::new(),
            limits: ServerLimits::default(),
            relays: Vec::new(),
            no_http: false,
        }
    }

    #[tokio::test]
    async fn one_process_serves_and_the_next_hears_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let agent = agent_in(folder.path()).await;
        let serving = agent.serve(&options("127.0.0.1:0")).await.unwrap();
        assert_eq!(serving.url(), format!("http://{}", serving.local_addr()));
        assert_eq!(agent.served_by().unwrap().url, serving.url());
        assert_eq!(agent.store().setting(URL_SETTING).await.unwrap().as_deref(), Some(serving.url()));
        match agent.serve(&options("127.0.0.1:0")).await {
            Err(ServeError::AlreadyServing { pid, url }) => {
                assert_eq!((pid, url.as_str()), (std::process::id(), serving.url()));
            }
            _ => panic!("two of one agent"),
        }
        drop(serving);
        agent.serve(&options("127.0.0.1:0")).await.unwrap();
    }

    #[tokio::test]
    async fn serves_until_stopped_and_leaves_the_address_behind() {
        let folder = tempfile::tempdir().unwrap();
        let agent = agent_in(folder.path()).await;
        let with_mount = ServeOptions { url: Some("http://agent.example/me".to_owned()), ..options("127.0.0.1:0") };
        let serving = agent.serve(&with_mount).await.unwrap();
        let address = serving.local_addr();
        let stop = Stop::new();
        let run = tokio::spawn(serving.run(stop.clone()));
        let policy = muretai_transports::guard::Policy::Owner;
        let fetch = FetchOptions { policy, max_bytes: 65_536, redirects: 0 };
        let client = HttpTransport::client(CLIENT_TIMEOUTS);
        let card = client.fetch(&format!("http://{address}/me/.well-known/agent-card.json"), &fetch).await.unwrap();
        assert_eq!(card.status, 200);
        assert_eq!(card.body, agent.card("http://agent.example/me", false).to_json());
        stop.stop();
        run.await.unwrap().unwrap();
        assert!(agent.served_by().is_none());
        let again = agent_in(folder.path()).await;
        let url = again.store().setting(URL_SETTING).await.unwrap();
        assert_eq!(url.as_deref(), Some("http://agent.example/me"));
    }

    #[tokio::test]
    async fn the_gate_policy_opens_the_door_like_the_flag() {
        let folder = tempfile::tempdir().unwrap();
        let agent = agent_in(folder.path()).await;
        for (policy, flag, expected) in [("closed", false, false), ("closed", true, true), ("open", false, true)] {
            agent.set_policy("gate", policy).await.unwrap();
            let serving = agent.serve(&ServeOptions { open_door: flag, ..options("127.0.0.1:0") }).await.unwrap();
            let card = Service::document(&serving.receiver, ".well-known/agent-card.json").await.unwrap();
            let card = muretai_protocol::json::parse(&card.body).unwrap();
            assert_eq!(card.member("agentEntry").is_some(), expected, "{policy} {flag}");
        }
    }

    #[test]
    fn a_wrong_url_is_refused_with_the_right_spelling() {
        let error = check_url("https://Agent.Example/").unwrap_err();
        assert_eq!(error.fault(), Fault::Usage);
        assert!(error.hint().unwrap().contains("https://agent.example"), "{:?}", error.hint());
        for url in ["http://0.0.0.0:80", "http://[::]:8080", "http://0.0.0.0:8080/x"] {
            assert!(check_url(url).is_err(), "{url}");
        }
        check_url("https://example.com/me").unwrap();
    }
}
