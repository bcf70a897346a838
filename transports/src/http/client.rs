//! The client side: one request at a time under the guard, with limits on size and on wall clock time.
//!
//! Nothing comes from the environment (no proxies), nothing is remembered (no cookies, no referer), nothing is
//! decompressed. Redirects are followed here and not in the library, because each hop passes the guard anew.
use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use ::http::{HeaderMap, Method, StatusCode, header};
use bytes::Bytes;
use url::Url;

use super::{FetchOptions, Fetched, failure, opened::Opened, resolver::GuardedResolver, tls};
use crate::{
    ClientTimeouts, TransportError,
    guard::{self, GuardError, Policy},
};

/// What this program calls itself towards peers.
const USER_AGENT: &str = concat!("muretai-rs/", env!("CARGO_PKG_VERSION"));
/// Shorter than the 5 s after which a peer closes an idle connection (section 12.3), so that none is used while it
/// goes away.
const POOL_IDLE: Duration = Duration::from_secs(4);
/// Idle connections that are kept to one host.
const POOL_PER_HOST: usize = 4;
/// Redirects are at most five whatever the options say (section 12.1).
const MAX_REDIRECTS: u8 = 5;
/// How long the body of an answer to a POST may take once its head is there.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait that a peer's `Retry-After` is believed.
const MAX_RETRY_AFTER_SECS: u64 = 86_400;

/// One HTTP client per policy, because the policy sits in the resolver, and one more each for https.
#[derive(Debug)]
pub(super) struct Client {
    timeouts: ClientTimeouts,
    plain: [OnceLock<reqwest::Client>; 3],
    secure: [OnceLock<reqwest::Client>; 3],
}

/// One request.
struct Request<'a> {
    method: Method,
    body: Bytes,
    headers: &'a [(&'static str, String)],
}

impl Client {
    pub(super) fn new(timeouts: ClientTimeouts) -> Client {
        Client { timeouts, plain: Default::default(), secure: Default::default() }
    }

    /// GETs a document, following redirects as the options allow.
    pub(super) async fn fetch(&self, url: &str, options: &FetchOptions) -> Result<Fetched, TransportError> {
        self.within_limit(url, self.fetch_untimed(url, options)).await
    }

