//! Neighbouring A2A versions (section 6.7): the 1.0 shim, and how a foreign card is read and called.
//!
//! The shim is possible because a signature covers six values and none of them changes between versions.
use crate::{
    json,
    json::{Object, Value},
    rpc::{Code, Refusal},
    urls,
};

/// A version of the A2A wire that can be spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `message/send`, `kind` discriminators, 0.2 and 0.3.
    V0_3,
    /// `SendMessage`, no discriminators, `ROLE_USER`.
    V1_0,
}

impl Version {
    /// The method that sends a message.
    pub fn send_method(self) -> &'static str {
        match self {
            Version::V0_3 => "message/send",
            Version::V1_0 => "SendMessage",
        }
    }
    /// The value of the `A2A-Version` header of a request, where the version has one.
    pub fn header(self) -> Option<&'static str> {
        match self {
            Version::V0_3 => None,
            Version::V1_0 => Some("1.0"),
        }
    }
    /// The other one, for a peer whose card claims what it does not serve (`-32601`).
    pub fn other(self) -> Version {
        match self {
            Version::V0_3 => Version::V1_0,
            Version::V1_0 => Version::V0_3,
        }
    }
    /// Reads `1.0`, `0.3`, `0.2.5` and the like; `None` for a major version that nobody here speaks.
    fn parse(text: &str) -> Option<Version> {
        if !text.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())) {
            return None;
        }
        match text.split('.').next()? {
            "0" => Some(Version::V0_3),
            "1" => Some(Version::V1_0),
            _ => None,
        }
    }
}

/// Maps an A2A 1.0 message object to our shape: role, parts and discriminators. Everything else stays as received.
pub fn message_from_v1(mut message: Object) -> Object {
    let role = match message.get("role").and_then(Value::as_str) {
        Some("ROLE_USER") => Some("user"),
        Some("ROLE_AGENT") => Some("agent"),
        _ => None,
    };
    if let Some(role) = role {
        message.insert("role".to_owned(), role.into());
    }
    if !message.contains_key("kind") {
        message.insert("kind".to_owned(), "message".into());
    }
    if let Some(Value::Array(parts)) = message.get_mut("parts") {
        for part in parts {
            if let Value::Object(part) = part
                && part.contains_key("text")
                && !part.contains_key("kind")
            {
                part.insert("kind".to_owned(), "text".into());
            }
        }
    }
    message
}

/// Wraps our signed reply as a 1.0 result, `{"message":{…}}` with `ROLE_AGENT` and bare text parts.
///
/// The metadata, and with it the signature, stays as it is. A `contextId` of null is left out, as 1.0 writes it.
pub fn result_to_v1(message: &Value) -> Value {
    let mut message = message.as_object().cloned().unwrap_or_default();
    message.remove("kind");
    message.insert("role".to_owned(), "ROLE_AGENT".into());
    message.retain(|_, value| !value.is_null());
    if let Some(Value::Array(parts)) = message.get_mut("parts") {
        for part in parts {
            if let Value::Object(part) = part {
                part.remove("kind");
            }
        }
    }
    let mut result = Object::new();
    result.insert("message".to_owned(), Value::Object(message));
    Value::Object(result)
}

/// Reads the `A2A-Version` header: absent or empty means 0.3.
///
/// # Errors
/// An unknown major version, and what is no version at all, is refused with `-32009`.
pub fn version_from_header(header: Option<&str>) -> Result<Version, Refusal> {
    match header.map(str::trim) {
        None | Some("") => Ok(Version::V0_3),
        Some(text) => Version::parse(text)
            .ok_or_else(|| Refusal::new(Code::VersionNotSupported, "this agent speaks A2A 0.2, 0.3 and 1.0")),
    }
}

/// Where and how a card says that its agent is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The POST address, as the card spells it.
    pub url: String,
    /// The version to speak there.
    pub version: Version,
}

