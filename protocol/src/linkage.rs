//! Domain linkage (section 11.4): a domain says which DIDs are its own, each by a token that the DID signed.
//!
//! A document proves one direction only. The binding holds when it was fetched from the domain itself, over https,
//! without redirects, *and* the DID's own verified card lists the domain; both are the caller's to see to.
mod domain;
mod token;

pub use domain::{Domain, DomainError};
pub use token::{TokenError, mint, signing_input};

use crate::{Did, UnixSeconds, base64, json, json::Value};

/// Where the document is, below the domain.
pub const DID_CONFIGURATION_PATH: &str = "/.well-known/did-configuration.json";
/// Largest document that is read.
pub const MAX_DOCUMENT_BYTES: usize = 65_536;
/// Largest token that is looked at.
pub const MAX_TOKEN_BYTES: usize = 16_384;
/// Entries of a document that are looked at.
pub const MAX_LINKED_DIDS: usize = 64;
/// Domains that one card may claim; more are not read.
pub const MAX_CARD_DOMAINS: usize = 5;
/// Tokens whose signature is verified for one question: the one that runs and the one that takes over from it.
const MAX_VERIFIED: usize = 2;

/// `@context` of the document, and the second one of every credential.
const CONTEXT: &str = "https://identity.foundation/.well-known/did-configuration/v1";

/// A token that verified: the DID says that it belongs to the domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linkage {
    /// Whose.
    pub did: Did,
    /// The domain.
    pub domain: Domain,
    /// The last second in which it is valid.
    pub exp: UnixSeconds,
}

/// Why a document does not link a DID to a domain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkageError {
    /// Not an object with a list `linked_dids`.
    #[error("the domain's DID configuration is malformed")]
    Malformed,
    /// None of its tokens is of this DID.
    #[error("the domain's DID configuration does not name the DID")]
    NotNamed,
    /// Its tokens of this DID do not hold; the reason of the last one that was tried.
    #[error("the domain's token for the DID does not hold")]
    Token(#[source] TokenError),
}

/// Verifies that a document links `did` to `domain`. Looks at the first [`MAX_LINKED_DIDS`] entries, and verifies the
/// first two that say they are of the DID.
///
/// # Errors
/// See [`LinkageError`]. Entries that are no tokens are passed over: the document may hold other kinds.
pub fn verify(document: &Value, did: &Did, domain: &Domain, now: UnixSeconds) -> Result<Linkage, LinkageError> {
    let entries = document.member("linked_dids").and_then(Value::as_array).ok_or(LinkageError::Malformed)?;
    let tokens = entries.iter().take(MAX_LINKED_DIDS).filter_map(Value::as_str);
    let of_did = tokens.filter(|token| claimed_issuer(token).as_deref() == Some(did.as_str()));
    let mut verdict = Err(LinkageError::NotNamed);
    for token in of_did.take(MAX_VERIFIED) {
        verdict = token::verify(token, did, domain, now).map_err(LinkageError::Token);
        if verdict.is_ok() {
            break;
        }
    }
    verdict
}

/// Writes the document of a domain for the tokens of its DIDs.
pub fn document(tokens: &[String]) -> Value {
    let tokens: Vec<Value> = tokens.iter().map(Value::from).collect();
    json!({"@context": CONTEXT, "linked_dids": tokens})
}

/// Tells whether a verified card lists a domain, among the first [`MAX_CARD_DOMAINS`] that it claims.
pub fn card_lists(card: &Value, domain: &Domain) -> bool {
    let claims = card.member("domains").and_then(Value::as_array).unwrap_or_default();
    claims.iter().take(MAX_CARD_DOMAINS).filter_map(Value::as_str).any(|claim| claim == domain.as_str())
}

/// `iss` of a token that nobody has verified, to sort tokens by.
fn claimed_issuer(token: &str) -> Option<String> {
    if token.len() > MAX_TOKEN_BYTES {
        return None;
    }
    let payload = base64::decode_url(token.split('.').nth(1)?)?;
    let payload = json::parse(&payload).ok()?;
    payload.member("iss").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests;
