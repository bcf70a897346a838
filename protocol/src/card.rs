//! The Agent Card and its signed envelope (section 6).
//!
//! [`build`] writes the own card, [`read`] takes a peer's, and [`verify_envelope`] turns a claim into a proof.
mod door;
mod envelope;

pub use door::requirement;
pub use envelope::{EnvelopeError, Expect, SignedCopy, sign_envelope, verify_copy, verify_envelope};

pub use crate::urls::post_address;
use crate::{
    Did, json,
    json::{Object, Value},
    limits::PROTOCOL_VERSION,
    urls::is_plain_url,
};

/// What this build calls itself in the `muretai` block, so that nobody takes it for a build of another family.
const CHANNEL: &str = "muretai-rs";
/// Counts the card-visible steps of this family of builds.
const SEQ: i64 = 1;
/// Characters of a peer's `name` that are kept; the rest is only in `raw`.
const MAX_NAME_CHARS: usize = 128;

/// Public facts about the owner: a whitelist (6.2 `profile`), because a stored profile also holds secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// How the owner wants to be called.
    pub display_name: Option<String>,
    /// A sentence or two.
    pub bio: Option<String>,
    /// What the agent knows about.
    pub tags: Vec<String>,
    /// Where the owner belongs to.
    pub affiliation: Option<String>,
    /// The agent's part, such as `specialist`.
    pub role: Option<String>,
}

/// What an own card is made from.
#[derive(Debug, Clone)]
pub struct CardSpec<'a> {
    /// Whose card it is.
    pub did: &'a Did,
    /// Self-asserted name.
    pub name: &'a str,
    /// Self-asserted description.
    pub description: &'a str,
    /// Canonical base, or `""` for an agent that cannot be dialled.
    pub url: &'a str,
    /// Version of the running program.
    pub version: &'a str,
    /// Public facts about the owner.
    pub profile: &'a Profile,
    /// X25519 sealing key, hex.
    pub enc_pub: Option<&'a str>,
    /// The ML-KEM-768 key, 2368 hex digits; the card then says `pq` among its capabilities.
    pub enc_pub_pq: Option<&'a str>,
    /// Where its mailbox is: only while something really drains it.
    pub relay: Option<&'a str>,
    /// Whether strangers are answered.
    pub open_door: bool,
    /// JSON-RPC methods that are answered.
    pub methods: &'a [&'a str],
    /// Additional skills, card objects of plugins.
    pub skills: &'a [Value],
    /// What the `muretai` block says about trust.
    pub trust: TrustFacts<'a>,
}

/// What a card says about trust (6.4); a hint, which the peer's own answers overrule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrustFacts<'a> {
    /// `wot`: a trust gate stands before `message/send`.
    pub has_gate: bool,
    /// `connect`: what becomes of connect requests, `filtered`, `open` or `closed`.
    pub connect: Option<&'a str>,
    /// `trustQuery`: who may ask about third parties, `self`, `trusted` or `public`.
    pub trust_query: Option<&'a str>,
}

/// Builds the card: every field of 6.2 that applies, both `url` and `supportedInterfaces`, the door's terms of 6.5.
///
/// Without a `url` there is no interface to name, and no `endpoint` in the terms.
pub fn build(spec: &CardSpec<'_>) -> Value {
    let endpoint = post_address(spec.url);
    let mut card = object(json!({
        "protocolVersion": PROTOCOL_VERSION,
        "name": (spec.name),
        "description": (spec.description),
        "url": (spec.url),
        "did": (spec.did.as_str()),
        "version": (spec.version),
        "capabilities": {"streaming": false, "pushNotifications": false},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": (skills(spec)),
        "muretai": (capability_block(spec)),
        "security": [{"did-key-ed25519": []}],
        "securitySchemes": (door::security_schemes(spec.did, &endpoint))
    }));
    if let Some(profile) = profile(spec.profile) {
        card.insert("profile".to_owned(), profile);
    }
    if let Some(enc_pub) = spec.enc_pub {
        card.insert("enc_pub".to_owned(), enc_pub.into());
    }
    if let Some(key) = spec.enc_pub_pq {
        card.insert("enc_pub_pq".to_owned(), key.into());
        if let Some(Value::Object(capabilities)) = card.get_mut("capabilities") {
            capabilities.insert("pq".to_owned(), json!({"kem": ["mlkem-768"]}));
        }
    }
    if let Some(relay) = spec.relay {
        card.insert("relay".to_owned(), relay.into());
    }
    if spec.open_door {
        card.insert("agentEntry".to_owned(), json!({"open_door": true}));
    }
    if !spec.url.is_empty() {
        card.insert("preferredTransport".to_owned(), "JSONRPC".into());
        card.insert("supportedInterfaces".to_owned(), interfaces(&endpoint));
    }
    Value::Object(card)
}

