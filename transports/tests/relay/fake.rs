//! A small relay in memory. Honest by itself: signatures, tokens, epochs and acknowledgements are as in section 9. A test
//! can put an answer of its own in front of any path, change the clock, or have everything handed out again.
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use muretai_protocol::{
    Did, UnixSeconds,
    json::{Object, Value, parse},
    relay::{Deposit, Item, verify_token},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{oneshot, watch},
    task::{JoinHandle, JoinSet},
};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: HashMap<String, String>,
    pub(crate) accept: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        parse(&self.body).unwrap()
    }

    /// A member of the body, or of the query.
    fn text(&self, name: &str) -> String {
        if let Some(value) = self.query.get(name) {
            return value.clone();
        }
        let body = self.json();
        let member = body.member(name).unwrap();
        member.as_str().map_or_else(|| member.to_json(), str::to_owned)
    }
}

/// What a test has the relay say.
#[derive(Debug, Clone)]
pub(crate) enum Script {
    /// A status, headers and a body.
    Answer(u16, &'static str, String),
    /// These bytes as they are; then the connection is closed.
    Raw(Vec<u8>),
    /// These bytes as they are; then nothing, on an open connection.
    Hold(Vec<u8>),
    /// The connection is closed without a word.
    Cut,
    /// The honest answer.
    Honest,
}

/// The head of an event stream, and its first comment.
pub(crate) const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: ok\n\n";

pub(crate) fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

pub(crate) fn json_answer(status: u16, body: &str) -> Script {
    Script::Answer(status, "content-type: application/json\r\n", body.to_owned())
}

#[derive(Debug)]
struct Stored {
    to: String,
    item: Item,
    is_handed_out: bool,
}

#[derive(Default)]
pub(crate) struct State {
    letters: Vec<Stored>,
    last_qid: u64,
    epochs: HashMap<String, String>,
    listeners: HashMap<String, usize>,
    waiting: HashMap<String, oneshot::Sender<String>>,
    scripts: HashMap<String, VecDeque<Script>>,
    cards: HashMap<String, Value>,
    pub(crate) log: Vec<Seen>,
    pub(crate) acked: Vec<String>,
    /// Seconds that this relay is ahead of the machine.
    pub(crate) ahead_secs: i64,
    pub(crate) knows_no_streams: bool,
    /// Hands out whatever is not acknowledged, each time.
    pub(crate) repeats: bool,
}

pub(crate) struct FakeRelay {
    pub(crate) url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    origin: String,
}

impl Drop for FakeRelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeRelay {
    pub(crate) async fn start() -> FakeRelay {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Shared { state: Mutex::default(), changed: watch::Sender::new(0), origin: url.clone() };
        let shared = Arc::new(shared);
        let task = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                // Dropped with the relay, so that connections end with it.
                let mut connections = JoinSet::new();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    connections.spawn(Arc::clone(&shared).serve(stream));
                }
            }
        });
        FakeRelay { url, shared, task }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// The next requests to this path are answered so, one after the other.
    pub(crate) fn script(&self, path: &str, scripts: impl IntoIterator<Item = Script>) {
        self.state().scripts.entry(path.to_owned()).or_default().extend(scripts);
    }

    /// Stores an item as it is, whoever it is said to be from. Returns its number.
    pub(crate) fn store(&self, to: &Did, item: Item) -> String {
        let qid = self.shared.store(to.as_str(), item);
        self.shared.tell();
        qid
    }

    /// Has everything handed out again that is not acknowledged.
    pub(crate) fn redeliver(&self) {
        self.state().letters.iter_mut().for_each(|letter| letter.is_handed_out = false);
        self.shared.tell();
    }

    pub(crate) fn letters(&self) -> usize {
        self.state().letters.len()
    }

    pub(crate) fn requests(&self, path: &str) -> Vec<Seen> {
        self.state().log.iter().filter(|seen| seen.path == path).cloned().collect()
    }

    /// Waits until something holds of the state.
    pub(crate) async fn until(&self, holds: impl Fn(&State) -> bool) {
        let mut changed = self.shared.changed.subscribe();
        while !holds(&self.state()) {
            changed.changed().await.unwrap();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn tell(&self) {
        self.changed.send_modify(|n| *n += 1);
    }

    fn store(&self, to: &str, item: Item) -> String {
        let mut state = self.state();
        state.last_qid += 1;
        let qid = if item.qid.is_empty() { format!("q{}", state.last_qid) } else { item.qid.clone() };
        let item = Item { qid: qid.clone(), ..item };
        state.letters.push(Stored { to: to.to_owned(), item, is_handed_out: false });
        qid
    }

    async fn serve(self: Arc<Shared>, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        while let Some(seen) = read_request(&mut stream, &mut buffer).await {
            let script = {
                let mut state = self.state();
                state.log.push(seen.clone());
                state.scripts.get_mut(&seen.path).and_then(VecDeque::pop_front).unwrap_or(Script::Honest)
            };
            self.tell();
            let (status, headers, body) = match script {
                Script::Answer(status, headers, body) => (status, headers, body),
                Script::Raw(bytes) => return drop(stream.write_all(&bytes).await),
                Script::Hold(bytes) => {
                    let _ = stream.write_all(&bytes).await;
                    return std::future::pending().await;
                }
                Script::Cut => return,
                Script::Honest if self.streams(&seen) => return self.stream(&seen, stream).await,
                Script::Honest => {
                    let (status, body) = self.answer(&seen).await;
                    (status, "content-type: application/json\r\n", body)
                }
            };
            let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n", body.len());
            if stream.write_all((head + &body).as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn streams(&self, seen: &Seen) -> bool {
        seen.path == "/listen"
            && seen.accept == "text/event-stream"
            && !self.state().knows_no_streams
            && self.admit(seen).is_none()
    }

    async fn answer(&self, seen: &Seen) -> (u16, String) {
        match (seen.method.as_str(), seen.path.as_str()) {
            ("POST", "/send") => self.deposit(seen, false).await,
            ("POST", "/rpc") => self.deposit(seen, true).await,
            ("GET", "/listen") => self.poll(seen).await,
            ("POST", "/ack") => self.ack(seen),
            ("POST", "/reply") => self.reply(seen),
            ("POST", "/card") => {
                let card = seen.json();
                let did = card.member("card").unwrap().member("did").unwrap().as_str().unwrap().to_owned();
                self.state().cards.insert(did, card);
                (200, r#"{"ok":true}"#.to_owned())
            }
            ("GET", path) if path.starts_with("/card/") => match self.state().cards.get(&path[6..]) {
                Some(card) => (200, card.to_json()),
                None => (404, r#"{"error":"no such card"}"#.to_owned()),
            },
            ("GET", path) if path.starts_with("/presence/") => {
                let online = self.state().listeners.get(&path[10..]).is_some_and(|listeners| *listeners > 0);
                (200, format!(r#"{{"did":"{}","online":{online},"lastSeen":7}}"#, &path[10..]))
            }
            _ => (404, r#"{"error":{"code":-32601,"message":"no such path"}}"#.to_owned()),
        }
    }

    async fn deposit(&self, seen: &Seen, waits: bool) -> (u16, String) {
        let deposit = match Deposit::read(&seen.body) {
            Ok(deposit) if deposit.is_signed() => deposit,
            Ok(_) => return (403, r#"{"error":{"code":-32001,"message":"bad signature"}}"#.to_owned()),
            Err(error) => return (400, format!(r#"{{"error":{{"code":-32602,"message":"{error}"}}}}"#)),
        };
        let to = deposit.to.as_str().to_owned();
        let waits = waits && self.state().listeners.get(&to).is_some_and(|listeners| *listeners > 0);
        let qid = self.store(
            &to,
            Item {
                qid: String::new(),
                id: deposit.id.clone(),
                from: deposit.from.as_str().to_owned(),
                from_enc: deposit.from_enc,
                blob: deposit.blob,
                ts: 1_784_273_700,
                waits,
            },
        );
        let queued = format!(r#"{{"queued":true,"id":"{}"}}"#, deposit.id);
        if !waits {
            self.tell();
            return (200, queued);
        }
        let (sender, reply) = oneshot::channel();
        self.state().waiting.insert(qid, sender);
        self.tell();
        match reply.await {
            Ok(reply) => (200, format!(r#"{{"queued":true,"reply":"{reply}"}}"#)),
            Err(_) => (200, queued),
        }
    }

    /// Checks token and epoch. `Some` is a refusal.
    fn admit(&self, seen: &Seen) -> Option<(u16, String)> {
        let (did, epoch) = (seen.text("did"), seen.text("epoch"));
        let mut state = self.state();
        let now = UnixSeconds(unix_now() + state.ahead_secs);
        let minute = seen.text("minute").parse().unwrap();
        let parsed: Did = did.parse().unwrap();
        if !verify_token(&parsed, minute, &self.origin, &seen.text("token"), now) {
            let now = now.0;
            return Some((
                401,
                format!(r#"{{"error":{{"code":-32001,"message":"bad token","data":{{"now":{now}}}}}}}"#),
            ));
        }
        if state.epochs.get(&did).is_some_and(|known| *known > epoch) {
            return Some((409, superseded()));
        }
        if state.epochs.get(&did) != Some(&epoch) {
            state.letters.iter_mut().filter(|letter| letter.to == did).for_each(|letter| letter.is_handed_out = false);
            state.epochs.insert(did, epoch);
            drop(state);
            self.tell();
        }
        None
    }

    fn is_superseded(&self, seen: &Seen) -> bool {
        self.state().epochs.get(&seen.text("did")) != Some(&seen.text("epoch"))
    }

    /// At most a hundred letters that are not handed out, and whether there are more.
    fn take(&self, did: &str) -> (Vec<Item>, bool) {
        let mut state = self.state();
        let repeats = state.repeats;
        let mut open = state.letters.iter_mut().filter(|letter| letter.to == did && (repeats || !letter.is_handed_out));
        let items = open
            .by_ref()
            .take(100)
            .map(|letter| {
                letter.is_handed_out = true;
                letter.item.clone()
            })
            .collect();
        let more = open.next().is_some();
        (items, more)
    }

    async fn poll(&self, seen: &Seen) -> (u16, String) {
        if let Some(refusal) = self.admit(seen) {
            return refusal;
        }
        let did = seen.text("did");
        let _listening = self.listening(&did);
        let mut changed = self.changed.subscribe();
        loop {
            if self.is_superseded(seen) {
                return (409, superseded());
            }
            let (items, more) = self.take(&did);
            if !items.is_empty() || seen.text("wait") == "0" {
                let items: Vec<Value> = items.iter().map(Item::to_value).collect();
                let mut body = Object::new();
                body.insert("items".to_owned(), Value::Array(items));
                body.insert("more".to_owned(), more.into());
                return (200, Value::from(body).to_json());
            }
            changed.changed().await.unwrap();
        }
    }

    async fn stream(&self, seen: &Seen, mut stream: TcpStream) {
        let did = seen.text("did");
        let _listening = self.listening(&did);
        let mut changed = self.changed.subscribe();
        if stream.write_all(STREAM.as_bytes()).await.is_err() {
            return;
        }
        loop {
            if self.is_superseded(seen) {
                return drop(stream.write_all(event("superseded", &superseded()).as_bytes()).await);
            }
            for item in self.take(&did).0 {
                if stream.write_all(event("letter", &item.to_value().to_json()).as_bytes()).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                changed = changed.changed() => changed.unwrap(),
                read = stream.read_u8() => return drop(read),
            }
        }
    }

    fn listening(&self, did: &str) -> Listening<'_> {
        *self.state().listeners.entry(did.to_owned()).or_default() += 1;
        self.tell();
        Listening { shared: self, did: did.to_owned() }
    }

    fn ack(&self, seen: &Seen) -> (u16, String) {
        if let Some(refusal) = self.admit(seen) {
            return refusal;
        }
        let body = seen.json();
        let qids = body.member("qids").unwrap().as_array().unwrap();
        let mut state = self.state();
        for qid in qids {
            let qid = qid.as_str().unwrap();
            state.letters.retain(|letter| letter.item.qid != qid);
            state.waiting.remove(qid);
            state.acked.push(qid.to_owned());
        }
        drop(state);
        self.tell();
        (200, format!(r#"{{"acked":{}}}"#, qids.len()))
    }

    fn reply(&self, seen: &Seen) -> (u16, String) {
        if let Some(refusal) = self.admit(seen) {
            return refusal;
        }
        let waiting = self.state().waiting.remove(&seen.text("qid"));
        let is_delivered = waiting.is_some_and(|waiting| waiting.send(seen.text("blob")).is_ok());
        (200, format!(r#"{{"delivered":{is_delivered}}}"#))
    }
}

struct Listening<'a> {
    shared: &'a Shared,
    did: String,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        if let Some(listeners) = self.shared.state().listeners.get_mut(&self.did) {
            *listeners -= 1;
        }
        self.shared.tell();
    }
}

impl State {
    pub(crate) fn is_listening(&self, did: &Did) -> bool {
        self.listeners.get(did.as_str()).is_some_and(|listeners| *listeners > 0)
    }
}

fn superseded() -> String {
    r#"{"error":{"code":-32030,"message":"superseded"}}"#.to_owned()
}

fn unix_now() -> i64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs().try_into().unwrap()
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Seen> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer.drain(..end).collect()).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let mut line = lines.next().unwrap().split(' ');
    let (method, target) = (line.next().unwrap().to_owned(), line.next().unwrap());
    let headers: HashMap<String, String> =
        lines.map(|line| line.split_once(": ").unwrap()).map(|(k, v)| (k.to_lowercase(), v.to_owned())).collect();
    assert!(headers["user-agent"].starts_with("muretai-rs/"));
    let len: usize = headers.get("content-length").map_or(0, |len| len.parse().unwrap());
    while buffer.len() < len {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Some(Seen {
        method,
        path: path.to_owned(),
        query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        accept: headers.get("accept").cloned().unwrap_or_default(),
        body: buffer.drain(..len).collect(),
    })
}
