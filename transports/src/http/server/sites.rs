//! What a site answers below its mount, and which of its connections it takes over.
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use http::{Method, Request, Uri, header};
use hyper::body::Incoming as HttpBody;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    answers::{self, Answer, Plain},
    body::{self, BodyLimits, closing_unless, drain_unread, unwanted},
    contain::{contained, contained_now},
    head::MAX_HEADERS,
    routes,
};
use crate::http::{
    ServerLimits,
    site::{self, Head, Site, TakenOver},
};

/// What proxies add to requests that they pass on.
const FORWARDED: [&str; 4] = ["x-forwarded-for", "forwarded", "via", "x-real-ip"];
const EVENTS: &[u8] = b"text/event-stream";

/// A site and where it is.
pub(super) struct SiteHost {
    pub(super) site: Arc<dyn Site>,
    pub(super) mount: String,
}

/// A connection that its site takes over.
pub(super) struct HandOver {
    site: Arc<dyn Site>,
    taken: TakenOver,
    /// It goes on to count as a connection.
    slot: OwnedSemaphorePermit,
}

impl HandOver {
    /// Serves the connection to its end.
    pub(super) async fn run(self) -> Option<HandOver> {
        let HandOver { site, taken, slot } = self;
        contained(site.take_over(taken)).await;
        drop(slot);
        None
    }
}

impl SiteHost {
    pub(super) fn hand_over(&self, taken: TakenOver, slot: OwnedSemaphorePermit) -> HandOver {
        HandOver { site: Arc::clone(&self.site), taken, slot }
    }
}

/// A connection to a site: shared by the handler of its requests and the framing layer.
pub(super) struct SiteConnection {
    host: Arc<SiteHost>,
    remote: SocketAddr,
    answered: AtomicU64,
}

impl SiteConnection {
    pub(super) fn new(host: Arc<SiteHost>, remote: SocketAddr) -> SiteConnection {
        SiteConnection { host, remote, answered: AtomicU64::new(0) }
    }

    /// Requests that were answered, by the site or for it. One task asks and counts.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// The request that begins with this head, which was judged, when the site takes its connection over.
    pub(super) fn taken_over(&self, head: &[u8]) -> Option<Head> {
        if !head.starts_with(b"GET ") {
            return None;
        }
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        request.parse(head).ok()?;
        let uri = request.path?.parse().ok()?;
        let fields = request.headers.iter().map(|header| (header.name, header.value));
        let head = self.head(&Method::GET, &uri, fields).ok()?;
        self.takes_over(&head).unwrap_or(false).then_some(head)
    }

    fn takes_over(&self, head: &Head) -> Option<bool> {
        contained_now(|| head.method == Method::GET && self.host.site.takes_over(head))
    }

    /// Answers one request.
    pub(super) async fn handle(&self, request: Request<HttpBody>, limits: &ServerLimits) -> Answer {
        let answer = self.answer(request, limits).await;
        self.answered.fetch_add(1, Ordering::Relaxed);
        answer
    }

    async fn answer(&self, request: Request<HttpBody>, limits: &ServerLimits) -> Answer {
        let (parts, body) = request.into_parts();
        let fields = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let head = match self.head(&parts.method, &parts.uri, fields) {
            Ok(head) => head,
            Err(detail) => return unwanted(body, &Plain::NotFound(detail), limits).await,
        };
        match self.takes_over(&head) {
            Some(false) => {}
            Some(true) if parts.method == Method::HEAD => {
                return unwanted(body, &Plain::MethodNotAllowed("GET, OPTIONS"), limits).await;
            }
            Some(true) => return unwanted(body, &Plain::BadRequest("this request has no body"), limits).await,
            None => return unwanted(body, &Plain::Broken, limits).await,
        }
        let Some(max) = contained_now(|| self.host.site.max_body_bytes(&head)) else {
            return unwanted(body, &Plain::Broken, limits).await;
        };
        if max == 0 {
            let is_read = drain_unread(body, limits).await;
            return closing_unless(is_read, self.ask(head, Bytes::new()).await);
        }
        let is_waiting = parts.headers.contains_key(header::EXPECT);
        match body::read(body, BodyLimits { max, drain: limits.drain_bytes, is_waiting }).await {
            Ok(body) => self.ask(head, body).await,
            Err(plain) => answers::answer(&plain),
        }
    }

    async fn ask(&self, head: Head, body: Bytes) -> Answer {
        let answer = contained(self.host.site.answer(site::Request { head, body })).await;
        answer.map_or_else(|| answers::answer(&Plain::Broken), answers::site_answer)
    }

    /// What the site gets to see of a head.
    ///
    /// # Errors
    /// The target is not below the mount; with a reason where that is not plain.
    fn head<'h>(
        &self,
        method: &Method,
        uri: &Uri,
        fields: impl Iterator<Item = (&'h str, &'h [u8])>,
    ) -> Result<Head, Option<&'static str>> {
        let path = routes::below(&self.host.mount, uri)?;
        let (mut accepts_events, mut is_forwarded) = (false, false);
        for (name, value) in fields {
            accepts_events |= name.eq_ignore_ascii_case("accept") && names_events(value);
            is_forwarded |= FORWARDED.iter().any(|header| name.eq_ignore_ascii_case(header));
        }
        // A HEAD is answered as a GET; the HTTP library leaves the body away.
        let method = if *method == Method::HEAD { Method::GET } else { method.clone() };
        let query = uri.query().map(str::to_owned);
        Ok(Head { method, path: path.to_owned(), query, accepts_events, is_forwarded, remote: self.remote })
    }
}

/// Says whether one of the media ranges is the stream's; parameters do not matter.
fn names_events(accept: &[u8]) -> bool {
    accept.split(|byte| *byte == b',').any(|range| {
        let name = range.split(|byte| *byte == b';').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(EVENTS)
    })
}
