//! Sealed letters, deposits and listeners made by hand, so that each can be wrong in one place.
use std::{
    io::Read,
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicU64, Ordering},
};

use muretai_protocol::{
    Did,
    relay::{deposit_payload, listen_payload},
    sealed::SealingKey,
    sign::Seed,
};
use serde_json::{Value, json};

use crate::{
    Connection, Key, RelayProcess, Response,
    rpc::{self, fresh_id},
    wait::PATIENCE,
};

impl Key {
    /// The key that seals and opens its letters.
    pub fn sealing(&self) -> SealingKey {
        SealingKey::from_seed(&Seed::from_bytes(self.seed()))
    }

    /// The public half of it, 64 hex digits.
    pub fn enc_pub(&self) -> String {
        self.sealing().enc_pub()
    }
}

/// Seals a JSON-RPC request for whoever has this key.
pub fn seal(from: &Key, to_enc: &str, request: &Value) -> String {
    seal_bytes(from, to_enc, request.to_string().as_bytes())
}

/// Seals any bytes.
pub fn seal_bytes(from: &Key, to_enc: &str, plain: &[u8]) -> String {
    // Never the same twice in this process, and not by accident in another: of the time.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&nanos.to_le_bytes());
    nonce[8..].copy_from_slice(&(NEXT.fetch_add(1, Ordering::Relaxed) as u32).to_le_bytes());
    from.sealing().seal(to_enc, plain, b"", nonce).unwrap()
}

/// A signed deposit with an id of its own.
pub fn deposit(from: &Key, to: &str, blob: &str) -> Value {
    deposit_as(from, to, &fresh_id(), blob)
}

/// A signed deposit.
pub fn deposit_as(from: &Key, to: &str, id: &str, blob: &str) -> Value {
    let sig = from.signing().sign_base64(deposit_payload(to, from.did(), id, blob).as_bytes());
    json!({"to": to, "from": from.did(), "from_enc": from.enc_pub(), "id": id, "blob": blob, "sig": sig})
}

/// A deposit that carries a signed text.
pub fn text_letter(from: &Key, to: &str, to_enc: &str, text: &str) -> Value {
    message_letter(from, to, to_enc, &from.message(to, text))
}

/// A deposit that carries a message object.
pub fn message_letter(from: &Key, to: &str, to_enc: &str, message: &Value) -> Value {
    deposit(from, to, &seal(from, to_enc, &rpc::send(message)))
}

/// The sealing key of an agent of a home.
pub fn enc_pub_of(home: &crate::Home, name: &str) -> String {
    let shown = home.run(["--as", name, "identity", "show", "--json"]).ok().json();
    shown["encPub"].as_str().expect("identity show --json has a sealing key").to_owned()
}

impl RelayProcess {
    /// `POST /send`.
    pub fn deposit(&self, deposit: &Value) -> Response {
        self.request("POST", "/send", deposit.to_string().as_bytes())
    }

    /// `POST /send`, which has to be taken.
    #[track_caller]
    pub fn keep(&self, deposit: &Value) {
        let response = self.deposit(deposit);
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.json()["queued"], true, "{}", response.text());
    }

    /// A listener of a key's mailbox, as new as can be.
    pub fn mailbox<'k>(&self, key: &'k Key) -> Mailbox<'k> {
        Mailbox::new(self.addr, &self.url, key)
    }
}

/// A listener by hand.
pub struct Mailbox<'k> {
    key: &'k Key,
    addr: SocketAddr,
    /// The origin that its tokens name.
    pub origin: String,
    /// Its epoch.
    pub epoch: String,
    /// How far its clock is from ours, in minutes.
    pub minutes_off: i64,
}

impl<'k> Mailbox<'k> {
    /// A listener at a relay.
    pub fn new(addr: SocketAddr, url: &str, key: &'k Key) -> Mailbox<'k> {
        // The later one is the greater one, also within a millisecond.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let millis = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
        let epoch = format!("{millis:013}-{:010}", NEXT.fetch_add(1, Ordering::Relaxed));
        Mailbox { key, addr, origin: muretai_protocol::urls::origin(url), epoch, minutes_off: 0 }
    }

    /// The same with tokens for another origin.
    pub fn with_origin(self, origin: &str) -> Mailbox<'k> {
        Mailbox { origin: origin.to_owned(), ..self }
    }

