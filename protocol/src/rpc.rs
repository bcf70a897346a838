//! The JSON-RPC 2.0 frame and the error codes (section 5).
use crate::{
    json,
    json::{Number, Object, ParseError, Value},
};

/// A refusal's code and its constant message (5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i64)]
pub enum Code {
    /// Not JSON; travels with HTTP 400.
    ParseError = -32700,
    /// A frame or a message of the wrong shape.
    InvalidRequest = -32600,
    /// Not a method of this agent.
    MethodNotFound = -32601,
    /// Parameters that the method cannot use.
    InvalidParams = -32602,
    /// Our fault; says nothing about internals.
    Internal = -32603,
    /// No envelope, or a signature or binding that does not verify.
    Signature = -32001,
    /// Seen before, or outside the clock window.
    ReplayOrStale = -32002,
    /// For another agent.
    NotAddressedToMe = -32003,
    /// Too many; the ceiling is not named.
    RateLimited = -32004,
    /// More than `MAX_TEXT_BYTES`.
    TextTooLarge = -32005,
    /// An A2A version that is not spoken here (6.7).
    VersionNotSupported = -32009,
    /// A stranger without an introduction, or somebody who is blocked.
    IntroductionRequired = -32010,
    /// An introduction, invite or grant that is forged, spent, expired or revoked.
    IntroductionInvalid = -32011,
    /// The owner's privacy setting forbids the question.
    TrustQueryNotPermitted = -32012,
    /// The introducer is not a direct contact.
    IssuerNotTrusted = -32013,
    /// The introduction waits for the owner.
    AwaitingApproval = -32014,
    /// A verified domain is asked for.
    VerifiedDomainRequired = -32015,
    /// There is no trust layer here.
    NoTrustLayer = -32016,
    /// Nobody may ask to connect.
    ConnectNotAccepted = -32020,
    /// The answer matches no request.
    NoSuchPendingRequest = -32021,
    /// There is a connection already.
    AlreadyConnected = -32022,
}
impl Code {
    /// The number on the wire.
    pub fn number(self) -> i64 {
        self as i64
    }
    /// The constant message.
    pub fn message(self) -> &'static str {
        match self {
            Code::ParseError => "Parse error",
            Code::InvalidRequest => "Invalid Request",
            Code::MethodNotFound => "Method not found",
            Code::InvalidParams => "Invalid params",
            Code::Internal => "Internal error",
            Code::Signature => "Signature verification failed",
            Code::ReplayOrStale => "Replay or stale message",
            Code::NotAddressedToMe => "Message not addressed to me",
            Code::RateLimited => "Rate limited",
            Code::TextTooLarge => "Message text too large",
            Code::VersionNotSupported => "Version not supported",
            Code::IntroductionRequired => "Introduction required",
            Code::IntroductionInvalid => "Introduction invalid or revoked",
            Code::TrustQueryNotPermitted => "Trust query not permitted",
            Code::IssuerNotTrusted => "Introduction issuer not trusted",
            Code::AwaitingApproval => "Introduction awaiting recipient approval",
            Code::VerifiedDomainRequired => "Verified domain required",
            Code::NoTrustLayer => "This node does not run the trust layer",
            Code::ConnectNotAccepted => "Connect requests not accepted",
            Code::NoSuchPendingRequest => "No such pending request",
            Code::AlreadyConnected => "Already connected",
        }
    }
}

/// The request's id as it is echoed: a string, null or a number within ±2^53; anything else is `null`.
#[derive(Debug, Clone, PartialEq)]
pub struct Id(Value);
impl Id {
    /// `null`.
    pub const NULL: Id = Id(Value::Null);
    /// From the frame's member; absent, and every shape that is not echoed, become null.
    pub fn from_member(member: Option<&Value>) -> Id {
        match member {
            Some(id @ Value::String(_)) => Id(id.clone()),
            Some(id @ Value::Number(number)) if is_echoed(number) => Id(id.clone()),
            _ => Id::NULL,
        }
    }
    /// The id as it is written.
    pub fn as_value(&self) -> &Value {
        &self.0
    }
}

fn is_echoed(number: &Number) -> bool {
    const LIMIT: i64 = 1 << 53;
    match number {
        Number::Integer(_) => true,
        // An integer must not pass for its rounded neighbour, and a float beyond the limit is one whatever its digits.
        Number::Token(token) => match token.parse::<i64>() {
            Ok(integer) => (-LIMIT..=LIMIT).contains(&integer),
            Err(_) => token.parse::<f64>().is_ok_and(|float| float.abs() <= LIMIT as f64),
        },
    }
}

