//! The list of introductions that their issuer took back (8.4): `{typ, issuer, revoked, ts, sig}`.
use crate::{Did, UnixSeconds, json::Value, sign::SigningKey};

/// `typ` of the list.
pub const TYP: &str = "muretai/revocations/1";
/// Largest list that is read; one of 5,000 ids fits.
pub const MAX_REVOCATIONS_BYTES: usize = 262_144;

/// A verified list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocations {
    /// Whose.
    pub issuer: Did,
    /// The ids, sorted and unique.
    pub revoked: Vec<String>,
    /// When it was signed.
    pub ts: UnixSeconds,
}

/// Why a list says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RevocationsError {
    /// Not the layout, not sorted, not unique.
    #[error("the revocation list is malformed")]
    Malformed,
    /// By another DID than the one that was asked.
    #[error("the revocation list is of another issuer")]
    OtherIssuer,
    /// Altered, or not signed by its issuer.
    #[error("the revocation list's signature does not verify")]
    BadSignature,
    /// Signed more than 300 s ahead of our clock.
    #[error("the revocation list is from the future")]
    FromTheFuture,
}

/// Signs a list. `revoked` is sorted and made unique here.
pub fn mint(key: &SigningKey, revoked: Vec<String>, ts: UnixSeconds) -> Value {
    let _ = (key, revoked, ts);
    todo!()
}

/// Verifies a list of `issuer`.
pub fn verify(list: &Value, issuer: &Did, now: UnixSeconds) -> Result<Revocations, RevocationsError> {
    let _ = (list, issuer, now);
    todo!()
}
