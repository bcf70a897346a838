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
    relay::RelayTimes,
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
pub(crate) mod lock;
mod mail;
mod publish;

use lock::ServeLock;
pub use lock::{Holder, LockError};
use mail::Mail;
use publish::Publisher;

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
    /// How relays are treated.
    pub relay_times: RelayTimes,
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
    /// Neither an address nor a relay.
    #[error("nothing to listen at: without HTTP a relay is needed")]
    Nowhere,
    /// The URL is none of a relay.
    #[error("{url:?} cannot be a relay's address")]
    BadRelay {
        /// As given.
        url: String,
    },
    /// Somebody else listens for this identity now.
    #[error("a newer listener of this identity has taken over the mailbox at {relay}")]
    Superseded {
        /// The relay.
        relay: String,
    },
    /// No mail can be fetched there, and trying again does not help.
    #[error("cannot listen at {relay}")]
    Relay {
        /// Which.
        relay: String,
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
            ServeError::BadUrl { .. }
            | ServeError::UndialableUrl { .. }
            | ServeError::Nowhere
            | ServeError::BadRelay { .. } => Fault::Usage,
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
            ServeError::Nowhere => Some("add --relay URL, or leave out --no-http".into()),
            ServeError::BadRelay { .. } => Some("a relay's address is like https://relay.example".into()),
            ServeError::Superseded { .. } => {
                Some("one `serve` per identity is enough; stop the other one before you start this one again".into())
            }
            ServeError::Relay { .. } | ServeError::Store(_) | ServeError::Lock { .. } => None,
        }
    }
}

/// A service that is bound and not yet running; dropping it releases the agent.
pub struct Serving {
    agent: Agent,
    transport: Option<HttpTransport>,
    receiver: Receiver,
    mail: Mail,
    local: Option<SocketAddr>,
    url: String,
    warnings: Vec<String>,
    /// How long responders may go on after the stop signal.
    grace: Duration,
    lock: ServeLock,
}

impl Agent {
    /// Takes the lock, binds, records the URL in the store. Nothing is answered before [`Serving::run`].
    ///
    /// A second `serve` of the same agent is refused with the process and the address of the first; a lock file that a
    /// killed process left behind is no obstacle.
    pub async fn serve(&self, options: &ServeOptions) -> Result<Serving, ServeError> {
        let url = options.url.as_deref().filter(|_| !options.no_http);
        if let Some(url) = url {
            check_url(url)?;
        }
        let relays = relays(options)?;
        let path = self.inner.dir.serve_lock();
        let mut lock = ServeLock::take(&path).await.map_err(|error| lock_error(&path, error))?;
        let transport = if options.no_http { None } else { Some(bind(options).await?) };
        let local = transport.as_ref().map(|transport| transport.local_addr().unwrap_or(options.listen));
        let mut warnings = Vec::new();
        let url = match (url, local) {
            (Some(url), _) => url.to_owned(),
            (None, Some(local)) => address::public_base(local, &mut warnings),
            (None, None) => String::new(),
        };
        // Before any listener has its epoch: whoever does not see it here is older than all of them.
        lock.write(&url, &[], &relays).map_err(|error| lock_error(&path, error.into()))?;
        self.store().set_setting(URL_SETTING, Some(&url).filter(|url| !url.is_empty()).map(String::as_str)).await?;
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
        let mail = Mail::new(self, &receiver, relays, options.relay_times.clone());
        // Half of what the listener waits: the answers have to be written, too.
        let grace = options.limits.stop_timeout / 2;
        Ok(Serving { agent: self.clone(), transport, receiver, mail, local, url, warnings, grace, lock })
    }

    /// Says which process serves this agent now, if any.
    pub fn served_by(&self) -> Option<Holder> {
        lock::holder(&self.inner.dir.serve_lock())
    }
}

/// The relays to listen at, each once.
fn relays(options: &ServeOptions) -> Result<Vec<String>, ServeError> {
    let mut relays = Vec::new();
    for url in &options.relays {
        let relay = crate::mail::base(url).ok_or_else(|| ServeError::BadRelay { url: url.clone() })?;
        if !crate::mail::is_among(&relays, &relay) {
            relays.push(relay);
        }
    }
    if relays.is_empty() && options.no_http { Err(ServeError::Nowhere) } else { Ok(relays) }
}

async fn bind(options: &ServeOptions) -> Result<HttpTransport, ServeError> {
    let mount = options.url.as_deref().map_or("", mount_of);
    let bound = HttpTransport::client(CLIENT_TIMEOUTS).bind(options.listen, mount, options.limits.clone()).await;
    bound.map_err(|source| ServeError::Listen { address: options.listen, source })
}

