//! What came back from a peer, sorted. Nothing of it is shown or stored before it has passed here.
use std::time::Duration;

use muretai_protocol::{
    UnixSeconds, a2a,
    a2a::Version,
    json::Value,
    message::{self, Asked, ReplyError, Verified},
    rpc::{self, Answer, Code},
    text::one_line,
};
use muretai_transports::http::Fetched;

use crate::send::peer::is_web_page;

/// Characters of a refusal's message and detail that are shown.
const SHOWN_CHARS: usize = 300;

/// A peer's refusal, safe to show.
#[derive(Debug, Clone)]
pub(crate) struct PeerRefusal {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) data: Option<Value>,
}

impl PeerRefusal {
    /// `duplicate:true`: the confirmation that an earlier copy is stored (4.5).
    pub(crate) fn is_duplicate(&self) -> bool {
        let says_so = self.data.as_ref().and_then(|data| data.member("duplicate")).and_then(Value::as_bool);
        self.code == Code::ReplayOrStale.number() && says_so == Some(true)
    }
}

/// An HTTP response, as far as JSON-RPC goes.
#[derive(Debug)]
pub(crate) enum Response {
    Result(Value),
    Refusal(PeerRefusal),
    /// A status that is no answer.
    Status {
        status: u16,
        retry_after: Option<Duration>,
    },
    /// Not JSON-RPC; in words.
    NotAnAnswer(&'static str),
}

/// Sorts a response. Verdicts come with status 200, or with 400 for what is no request at all; with 429 and 503 the
/// status is the answer, whatever the body. `id` is that of the request.
pub(crate) fn sort(fetched: &Fetched, id: &str) -> Response {
    let status = Response::Status { status: fetched.status, retry_after: fetched.retry_after };
    if matches!(fetched.status, 429 | 503) {
        return status;
    }
    match rpc::parse_answer(&fetched.body, id) {
        Ok(Answer::Error { code, message, data }) => Response::Refusal(refusal(code, &message, data)),
        Ok(Answer::Result(result)) if fetched.status == 200 => Response::Result(result),
        _ if fetched.status != 200 => status,
        _ if is_web_page(fetched) => Response::NotAnAnswer("a web page"),
        _ if fetched.body.is_empty() => Response::NotAnAnswer("empty"),
        _ => Response::NotAnAnswer("no JSON-RPC answer to this request"),
    }
}

fn refusal(code: i64, message: &str, data: Option<Value>) -> PeerRefusal {
    // A bare string is how some foreign nodes say it (5.3).
    let detail = data.as_ref().and_then(|data| data.as_str().or_else(|| data.member("detail")?.as_str()));
    let detail = detail.map(|detail| one_line(detail, SHOWN_CHARS)).filter(|detail| !detail.is_empty());
    PeerRefusal { code, message: one_line(message, SHOWN_CHARS), detail, data }
}

/// Verifies the reply in a result; in A2A 1.0 it is wrapped and has other discriminators, and signs the same values.
pub(crate) fn reply(
    result: Value,
    version: Version,
    asked: &Asked<'_>,
    now: UnixSeconds,
) -> Result<Verified, ReplyError> {
    let message = match (version, result) {
        (Version::V1_0, Value::Object(mut wrapped)) => match wrapped.remove("message") {
            Some(Value::Object(message)) => Value::Object(a2a::message_from_v1(message)),
            Some(other) => other,
            None => Value::Object(wrapped),
        },
        (_, result) => result,
    };
    message::verify_reply(message, asked, now)
}
