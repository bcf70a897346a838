//! Direct HTTP: A2A over JSON-RPC (section 12).
//!
//! One [`HttpTransport`] is a client and, once bound, a server. The client dials under the guard of section 12.1 and
//! connects to addresses that the guard approved. The server follows section 12.3: a few exact paths, strict framing,
//! and a limit on every size, time and count.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use muretai_protocol::limits::{MAX_BODY_BYTES, MAX_RESPONSE_BYTES};

use crate::{
    ClientTimeouts, Delivery, PeerAddress, Route, Service, Stop, Transport, TransportError, TransportName,
    guard::{self, Policy},
};

mod client;
mod failure;
mod opened;
mod resolver;
mod server;
pub mod site;
mod tls;

use client::Client;
pub(crate) use opened::Opened;
use server::Server;

/// Heads of more than this are refused whatever the limits say: the buffers of a connection must hold one.
const MAX_HEAD_BYTES: usize = 1_048_576;
/// Direct HTTP is the best way there is.
const COST: u8 = 0;

/// Limits of the server side (12.3, 12.4), all configurable.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Largest request body in bytes; more is answered 413.
    pub max_body_bytes: usize,
    /// Connections at a time; the next one is answered 503.
    pub max_connections: usize,
    /// From the first byte of a request, or from the connection, until its head is complete; then 408.
    pub head_timeout: Duration,
    /// From the first byte of a request until its body is complete; then 408.
    pub request_timeout: Duration,
    /// How long a connection may be idle between two requests.
    pub keep_alive: Duration,
    /// How long the peer may take to accept an answer; then the connection is dropped.
    pub write_timeout: Duration,
    /// How much of an oversized or unwanted body is read away, so that the sender sees why.
    pub drain_bytes: usize,
    /// Largest request head in bytes; more, or more than 64 header fields, is answered 431.
    pub max_head_bytes: usize,
    /// How long a stopped listener waits for requests that are under way.
    pub stop_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            max_body_bytes: MAX_BODY_BYTES,
            max_connections: 64,
            head_timeout: Duration::from_secs(20),
            request_timeout: Duration::from_secs(20),
            keep_alive: Duration::from_secs(5),
            write_timeout: Duration::from_secs(20),
            drain_bytes: 32 * 1_048_576,
            max_head_bytes: 16_384,
            stop_timeout: Duration::from_secs(10),
        }
    }
}

/// Longer than any sensible timeout, short enough to be added to a clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(366 * 86_400);

impl ServerLimits {
    /// Brings values that mean "no limit" down to what clocks and counters can hold.
    fn clamped(mut self) -> ServerLimits {
        for timeout in [
            &mut self.head_timeout,
            &mut self.request_timeout,
            &mut self.keep_alive,
            &mut self.write_timeout,
            &mut self.stop_timeout,
        ] {
            *timeout = (*timeout).min(MAX_TIMEOUT);
        }
        self.max_connections = self.max_connections.min(tokio::sync::Semaphore::MAX_PERMITS);
        self.max_head_bytes = self.max_head_bytes.clamp(1, MAX_HEAD_BYTES);
        self
    }
}

/// The HTTP transport: a client, and a server once it is bound.
#[derive(Debug)]
pub struct HttpTransport {
    client: Client,
    server: Option<Server>,
}

/// A fetched document, or the answer to a POST.
#[derive(Debug)]
pub struct Fetched {
    /// The HTTP status, whatever it is.
    pub status: u16,
    /// The body, at most as large as was allowed.
    pub body: Bytes,
    /// Where it came from, after redirects.
    pub url: String,
    /// The `Content-Type`, as it came.
    pub content_type: Option<String>,
    /// How long the peer asks to wait before the next try (`Retry-After` in seconds, at most a day).
    pub retry_after: Option<Duration>,
    /// The `Location` of a redirect that was not followed, for messages only.
    pub location: Option<String>,
}

/// What a fetch allows.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    /// Which addresses may be dialled.
    pub policy: Policy,
    /// Most bytes of the body.
    pub max_bytes: usize,
    /// 0 for evidence and signed envelopes, at most 5.
    pub redirects: u8,
}

impl HttpTransport {
    /// Makes a client that cannot listen. Cheap: the HTTP client is made at the first call, TLS at the first https one.
    pub fn client(timeouts: ClientTimeouts) -> HttpTransport {
        HttpTransport { client: Client::new(timeouts), server: None }
    }

