//! How bytes travel. Transports know nothing of trust: who may say what is decided by the [`Service`] behind them.
//!
//! Specification: section 12 (URLs, HTTP and limits) and section 9.7 (sending order).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use muretai_protocol::Did;

mod error;
pub mod guard;
pub mod http;
pub mod relay;
mod stop;

pub use error::{Cause, TransportError};
pub use stop::Stop;

/// The ways in which bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransportName {
    /// Direct HTTP.
    Http,
    /// A relay that stores and forwards.
    Relay,
}
impl fmt::Display for TransportName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TransportName::Http => "http",
            TransportName::Relay => "relay",
        })
    }
}

/// Everything known about where a peer is.
#[derive(Debug, Clone, Default)]
pub struct PeerAddress {
    /// The canonical base of its card.
    pub url: Option<String>,
    /// The owner lets us dial loopback and private addresses of this peer.
    pub allow_private: bool,
    /// Who it is.
    pub did: Option<Did>,
    /// Its mailbox.
    pub mailbox: Option<MailboxAddress>,
}

/// Where a peer's sealed letters go, and the keys that seal them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxAddress {
    /// Base URL of the relay, of the shape of section 12.2.
    pub relay: String,
    /// The owner, not a peer, named the relay: loopback and private addresses of it may be dialled.
    pub allow_private: bool,
    /// The peer's X25519 key, 64 hex digits.
    pub enc_pub: String,
    /// The peer's ML-KEM key out of a card or key state that verified; letters are sealed v2 then.
    pub enc_pub_pq: Option<String>,
}

/// One way to reach a peer. Lower `cost` is better.
#[derive(Debug, Clone)]
pub struct Route {
    /// Which transport made it.
    pub transport: TransportName,
    /// What it dials.
    pub address: String,
    /// Lower is better.
    pub cost: u8,
    /// As in [`PeerAddress`].
    pub allow_private: bool,
    /// Whose mailbox it leads to, when it leads to one.
    pub mailbox: Option<Box<(Did, MailboxAddress)>>,
}

/// What became of a request.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// The peer answered with this body.
    Answered(Bytes),
    /// A relay keeps it for the peer; the answer, if any, is a letter of the peer's own.
    Queued(Receipt),
}

/// What a relay said when it took a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Base URL of the relay.
    pub relay: String,
    /// The deposit's id.
    pub deposit_id: String,
}

/// The way a request came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Way {
    /// Somebody waits for the answer: direct HTTP, or a relay's synchronous call.
    #[default]
    Call,
    /// The same, through a relay: whoever fills the mailbox with such calls must not keep letters of others waiting.
    RelayCall,
    /// It lay in a mailbox. Nobody waits; an answer has to be sent.
    Mailbox(Postmark),
}

/// What a relay said about a letter. Proves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postmark {
    /// Base URL of the relay that it was fetched from.
    pub relay: String,
    /// The relay's number for it.
    pub qid: String,
    /// The deposit's id.
    pub id: String,
    /// Who deposited it.
    pub from: String,
    /// The key that opened it, 64 hex digits: whoever sealed the letter holds its private half.
    pub enc_pub: Option<String>,
    /// When the relay took it, Unix seconds.
    pub ts: i64,
}

/// A letter that never became a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unopened {
    /// What the relay says about it.
    pub postmark: Postmark,
    /// Why.
    pub reason: UnopenedReason,
    /// Bytes of its sealed box.
    pub bytes: usize,
}

/// Why a letter is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnopenedReason {
    /// No key that is known opens it.
    DoesNotOpen,
    /// The relay's item is damaged.
    BadItem(&'static str),
    /// Its sealed box is larger than any letter.
    TooLarge,
}

/// A request that came in.
#[derive(Debug)]
pub struct Incoming {
    /// The JSON-RPC request, at most the configured size.
    pub body: Bytes,
    /// The `A2A-Version` header, or its query or transport equivalent.
    pub a2a_version: Option<String>,
    /// Who is at the other end, for logs only.
    pub remote: Option<SocketAddr>,
    /// How it came.
    pub way: Way,
}

/// The answer to a request: an HTTP status for the HTTP transport, and a JSON body.
#[derive(Debug)]
pub struct Outcome {
    /// 200, or 400 for what is no JSON-RPC request. 503: not now, and nothing of it is kept; whoever can bring the request
    /// again should.
    pub status: u16,
    /// JSON.
    pub body: Bytes,
}

/// A document that is served to whoever asks.
#[derive(Debug, Clone)]
pub struct Document {
    /// Content-Type.
    pub content_type: &'static str,
    /// The bytes, one buffer however often they are served.
    pub body: Bytes,
    /// A `Link` header value.
    pub link: Option<String>,
}

/// What an agent offers to every transport that listens for it.
#[async_trait]
pub trait Service: Send + Sync {
    /// Answers one request. Never panics; an internal fault is `-32603` with status 200.
    async fn call(&self, request: Incoming) -> Outcome;
    /// A document below the mount: `""` (the notice at the mount itself), `.well-known/agent-card.json`,
    /// `.well-known/agent.json`, `.well-known/agent-card.sig.json`, `i/<code>`. `None` is 404.
    async fn document(&self, path: &str) -> Option<Document>;
    /// Takes note of a letter that is no request. `false`: not now; bring it again.
    async fn unopened(&self, letter: Unopened) -> bool {
        let _ = letter;
        true
    }
    /// Takes note that who asked by [`Way::RelayCall`] has the answer, as far as the relay tells. The request is done.
    async fn heard(&self, postmark: &Postmark, request: &Bytes, answer: &Bytes) {
        let _ = (postmark, request, answer);
    }
    /// Takes note that nobody heard the answer to a request that came as [`Way::RelayCall`]: who asked has
    /// gone. `true`: what the request did is done, and its answer travels as a letter of its own. `false`: nothing was
    /// done; the request is to be brought again as a letter.
    async fn unheard(&self, postmark: &Postmark, answer: Bytes) -> bool {
        let _ = (postmark, answer);
        true
    }
}

/// A way for bytes to travel.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Its name.
    fn name(&self) -> TransportName;
    /// How this peer can be reached this way, if at all, and how good a way it is.
    fn route(&self, peer: &PeerAddress) -> Option<Route>;
    /// One JSON-RPC request to the peer. Answered by the peer, or queued for it. Dropping the future abandons the call.
    async fn deliver(&self, route: &Route, request: Bytes) -> Result<Delivery, TransportError>;
    /// Hands every request that comes in this way to `service`, until stopped; then finishes what is under way.
    async fn listen(&self, service: Arc<dyn Service>, stop: Stop) -> Result<(), TransportError>;
}

/// How long things may take.
#[derive(Debug, Clone)]
pub struct ClientTimeouts {
    /// Until connected, 5 s.
    pub connect: Duration,
    /// For the whole call, 10 s.
    pub total: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> ClientTimeouts {
        ClientTimeouts { connect: Duration::from_secs(5), total: Duration::from_secs(10) }
    }
}