impl Serving {
    /// The public base, as the card has it; empty when there is none.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The bound address; `None` without HTTP.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local
    }

    /// The relays where it is going to listen.
    pub fn relays(&self) -> &[String] {
        self.mail.relays()
    }

    /// Warnings to print, such as about a wildcard address without `--url`.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Serves until stopped, then finishes what is under way and closes the store. Responders that are still at work
    /// some seconds after the stop are cut short: their askers get a signed "no answer", and letters are left with their
    /// relay. The recorded URL stays, so that an invite made later still names it.
    ///
    /// # Errors
    /// [`ServeError::Superseded`] as soon as a newer listener has a mailbox: then `stop` is signalled, too.
    pub async fn run(self, stop: Stop) -> Result<(), ServeError> {
        let Serving { agent, transport, receiver, mail, local, url, grace, mut lock, .. } = self;
        let hurry = async {
            stop.stopped().await;
            tokio::time::sleep(grace).await;
            receiver.hurry();
            std::future::pending::<()>().await
        };
        let http = async {
            let Some(transport) = &transport else { return Ok(()) };
            let served = transport.listen(Arc::new(receiver.clone()), stop.clone()).await;
            let address = local.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
            served.map_err(|source| {
                stop.stop();
                ServeError::Listen { address, source }
            })
        };
        let mailboxes = async {
            let listened = mail.listen(&stop).await;
            // HTTP goes on without them.
            if transport.is_none() {
                stop.stop()
            } else {
                stop.stopped().await
            }
            match listened {
                Err(ServeError::Relay { .. }) if transport.is_some() => Ok(()),
                listened => listened,
            }
        };
        let house = Housekeeper { agent: &agent, receiver: &receiver, mail: &mail, url: &url };
        let relays = mail.relays().to_vec();
        let served = tokio::select! {
            (http, mail) = async { tokio::join!(http, mailboxes) } => mail.and(http),
            () = hurry => Ok(()),
            () = house.keep(&mut lock, &stop) => Ok(()),
        };
        receiver.hurry();
        receiver.idle().await;
        // A relay goes on counting it as a listener for a while; where another one took over, it does not.
        if !matches!(served, Err(ServeError::Superseded { .. })) && !relays.is_empty() {
            note_fetching(&agent, &relays).await;
        }
        agent.close().await;
        served
    }
}

/// Does what no request waits for, while an agent is served.
struct Housekeeper<'a> {
    agent: &'a Agent,
    receiver: &'a Receiver,
    mail: &'a Mail,
    url: &'a str,
}

impl Housekeeper<'_> {
    /// Never ends; begins nothing new once the stop is signalled. Dropping it leaves what is half done to whoever serves
    /// next.
    async fn keep(&self, lock: &mut ServeLock, stop: &Stop) {
        let work = async { tokio::join!(self.run_errands(), self.run_outbox(), self.publish(), self.tell(lock)) };
        tokio::select! {
            () = stop.stopped() => std::future::pending().await,
            _ = work => {}
        }
    }

    /// Carries out errands, at once when a request made one and now and then otherwise, and sweeps the store.
    async fn run_errands(&self) {
        let mut swept = None::<Instant>;
        loop {
            self.agent.run_errands().await;
            self.receiver.renew_keys().await;
            if swept.is_none_or(|swept| swept.elapsed() >= SWEEP_EVERY) {
                swept = Some(Instant::now());
                if let Err(error) = self.agent.store().sweep_trust(crate::agent::now()).await {
                    tracing::error!(error = &error as &dyn std::error::Error, "the store could not be swept");
                }
            }
            let _ = tokio::time::timeout(LOOK_EVERY, self.receiver.errand_written()).await;
        }
    }

    /// Sends what is due in the outbox, at once when something was written here.
    async fn run_outbox(&self) {
        loop {
            self.agent.run_outbox().await;
            let _ = tokio::time::timeout(LOOK_EVERY, self.agent.outbox_written().notified()).await;
        }
    }

    /// Publishes the card where mail is fetched, at once when a connection came and within seconds when a policy changed.
    async fn publish(&self) {
        let state = self.mail.state();
        if state.relays().is_empty() {
            return std::future::pending().await;
        }
        let mut publisher = Publisher::new(self.agent, state.relays());
        loop {
            let connected = state.connected();
            if !connected.is_empty()
                && let Some(card) = self.receiver.card().await
            {
                publisher.publish(&card, &connected).await;
            }
            let _ = tokio::time::timeout(LOOK_EVERY, state.card_changed()).await;
        }
    }

    /// Tells other programs of this home where mail is fetched.
    async fn tell(&self, lock: &mut ServeLock) {
        let state = self.mail.state();
        loop {
            state.changed().await;
            let connected = state.connected();
            if let Err(error) = lock.write(self.url, &connected, state.relays()) {
                tracing::warn!(error = &error as &dyn std::error::Error, "the lock file could not be written");
            }
            note_fetching(self.agent, &connected).await;
            for relay in connected.iter().rev() {
                if let Err(error) = self.agent.remember_mailbox(relay).await {
                    tracing::error!(error = &error as &dyn std::error::Error, "a mailbox could not be remembered");
                }
            }
        }
    }
}

async fn note_fetching(agent: &Agent, relays: &[String]) {
    if let Err(error) = agent.note_fetching(relays, crate::agent::now()).await {
        tracing::error!(error = &error as &dyn std::error::Error, "it could not be noted where mail is fetched");
    }
}

/// The URL that a lock says, when somebody holds it; empty when its holder has not said where yet.
pub(crate) fn running_url(lock: &std::path::Path) -> Option<String> {
    lock::holder(lock).map(|holder| holder.url)
}

/// How often is looked for what was put off, or what another process wrote.
const LOOK_EVERY: Duration = Duration::from_secs(5);
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
        LockError::Held(Holder { pid, url, .. }) => ServeError::AlreadyServing { pid, url },
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
            relay_times: RelayTimes::default(),
        }
    }

    #[tokio::test]
    async fn one_process_serves_and_the_next_hears_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let agent = agent_in(folder.path()).await;
        let serving = agent.serve(&options("127.0.0.1:0")).await.unwrap();
        assert_eq!(serving.url(), format!("http://{}", serving.local_addr().unwrap()));
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
        let address = serving.local_addr().unwrap();
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