    /// POSTs one body and gives back whatever status comes.
    pub(super) async fn post(
        &self,
        url: &str,
        body: Bytes,
        headers: &[(&'static str, String)],
        policy: Policy,
        max_bytes: usize,
    ) -> Result<Fetched, TransportError> {
        let request = Request { method: Method::POST, body, headers };
        self.within_limit(url, async {
            // A peer may think for long before it answers, and not while it does.
            self.open_untimed(url, policy, &request).await?.read(max_bytes, BODY_TIMEOUT).await
        })
        .await
    }

    /// GETs, with the headers given, and gives back the answer once its head is there, whatever the status; redirects
    /// are not followed. The limit is for the head alone.
    pub(super) async fn open(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        policy: Policy,
        limit: Duration,
    ) -> Result<Opened, TransportError> {
        let request = Request { method: Method::GET, body: Bytes::new(), headers };
        within(url, limit, self.open_untimed(url, policy, &request)).await
    }

    /// POSTs one body to a peer that may think as long as the limit says before it answers.
    pub(super) async fn post_patiently(
        &self,
        url: &str,
        body: Bytes,
        policy: Policy,
        max_bytes: usize,
        limit: Duration,
    ) -> Result<Fetched, TransportError> {
        let request = Request { method: Method::POST, body, headers: &[] };
        let opened = within(url, limit, self.open_untimed(url, policy, &request)).await?;
        opened.read(max_bytes, BODY_TIMEOUT).await
    }

    async fn open_untimed(&self, url: &str, policy: Policy, request: &Request<'_>) -> Result<Opened, TransportError> {
        let target = check(url, policy)?;
        let response = self.exchange(&target, policy, request).await?;
        Ok(Opened::new(response, self.timeouts.clone()))
    }

    /// Holds the whole call, body included, to the wall clock; a peer that drips bytes gains nothing.
    async fn within_limit<T>(
        &self,
        url: &str,
        call: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        within(url, self.timeouts.total, call).await
    }

    async fn fetch_untimed(&self, url: &str, options: &FetchOptions) -> Result<Fetched, TransportError> {
        let request = Request { method: Method::GET, body: Bytes::new(), headers: &[] };
        let limit = options.redirects.min(MAX_REDIRECTS);
        let mut target = check(url, options.policy)?;
        let mut policy = options.policy;
        for hop in 0..=limit {
            let response = self.exchange(&target, policy, &request).await?;
            let Some(location) = redirect(response.status(), response.headers()) else {
                // The limit of the whole call is around this one.
                let opened = Opened::new(response, self.timeouts.clone());
                return opened.read(options.max_bytes, self.timeouts.total).await;
            };
            // The body of a redirect is not read; dropping the response closes its connection.
            drop(response);
            if options.redirects == 0 {
                let target = guard::printable(&location);
                return Err(TransportError::RedirectRefused { url: guard::printable(url), target });
            }
            if hop == limit {
                break;
            }
            (target, policy) = follow(&target, &location, policy)?;
        }
        Err(TransportError::TooManyRedirects { url: guard::printable(url), limit })
    }

    async fn exchange(
        &self,
        target: &Url,
        policy: Policy,
        request: &Request<'_>,
    ) -> Result<reqwest::Response, TransportError> {
        let client = self.client(policy, target.scheme() == "https").await?;
        let mut builder = client.request(request.method.clone(), target.clone());
        for (name, value) in request.headers {
            builder = builder.header(*name, value);
        }
        if request.method == Method::POST {
            builder = builder.header(header::CONTENT_TYPE, "application/json").body(request.body.clone());
        }
        let started = Instant::now();
        let response = builder.send().await.map_err(|error| self.sort(error, target))?;
        tracing::debug!(url = guard::loggable(target.as_str()), status = response.status().as_u16(), elapsed = ?started.elapsed());
        Ok(response)
    }

    fn sort(&self, error: reqwest::Error, target: &Url) -> TransportError {
        failure::sort(error, guard::printable(target.as_str()), &self.timeouts)
    }

    /// The client for a policy, built at its first use.
    async fn client(&self, policy: Policy, is_secure: bool) -> Result<&reqwest::Client, TransportError> {
        let slots = if is_secure { &self.secure } else { &self.plain };
        let slot = &slots[policy as usize];
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let tls = if is_secure { tls::with_roots().await } else { tls::without_roots() };
        let client = tls
            .map_err(|source| TransportError::Client { source })
            .and_then(|tls| self.build(policy, tls).map_err(|e| TransportError::Client { source: e.into() }))?;
        Ok(slot.get_or_init(|| client))
    }

    fn build(&self, policy: Policy, tls: rustls::ClientConfig) -> Result<reqwest::Client, reqwest::Error> {
        reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .dns_resolver(GuardedResolver::new(policy))
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .http1_only()
            .user_agent(USER_AGENT)
            .connect_timeout(self.timeouts.connect)
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(POOL_PER_HOST)
            .build()
    }
}

async fn within<T>(
    url: &str,
    limit: Duration,
    call: impl Future<Output = Result<T, TransportError>>,
) -> Result<T, TransportError> {
    match tokio::time::timeout(limit, call).await {
        Ok(result) => result,
        Err(_) => Err(TransportError::Timeout { url: guard::printable(url), limit }),
    }
}

/// What is kept of an answer beside its body.
pub(super) fn fetched(response: &reqwest::Response, body: Bytes) -> Fetched {
    let headers = response.headers();
    Fetched {
        status: response.status().as_u16(),
        body,
        url: response.url().to_string(),
        content_type: text_of(headers, header::CONTENT_TYPE),
        retry_after: retry_after(headers),
        location: text_of(headers, header::LOCATION).map(|location| guard::printable(&location)),
    }
}

fn check(url: &str, policy: Policy) -> Result<Url, TransportError> {
    guard::check_url(url, policy).map_err(|source| TransportError::Refused { url: guard::printable(url), source })
}

/// The `Location` of a redirect that a GET follows.
fn redirect(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = headers.get(header::LOCATION)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// Judges the next hop. A target that is not of the same origin is what a peer named, whoever named the first URL.
fn follow(from: &Url, location: &str, policy: Policy) -> Result<(Url, Policy), TransportError> {
    let refuse = |source| TransportError::Refused { url: guard::printable(location), source };
    if location.len() > guard::MAX_URL_BYTES {
        return Err(refuse(GuardError::TooLong { len: location.len() }));
    }
    let target = from.join(location).map_err(|reason| refuse(GuardError::Syntax { reason }))?;
    if from.scheme() == "https" && target.scheme() == "http" {
        return Err(refuse(GuardError::Downgrade));
    }
    let policy = if target.origin() == from.origin() { policy } else { policy.at_least_peer() };
    guard::check_parsed(&target, policy).map_err(refuse)?;
    Ok((target, policy))
}

pub(super) fn text_of(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// `Retry-After` in seconds. The date form is left alone: it would need a clock that agrees with the peer's.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let secs: u64 = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(secs.min(MAX_RETRY_AFTER_SECS)))
}
