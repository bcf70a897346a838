//! Signed requests made by hand, so that each can be wrong in one place.
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use muretai_protocol::{
    json as wire_json, message, phrase,
    sign::{self, Seed, SigningKey},
};
use serde_json::{Value, json};

/// A peer of the test's own.
pub struct Key {
    key: SigningKey,
    seed: [u8; 32],
}

impl Key {
    /// The key whose seed is this byte, 32 times.
    pub fn of(byte: u8) -> Key {
        Key::from_seed([byte; 32])
    }

    /// The `n`th of many keys.
    pub fn nth(n: u32) -> Key {
        let mut seed = [0x5a; 32];
        seed[..4].copy_from_slice(&n.to_be_bytes());
        Key::from_seed(seed)
    }

    /// The key of a seed.
    pub fn from_seed(seed: [u8; 32]) -> Key {
        Key { key: SigningKey::from_seed(&Seed::from_bytes(seed)), seed }
    }

    /// Its DID.
    pub fn did(&self) -> &str {
        self.key.did().as_str()
    }

    /// The key itself, for artifacts that the protocol crate signs.
    pub fn signing(&self) -> &SigningKey {
        &self.key
    }

    /// Its 24 words.
    pub fn phrase(&self) -> String {
        phrase::encode(&Seed::from_bytes(self.seed)).to_string()
    }

    /// Its seed, for the test that looks for it in every output.
    pub fn seed(&self) -> [u8; 32] {
        self.seed
    }

    /// A fresh, well-formed, signed message object.
    pub fn message(&self, to: &str, text: &str) -> Value {
        self.signed(&Fields { to: to.to_owned(), text: text.to_owned(), ..Fields::default() })
    }

    /// A message object of these fields, signed over what it says.
    pub fn signed(&self, fields: &Fields) -> Value {
        let from = fields.from.clone().unwrap_or_else(|| self.did().to_owned());
        let timestamp = fields.timestamp.clone();
        let token = wire_json::parse(timestamp.to_string().as_bytes()).expect("a JSON timestamp");
        let payload = message::signing_payload(
            &from,
            &fields.to,
            &fields.message_id,
            fields.context_id.as_deref(),
            &token,
            &fields.text,
        );
        json!({
            "kind": "message", "role": fields.role, "messageId": fields.message_id, "contextId": fields.context_id,
            "parts": [{"kind": "text", "text": fields.text}],
            "metadata": {"timestamp": timestamp, "from": from, "to": fields.to,
                         "sig": self.key.sign_base64(payload.as_bytes())},
        })
    }
}

/// What gets signed.
#[derive(Debug, Clone)]
pub struct Fields {
    /// `from`, when it shall not be the signer.
    pub from: Option<String>,
    /// `to`
    pub to: String,
    /// `text`
    pub text: String,
    /// `messageId`
    pub message_id: String,
    /// `contextId`
    pub context_id: Option<String>,
    /// `timestamp`, of any JSON type
    pub timestamp: Value,
    /// `role`
    pub role: &'static str,
}

impl Default for Fields {
    fn default() -> Self {
        Fields {
            from: None,
            to: String::new(),
            text: "hello".to_owned(),
            message_id: fresh_id(),
            context_id: None,
            timestamp: json!(now()),
            role: "user",
        }
    }
}

/// A message id that no other call of this process gives.
pub fn fresh_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    format!("{:016x}{:08x}{:08x}", nanos, std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whole seconds since the epoch.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// A `message/send` request.
pub fn send(message: &Value) -> Value {
    request("message/send", json!({"message": message}))
}

/// A request.
pub fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// The error code of an answer, 0 for a result.
#[track_caller]
pub fn code(answer: &Value) -> i64 {
    assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
    assert!(answer["result"].is_null() != answer["error"].is_null(), "either result or error: {answer}");
    answer["error"]["code"].as_i64().unwrap_or(0)
}

/// Fails the test unless `answer` carries a reply of `door` to `sent` whose signature verifies; gives its text.
#[track_caller]
pub fn reply_text(answer: &Value, door: &str, sent: &Value) -> String {
    let reply = &answer["result"];
    assert_eq!(reply["kind"], "message", "{answer}");
    assert_eq!(reply["role"], "agent");
    let meta = &reply["metadata"];
    assert_eq!(meta["from"], door);
    assert_eq!(meta["to"], sent["metadata"]["from"]);
    assert_eq!(meta["replyTo"], sent["messageId"]);
    assert_eq!(reply["contextId"], sent["contextId"]);
    assert_ne!(reply["messageId"], sent["messageId"]);
    let text = text_of(reply);
    let timestamp = wire_json::parse(meta["timestamp"].to_string().as_bytes()).expect("a JSON timestamp");
    let payload = message::signing_payload(
        door,
        meta["to"].as_str().unwrap(),
        reply["messageId"].as_str().unwrap(),
        reply["contextId"].as_str(),
        &timestamp,
        &text,
    );
    let did = door.parse().expect("the door has a DID");
    assert!(
        sign::verify_base64(&did, payload.as_bytes(), meta["sig"].as_str().unwrap()),
        "the reply verifies: {answer}"
    );
    text
}

/// The joined text parts of a message object.
pub fn text_of(message: &Value) -> String {
    let parts = message["parts"].as_array().expect("a message has parts");
    let texts: Vec<&str> =
        parts.iter().filter(|part| part["kind"] == "text").filter_map(|part| part["text"].as_str()).collect();
    texts.join("\n")
}
