//! The signed card envelope (6.6): the proof that a card is its DID's own.
use super::{Card, CardError, read_own_fields};
use crate::{
    Did, UnixSeconds, json,
    json::{CanonicalError, Number, Value, canonical, canonical_as_received},
    limits::{CARD_SIG_MAX_AGE_SECS, CLOCK_WINDOW_SECS},
    sign::{SigningKey, verify_base64_any},
    urls::same_scope,
};

/// The envelope's `typ`.
const TYP: &str = "agentcard";

/// What the verifier knows when it checks an envelope for an origin. It comes from the caller, never from the wire.
#[derive(Debug, Clone)]
pub struct Expect<'a> {
    /// The DID that the caller looks for, when it has one.
    pub did: Option<&'a Did>,
    /// The plain card that was served beside the envelope.
    pub plain_card: Option<&'a Value>,
    /// The base that was dialled; `None` for a copy from a directory, which proves no origin.
    pub dialled: Option<&'a str>,
    /// The clock.
    pub now: UnixSeconds,
}

/// Why an envelope makes its card unusable. It was there and did not hold, which is worse than none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// Not `{v: 1, typ, card, ts, sig}`.
    #[error("the card envelope's {0} is missing or malformed")]
    Shape(&'static str),
    /// An envelope around something else.
    #[error("the envelope does not hold an agent card")]
    OtherType,
    /// The card inside is no card.
    #[error("the envelope's card is unusable")]
    Card(#[source] CardError),
    /// The card is another agent's.
    #[error("the card belongs to {found}, not to {expected}")]
    OtherDid {
        /// Whom the caller looked for.
        expected: Did,
        /// Whose card came.
        found: Did,
    },
    /// A number in it has no agreed canonical form, so nothing can be said about the signature (1.3).
    #[error("the card's signature cannot be judged")]
    Unverifiable(#[source] CanonicalError),
    /// The signature is not by the card's DID over this card and time.
    #[error("the card's signature does not verify")]
    Signature,
    /// Signed too long ago.
    #[error("the card was signed {age_secs} s ago, the limit is {CARD_SIG_MAX_AGE_SECS} s")]
    TooOld {
        /// Seconds since the signature.
        age_secs: i64,
    },
    /// Signed in the future.
    #[error("the card is dated {ahead_secs} s ahead, the limit is {CLOCK_WINDOW_SECS} s")]
    FromFuture {
        /// Seconds until the signature.
        ahead_secs: i64,
    },
    /// The plain card beside it says something else.
    #[error("the signed card differs from the plain card beside it")]
    DiffersFromPlainCard,
    /// The card is made for another address: copied, or moved.
    #[error("the card is for another address than the one that was dialled")]
    OtherScope {
        /// What the card says; a peer's text, unsafe to show raw.
        card_url: String,
        /// What was dialled.
        dialled: String,
    },
}

/// Signs the envelope of 6.6. At most once an hour; never per request.
///
/// # Errors
/// When the card holds a number that no signer emits: the card object of a plugin may.
pub fn sign_envelope(key: &SigningKey, card: &Value, ts: UnixSeconds) -> Result<Value, CanonicalError> {
    let mut envelope = json!({"v": 1, "typ": (TYP), "card": (card.clone()), "ts": (ts.0)});
    let sig = key.sign_base64(canonical(&envelope)?.as_bytes());
    if let Value::Object(members) = &mut envelope {
        members.insert("sig".to_owned(), sig.into());
    }
    Ok(envelope)
}

/// Verifies an envelope, all of 6.6, and gives back the card that it proves.
///
/// The signature is judged before the time: only then is the time the signer's word.
///
/// # Errors
/// Each way to fail has its variant, and each one makes the card unusable.
pub fn verify_envelope(envelope: &Value, expect: &Expect<'_>) -> Result<Card, EnvelopeError> {
    let card = verify_signed(envelope, expect)?;
    let parts = Parts::of(envelope)?;
    check_age(parts.ts, expect.now)?;
    if let Some(plain) = expect.plain_card {
        let same = canonical_as_received(plain) == canonical_as_received(parts.card);
        same.then_some(()).ok_or(EnvelopeError::DiffersFromPlainCard)?;
    }
    if let Some(dialled) = expect.dialled.filter(|dialled| !same_scope(&card.url, dialled)) {
        return Err(EnvelopeError::OtherScope { card_url: card.url, dialled: dialled.to_owned() });
    }
    Ok(card)
}

/// A card out of a directory, proven, with the time of its signature.
#[derive(Debug, Clone, PartialEq)]
pub struct SignedCopy {
    /// The card.
    pub card: Card,
    /// When it was signed, to the second.
    pub ts: UnixSeconds,
}

/// Verifies the copy of an envelope that a directory keeps for a DID (9.6). A directory keeps the last card of an agent
/// that sleeps, so there is no limit to its age: of several copies the one with the greatest `ts` counts.
///
/// # Errors
/// As of [`verify_envelope`], but for the age; a copy from the future is refused.
pub fn verify_copy(envelope: &Value, did: &Did, now: UnixSeconds) -> Result<SignedCopy, EnvelopeError> {
    let expect = Expect { did: Some(did), plain_card: None, dialled: None, now };
    let card = verify_signed(envelope, &expect)?;
    let age_secs = age_secs(Parts::of(envelope)?.ts, now)?;
    check_not_ahead(age_secs)?;
    Ok(SignedCopy { card, ts: UnixSeconds(now.0.saturating_sub(age_secs)) })
}

/// Verifies shape, DID and signature.
fn verify_signed(envelope: &Value, expect: &Expect<'_>) -> Result<Card, EnvelopeError> {
    let parts = Parts::of(envelope)?;
    let card = read_own_fields(parts.card.clone()).map_err(EnvelopeError::Card)?;
    if let Some(expected) = expect.did.filter(|did| **did != card.did) {
        return Err(EnvelopeError::OtherDid { expected: expected.clone(), found: card.did });
    }
    let signed = json!({"v": 1, "typ": (TYP), "card": (parts.card.clone()), "ts": (parts.ts.clone())});
    let payload = canonical_as_received(&signed).map_err(EnvelopeError::Unverifiable)?;
    if !verify_base64_any(&card.did, payload.as_bytes(), parts.sig) {
        return Err(EnvelopeError::Signature);
    }
    Ok(card)
}

/// The members of an envelope, each of its type. Unknown ones are not covered by the signature and mean nothing.
struct Parts<'a> {
    card: &'a Value,
    ts: &'a Value,
    sig: &'a str,
}

impl<'a> Parts<'a> {
    fn of(envelope: &'a Value) -> Result<Parts<'a>, EnvelopeError> {
        use EnvelopeError::Shape;
        if envelope.as_object().is_none() {
            return Err(Shape("JSON object"));
        }
        if envelope.member("typ").and_then(Value::as_str).ok_or(Shape("typ"))? != TYP {
            return Err(EnvelopeError::OtherType);
        }
        if envelope.member("v").and_then(Value::as_i64) != Some(1) {
            return Err(Shape("v"));
        }
        let card = envelope.member("card").filter(|card| card.as_object().is_some()).ok_or(Shape("card"))?;
        let ts = envelope.member("ts").filter(|ts| matches!(ts, Value::Number(_))).ok_or(Shape("ts"))?;
        let sig = envelope.member("sig").and_then(Value::as_str).ok_or(Shape("sig"))?;
        Ok(Parts { card, ts, sig })
    }
}

/// Within six hours back and five minutes ahead.
fn check_age(ts: &Value, now: UnixSeconds) -> Result<(), EnvelopeError> {
    let age_secs = age_secs(ts, now)?;
    if age_secs > CARD_SIG_MAX_AGE_SECS {
        return Err(EnvelopeError::TooOld { age_secs });
    }
    check_not_ahead(age_secs)
}

fn check_not_ahead(age_secs: i64) -> Result<(), EnvelopeError> {
    match age_secs.saturating_neg() {
        ahead_secs if ahead_secs > CLOCK_WINDOW_SECS => Err(EnvelopeError::FromFuture { ahead_secs }),
        _ => Ok(()),
    }
}

/// Seconds since the signature; old publishers wrote a float (6.6).
fn age_secs(ts: &Value, now: UnixSeconds) -> Result<i64, EnvelopeError> {
    match ts {
        Value::Number(Number::Integer(ts)) => Ok(now.0.saturating_sub(*ts)),
        Value::Number(Number::Token(token)) => match token.parse::<f64>() {
            // Towards the past and the future alike, a part of a second beyond the limit is beyond it.
            Ok(ts) if ts.is_finite() => {
                let age = now.0 as f64 - ts;
                Ok((if age < 0.0 { age.floor() } else { age.ceil() }) as i64)
            }
            _ => Err(EnvelopeError::Shape("ts")),
        },
        _ => Err(EnvelopeError::Shape("ts")),
    }
}
