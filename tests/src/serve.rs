//! A running `muretai serve`.
use std::net::SocketAddr;

use serde_json::Value;

pub use crate::resident::cpu_time;
use crate::{Connection, Home, Response, http, resident::Resident, rpc};

/// A resident process on loopback; killed by its id when dropped.
pub struct Serve {
    process: Resident,
    /// The public base, the first line on stdout.
    pub url: String,
    /// The bound address.
    pub addr: SocketAddr,
    /// Its DID.
    pub did: String,
}

impl std::ops::Deref for Serve {
    type Target = Resident;

    fn deref(&self) -> &Resident {
        &self.process
    }
}

impl std::ops::DerefMut for Serve {
    fn deref_mut(&mut self) -> &mut Resident {
        &mut self.process
    }
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
    pub fn spawn(command: std::process::Command) -> Result<Serve, String> {
        let mut process = Resident::spawn("serve", command);
        let url = url_of(&process.first_line()?);
        let addr = address_of(&url);
        let did = card_did(addr);
        Ok(Serve { process, url, addr, did })
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

    /// Asks it to stop, waits, gives its exit code and stderr.
    pub fn stop(self, signal: &str) -> (i32, String) {
        self.process.stop(signal)
    }

    /// Ends it without a chance to clean up.
    pub fn kill(self) {
        self.process.kill();
    }
}

/// The URL in a first line, plain or as an object.
pub fn url_of(line: &str) -> String {
    match serde_json::from_str::<Value>(line) {
        Ok(object) => object["url"].as_str().expect("it prints its url").to_owned(),
        Err(_) => line.to_owned(),
    }
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
