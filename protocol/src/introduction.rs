//! Introductions (section 8): one agent vouches for a second to a third.
//!
//! A credential is verified as received: nothing is normalised, unknown members are covered by the proof. What is not in
//! this pure check: whether the issuer is trusted, whether it took the introduction back, whether the owner agrees.
mod mint;
mod record;

pub use mint::{IntroductionSpec, MintError, mint};
pub use record::{RecordError, RequestRecord};

use crate::{
    Did, UnixSeconds,
    json::{CanonicalError, Number, Object, Value, canonical_as_received},
    sign::verify_base64,
    urls::is_plain_url,
};

/// Before a target's DID in the text of an `introduction/request`.
pub const INTRODUCE_ME_TO: &str = "introduce-me-to:";
/// Bytes of a whole credential as compact JSON: the longest record of a question in words fits, a database does not.
pub const MAX_INTRODUCTION_BYTES: usize = 16_384;
/// Entries of `expertise`; every one is shown to an owner who decides.
pub const MAX_EXPERTISE: usize = 16;
/// Bytes of one entry of `expertise`.
pub const MAX_EXPERTISE_BYTES: usize = 64;
/// Bytes of a credential's id, which is kept, listed and compared.
pub const MAX_INTRODUCTION_ID_BYTES: usize = 128;
/// The level of full trust.
pub const MAX_TRUST_LEVEL_BP: u16 = 1_000;
/// Seconds that a question may be older than the credential that answers it.
pub const REQUEST_TTL_SECS: i64 = 30 * 86_400;
/// Seconds that a question may be dated after the credential that answers it: two clocks differ.
pub const REQUEST_SKEW_SECS: i64 = 300;

/// What makes a credential an introduction.
const TYPE: &str = "AgentIntroduction";
/// What the proof is said to be; it is a plain signature.
const PROOF_TYPE: &str = "Ed25519Signature2020";

/// What an introduction leans on.
#[derive(Debug, Clone, PartialEq)]
pub enum Provenance {
    /// It does not say.
    Unstated,
    /// The introducer's own idea.
    Proactive,
    /// The subject asked; the record verified.
    Requested(RequestRecord),
}

/// A credential whose proof verified, for the parties that the caller named.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// Its id: printable ASCII without blanks, at most [`MAX_INTRODUCTION_ID_BYTES`].
    pub id: String,
    /// Who vouches.
    pub issuer: Did,
    /// Who is introduced.
    pub subject: Did,
    /// To whom.
    pub target: Did,
    /// What the subject is said to know; bounded in count and length, unsafe to show raw.
    pub expertise: Vec<String>,
    /// 0 to 1000, when it says.
    pub trust_level_bp: Option<u16>,
    /// When it was signed.
    pub issued: UnixSeconds,
    /// The first second in which it is no longer valid.
    pub valid_until: UnixSeconds,
    /// What it leans on.
    pub provenance: Provenance,
    /// Where `/revocations` is asked: of plain URL shape, without a trailing slash. Whatever else the credential names
    /// is as good as none.
    pub issuer_endpoint: Option<String>,
    /// The credential as received.
    pub raw: Value,
}

/// Who the caller says the parties are. The issuer is whom the credential names: its proof is by that DID.
#[derive(Debug)]
pub struct Parties<'a> {
    /// Who presents it, or to whom it was given.
    pub subject: &'a Did,
    /// To whom it must lead; `None` takes whom it names.
    pub target: Option<&'a Did>,
}

