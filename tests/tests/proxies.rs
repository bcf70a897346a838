//! The proxies of docs/relay.md and README, as they stand there but for addresses, ports and certificates, in front of a
//! relay.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use muretai_tests::{
    Connection, Key, RelayProcess, binary,
    mail::{Mailbox, deposit, text_letter},
    resident::Resident,
    rpc, wait,
};
use serde_json::{Value, json};

/// Ports that are tried: one that was free may be taken a moment later.
const TRIES: usize = 5;
/// Nobody answers here.
const NOBODY: &str = "127.0.0.1:1";

/// A proxy in front of a relay.
struct Front {
    proxy: Resident,
    addr: SocketAddr,
    relay: RelayProcess,
    folder: tempfile::TempDir,
}

impl Front {
    /// Starts a relay that knows itself by the proxy's address, and the proxy with what `write` makes of both addresses.
    fn start(name: &'static str, write: impl Fn(&Path, SocketAddr, SocketAddr) -> Command) -> Front {
        for _ in 0..TRIES {
            let addr = free_address();
            // HAProxy sees that a listener has left when there is something to write to it.
            let relay = RelayProcess::start(&["--url", &format!("http://{addr}"), "--heartbeat", "1s"]);
            let folder = tempfile::tempdir().unwrap();
            let mut command = write(folder.path(), addr, relay.addr);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut proxy = Resident::spawn(name, command);
            let is_up = wait::until("the proxy to listen, or to end", || match Connection::try_open(addr) {
                Some(_) => Some(true),
                None => (!proxy.is_running()).then_some(false),
            });
            if is_up {
                return Front { proxy, addr, relay, folder };
            }
            eprintln!("{}", proxy.ended().1);
        }
        panic!("{name} does not start");
    }

    fn request(&self, method: &str, path: &str, body: &[u8]) -> muretai_tests::Response {
        Connection::open(self.addr).request(method, path, &[], body)
    }

    /// A listener behind the proxy.
    fn mailbox<'k>(&self, key: &'k Key) -> Mailbox<'k> {
        Mailbox::new(self.addr, &self.relay.url, key)
    }

    fn keep(&self, deposit: &Value) {
        let answer = self.request("POST", "/send", deposit.to_string().as_bytes());
        assert_eq!((answer.status, &answer.json()["queued"]), (200, &json!(true)), "{}", answer.text());
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Where a program is; `None`, with a printed skip, where it is not installed. In CI that is a fault.
fn program(name: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{name} is not installed (Debian package {package})");
        eprintln!("SKIP {name} is not installed (Debian package {package})");
    }
    found
}

/// The one block of this language in a page.
fn block(page: &str, language: &str) -> String {
    let text = fs::read_to_string(binary::workspace().join(page)).unwrap();
    let fence = format!("```{language}\n");
    let mut blocks = text.split(&fence).skip(1);
    let block = blocks.next().expect("the page has the block").split("```").next().unwrap().to_owned();
    assert!(blocks.next().is_none(), "the page has one such block");
    block
}

/// Exchanges what stands there once.
fn exchange(text: &str, old: &str, new: &str) -> String {
    assert_eq!(text.matches(old).count(), 1, "{old:?} in\n{text}");
    text.replace(old, new)
}

/// Whether a proxy has nothing against its configuration.
fn is_accepted(mut check: Command) {
    let done = check.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    let complains = ["warn", "emerg", "alert"].iter().any(|word| said.to_ascii_lowercase().contains(word));
    assert!(done.status.success() && !complains, "{said}");
}

/// nginx with this block, whose relays are all the one that there is.
fn nginx(program: &Path, block: &str) -> Front {
    Front::start("nginx", |folder, addr, relay| {
        let mut block = exchange(block, "listen 443 ssl;", &format!("listen {addr};"));
        for example in ["127.0.0.1:8421", "127.0.0.1:8431", "127.0.0.1:8432", "127.0.0.1:8433"] {
            block = block.replace(example, &relay.to_string());
        }
        let place = folder.display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {place}/{what};\n"))
            .concat();
        let text = format!(
            "daemon off;\nmaster_process off;\npid {place}/pid;\nerror_log stderr warn;\nevents {{}}\n\
             http {{\naccess_log off;\n{temporary}{block}}}\n"
        );
        let file = folder.join("nginx.conf");
        fs::write(&file, text).unwrap();
        let mut command = Command::new(program);
        command.args(["-e", "stderr", "-p"]).arg(folder).arg("-c").arg(&file);
        let mut check = Command::new(program);
        check.args(["-t", "-e", "stderr", "-p"]).arg(folder).arg("-c").arg(&file);
        is_accepted(check);
        command
    })
}

/// HAProxy with this block: the first relay is the one that there is, at the others nobody answers.
fn haproxy(program: &Path, block: &str) -> Front {
    Front::start("HAProxy", |folder, addr, relay| {
        let mut block = exchange(block, "bind :443 ssl crt /etc/haproxy/relay.pem", &format!("bind {addr}"));
        block = exchange(&block, "10.0.0.1:8421", &relay.to_string());
        for example in ["10.0.0.2:8421", "10.0.0.3:8421"] {
            block = exchange(&block, example, NOBODY);
        }
        // What the block asks for beyond that is this machine's to give.
        let global = format!("global\n    stats socket {}/stats mode 600\n\n", folder.display());
        let file = folder.join("haproxy.cfg");
        fs::write(&file, global + &block).unwrap();
        let mut check = Command::new(program);
        check.args(["-c", "-f"]).arg(&file);
        is_accepted(check);
        let mut command = Command::new(program);
        command.args(["-db", "-f"]).arg(&file);
        command
    })
}

