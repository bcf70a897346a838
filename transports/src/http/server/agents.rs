//! What an agent's service answers below its mount (the table of section 12.3).
use std::{net::SocketAddr, sync::Arc};

use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use hyper::body::Incoming as HttpBody;

use super::{
    answers::{self, ALLOW_CARD, ALLOW_MOUNT, Answer, Plain},
    body::{self, BodyLimits, closing_unless, drain_unread, unwanted},
    contain::contained,
    routes::{self, Address},
};
use crate::{Document, Incoming, Outcome, Service, Way, http::ServerLimits};

/// Longest `A2A-Version` that is passed on.
const MAX_VERSION: usize = 32;
const A2A_VERSION: HeaderName = HeaderName::from_static("a2a-version");

/// A service and where it is.
pub(super) struct AgentHost {
    pub(super) service: Arc<dyn Service>,
    pub(super) mount: String,
}

impl AgentHost {
    pub(super) async fn handle(&self, request: Request<HttpBody>, remote: SocketAddr, limits: &ServerLimits) -> Answer {
        let (head, body) = request.into_parts();
        match routes::find(&self.mount, &head.uri) {
            Address::Mount if head.method == Method::POST => {
                if head.uri.query().is_some() {
                    return unwanted(body, &Plain::NotFound(Some("no query here")), limits).await;
                }
                self.call(&head.headers, body, remote, limits).await
            }
            Address::Mount => self.document("", ALLOW_MOUNT, &head.method, body, limits).await,
            Address::Document(path) => self.document(path, ALLOW_CARD, &head.method, body, limits).await,
            Address::Nothing(detail) => unwanted(body, &Plain::NotFound(detail), limits).await,
        }
    }

    /// A POST to the mount.
    async fn call(
        &self,
        headers: &http::HeaderMap,
        body: HttpBody,
        remote: SocketAddr,
        limits: &ServerLimits,
    ) -> Answer {
        let limits = BodyLimits {
            max: limits.max_body_bytes,
            drain: limits.drain_bytes,
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
    async fn document(
        &self,
        path: &str,
        allow: &'static str,
        method: &Method,
        body: HttpBody,
        limits: &ServerLimits,
    ) -> Answer {
        let Some(found) = contained(self.service.document(path)).await else {
            return unwanted(body, &Plain::Fault, limits).await;
        };
        let is_advertised = found.is_some() || path.is_empty();
        match (method, found) {
            (&Method::GET | &Method::HEAD, Some(document)) => {
                let is_read = drain_unread(body, limits).await;
                closing_unless(is_read, document_answer(document, allow))
            }
            (&Method::OPTIONS, _) if is_advertised => {
                let is_read = drain_unread(body, limits).await;
                closing_unless(is_read, answers::options(allow))
            }
            (&Method::GET | &Method::HEAD, None) => unwanted(body, &Plain::NotFound(None), limits).await,
            _ if is_advertised => unwanted(body, &Plain::MethodNotAllowed(allow), limits).await,
            _ => unwanted(body, &Plain::NotFound(None), limits).await,
        }
    }
}

fn document_answer(document: Document, allow: &'static str) -> Answer {
    let mut answer = answers::with_body(StatusCode::OK, document.content_type, document.body, allow);
    if let Some(link) = document.link.and_then(|link| HeaderValue::try_from(link).ok()) {
        answer.headers_mut().insert(header::LINK, link);
    }
    answer
}
