//! One connection: HTTP in front of a service, behind the framing layer.
use std::{
    convert::Infallible,
    future::poll_fn,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use hyper::{body::Incoming as HttpBody, server::conn::http1, service::service_fn};
use tokio::net::TcpStream;

use super::{
    answers::{self, ALLOW_CARD, ALLOW_MOUNT, Answer, Plain},
    body::{self, BodyLimits},
    framing::FramedStream,
    routes::{self, Address},
};
use crate::{Document, Incoming, Outcome, Service, Stop, Way, http::ServerLimits};

/// Buffers of the HTTP library; it must hold one request head.
const MIN_BUFFER: usize = 65_536;
/// Longest `A2A-Version` that is passed on.
const MAX_VERSION: usize = 32;
const A2A_VERSION: HeaderName = HeaderName::from_static("a2a-version");

/// What all connections of a listener share.
pub(super) struct Shared {
    pub(super) limits: Arc<ServerLimits>,
    service: Arc<dyn Service>,
    mount: String,
    http: http1::Builder,
    stop: Stop,
}

impl Shared {
    pub(super) fn new(service: Arc<dyn Service>, mount: String, limits: ServerLimits, stop: Stop) -> Shared {
        let mut http = http1::Builder::new();
        // Timeouts are the framing layer's. A peer that has closed its sending side still gets its answer.
        http.header_read_timeout(None)
            .half_close(true)
            .max_buf_size(MIN_BUFFER.max(limits.max_head_bytes.saturating_mul(2)));
        Shared { limits: Arc::new(limits), service, mount, http, stop }
    }
}

/// Serves one connection to its end, or to the end of the request under way once the listener is stopped.
pub(super) async fn serve(stream: TcpStream, remote: SocketAddr, shared: Arc<Shared>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%remote, %error, "a connection was gone at once");
        return;
    }
    let framed = FramedStream::new(stream, Arc::clone(&shared.limits));
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.handle(request, remote).await) }
    });
    let mut connection = pin!(shared.http.serve_connection(framed, service));
    let mut stopped = pin!(shared.stop.stopped());
    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => ended,
        () = &mut stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%remote, %error, "a connection ended early");
    }
}

impl Shared {
    async fn handle(&self, request: Request<HttpBody>, remote: SocketAddr) -> Answer {
        let (head, body) = request.into_parts();
        match routes::find(&self.mount, &head.uri) {
            Address::Mount if head.method == Method::POST => {
                if head.uri.query().is_some() {
                    return self.unwanted(body, &Plain::NotFound(Some("no query here"))).await;
                }
                self.call(&head.headers, body, remote).await
            }
            Address::Mount => self.document("", ALLOW_MOUNT, &head.method, body).await,
            Address::Document(path) => self.document(path, ALLOW_CARD, &head.method, body).await,
            Address::Nothing(detail) => self.unwanted(body, &Plain::NotFound(detail)).await,
        }
    }

    /// A POST to the mount.
    async fn call(&self, headers: &http::HeaderMap, body: HttpBody, remote: SocketAddr) -> Answer {
        let limits = BodyLimits {
            max: self.limits.max_body_bytes,
            drain: self.limits.drain_bytes,
            is_waiting: headers.contains_key(header::EXPECT),
        };
        let body = match body::read(body, limits).await {
            Ok(body) => body,
            Err(plain) => return answers::answer(&plain),
        };
        let version = headers.get(A2A_VERSION).and_then(|value| value.to_str().ok());
        let a2a_version = version.filter(|version| version.len() <= MAX_VERSION).map(str::to_owned);
        let request = Incoming { body, a2a_version, remote: Some(remote), way: Way::Call };
        match contained(self.service.call(request)).await {
            Some(Outcome { status, body }) => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                answers::service_answer(status, body)
            }
            None => answers::answer(&Plain::Fault),
        }
    }

    /// Any method but POST on the mount, any method on a document.
    async fn document(&self, path: &str, allow: &'static str, method: &Method, body: HttpBody) -> Answer {
        let Some(found) = contained(self.service.document(path)).await else {
            return self.unwanted(body, &Plain::Fault).await;
        };
        let is_advertised = found.is_some() || path.is_empty();
        match (method, found) {
            (&Method::GET | &Method::HEAD, Some(document)) => {
                let is_read = self.drain(body).await;
                closing_unless(is_read, document_answer(document, allow))
            }
            (&Method::OPTIONS, _) if is_advertised => {
                let is_read = self.drain(body).await;
                closing_unless(is_read, answers::options(allow))
            }
            (&Method::GET | &Method::HEAD, None) => self.unwanted(body, &Plain::NotFound(None)).await,
            _ if is_advertised => self.unwanted(body, &Plain::MethodNotAllowed(allow)).await,
            _ => self.unwanted(body, &Plain::NotFound(None)).await,
        }
    }

    /// A refusal, given once the body is read away.
    async fn unwanted(&self, body: HttpBody, plain: &Plain) -> Answer {
        let is_read = self.drain(body).await;
        closing_unless(is_read, answers::answer(plain))
    }

    async fn drain(&self, body: HttpBody) -> bool {
        hyper::body::Body::is_end_stream(&body) || body::drain(body, self.limits.drain_bytes).await
    }
}

fn closing_unless(is_read: bool, mut answer: Answer) -> Answer {
    if !is_read {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

fn document_answer(document: Document, allow: &'static str) -> Answer {
    let mut answer = answers::with_body(StatusCode::OK, document.content_type, document.body, allow);
    if let Some(link) = document.link.and_then(|link| HeaderValue::try_from(link).ok()) {
        answer.headers_mut().insert(header::LINK, link);
    }
    answer
}

/// Runs a call of the service; `None` when it panicked. A fault in one request must not take the connection, or the
/// process, with it.
async fn contained<T>(mut call: Pin<Box<dyn Future<Output = T> + Send + '_>>) -> Option<T> {
    poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => {
            tracing::error!("the service panicked");
            Poll::Ready(None)
        }
    })
    .await
}
