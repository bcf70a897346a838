//! Rows b to g of the ladder (section 4.1): from bytes to a method, its parameters and a message of the right shape.
//! Pure: nothing is looked up, hashed or verified here, and no input panics.
use muretai_protocol::{
    a2a::{self, Version},
    json::{Object, Value},
    limits::{MAX_ID_BYTES, MAX_TEXT_BYTES, PROTOCOL_VERSION},
    message::Message,
    rpc::{self, Code, Id, Refusal, RequestError},
};

use super::{
    extra,
    methods::params::{
        ClaimParams, ConnectAnswer, ConnectParams, IntroduceAnswer, ProposeParams, ReferralParams, StatusParams,
    },
    refusals::{self as say, plain},
};

/// Which column of the ladder an endpoint follows: a gated agent, or one that answers strangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The order of the seed document.
    Node,
    /// The pinned rows of the open door.
    Door,
}

/// Every method that is known here, those of introducers last.
const METHODS: &[&str] = &[
    "message/send",
    "onboard/claim",
    "trust/status",
    "connect/request",
    "connect/respond",
    "introduction/request",
    "introduce/propose",
    "introduce/respond",
    "referral/request",
];
/// How many of [`METHODS`] an open door offers: an introduction opens nothing there.
const DOOR_METHODS: usize = 5;

/// The methods that this agent offers, as the card and `-32601` name them.
pub fn methods(open_door: bool) -> &'static [&'static str] {
    if open_door { &METHODS[..DOOR_METHODS] } else { METHODS }
}

/// A method that is known here, with parameters of the right types.
#[derive(Debug)]
pub enum Call {
    /// `message/send`, or the `SendMessage` of A2A 1.0 (section 6.7): the version says in which shape to answer.
    Send(Version),
    /// `onboard/claim`.
    Claim(Box<ClaimParams>),
    /// `trust/status`.
    TrustStatus(Box<StatusParams>),
    /// `connect/request`.
    ConnectRequest(Box<ConnectParams>),
    /// `connect/respond`.
    ConnectRespond(Box<ConnectAnswer>),
    /// `introduction/request`.
    IntroductionRequest,
    /// `introduce/propose`.
    IntroducePropose(Box<ProposeParams>),
    /// `introduce/respond`.
    IntroduceRespond(Box<IntroduceAnswer>),
    /// `referral/request`.
    ReferralRequest(Box<ReferralParams>),
}

/// A request that passed rows b to g. Nothing in it is proven.
#[derive(Debug)]
pub struct Request {
    /// What to answer under.
    pub id: Id,
    /// What is wanted.
    pub call: Call,
    /// The message that carries it.
    pub message: Message,
}

/// A refusal before the ladder proper.
#[derive(Debug, PartialEq)]
pub struct Rejected {
    /// The HTTP status: 400 for what is no JSON-RPC request, 200 for everything that is.
    pub status: u16,
    /// What to answer under.
    pub id: Id,
    /// Code and data.
    pub refusal: Refusal,
}

/// Reads a request body that is known to be small enough (row a is the transport's).
pub fn read(body: &[u8], a2a_version: Option<&str>, profile: Profile) -> Result<Request, Rejected> {
    let frame = rpc::parse_request(body).map_err(no_request)?; // b
    let id = frame.id.clone();
    match read_frame(frame, body.len(), a2a_version, profile) {
        Ok((call, message)) => Ok(Request { id, call, message }),
        Err(refusal) => Err(Rejected { status: 200, id, refusal }),
    }
}

fn no_request(error: RequestError) -> Rejected {
    let refusal = match error {
        RequestError::NotJson(_) => plain(Code::ParseError, say::NOT_JSON),
        _ => plain(Code::InvalidRequest, say::NOT_AN_OBJECT),
    };
    Rejected { status: 400, id: Id::NULL, refusal }
}

/// Rows c to g, in order.
fn read_frame(
    frame: rpc::Request,
    size: usize,
    a2a_version: Option<&str>,
    profile: Profile,
) -> Result<(Call, Message), Refusal> {
    let method = method_name(&frame, profile)?; // c
    let kind = Kind::of(method).ok_or_else(|| unknown_method(Some(method), profile))?; // d
    a2a::version_from_header(a2a_version)?;
    let Some(Value::Object(mut params)) = frame.params else {
        return Err(plain(Code::InvalidParams, say::PARAMS_NOT_AN_OBJECT));
    };
    let (call, message) = kind.read_params(&mut params)?; // e
    let message = Message::from_value(message).map_err(|wrong| plain(Code::InvalidRequest, wrong.0))?; // f
    check_sizes(&message, size)?;
    if message.text.len() > MAX_TEXT_BYTES {
        return Err(plain(Code::TextTooLarge, say::TEXT_TOO_LARGE)); // g
    }
    // 3.3: a Door without the offer that is asked for says so before any cryptography.
    if profile == Profile::Door && message.meta("offer").is_some() {
        return Err(plain(Code::InvalidParams, say::NO_OFFERS));
    }
    Ok((call, message))
}

