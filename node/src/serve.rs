//! Being reachable: one resident service per agent.
use std::net::SocketAddr;

use muretai_transports::{Stop, http::ServerLimits};

use crate::{
    Agent,
    receive::{rate::RateLimit, responder::CommandSpec},
};

/// What `muretai serve` is told.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct ServeOptions {
    pub listen: SocketAddr,
    /// The public base for the card; `None` derives it from the bound address.
    pub url: Option<String>,
    pub open_door: bool,
    /// `None` is off.
    pub rate: Option<RateLimit>,
    pub reply_with: Option<CommandSpec>,
    pub limits: ServerLimits,
}

/// Why serving could not start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another process serves this agent.
    #[error("another `serve` holds this agent: process {pid}, {url}")]
    AlreadyServing {
        /// Its process id.
        pid: u32,
        /// Where.
        url: String,
    },
    /// The URL is no canonical base.
    #[error("--url {url} cannot be the card's address")]
    BadUrl {
        /// As given.
        url: String,
        /// Why.
        #[source]
        source: muretai_protocol::urls::BaseUrlError,
    },
    /// Binding or listening failed.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: muretai_transports::TransportError,
    },
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] muretai_store::StoreError),
    /// The lock file could not be used.
    #[error("cannot lock {path}")]
    Lock {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// A service that is bound and not yet running; dropping it releases the agent.
pub struct Serving {
    _private: (),
}

impl Agent {
    /// Takes the lock, binds, records the URL in the store. Nothing is answered before [`Serving::run`].
    pub async fn serve(&self, _options: &ServeOptions) -> Result<Serving, ServeError> {
        todo!()
    }
}
impl Serving {
    /// The public base, as the card has it.
    pub fn url(&self) -> &str {
        todo!()
    }
    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        todo!()
    }
    /// A warning to print, such as a wildcard address without `--url`.
    pub fn warnings(&self) -> &[String] {
        todo!()
    }
    /// Serves until stopped, then finishes what is under way and closes.
    pub async fn run(self, _stop: Stop) -> Result<(), ServeError> {
        todo!()
    }
}
