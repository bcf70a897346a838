//! Answers that are not the service's: JSON bodies for every refusal, and the headers that all answers share.
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use crate::http::site;

/// What a connection is answered with.
pub(super) type Answer = Response<Full<Bytes>>;

pub(super) const ALLOW_CARD: &str = "GET, HEAD, OPTIONS";
pub(super) const ALLOW_MOUNT: &str = "GET, HEAD, POST, OPTIONS";
/// The CORS value where nothing is advertised.
const ALLOW_DEFAULT: &str = "GET, POST, OPTIONS";
/// Seconds after which a refused peer may find a free connection.
const RETRY_AFTER: &str = "1";
const JSON: &str = "application/json";

/// An answer without the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plain {
    /// 400, for framing and heads that can be read in two ways.
    BadRequest(&'static str),
    /// 404, with a `detail` where the reason is not plain.
    NotFound(Option<&'static str>),
    /// 405 with what is allowed.
    MethodNotAllowed(&'static str),
    /// 408.
    Timeout,
    /// 413, with the limit where it is known.
    BodyTooLarge(Option<usize>),
    /// 431.
    HeadTooLarge(usize),
    /// 431.
    TooManyHeaders,
    /// 200 with `-32603`: an internal fault is never a closed socket (section 5.1).
    Fault,
    /// 500, for what is no JSON-RPC.
    Broken,
    /// 503.
    Busy,
}

impl Plain {
    fn status(&self) -> StatusCode {
        match self {
            Plain::BadRequest(_) => StatusCode::BAD_REQUEST,
            Plain::NotFound(_) => StatusCode::NOT_FOUND,
            Plain::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Plain::Timeout => StatusCode::REQUEST_TIMEOUT,
            Plain::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Plain::HeadTooLarge(_) | Plain::TooManyHeaders => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Plain::Fault => StatusCode::OK,
            Plain::Broken => StatusCode::INTERNAL_SERVER_ERROR,
            Plain::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Says whether nothing more is read from this connection.
    fn ends_connection(&self) -> bool {
        !matches!(self, Plain::NotFound(_) | Plain::MethodNotAllowed(_))
    }

    /// A JSON-RPC error where a JSON-RPC client asked, a plain object elsewhere. No text in it needs escaping.
    fn body(&self) -> String {
        match self {
            Plain::BadRequest(reason) => rpc_error(-32600, reason),
            Plain::NotFound(None) => r#"{"error":"not found"}"#.to_owned(),
            Plain::NotFound(Some(detail)) => format!(r#"{{"error":"not found","detail":"{detail}"}}"#),
            Plain::MethodNotAllowed(allow) => {
                format!(r#"{{"error":"method not allowed","detail":"allowed: {allow}"}}"#)
            }
            Plain::Timeout => rpc_error(-32600, "the request did not arrive in time"),
            Plain::BodyTooLarge(None) => rpc_error(-32600, "the request body is too large"),
            Plain::BodyTooLarge(Some(limit)) => {
                rpc_error(-32600, &format!("the request body is larger than {limit} bytes"))
            }
            Plain::HeadTooLarge(limit) => rpc_error(-32600, &format!("the request head is larger than {limit} bytes")),
            Plain::TooManyHeaders => {
                rpc_error(-32600, &format!("the request has more than {} header fields", super::head::MAX_HEADERS))
            }
            Plain::Fault | Plain::Broken => rpc_error(-32603, "internal error"),
            Plain::Busy => r#"{"error":"too many concurrent connections"}"#.to_owned(),
        }
    }
}

fn rpc_error(code: i32, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"{message}"}}}}"#)
}

/// For the HTTP library.
pub(super) fn answer(plain: &Plain) -> Answer {
    let mut answer = with_body(plain.status(), JSON, plain.body().into(), ALLOW_DEFAULT);
    if let Plain::MethodNotAllowed(allow) = plain {
        allow_only(answer.headers_mut(), allow);
    }
    if plain.ends_connection() {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// As it goes over the wire, for connections that the HTTP library does not see any more. Ends the connection.
pub(super) fn raw(plain: &Plain) -> Bytes {
    let status = plain.status();
    let body = plain.body();
    let retry = if *plain == Plain::Busy { format!("retry-after: {RETRY_AFTER}\r\n") } else { String::new() };
    format!(
        "HTTP/1.1 {} {}\r\ncontent-type: {JSON}\r\ncontent-length: {}\r\nconnection: close\r\n{retry}\
         access-control-allow-origin: *\r\naccess-control-allow-methods: {ALLOW_DEFAULT}\r\n\
         access-control-allow-headers: Content-Type\r\naccess-control-max-age: 600\r\n\r\n{body}",
        status.as_u16(),
        status.canonical_reason().unwrap_or_default(),
        body.len(),
    )
    .into()
}

/// An answer with a body and the CORS headers that every answer carries: any origin, never credentials.
pub(super) fn with_body(status: StatusCode, content_type: &'static str, body: Bytes, allow: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.reserve(8);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    add_cors(headers, allow);
    answer
}

/// What the service answered to a POST.
pub(super) fn service_answer(status: StatusCode, body: Bytes) -> Answer {
    with_body(status, JSON, body, ALLOW_MOUNT)
}

/// What a site answered.
pub(super) fn site_answer(given: site::Answer) -> Answer {
    let status = StatusCode::from_u16(given.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = with_body(status, given.content_type, given.body, given.allow.unwrap_or(ALLOW_DEFAULT));
    let headers = answer.headers_mut();
    if given.content_type.is_empty() {
        headers.remove(header::CONTENT_TYPE);
    }
    if let Some(allow) = given.allow {
        headers.insert(header::ALLOW, HeaderValue::from_static(allow));
    }
    if let Some(secs) = given.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(secs));
    }
    answer
}

/// 204 to `OPTIONS`.
pub(super) fn options(allow: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::new()));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    add_cors(answer.headers_mut(), allow);
    allow_only(answer.headers_mut(), allow);
    answer
}

fn allow_only(headers: &mut HeaderMap, allow: &'static str) {
    headers.insert(header::ALLOW, HeaderValue::from_static(allow));
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(allow));
}

fn add_cors(headers: &mut HeaderMap, allow: &'static str) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(allow));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Content-Type"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
}
