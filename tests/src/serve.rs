//! A running `muretai serve`.
use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, ChildStdout},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use serde_json::Value;

use crate::{Connection, Home, Response, home, http, rpc, wait};

/// A resident process on loopback; killed by its id when dropped.
pub struct Serve {
    child: Child,
    /// The public base, the first line on stdout.
    pub url: String,
    /// The bound address.
    pub addr: SocketAddr,
    /// Its DID.
    pub did: String,
    err: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
    _out: BufReader<ChildStdout>,
}

impl Serve {
    /// Starts `muretai --as NAME serve --listen 127.0.0.1:0 ARGS` and waits for its URL.
    pub fn start(home: &Home, name: &str, args: &[&str]) -> Serve {
        let mut command = home.command(["--as", name, "serve"]);
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args(args);
        Serve::spawn(command).unwrap_or_else(|err| panic!("serve did not start: {err}"))
    }

    /// Starts a prepared command and waits for its URL; what it said on stderr when it ended instead.
    pub fn spawn(mut command: std::process::Command) -> Result<Serve, String> {
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let err = Arc::new(Mutex::new(Vec::new()));
        let reader = drain(child.stderr.take().unwrap(), Arc::clone(&err));
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let url = match serde_json::from_str::<Value>(&line) {
            Ok(object) => object["url"].as_str().expect("serve --json prints its url").to_owned(),
            Err(_) => line.trim_end().to_owned(),
        };
        if url.is_empty() {
            _ = child.wait();
            reader.join().unwrap();
            return Err(String::from_utf8_lossy(&err.lock().unwrap()).into_owned());
        }
        let addr = address_of(&url);
        let did = card_did(addr);
        Ok(Serve { child, url, addr, did, err, reader: Some(reader), _out: out })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A fresh connection.
    pub fn connect(&self) -> Connection {
        Connection::open(self.addr)
    }

    /// One request on a connection of its own.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.connect().request(method, path, headers, body)
    }

    /// POSTs bytes to the door.
    pub fn post(&self, body: &[u8]) -> Response {
        self.request("POST", "/", &[("Content-Type", "application/json")], body)
    }

    /// POSTs a JSON value to the door and reads the JSON answer.
    pub fn call(&self, request: &Value) -> Value {
        self.post(request.to_string().as_bytes()).json()
    }

    /// Sends a signed text and gives back the whole JSON-RPC answer.
    pub fn say(&self, key: &rpc::Key, text: &str) -> Value {
        self.call(&rpc::send(&key.message(&self.did, text)))
    }

    /// What it has written to stderr so far.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.err.lock().unwrap()).into_owned()
    }

    /// Resident memory in KiB (Linux).
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Processor time that it has used so far, in user mode and in the kernel (Linux).
    pub fn cpu_time(&self) -> [Duration; 2] {
        cpu_time(self.pid())
    }

    /// Asks it to stop, waits, gives its exit code and stderr.
    pub fn stop(mut self, signal: &str) -> (i32, String) {
        home::kill(self.pid(), signal);
        let status = wait::until("serve to stop", || self.child.try_wait().unwrap());
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (status.code().unwrap_or(-1), self.err())
    }

    /// Ends it without a chance to clean up.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
        if std::thread::panicking() {
            let err = self.err();
            if !err.is_empty() {
                eprintln!("serve said:\n{err}");
            }
        }
    }
}

fn drain(mut pipe: impl Read + Send + 'static, into: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read) = pipe.read(&mut buffer) {
            if read == 0 {
                break;
            }
            into.lock().unwrap().extend_from_slice(&buffer[..read]);
        }
    })
}

/// The socket address of a `http://HOST:PORT` URL of a loopback receiver.
pub fn address_of(url: &str) -> SocketAddr {
    let rest = url.strip_prefix("http://").unwrap_or_else(|| panic!("not a plain URL: {url:?}"));
    let host = rest.split('/').next().unwrap();
    host.parse().unwrap_or_else(|_| panic!("no loopback address in {url:?}"))
}

fn card_did(addr: SocketAddr) -> String {
    let card = Connection::open(addr).request("GET", http::CARD, &[], b"").json();
    card["did"].as_str().expect("the card has a did").to_owned()
}

/// Processor time that a process has used so far, in user mode and in the kernel.
pub fn cpu_time(pid: u32) -> [Duration; 2] {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // In ticks of 10 ms, the unit of this file on every Linux of today.
    let ticks = |at: usize| Duration::from_millis(10 * fields[at].parse::<u64>().unwrap());
    [ticks(11), ticks(12)]
}
