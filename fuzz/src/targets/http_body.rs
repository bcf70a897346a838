//! A whole receiver, ladder, gate and store included: whatever the body is, it answers one JSON-RPC response.
use std::{path::Path, sync::LazyLock, time::Duration};

use muretai_node::{
    Agent,
    agent::now,
    home::AgentDir,
    receive::service::{Receiver, ReceiverOptions},
};
use muretai_protocol::{
    MessageId, json,
    json::{Object, Value, parse},
    message::{Draft, Role, sign},
    sign::{Seed, SigningKey},
};
use muretai_transports::{ClientTimeouts, Incoming, Service, Way, http::HttpTransport};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

static WORLD: LazyLock<World> = LazyLock::new(World::new);

/// Two receivers, one that answers strangers and one that does not, over stores in memory where there is a place for it.
struct World {
    runtime: Runtime,
    stranger: SigningKey,
    agent: Agent,
    door: Receiver,
    gated: Receiver,
    _folder: TempDir,
}

impl World {
    fn new() -> World {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.expect("a temporary folder can be made");
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
        let dir = AgentDir { name: "south".to_owned(), path: folder.path().to_owned() };
        let second = Duration::from_secs(1);
        let http = HttpTransport::client(ClientTimeouts { connect: second, total: second });
        let opened = runtime.block_on(Agent::open(dir, &Seed::from_bytes([2; 32]), http));
        let agent = opened.expect("a fresh store opens");
        let receiver = |open_door| {
            let url = "http://127.0.0.1:9000".to_owned();
            Receiver::new(&agent, &ReceiverOptions { url, open_door, ..ReceiverOptions::default() })
        };
        let stranger = SigningKey::from_seed(&Seed::from_bytes([1; 32]));
        World { stranger, door: receiver(true), gated: receiver(false), agent, runtime, _folder: folder }
    }

    /// Calls, checks the frame of the answer, and tells whether it is a result.
    fn call(&self, receiver: &Receiver, body: Vec<u8>, a2a_version: Option<&str>) -> bool {
        let request =
            Incoming { body: body.into(), a2a_version: a2a_version.map(str::to_owned), remote: None, way: Way::Call };
        let outcome = self.runtime.block_on(receiver.call(request));
        assert!(matches!(outcome.status, 200 | 400), "status {}", outcome.status);
        let answer = parse(&outcome.body).expect("an answer is JSON");
        assert_eq!(answer.member("jsonrpc").and_then(Value::as_str), Some("2.0"));
        assert!(answer.as_object().is_some_and(|answer| answer.contains_key("id")));
        let error = answer.member("error");
        assert_ne!(error.is_some(), answer.member("result").is_some(), "a result or an error");
        if let Some(error) = error {
            let code = error.member("code").and_then(Value::as_i64);
            assert!(code.is_some_and(|code| (-32_799..=-32_000).contains(&code)), "code {code:?}");
            assert!(code != Some(-32_603), "nothing in a body is our own fault");
        }
        error.is_none()
    }
}

/// Posts the data as a body, then as the text of a message that is properly signed.
pub fn run(data: &[u8]) {
    let world = &*WORLD;
    let a2a_version = match data.len() % 4 {
        0 => Some("1.0"),
        1 => Some("9"),
        _ => None,
    };
    for receiver in [&world.door, &world.gated] {
        assert!(!world.call(receiver, data.to_vec(), a2a_version), "nobody signed this");
    }
    // Storing is slow: one input in eight gets so far.
    if data.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) % 8 == 0 {
        let text = String::from_utf8_lossy(data);
        assert!(!world.call(&world.gated, world.honest_request(&text), None), "a stranger is not let in");
        assert!(world.call(&world.door, world.honest_request(&text), None), "an open door answers");
    }
}

impl World {
    fn honest_request(&self, text: &str) -> Vec<u8> {
        // A context id may have 1,024 bytes.
        let context_id: String = text.chars().take(1_024 / 4).collect();
        let draft = Draft {
            role: Role::User,
            to: self.agent.did().as_str(),
            message_id: &MessageId::from_random(muretai_node::agent::random()),
            context_id: Some(&context_id),
            text,
            timestamp: now(),
            extra: Object::new(),
        };
        let message = sign(&self.stranger, &draft);
        json!({"jsonrpc": "2.0", "id": (text), "method": "message/send", "params": {"message": (message)}})
            .to_json()
            .into_bytes()
    }
}