/// Picks the JSON-RPC interface of any A2A card, 0.2 to 1.0. `None` when the card names none that can be called.
///
/// `supportedInterfaces` comes first, in the card's order of preference; then `url` with `preferredTransport`; then
/// `additionalInterfaces`. An address that is empty or not `http(s)` counts as absent.
pub fn interface_of(card: &Value) -> Option<Interface> {
    let stated = text(card, "protocolVersion");
    let supported = entries(card, "supportedInterfaces").filter(|entry| is_json_rpc(entry)).find_map(|entry| {
        // Only 1.0 has this list, and the root's version is then the card's own form.
        let version = text(entry, "protocolVersion").or(stated).map_or(Some(Version::V1_0), Version::parse)?;
        Some(Interface { url: address(entry)?.to_owned(), version })
    });
    supported.or_else(|| {
        let version = stated.map_or(Some(Version::V0_3), Version::parse)?;
        let is_preferred = text(card, "preferredTransport").is_none_or(names_json_rpc);
        let url = is_preferred
            .then(|| address(card))
            .flatten()
            .or_else(|| entries(card, "additionalInterfaces").filter(|entry| is_json_rpc(entry)).find_map(address))?;
        Some(Interface { url: url.to_owned(), version })
    })
}

/// An unsigned `message/send` or `SendMessage` request body for a foreign agent.
pub fn unsigned_request(version: Version, id: &str, message_id: &str, context_id: Option<&str>, body: &str) -> String {
    let mut message = match version {
        Version::V0_3 => json!({"kind": "message", "role": "user", "parts": [{"kind": "text", "text": (body)}]}),
        Version::V1_0 => json!({"role": "ROLE_USER", "parts": [{"text": (body)}]}),
    };
    if let Value::Object(members) = &mut message {
        members.insert("messageId".to_owned(), message_id.into());
        members.extend(context_id.map(|context_id| ("contextId".to_owned(), context_id.into())));
    }
    let method = version.send_method();
    json!({"jsonrpc": "2.0", "id": (id), "method": (method), "params": {"message": (message)}}).to_json()
}

/// The text of a foreign agent's result, message or task, in any version; `None` when there is none to show.
///
/// Of a task, the status message comes first and the artifacts follow; when it has neither, the last word of the agent
/// in its history. The text is a stranger's, and nothing of it is verified.
pub fn text_of_result(result: &Value) -> Option<String> {
    if let Some(message) = result.member("message") {
        return text_of_parts(message);
    }
    let task = result.member("task").unwrap_or(result);
    if task.member("status").is_none() && task.member("artifacts").is_none() {
        return text_of_parts(result);
    }
    let status = task.member("status").and_then(|status| status.member("message")).and_then(text_of_parts);
    let artifacts = entries(task, "artifacts").filter_map(text_of_parts);
    let pieces: Vec<String> = status.into_iter().chain(artifacts).collect();
    if pieces.is_empty() { last_word(task) } else { Some(pieces.join("\n")) }
}

fn last_word(task: &Value) -> Option<String> {
    let history = task.member("history")?.as_array()?;
    let is_agents = |message: &&Value| matches!(text(message, "role"), Some("agent" | "ROLE_AGENT"));
    history.iter().rev().filter(is_agents).find_map(text_of_parts)
}

/// The text parts of a message or an artifact, joined with line feeds.
fn text_of_parts(holder: &Value) -> Option<String> {
    let texts: Vec<&str> = entries(holder, "parts").filter_map(|part| text(part, "text")).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn entries<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.member(key).and_then(Value::as_array).unwrap_or_default().iter()
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.member(key)?.as_str()
}

/// An address that can be called at all.
fn address(entry: &Value) -> Option<&str> {
    text(entry, "url").filter(|url| !urls::origin(url).is_empty())
}

/// 1.0 says `protocolBinding`, 0.3 says `transport`; who says neither speaks the default, which is JSON-RPC.
fn is_json_rpc(entry: &Value) -> bool {
    text(entry, "protocolBinding").or_else(|| text(entry, "transport")).is_none_or(names_json_rpc)
}

fn names_json_rpc(transport: &str) -> bool {
    transport.eq_ignore_ascii_case("JSONRPC")
}

#[cfg(test)]
mod tests;
