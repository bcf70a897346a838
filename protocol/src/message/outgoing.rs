//! Writing and signing a message (3.1, 3.2).
use super::{MessageId, Role};
use crate::{
    UnixSeconds, json,
    json::{Object, Value, canonical_as_received, write_string},
    sign::SigningKey,
};

/// What a new message says; everything that gets signed but the sender.
#[derive(Debug, Clone)]
pub struct Draft<'a> {
    /// `user` or `agent`.
    pub role: Role,
    /// Recipient; `""` only in a reply to an unsigned inquiry.
    pub to: &'a str,
    /// Fresh id, or the id of the message that is sent again.
    pub message_id: &'a MessageId,
    /// `contextId`.
    pub context_id: Option<&'a str>,
    /// The text, at most `MAX_TEXT_BYTES` (the caller checks).
    pub text: &'a str,
    /// Seconds.
    pub timestamp: UnixSeconds,
    /// Unsigned metadata members to add, such as `replyTo`, `auto`, `status`. The envelope's own names win.
    pub extra: Object,
}

/// Signs a draft and writes the A2A 0.2/0.3 message object (3.2).
///
/// Only members that carry something are written: no `null`, no unused metadata.
pub fn sign(key: &SigningKey, draft: &Draft<'_>) -> Value {
    let timestamp = Value::from(draft.timestamp.0);
    let from = key.did().as_str();
    let id = draft.message_id.as_str();
    let payload = signing_payload(from, draft.to, id, draft.context_id, &timestamp, draft.text);
    let mut metadata = draft.extra.clone();
    metadata.extend([
        ("from".to_owned(), Value::from(from)),
        ("sig".to_owned(), Value::from(key.sign_base64(payload.as_bytes()))),
        ("timestamp".to_owned(), timestamp),
        ("to".to_owned(), Value::from(draft.to)),
    ]);
    let mut message = Object::from([
        ("kind".to_owned(), Value::from("message")),
        ("messageId".to_owned(), Value::from(id)),
        ("metadata".to_owned(), Value::from(metadata)),
        ("parts".to_owned(), json!([{"kind": "text", "text": draft.text}])),
        ("role".to_owned(), Value::from(draft.role.as_str())),
    ]);
    if let Some(context_id) = draft.context_id {
        message.insert("contextId".to_owned(), Value::from(context_id));
    }
    message.into()
}

/// The canonical bytes of the six signed fields (3.1).
///
/// A timestamp is spelled as a verifier spells it (1.3); one that has no such spelling, which no verifier lets through
/// to here, stays as it was received.
pub fn signing_payload(
    from: &str,
    to: &str,
    message_id: &str,
    context_id: Option<&str>,
    timestamp: &Value,
    text: &str,
) -> String {
    // Members in canonical order, written without building an object first: this runs for every message.
    let strings = [from, to, message_id, context_id.unwrap_or_default(), text];
    let mut out = String::with_capacity(128 + strings.iter().map(|string| string.len()).sum::<usize>());
    out.push_str("{\"contextId\":");
    match context_id {
        Some(context_id) => write_string(&mut out, context_id),
        None => out.push_str("null"),
    }
    for (name, value) in [(",\"from\":", from), (",\"messageId\":", message_id), (",\"text\":", text)] {
        out.push_str(name);
        write_string(&mut out, value);
    }
    out.push_str(",\"timestamp\":");
    out.push_str(&canonical_as_received(timestamp).unwrap_or_else(|_| timestamp.to_json()));
    out.push_str(",\"to\":");
    write_string(&mut out, to);
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{json::canonical, message::Message, sign::Seed};

    fn south() -> SigningKey {
        SigningKey::from_seed(&Seed::from_bytes([2; 32]))
    }

    #[test]
    fn writes_only_what_carries_something() {
        let id = MessageId::new("m1").unwrap();
        let mut draft = Draft {
            role: Role::Agent,
            to: "did:key:north",
            message_id: &id,
            context_id: None,
            text: "",
            timestamp: UnixSeconds(5),
            extra: Object::from([("replyTo".into(), json!("m0")), ("from".into(), json!("somebody else"))]),
        };
        let message = sign(&south(), &draft);
        assert_eq!(
            message.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["kind", "messageId", "metadata", "parts", "role"]
        );
        let metadata = message.member("metadata").unwrap();
        assert_eq!(
            metadata.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["from", "replyTo", "sig", "timestamp", "to"]
        );
        assert_eq!(metadata.member("from"), Some(&json!(south().did())));
        assert_eq!(message.member("parts"), Some(&json!([{"kind": "text", "text": ""}])));
        draft.context_id = Some("");
        assert_eq!(sign(&south(), &draft).member("contextId"), Some(&json!("")));
    }

    proptest! {
        #[test]
        fn the_payload_is_canonical_json(from: String, to: String, id: String, context: Option<String>, ts: i32, text: String) {
            let payload = signing_payload(&from, &to, &id, context.as_deref(), &json!(i64::from(ts)), &text);
            let object = json!({
                "from": from, "to": to, "messageId": id, "contextId": context, "timestamp": i64::from(ts), "text": text,
            });
            prop_assert_eq!(Ok(payload), canonical(&object));
        }

        #[test]
        fn what_is_signed_verifies_after_the_wire(to: String, context in proptest::option::of(".*"), text: String, ts in 0i64..1 << 40) {
            let (key, id) = (south(), MessageId::from_random([7; 16]));
            let draft = Draft {
                role: Role::User,
                to: &to,
                message_id: &id,
                context_id: context.as_deref(),
                text: &text,
                timestamp: UnixSeconds(ts),
                extra: Object::new(),
            };
            let received = json::parse(sign(&key, &draft).to_json().as_bytes()).unwrap();
            let verified = Message::from_value(received).unwrap().into_envelope().unwrap().verify(UnixSeconds(ts));
            prop_assert_eq!(verified.map(|verified| verified.message().text.clone()).ok(), Some(text));
        }
    }
}