/// Why a credential is not an introduction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IntroductionError {
    /// A member is missing, of another type, or beyond its bounds.
    #[error("the introduction's {0} is missing or malformed")]
    Malformed(&'static str),
    /// Larger than anybody needs.
    #[error("the introduction has {bytes} bytes, the limit is {MAX_INTRODUCTION_BYTES}")]
    TooLarge {
        /// Its bytes as compact JSON.
        bytes: usize,
    },
    /// A credential about something else.
    #[error("the credential is not of type {TYPE}")]
    OtherType,
    /// Its subject is not who presents it.
    #[error("the introduction is of {found}, not of {expected}")]
    OtherSubject {
        /// Who presents it.
        expected: Did,
        /// Whom it introduces.
        found: Did,
    },
    /// It leads to somebody else.
    #[error("the introduction is to {found}, not to {expected}")]
    OtherTarget {
        /// Who reads it.
        expected: Did,
        /// To whom it leads.
        found: Did,
    },
    /// The subject vouches for itself.
    #[error("the introduction is by its own subject")]
    SelfIssued,
    /// The target vouches to itself.
    #[error("the introduction is by its own target")]
    IssuedByTarget,
    /// The subject is introduced to itself.
    #[error("the introduction leads to its own subject")]
    SubjectIsTarget,
    /// A number in it has no agreed canonical form, so nothing can be said about the proof (1.3).
    #[error("the introduction's proof cannot be judged")]
    Unverifiable(#[source] CanonicalError),
    /// Not signed by the DID that it names as issuer, or changed on the way.
    #[error("the introduction's proof does not verify")]
    Forged,
    /// No longer valid.
    #[error("the introduction expired at {}", .valid_until.to_iso())]
    Expired {
        /// When it ended.
        valid_until: UnixSeconds,
    },
    /// It leans on something unheard of.
    #[error("the introduction's provenance is of an unknown mode")]
    UnknownProvenance,
    /// It says that the subject asked, and the question does not bear it out.
    #[error("the introduction's embedded request does not verify")]
    Record(#[source] RecordError),
}

/// Verifies a credential (8.3). `now` judges its end alone; a record inside is judged at the credential's own date.
///
/// At most six signatures are tried, whatever came in.
///
/// # Errors
/// The proof is judged before what it covers, but for the parties and the sizes: every later error is about the issuer's
/// own words.
pub fn verify(vc: &Value, parties: &Parties<'_>, now: UnixSeconds) -> Result<Introduction, IntroductionError> {
    check_size(vc)?;
    let named = Named::of(vc)?;
    named.check(parties)?;
    check_proof(vc, &named.issuer)?;
    let subject = member(vc, "credentialSubject")?;
    let valid_until = time(subject, "validUntil")?;
    if valid_until <= now {
        return Err(IntroductionError::Expired { valid_until });
    }
    let issued = time(vc, "issuanceDate")?;
    Ok(Introduction {
        id: id(vc)?,
        expertise: expertise(subject)?,
        trust_level_bp: trust_level_bp(subject)?,
        issued,
        valid_until,
        provenance: provenance(vc, &named, issued)?,
        issuer_endpoint: issuer_endpoint(vc)?,
        raw: vc.clone(),
        issuer: named.issuer,
        subject: named.subject,
        target: named.target,
    })
}

fn check_size(vc: &Value) -> Result<(), IntroductionError> {
    match vc.to_json().len() {
        bytes if bytes > MAX_INTRODUCTION_BYTES => Err(IntroductionError::TooLarge { bytes }),
        _ => Ok(()),
    }
}

/// Whom a credential of the right type names.
struct Named {
    issuer: Did,
    subject: Did,
    target: Did,
}

impl Named {
    fn of(vc: &Value) -> Result<Named, IntroductionError> {
        vc.as_object().ok_or(IntroductionError::Malformed("JSON object"))?;
        let types = vc.member("type").and_then(Value::as_array).ok_or(IntroductionError::Malformed("type"))?;
        if !types.iter().any(|name| name.as_str() == Some(TYPE)) {
            return Err(IntroductionError::OtherType);
        }
        let did = |value: &Value, name| text(value, name)?.parse().map_err(|_| IntroductionError::Malformed(name));
        let subject = member(vc, "credentialSubject")?;
        Ok(Named { issuer: did(vc, "issuer")?, subject: did(subject, "id")?, target: did(subject, "introducedTo")? })
    }

    fn check(&self, parties: &Parties<'_>) -> Result<(), IntroductionError> {
        if self.subject != *parties.subject {
            let (expected, found) = (parties.subject.clone(), self.subject.clone());
            return Err(IntroductionError::OtherSubject { expected, found });
        }
        if let Some(expected) = parties.target.filter(|target| **target != self.target) {
            let (expected, found) = (expected.clone(), self.target.clone());
            return Err(IntroductionError::OtherTarget { expected, found });
        }
        match self {
            _ if self.issuer == self.subject => Err(IntroductionError::SelfIssued),
            _ if self.issuer == self.target => Err(IntroductionError::IssuedByTarget),
            _ if self.subject == self.target => Err(IntroductionError::SubjectIsTarget),
            _ => Ok(()),
        }
    }
}

/// Checks that the issuer's Ed25519 key signed everything but `proof`.
///
/// The proof's own members are not signed. What says how to verify must say what is done here, the rest means nothing.
fn check_proof(vc: &Value, issuer: &Did) -> Result<(), IntroductionError> {
    let proof = member(vc, "proof")?;
    if proof.member("type").is_some_and(|kind| kind.as_str() != Some(PROOF_TYPE)) {
        return Err(IntroductionError::Malformed("proof"));
    }
    let method = proof.member("verificationMethod").map(|method| method.as_str().unwrap_or_default());
    if method.is_some_and(|method| method.split('#').next() != Some(issuer.as_str())) {
        return Err(IntroductionError::Malformed("proof"));
    }
    let jws = proof.member("jws").and_then(Value::as_str).ok_or(IntroductionError::Malformed("proof"))?;
    let payload = signed_body(vc).map_err(IntroductionError::Unverifiable)?;
    if verify_base64(issuer, payload.as_bytes(), jws) { Ok(()) } else { Err(IntroductionError::Forged) }
}

/// The canonical bytes of everything but `proof`.
fn signed_body(vc: &Value) -> Result<String, CanonicalError> {
    let members = vc.as_object().into_iter().flatten().filter(|(key, _)| *key != "proof");
    let signed: Object = members.map(|(key, value)| (key.clone(), value.clone())).collect();
    canonical_as_received(&Value::Object(signed))
}

fn id(vc: &Value) -> Result<String, IntroductionError> {
    let id = text(vc, "id")?;
    let is_id = (1..=MAX_INTRODUCTION_ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    if is_id { Ok(id.to_owned()) } else { Err(IntroductionError::Malformed("id")) }
}

fn expertise(subject: &Value) -> Result<Vec<String>, IntroductionError> {
    let malformed = IntroductionError::Malformed("expertise");
    let Some(entries) = subject.member("expertise") else { return Ok(Vec::new()) };
    let entries = entries.as_array().filter(|entries| entries.len() <= MAX_EXPERTISE).ok_or(malformed.clone())?;
    let entry = |entry: &Value| entry.as_str().filter(|text| text.len() <= MAX_EXPERTISE_BYTES).map(str::to_owned);
    entries.iter().map(|value| entry(value).ok_or(malformed.clone())).collect()
}

/// `trustLevelBp`, or the float `trustLevel` of old credentials. Booleans are not numbers.
fn trust_level_bp(subject: &Value) -> Result<Option<u16>, IntroductionError> {
    if let Some(level) = subject.member("trustLevelBp") {
        let level = level.as_i64().and_then(|level| u16::try_from(level).ok());
        let level = level.filter(|level| *level <= MAX_TRUST_LEVEL_BP);
        return level.map(Some).ok_or(IntroductionError::Malformed("trustLevelBp"));
    }
    let level = match subject.member("trustLevel") {
        None => return Ok(None),
        Some(Value::Number(level)) => Number::as_f64(level).filter(|level| (0.0..=1.0).contains(level)),
        Some(_) => None,
    };
    let level = level.ok_or(IntroductionError::Malformed("trustLevel"))?;
    Ok(Some((level * f64::from(MAX_TRUST_LEVEL_BP)).round() as u16))
}

fn provenance(vc: &Value, named: &Named, issued: UnixSeconds) -> Result<Provenance, IntroductionError> {
    let Some(provenance) = vc.member("provenance") else { return Ok(Provenance::Unstated) };
    match provenance.member("mode").and_then(Value::as_str) {
        Some("proactive") => Ok(Provenance::Proactive),
        Some("requested") => {
            let record = provenance.member("request").cloned().unwrap_or(Value::Null);
            let record = RequestRecord { raw: record };
            let verdict = record.verify(&named.subject, &named.issuer, &named.target, issued);
            verdict.map_err(IntroductionError::Record)?;
            Ok(Provenance::Requested(record))
        }
        _ => Err(IntroductionError::UnknownProvenance),
    }
}

/// The verification of 8.3 does not ask for a good endpoint, so a bad one is none; the issuer's own address remains.
fn issuer_endpoint(vc: &Value) -> Result<Option<String>, IntroductionError> {
    let Some(endpoint) = vc.member("issuerEndpoint") else { return Ok(None) };
    let endpoint = endpoint.as_str().ok_or(IntroductionError::Malformed("issuerEndpoint"))?;
    let endpoint = endpoint.trim_end_matches('/');
    Ok(is_plain_url(endpoint).then(|| endpoint.to_owned()))
}

fn member<'a>(value: &'a Value, name: &'static str) -> Result<&'a Value, IntroductionError> {
    let member = value.member(name).filter(|member| member.as_object().is_some());
    member.ok_or(IntroductionError::Malformed(name))
}

fn text<'a>(value: &'a Value, name: &'static str) -> Result<&'a str, IntroductionError> {
    value.member(name).and_then(Value::as_str).ok_or(IntroductionError::Malformed(name))
}

fn time(value: &Value, name: &'static str) -> Result<UnixSeconds, IntroductionError> {
    UnixSeconds::from_iso(text(value, name)?).ok_or(IntroductionError::Malformed(name))
}

#[cfg(test)]
mod tests;