    /// Binds; port 0 picks one. `mount` is the path of the card's URL, empty at a bare origin; trailing slashes are
    /// dropped.
    ///
    /// # Errors
    /// [`TransportError::Bind`] when the address cannot be had, [`TransportError::Mount`] when `mount` is no path.
    pub async fn bind(
        self,
        address: SocketAddr,
        mount: &str,
        limits: ServerLimits,
    ) -> Result<HttpTransport, TransportError> {
        let server = Server::bind(address, mount, limits.clamped()).await?;
        Ok(HttpTransport { server: Some(server), ..self })
    }

    /// The bound address, with the port that was picked; `None` before [`HttpTransport::bind`].
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(Server::local_addr)
    }

    /// GETs a document under the guard. Any status with its body is given back; redirects are followed as `options`
    /// allow, and each hop to another origin is judged as if a peer had named it.
    ///
    /// # Errors
    /// See [`TransportError`]. Dropping the future abandons the call.
    pub async fn fetch(&self, url: &str, options: &FetchOptions) -> Result<Fetched, TransportError> {
        self.client.fetch(url, options).await
    }

    /// POSTs one JSON body, no redirects; any status with its body, at most [`MAX_RESPONSE_BYTES`], is given back.
    ///
    /// # Errors
    /// See [`TransportError`]. Dropping the future abandons the call; the peer may have the request.
    pub async fn post(
        &self,
        url: &str,
        body: Bytes,
        headers: &[(&'static str, String)],
        policy: Policy,
    ) -> Result<Fetched, TransportError> {
        self.client.post(url, body, headers, policy, MAX_RESPONSE_BYTES).await
    }

    /// GETs and gives back the answer as soon as its head is there, which `limit` is for; any status, no redirects.
    pub(crate) async fn open(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        policy: Policy,
        limit: Duration,
    ) -> Result<Opened, TransportError> {
        self.client.open(url, headers, policy, limit).await
    }

    /// As [`HttpTransport::post`], to a peer that may think as long as `limit` says before it answers.
    pub(crate) async fn post_patiently(
        &self,
        url: &str,
        body: Bytes,
        policy: Policy,
        max_bytes: usize,
        limit: Duration,
    ) -> Result<Fetched, TransportError> {
        self.client.post_patiently(url, body, policy, max_bytes, limit).await
    }
}

#[async_trait]
impl Transport for HttpTransport {
    fn name(&self) -> TransportName {
        TransportName::Http
    }

    /// A canonical base, plus `/` at a bare origin, is the address to POST to (section 12.5).
    fn route(&self, peer: &PeerAddress) -> Option<Route> {
        let url = peer.url.as_deref().filter(|url| !url.is_empty())?;
        let target = guard::check_url(url, policy_of(peer.allow_private)).ok()?;
        let is_base = target.query().is_none() && target.fragment().is_none();
        is_base.then(|| Route {
            transport: TransportName::Http,
            address: target.into(),
            cost: COST,
            allow_private: peer.allow_private,
            mailbox: None,
        })
    }

    async fn deliver(&self, route: &Route, request: Bytes) -> Result<Delivery, TransportError> {
        let answer = self.post(&route.address, request, &[], policy_of(route.allow_private)).await?;
        answered(answer)
    }

    async fn listen(&self, service: Arc<dyn Service>, stop: Stop) -> Result<(), TransportError> {
        match &self.server {
            Some(server) => server.listen(service, stop).await,
            None => Err(TransportError::NotBound),
        }
    }
}

fn policy_of(allow_private: bool) -> Policy {
    if allow_private { Policy::Owner } else { Policy::Peer }
}

/// Tells an answer from a status: protocol verdicts come with 200, frame errors with 400, and foreign receivers send
/// JSON-RPC errors with other statuses. "Come back later" is a status whatever its body says.
fn answered(answer: Fetched) -> Result<Delivery, TransportError> {
    let is_json_rpc = || {
        let is_json = answer.content_type.as_deref().is_some_and(|kind| kind.contains("json"));
        is_json && answer.body.windows(9).any(|window| window == b"\"jsonrpc\"")
    };
    match answer.status {
        200..=299 => Ok(Delivery::Answered(answer.body)),
        300..=399 => Err(TransportError::RedirectRefused {
            target: answer.location.unwrap_or_default(),
            url: guard::printable(&answer.url),
        }),
        429 | 503 => Err(status_error(answer)),
        _ if is_json_rpc() => Ok(Delivery::Answered(answer.body)),
        _ => Err(status_error(answer)),
    }
}

fn status_error(answer: Fetched) -> TransportError {
    TransportError::Status {
        url: guard::printable(&answer.url),
        status: answer.status,
        retry_after: answer.retry_after,
    }
}
