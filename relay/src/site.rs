//! Which request is which. Paths are compared byte by byte; what is not listed does not exist.
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use muretai_transports::http::site::{Answer, Head, Request, Site, TakenOver};

use crate::{
    MetricsAccess,
    answer::{Handled, json_answer, not_found, only},
    deposit, directory,
    metrics::Moment,
    poll,
    shared::Shared,
    stream,
};

/// Bytes of the bodies that are no letters: cards, invites, acknowledgements.
const MAX_SMALL_BODY: usize = 65_536;
const GET: &str = "GET, HEAD, OPTIONS";
const LISTEN: &str = "GET, OPTIONS";
const POST: &str = "POST, OPTIONS";

const NOTICE: &str = "This is a relay of muretai. It keeps sealed letters for agents that sleep, and cannot read them.\n\
It is not a page to look at: agents talk to it. POST /send leaves a letter, GET /listen fetches one's own.\n";

/// The relay as the HTTP server sees it.
pub(crate) struct RelaySite(pub(crate) Arc<Shared>);

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route<'p> {
    Notice,
    Health,
    Metrics,
    Send,
    Rpc,
    Reply,
    Listen,
    Ack,
    Publish,
    Card(&'p str),
    Mint,
    Invite(&'p str),
    Presence(&'p str),
}

impl<'p> Route<'p> {
    fn find(path: &'p str) -> Option<Route<'p>> {
        let exact = match path {
            "/" | "" => Route::Notice,
            "/health" => Route::Health,
            "/metrics" => Route::Metrics,
            "/send" => Route::Send,
            "/rpc" => Route::Rpc,
            "/reply" => Route::Reply,
            "/listen" => Route::Listen,
            "/ack" => Route::Ack,
            "/card" => Route::Publish,
            "/i" => Route::Mint,
            _ => {
                let (name, rest) = path.strip_prefix('/')?.split_once('/')?;
                if rest.is_empty() || rest.contains('/') {
                    return None;
                }
                return match name {
                    "card" => Some(Route::Card(rest)),
                    "i" => Some(Route::Invite(rest)),
                    "presence" => Some(Route::Presence(rest)),
                    _ => None,
                };
            }
        };
        Some(exact)
    }

    fn allow(self) -> &'static str {
        match self {
            Route::Send | Route::Rpc | Route::Reply | Route::Ack | Route::Publish | Route::Mint => POST,
            Route::Listen => LISTEN,
            _ => GET,
        }
    }

    fn allows(self, method: &Method) -> bool {
        match self.allow() {
            POST => method == Method::POST,
            LISTEN => method == Method::GET,
            _ => method == Method::GET || method == Method::HEAD,
        }
    }
}

#[async_trait]
impl Site for RelaySite {
    fn max_body_bytes(&self, head: &Head) -> usize {
        match Route::find(&head.path) {
            Some(Route::Send | Route::Rpc | Route::Reply) if head.method == Method::POST => {
                self.0.bounds.max_deposit_bytes
            }
            _ => MAX_SMALL_BODY,
        }
    }

    async fn answer(&self, request: Request) -> Answer {
        let Request { head, body, .. } = request;
        let Some(route) = Route::find(&head.path) else { return not_found() };
        if !route.allows(&head.method) {
            return only(route.allow(), head.method == Method::OPTIONS);
        }
        match self.handle(route, &head, body).await {
            Ok(answer) => answer,
            Err(refusal) => {
                tracing::debug!(path = route_name(route), status = refusal.status(), "refused");
                refusal.answer()
            }
        }
    }

    fn takes_over(&self, head: &Head) -> bool {
        head.accepts_events && head.method == Method::GET && head.path == "/listen"
    }

    async fn take_over(&self, connection: TakenOver) {
        stream::serve(&self.0, connection).await;
    }
}

impl RelaySite {
    async fn handle(&self, route: Route<'_>, head: &Head, body: Bytes) -> Handled {
        let shared = &*self.0;
        match route {
            Route::Notice => Ok(Answer {
                content_type: "text/plain; charset=utf-8",
                ..json_answer(Bytes::from_static(NOTICE.as_bytes()))
            }),
            Route::Health => Ok(self.health()),
            Route::Metrics => Ok(self.metrics(head).await),
            Route::Send => deposit::send(shared, &body).await,
            Route::Rpc => deposit::rpc(shared, &body).await,
            Route::Reply => deposit::reply(shared, &body).await,
            Route::Listen => poll::listen(shared, head.query.as_deref().unwrap_or_default()).await,
            Route::Ack => poll::ack(shared, &body).await,
            Route::Publish => directory::publish(shared, &body).await,
            Route::Card(did) => directory::card_of(shared, did).await,
            Route::Mint => directory::mint(shared, &body).await,
            Route::Invite(code) => directory::invite(shared, code).await,
            Route::Presence(did) => directory::presence(shared, did).await,
        }
    }

    fn health(&self) -> Answer {
        if self.0.is_healthy() {
            json_answer(r#"{"status":"ok"}"#)
        } else {
            Answer { status: 503, retry_after: Some(5), ..json_answer(r#"{"status":"the store fails"}"#) }
        }
    }

    async fn metrics(&self, head: &Head) -> Answer {
        let is_local = head.remote.ip().to_canonical().is_loopback() && !head.is_forwarded;
        let is_allowed = match self.0.access {
            MetricsAccess::Public => true,
            MetricsAccess::Loopback => is_local,
            MetricsAccess::Off => false,
        };
        if !is_allowed {
            return not_found();
        }
        let kept = self.0.kept().await;
        let (polls, streams) = self.0.hub.waiting();
        let moment = Moment { polls, streams, calls: self.0.calls.count(), kept, limits: &self.0.limits() };
        let text = self.0.metrics.text(&moment);
        Answer { content_type: "text/plain; version=0.0.4; charset=utf-8", ..json_answer(text) }
    }
}

/// For logs: codes and DIDs are in paths.
fn route_name(route: Route<'_>) -> &'static str {
    match route {
        Route::Notice => "/",
        Route::Health => "/health",
        Route::Metrics => "/metrics",
        Route::Send => "/send",
        Route::Rpc => "/rpc",
        Route::Reply => "/reply",
        Route::Listen => "/listen",
        Route::Ack => "/ack",
        Route::Publish | Route::Card(_) => "/card",
        Route::Mint | Route::Invite(_) => "/i",
        Route::Presence(_) => "/presence",
    }
}

#[cfg(test)]
mod tests;
