//! What requests are answered with: JSON, and refusals of one shape.
use std::borrow::Cow;

use bytes::Bytes;
use muretai_protocol::{
    json,
    json::{Object, Value},
    rpc::Code,
};
use muretai_transports::http::site::Answer;

pub(crate) const JSON: &str = "application/json; charset=utf-8";
/// An older listener than the newest (9.3).
pub(crate) const SUPERSEDED: i64 = -32_030;

/// Why a request is not done. Its words are ours; nothing of the caller's goes into them.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: u16,
    code: i64,
    message: Cow<'static, str>,
    data: Option<Object>,
    retry_after: Option<u64>,
}

/// What handlers give back.
pub(crate) type Handled = Result<Answer, Refusal>;

impl Refusal {
    fn new(status: u16, code: i64, message: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { status, code, message: message.into(), data: None, retry_after: None }
    }

    /// 400: the request is of the wrong shape.
    pub(crate) fn shape(message: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::new(400, Code::InvalidParams.number(), message)
    }

    /// 403: something is not signed by whom it names.
    pub(crate) fn forged(message: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::new(403, Code::Signature.number(), message)
    }

    /// 401: the token is not good here and now. The relay's clock is told, so that a listener can go by it.
    pub(crate) fn token(now: i64) -> Refusal {
        let refusal = Refusal::new(401, Code::Signature.number(), "the token does not prove this DID here and now");
        refusal.with("now", now)
    }

    /// 409: a newer listener has the mailbox.
    pub(crate) fn superseded() -> Refusal {
        Refusal::new(409, SUPERSEDED, "a newer listener of this DID has taken over the mailbox")
    }

    /// 409: what is held is as new or newer.
    pub(crate) fn held(ts: i64) -> Refusal {
        let refusal = Refusal::new(409, Code::ReplayOrStale.number(), "a card that is as new or newer is held");
        refusal.with("ts", ts)
    }

    /// 429: this bound stands in the way, for so many seconds perhaps.
    pub(crate) fn bound(name: &'static str, limit: u64, retry_after: u64) -> Refusal {
        let refusal = Refusal::new(429, Code::RateLimited.number(), format!("over the bound {name} of {limit}"));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        refusal.with("bound", name).with("limit", limit).retry_after(retry_after)
    }

    /// 503: our fault; it passes.
    pub(crate) fn failing(message: &'static str, retry_after: u64) -> Refusal {
        Refusal::new(503, Code::Internal.number(), message).retry_after(retry_after)
    }

    fn with(mut self, member: &str, value: impl Into<Value>) -> Refusal {
        self.data.get_or_insert_with(Object::new).insert(member.to_owned(), value.into());
        self
    }

    fn retry_after(self, secs: u64) -> Refusal {
        Refusal { retry_after: Some(secs), ..self }
    }

    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Counts among what must not be logged as the caller's doing.
    pub(crate) fn is_ours(&self) -> bool {
        self.status == 503
    }

    /// The bound of a 429.
    pub(crate) fn bound_name(&self) -> Option<&str> {
        self.data.as_ref()?.get("bound")?.as_str()
    }

    pub(crate) fn to_json(&self) -> String {
        let mut error = json!({"code": (self.code), "message": (self.message.as_ref())});
        if let (Value::Object(error), Some(data)) = (&mut error, &self.data) {
            error.insert("data".to_owned(), data.clone().into());
        }
        json!({"error": (error)}).to_json()
    }

    pub(crate) fn answer(&self) -> Answer {
        Answer { status: self.status, retry_after: self.retry_after, ..json_answer(self.to_json()) }
    }
}

/// 200 with JSON.
pub(crate) fn json_answer(body: impl Into<Bytes>) -> Answer {
    Answer { status: 200, content_type: JSON, body: body.into(), retry_after: None, allow: None }
}

/// 404.
pub(crate) fn not_found() -> Answer {
    Answer { status: 404, ..json_answer(r#"{"error":"not found"}"#) }
}

/// 405, or 204 to `OPTIONS`.
pub(crate) fn only(allow: &'static str, is_options: bool) -> Answer {
    if is_options {
        return Answer { status: 204, allow: Some(allow), ..json_answer(Bytes::new()) };
    }
    let body = format!(r#"{{"error":"method not allowed","detail":"allowed: {allow}"}}"#);
    Answer { status: 405, allow: Some(allow), ..json_answer(body) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_one_shape() {
        assert_eq!(
            Refusal::bound("senderRate", 600, 12).to_json(),
            r#"{"error":{"code":-32004,"data":{"bound":"senderRate","limit":600},"message":"over the bound senderRate of 600"}}"#
        );
        assert_eq!(Refusal::bound("invites", 20, 7).answer().retry_after, Some(7));
        assert_eq!(Refusal::token(5).to_json().matches(r#""data":{"now":5}"#).count(), 1);
        assert!(!Refusal::shape("x").to_json().contains("data"));
    }
}
