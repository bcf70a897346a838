//! Direct HTTP: A2A over JSON-RPC (section 12).
use crate::{ClientTimeouts, TransportError, guard::Policy};
use bytes::Bytes;
use std::net::SocketAddr;

/// Limits of the server side (12.3, 12.4), all configurable.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct ServerLimits {
    pub max_body_bytes: usize,
    pub max_connections: usize,
    pub head_timeout: std::time::Duration,
    pub request_timeout: std::time::Duration,
    pub keep_alive: std::time::Duration,
    pub drain_bytes: usize,
}

/// The HTTP transport: a client, and a server once it is bound.
pub struct HttpTransport {
    _private: (),
}

/// A fetched document.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Fetched {
    pub status: u16,
    pub body: Bytes,
    /// Where it came from, after redirects.
    pub url: String,
    pub content_type: Option<String>,
}

/// What a fetch allows.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct FetchOptions {
    pub policy: Policy,
    pub max_bytes: usize,
    /// 0 for evidence and signed envelopes, at most 5.
    pub redirects: u8,
}

impl HttpTransport {
    /// A client that cannot listen. Cheap: TLS is set up on the first https call.
    pub fn client(_timeouts: ClientTimeouts) -> HttpTransport {
        todo!()
    }
    /// Binds; port 0 picks one.
    pub async fn bind(
        self,
        _address: SocketAddr,
        _mount: &str,
        _limits: ServerLimits,
    ) -> Result<HttpTransport, TransportError> {
        todo!()
    }
    /// The bound address.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        todo!()
    }
    /// GETs a document under the guard.
    pub async fn fetch(&self, _url: &str, _options: &FetchOptions) -> Result<Fetched, TransportError> {
        todo!()
    }
    /// POSTs one JSON body, no redirects; any status with a body is given back.
    pub async fn post(
        &self,
        _url: &str,
        _body: Bytes,
        _headers: &[(&'static str, String)],
        _policy: Policy,
    ) -> Result<Fetched, TransportError> {
        todo!()
    }
}
