//! Invites (section 7): the card, its links, its verification.
use crate::{Did, UnixSeconds, json::Value, sign::SigningKey};

/// What an own invite says.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct InviteSpec<'a> {
    pub name: &'a str,
    pub url: &'a str,
    pub specialty: Option<&'a str>,
    pub nonce: &'a str,
    pub exp: UnixSeconds,
    pub purpose: Option<&'a str>,
    pub relay: Option<&'a str>,
    pub enc_pub: Option<&'a str>,
}

/// Mints a signed invite card.
pub fn mint(_key: &SigningKey, _spec: &InviteSpec<'_>) -> Value {
    todo!()
}

/// An invite that verified.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Invite {
    pub did: Did,
    pub name: String,
    pub url: String,
    pub nonce: String,
    pub exp: UnixSeconds,
    pub relay: Option<String>,
    pub enc_pub: Option<String>,
    pub purpose: Option<String>,
    pub raw: Value,
}

/// Why an invite is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InviteError {
    /// To be split: not an object, missing member, forged, expired, own, bad relay.
    #[error("the invite's signature does not verify")]
    Forged,
}

/// Verifies a card, all of 7.3; `me` refuses the own invite.
pub fn verify(_card: Value, _me: Option<&Did>, _now: UnixSeconds) -> Result<Invite, InviteError> {
    todo!()
}

/// An invite link, decided by `d=` first, then by `/i/<code>` (7.2).
#[derive(Debug, Clone, PartialEq)]
pub enum Link {
    /// The card itself.
    Token(Value),
    /// The card must be fetched from this URL.
    Fetch(String),
}
/// Why text is not an invite link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Neither form.
    #[error("not an invite link")]
    NotALink,
    /// A token that does not decode to JSON.
    #[error("the invite link is damaged")]
    Damaged,
}
/// Reads a link as people paste it: blanks, quotes, `<…>` and line breaks around and inside it are dropped.
pub fn parse_link(_text: &str) -> Result<Link, LinkError> {
    todo!()
}
/// `agent://invite?d=<token>`.
pub fn token_link(_card: &Value) -> String {
    todo!()
}
/// `<base>/i/<code>`.
pub fn short_link(_base: &str, _code: &str) -> String {
    todo!()
}
