//! What the tests of this crate share: agents in temporary homes, and peers made of raw sockets that can misbehave.
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use muretai_protocol::{
    Did, MessageId, UnixSeconds,
    card::{self, CardSpec, Profile},
    introduction::{self, IntroductionSpec},
    json::{self, Object, Value},
    message::{self, Draft, Role},
    sign::{Seed, SigningKey},
};
use muretai_store::{
    contacts::{Contact, CoordinateSource, Coordinates, Introduce},
    introductions::{IntroductionRow, IntroductionStatus, Role as StoredRole},
};
use muretai_transports::{ClientTimeouts, http::HttpTransport};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::{Agent, Home, agent::now};

pub(crate) mod post;
pub(crate) mod relay;

/// An agent in a temporary home.
pub(crate) struct Owned {
    pub(crate) agent: Agent,
    pub(crate) home: tempfile::TempDir,
}

pub(crate) async fn agent(name: &str) -> Owned {
    let home = tempfile::tempdir().unwrap();
    let agent = agent_in(&Home::at(home.path()), name).await;
    Owned { agent, home }
}

pub(crate) async fn agent_in(home: &Home, name: &str) -> Agent {
    let dir = home.dir_for(name).unwrap();
    std::fs::create_dir_all(&dir.path).unwrap();
    let timeouts = ClientTimeouts { connect: Duration::from_secs(5), total: Duration::from_secs(10) };
    Agent::open(dir, &seed_of(name), HttpTransport::client(timeouts)).await.unwrap()
}

/// The seed of an agent, by its name.
pub(crate) fn seed_of(name: &str) -> Seed {
    Seed::from_bytes([name.bytes().fold(name.len() as u8, |a, b| a.wrapping_mul(31).wrapping_add(b)); 32])
}

/// A key that is not the agent's.
pub(crate) fn key(byte: u8) -> SigningKey {
    SigningKey::from_seed(&Seed::from_bytes([byte; 32]))
}

/// A request as a fake peer saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    /// The JSON-RPC request.
    pub(crate) fn rpc(&self) -> Value {
        json::parse(&self.body).unwrap()
    }

    pub(crate) fn message(&self) -> Value {
        self.rpc().member("params").unwrap().member("message").unwrap().clone()
    }

    pub(crate) fn message_id(&self) -> String {
        self.message().member("messageId").unwrap().as_str().unwrap().to_owned()
    }
}

/// What a fake peer does with a request.
pub(crate) enum Act {
    /// Answers: status, further head lines, body.
    Answer(u16, &'static str, String),
    /// Closes the connection without a word.
    Drop,
    /// Keeps the connection open and says nothing.
    Silence,
}

impl Act {
    pub(crate) fn json(value: &Value) -> Act {
        Act::Answer(200, "Content-Type: application/json\r\n", value.to_json())
    }

    pub(crate) fn status(status: u16) -> Act {
        Act::Answer(status, "", String::new())
    }

    pub(crate) fn html() -> Act {
        Act::Answer(200, "Content-Type: text/html\r\n", "<!doctype html><title>x</title>".to_owned())
    }
}

/// A server on loopback that answers with what `act` says, one request per connection.
pub(crate) struct Fake {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Fake {
    /// `act` gets the server's base URL, the request and its number, from 0.
    pub(crate) async fn start(act: impl Fn(&str, &Seen, usize) -> Act + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (base, log) = (url.clone(), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = read_request(&mut stream).await else { continue };
                let number = {
                    let mut log = log.lock().unwrap();
                    log.push(request.clone());
                    log.len() - 1
                };
                match act(&base, &request, number) {
                    Act::Drop => {}
                    Act::Silence => open.push(stream),
                    Act::Answer(status, head, body) => {
                        let body = body.replacen(SAME_ID, &request_id(&request), 1);
                        let length = body.len();
                        let text = format!(
                            "HTTP/1.1 {status} X\r\n{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                        );
                        let _ = stream.write_all(text.as_bytes()).await;
                        let _ = stream.shutdown().await;
                    }
                }
            }
        });
        Fake { url, seen, task }
    }

