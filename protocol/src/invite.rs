//! Invites (section 7): a signed card that lets one stranger in, and how it is verified.
mod link;

pub use link::{Link, LinkError, MAX_LINK_BYTES, parse_link, short_link, token_link};

use crate::{
    Did, UnixSeconds, json,
    json::{CanonicalError, Value, canonical, canonical_as_received},
    sign::{SigningKey, verify_base64_any},
    urls::is_plain_url,
};

/// What an own invite says.
#[derive(Debug, Clone)]
pub struct InviteSpec<'a> {
    /// The inviter's name.
    pub name: &'a str,
    /// Where the inviter is dialled; may be empty. Trailing slashes are dropped.
    pub url: &'a str,
    /// What the inviter is good at; `general` when absent.
    pub specialty: Option<&'a str>,
    /// One-time value, remembered by the inviter.
    pub nonce: &'a str,
    /// The first second in which the invite is no longer valid.
    pub exp: UnixSeconds,
    /// What it is for.
    pub purpose: Option<&'a str>,
    /// The relay that holds the inviter's mail.
    pub relay: Option<&'a str>,
    /// The inviter's sealing key, hex.
    pub enc_pub: Option<&'a str>,
}

/// Mints a signed invite card (7.1). Optional members are written only when set.
pub fn mint(key: &SigningKey, spec: &InviteSpec<'_>) -> Value {
    let mut card = json!({
        "v": 1,
        "did": (key.did().as_str()),
        "name": (spec.name),
        "url": (spec.url.trim_end_matches('/')),
        "specialty": (spec.specialty.unwrap_or("general")),
        "nonce": (spec.nonce),
        "exp": (spec.exp.to_iso())
    });
    let optional = [("purpose", spec.purpose), ("relay", spec.relay), ("enc_pub", spec.enc_pub)];
    if let Value::Object(members) = &mut card {
        members.extend(optional.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?.into()))));
    }
    let payload = canonical(&card).expect("an invite's only number is 1");
    if let Value::Object(members) = &mut card {
        members.insert("sig".to_owned(), key.sign_base64(payload.as_bytes()).into());
    }
    card
}

/// An invite that verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Invite {
    /// The inviter.
    pub did: Did,
    /// Self-asserted; unsafe to show raw.
    pub name: String,
    /// Where the inviter is dialled, as received; may be empty.
    pub url: String,
    /// What the claim has to present.
    pub nonce: String,
    /// The first second in which it is no longer valid.
    pub exp: UnixSeconds,
    /// The inviter's relay, of the plain URL shape of 12.2.
    pub relay: Option<String>,
    /// The inviter's sealing key, when it is 64 hex digits.
    pub enc_pub: Option<String>,
    /// What it is for; unsafe to show raw.
    pub purpose: Option<String>,
    /// The whole card, as received.
    pub raw: Value,
}

