//! What every transport must do, run against each of them on loopback. A transport is added as one [`Rig`].
#![allow(clippy::unwrap_used)]
#[path = "../relay/fake.rs"]
#[allow(dead_code)]
mod fake;
mod in_memory;
mod rigs;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use bytes::Bytes;
use muretai_transports::{
    Delivery, Document, Incoming, Outcome, PeerAddress, Service, Stop, Transport, TransportError,
};
use rigs::Rig;
use tokio::{sync::Notify, task::JoinSet};

/// Repeats what it hears and counts it.
#[derive(Default)]
struct Listener {
    heard: AtomicUsize,
    entered: Notify,
    release: Notify,
}

#[async_trait]
impl Service for Listener {
    async fn call(&self, request: Incoming) -> Outcome {
        self.heard.fetch_add(1, Ordering::SeqCst);
        if &request.body[..] == b"wait" {
            self.entered.notify_one();
            self.release.notified().await;
        }
        Outcome { status: 200, body: request.body }
    }

    async fn document(&self, _path: &str) -> Option<Document> {
        None
    }
}

/// Two ends, one of them listening until told to stop.
struct Pair {
    dialler: Arc<dyn Transport>,
    peer: PeerAddress,
    service: Arc<Listener>,
    stop: Stop,
    listening: tokio::task::JoinHandle<()>,
}

async fn pair(rig: &dyn Rig) -> Pair {
    let (listener, dialler, peer) = rig.pair().await;
    let (service, stop) = (Arc::new(Listener::default()), Stop::new());
    let listening = tokio::spawn({
        let (service, stop) = (Arc::clone(&service), stop.clone());
        async move { listener.listen(service, stop).await.unwrap() }
    });
    rig.listening().await;
    Pair { dialler, peer, service, stop, listening }
}

impl Pair {
    async fn say(&self, text: &[u8]) -> Result<Bytes, TransportError> {
        match self.deliver(text).await? {
            Delivery::Answered(body) => Ok(body),
            Delivery::Queued(_) => panic!("queued"),
        }
    }

    async fn deliver(&self, text: &[u8]) -> Result<Delivery, TransportError> {
        let route = self.dialler.route(&self.peer).expect("a route to the peer");
        self.dialler.deliver(&route, Bytes::copy_from_slice(text)).await
    }
}

async fn answers_come_back_byte_for_byte(rig: &dyn Rig) {
    let pair = pair(rig).await;
    let every_byte: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    for text in [&b"{}"[..], b"", "\u{feff}\u{1f980}".as_bytes(), &every_byte] {
        assert_eq!(pair.say(text).await.unwrap(), text);
    }
    assert_eq!(pair.service.heard.load(Ordering::SeqCst), 4);
}

async fn many_at_once_do_not_get_mixed_up(rig: &dyn Rig) {
    let pair = Arc::new(pair(rig).await);
    let mut tasks = JoinSet::new();
    for n in 0..32 {
        let pair = Arc::clone(&pair);
        tasks.spawn(async move {
            let text = format!("message {n}");
            assert_eq!(pair.say(text.as_bytes()).await.unwrap(), text);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(pair.service.heard.load(Ordering::SeqCst), 32);
}

async fn a_peer_without_address_has_no_route(rig: &dyn Rig) {
    let (_, dialler, _) = rig.pair().await;
    assert!(dialler.route(&PeerAddress::default()).is_none());
}

async fn routes_name_their_transport(rig: &dyn Rig) {
    let (_, dialler, peer) = rig.pair().await;
    assert_eq!(dialler.route(&peer).unwrap().transport, dialler.name());
}

async fn a_stop_finishes_what_is_under_way_and_then_nobody_is_there(rig: &dyn Rig) {
    let pair = Arc::new(pair(rig).await);
    let waiting = tokio::spawn({
        let pair = Arc::clone(&pair);
        async move { pair.say(b"wait").await }
    });
    pair.service.entered.notified().await;
    pair.stop.stop();
    pair.service.release.notify_one();
    assert_eq!(waiting.await.unwrap().unwrap(), &b"wait"[..]);
    while !pair.listening.is_finished() {
        tokio::task::yield_now().await;
    }
    match pair.deliver(b"late").await {
        // A relay keeps it for whoever comes.
        Ok(Delivery::Queued(_)) => {}
        Ok(Delivery::Answered(_)) => panic!("nobody was to answer"),
        Err(error) => assert!(error.is_unreachable(), "{error:?}"),
    }
    assert_eq!(pair.service.heard.load(Ordering::SeqCst), 1);
}

async fn a_dropped_call_disturbs_nobody(rig: &dyn Rig) {
    let pair = pair(rig).await;
    tokio::select! {
        _ = pair.say(b"wait") => panic!("it must wait"),
        () = pair.service.entered.notified() => {}
    }
    pair.service.release.notify_one();
    assert_eq!(pair.say(b"next").await.unwrap(), &b"next"[..]);
}

macro_rules! suite {
    ($($rig:ident: $value:expr),* ; $tests:tt) => { $(suite!(@rig $rig, $value, $tests);)* };
    (@rig $rig:ident, $value:expr, [$($test:ident),* $(,)?]) => {
        mod $rig {
            $(#[tokio::test]
            async fn $test() {
                super::$test(&$value).await;
            })*
        }
    };
}

suite! {
    http: crate::rigs::Http, memory: crate::rigs::Memory, relay: crate::rigs::Relay::default();
    [
        answers_come_back_byte_for_byte,
        many_at_once_do_not_get_mixed_up,
        a_peer_without_address_has_no_route,
        routes_name_their_transport,
        a_stop_finishes_what_is_under_way_and_then_nobody_is_there,
        a_dropped_call_disturbs_nobody,
    ]
}
