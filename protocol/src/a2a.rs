//! Neighbouring A2A versions (section 6.7): the 1.0 shim, and how a foreign card is read and called.
use crate::{
    json::{Object, Value},
    rpc::Refusal,
};

/// A version of the A2A wire that can be spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `message/send`, `kind` discriminators, 0.2 and 0.3.
    V0_3,
    /// `SendMessage`, no discriminators, `ROLE_USER`.
    V1_0,
}

/// Maps an A2A 1.0 message object to our shape: role and parts. Everything else stays as received.
pub fn message_from_v1(_message: Object) -> Object {
    todo!()
}
/// Wraps our signed reply as a 1.0 result, `{"message":{…}}` with `ROLE_AGENT` and bare text parts.
pub fn result_to_v1(_message: &Value) -> Value {
    todo!()
}
/// Reads the `A2A-Version` header: absent means 0.3; an unknown major is refused with `-32009`.
pub fn version_from_header(_header: Option<&str>) -> Result<Version, Refusal> {
    todo!()
}

/// Where and how a card says that its agent is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The POST address, as the card spells it.
    pub url: String,
    /// The version to speak there.
    pub version: Version,
}

/// Picks the JSON-RPC interface of any A2A card, 0.2 to 1.0. `None` when the card names none.
pub fn interface_of(_card: &Value) -> Option<Interface> {
    todo!()
}
/// An unsigned `message/send` or `SendMessage` request body for a foreign agent.
pub fn unsigned_request(
    _version: Version,
    _id: &str,
    _message_id: &str,
    _context_id: Option<&str>,
    _text: &str,
) -> String {
    todo!()
}
/// The text of a foreign agent's result, message or task, in any version; `None` when there is none to show.
pub fn text_of_result(_result: &Value) -> Option<String> {
    todo!()
}