/// A refusal: code, and `data` with at least `detail`.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The code.
    pub code: Code,
    /// `data`, an object with `detail`.
    pub data: Option<Value>,
}
impl Refusal {
    /// A refusal with `data:{detail}`. Details are constants: no caller text, no paths.
    pub fn new(code: Code, detail: &str) -> Refusal {
        Refusal { code, data: Some(json!({"detail": detail})) }
    }
    /// Adds a member to `data`.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Refusal {
        let mut data = match self.data.take() {
            Some(Value::Object(data)) => data,
            _ => Object::new(),
        };
        data.insert(member.to_owned(), value.into());
        self.data = Some(data.into());
        self
    }
    /// `data.detail`.
    pub fn detail(&self) -> Option<&str> {
        self.data.as_ref()?.member("detail")?.as_str()
    }
}

/// Writes `{"jsonrpc":"2.0","id":…,"result":…}`.
pub fn result(id: &Id, result: &Value) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{}}}", id.0.to_json(), result.to_json())
}
/// Writes `{"jsonrpc":"2.0","id":…,"error":…}`.
pub fn error(id: &Id, refusal: &Refusal) -> String {
    let mut error = json!({"code": refusal.code.number(), "message": refusal.code.message()});
    if let (Value::Object(error), Some(data)) = (&mut error, &refusal.data) {
        error.insert("data".to_owned(), data.clone());
    }
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{}}}", id.0.to_json(), error.to_json())
}
/// Writes a request.
pub fn request(id: &str, method: &str, params: &Value) -> String {
    let (id, method) = (Value::from(id).to_json(), Value::from(method).to_json());
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{}}}", params.to_json())
}

/// A request frame, its members as they came: the ladder judges them in its order (4.1, rows c to e).
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What the answer echoes.
    pub id: Id,
    /// Whether the frame has an id at all; a notification has none and is answered under `null`.
    pub has_id: bool,
    /// `jsonrpc`
    pub jsonrpc: Option<Value>,
    /// `method`
    pub method: Option<Value>,
    /// `params`
    pub params: Option<Value>,
}

impl Request {
    /// Whether `jsonrpc` is exactly `"2.0"`.
    pub fn is_jsonrpc_2(&self) -> bool {
        self.jsonrpc.as_ref().and_then(Value::as_str) == Some("2.0")
    }
    /// The method, if it is a string.
    pub fn method(&self) -> Option<&str> {
        self.method.as_ref()?.as_str()
    }
}

/// Why a body is no request (4.1, row b): HTTP 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Not JSON: `-32700`.
    #[error("the request is not JSON")]
    NotJson(#[from] ParseError),
    /// JSON, but no object, a batch for instance: `-32600`.
    #[error("the request is not an object")]
    NotAnObject,
}

/// Reads a request body, which the caller has bounded.
pub fn parse_request(body: &[u8]) -> Result<Request, RequestError> {
    let Value::Object(mut members) = json::parse(body)? else { return Err(RequestError::NotAnObject) };
    Ok(Request {
        id: Id::from_member(members.get("id")),
        has_id: members.contains_key("id"),
        jsonrpc: members.remove("jsonrpc"),
        method: members.remove("method"),
        params: members.remove("params"),
    })
}

/// What a peer answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// `result`.
    Result(Value),
    /// `error`: a number that may be none of ours, the message and the data as they came.
    Error {
        /// Code.
        code: i64,
        /// Message, unsafe to show raw.
        message: String,
        /// Data.
        data: Option<Value>,
    },
}
impl Answer {
    /// The detail of an error: `data.detail`, or `data` itself where a foreign node sends a bare string. Unsafe to show
    /// raw.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Answer::Result(_) => None,
            Answer::Error { data, .. } => match data.as_ref()? {
                Value::String(detail) => Some(detail),
                data => data.member("detail")?.as_str(),
            },
        }
    }
}

/// Why a response is no JSON-RPC answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not a JSON-RPC 2.0 response")]
pub struct NotAnAnswer;

