//! Introductions (section 8): one agent vouches for a second to a third.
//!
//! A credential is verified as received: nothing is normalised, unknown members are covered by the proof. What is not in
//! this pure check: whether the issuer is trusted, whether it took the introduction back, whether the owner agrees.
use crate::{Did, UnixSeconds, json::Value, message::Verified, sign::SigningKey};

/// Before a target's DID in the text of an `introduction/request`.
pub const INTRODUCE_ME_TO: &str = "introduce-me-to:";

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
    /// Where `/revocations` is asked.
    pub issuer_endpoint: Option<&'a str>,
}

/// A signed question as it is embedded (8.2), byte-faithful.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestRecord {
    /// The record.
    pub raw: Value,
}

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
    /// Its id.
    pub id: String,
    /// Who vouches.
    pub issuer: Did,
    /// Who is introduced.
    pub subject: Did,
    /// To whom.
    pub target: Did,
    /// What the subject is said to know; bounded in count and length.
    pub expertise: Vec<String>,
    /// 0 to 1000, when it says.
    pub trust_level_bp: Option<u16>,
    /// When it was signed.
    pub issued: UnixSeconds,
    /// The first second in which it is no longer valid.
    pub valid_until: UnixSeconds,
    /// What it leans on.
    pub provenance: Provenance,
    /// Where `/revocations` is asked, of plain URL shape.
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
    /// Not the layout of 8.1, or larger than anybody needs.
    #[error("the introduction is malformed")]
    Malformed,
}

/// Why an introduction was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// The record does not verify, is of another asker, or asks for another target.
    #[error("the request to introduce does not verify")]
    Record,
}

impl RequestRecord {
    /// The record of a verified question.
    pub fn of(question: &Verified) -> RequestRecord {
        let _ = question;
        todo!()
    }
}

/// Writes and signs a credential. `Err` when the record does not verify or names other parties.
pub fn mint(key: &SigningKey, spec: &IntroductionSpec<'_>) -> Result<Value, MintError> {
    let _ = (key, spec);
    todo!()
}

/// Verifies a credential (8.3). `now` judges its end alone; a record inside is judged at the credential's own date.
pub fn verify(vc: &Value, parties: &Parties<'_>, now: UnixSeconds) -> Result<Introduction, IntroductionError> {
    let _ = (vc, parties, now);
    todo!()
}
