//! One connection: HTTP in front of what is served, behind the framing layer.
use std::{convert::Infallible, net::SocketAddr, pin::pin, sync::Arc};

use http::Request;
use hyper::{body::Incoming as HttpBody, server::conn::http1, service::service_fn};
use tokio::{net::TcpStream, sync::OwnedSemaphorePermit};

use super::{
    agents::AgentHost,
    answers::Answer,
    framing::FramedStream,
    sites::{HandOver, SiteConnection, SiteHost},
};
use crate::{
    Stop,
    http::{ServerLimits, site::TakenOver},
};

/// Buffers of the HTTP library; it must hold one request head.
const MIN_BUFFER: usize = 65_536;

/// What is served.
pub(super) enum Host {
    Agent(Arc<AgentHost>),
    Site(Arc<SiteHost>),
}

/// What all connections of a listener share.
pub(super) struct Shared {
    pub(super) limits: Arc<ServerLimits>,
    host: Host,
    http: http1::Builder,
    stop: Stop,
}

impl Shared {
    pub(super) fn new(host: Host, limits: ServerLimits, stop: Stop) -> Shared {
        let mut http = http1::Builder::new();
        // Timeouts are the framing layer's. A peer that has closed its sending side still gets an agent's answer; a
        // site's answer may take half a minute, which is not spent on peers that have gone.
        http.header_read_timeout(None)
            .half_close(matches!(host, Host::Agent(_)))
            .max_buf_size(MIN_BUFFER.max(limits.max_head_bytes.saturating_mul(2)));
        Shared { limits: Arc::new(limits), host, http, stop }
    }

    /// What is left of a connection that a site takes over, for the task that goes on with it.
    pub(super) fn hand_over(&self, taken: TakenOver, slot: OwnedSemaphorePermit) -> Option<HandOver> {
        match &self.host {
            Host::Agent(_) => None,
            Host::Site(host) => Some(host.hand_over(taken, slot)),
        }
    }

    /// What one connection talks to.
    fn handler(&self, remote: SocketAddr) -> Handler {
        match &self.host {
            Host::Agent(host) => Handler::Agent(Arc::clone(host), remote),
            Host::Site(host) => Handler::Site(Arc::new(SiteConnection::new(Arc::clone(host), remote))),
        }
    }
}

/// What is served, as one connection sees it.
#[derive(Clone)]
enum Handler {
    Agent(Arc<AgentHost>, SocketAddr),
    Site(Arc<SiteConnection>),
}

impl Handler {
    async fn handle(self, request: Request<HttpBody>, limits: Arc<ServerLimits>) -> Answer {
        match self {
            Handler::Agent(host, remote) => host.handle(request, remote, &limits).await,
            Handler::Site(connection) => connection.handle(request, &limits).await,
        }
    }
}

/// Serves one connection to its end, or to the end of the request under way once the listener is stopped. Gives back
/// what a site takes over; by then nothing is left of the HTTP library and its buffers.
pub(super) async fn serve(stream: TcpStream, remote: SocketAddr, shared: Arc<Shared>) -> Option<TakenOver> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%remote, %error, "a connection was gone at once");
        return None;
    }
    let handler = shared.handler(remote);
    let site = if let Handler::Site(site) = &handler { Some(Arc::clone(site)) } else { None };
    let framed = FramedStream::new(stream, Arc::clone(&shared.limits), site);
    let service = service_fn(|request| {
        let answer = handler.clone().handle(request, Arc::clone(&shared.limits));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut connection = shared.http.serve_connection(framed, service);
    let mut stopped = pin!(shared.stop.stopped());
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = &mut stopped => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    match ended {
        Ok(()) => connection.into_parts().io.into_taken_over(),
        Err(error) => {
            tracing::debug!(%remote, %error, "a connection ended early");
            None
        }
    }
}
