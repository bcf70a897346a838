//! What a message carries beyond what has a column of its own: unsigned metadata (3.3) and parts that are no text.
//! It is kept as it came, so it is measured before anything is done for its sender.
use muretai_protocol::{
    json::Value,
    limits::MAX_EXTRA_BYTES,
    message::{Message, Verified},
};

/// More than [`MAX_EXTRA_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Says whether it is too large to keep. `body` is the length of the request: what is kept is never longer.
pub(crate) fn check(message: &Message, body: usize) -> Result<(), TooLarge> {
    if body <= MAX_EXTRA_BYTES { Ok(()) } else { of(message).map(drop) }
}

/// Takes it out as compact JSON, `None` when there is nothing. What is left of the message is bounded by the limits on
/// text and ids, however large the request was: a slow responder may hold it for minutes.
pub(crate) fn take(verified: &mut Verified) -> Result<Option<String>, TooLarge> {
    let extra = of(verified.message())?;
    verified.strip(|key, value| match key {
        "replyTo" | "status" => value.as_str().is_some(),
        "auto" => value.as_bool().is_some(),
        _ => false,
    });
    Ok(extra)
}

fn of(message: &Message) -> Result<Option<String>, TooLarge> {
    let metadata = message.metadata.iter().filter(|(key, value)| !says_nothing(key, value));
    let metadata = metadata.map(|(key, value)| (Some(key), value));
    let parts = message.other_parts.iter().map(|part| (None, part));
    let groups = [group("\"metadata\":{", metadata, '}')?, group("\"parts\":[", parts, ']')?];
    let groups: Vec<String> = groups.into_iter().flatten().collect();
    if groups.is_empty() {
        return Ok(None);
    }
    let extra = format!("{{{}}}", groups.join(","));
    if extra.len() > MAX_EXTRA_BYTES { Err(TooLarge) } else { Ok(Some(extra)) }
}

/// Members that existing nodes send with every message, and what has a column of its own.
fn says_nothing(key: &str, value: &Value) -> bool {
    matches!(
        (key, value),
        ("from" | "to" | "sig" | "timestamp", _)
            | (_, Value::Null)
            | ("replyTo", Value::String(_))
            | ("auto", Value::Bool(false))
    )
}

/// Members or items as JSON, without ever holding much more than the limit.
fn group<'a>(
    open: &str,
    items: impl Iterator<Item = (Option<&'a String>, &'a Value)>,
    close: char,
) -> Result<Option<String>, TooLarge> {
    let mut out = String::new();
    for (key, value) in items {
        out.push_str(if out.is_empty() { open } else { "," });
        if let Some(key) = key {
            out.push_str(&Value::from(key).to_json());
            out.push(':');
        }
        out.push_str(&value.to_json());
        if out.len() > MAX_EXTRA_BYTES {
            return Err(TooLarge);
        }
    }
    if out.is_empty() {
        return Ok(None);
    }
    out.push(close);
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muretai_protocol::json;

    fn message(metadata: Value, parts: Value) -> Message {
        let value = json!({"kind": "message", "messageId": "m1", "metadata": metadata, "parts": parts});
        Message::from_value(value).unwrap()
    }

    #[test]
    fn what_says_something_is_kept_as_it_came() {
        let metadata = json!({"from": "a", "sig": "b", "timestamp": 5, "to": "c", "replyTo": "m0", "auto": false,
            "x": [1, {}], "n": null, "q\"": "é"});
        let parts = json!([{"kind": "text", "text": "hi"}, {"kind": "data", "data": 1}, {"kind": "file"}]);
        let kept = of(&message(metadata, parts)).unwrap().unwrap();
        let expected = r#"{"metadata":{"q\"":"é","x":[1,{}]},"parts":[{"data":1,"kind":"data"},{"kind":"file"}]}"#;
        assert_eq!(kept, expected);
        assert!(json::parse(kept.as_bytes()).is_ok());
        assert_eq!(of(&message(json!({"from": "a"}), json!([]))), Ok(None));
    }

    #[test]
    fn the_limit_counts_bytes_of_compact_json() {
        let frame = r#"{"metadata":{"x":""}}"#.len();
        let with = |len: usize| message(json!({"x": ("x".repeat(len))}), json!([]));
        assert!(of(&with(MAX_EXTRA_BYTES - frame)).is_ok());
        assert_eq!(of(&with(MAX_EXTRA_BYTES - frame + 1)), Err(TooLarge));
        let both = json!([{"kind": "data", "data": ("y".repeat(MAX_EXTRA_BYTES / 2))}]);
        assert_eq!(of(&message(json!({"x": ("x".repeat(MAX_EXTRA_BYTES / 2))}), both)), Err(TooLarge));
    }
}
