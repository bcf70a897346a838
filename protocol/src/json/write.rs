//! The one writer of JSON (1.1). Its callers differ in what they do with numbers only.
use std::fmt::Write;

use super::{Number, Value, float};

/// Why a value has no canonical form that may be signed or verified (1.3).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanonicalError {
    /// Signers emit integers only; verifiers cannot agree on this spelling.
    #[error("the number {} has no agreed canonical form", shortened(.token))]
    UnverifiableNumber {
        /// The token as received.
        token: Box<str>,
    },
}

/// A token may be as long as the document; an error shows its beginning.
fn shortened(token: &str) -> &str {
    token.get(..40).unwrap_or(token)
}

/// How numbers are spelled.
#[derive(Clone, Copy, PartialEq)]
enum Numbers {
    /// Safe integers, nothing else.
    Signed,
    /// Floats in CPython's spelling; unsafe integers are refused.
    Verified,
    /// The token that came in.
    AsReceived,
}

/// Canonical JSON for something to be signed: integers only.
pub fn canonical(value: &Value) -> Result<String, CanonicalError> {
    written(value, Numbers::Signed)
}

/// Canonical JSON for something to be verified.
///
/// Floats are spelled as CPython spells them, which for ordinary fractions is the shortest decimal that round-trips;
/// non-finite numbers and integers beyond ±2^53-1 are refused.
pub fn canonical_as_received(value: &Value) -> Result<String, CanonicalError> {
    written(value, Numbers::Verified)
}

/// Compact JSON with numbers spelled as they were received.
pub(super) fn as_received(value: &Value) -> String {
    written(value, Numbers::AsReceived).expect("numbers written as received are never refused")
}

fn written(value: &Value, numbers: Numbers) -> Result<String, CanonicalError> {
    let mut out = String::with_capacity(512);
    write_value(&mut out, value, numbers)?;
    Ok(out)
}

fn write_value(out: &mut String, value: &Value, numbers: Numbers) -> Result<(), CanonicalError> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number, numbers)?,
        Value::String(string) => write_string(out, string),
        Value::Array(items) => {
            let mut separator = '[';
            for item in items {
                out.push(separator);
                write_value(out, item, numbers)?;
                separator = ',';
            }
            out.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Value::Object(members) => {
            let mut separator = '{';
            for (key, member) in members {
                out.push(separator);
                write_string(out, key);
                out.push(':');
                write_value(out, member, numbers)?;
                separator = ',';
            }
            out.push_str(if members.is_empty() { "{}" } else { "}" });
        }
    }
    Ok(())
}

fn write_number(out: &mut String, number: &Number, numbers: Numbers) -> Result<(), CanonicalError> {
    let token = match number {
        Number::Integer(n) => {
            write!(out, "{n}").expect("a String takes every write");
            return Ok(());
        }
        Number::Token(token) => token,
    };
    let spelled = match numbers {
        Numbers::AsReceived => {
            out.push_str(token);
            return Ok(());
        }
        Numbers::Verified => float::cpython_repr(token),
        Numbers::Signed => None,
    };
    out.push_str(&spelled.ok_or_else(|| CanonicalError::UnverifiableNumber { token: token.clone() })?);
    Ok(())
}

/// Writes a string literal with the escapes of 1.1, rule 4, and no others.
pub(crate) fn write_string(out: &mut String, mut string: &str) {
    out.push('"');
    loop {
        let (plain, rest) = string.split_at(plain_prefix_len(string.as_bytes()));
        out.push_str(plain);
        let Some(special) = rest.chars().next() else { break };
        match special {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            control => write!(out, "\\u{:04x}", u32::from(control)).expect("a String takes every write"),
        }
        // Quote, backslash and the control characters are one byte each.
        string = &rest[1..];
    }
    out.push('"');
}

/// The number of bytes before the first one that a string literal must escape.
///
/// Sixteen at a time, which the compiler turns into vector instructions: most text needs no escapes.
pub(super) fn plain_prefix_len(bytes: &[u8]) -> usize {
    let is_special = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    let (blocks, _) = bytes.as_chunks::<16>();
    let is_plain = |block: &&[u8; 16]| !block.iter().fold(false, |found, &byte| found | is_special(byte));
    let begin = blocks.iter().take_while(is_plain).count() * 16;
    begin + bytes[begin..].iter().take_while(|&&byte| !is_special(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{self, Object};

    fn value(document: &str) -> Value {
        json::parse(document.as_bytes()).unwrap()
    }

    #[test]
    fn escapes_what_must_be_and_nothing_else() {
        let controls: String = (0..0x20).map(char::from).collect();
        assert_eq!(
            canonical(&Value::from(controls)).unwrap(),
            "\"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u000f\
             \\u0010\\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018\\u0019\\u001a\\u001b\\u001c\\u001d\\u001e\\u001f\""
        );
        let others = "/\u{7f}\u{80}\u{2028}\u{2029}é e\u{301}\u{10ffff}";
        assert_eq!(canonical(&Value::from(others)).unwrap(), format!("\"{others}\""));
        assert_eq!(canonical(&Value::from("0123456789abcdef\"\\")).unwrap(), r#""0123456789abcdef\"\\""#);
    }

    #[test]
    fn unicode_is_never_normalised() {
        let (composed, decomposed) = (Value::from("\u{e9}"), Value::from("e\u{301}"));
        assert_ne!(canonical(&composed), canonical(&decomposed));
    }

    #[test]
    fn only_integers_are_signed() {
        for token in ["1.0", "0.1", "-0.0", "1e5", "9007199254740992", "1e300"] {
            let document = format!("{{\"a\":[{{\"b\":{token}}}]}}");
            assert_eq!(value(&document).to_json(), document, "the wire spelling is kept");
            let error = CanonicalError::UnverifiableNumber { token: token.into() };
            assert_eq!(canonical(&value(&document)), Err(error));
        }
        assert_eq!(
            canonical(&Value::from(i64::MAX)).unwrap_err().to_string(),
            format!("the number {} has no agreed canonical form", i64::MAX)
        );
        assert_eq!(canonical(&value("[-0,9007199254740991]")).unwrap(), "[0,9007199254740991]");
    }

    #[test]
    fn a_verifier_refuses_what_nobody_agrees_on() {
        for token in ["9007199254740992", "-123456789012345678901234567890"] {
            assert!(canonical_as_received(&value(token)).is_err(), "{token}");
        }
        let error = canonical(&value(&"9".repeat(300))).unwrap_err();
        assert!(error.to_string().len() < 100);
    }

    #[test]
    fn literal_syntax_builds_values() {
        let built = crate::json!({
            "a": null, "b": [1, -2, null, [], {"c": "d".to_owned() + "e"}], "f": Some(true), "g": None::<&str>, "h": {},
        });
        assert_eq!(built.to_json(), r#"{"a":null,"b":[1,-2,null,[],{"c":"de"}],"f":true,"g":null,"h":{}}"#);
        assert_eq!(crate::json!([]), Value::Array(vec![]));
        assert_eq!(crate::json!({}), Value::Object(Object::new()));
    }
}
