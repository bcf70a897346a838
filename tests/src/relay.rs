//! A running `muretai relay serve`, and what can be asked of it from outside.
use std::{net::SocketAddr, path::PathBuf};

use serde_json::Value;

use crate::{Connection, Home, Response, resident::Resident, serve::url_of, wait};

/// A relay process on loopback with a home of its own; killed by its id when dropped.
pub struct RelayProcess {
    process: Option<Resident>,
    home: Home,
    args: Vec<String>,
    /// Its public base, the first line on stdout.
    pub url: String,
    /// The bound address.
    pub addr: SocketAddr,
}

impl std::ops::Deref for RelayProcess {
    type Target = Resident;

    fn deref(&self) -> &Resident {
        self.process.as_ref().expect("the relay runs")
    }
}

impl RelayProcess {
    /// Starts `muretai relay serve --listen 127.0.0.1:0 ARGS` and waits for its URL.
    pub fn start(args: &[&str]) -> RelayProcess {
        RelayProcess::start_in(Home::new(), args)
    }

    /// The same in this home, where its file is when `args` do not say otherwise.
    pub fn start_in(home: Home, args: &[&str]) -> RelayProcess {
        RelayProcess::try_start(home, args).unwrap_or_else(|err| panic!("the relay did not start: {err}"))
    }

    /// The same; what it said on stderr when it ended instead.
    pub fn try_start(home: Home, args: &[&str]) -> Result<RelayProcess, String> {
        let mut command = home.command(["relay", "serve", "--json", "--listen", "127.0.0.1:0"]);
        command.args(args);
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        RelayProcess::spawn(home, command, args)
    }

    /// Starts a prepared command with `--json`, such as one that is pinned to a core.
    pub fn spawn(home: Home, command: std::process::Command, args: Vec<String>) -> Result<RelayProcess, String> {
        // Behind a balancer the URL is not where it listens.
        let mut process = Resident::spawn("the relay", command);
        let line = process.first_line()?;
        let bound: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let addr = bound["listen"].as_str().and_then(|addr| addr.parse().ok()).expect("it prints where it listens");
        Ok(RelayProcess { process: Some(process), home, args, url: url_of(&line), addr })
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        self.process.take().expect("the relay runs").kill();
    }

    /// Asks it to stop and waits; exit code and stderr.
    pub fn stop(&mut self, signal: &str) -> (i32, String) {
        self.process.take().expect("the relay runs").stop(signal)
    }

    /// Starts it again at the same address, with the same store.
    pub fn restart(&mut self) {
        assert!(self.process.is_none(), "the relay runs");
        let mut command = self.home.command(["relay", "serve", "--json", "--listen", &self.addr.to_string()]);
        command.args(&self.args);
        let mut process = Resident::spawn("the relay", command);
        process.first_line().unwrap_or_else(|err| panic!("the relay did not start again: {err}"));
        self.process = Some(process);
    }

    /// The folder of its SQLite file.
    pub fn store(&self) -> PathBuf {
        self.home.root().join("relay")
    }

    /// All bytes of its SQLite file and of what lies beside it.
    pub fn stored_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for entry in std::fs::read_dir(self.store()).unwrap() {
            bytes.extend(std::fs::read(entry.unwrap().path()).unwrap());
        }
        bytes
    }

    /// One request on a connection of its own.
    pub fn request(&self, method: &str, path: &str, body: &[u8]) -> Response {
        Connection::open(self.addr).request(method, path, &[], body)
    }

    /// Whether somebody listens for a DID.
    pub fn is_online(&self, did: &str) -> bool {
        self.request("GET", &format!("/presence/{did}"), b"").json()["online"] == Value::Bool(true)
    }

    /// Waits until somebody listens for a DID.
    pub fn wait_for_listener(&self, did: &str) {
        wait::until("a listener at the relay", || self.is_online(did).then_some(()));
    }

    /// A figure of `/metrics`, by its whole name with labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let page = self.request("GET", "/metrics", b"").text();
        page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// Letters that wait in all mailboxes, by its SQLite file.
    pub fn letters(&self) -> u64 {
        self.count("SELECT count(*) FROM letters")
    }

    /// Letters that wait in one mailbox, by its SQLite file.
    pub fn letters_for(&self, did: &str) -> u64 {
        self.count(&format!("SELECT count(*) FROM letters, mailboxes WHERE mailboxes.id = mailbox AND did = '{did}'"))
    }

    fn count(&self, statement: &str) -> u64 {
        crate::home::query(&self.store().join("relay.db"), statement, |row| sqlx::Row::get::<i64, _>(row, 0) as u64)[0]
    }
}