/// Everything that is kept of a message has a limit, and nothing that was accepted is cut (3.4).
fn check_sizes(message: &Message, size: usize) -> Result<(), Refusal> {
    let reply_to = message.meta("replyTo").and_then(Value::as_str);
    let ids = [Some(message.message_id.as_str()), message.context_id.as_deref(), reply_to];
    if ids.into_iter().flatten().any(|id| id.len() > MAX_ID_BYTES) {
        return Err(plain(Code::InvalidRequest, say::ID_TOO_LONG));
    }
    extra::check(message, size).map_err(|extra::TooLarge| plain(Code::InvalidRequest, say::EXTRA_TOO_LARGE))
}

/// Row c. A Door does not look at `jsonrpc`, and a method that is no string is one that it does not offer.
fn method_name(frame: &rpc::Request, profile: Profile) -> Result<&str, Refusal> {
    if profile == Profile::Node && !frame.is_jsonrpc_2() {
        return Err(plain(Code::InvalidRequest, say::NOT_VERSION_2));
    }
    match (frame.method(), profile) {
        (Some(method), _) => Ok(method),
        (None, Profile::Node) => Err(plain(Code::InvalidRequest, say::NO_METHOD)),
        (None, Profile::Door) => Err(unknown_method(None, profile)),
    }
}

/// The method's name alone, before its parameters are looked at.
enum Kind {
    Send(Version),
    Claim,
    TrustStatus,
    ConnectRequest,
    ConnectRespond,
    IntroductionRequest,
    IntroducePropose,
    IntroduceRespond,
    ReferralRequest,
}

impl Kind {
    /// An exact look-up: no case folding, no trimming (5.1).
    fn of(method: &str) -> Option<Kind> {
        match method {
            "message/send" => Some(Kind::Send(Version::V0_3)),
            "SendMessage" => Some(Kind::Send(Version::V1_0)),
            "onboard/claim" => Some(Kind::Claim),
            "trust/status" => Some(Kind::TrustStatus),
            "connect/request" => Some(Kind::ConnectRequest),
            "connect/respond" => Some(Kind::ConnectRespond),
            "introduction/request" => Some(Kind::IntroductionRequest),
            "introduce/propose" => Some(Kind::IntroducePropose),
            "introduce/respond" => Some(Kind::IntroduceRespond),
            "referral/request" => Some(Kind::ReferralRequest),
            _ => None,
        }
    }

    /// Row e: the members that the method needs are there and of the right type.
    fn read_params(self, params: &mut Object) -> Result<(Call, Value), Refusal> {
        let Some(Value::Object(message)) = params.remove("message") else {
            return Err(plain(Code::InvalidParams, say::MESSAGE_NOT_AN_OBJECT));
        };
        let call = match self {
            Kind::Send(version) => return read_send(version, message),
            Kind::Claim => Call::Claim(Box::new(ClaimParams::read(params)?)),
            Kind::TrustStatus => Call::TrustStatus(Box::new(StatusParams::read(params)?)),
            Kind::ConnectRequest => Call::ConnectRequest(Box::new(ConnectParams::read(params)?)),
            Kind::ConnectRespond => Call::ConnectRespond(Box::new(ConnectAnswer::read(params)?)),
            Kind::IntroductionRequest => Call::IntroductionRequest,
            Kind::IntroducePropose => Call::IntroducePropose(Box::new(ProposeParams::read(params)?)),
            Kind::IntroduceRespond => Call::IntroduceRespond(Box::new(IntroduceAnswer::read(params)?)),
            Kind::ReferralRequest => Call::ReferralRequest(Box::new(ReferralParams::read(params)?)),
        };
        Ok((call, message.into()))
    }
}

fn read_send(version: Version, message: Object) -> Result<(Call, Value), Refusal> {
    if message.get("parts").and_then(Value::as_array).is_some_and(<[Value]>::is_empty) {
        return Err(plain(Code::InvalidParams, say::NO_PARTS));
    }
    let message = match version {
        Version::V1_0 => a2a::message_from_v1(message),
        Version::V0_3 => message,
    };
    Ok((Call::Send(version), message.into()))
}

