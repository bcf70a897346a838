//! Row e: the parameters beside the message, of the right types, shapes and sizes, before anything is looked up or
//! verified. Absent and `null` are the same; a coordinate of a bad shape is refused, not dropped, so that its sender
//! learns of it before anything is used up.
use muretai_protocol::{
    Did,
    json::{Object, Value},
    rpc::{Code, Refusal},
    text, urls,
};
use muretai_store::{contacts::Coordinates, requests::Decision};
use muretai_transports::guard::{self, Policy};

use crate::receive::refusals::{self as say, plain};

/// Longest URL of a peer that is kept.
const MAX_URL_BYTES: usize = 2_048;
/// Longest note, and longest need of a referral: an owner reads it, and a credential carries it.
pub(crate) const MAX_NOTE_BYTES: usize = 2_000;
/// Largest credential, as compact JSON.
const MAX_VC_BYTES: usize = 16_384;
/// Longest id that a peer gives back to us; the ids of 8.1 and of requests are shorter.
const MAX_WIRE_ID_BYTES: usize = 256;
/// Words that a referral may look for beside its text.
const MAX_EXPERTISE: usize = 16;
const MAX_EXPERTISE_BYTES: usize = 64;
/// Referrals in one answer.
const MAX_REFERRALS: i64 = 20;

/// What a peer says of itself, or of whom it introduces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerFacts {
    /// What it calls itself, safe to show.
    pub name: Option<String>,
    /// Where it says that it is.
    pub coordinates: Coordinates,
}

/// `onboard/claim`.
#[derive(Debug, PartialEq, Eq)]
pub struct ClaimParams {
    /// The invite's one-time value.
    pub nonce: String,
    /// The claimer.
    pub peer: PeerFacts,
}

/// `trust/status`.
#[derive(Debug, PartialEq, Eq)]
pub struct StatusParams {
    /// About whom; `None` is the caller.
    pub subject: Option<Did>,
}

/// `connect/request`.
#[derive(Debug, PartialEq)]
pub struct ConnectParams {
    /// Who asks.
    pub peer: PeerFacts,
    /// What is said with it, when the signed text does not say it.
    pub note: Option<String>,
    /// Who vouches for it, unverified.
    pub vc: Option<Value>,
}

/// `connect/respond`.
#[derive(Debug, PartialEq, Eq)]
pub struct ConnectAnswer {
    /// Yes or no.
    pub decision: Decision,
    /// Who answers.
    pub peer: PeerFacts,
}

/// `introduce/propose`.
#[derive(Debug, PartialEq)]
pub struct ProposeParams {
    /// The credential, unverified.
    pub vc: Value,
    /// Who is introduced.
    pub subject: Did,
    /// What its introducer says of it.
    pub peer: PeerFacts,
    /// What is said with it, when the signed text does not say it.
    pub note: Option<String>,
}

/// `introduce/respond`.
#[derive(Debug, PartialEq, Eq)]
pub struct IntroduceAnswer {
    /// The credential's id.
    pub introduction_id: String,
    /// Yes or no.
    pub decision: Decision,
}

/// `referral/request`.
#[derive(Debug, PartialEq, Eq)]
pub struct ReferralParams {
    /// What is looked for, beside the words of the text.
    pub expertise: Vec<String>,
    /// At most so many, 1 to 20.
    pub limit: usize,
}

impl PeerFacts {
    pub(crate) fn read(params: &mut Object) -> Result<PeerFacts, Refusal> {
        let name = text_of(params, "name", usize::MAX, say::BAD_NAME)?;
        let url = text_of(params, "url", MAX_URL_BYTES, say::BAD_URL)?.filter(|url| !url.is_empty());
        let relay = text_of(params, "relay", MAX_URL_BYTES, say::BAD_RELAY)?.filter(|relay| !relay.is_empty());
        let enc_pub = text_of(params, "enc_pub", MAX_URL_BYTES, say::BAD_ENC_PUB)?;
        check(&url, is_base, say::BAD_URL)?;
        check(&relay, is_relay, say::BAD_RELAY)?;
        check(&enc_pub, is_enc_pub, say::BAD_ENC_PUB)?;
        let name = name.map(|name| text::peer_name(&name)).filter(|name| !name.is_empty());
        Ok(PeerFacts { name, coordinates: Coordinates { url, relay, enc_pub, enc_pub_pq: None } })
    }
}

impl PeerFacts {
    /// Reads what a peer says of a third one, by the names that it uses for `name`, `url`, `relay` and `enc_pub`. Of
    /// what is malformed nothing is taken: the peer itself may say better later.
    pub(crate) fn lenient<'v>(named: [&str; 4], member: impl Fn(&str) -> Option<&'v Value>) -> PeerFacts {
        let mut facts = PeerFacts::default();
        for (key, name) in ["name", "url", "relay", "enc_pub"].into_iter().zip(named) {
            let Some(value) = member(name) else { continue };
            let Ok(read) = PeerFacts::read(&mut Object::from([(key.to_owned(), value.clone())])) else { continue };
            facts.name = facts.name.or(read.name);
            facts.coordinates.url = facts.coordinates.url.or(read.coordinates.url);
            facts.coordinates.relay = facts.coordinates.relay.or(read.coordinates.relay);
            facts.coordinates.enc_pub = facts.coordinates.enc_pub.or(read.coordinates.enc_pub);
        }
        facts
    }
}

