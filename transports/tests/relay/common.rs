//! Agents of the tests: their keys, and a service that remembers what it was handed.
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use muretai_protocol::{
    Did, json,
    relay::{Epoch, Item},
    sealed::SealingKey,
    sign::{Seed, SigningKey},
};
use muretai_transports::{
    ClientTimeouts, Delivery, Document, Incoming, MailboxAddress, Outcome, PeerAddress, Postmark, Service, Stop,
    Transport, TransportError, Unopened, Way,
    guard::Policy,
    http::HttpTransport,
    relay::{Keyring, ListenEvent, Place, RelayTimes, RelayTransport, Watcher},
};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
};

use crate::fake::FakeRelay;

pub(crate) struct Keys {
    pub(crate) signing: SigningKey,
    pub(crate) sealing: SealingKey,
    /// The keys that peers are known to have.
    known: HashMap<String, String>,
}

#[async_trait]
impl Keyring for Keys {
    fn signing(&self) -> &SigningKey {
        &self.signing
    }
    fn sealing(&self) -> &SealingKey {
        &self.sealing
    }
    async fn enc_pub_of(&self, peer: &Did) -> Option<String> {
        self.known.get(peer.as_str()).cloned()
    }
}

/// An agent that is named by one byte.
pub(crate) fn keys(n: u8) -> Keys {
    let seed = Seed::from_bytes([n; 32]);
    let (signing, sealing) = (SigningKey::from_seed(&seed), SealingKey::from_seed(&seed));
    Keys { signing, sealing, known: HashMap::new() }
}

pub(crate) fn keys_that_know(n: u8, peers: &[(u8, String)]) -> Keys {
    let known = peers.iter().map(|(peer, key)| (did(*peer).to_string(), key.clone())).collect();
    Keys { known, ..keys(n) }
}

pub(crate) fn did(n: u8) -> Did {
    keys(n).signing.did().clone()
}

pub(crate) fn enc_pub(n: u8) -> String {
    keys(n).sealing.enc_pub()
}

/// Short pauses: nothing here is waited for on purpose.
pub(crate) fn times() -> RelayTimes {
    let ms = Duration::from_millis;
    RelayTimes { min_pause: ms(1), max_pause: ms(20), ..RelayTimes::default() }
}

pub(crate) fn waiting() -> RelayTimes {
    RelayTimes { answer_wait: Duration::from_secs(25), ..times() }
}

pub(crate) fn transport_of(keys: Keys, times: RelayTimes) -> RelayTransport {
    let http = HttpTransport::client(ClientTimeouts::default());
    RelayTransport::new(Arc::new(keys), Arc::new(http), times)
}

pub(crate) fn transport(n: u8) -> RelayTransport {
    transport_of(keys(n), times())
}

pub(crate) fn place(relay: &FakeRelay, epoch: u64) -> Place {
    Place { relay: relay.url.clone(), policy: Policy::Owner, epoch: Epoch::new(epoch, 1), poll_only: false }
}

pub(crate) fn peer(n: u8, relay: &FakeRelay) -> PeerAddress {
    PeerAddress {
        did: Some(did(n)),
        mailbox: Some(MailboxAddress {
            relay: relay.url.clone(),
            allow_private: true,
            enc_pub: enc_pub(n),
            enc_pub_pq: None,
        }),
        ..PeerAddress::default()
    }
}

/// A request with a message of this id.
pub(crate) fn request(id: &str) -> Bytes {
    let message = json!({"messageId": (id)});
    let request = json!({"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": (message)}});
    Bytes::from(request.to_json())
}

pub(crate) async fn deliver(
    transport: &RelayTransport,
    peer: &PeerAddress,
    request: Bytes,
) -> Result<Delivery, TransportError> {
    transport.deliver(&transport.route(peer).expect("a route"), request).await
}

/// An item as an honest depositor's would be.
pub(crate) fn item(from: u8, to: u8, text: &str) -> Item {
    let blob = keys(from).sealing.seal(&enc_pub(to), text.as_bytes(), b"", [from; 12]).unwrap();
    Item {
        qid: String::new(),
        id: format!("id of {text}"),
        from: did(from).to_string(),
        from_enc: Some(enc_pub(from)),
        blob,
        ts: 1_784_273_700,
        waits: false,
    }
}

/// What a service was handed.
#[derive(Debug, Default, Clone)]
pub(crate) struct Heard {
    pub(crate) letters: Vec<(String, Way)>,
    pub(crate) unopened: Vec<Unopened>,
    pub(crate) unheard: Vec<(Postmark, Bytes)>,
    /// Answers that somebody heard.
    pub(crate) answered: Vec<Bytes>,
    /// Calls that were answered "not now".
    pub(crate) refused: Vec<String>,
}

