//! The relay and the relay transport of this workspace, one against the other.
use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use muretai_protocol::{
    Did, json,
    relay::Epoch,
    sealed::SealingKey,
    sign::{Seed, SigningKey},
};
use muretai_transports::{
    ClientTimeouts, Delivery, Document, Incoming, MailboxAddress, Outcome, PeerAddress, Service, Stop, Transport,
    TransportError, Way,
    guard::Policy,
    http::HttpTransport,
    relay::{Drained, Keyring, ListenEvent, Place, RelayTimes, RelayTransport, Watcher},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::rig::{Running, key};

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

fn sealing(n: u8) -> SealingKey {
    SealingKey::from_seed(&Seed::from_bytes([n; 32]))
}

fn transport(n: u8, answer_wait: Duration) -> RelayTransport {
    let http = HttpTransport::client(ClientTimeouts::default());
    let times = RelayTimes { answer_wait, min_pause: Duration::from_millis(10), ..RelayTimes::default() };
    RelayTransport::new(Arc::new(Keys(key(n), sealing(n))), Arc::new(http), times)
}

fn place(relay: &Running, epoch: u64) -> Place {
    Place { relay: relay.url.clone(), policy: Policy::Owner, epoch: Epoch::new(epoch, 1), poll_only: false }
}

async fn deliver(relay: &Running, from: &RelayTransport, to: u8, id: &str) -> Result<Delivery, TransportError> {
    let mailbox = MailboxAddress {
        relay: relay.url.clone(),
        allow_private: true,
        enc_pub: sealing(to).enc_pub(),
        // The post-quantum key is slow to make without optimisation, and these are many letters.
        enc_pub_pq: (!id.contains('-')).then(|| sealing(to).enc_pub_pq()),
    };
    let peer = PeerAddress { did: Some(key(to).did().clone()), mailbox: Some(mailbox), ..PeerAddress::default() };
    from.deliver(&from.route(&peer).unwrap(), request(id)).await
}

fn request(id: &str) -> Bytes {
    let message = json!({"messageId": (id)});
    json!({"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": (message)}}).to_json().into()
}

/// Counts, and says so.
struct Inbox(watch::Sender<Vec<(Bytes, bool)>>);

#[async_trait]
impl Service for Inbox {
    async fn call(&self, request: Incoming) -> Outcome {
        let is_call = request.way == Way::RelayCall;
        self.0.send_modify(|heard| heard.push((request.body, is_call)));
        Outcome { status: 200, body: Bytes::from_static(b"{}") }
    }
    async fn document(&self, _path: &str) -> Option<Document> {
        None
    }
}

fn inbox() -> Arc<Inbox> {
    Arc::new(Inbox(watch::Sender::default()))
}

/// Listens as agent 2, and waits until the relay knows.
async fn listen(
    relay: &Running,
    epoch: u64,
    poll_only: bool,
    inbox: Arc<Inbox>,
    stop: Stop,
) -> tokio::task::JoinHandle<Result<(), TransportError>> {
    let (told, mut events) = mpsc::unbounded_channel();
    let watcher: Watcher = Arc::new(move |event| drop(told.send(event.clone())));
    let at = transport(2, Duration::ZERO).at(Place { poll_only, ..place(relay, epoch) }, Some(watcher));
    let task = tokio::spawn(async move { at.listen(inbox, stop).await });
    while events.recv().await.unwrap() != ListenEvent::Connected {}
    task
}

#[tokio::test]
async fn letters_come_by_stream_and_by_poll_and_answers_go_back() {
    for poll_only in [false, true] {
        let relay = Running::start().await;
        let (inbox, stop) = (inbox(), Stop::new());
        let task = listen(&relay, 1, poll_only, Arc::clone(&inbox), stop.clone()).await;
        let letter = deliver(&relay, &transport(1, Duration::ZERO), 2, "m1").await.unwrap();
        assert!(matches!(letter, Delivery::Queued(_)));
        inbox.0.subscribe().wait_for(|heard| heard.len() == 1).await.unwrap();
        let call = deliver(&relay, &transport(1, Duration::from_secs(20)), 2, "m2").await.unwrap();
        assert!(matches!(call, Delivery::Answered(body) if &body[..] == b"{}"));
        assert_eq!(*inbox.0.borrow(), [(request("m1"), false), (request("m2"), true)]);
        stop.stop();
        task.await.unwrap().unwrap();
        let left = transport(2, Duration::ZERO).at(place(&relay, 2), None).drain(inbox).await.unwrap();
        assert_eq!(left, Drained::default(), "everything was acknowledged");
        relay.end().await;
    }
}

#[tokio::test]
async fn a_thousand_letters_are_drained() {
    let relay = Running::start().await;
    let mut senders = JoinSet::new();
    let relay = Arc::new(relay);
    for from in 10..15 {
        let relay = Arc::clone(&relay);
        senders.spawn(async move {
            let transport = transport(from, Duration::ZERO);
            for n in 0..200 {
                deliver(&relay, &transport, 2, &format!("{from}-{n}")).await.unwrap();
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent.unwrap();
    }
    let inbox = inbox();
    let at = transport(2, Duration::ZERO).at(place(&relay, 1), None);
    let drained = at.drain(Arc::clone(&inbox) as _).await.unwrap();
    assert_eq!(drained, Drained { handled: 1_000, ..Drained::default() });
    for from in 10..15 {
        let expected: Vec<Bytes> = (0..200).map(|n| request(&format!("{from}-{n}"))).collect();
        let heard = inbox.0.borrow();
        let of_sender = heard.iter().map(|(body, _)| body.clone()).filter(|body| expected.contains(body));
        assert_eq!(of_sender.collect::<Vec<_>>(), expected, "in order");
    }
    assert_eq!(at.drain(inbox).await.unwrap(), Drained::default());
}

#[tokio::test]
async fn of_two_listeners_the_newer_stays() {
    for poll_only in [false, true] {
        let relay = Running::start().await;
        let older = listen(&relay, 1, poll_only, inbox(), Stop::new()).await;
        let (inbox, stop) = (inbox(), Stop::new());
        let newer = listen(&relay, 2, poll_only, Arc::clone(&inbox), stop.clone()).await;
        assert!(matches!(older.await.unwrap(), Err(TransportError::Superseded { .. })));
        deliver(&relay, &transport(1, Duration::ZERO), 2, "m1").await.unwrap();
        inbox.0.subscribe().wait_for(|heard| heard.len() == 1).await.unwrap();
        stop.stop();
        newer.await.unwrap().unwrap();
        relay.end().await;
    }
}
