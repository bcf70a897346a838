//! An HTTP server for things other than agents, behind the same strict framing and the same limits.
use std::{net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use tokio::net::TcpStream;

use super::ServerLimits;
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
    /// `Forwarded`, `X-Forwarded-For`, `X-Real-IP` or `Via` is there: a proxy speaks for somebody else.
    pub is_forwarded: bool,
    /// The first `X-Forwarded-For` is not read; this is the socket's other end.
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
    /// Content-Type.
    pub content_type: &'static str,
    /// The body.
    pub body: Bytes,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// `Allow`, for 405 and OPTIONS; also what CORS names.
    pub allow: Option<&'static str>,
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
    /// How large the body of such a request may be, 0 for none: a larger one is answered 413 without reaching
    /// [`Site::answer`].
    fn max_body_bytes(&self, head: &Head) -> usize;
    /// Answers. A panic becomes 500. Dropped when the client goes away.
    async fn answer(&self, request: Request) -> Answer;
    /// Whether such a request (GET, without a body) is taken over, instead of answered.
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
pub struct SiteServer {}

impl SiteServer {
    /// Binds; port 0 picks one. `mount` is the path below which the site is, empty at a bare origin.
    ///
    /// # Errors
    /// [`TransportError::Bind`], [`TransportError::Mount`].
    pub async fn bind(address: SocketAddr, mount: &str, limits: ServerLimits) -> Result<SiteServer, TransportError> {
        let _ = (address, mount, limits);
        todo!()
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        todo!()
    }

    /// Serves until stopped, then finishes what is under way, at most `stop_timeout`; connections that were taken over
    /// are told by the site itself.
    pub async fn run(self, site: Arc<dyn Site>, stop: Stop) -> Result<(), TransportError> {
        let _ = (site, stop);
        todo!()
    }
}