impl ClaimParams {
    pub(crate) fn read(params: &mut Object) -> Result<ClaimParams, Refusal> {
        let nonce = match params.remove("nonce") {
            Some(Value::String(nonce)) => nonce,
            _ => return Err(invalid(say::NONCE_NOT_A_STRING)),
        };
        Ok(ClaimParams { nonce, peer: PeerFacts::read(params)? })
    }
}

impl StatusParams {
    pub(crate) fn read(params: &mut Object) -> Result<StatusParams, Refusal> {
        let subject = params.remove("subject").filter(|subject| *subject != Value::Null);
        Ok(StatusParams { subject: subject.map(|subject| did(Some(&subject), say::BAD_STATUS_SUBJECT)).transpose()? })
    }
}

impl ConnectParams {
    pub(crate) fn read(params: &mut Object) -> Result<ConnectParams, Refusal> {
        Ok(ConnectParams { vc: vc(params)?, note: note(params)?, peer: PeerFacts::read(params)? })
    }
}

impl ConnectAnswer {
    pub(crate) fn read(params: &mut Object) -> Result<ConnectAnswer, Refusal> {
        // What was asked is told by who answers: there is one request to each peer. The id is for the log of others.
        text_of(params, "requestId", MAX_WIRE_ID_BYTES, say::BAD_REQUEST_ID)?;
        Ok(ConnectAnswer { decision: decision(params)?, peer: PeerFacts::read(params)? })
    }
}

impl ProposeParams {
    pub(crate) fn read(params: &mut Object) -> Result<ProposeParams, Refusal> {
        let vc = vc(params)?.ok_or_else(|| invalid(say::BAD_VC))?;
        let Some(Value::Object(mut subject)) = params.remove("subject") else {
            return Err(invalid(say::BAD_SUBJECT));
        };
        let (did, note) = (did(subject.get("did"), say::BAD_SUBJECT)?, note(params)?);
        Ok(ProposeParams { vc, subject: did, note, peer: PeerFacts::read(&mut subject)? })
    }
}

impl IntroduceAnswer {
    pub(crate) fn read(params: &mut Object) -> Result<IntroduceAnswer, Refusal> {
        let id = text_of(params, "introductionId", MAX_WIRE_ID_BYTES, say::BAD_INTRODUCTION_ID)?;
        let introduction_id = id.ok_or_else(|| invalid(say::BAD_INTRODUCTION_ID))?;
        Ok(IntroduceAnswer { introduction_id, decision: decision(params)? })
    }
}

impl ReferralParams {
    pub(crate) fn read(params: &mut Object) -> Result<ReferralParams, Refusal> {
        let expertise = match params.remove("expertise") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(words)) if words.len() <= MAX_EXPERTISE => {
                let word =
                    |word: &Value| word.as_str().filter(|word| word.len() <= MAX_EXPERTISE_BYTES).map(str::to_owned);
                let words: Option<Vec<String>> = words.iter().map(word).collect();
                words.ok_or_else(|| invalid(say::BAD_EXPERTISE))?
            }
            Some(_) => return Err(invalid(say::BAD_EXPERTISE)),
        };
        let limit = match params.remove("limit").filter(|limit| *limit != Value::Null) {
            None => MAX_REFERRALS,
            Some(limit) => limit.as_i64().filter(|limit| *limit >= 1).ok_or_else(|| invalid(say::BAD_LIMIT))?,
        };
        Ok(ReferralParams { expertise, limit: limit.min(MAX_REFERRALS) as usize })
    }
}

fn invalid(wrong: &'static str) -> Refusal {
    plain(Code::InvalidParams, wrong)
}

fn text_of(params: &mut Object, key: &str, max_bytes: usize, wrong: &'static str) -> Result<Option<String>, Refusal> {
    match params.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() <= max_bytes => Ok(Some(text)),
        Some(_) => Err(invalid(wrong)),
    }
}

fn note(params: &mut Object) -> Result<Option<String>, Refusal> {
    Ok(text_of(params, "note", MAX_NOTE_BYTES, say::BAD_NOTE)?.filter(|note| !note.is_empty()))
}

fn vc(params: &mut Object) -> Result<Option<Value>, Refusal> {
    match params.remove("vc") {
        None | Some(Value::Null) => Ok(None),
        Some(vc @ Value::Object(_)) if vc.to_json().len() <= MAX_VC_BYTES => Ok(Some(vc)),
        Some(_) => Err(invalid(say::BAD_VC)),
    }
}

fn did(value: Option<&Value>, wrong: &'static str) -> Result<Did, Refusal> {
    let did = value.and_then(Value::as_str).and_then(|did| did.parse().ok());
    did.ok_or_else(|| invalid(wrong))
}

fn decision(params: &mut Object) -> Result<Decision, Refusal> {
    match params.get("decision").and_then(Value::as_str) {
        Some("accept") => Ok(Decision::Accept),
        Some("reject") => Ok(Decision::Reject),
        _ => Err(invalid(say::BAD_DECISION)),
    }
}

fn check(value: &Option<String>, is_right: impl Fn(&str) -> bool, wrong: &'static str) -> Result<(), Refusal> {
    match value {
        Some(value) if !is_right(value) => Err(invalid(wrong)),
        _ => Ok(()),
    }
}

fn is_base(url: &str) -> bool {
    urls::check_base(url).is_ok() && is_dialable(url)
}

fn is_relay(relay: &str) -> bool {
    urls::is_plain_url(relay) && is_dialable(relay)
}

/// Whether anybody could ever be there: no link-local, wildcard or multicast address, however it is spelled.
fn is_dialable(url: &str) -> bool {
    guard::check_url(url, Policy::Owner).is_ok()
}

fn is_enc_pub(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
