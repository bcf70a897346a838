//! Why bytes did not travel.
use std::{error::Error, io, net::SocketAddr, time::Duration};

use crate::guard::GuardError;

/// The cause below a [`TransportError`] whose type belongs to a library.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why a request did not get through, or a listener could not listen. URLs in it carry no userinfo.
///
/// [`TransportError::is_unreachable`] tells a failure to connect, after which another route may be tried, from a
/// failure after which the peer may have the request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The URL guard does not let us dial this; nothing was sent.
    #[error("{url} is not dialled")]
    Refused {
        /// What was to be dialled.
        url: String,
        /// The rule that stood in the way.
        #[source]
        source: GuardError,
    },
    /// The host name has no address.
    #[error("the host of {url} cannot be resolved")]
    Unresolvable {
        /// What was to be dialled.
        url: String,
        /// What the resolver said.
        #[source]
        source: io::Error,
    },
    /// Nobody listens there, or the network does not get there.
    #[error("cannot connect to {url}")]
    Connect {
        /// What was dialled.
        url: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Connecting took too long, TLS handshake included.
    #[error("no connection to {url} within {limit:?}")]
    ConnectTimeout {
        /// What was dialled.
        url: String,
        /// How long it was tried.
        limit: Duration,
    },
    /// The TLS handshake failed: no valid certificate for this host, or no TLS spoken there.
    #[error("no secure connection to {url}")]
    Tls {
        /// What was dialled.
        url: String,
        /// What the TLS library said.
        #[source]
        source: Cause,
    },
    /// Connected, and then no complete answer in time. The peer may have the request.
    #[error("no complete answer from {url} within {limit:?}")]
    Timeout {
        /// What was called.
        url: String,
        /// The wall clock limit of the whole call.
        limit: Duration,
    },
    /// The connection ended before the answer did. The peer may have the request.
    #[error("{url} closed the connection before its answer was complete")]
    Closed {
        /// What was called.
        url: String,
        /// What was seen of it here.
        #[source]
        source: Cause,
    },
    /// What came back is not HTTP, or HTTP that is not well-formed.
    #[error("{url} does not answer in HTTP")]
    NotHttp {
        /// What was called.
        url: String,
        /// What was wrong with it.
        #[source]
        source: Cause,
    },
    /// The answer is larger than allowed; the rest was not read.
    #[error("the answer of {url} is larger than {limit} bytes")]
    TooLarge {
        /// What was called.
        url: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer is a redirect where none is followed.
    #[error("{url} redirects to {target}, which is not followed here")]
    RedirectRefused {
        /// What was called.
        url: String,
        /// Where it points, cut to a sane length.
        target: String,
    },
    /// One redirect more than allowed.
    #[error("{url} redirects more than {limit} times")]
    TooManyRedirects {
        /// What was called first.
        url: String,
        /// How many were followed.
        limit: u8,
    },
    /// An HTTP status instead of an answer, for example 429 or 503.
    #[error("{url} answered with HTTP status {status}")]
    Status {
        /// What was called.
        url: String,
        /// The status.
        status: u16,
        /// How long the peer asks to wait.
        retry_after: Option<Duration>,
    },
    /// The peer has no address that this transport can use.
    #[error("{url:?} is no http or https address of a peer")]
    NoAddress {
        /// What was given.
        url: String,
    },
    /// The HTTP client could not be set up.
    #[error("cannot set up the HTTP client")]
    Client {
        /// What the library said.
        #[source]
        source: Cause,
    },
    /// The address is taken, not ours, or not allowed.
    #[error("cannot listen on {address}")]
    Bind {
        /// What was to be bound.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The mount is no plain path.
    #[error("{mount:?} is no path to serve at: it is empty or starts with `/`, without query, fragment or spaces")]
    Mount {
        /// What was given.
        mount: String,
    },
    /// A newer listener of the same identity took the mailbox over. Nothing is gained by trying again.
    #[error("a newer listener of this identity has taken over the mailbox at {relay}")]
    Superseded {
        /// Base URL of the relay.
        relay: String,
    },
    /// A relay refused: a deposit over a quota, a token that it does not take, a card that does not verify. Its texts are
    /// short of a `String`, because this variant would set the size of every error that holds one of these.
    #[error("the relay {relay} refused with HTTP status {status}: {reason}")]
    RelayRefused {
        /// Base URL of the relay.
        relay: Box<str>,
        /// The status.
        status: u16,
        /// Its words, one line, made safe.
        reason: Box<str>,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// What a relay answered is not what section 9 has it answer.
    #[error("the relay {relay} gave an answer that cannot be used: {what}")]
    NotARelay {
        /// Base URL of the relay.
        relay: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The letter could not be sealed: the peer's key is none.
    #[error("the sealing key of the peer is not usable")]
    BadSealingKey,
    /// `listen` on a transport that was never bound, or a second time.
    #[error("this transport is not bound to an address")]
    NotBound,
}

impl TransportError {
    /// Says whether the request cannot have reached the peer, so that another route may be tried.
    ///
    /// After `false` the peer may have it: a retry must carry the same message id.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            TransportError::Refused { .. }
                | TransportError::Unresolvable { .. }
                | TransportError::Connect { .. }
                | TransportError::ConnectTimeout { .. }
                | TransportError::Tls { .. }
                | TransportError::NoAddress { .. }
                | TransportError::Client { .. }
        )
    }

    /// How long the peer asked to wait before the next try, when it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            TransportError::Status { retry_after, .. } | TransportError::RelayRefused { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }
}
