//! How each transport is set up on one machine.
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use muretai_protocol::{
    Did,
    relay::Epoch,
    sealed::SealingKey,
    sign::{Seed, SigningKey},
};
use muretai_transports::{
    ClientTimeouts, MailboxAddress, PeerAddress, Transport,
    guard::Policy,
    http::{HttpTransport, ServerLimits},
    relay::{Keyring, Place, RelayTimes, RelayTransport},
};

use crate::{fake::FakeRelay, in_memory::MemoryTransport};

/// Makes two ends of a transport that can reach each other.
#[async_trait]
pub(crate) trait Rig: Send + Sync {
    /// The end that will listen, the end that dials, and where the first one is.
    async fn pair(&self) -> (Arc<dyn Transport>, Arc<dyn Transport>, PeerAddress);
    /// Waits until the first one can be reached.
    async fn listening(&self) {}
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

/// Two agents at one relay.
#[derive(Default)]
pub(crate) struct Relay(OnceLock<FakeRelay>);

struct Keys(SigningKey, SealingKey);

#[async_trait]
impl Keyring for Keys {
    fn signing(&self) -> &SigningKey {
        &self.0
    }
    fn sealing(&self) -> &SealingKey {
        &self.1
    }
    async fn enc_pub_of(&self, _peer: &Did) -> Option<String> {
        None
    }
}

fn keys(n: u8) -> Keys {
    let seed = Seed::from_bytes([n; 32]);
    Keys(SigningKey::from_seed(&seed), SealingKey::from_seed(&seed))
}

#[async_trait]
impl Rig for Relay {
    async fn pair(&self) -> (Arc<dyn Transport>, Arc<dyn Transport>, PeerAddress) {
        let relay = FakeRelay::start().await;
        let times = RelayTimes { answer_wait: Duration::from_secs(25), ..RelayTimes::default() };
        let transport = |keys| {
            let http = Arc::new(HttpTransport::client(ClientTimeouts::default()));
            RelayTransport::new(Arc::new(keys), http, times.clone())
        };
        let relay_url = || relay.url.clone();
        let place = Place { relay: relay_url(), policy: Policy::Owner, epoch: Epoch::new(1, 1), poll_only: false };
        let mailbox = MailboxAddress {
            relay: relay_url(),
            allow_private: true,
            enc_pub: keys(2).1.enc_pub(),
            enc_pub_pq: Some(keys(2).1.enc_pub_pq()),
        };
        let peer = PeerAddress { did: Some(keys(2).0.did().clone()), mailbox: Some(mailbox), ..PeerAddress::default() };
        self.0.set(relay).ok().unwrap();
        (Arc::new(transport(keys(2)).at(place, None)), Arc::new(transport(keys(1))), peer)
    }

    async fn listening(&self) {
        let south = keys(2).0.did().clone();
        self.0.get().unwrap().until(|state| state.is_listening(&south)).await;
    }
}
