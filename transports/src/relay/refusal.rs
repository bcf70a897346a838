//! What a relay says instead of doing what was asked.
use muretai_protocol::{
    json::{self, Value},
    text,
};

use crate::{TransportError, guard, http::Fetched};

/// Characters of a relay's words that are shown.
const MAX_REASON_CHARS: usize = 200;

/// The error that an answer with a status other than 200 stands for.
pub(super) fn refusal(relay: &str, answer: &Fetched) -> TransportError {
    if (300..400).contains(&answer.status) {
        let target = answer.location.clone().unwrap_or_default();
        return TransportError::RedirectRefused { url: guard::printable(&answer.url), target };
    }
    TransportError::RelayRefused {
        relay: relay.into(),
        status: answer.status,
        reason: reason(&answer.body).into(),
        retry_after: answer.retry_after,
    }
}

/// What makes an answer with status 200 useless.
pub(super) fn useless(relay: &str, what: &'static str) -> TransportError {
    TransportError::NotARelay { relay: relay.to_owned(), what }
}

/// The relay's clock, out of the refusal of a token.
pub(super) fn time_of(answer: &Fetched) -> Option<i64> {
    json::parse(&answer.body).ok()?.member("error")?.member("data")?.member("now")?.as_i64()
}

/// The words of a refusal: the error is a text, or an object with a message; which bound it is about is added.
fn reason(body: &[u8]) -> String {
    let body = json::parse(body).ok();
    let error = body.as_ref().and_then(|body| body.member("error"));
    let words = error.and_then(|error| error.as_str().or_else(|| error.member("message")?.as_str()));
    let bound = error.and_then(|error| error.member("data")?.member("bound")).and_then(Value::as_str);
    let words = words.filter(|words| !words.trim().is_empty()).unwrap_or("it did not say why");
    match bound {
        Some(bound) if !words.contains(bound) => text::one_line(&format!("{words} ({bound})"), MAX_REASON_CHARS),
        _ => text::one_line(words, MAX_REASON_CHARS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_refusal_are_one_safe_line() {
        for (body, expected) in [
            (r#"{"error":"mailbox full"}"#, "mailbox full"),
            (
                r#"{"error":{"code":-32004,"message":"too many","data":{"bound":"senderLetters"}}}"#,
                "too many (senderLetters)",
            ),
            (r#"{"error":{"message":"senderLetters: 200","data":{"bound":"senderLetters"}}}"#, "senderLetters: 200"),
            (r#"{"error":{"code":1}}"#, "it did not say why"),
            (r#"{"error":" "}"#, "it did not say why"),
            ("<html>502</html>", "it did not say why"),
            ("", "it did not say why"),
            ("7", "it did not say why"),
        ] {
            assert_eq!(reason(body.as_bytes()), expected, "{body}");
        }
        let evil = reason("{\"error\":\"a\\u001b[31m\\nerror: forged\"}".as_bytes());
        assert!(!evil.contains(['\n', '\u{1b}']), "{evil}");
        assert!(
            reason(format!("{{\"error\":\"{}\"}}", "x".repeat(5_000)).as_bytes()).chars().count() <= MAX_REASON_CHARS
        );
    }
}