impl Heard {
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.letters.iter().map(|(text, _)| text.as_str()).collect()
    }
}

/// Remembers, and answers `re: …`.
pub(crate) struct Inbox {
    heard: watch::Sender<Heard>,
    /// Texts that are refused so many times with 503.
    pub(crate) not_now: Mutex<HashMap<String, u32>>,
    /// Texts that wait for `release`; `entered` is told.
    slow: HashSet<&'static str>,
    pub(crate) entered: Notify,
    pub(crate) release: Notify,
}

pub(crate) fn inbox() -> Inbox {
    Inbox {
        heard: watch::Sender::default(),
        not_now: Mutex::default(),
        slow: HashSet::new(),
        entered: Notify::new(),
        release: Notify::new(),
    }
}

/// One that is slow to take a letter that says so.
pub(crate) fn slow_inbox() -> Inbox {
    Inbox { slow: ["slow"].into(), ..inbox() }
}

impl Inbox {
    pub(crate) fn heard(&self) -> Heard {
        self.heard.borrow().clone()
    }

    pub(crate) async fn until(&self, holds: impl Fn(&Heard) -> bool) -> Heard {
        self.heard.subscribe().wait_for(|heard| holds(heard)).await.unwrap().clone()
    }

    fn refuses(&self, text: &str) -> bool {
        let mut not_now = self.not_now.lock().unwrap();
        let Some(times) = not_now.get_mut(text).filter(|times| **times > 0) else { return false };
        *times -= 1;
        true
    }
}

#[async_trait]
impl Service for Inbox {
    async fn call(&self, request: Incoming) -> Outcome {
        let text = String::from_utf8_lossy(&request.body).into_owned();
        if self.slow.contains(text.as_str()) {
            self.entered.notify_one();
            self.release.notified().await;
        }
        if self.refuses(&text) {
            self.heard.send_modify(|heard| heard.refused.push(text));
            return Outcome { status: 503, body: Bytes::new() };
        }
        let body = Bytes::from(format!("re: {text}"));
        self.heard.send_modify(|heard| heard.letters.push((text, request.way)));
        Outcome { status: 200, body }
    }

    async fn document(&self, _path: &str) -> Option<Document> {
        None
    }

    async fn unopened(&self, letter: Unopened) -> bool {
        if self.refuses("unopened") {
            return false;
        }
        self.heard.send_modify(|heard| heard.unopened.push(letter));
        true
    }

    async fn heard(&self, _: &Postmark, _: &Bytes, answer: &Bytes) {
        self.heard.send_modify(|heard| heard.answered.push(answer.clone()));
    }

    async fn unheard(&self, postmark: &Postmark, answer: Bytes) -> bool {
        self.heard.send_modify(|heard| heard.unheard.push((postmark.clone(), answer)));
        true
    }
}

/// A listener that works until it is told to stop, and what it tells.
pub(crate) struct Working {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) stop: Stop,
    pub(crate) events: mpsc::UnboundedReceiver<ListenEvent>,
    pub(crate) task: JoinHandle<Result<(), TransportError>>,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn listen_with(transport: RelayTransport, place: Place, inbox: Inbox) -> Working {
    let (told, events) = mpsc::unbounded_channel();
    let watcher: Watcher = Arc::new(move |event| drop(told.send(event.clone())));
    let (inbox, stop) = (Arc::new(inbox), Stop::new());
    let transport = transport.at(place, Some(watcher));
    let task = tokio::spawn({
        let (inbox, stop) = (Arc::clone(&inbox), stop.clone());
        async move { transport.listen(inbox, stop).await }
    });
    Working { inbox, stop, events, task }
}

/// Agent 2 listens.
pub(crate) fn listen(relay: &FakeRelay) -> Working {
    listen_with(transport(2), place(relay, 1), inbox())
}

impl Working {
    /// Waits for an event that is like this, passing over others.
    pub(crate) async fn until(&mut self, is_it: impl Fn(&ListenEvent) -> bool) -> ListenEvent {
        loop {
            let event = self.events.recv().await.expect("the listener works");
            if is_it(&event) {
                return event;
            }
        }
    }

    pub(crate) async fn connected(&mut self) {
        self.until(|event| *event == ListenEvent::Connected).await;
    }

    /// The reason of the next loss.
    pub(crate) async fn lost(&mut self) -> String {
        match self.until(|event| matches!(event, ListenEvent::Lost { .. })).await {
            ListenEvent::Lost { why, .. } => why,
            _ => unreachable!(),
        }
    }

    pub(crate) async fn ended(&mut self) -> Result<(), TransportError> {
        (&mut self.task).await.unwrap()
    }
}