/// One interface, 0.3: every generation of the A2A SDKs then calls `message/send` (6.2). A 1.0 entry beside it would move
/// newer SDKs to `SendMessage`; whoever calls that unasked is understood all the same (6.7).
fn interfaces(endpoint: &str) -> Value {
    json!([{"url": (endpoint), "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}])
}

/// The `muretai` block (6.4). `open_door` is there only when strangers are answered, as in `agentEntry`.
fn capability_block(spec: &CardSpec<'_>) -> Value {
    let methods: Vec<Value> = spec.methods.iter().map(|method| Value::from(*method)).collect();
    let mut block = object(json!({
        "seq": (SEQ),
        "channel": (CHANNEL),
        "node": (spec.version),
        "methods": (methods),
        "wot": (spec.trust.has_gate)
    }));
    let facts = [("connect", spec.trust.connect), ("trustQuery", spec.trust.trust_query)];
    block.extend(facts.into_iter().filter_map(|(key, word)| Some((key.to_owned(), word?.into()))));
    if spec.open_door {
        block.insert("open_door".to_owned(), true.into());
    }
    Value::Object(block)
}

fn profile(profile: &Profile) -> Option<Value> {
    let texts = [
        ("display_name", &profile.display_name),
        ("bio", &profile.bio),
        ("affiliation", &profile.affiliation),
        ("role", &profile.role),
    ];
    let mut members: Object =
        texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), set(text)?.into()))).collect();
    if !profile.tags.is_empty() {
        members.insert("tags".to_owned(), tags(profile));
    }
    (!members.is_empty()).then_some(Value::Object(members))
}

/// Chat first, then what the profile promises, then the plugins' (6.3).
fn skills(spec: &CardSpec<'_>) -> Value {
    let mut skills = vec![json!({
        "id": "chat",
        "name": "signed-direct-chat",
        "description": "Ed25519-signed direct messages (L2)",
        "tags": ["chat", "signed"]
    })];
    skills.extend(expertise(spec.profile));
    skills.extend_from_slice(spec.skills);
    Value::Array(skills)
}

fn expertise(profile: &Profile) -> Option<Value> {
    let role = set(&profile.role).unwrap_or("specialist");
    let bio = set(&profile.bio);
    if profile.tags.is_empty() && bio.is_none() && role == "specialist" {
        return None;
    }
    let description = match bio {
        Some(bio) => bio.to_owned(),
        None if !profile.tags.is_empty() => format!("Handles: {}", profile.tags.join(", ")),
        None => "Domain expertise".to_owned(),
    };
    Some(json!({"id": "expertise", "name": (role), "description": (description), "tags": (tags(profile))}))
}

fn tags(profile: &Profile) -> Value {
    Value::Array(profile.tags.iter().map(|tag| Value::from(tag.as_str())).collect())
}

fn set(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// The members of a value that is built as an object.
fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => members,
        _ => Object::new(),
    }
}

/// A peer's card of the right shape. A claim until an envelope proves it.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// Whose card it says it is.
    pub did: Did,
    /// Self-asserted, the first 128 characters; not made safe to show.
    pub name: String,
    /// The base that it says to dial; empty when there is none, or when `supportedInterfaces` alone names it.
    pub url: String,
    /// The relay, when it has the plain URL shape of 12.2.
    pub relay: Option<String>,
    /// The X25519 sealing key, when it is 64 hex digits.
    pub enc_pub: Option<String>,
    /// The ML-KEM-768 key, of a length that one has.
    pub enc_pub_pq: Option<String>,
    /// The whole card, as received.
    pub raw: Value,
}

