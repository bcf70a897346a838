//! An HTTP server for things other than agents, behind the same strict framing and the same limits.
use std::{net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use tokio::net::TcpStream;

use super::{ServerLimits, server::Server};
use crate::{Stop, TransportError};

/// The head of a request, as far as sites look at it. The `Host` header is not among it: nobody may decide by it.
#[derive(Debug, Clone)]
pub struct Head {
    /// The method.
    pub method: Method,
    /// The path below the mount, beginning with `/`; not decoded.
    pub path: String,
    /// The query without its `?`, not decoded.
    pub query: Option<String>,
    /// `Accept` names `text/event-stream`.
    pub accepts_events: bool,
    /// `Forwarded`, `X-Forwarded-For`, `X-Real-IP` or `Via` is there: a proxy speaks for somebody else. What they say is
    /// not read.
    pub is_forwarded: bool,
    /// The socket's other end.
    pub remote: SocketAddr,
}

/// A whole request.
#[derive(Debug)]
pub struct Request {
    /// Its head.
    pub head: Head,
    /// Its body, within the limits.
    pub body: Bytes,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Content-Type; empty for none.
    pub content_type: &'static str,
    /// The body.
    pub body: Bytes,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// `Allow`, for 405 and OPTIONS; also what CORS names. Methods separated by `, `.
    pub allow: Option<&'static str>,
}

impl Answer {
    /// Makes an answer with JSON.
    pub fn json(status: u16, body: impl Into<Bytes>) -> Answer {
        Answer { status, content_type: "application/json", body: body.into(), retry_after: None, allow: None }
    }
}

/// A connection whose request the site answers itself, byte by byte. No buffer of the server is left behind it.
#[derive(Debug)]
pub struct TakenOver {
    /// The request; it has no body.
    pub head: Head,
    /// The socket; nothing of the answer is written yet.
    pub stream: TcpStream,
}

/// What is served.
#[async_trait]
pub trait Site: Send + Sync + 'static {
    /// How large the body of such a request may be: a larger one is answered 413 without reaching [`Site::answer`]. 0
    /// where no body is wanted: whatever comes is read away, and the request is answered as if it had none.
    fn max_body_bytes(&self, head: &Head) -> usize;
    /// Answers; HEAD comes as a GET, OPTIONS as itself. A panic becomes 500. Dropped a second after the client has gone
    /// away or closed its sending side.
    async fn answer(&self, request: Request) -> Answer;
    /// Whether such a GET is taken over, instead of answered. It is without a body and the last request of its
    /// connection: with a body, as HEAD, or with more bytes behind it, it is refused.
    fn takes_over(&self, head: &Head) -> bool {
        let _ = head;
        false
    }
    /// Serves a connection to its end. It counts as a connection until this returns.
    async fn take_over(&self, connection: TakenOver) {
        drop(connection);
    }
}

/// A bound HTTP server of a site.
#[derive(Debug)]
pub struct SiteServer {
    server: Server,
}

impl SiteServer {
    /// Binds; port 0 picks one. `mount` is the path below which the site is, empty at a bare origin. How large bodies
    /// may be is the site's to say, not that of `limits`.
    ///
    /// # Errors
    /// [`TransportError::Bind`], [`TransportError::Mount`].
    pub async fn bind(address: SocketAddr, mount: &str, limits: ServerLimits) -> Result<SiteServer, TransportError> {
        Ok(SiteServer { server: Server::bind(address, mount, limits.clamped()).await? })
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Serves until stopped, then finishes what is under way, at most `stop_timeout`; connections that were taken over
    /// are told by the site itself, within the same time.
    ///
    /// # Errors
    /// None at present: no error of a connection or of `accept` ends it.
    pub async fn run(self, site: Arc<dyn Site>, stop: Stop) -> Result<(), TransportError> {
        self.server.serve_site(site, stop).await
    }
}
