//! What a fake relay needs: letters opened with their recipient's key, and answers sealed as the recipient would.
use muretai_protocol::{
    json::{Object, Value},
    relay::Deposit,
    sealed::SealingKey,
    sign::Seed,
};

use super::{Act, Seen};

/// The sealing key that goes with [`super::key`].
pub(crate) fn sealing(byte: u8) -> SealingKey {
    SealingKey::from_seed(&Seed::from_bytes([byte; 32]))
}

/// A deposit as its recipient sees it: what was posted to the relay, and the request in it.
pub(crate) struct Letter {
    pub(crate) deposit: Deposit,
    /// The request, as if it had been posted to the recipient.
    pub(crate) request: Seen,
}

/// Opens what was deposited for the agent of this key.
pub(crate) fn letter(seen: &Seen, byte: u8) -> Letter {
    let deposit = Deposit::read(&seen.body).unwrap();
    assert!(deposit.is_signed(), "signed by who deposited it");
    let body = sealing(byte).open(deposit.from_enc.as_deref().unwrap(), &deposit.blob, b"").unwrap();
    Letter { deposit, request: Seen { body, ..seen.clone() } }
}

/// The relay has it.
pub(crate) fn queued() -> Act {
    Act::Answer(200, "Content-Type: application/json\r\n", r#"{"queued":true,"id":"x"}"#.to_owned())
}

/// The relay refuses.
pub(crate) fn relay_refusal(status: u16, head: &'static str, message: &str) -> Act {
    Act::Answer(status, head, format!(r#"{{"error":{{"code":-32004,"message":"{message}"}}}}"#))
}

/// The recipient listens, and answers with what it would have answered over HTTP.
pub(crate) fn answered(letter: &Letter, byte: u8, answer: &Act) -> Act {
    let Act::Answer(200, _, body) = answer else { panic!("an answer") };
    let body = body.replacen(super::SAME_ID, &super::request_id(&letter.request), 1);
    let to = letter.deposit.from_enc.as_deref().unwrap();
    let reply = sealing(byte).seal(to, body.as_bytes(), b"", crate::agent::random()).unwrap();
    let mut object = Object::new();
    object.insert("reply".to_owned(), reply.into());
    object.insert("queued".to_owned(), true.into());
    Act::json(&Value::from(object))
}
