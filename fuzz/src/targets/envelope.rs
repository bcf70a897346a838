//! Signed messages: steps e to 5 of the ladder on hostile JSON, and on honest messages with hostile values.
use std::sync::LazyLock;

use muretai_protocol::{
    MessageId, UnixSeconds,
    json::{Object, Value, parse},
    message::{Draft, Message, Role, sign},
    sign::{Seed, SigningKey},
};

const NOW: UnixSeconds = UnixSeconds(1_785_000_000);
static NORTH: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::from_seed(&Seed::from_bytes([1; 32])));
static SOUTH: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::from_seed(&Seed::from_bytes([2; 32])));

/// Judges the data as a message, then signs the data as a text.
pub fn run(data: &[u8]) {
    if let Ok(value) = parse(data) {
        judge(value);
    }
    sign_and_judge(&String::from_utf8_lossy(data));
}

/// Whether the message gets through, when it is judged as the receiver does.
fn judge(message: Value) -> bool {
    let Ok(message) = Message::from_value(message) else { return false };
    let Ok(envelope) = message.into_envelope() else { return false };
    if !envelope.is_for(SOUTH.did()) || envelope.freshness(NOW).is_err() {
        return false;
    }
    let Ok(verified) = envelope.verify(NOW) else { return false };
    let _ = (verified.content_digest(), verified.timestamp(), verified.from().key());
    true
}

fn sign_and_judge(text: &str) {
    let half = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (context, id) = text.split_at(half);
    let id = MessageId::new(id).unwrap_or_else(|| MessageId::from_random([7; 16]));
    let draft = Draft {
        role: Role::User,
        to: SOUTH.did().as_str(),
        message_id: &id,
        context_id: Some(context),
        text,
        timestamp: NOW,
        extra: Object::new(),
    };
    let message = sign(&NORTH, &draft);
    let wire = parse(message.to_json().as_bytes()).expect("a signed message can be read");
    assert!(judge(wire.clone()), "an honest message gets through");
    let Value::Object(mut changed) = wire else { unreachable!("a message is an object") };
    changed.insert("contextId".to_owned(), format!("{context}.").into());
    assert!(!judge(Value::Object(changed)), "a changed one does not");
}
