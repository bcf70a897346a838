//! What the transport tests share: a service that answers, a server on loopback, and raw connections to it.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use muretai_transports::{
    ClientTimeouts, Document, Incoming, Outcome, Service, Stop, Transport,
    http::{HttpTransport, ServerLimits},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
    task::JoinHandle,
};

/// More than the sockets of one connection hold.
pub(crate) const LARGE: usize = 32 * 1_048_576;

/// Answers with what it got. Some bodies make it misbehave.
#[derive(Default)]
pub(crate) struct Echo {
    /// A body of `wait` is answered once this is told.
    pub(crate) release: Notify,
    /// Told when a body of `wait` has come.
    pub(crate) entered: Notify,
}

#[async_trait]
impl Service for Echo {
    async fn call(&self, request: Incoming) -> Outcome {
        assert!(request.remote.is_some());
        match &request.body[..] {
            b"panic" => panic!("on request"),
            b"wait" => {
                self.entered.notify_one();
                self.release.notified().await;
            }
            b"bad" => return Outcome { status: 400, body: Bytes::from_static(b"{}") },
            b"large" => {
                self.entered.notify_one();
                return Outcome { status: 200, body: vec![b'x'; LARGE].into() };
            }
            _ => {}
        }
        let body = match request.a2a_version {
            Some(version) => format!("version {version}").into(),
            None => request.body,
        };
        Outcome { status: 200, body }
    }

    async fn document(&self, path: &str) -> Option<Document> {
        let (content_type, text) = match path {
            "" => ("text/plain; charset=utf-8", "notice"),
            ".well-known/agent-card.json" | ".well-known/agent.json" => {
                ("application/json; charset=utf-8", r#"{"name":"south"}"#)
            }
            "i/known" => ("text/plain", "invite"),
            _ => return None,
        };
        let link = path.is_empty().then(|| "</.well-known/agent-card.json>; rel=\"service-desc\"".to_owned());
        Some(Document { content_type, body: Bytes::from_static(text.as_bytes()), link })
    }
}

/// A running server; dropped, it is gone.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) stop: Stop,
    pub(crate) service: Arc<Echo>,
    pub(crate) task: JoinHandle<()>,
}

pub(crate) async fn start(mount: &str, limits: ServerLimits) -> Running {
    start_at("127.0.0.1:0", mount, limits).await
}

pub(crate) async fn start_at(address: &str, mount: &str, limits: ServerLimits) -> Running {
    let client = HttpTransport::client(ClientTimeouts::default());
    let transport = client.bind(address.parse().unwrap(), mount, limits).await.unwrap();
    let address = transport.local_addr().unwrap();
    let (stop, service) = (Stop::new(), Arc::new(Echo::default()));
    let task = tokio::spawn({
        let (stop, service) = (stop.clone(), Arc::clone(&service));
        async move { transport.listen(service, stop).await.unwrap() }
    });
    Running { address, stop, service, task }
}

/// A connection on which tests write what they like.
pub(crate) struct Raw<S = TcpStream> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
}

/// One parsed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Raw {
    pub(crate) async fn connect(server: &Running) -> Raw {
        Raw::of(TcpStream::connect(server.address).await.unwrap())
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }
}

impl<S: AsyncRead + Unpin> Raw<S> {
    pub(crate) fn of(stream: S) -> Raw<S> {
        Raw { stream, buffer: Vec::new() }
    }

    /// The next answer; `None` when the connection ended before one began.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        self.answer_to(false).await
    }

    pub(crate) async fn answer_to(&mut self, is_head: bool) -> Option<Answer> {
        let head_len = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if self.read_more().await == 0 {
                assert!(self.buffer.is_empty(), "half an answer: {:?}", String::from_utf8_lossy(&self.buffer));
                return None;
            }
        };
        let head = String::from_utf8(self.buffer.drain(..head_len).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<_> =
            lines.map(|line| line.split_once(": ").unwrap()).map(|(k, v)| (k.to_lowercase(), v.to_owned())).collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        let len = answer.header("content-length").map_or(0, |value| value.parse().unwrap());
        if !is_head {
            while self.buffer.len() < len {
                assert_ne!(self.read_more().await, 0, "half a body");
            }
            answer.body = self.buffer.drain(..len).collect();
        }
        Some(answer)
    }

    /// Says whether the peer has closed, with nothing more to read.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && self.read_more().await == 0
    }

    async fn read_more(&mut self) -> usize {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(len) => len,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sends one request on a connection of its own.
pub(crate) async fn ask(server: &Running, text: &str) -> Answer {
    let mut raw = Raw::connect(server).await;
    raw.send(text).await;
    raw.answer_to(text.starts_with("HEAD")).await.expect("an answer")
}

pub(crate) fn post(body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

pub(crate) fn short() -> Duration {
    Duration::from_millis(40)
}
