//! A running relay, and a client that sends exactly what it is told.
use std::{
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use muretai_protocol::{
    UnixSeconds,
    json::{self, Object, Value},
    relay::{Batch, Deposit, listen_token, minute_of},
    sign::{Seed, SigningKey},
};
use muretai_relay::{Bounds, MetricsAccess, Relay, RelayError, RelayOptions};
use muretai_store::mailboxes::{Quotas, open_sqlite};
use muretai_transports::{Stop, http::ServerLimits};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    task::JoinHandle,
};

/// A generous limit for what comes at once.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn key(n: u8) -> SigningKey {
    SigningKey::from_seed(&Seed::from_bytes([n; 32]))
}

pub(crate) fn options() -> RelayOptions {
    RelayOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        urls: Vec::new(),
        quotas: Quotas::default(),
        limits: ServerLimits { max_connections: 512, ..ServerLimits::default() },
        bounds: Bounds::default(),
        metrics: MetricsAccess::Loopback,
    }
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) url: String,
    stop: Stop,
    served: JoinHandle<Result<(), RelayError>>,
    folder: TempDir,
}

impl Running {
    pub(crate) async fn start() -> Running {
        Running::with(options()).await
    }

    pub(crate) async fn with(options: RelayOptions) -> Running {
        Running::at(options, TempDir::new().unwrap()).await
    }

    async fn at(options: RelayOptions, folder: TempDir) -> Running {
        let store = open_sqlite(&folder.path().join("relay.db"), options.quotas.clone()).await.unwrap();
        let relay = Relay::bind(options, store).await.unwrap();
        let (address, url, stop) = (relay.local_addr(), relay.url().to_owned(), Stop::new());
        let served = tokio::spawn(relay.run(stop.clone()));
        Running { address, url, stop, served, folder }
    }

    /// Stops it and waits until it has ended.
    pub(crate) async fn end(self) -> TempDir {
        self.stop.stop();
        self.served.await.unwrap().unwrap();
        self.folder
    }

    pub(crate) fn say_stop(&self) {
        self.stop.stop();
    }

    /// Another relay on the same file.
    pub(crate) async fn restart(self, options: RelayOptions) -> Running {
        let folder = self.end().await;
        Running::at(options, folder).await
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.raw(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Answer {
        self.raw(&post_bytes(path, body.as_ref())).await
    }

    pub(crate) async fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        Answer::read(&answer)
    }

    pub(crate) async fn send(&self, from: u8, to: u8, id: &str) {
        let answer = self.post("/send", deposit(from, to, id, "AAAA").to_json()).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, format!(r#"{{"id":"{id}","queued":true}}"#).as_str()));
    }

    pub(crate) fn listen_target(&self, of: u8, epoch: &str, wait: u64) -> String {
        let (minute, token) = self.token(of);
        let token = token.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        format!("/listen?did={}&minute={minute}&epoch={epoch}&token={token}&wait={wait}", key(of).did())
    }

    pub(crate) fn token(&self, of: u8) -> (i64, String) {
        let minute = minute_of(now());
        (minute, listen_token(&key(of), minute, &muretai_protocol::urls::origin(&self.url)))
    }

    pub(crate) async fn ids(&self, of: u8, epoch: &str) -> Vec<String> {
        let answer = self.get(&self.listen_target(of, epoch, 0)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let batch = Batch::read(answer.body.as_bytes()).unwrap();
        batch.items.into_iter().map(|item| item.unwrap().id).collect()
    }

    pub(crate) fn proof(&self, of: u8, epoch: &str, more: &[(&str, Value)]) -> String {
        let (minute, token) = self.token(of);
        let mut body = Object::new();
        body.insert("did".to_owned(), key(of).did().as_str().into());
        body.insert("minute".to_owned(), minute.into());
        body.insert("epoch".to_owned(), epoch.into());
        body.insert("token".to_owned(), token.into());
        for (name, value) in more {
            body.insert((*name).to_owned(), value.clone());
        }
        Value::from(body).to_json()
    }

    pub(crate) async fn stream(&self, of: u8, epoch: &str) -> Events {
        let mut events = Events::open(self, &self.listen_target(of, epoch, 0)).await;
        assert!(events.line().await.unwrap().starts_with("HTTP/1.1 200"));
        while !events.line().await.unwrap().is_empty() {}
        assert_eq!(events.line().await.as_deref(), Some(": ok"));
        events
    }
}

pub(crate) fn now() -> UnixSeconds {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    UnixSeconds(i64::try_from(since.as_secs()).unwrap())
}

pub(crate) fn deposit(from: u8, to: u8, id: &str, blob: &str) -> Deposit {
    Deposit::sign(&key(from), key(to).did(), &"ab".repeat(32), id, blob.to_owned())
}

pub(crate) fn post_bytes(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    fn read(answer: &[u8]) -> Answer {
        let text = String::from_utf8(answer.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn code(&self) -> i64 {
        let body = json::parse(self.body.as_bytes()).unwrap();
        body.member("error").and_then(|error| error.member("code")).and_then(Value::as_i64).unwrap()
    }
}

/// The listener's end of a stream.
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
}

impl Events {
    pub(crate) async fn open(relay: &Running, target: &str) -> Events {
        let mut stream = TcpStream::connect(relay.address).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Events { lines: BufReader::new(stream) }
    }

    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = tokio::time::timeout(LIMIT, self.lines.read_line(&mut line)).await.expect("nothing came");
        (read.unwrap_or(0) > 0).then(|| line.trim_end().to_owned())
    }

    /// The next event's name and data; comments are passed over.
    pub(crate) async fn event(&mut self) -> Option<(String, String)> {
        let (mut name, mut data) = (String::new(), String::new());
        loop {
            let line = self.line().await?;
            match line.split_once(": ") {
                Some(("event", value)) => name = value.to_owned(),
                Some(("data", value)) => data = value.to_owned(),
                _ if line.is_empty() && !name.is_empty() => return Some((name, data)),
                _ => {}
            }
        }
    }

    pub(crate) async fn letter(&mut self) -> String {
        let (name, data) = self.event().await.unwrap();
        assert_eq!(name, "letter");
        let item = json::parse(data.as_bytes()).unwrap();
        item.member("id").and_then(Value::as_str).unwrap().to_owned()
    }
}