    /// The requests so far, oldest first.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn posts(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method == "POST").collect()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length.unwrap_or(0) {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    let mut words = head.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(Seen { method, path, head, body })
}

/// The card of a key at a base URL.
pub(crate) fn card_of(key: &SigningKey, url: &str) -> Value {
    card::build(&CardSpec {
        did: key.did(),
        name: "south",
        description: "a test",
        url,
        version: "0.0.0",
        profile: &Profile::default(),
        enc_pub: None,
        enc_pub_pq: None,
        relay: None,
        open_door: true,
        methods: &["message/send"],
        skills: &[],
        trust: card::TrustFacts::default(),
    })
}

/// What an honest peer says to a GET: its card on both paths, and the envelope beside it.
pub(crate) fn documents(key: &SigningKey, base: &str, seen: &Seen) -> Act {
    let card = card_of(key, base);
    match seen.path.as_str() {
        "/.well-known/agent-card.json" | "/.well-known/agent.json" => Act::json(&card),
        "/.well-known/agent-card.sig.json" => Act::json(&card::sign_envelope(key, &card, now()).unwrap()),
        _ => Act::status(404),
    }
}

/// What a reply says, so that a test can change one thing.
pub(crate) struct ReplyDraft {
    pub(crate) to: String,
    pub(crate) context_id: Option<String>,
    pub(crate) text: String,
    pub(crate) timestamp: UnixSeconds,
    pub(crate) extra: Object,
}

/// The honest reply to a request, unsigned as yet.
pub(crate) fn reply_to(seen: &Seen, text: &str) -> ReplyDraft {
    let message = seen.message();
    let member = |value: &Value, key: &str| value.member(key).and_then(Value::as_str).map(str::to_owned);
    let mut extra = Object::new();
    extra.insert("replyTo".to_owned(), seen.message_id().into());
    ReplyDraft {
        to: member(message.member("metadata").unwrap(), "from").unwrap(),
        context_id: member(&message, "contextId"),
        text: text.to_owned(),
        timestamp: now(),
        extra,
    }
}

impl ReplyDraft {
    pub(crate) fn sign(&self, key: &SigningKey) -> Value {
        let message_id = MessageId::from_random(crate::agent::random());
        message::sign(
            key,
            &Draft {
                role: Role::Agent,
                to: &self.to,
                message_id: &message_id,
                context_id: self.context_id.as_deref(),
                text: &self.text,
                timestamp: self.timestamp,
                extra: self.extra.clone(),
            },
        )
    }
}

/// Stands for the id of the request that is answered; [`Fake`] puts it in.
const SAME_ID: &str = r#""the request's id""#;

/// The id of a JSON-RPC request, as JSON.
fn request_id(request: &Seen) -> String {
    let frame = json::parse(&request.body).ok();
    frame.and_then(|frame| frame.member("id").map(Value::to_json)).unwrap_or_else(|| "null".to_owned())
}

/// A JSON-RPC result, under the id of the request.
pub(crate) fn result(value: &Value) -> Act {
    let mut frame = Object::new();
    frame.insert("jsonrpc".to_owned(), "2.0".into());
    frame.insert("id".to_owned(), "the request's id".into());
    frame.insert("result".to_owned(), value.clone());
    Act::json(&frame.into())
}

/// A JSON-RPC error, under the id of the request; `data` is JSON text.
pub(crate) fn refusal(code: i64, message: &str, data: &str) -> Act {
    let message = Value::from(message).to_json();
    let error = format!(r#"{{"code":{code},"message":{message},"data":{data}}}"#);
    let text = format!(r#"{{"jsonrpc":"2.0","id":{SAME_ID},"error":{error}}}"#);
    Act::Answer(200, "Content-Type: application/json\r\n", text)
}

/// Makes a key at a URL a contact named `south`, as a claim would.
pub(crate) async fn befriend(agent: &Agent, did: &Did, url: Option<&str>) -> Contact {
    let introduce = Introduce {
        did: did.clone(),
        peer_name: Some("south".to_owned()),
        own_name: None,
        coordinates: Coordinates { url: url.map(str::to_owned), relay: None, enc_pub: None, enc_pub_pq: None },
        source: CoordinateSource::Invite,
        allow_private: true,
        now: now(),
    };
    agent.store().connect(&introduce).await.unwrap()
}

/// Gives an agent an introduction to somebody at a URL, by a key that becomes its direct contact.
pub(crate) async fn offer(agent: &Agent, introducer: &SigningKey, target: &Did, url: &str) -> IntroductionRow {
    befriend(agent, introducer.did(), None).await;
    let row = introduction_row(introducer, StoredRole::Held, agent.did(), target);
    let who = Introduce {
        did: target.clone(),
        peer_name: None,
        own_name: None,
        coordinates: Coordinates::default(),
        source: CoordinateSource::Introducer,
        allow_private: false,
        now: now(),
    };
    agent.store().keep_held(&row, &who).await.unwrap();
    // A loopback address is dialled on the owner's word alone.
    let coordinates = Coordinates { url: Some(url.to_owned()), relay: None, enc_pub: None, enc_pub_pq: None };
    agent.store().update_coordinates(target, &coordinates, CoordinateSource::Owner).await.unwrap();
    row
}

/// An introduction that stands for a day, signed by `issuer`.
pub(crate) fn introduction_row(issuer: &SigningKey, role: StoredRole, subject: &Did, target: &Did) -> IntroductionRow {
    let (issued, valid_until) = (now(), UnixSeconds(now().0 + 86_400));
    let spec = IntroductionSpec {
        id: crate::agent::random(),
        subject,
        target,
        expertise: &["rust".to_owned()],
        trust_level_bp: 500,
        issued,
        valid_until,
        request: None,
        issuer_endpoint: None,
    };
    let vc = introduction::mint(issuer, &spec).unwrap();
    IntroductionRow {
        id: vc.member("id").unwrap().as_str().unwrap().to_owned(),
        role,
        issuer: issuer.did().clone(),
        subject: subject.clone(),
        target: target.clone(),
        status: IntroductionStatus::Pending,
        trust_level_bp: Some(500),
        expertise: vec!["rust".to_owned()],
        issued,
        valid_until,
        issuer_endpoint: None,
        is_requested: false,
        vc: vc.to_json(),
        created: issued,
        changed: issued,
    }
}

/// A lock file as a running `serve` of another agent in this home holds it.
pub(crate) fn serve_elsewhere(owned: &Owned, name: &str, url: &str) -> std::fs::File {
    let dir = Home::at(owned.home.path()).dir_for(name).unwrap();
    std::fs::create_dir_all(&dir.path).unwrap();
    let path = dir.path.join("serve.lock");
    std::fs::write(&path, format!("1\n{url}\n")).unwrap();
    let file = std::fs::File::open(path).unwrap();
    file.lock().unwrap();
    file
}
