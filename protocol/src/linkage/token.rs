//! The token of a linkage: a compact JWS around a DomainLinkageCredential (11.4).
use super::{CONTEXT, Domain, Linkage, MAX_TOKEN_BYTES};
use crate::{
    Did, UnixSeconds, base64, json,
    json::{Value, canonical},
    sign::{SigningKey, verify_ed25519},
    urls,
};

/// The first context of every credential.
const CREDENTIALS: &str = "https://www.w3.org/2018/credentials/v1";
/// The two types that the credential has.
const TYPES: [&str; 2] = ["VerifiableCredential", "DomainLinkageCredential"];

/// Why a token does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Not three strict base64url segments, or larger than [`MAX_TOKEN_BYTES`].
    #[error("the token is not a compact JWS")]
    NotAToken,
    /// Signed in another way than Ed25519, or with demands that are unknown here.
    #[error("the token's header is not that of an EdDSA signature")]
    Header,
    /// A member of the payload is missing or of another kind.
    #[error("the token's {0} is missing or malformed")]
    Malformed(&'static str),
    /// It speaks about another DID.
    #[error("the token's {0} is not the DID that is asked about")]
    OtherDid(&'static str),
    /// It speaks about another domain.
    #[error("the token is for another origin")]
    OtherOrigin,
    /// Not signed by the DID, or changed on the way.
    #[error("the token's signature does not verify")]
    Forged,
    /// Too early.
    #[error("the token is not valid before {}", .nbf.to_iso())]
    TooEarly {
        /// When it begins.
        nbf: UnixSeconds,
    },
    /// Too late.
    #[error("the token expired at {}", .exp.to_iso())]
    Expired {
        /// When it ended.
        exp: UnixSeconds,
    },
}

/// Signs a token that is valid from `nbf` to `exp`, both included.
pub fn mint(key: &SigningKey, domain: &Domain, nbf: UnixSeconds, exp: UnixSeconds) -> String {
    let input = signing_input(key.did(), domain, nbf, exp);
    let signature = base64::encode_url(&key.sign(input.as_bytes()));
    format!("{input}.{signature}")
}

/// The header and the payload of a token as they are signed.
pub fn signing_input(did: &Did, domain: &Domain, nbf: UnixSeconds, exp: UnixSeconds) -> String {
    let multibase = did.as_str().rsplit(':').next().unwrap_or_default();
    let header = json!({"alg": "EdDSA", "kid": (format!("{did}#{multibase}")), "typ": "JWT"});
    let payload = json!({
        "exp": (exp.0),
        "iss": did,
        "nbf": (nbf.0),
        "sub": did,
        "vc": {
            "@context": [CREDENTIALS, CONTEXT],
            "credentialSubject": {"id": did, "origin": (domain.origin())},
            "expirationDate": (exp.to_iso()),
            "issuanceDate": (nbf.to_iso()),
            "issuer": did,
            "type": ["VerifiableCredential", "DomainLinkageCredential"]
        }
    });
    let segment = |value: &Value| {
        let text = canonical(value).expect("times are within what JSON holds exactly");
        base64::encode_url(text.as_bytes())
    };
    format!("{}.{}", segment(&header), segment(&payload))
}

/// Verifies one token, all of 11.4.
pub(super) fn verify(token: &str, did: &Did, domain: &Domain, now: UnixSeconds) -> Result<Linkage, TokenError> {
    let parts = Parts::of(token)?;
    let is_eddsa = parts.header.member("alg").and_then(Value::as_str) == Some("EdDSA");
    if !is_eddsa || parts.header.member("crit").is_some() {
        return Err(TokenError::Header);
    }
    check_did(&parts.payload, "iss", did)?;
    let key = did.ed25519().ok_or(TokenError::Forged)?;
    if !verify_ed25519(key, parts.signed.as_bytes(), &parts.signature) {
        return Err(TokenError::Forged);
    }
    check_did(&parts.payload, "sub", did)?;
    check_credential(&parts.payload, did, domain)?;
    let exp = check_time(&parts.payload, now)?;
    Ok(Linkage { did: did.clone(), domain: domain.clone(), exp })
}

/// A token taken apart.
struct Parts<'a> {
    header: Value,
    payload: Value,
    signature: Vec<u8>,
    /// The text of the first two segments as received.
    signed: &'a str,
}

impl Parts<'_> {
    fn of(token: &str) -> Result<Parts<'_>, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::NotAToken);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::NotAToken)?;
        let (header, payload) = signed.split_once('.').ok_or(TokenError::NotAToken)?;
        let bytes = |segment: &str| base64::decode_url(segment).ok_or(TokenError::NotAToken);
        let object = |segment: &str| {
            let value = json::parse(&bytes(segment)?).map_err(|_| TokenError::NotAToken)?;
            value.as_object().is_some().then_some(value).ok_or(TokenError::NotAToken)
        };
        Ok(Parts { header: object(header)?, payload: object(payload)?, signature: bytes(signature)?, signed })
    }
}

fn check_did(value: &Value, name: &'static str, did: &Did) -> Result<(), TokenError> {
    match value.member(name).and_then(Value::as_str) {
        Some(found) if found == did.as_str() => Ok(()),
        Some(_) => Err(TokenError::OtherDid(name)),
        None => Err(TokenError::Malformed(name)),
    }
}

fn check_credential(payload: &Value, did: &Did, domain: &Domain) -> Result<(), TokenError> {
    let vc = payload.member("vc").ok_or(TokenError::Malformed("vc"))?;
    let has_all = |name: &'static str, wanted: [&str; 2]| {
        let entries = vc.member(name).and_then(Value::as_array).unwrap_or_default();
        let has = |wanted: &str| entries.iter().any(|entry| entry.as_str() == Some(wanted));
        wanted.into_iter().all(has).then_some(()).ok_or(TokenError::Malformed(name))
    };
    has_all("type", TYPES)?;
    has_all("@context", [CREDENTIALS, CONTEXT])?;
    let subject = vc.member("credentialSubject").ok_or(TokenError::Malformed("credentialSubject"))?;
    check_did(subject, "id", did)?;
    let origin = subject.member("origin").and_then(Value::as_str).ok_or(TokenError::Malformed("origin"))?;
    // A domain always has an origin, so what has none does not match.
    if urls::origin(origin) == domain.origin() { Ok(()) } else { Err(TokenError::OtherOrigin) }
}

fn check_time(payload: &Value, now: UnixSeconds) -> Result<UnixSeconds, TokenError> {
    let time = |name: &'static str| {
        let time = payload.member(name).map(|value| value.as_i64().ok_or(TokenError::Malformed(name))).transpose()?;
        Ok(time.map(UnixSeconds))
    };
    let (nbf, exp) = (time("nbf")?, time("exp")?.ok_or(TokenError::Malformed("exp"))?);
    if let Some(nbf) = nbf.filter(|nbf| *nbf > now) {
        return Err(TokenError::TooEarly { nbf });
    }
    if exp < now { Err(TokenError::Expired { exp }) } else { Ok(exp) }
}