/// Row d: says what is offered instead (5.1). The method is given back only when it is short.
fn unknown_method(method: Option<&str>, profile: Profile) -> Refusal {
    const LONGEST_ECHO: usize = 128;
    let method = method.filter(|name| name.len() <= LONGEST_ECHO);
    let offered: Vec<Value> = methods(profile == Profile::Door).iter().map(|name| Value::from(*name)).collect();
    plain(Code::MethodNotFound, say::UNKNOWN_METHOD)
        .with("method", method.map_or(Value::Null, Value::from))
        .with("methods", offered)
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("protocolVersion", PROTOCOL_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muretai_protocol::json;
    use proptest::prelude::*;

    const PROFILES: [Profile; 2] = [Profile::Node, Profile::Door];

    fn code(body: &str, profile: Profile) -> i64 {
        read(body.as_bytes(), None, profile).map_or_else(|rejected| rejected.refusal.code.number(), |_| 0)
    }

    #[test]
    fn a_method_that_is_no_string_is_judged_by_profile() {
        for method in ["", r#","method":5"#, r#","method":null"#, r#","method":["message/send"]"#] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":1{method}}}"#);
            assert_eq!(PROFILES.map(|profile| code(&body, profile)), [-32600, -32601], "{body}");
        }
        for jsonrpc in ["", r#""jsonrpc":"1.0","#, r#""jsonrpc":2.0,"#] {
            let body = format!(r#"{{{jsonrpc}"id":1,"method":"message/send"}}"#);
            assert_eq!(PROFILES.map(|profile| code(&body, profile)), [-32600, -32602], "{body}");
        }
    }

    #[test]
    fn a_door_has_no_offers() {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message",
            "messageId":"m1","metadata":{"offer":"x"}}}}"#;
        assert_eq!(PROFILES.map(|profile| code(body, profile)), [0, -32602]);
        assert_eq!(code(&body.replace("\"x\"", "null"), Profile::Door), 0);
    }

    #[test]
    fn what_is_kept_is_measured_before_anything_is_verified() {
        let code = |message: String| {
            let body =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"message/send","params":{{"message":{message}}}}}"#);
            PROFILES.map(|profile| code(&body, profile))
        };
        let message = |id: &str, context: &str, reply_to: &str, x: &str| {
            format!(
                r#"{{"kind":"message","messageId":"{id}","contextId":"{context}","metadata":{{"replyTo":"{reply_to}","x":{x}}}}}"#
            )
        };
        let (longest, longer) = ("x".repeat(MAX_ID_BYTES), "é".repeat(MAX_ID_BYTES / 2) + "x");
        assert_eq!(code(message(&longest, &longest, &longest, "1")), [0, 0]);
        assert_eq!(code(message(&longer, "", "", "1")), [-32600, -32600]);
        assert_eq!(code(message("m", &longer, "", "1")), [-32600, -32600]);
        assert_eq!(code(message("m", "", &longer, "1")), [-32600, -32600]);
        let tiny = |count: usize| format!("[{}]", vec![r#"{"":0}"#; count].join(","));
        assert_eq!(code(message("m", "", "", &tiny(9_000))), [0, 0]);
        assert_eq!(code(message("m", "", "", &tiny(10_000))), [-32600, -32600]);
        let part = |len: usize| format!(r#"{{"kind":"file","file":{{"bytes":"{}"}}}}"#, "A".repeat(len));
        let parts = |len| format!(r#"{{"kind":"message","messageId":"m","parts":[{}]}}"#, part(len));
        assert_eq!(code(parts(60_000)), [0, 0]);
        assert_eq!(code(parts(70_000)), [-32600, -32600]);
        // White space costs nothing: what is kept is compact.
        assert_eq!(code(message("m", "", "", &format!("[{}]", " ".repeat(100_000)))), [0, 0]);
    }

    #[test]
    fn text_is_measured_in_bytes() {
        let body = |text: &str| {
            let message =
                format!(r#"{{"kind":"message","messageId":"m1","parts":[{{"kind":"text","text":"{text}"}}]}}"#);
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"message/send","params":{{"message":{message}}}}}"#)
        };
        assert_eq!(code(&body(&"é".repeat(MAX_TEXT_BYTES / 2)), Profile::Node), 0);
        assert_eq!(code(&body(&("é".repeat(MAX_TEXT_BYTES / 2) + "x")), Profile::Node), -32005);
    }

    /// JSON of any shape, with the names that mean something here.
    fn any_json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("1".to_owned()),
            Just("-0".to_owned()),
            Just("1e400".to_owned()),
            Just("\"2.0\"".to_owned()),
            Just("\"message\"".to_owned()),
            Just("\"message/send\"".to_owned()),
            Just("\"SendMessage\"".to_owned()),
            Just("\"onboard/claim\"".to_owned()),
            Just("\"text\"".to_owned()),
        ];
        let key = prop::sample::select(vec![
            "jsonrpc",
            "id",
            "method",
            "params",
            "message",
            "kind",
            "messageId",
            "parts",
            "text",
            "metadata",
            "from",
            "nonce",
            "url",
            "role",
            "contextId",
        ]);
        leaf.prop_recursive(6, 64, 8, move |inner| {
            let member = (key.clone(), inner.clone()).prop_map(|(key, value)| format!("\"{key}\":{value}"));
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(member, 0..8).prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        })
    }

    proptest! {
        #[test]
        fn bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            for profile in PROFILES {
                let _ = read(&body, None, profile);
            }
        }

        #[test]
        fn shapes_never_panic_and_errors_are_json(method in prop::sample::select(METHODS), params in any_json()) {
            for profile in PROFILES {
                for body in [params.clone(), format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)] {
                    if let Err(rejected) = read(body.as_bytes(), Some("1.0"), profile) {
                        let answer = rpc::error(&rejected.id, &rejected.refusal);
                        prop_assert!(json::parse(answer.as_bytes()).is_ok());
                    }
                }
            }
        }
    }
}
