//! Rows b to g of the ladder (section 4.1): from bytes to a method, its parameters and a message of the right shape.
//! Pure: nothing is looked up, hashed or verified here, and no input panics.
use muretai_protocol::{
    a2a::{self, Version},
    json::{Object, Value},
    limits::{MAX_TEXT_BYTES, PROTOCOL_VERSION},
    message::Message,
    rpc::{self, Code, Id, Refusal, RequestError},
};

use super::{
    methods::claim::ClaimParams,
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

/// The methods that this agent offers, as the card and `-32601` name them.
pub const METHODS: &[&str] = &["message/send", "onboard/claim"];

/// A method that is offered here, with parameters of the right types.
#[derive(Debug)]
pub enum Call {
    /// `message/send`, or the `SendMessage` of A2A 1.0 (section 6.7): the version says in which shape to answer.
    Send(Version),
    /// `onboard/claim`.
    Claim(Box<ClaimParams>),
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
    match read_frame(frame, a2a_version, profile) {
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
fn read_frame(frame: rpc::Request, a2a_version: Option<&str>, profile: Profile) -> Result<(Call, Message), Refusal> {
    let method = method_name(&frame, profile)?; // c
    let kind = Kind::of(method).ok_or_else(|| unknown_method(Some(method)))?; // d
    a2a::version_from_header(a2a_version)?;
    let Some(Value::Object(mut params)) = frame.params else {
        return Err(plain(Code::InvalidParams, say::PARAMS_NOT_AN_OBJECT));
    };
    let (call, message) = kind.read_params(&mut params)?; // e
    let message = Message::from_value(message).map_err(|wrong| plain(Code::InvalidRequest, wrong.0))?; // f
    if message.text.len() > MAX_TEXT_BYTES {
        return Err(plain(Code::TextTooLarge, say::TEXT_TOO_LARGE)); // g
    }
    Ok((call, message))
}

/// Row c. A Door does not look at `jsonrpc`, and a method that is no string is one that it does not offer.
fn method_name(frame: &rpc::Request, profile: Profile) -> Result<&str, Refusal> {
    if profile == Profile::Node && !frame.is_jsonrpc_2() {
        return Err(plain(Code::InvalidRequest, say::NOT_VERSION_2));
    }
    match (frame.method(), profile) {
        (Some(method), _) => Ok(method),
        (None, Profile::Node) => Err(plain(Code::InvalidRequest, say::NO_METHOD)),
        (None, Profile::Door) => Err(unknown_method(None)),
    }
}

/// The method's name alone, before its parameters are looked at.
enum Kind {
    Send(Version),
    Claim,
}

impl Kind {
    /// An exact look-up: no case folding, no trimming (5.1).
    fn of(method: &str) -> Option<Kind> {
        match method {
            "message/send" => Some(Kind::Send(Version::V0_3)),
            "SendMessage" => Some(Kind::Send(Version::V1_0)),
            "onboard/claim" => Some(Kind::Claim),
            _ => None,
        }
    }

    /// Row e: the members that the method needs are there and of the right type.
    fn read_params(self, params: &mut Object) -> Result<(Call, Value), Refusal> {
        let Some(Value::Object(message)) = params.remove("message") else {
            return Err(plain(Code::InvalidParams, say::MESSAGE_NOT_AN_OBJECT));
        };
        match self {
            Kind::Send(version) => {
                if message.get("parts").and_then(Value::as_array).is_some_and(<[Value]>::is_empty) {
                    return Err(plain(Code::InvalidParams, say::NO_PARTS));
                }
                let message = match version {
                    Version::V1_0 => a2a::message_from_v1(message),
                    Version::V0_3 => message,
                };
                Ok((Call::Send(version), message.into()))
            }
            Kind::Claim => Ok((Call::Claim(Box::new(ClaimParams::read(params)?)), message.into())),
        }
    }
}

/// Row d: says what is offered instead (5.1). The method is given back only when it is short.
fn unknown_method(method: Option<&str>) -> Refusal {
    const LONGEST_ECHO: usize = 128;
    let method = method.filter(|name| name.len() <= LONGEST_ECHO);
    let offered: Vec<Value> = METHODS.iter().map(|name| Value::from(*name)).collect();
    plain(Code::MethodNotFound, say::UNKNOWN_METHOD)
        .with("method", method.map_or(Value::Null, Value::from))
        .with("methods", offered)
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("protocolVersion", PROTOCOL_VERSION)
}
