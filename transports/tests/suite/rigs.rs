//! How each transport is set up on one machine.
use std::sync::Arc;

use async_trait::async_trait;
use muretai_transports::{
    ClientTimeouts, PeerAddress, Transport,
    http::{HttpTransport, ServerLimits},
};

use crate::in_memory::MemoryTransport;

/// Makes two ends of a transport that can reach each other.
#[async_trait]
pub(crate) trait Rig: Send + Sync {
    /// The end that will listen, the end that dials, and where the first one is.
    async fn pair(&self) -> (Arc<dyn Transport>, Arc<dyn Transport>, PeerAddress);
}

pub(crate) struct Http;

#[async_trait]
impl Rig for Http {
    async fn pair(&self) -> (Arc<dyn Transport>, Arc<dyn Transport>, PeerAddress) {
        let client = || HttpTransport::client(ClientTimeouts::default());
        let listener = client().bind("127.0.0.1:0".parse().unwrap(), "", ServerLimits::default()).await.unwrap();
        let url = Some(format!("http://{}", listener.local_addr().unwrap()));
        (Arc::new(listener), Arc::new(client()), PeerAddress { url, allow_private: true, ..PeerAddress::default() })
    }
}

pub(crate) struct Memory;

#[async_trait]
impl Rig for Memory {
    async fn pair(&self) -> (Arc<dyn Transport>, Arc<dyn Transport>, PeerAddress) {
        let transport = Arc::new(MemoryTransport::new());
        let peer = PeerAddress {
            url: Some("http://south.invalid".to_owned()),
            allow_private: false,
            ..PeerAddress::default()
        };
        (Arc::clone(&transport) as _, transport, peer)
    }
}
