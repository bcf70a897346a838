//! A relay as it is run, and agents that fetch their mail there.
use std::{sync::Arc, time::Duration};

use muretai_relay::{Bounds, MetricsAccess, Relay, RelayOptions};
use muretai_store::mailboxes::{self, Quotas};
use muretai_transports::{
    Stop, Transport,
    guard::Policy,
    http::ServerLimits,
    relay::{ListenEvent, RelayTimes},
};
use tokio::sync::Notify;

use crate::{
    Agent,
    mail::{SyncRequest, Synced, place},
    receive::service::{Receiver, ReceiverOptions},
};

/// A relay on loopback that ends with the test.
pub(crate) struct Post {
    pub(crate) url: String,
    stop: Stop,
    _folder: tempfile::TempDir,
}

impl Post {
    pub(crate) async fn open() -> Post {
        let folder = tempfile::tempdir().unwrap();
        let quotas = Quotas::default();
        let store = mailboxes::open_sqlite(&folder.path().join("relay.db"), quotas.clone()).await.unwrap();
        let options = RelayOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            urls: Vec::new(),
            quotas,
            limits: ServerLimits::default(),
            bounds: Bounds::default(),
            metrics: MetricsAccess::Off,
        };
        let relay = Relay::bind(options, store).await.unwrap();
        let (url, stop) = (relay.url().to_owned(), Stop::new());
        tokio::spawn(relay.run(stop.clone()));
        Post { url, stop, _folder: folder }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// An agent that listens at a relay until this is dropped.
pub(crate) struct Listening(Stop);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Lets an agent listen at a relay, and waits until the relay has it as its listener.
pub(crate) async fn listen(agent: &Agent, relay: &str) -> Listening {
    let (stop, connected) = (Stop::new(), Arc::new(Notify::new()));
    let bell = Arc::clone(&connected);
    let watcher = move |event: &ListenEvent| {
        if *event == ListenEvent::Connected {
            bell.notify_one();
        }
    };
    let place = place(relay, Policy::Owner);
    let transport = agent.relay_transport(RelayTimes::default()).at(place, Some(Arc::new(watcher)));
    let receiver = Receiver::new(agent, &ReceiverOptions::default());
    let stopped = stop.clone();
    tokio::spawn(async move { transport.listen(Arc::new(receiver), stopped).await });
    connected.notified().await;
    Listening(stop)
}

/// Fetches what lies in an agent's mailboxes, and sends what is due: `inbox --sync`.
pub(crate) async fn sync(agent: &Agent) -> Vec<Synced> {
    let request = SyncRequest { timeout: Duration::from_secs(30), ..SyncRequest::default() };
    agent.sync_mail(&request, &ReceiverOptions::default(), Arc::new(|_| {})).await.unwrap()
}