/// Why JSON is not a card that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// Not an object.
    #[error("the card is not a JSON object")]
    NotAnObject,
    /// Fields that every A2A card has are missing.
    #[error("the card lacks {}", .0.join(", "))]
    Missing(Vec<&'static str>),
    /// A field is there and is not what it must be.
    #[error("the card's {field} is not {expected}")]
    WrongType {
        /// The field.
        field: &'static str,
        /// What it must be, with its article.
        expected: &'static str,
    },
    /// An A2A card without a DID: a foreign agent.
    #[error("the card names no DID")]
    NoDid,
    /// `did` is not a DID.
    #[error("the card's did is not a did:key")]
    BadDid,
}

/// Reads a peer's card. Fields that it does not know are kept in `raw` and mean nothing.
///
/// # Errors
/// [`CardError::NoDid`] is the answer for a complete card of a foreign A2A agent; what an A2A card must have is
/// asked first, so that half a card is never taken for one.
pub fn read(value: Value) -> Result<Card, CardError> {
    let members = value.as_object().ok_or(CardError::NotAnObject)?;
    check_required(members)?;
    read_own_fields(value)
}

const REQUIRED: [(&str, Kind); 7] = [
    ("name", Kind::Text),
    ("description", Kind::Text),
    ("version", Kind::Text),
    ("capabilities", Kind::Object),
    ("defaultInputModes", Kind::Array),
    ("defaultOutputModes", Kind::Array),
    ("skills", Kind::Array),
];

/// The kinds of JSON that the fields of a card are.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Object,
    Array,
}

impl Kind {
    fn check(self, field: &'static str, value: &Value) -> Result<(), CardError> {
        let (fits, expected) = match self {
            Kind::Text => (value.as_str().is_some(), "a string"),
            Kind::Object => (value.as_object().is_some(), "an object"),
            Kind::Array => (value.as_array().is_some(), "an array"),
        };
        if fits { Ok(()) } else { Err(CardError::WrongType { field, expected }) }
    }
}

/// What every A2A card has, 0.2 to 1.0 (D1): all that is missing is named at once.
fn check_required(members: &Object) -> Result<(), CardError> {
    let there = |key: &str| members.get(key).filter(|value| !matches!(value, Value::Null));
    let mut missing: Vec<&'static str> =
        REQUIRED.iter().filter(|(field, _)| there(field).is_none()).map(|(field, _)| *field).collect();
    if there("url").is_none() && there("supportedInterfaces").is_none() {
        missing.push("url or supportedInterfaces");
    }
    if !missing.is_empty() {
        return Err(CardError::Missing(missing));
    }
    let known = REQUIRED.iter().chain(&[("supportedInterfaces", Kind::Array)]);
    known.filter_map(|(field, kind)| Some((field, kind, there(field)?))).try_for_each(|(f, kind, v)| kind.check(f, v))
}

/// Reads the fields that this program acts on, and asks for no others: an envelope may prove a card that has just them.
fn read_own_fields(raw: Value) -> Result<Card, CardError> {
    let text = |field: &'static str| match raw.member(field) {
        Some(value) => Kind::Text.check(field, value).map(|()| value.as_str()),
        None => Ok(None),
    };
    let name = text("name")?.unwrap_or_default().chars().take(MAX_NAME_CHARS).collect();
    let url = text("url")?.unwrap_or_default().to_owned();
    let relay = text("relay")?.filter(|url| is_plain_url(url)).map(str::to_owned);
    let enc_pub = text("enc_pub")?.filter(|key| crate::hex::decode::<32>(key).is_some()).map(str::to_owned);
    let enc_pub_pq = text("enc_pub_pq")?.filter(|key| is_hex(key, ENC_PUB_PQ_DIGITS)).map(str::to_owned);
    let did = text("did")?.ok_or(CardError::NoDid)?.parse().map_err(|_| CardError::BadDid)?;
    Ok(Card { did, name, url, relay, enc_pub, enc_pub_pq, raw })
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Hex digits of an ML-KEM-768 encapsulation key.
const ENC_PUB_PQ_DIGITS: usize = 2368;

#[cfg(test)]
mod tests;
