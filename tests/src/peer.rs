//! Peers that misbehave: servers on loopback, in the test's own process, that answer `send` as they are told.
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// A request as the peer read it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// `GET`, `POST`.
    pub method: String,
    /// The request target.
    pub path: String,
    /// The head, as it came.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

/// What the peer does with a request.
pub enum Act {
    /// Answers with a status, a content type and a body.
    Answer(u16, &'static str, Vec<u8>),
    /// Answers with these raw bytes.
    Raw(Vec<u8>),
    /// Redirects there.
    Redirect(String),
    /// Keeps the connection open and says nothing, until the peer is dropped.
    Silence,
    /// Sends the head of a long body, then one byte at a time, until the peer is dropped or the caller hangs up.
    Drip,
    /// Hangs up without a word.
    HangUp,
}

impl Act {
    /// Answers 200 with JSON.
    pub fn json(value: &serde_json::Value) -> Act {
        Act::Answer(200, "application/json", value.to_string().into_bytes())
    }
}

/// A server that does as its function says; ends when dropped.
pub struct Peer {
    /// Where it listens.
    pub addr: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

type Script = dyn Fn(&Seen, SocketAddr) -> Act + Send + Sync;

impl Peer {
    /// Starts it on a loopback port of its own.
    pub fn start(script: impl Fn(&Seen, SocketAddr) -> Act + Send + Sync + 'static) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (seen, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let script: Arc<Script> = Arc::new(script);
        let thread = std::thread::spawn({
            let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
            move || accept(&listener, &seen, &stop, &script)
        });
        Peer { addr, seen, stop, thread: Some(thread) }
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// How many requests of a method so far.
    pub fn count(&self, method: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|seen| seen.method == method).count()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        _ = TcpStream::connect(self.addr);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, seen: &Arc<Mutex<Vec<Seen>>>, stop: &Arc<AtomicBool>, script: &Arc<Script>) {
    let mut workers = Vec::new();
    for stream in listener.incoming() {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let Ok(stream) = stream else { continue };
        let (seen, stop, script) = (Arc::clone(seen), Arc::clone(stop), Arc::clone(script));
        workers.push(std::thread::spawn(move || converse(stream, &seen, &stop, &script)));
    }
    for worker in workers {
        _ = worker.join();
    }
}

fn converse(mut stream: TcpStream, seen: &Mutex<Vec<Seen>>, stop: &AtomicBool, script: &Arc<Script>) {
    _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
    let local = stream.local_addr().unwrap();
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer, stop) {
        seen.lock().unwrap().push(request.clone());
        let bytes = match script(&request, local) {
            Act::Answer(status, kind, body) => answer(status, &[("Content-Type", kind)], &body),
            Act::Raw(bytes) => bytes,
            Act::Redirect(to) => answer(307, &[("Location", &to)], b""),
            Act::HangUp => return,
            Act::Silence => return idle(&mut stream, stop, None),
            Act::Drip => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n";
                _ = stream.write_all(head.as_bytes());
                return idle(&mut stream, stop, Some(b' '));
            }
        };
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// Holds the connection until it is closed or the peer stops; sends `drip` now and then.
fn idle(stream: &mut TcpStream, stop: &AtomicBool, drip: Option<u8>) {
    let mut sink = [0; 1024];
    while !stop.load(Ordering::SeqCst) {
        match stream.read(&mut sink) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
        if let Some(byte) = drip
            && stream.write_all(&[byte]).is_err()
        {
            return;
        }
    }
}

fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>, stop: &AtomicBool) -> Option<Seen> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let length = content_length(&head);
            if buffer.len() >= end + 4 + length {
                let body = buffer[end + 4..end + 4 + length].to_vec();
                buffer.drain(..end + 4 + length);
                let mut words = head.split(' ');
                let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
                return Some(Seen { method, path, head, body });
            }
        }
        let mut chunk = [0; 16_384];
        match stream.read(&mut chunk) {
            Ok(0) => return None,
            Ok(read) => buffer.extend_from_slice(&chunk[..read]),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                if stop.load(Ordering::SeqCst) {
                    return None;
                }
            }
            Err(_) => return None,
        }
    }
}

fn content_length(head: &str) -> usize {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut bytes = (head + "\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
