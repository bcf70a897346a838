//! Writing and signing an introduction (8.1).
use super::{
    MAX_EXPERTISE, MAX_EXPERTISE_BYTES, MAX_INTRODUCTION_BYTES, MAX_TRUST_LEVEL_BP, PROOF_TYPE, RecordError,
    RequestRecord, TYPE, signed_body,
};
use crate::{
    Did, UnixSeconds, hex, json,
    json::{Object, Value},
    sign::SigningKey,
    urls::is_plain_url,
};

/// What an introducer says.
#[derive(Debug)]
pub struct IntroductionSpec<'a> {
    /// 16 random bytes: the id is `urn:uuid:` and their hex.
    pub id: [u8; 16],
    /// Who is introduced.
    pub subject: &'a Did,
    /// To whom.
    pub target: &'a Did,
    /// What the subject knows.
    pub expertise: &'a [String],
    /// 0 to 1000.
    pub trust_level_bp: u16,
    /// Our clock.
    pub issued: UnixSeconds,
    /// The first second in which it is no longer valid.
    pub valid_until: UnixSeconds,
    /// The subject's own question, for provenance `requested`; without one it is `proactive`.
    pub request: Option<&'a RequestRecord>,
    /// Where `/revocations` is asked; trailing slashes are dropped.
    pub issuer_endpoint: Option<&'a str>,
}

/// Why an introduction was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// Two of issuer, subject and target are one.
    #[error("an introduction is by one agent, of a second, to a third")]
    NotThree,
    /// More trust than there is.
    #[error("the trust level is {level}, the limit is {MAX_TRUST_LEVEL_BP}")]
    TrustLevel {
        /// As given.
        level: u16,
    },
    /// Too many fields of expertise.
    #[error("{count} fields of expertise are named, the limit is {MAX_EXPERTISE}")]
    TooMuchExpertise {
        /// How many.
        count: usize,
    },
    /// One field of expertise is too long.
    #[error("a field of expertise has {bytes} bytes, the limit is {MAX_EXPERTISE_BYTES}")]
    ExpertiseTooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// It would end before it begins.
    #[error("the introduction would end at {}, before it begins", .valid_until.to_iso())]
    NoTime {
        /// When it would end.
        valid_until: UnixSeconds,
    },
    /// The endpoint is no plain URL (12.2).
    #[error("the place to ask for revocations is not a plain http or https URL")]
    Endpoint,
    /// The record does not verify, is of another asker, or asks for another target.
    #[error("the request to introduce does not verify")]
    Record(#[source] RecordError),
    /// Nobody would read it; only the record can be so large.
    #[error("the introduction would have {bytes} bytes, the limit is {MAX_INTRODUCTION_BYTES}")]
    TooLarge {
        /// Its bytes as compact JSON.
        bytes: usize,
    },
}

/// Writes and signs a credential. `Err` when the record does not verify or names other parties, and for whatever
/// [`super::verify`] would refuse.
pub fn mint(key: &SigningKey, spec: &IntroductionSpec<'_>) -> Result<Value, MintError> {
    check(key.did(), spec)?;
    let mut vc = object(json!({
        "id": (format!("urn:uuid:{}", hex::encode(&spec.id))),
        "type": ["VerifiableCredential", TYPE],
        "issuer": (key.did()),
        "issuanceDate": (spec.issued.to_iso()),
        "credentialSubject": {
            "id": (spec.subject),
            "introducedTo": (spec.target),
            "expertise": (spec.expertise.iter().map(Value::from).collect::<Vec<_>>()),
            "trustLevelBp": (i64::from(spec.trust_level_bp)),
            "validUntil": (spec.valid_until.to_iso())
        },
        "provenance": (provenance(spec.request))
    }));
    if let Some(endpoint) = spec.issuer_endpoint {
        vc.insert("issuerEndpoint".to_owned(), endpoint.trim_end_matches('/').into());
    }
    // The only numbers that are not ours are the record's: its time may be a float, spelled as every verifier does.
    let payload =
        signed_body(&Value::Object(vc.clone())).map_err(|e| MintError::Record(RecordError::Unverifiable(e)))?;
    let proof = json!({
        "type": PROOF_TYPE,
        "created": (spec.issued.to_iso()),
        "verificationMethod": (key.did()),
        "jws": (key.sign_base64(payload.as_bytes()))
    });
    vc.insert("proof".to_owned(), proof);
    let vc = Value::Object(vc);
    match vc.to_json().len() {
        bytes if bytes > MAX_INTRODUCTION_BYTES => Err(MintError::TooLarge { bytes }),
        _ => Ok(vc),
    }
}

fn check(issuer: &Did, spec: &IntroductionSpec<'_>) -> Result<(), MintError> {
    if issuer == spec.subject || issuer == spec.target || spec.subject == spec.target {
        return Err(MintError::NotThree);
    }
    if spec.trust_level_bp > MAX_TRUST_LEVEL_BP {
        return Err(MintError::TrustLevel { level: spec.trust_level_bp });
    }
    if spec.expertise.len() > MAX_EXPERTISE {
        return Err(MintError::TooMuchExpertise { count: spec.expertise.len() });
    }
    if let Some(long) = spec.expertise.iter().find(|field| field.len() > MAX_EXPERTISE_BYTES) {
        return Err(MintError::ExpertiseTooLong { bytes: long.len() });
    }
    if spec.valid_until <= spec.issued {
        return Err(MintError::NoTime { valid_until: spec.valid_until });
    }
    if spec.issuer_endpoint.is_some_and(|endpoint| !is_plain_url(endpoint)) {
        return Err(MintError::Endpoint);
    }
    match spec.request {
        Some(record) => record.verify(spec.subject, issuer, spec.target, spec.issued).map_err(MintError::Record),
        None => Ok(()),
    }
}

fn provenance(request: Option<&RequestRecord>) -> Value {
    match request {
        Some(record) => json!({"mode": "requested", "request": (record.raw.clone())}),
        None => json!({"mode": "proactive"}),
    }
}

/// The members of a value that is built as an object.
fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => members,
        _ => Object::new(),
    }
}
