//! The Agent Card and its signed envelope (section 6).
pub use crate::urls::post_address;
use crate::{
    Did, UnixSeconds,
    json::{CanonicalError, Value},
    sign::SigningKey,
};

/// Public facts about the owner, a whitelist (6.2 `profile`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Profile {
    pub display_name: Option<String>,
    pub bio: Option<String>,
    pub tags: Vec<String>,
    pub affiliation: Option<String>,
    pub role: Option<String>,
}

/// What an own card is made from.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct CardSpec<'a> {
    pub did: &'a Did,
    pub name: &'a str,
    pub description: &'a str,
    /// Canonical base, or `""`.
    pub url: &'a str,
    /// Software version.
    pub version: &'a str,
    pub profile: &'a Profile,
    pub enc_pub: Option<&'a str>,
    pub open_door: bool,
    pub methods: &'a [&'a str],
    /// Additional skills, card objects of plugins.
    pub skills: &'a [Value],
}

/// Builds the card: every field of 6.2 that applies, both `url` and `supportedInterfaces`, the door's terms of 6.5.
pub fn build(_spec: &CardSpec<'_>) -> Value {
    todo!()
}
/// The `<requirement>` of 6.5, equal on the card and in `accepts[0]`.
pub fn requirement(_did: &Did, _endpoint: &str) -> Value {
    todo!()
}

/// A peer's card of the right shape. A claim until an envelope proves it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Card {
    pub did: Did,
    pub name: String,
    pub url: String,
    pub relay: Option<String>,
    pub enc_pub: Option<String>,
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
    /// An A2A card without a DID: a foreign agent.
    #[error("the card names no DID")]
    NoDid,
    /// `did` is not a DID.
    #[error("the card's did is not a did:key")]
    BadDid,
}

/// Reads a peer's card.
pub fn read(_value: Value) -> Result<Card, CardError> {
    todo!()
}

/// Signs the envelope of 6.6. At most once an hour; never per request.
///
/// # Errors
/// When the card holds a number that no signer emits: the card object of a plugin may.
pub fn sign_envelope(_key: &SigningKey, _card: &Value, _ts: UnixSeconds) -> Result<Value, CanonicalError> {
    todo!()
}

/// What the verifier knows when it checks an envelope for an origin.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Expect<'a> {
    pub did: Option<&'a Did>,
    pub plain_card: Option<&'a Value>,
    pub dialled: Option<&'a str>,
    pub now: UnixSeconds,
}

/// Why an envelope makes its card unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// To be split: shape, other DID, signature, too old, from the future, differs from the plain card, other scope.
    #[error("the card envelope has the wrong shape")]
    Shape,
}

/// Verifies an envelope, all of 6.6, and gives back the card that it proves.
pub fn verify_envelope(_envelope: &Value, _expect: &Expect<'_>) -> Result<Card, EnvelopeError> {
    todo!()
}