    /// The same listener, as it were, at whatever process this one is at.
    pub fn with_epoch(self, epoch: &str) -> Mailbox<'k> {
        Mailbox { epoch: epoch.to_owned(), ..self }
    }

    /// Minute, epoch and token of this moment.
    pub fn proof(&self) -> Value {
        let minute = rpc::now().div_euclid(60) + self.minutes_off;
        let token = self.key.signing().sign_base64(listen_payload(self.key.did(), minute, &self.origin).as_bytes());
        json!({"did": self.key.did(), "minute": minute, "epoch": self.epoch, "token": token})
    }

    /// The path of a poll.
    pub fn path(&self, wait_secs: u32) -> String {
        let proof = self.proof();
        let text = |name: &str| percent(proof[name].as_str().unwrap());
        format!(
            "/listen?did={}&minute={}&epoch={}&token={}&wait={wait_secs}",
            text("did"),
            proof["minute"],
            text("epoch"),
            text("token")
        )
    }

    /// One poll.
    pub fn poll(&self, wait_secs: u32) -> Response {
        Connection::open(self.addr).request("GET", &self.path(wait_secs), &[], b"")
    }

    /// The items that are there now.
    #[track_caller]
    pub fn items(&self) -> Vec<Value> {
        let response = self.poll(0);
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()["items"].as_array().expect("items").clone()
    }

    /// `POST` of a proof with further members.
    pub fn post(&self, path: &str, more: &Value) -> Response {
        let mut body = self.proof();
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        Connection::open(self.addr).request("POST", path, &[], body.to_string().as_bytes())
    }

    /// Acknowledges items.
    pub fn ack(&self, qids: &[Value]) -> Response {
        self.post("/ack", &json!({"qids": qids}))
    }

    /// All items of the mailbox, acknowledged one batch after the other.
    pub fn drain_raw(&self) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let items = self.items();
            if items.is_empty() {
                return all;
            }
            let qids: Vec<Value> = items.iter().map(|item| item["qid"].clone()).collect();
            assert_eq!(self.ack(&qids).status, 200);
            all.extend(items);
        }
    }

    /// The same, opened with the key that came with them.
    pub fn drain(&self) -> Vec<Value> {
        self.drain_raw().iter().map(|item| self.open(item)).collect()
    }

    /// What is in an item.
    #[track_caller]
    pub fn open(&self, item: &Value) -> Value {
        let (key, blob) = (item["from_enc"].as_str().unwrap(), item["blob"].as_str().unwrap());
        let plain = self.key.sealing().open(key, blob, b"").expect("the letter opens");
        serde_json::from_slice(&plain).expect("a letter is JSON")
    }

    /// Begins a stream; the head of the answer and what follows.
    pub fn stream(&self) -> Events {
        let mut connection = Connection::open(self.addr);
        let accept = [("Accept", "text/event-stream")];
        let request = crate::http::encode(&self.addr.to_string(), "GET", &self.path(0), &accept, b"");
        assert!(connection.write(&request));
        let stream = connection.stream().try_clone().unwrap();
        Events { stream, buffer: String::new() }
    }
}

/// The events of a stream.
pub struct Events {
    stream: TcpStream,
    buffer: String,
}

impl Events {
    /// The next event and its data; comments and the head of the answer are left out. `None` at the end.
    pub fn next_event(&mut self) -> Option<(String, Value)> {
        loop {
            let block = self.block()?;
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
            if let Some(event) = field("event: ").or(field("event:")) {
                let data = field("data: ").or(field("data:")).unwrap_or("null");
                return Some((event.to_owned(), serde_json::from_str(data).unwrap()));
            }
        }
    }

    /// Waits until the relay has taken us as the listener: its first comment.
    #[track_caller]
    pub fn wait_until_open(&mut self) {
        loop {
            let block = self.block().expect("the stream begins");
            if block.lines().any(|line| line.starts_with(':')) {
                return;
            }
            assert!(!block.starts_with("HTTP/1.1 ") || block.starts_with("HTTP/1.1 200"), "{block}");
        }
    }

    /// The next lines up to an empty one.
    fn block(&mut self) -> Option<String> {
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bytes = [0; 16_384];
        loop {
            let plain = self.buffer.replace("\r\n", "\n");
            if let Some(end) = plain.find("\n\n") {
                self.buffer = plain[end + 2..].to_owned();
                return Some(plain[..end].to_owned());
            }
            match self.stream.read(&mut bytes).unwrap_or(0) {
                0 => return None,
                read => self.buffer.push_str(std::str::from_utf8(&bytes[..read]).unwrap()),
            }
        }
    }
}

/// A value as it stands in a query.
pub fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut query, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            query.push(byte as char);
        } else {
            query.push_str(&format!("%{byte:02X}"));
        }
        query
    })
}

/// A DID as its type.
pub fn did(text: &str) -> Did {
    text.parse().expect("a DID")
}
