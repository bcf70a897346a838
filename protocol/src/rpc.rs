//! The JSON-RPC 2.0 frame and the error codes (section 5).
use crate::json::Value;

/// A refusal's code and its constant message (5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(i64)]
pub enum Code {
    ParseError = -32700,
    InvalidRequest = -32600,
    MethodNotFound = -32601,
    InvalidParams = -32602,
    Internal = -32603,
    Signature = -32001,
    ReplayOrStale = -32002,
    NotAddressedToMe = -32003,
    RateLimited = -32004,
    TextTooLarge = -32005,
    VersionNotSupported = -32009,
    IntroductionRequired = -32010,
    IntroductionInvalid = -32011,
    TrustQueryNotPermitted = -32012,
    IssuerNotTrusted = -32013,
    AwaitingApproval = -32014,
    VerifiedDomainRequired = -32015,
    NoTrustLayer = -32016,
    ConnectNotAccepted = -32020,
    NoSuchPendingRequest = -32021,
    AlreadyConnected = -32022,
}
impl Code {
    /// The number on the wire.
    pub fn number(self) -> i64 {
        self as i64
    }
    /// The constant message.
    pub fn message(self) -> &'static str {
        todo!()
    }
}

/// The request's id as it is echoed: a string, null or a number within ±2^53; anything else is `null`.
#[derive(Debug, Clone, PartialEq)]
pub struct Id(Value);
impl Id {
    /// `null`.
    pub const NULL: Id = Id(Value::Null);
    /// From the frame's member; absent, and every shape that is not echoed, become null.
    pub fn from_member(_member: Option<&Value>) -> Id {
        todo!()
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
    pub fn new(_code: Code, _detail: &str) -> Refusal {
        todo!()
    }
}

/// Writes `{"jsonrpc":"2.0","id":…,"result":…}`.
pub fn result(_id: &Id, _result: &Value) -> String {
    todo!()
}
/// Writes `{"jsonrpc":"2.0","id":…,"error":…}`.
pub fn error(_id: &Id, _refusal: &Refusal) -> String {
    todo!()
}
/// Writes a request.
pub fn request(_id: &str, _method: &str, _params: &Value) -> String {
    todo!()
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
/// Why a response is no JSON-RPC answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not a JSON-RPC 2.0 response")]
pub struct NotAnAnswer;
/// Reads a response body.
pub fn parse_answer(_body: &[u8]) -> Result<Answer, NotAnAnswer> {
    todo!()
}