/// How HAProxy found a relay when it looked last.
fn health(front: &Front, server: &str) -> String {
    let mut socket = UnixStream::connect(front.folder.path().join("stats")).unwrap();
    socket.write_all(b"show stat\n").unwrap();
    let mut table = String::new();
    socket.read_to_string(&mut table).unwrap();
    let mut lines = table.lines().map(|line| line.trim_start_matches("# ").split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let column = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let row = lines.find(|row| row.get(column("svname")) == Some(&server)).unwrap();
    format!("{} {}", row[column("status")], row[column("check_status")])
}

/// Everything that agents do, through the proxy.
fn serves(front: &Front) {
    let (north, south) = (Key::of(1), Key::of(2));
    let letter = |text: &str| text_letter(&north, south.did(), &south.enc_pub(), text);
    assert_eq!(front.request("GET", "/health", b"").json()["status"], "ok");
    // To the relay the proxy is on loopback, and speaks for others.
    assert_eq!(front.request("GET", "/metrics", b"").status, 404);
    assert_eq!(front.relay.request("GET", "/metrics", b"").status, 200);

    let mailbox = front.mailbox(&south);
    front.keep(&letter("it waits"));
    let items = mailbox.items();
    assert_eq!(rpc::text_of(&mailbox.open(&items[0])["params"]["message"]), "it waits");
    assert_eq!(mailbox.ack(&[items[0]["qid"].clone()]).json()["acked"], 1);

    // A poll that waits is answered when something comes.
    let woken = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| mailbox.poll(20).json());
        wait::until("the poll to wait", || (front.relay.metric("muretai_relay_polls_waiting")? > 0.0).then_some(()));
        front.keep(&letter("it comes"));
        waiting.join().unwrap()
    });
    assert_eq!(woken["items"].as_array().unwrap().len(), 1, "{woken}");
    assert_eq!(mailbox.ack(&[woken["items"][0]["qid"].clone()]).json()["acked"], 1);

    stream_is_not_held_back(front, &letter);
    large_ones_pass(front, &north, &south);
}

/// Each event arrives while the answer goes on; a listener that leaves the proxy leaves the relay.
fn stream_is_not_held_back(front: &Front, letter: &dyn Fn(&str) -> Value) {
    let south = Key::of(2);
    let mailbox = front.mailbox(&south);
    let mut stream = mailbox.stream();
    stream.wait_until_open();
    for text in ["one", "two", "three"] {
        front.keep(&letter(text));
        let (event, item) = stream.next_event().expect("the stream goes on");
        assert_eq!(event, "letter");
        assert_eq!(rpc::text_of(&mailbox.open(&item)["params"]["message"]), text);
        assert_eq!(mailbox.ack(&[item["qid"].clone()]).json()["acked"], 1);
    }
    let newer = front.mailbox(&south);
    assert_eq!(newer.items().len(), 0);
    assert_eq!(stream.next_event().expect("it is told").0, "superseded");
    assert_eq!(mailbox.poll(0).status, 409);
    let mut stream = newer.stream();
    stream.wait_until_open();
    stream.wait_until_open(); // a sign of life is no less
    drop(stream);
    wait::until("the relay to know that nobody listens", || {
        (front.relay.metric("muretai_relay_streams_waiting")? == 0.0).then_some(())
    });
}

/// As large as a deposit may be, in both directions; what is larger is refused by the relay.
fn large_ones_pass(front: &Front, north: &Key, south: &Key) {
    let around = deposit(north, south.did(), "").to_string().len();
    let largest = "A".repeat((1_048_576 - around) / 4 * 4);
    let body = deposit(north, south.did(), &largest).to_string();
    assert!((1_048_573..=1_048_576).contains(&body.len()), "{}", body.len());
    let answer = front.request("POST", "/send", body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mailbox = front.mailbox(south);
    let items = mailbox.items();
    assert_eq!(items[0]["blob"], largest);
    assert_eq!(mailbox.ack(&[items[0]["qid"].clone()]).json()["acked"], 1);
    let answer =
        front.request("POST", "/send", deposit(north, south.did(), &(largest + "AAAA")).to_string().as_bytes());
    assert_eq!(answer.status, 413);
    assert!(answer.json()["error"].is_object() || answer.json()["error"].is_string(), "{}", answer.text());
}

#[test]
fn nginx_as_documented_serves_agents() {
    let Some(program) = program("nginx", "nginx-light") else { return };
    for page in ["docs/relay.md", "README.md"] {
        let front = nginx(&program, &block(page, "nginx"));
        serves(&front);
        assert_eq!(front.proxy.stop("TERM").0, 0);
    }
}

#[test]
fn haproxy_as_documented_serves_agents_and_looks_after_its_relays() {
    let Some(program) = program("haproxy", "haproxy") else { return };
    let mut front = haproxy(&program, &block("docs/relay.md", "haproxy"));
    let found = |front: &Front, server: &str, status: &str| {
        wait::until(&format!("{server} to be found {status}"), || (health(front, server) == status).then_some(()));
    };
    found(&front, "relay1", "UP L7OK");
    found(&front, "relay2", "DOWN L4CON");
    found(&front, "relay3", "DOWN L4CON");
    serves(&front);
    // One that ends is found, and found again.
    assert_eq!(front.relay.stop("TERM").0, 0);
    found(&front, "relay1", "DOWN L4CON");
    assert_eq!(front.request("GET", "/health", b"").status, 503);
    front.relay.restart();
    found(&front, "relay1", "UP L7OK");
    serves(&front);
}