/// Reads a response body, which the caller has bounded.
///
/// An `error` that is there wins over a `result`. Its code must be an integer; all else about it is optional.
///
/// # Errors
/// [`NotAnAnswer`] also when `id` is not the one of the request: then this answers something else. Only an error may
/// carry `null` instead, which is how a peer says that it could not read the request's id (row b, 400).
pub fn parse_answer(body: &[u8], id: &str) -> Result<Answer, NotAnAnswer> {
    let Ok(Value::Object(mut members)) = json::parse(body) else { return Err(NotAnAnswer) };
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(NotAnAnswer);
    }
    let answered = members.get("id");
    let is_ours = answered.and_then(Value::as_str) == Some(id);
    let is_null = answered.is_some_and(Value::is_null);
    let mut error = match members.remove("error") {
        None | Some(Value::Null) if is_ours => return members.remove("result").map(Answer::Result).ok_or(NotAnAnswer),
        Some(Value::Object(error)) if is_ours || is_null => error,
        _ => return Err(NotAnAnswer),
    };
    let Some(Value::Number(code)) = error.get("code") else { return Err(NotAnAnswer) };
    Ok(Answer::Error {
        code: code.as_integral().ok_or(NotAnAnswer)?,
        message: error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
        data: error.remove("data").filter(|data| !data.is_null()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn echoes_ids_of_every_shape_or_null() {
        for id in [
            "\"a\"",
            "\"\"",
            "\"\\u0000\"",
            "0",
            "-1",
            "1.5",
            "1.0",
            "1e3",
            "null",
            "9007199254740992",
            "-9007199254740992",
        ] {
            let written = result(&Id::from_member(Some(&value(id))), &Value::Null);
            assert_eq!(written, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":null}}"));
        }
        let others = [
            "9007199254740993",
            "-9007199254740993",
            "9e15",
            "9.1e15",
            "1e300",
            "99999999999999999999",
            "true",
            "[1]",
            "{}",
        ];
        for id in others {
            let echoed = Id::from_member(Some(&value(id)));
            assert_eq!(echoed == Id::NULL, id != "9e15", "{id}");
        }
        assert_eq!(Id::from_member(None), Id::NULL);
    }

    #[test]
    fn writes_refusals_with_their_constants() {
        let refusal = Refusal::new(Code::ReplayOrStale, "seen").with("duplicate", true);
        assert_eq!(refusal.detail(), Some("seen"));
        let written = error(&Id::from_member(Some(&json!("7"))), &refusal);
        assert_eq!(
            written,
            r#"{"jsonrpc":"2.0","id":"7","error":{"code":-32002,"data":{"detail":"seen","duplicate":true},"message":"Replay or stale message"}}"#
        );
        let bare = error(&Id::NULL, &Refusal { code: Code::ParseError, data: None });
        assert_eq!(bare, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#);
    }

    #[test]
    fn a_request_keeps_its_members_for_the_ladder() {
        let sent = request("1", "message/send", &json!({"message": {}}));
        let read = parse_request(sent.as_bytes()).unwrap();
        assert!(read.has_id && read.is_jsonrpc_2());
        assert_eq!((read.method(), &read.params), (Some("message/send"), &Some(json!({"message": {}}))));
        let odd = parse_request(br#"{"jsonrpc":2.0,"method":["x"],"unknown":1}"#).unwrap();
        assert!(!odd.has_id && !odd.is_jsonrpc_2());
        assert_eq!(
            (odd.id.clone(), odd.method(), odd.method.is_some(), odd.params.clone()),
            (Id::NULL, None, true, None)
        );
        assert_eq!(parse_request(b"[]"), Err(RequestError::NotAnObject));
        assert!(matches!(parse_request(b"{"), Err(RequestError::NotJson(_))));
    }

    #[test]
    fn reads_results_and_errors_of_foreign_nodes() {
        let answer = |body: &str| parse_answer(body.as_bytes(), "m1");
        assert_eq!(answer(r#"{"jsonrpc":"2.0","id":"m1","result":[1]}"#), Ok(Answer::Result(json!([1]))));
        assert_eq!(answer(r#"{"jsonrpc":"2.0","id":"m1","result":null}"#), Ok(Answer::Result(Value::Null)));
        assert_eq!(answer(r#"{"jsonrpc":"2.0","id":"m1","result":1,"error":null}"#), Ok(Answer::Result(json!(1))));
        let error =
            answer(r#"{"jsonrpc":"2.0","id":"m1","error":{"code":-32099.0,"data":"why"},"result":{}}"#).unwrap();
        assert!(matches!(&error, Answer::Error { code: -32099, message, .. } if message.is_empty()));
        assert_eq!(error.detail(), Some("why"));
        let ours = answer(&super::error(&Id::NULL, &Refusal::new(Code::RateLimited, "later"))).unwrap();
        assert_eq!(ours.detail(), Some("later"));
        for other in [
            "",
            "<html>",
            "[]",
            "{}",
            r#"{"id":"m1","result":1}"#,
            r#"{"jsonrpc":"2.0","id":"m1"}"#,
            r#"{"jsonrpc":"2.0","id":"m1","error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":"m1","error":{"code":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":"m1","error":{"message":"x"}}"#,
            // These answer another request.
            r#"{"jsonrpc":"2.0","result":1}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":"m2","result":1}"#,
            r#"{"jsonrpc":"2.0","id":["m1"],"result":1}"#,
            r#"{"jsonrpc":"2.0","id":"m2","error":{"code":-32010}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32010}}"#,
        ] {
            assert_eq!(answer(other), Err(NotAnAnswer), "{other}");
        }
    }
}