/// Why an invite is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InviteError {
    /// Not an object.
    #[error("the invite is not a JSON object")]
    NotAnObject,
    /// A member that every invite has is missing.
    #[error("the invite has no {0}")]
    Missing(&'static str),
    /// A member is not what it must be.
    #[error("the invite's {0} is malformed")]
    Malformed(&'static str),
    /// A number in it has no agreed canonical form, so nothing can be said about the signature (1.3).
    #[error("the invite's signature cannot be judged")]
    Unverifiable(#[source] CanonicalError),
    /// Not signed by the DID that it names, or changed on the way.
    #[error("the invite's signature does not verify")]
    Forged,
    /// The caller's own.
    #[error("the invite is your own")]
    Own,
    /// No longer valid.
    #[error("the invite expired at {}", .exp.to_iso())]
    Expired {
        /// When it ended.
        exp: UnixSeconds,
    },
    /// Its relay's address is not a plain URL.
    #[error("the invite's relay is not a plain http or https URL")]
    BadRelay,
}

/// Verifies a card, all of 7.3; `me` refuses the own invite.
///
/// The card is canonicalised as received: nothing is normalised, and members that are not known here are covered by
/// the signature like all others.
///
/// # Errors
/// The signature is judged before all that it covers, so that every later error is about the inviter's own words.
pub fn verify(card: Value, me: Option<&Did>, now: UnixSeconds) -> Result<Invite, InviteError> {
    let did = check_signature(&card)?;
    if me == Some(&did) {
        return Err(InviteError::Own);
    }
    let required = |field| text(&card, field)?.ok_or(InviteError::Missing(field));
    let optional = |field| Ok(text(&card, field)?.map(str::to_owned));
    let exp = UnixSeconds::from_iso(required("exp")?).ok_or(InviteError::Malformed("exp"))?;
    if exp <= now {
        return Err(InviteError::Expired { exp });
    }
    let nonce = required("nonce")?.to_owned();
    let relay = optional("relay")?.filter(|relay| !relay.is_empty());
    if relay.as_deref().is_some_and(|relay| !is_plain_url(relay)) {
        return Err(InviteError::BadRelay);
    }
    let name = optional("name")?.unwrap_or_default();
    let url = optional("url")?.unwrap_or_default();
    let enc_pub = optional("enc_pub")?.filter(|key| crate::hex::decode::<32>(key).is_some());
    let purpose = optional("purpose")?;
    Ok(Invite { did, name, url, nonce, exp, relay, enc_pub, purpose, raw: card })
}

/// Checks that `did` signed everything but `sig`, and gives the DID back.
fn check_signature(card: &Value) -> Result<Did, InviteError> {
    let mut signed = card.as_object().ok_or(InviteError::NotAnObject)?.clone();
    let did = text(card, "did")?.ok_or(InviteError::Missing("did"))?;
    let sig = text(card, "sig")?.ok_or(InviteError::Missing("sig"))?;
    text(card, "exp")?.ok_or(InviteError::Missing("exp"))?;
    let did: Did = did.parse().map_err(|_| InviteError::Malformed("did"))?;
    signed.remove("sig");
    let payload = canonical_as_received(&Value::Object(signed)).map_err(InviteError::Unverifiable)?;
    if verify_base64_any(&did, payload.as_bytes(), sig) { Ok(did) } else { Err(InviteError::Forged) }
}

/// A string member; `null` reads as absent.
fn text<'a>(card: &'a Value, field: &'static str) -> Result<Option<&'a str>, InviteError> {
    card.member(field).map(|value| value.as_str().ok_or(InviteError::Malformed(field))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sign::Seed;

    const NOW: UnixSeconds = UnixSeconds(1_785_000_000);

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_seed(&Seed::from_bytes([byte; 32]))
    }

    fn spec() -> InviteSpec<'static> {
        InviteSpec {
            name: "north",
            url: "https://north.example/",
            specialty: None,
            nonce: "0123456789abcdef0123456789abcdef",
            exp: UnixSeconds(NOW.0 + 1),
            purpose: None,
            relay: None,
            enc_pub: None,
        }
    }

    /// A card with members of our choice, properly signed.
    fn signed(members: &[(&str, Value)]) -> Value {
        let Value::Object(mut card) = mint(&key(1), &spec()) else { unreachable!() };
        card.remove("sig");
        card.extend(members.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        let payload = canonical_as_received(&Value::Object(card.clone())).unwrap();
        card.insert("sig".to_owned(), key(1).sign_base64(payload.as_bytes()).into());
        Value::Object(card)
    }

    #[test]
    fn a_minted_invite_verifies_until_its_last_second() {
        let card = mint(&key(1), &spec());
        let invite = verify(card.clone(), Some(key(2).did()), NOW).unwrap();
        assert_eq!((invite.did, invite.nonce.as_str()), (key(1).did().clone(), spec().nonce));
        assert_eq!(invite.url, "https://north.example", "no trailing slash when minted");
        assert_eq!(card.member("specialty").and_then(Value::as_str), Some("general"));
        assert_eq!(card.as_object().unwrap().len(), 8, "optional members are written only when set");
        assert_eq!(verify(card, None, spec().exp), Err(InviteError::Expired { exp: spec().exp }));
    }

    #[test]
    fn optional_members_travel() {
        let enc_pub = "ab".repeat(32);
        let spec = InviteSpec {
            purpose: Some("try it"),
            relay: Some("https://relay.example"),
            enc_pub: Some(&enc_pub),
            specialty: Some("maps"),
            ..spec()
        };
        let invite = verify(mint(&key(1), &spec), None, NOW).unwrap();
        assert_eq!(invite.purpose.as_deref(), spec.purpose);
        assert_eq!(invite.relay.as_deref(), spec.relay);
        assert_eq!(invite.enc_pub.as_deref(), spec.enc_pub);
        assert_eq!(invite.raw.member("specialty").and_then(Value::as_str), Some("maps"));
    }

    #[test]
    fn the_own_invite_is_refused() {
        assert_eq!(verify(mint(&key(1), &spec()), Some(key(1).did()), NOW), Err(InviteError::Own));
    }

    #[test]
    fn every_member_is_covered_and_nothing_is_normalised() {
        let card = signed(&[("url", "https://north.example/".into()), ("later", json!({"a": [1, null]}))]);
        assert_eq!(verify(card.clone(), None, NOW).unwrap().url, "https://north.example/");
        for (field, value) in [
            ("url", Value::from("https://north.example")),
            ("later", json!({"a": [1]})),
            ("name", "South".into()),
            ("exp", "2099-01-01T00:00:00Z".into()),
            ("added", Value::Null),
            ("did", key(2).did().as_str().into()),
            ("sig", key(1).sign_base64(b"other").into()),
        ] {
            let Value::Object(mut changed) = card.clone() else { unreachable!() };
            changed.insert(field.to_owned(), value);
            assert_eq!(verify(Value::Object(changed), None, NOW), Err(InviteError::Forged), "{field}");
        }
    }

    #[test]
    fn each_way_to_be_malformed_has_its_name() {
        assert_eq!(verify(json!([]), None, NOW), Err(InviteError::NotAnObject));
        for field in ["did", "sig", "exp"] {
            let Value::Object(mut card) = mint(&key(1), &spec()) else { unreachable!() };
            card.insert(field.to_owned(), Value::Null);
            assert_eq!(verify(Value::Object(card), None, NOW), Err(InviteError::Missing(field)));
        }
        for (field, value, error) in [
            ("exp", Value::from("tomorrow"), InviteError::Malformed("exp")),
            ("exp", json!(1), InviteError::Malformed("exp")),
            ("nonce", Value::Null, InviteError::Missing("nonce")),
            ("nonce", json!(7), InviteError::Malformed("nonce")),
            ("name", json!([]), InviteError::Malformed("name")),
            ("relay", "https://relay.example/?to=x".into(), InviteError::BadRelay),
            ("relay", json!({}), InviteError::Malformed("relay")),
            ("did", "did:web:north.example".into(), InviteError::Malformed("did")),
        ] {
            assert_eq!(verify(signed(&[(field, value)]), None, NOW), Err(error), "{field}");
        }
    }
}
