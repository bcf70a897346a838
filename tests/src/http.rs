//! HTTP/1.1 by hand over a socket: what curl would do, and what it never would.
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

use crate::wait::PATIENCE;

/// The card.
pub const CARD: &str = "/.well-known/agent-card.json";
/// The card, at its older address.
pub const OLD_CARD: &str = "/.well-known/agent.json";
/// The signed card envelope.
pub const SIGNED_CARD: &str = "/.well-known/agent-card.sig.json";

/// One connection; requests follow each other on it.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    host: String,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, chunks joined.
    pub body: Vec<u8>,
}

impl Connection {
    /// Connects.
    pub fn open(addr: SocketAddr) -> Connection {
        Connection::try_open(addr).unwrap_or_else(|| panic!("cannot connect to {addr}"))
    }

    /// Connects, when somebody listens there.
    pub fn try_open(addr: SocketAddr) -> Option<Connection> {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Some(Connection { stream, buffer: Vec::new(), host: addr.to_string() })
    }

    /// The raw socket.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Writes raw bytes. A peer that has hung up is no fault here: its answer may still be there to read.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Writes one request and reads its answer.
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let bytes = encode(&self.host, method, path, headers, body);
        self.write(&bytes);
        self.read(method == "HEAD")
    }

    /// Reads one answer.
    pub fn read(&mut self, is_head: bool) -> Response {
        self.try_read(is_head).expect("an HTTP answer")
    }

    /// Reads one answer; `None` when the peer closed or reset the connection instead.
    pub fn try_read(&mut self, is_head: bool) -> Option<Response> {
        let head = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head = self.buffer.drain(..end + 4).collect::<Vec<_>>();
                break String::from_utf8_lossy(&head).into_owned();
            }
            self.fill()?;
        };
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut response = Response { status, headers, body: Vec::new() };
        if (100..200).contains(&status) {
            return self.try_read(is_head);
        }
        if !is_head && status != 204 && status != 304 {
            response.body = self.body(&response)?;
        }
        Some(response)
    }

    fn body(&mut self, response: &Response) -> Option<Vec<u8>> {
        if response.header("transfer-encoding").is_some() {
            return self.chunks();
        }
        match response.header("content-length").and_then(|text| text.parse().ok()) {
            Some(length) => self.take(length),
            None => {
                while self.fill().is_some() {}
                Some(std::mem::take(&mut self.buffer))
            }
        }
    }

    fn chunks(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                match find(&self.buffer, b"\r\n") {
                    Some(end) => break end,
                    None => self.fill()?,
                }
            };
            let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
            let size = usize::from_str_radix(std::str::from_utf8(&line[..end]).ok()?.trim(), 16).ok()?;
            let chunk = self.take(size + 2)?;
            if size == 0 {
                return Some(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < length {
            self.fill()?;
        }
        Some(self.buffer.drain(..length).collect())
    }

    fn fill(&mut self) -> Option<()> {
        let mut chunk = [0; 16_384];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(read) => {
                    self.buffer.extend_from_slice(&chunk[..read]);
                    return Some(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("no answer within {PATIENCE:?}")
                }
                Err(_) => return None,
            }
        }
    }
}

impl Response {
    /// A header's value, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("HTTP {}, not JSON: {error}: {}", self.status, self.text()))
    }
}

/// The bytes of one request with a `Content-Length`, unless a header says how it is framed.
pub fn encode(host: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let is_framed = headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding"));
    if !is_framed && (!body.is_empty() || method == "POST") {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
