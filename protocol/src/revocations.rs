//! The list of introductions that their issuer took back (8.4): `{typ, issuer, revoked, ts, sig}`.
use crate::{
    Did, UnixSeconds, json,
    json::{Value, canonical, canonical_as_received},
    limits::CLOCK_WINDOW_SECS,
    sign::{SigningKey, verify_base64},
};

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

impl Revocations {
    /// Whether the list names an introduction.
    pub fn names(&self, id: &str) -> bool {
        self.revoked.binary_search_by(|revoked| revoked.as_str().cmp(id)).is_ok()
    }
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
pub fn mint(key: &SigningKey, mut revoked: Vec<String>, ts: UnixSeconds) -> Value {
    revoked.sort_unstable();
    revoked.dedup();
    let revoked: Vec<Value> = revoked.into_iter().map(Value::from).collect();
    let mut list = json!({"typ": TYP, "issuer": (key.did()), "revoked": revoked, "ts": (ts.0)});
    let payload = canonical(&list).expect("a clock is within what JSON holds exactly");
    if let Value::Object(members) = &mut list {
        members.insert("sig".to_owned(), key.sign_base64(payload.as_bytes()).into());
    }
    list
}

/// Verifies a list of `issuer`, which has an Ed25519 key.
///
/// Ids may be of any layout: a foreign issuer's other ids must not keep it from taking one back. Members that are not
/// known here are covered by the signature like all others.
pub fn verify(list: &Value, issuer: &Did, now: UnixSeconds) -> Result<Revocations, RevocationsError> {
    use RevocationsError::{BadSignature, FromTheFuture, Malformed, OtherIssuer};
    let text = |name| list.member(name).and_then(Value::as_str).ok_or(Malformed);
    if text("typ")? != TYP {
        return Err(Malformed);
    }
    if text("issuer")? != issuer.as_str() {
        return Err(OtherIssuer);
    }
    let sig = text("sig")?;
    let mut signed = list.as_object().ok_or(Malformed)?.clone();
    signed.remove("sig");
    let payload = canonical_as_received(&Value::Object(signed)).map_err(|_| Malformed)?;
    if !verify_base64(issuer, payload.as_bytes(), sig) {
        return Err(BadSignature);
    }
    let ts = list.member("ts").and_then(Value::as_i64).map(UnixSeconds).ok_or(Malformed)?;
    let revoked = list.member("revoked").and_then(Value::as_array).ok_or(Malformed)?;
    let revoked: Vec<String> =
        revoked.iter().map(|id| id.as_str().map(str::to_owned)).collect::<Option<_>>().ok_or(Malformed)?;
    if !revoked.is_sorted_by(|a, b| a < b) {
        return Err(Malformed);
    }
    if ts.0.saturating_sub(now.0) > CLOCK_WINDOW_SECS {
        return Err(FromTheFuture);
    }
    Ok(Revocations { issuer: issuer.clone(), revoked, ts })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{json::parse, sign::Seed};

    const NOW: UnixSeconds = UnixSeconds(1_785_000_000);

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_seed(&Seed::from_bytes([byte; 32]))
    }

    /// A list by north with this member changed before it was signed.
    fn signed(name: &str, value: Value) -> Value {
        let mut list = mint(&key(1), vec!["urn:uuid:a".to_owned()], NOW).as_object().unwrap().clone();
        list.remove("sig");
        list.insert(name.to_owned(), value);
        let payload = canonical_as_received(&Value::Object(list.clone())).unwrap_or_default();
        list.insert("sig".to_owned(), key(1).sign_base64(payload.as_bytes()).into());
        Value::Object(list)
    }

    #[test]
    fn a_list_is_sorted_unique_and_verifies() {
        let ids = ["urn:uuid:b", "urn:uuid:a", "urn:uuid:b"].map(str::to_owned).to_vec();
        let list = verify(&mint(&key(1), ids, NOW), key(1).did(), NOW).unwrap();
        assert_eq!((list.revoked.join(" ").as_str(), list.ts), ("urn:uuid:a urn:uuid:b", NOW));
        assert!(list.names("urn:uuid:b") && !list.names("urn:uuid:") && !list.names("urn:uuid:c"));
        assert!(verify(&mint(&key(1), Vec::new(), NOW), key(1).did(), NOW).unwrap().revoked.is_empty());
        let other = mint(&key(2), Vec::new(), NOW);
        assert_eq!(verify(&other, key(1).did(), NOW), Err(RevocationsError::OtherIssuer));
    }

    #[test]
    fn each_failure_has_its_name() {
        use RevocationsError::{FromTheFuture, Malformed, OtherIssuer};
        for (name, value, error) in [
            ("typ", json!("muretai/revocations/2"), Malformed),
            ("issuer", json!(key(2).did()), OtherIssuer),
            ("issuer", json!(null), Malformed),
            ("revoked", json!("urn:uuid:a"), Malformed),
            ("revoked", json!(["urn:uuid:b", "urn:uuid:a"]), Malformed),
            ("revoked", json!(["urn:uuid:a", "urn:uuid:a"]), Malformed),
            ("revoked", json!(["urn:uuid:a", 1]), Malformed),
            ("ts", json!(NOW.0 + 301), FromTheFuture),
            ("ts", parse(b"1785000000.0").unwrap(), Malformed),
            ("ts", json!(1i64 << 53), Malformed),
        ] {
            assert_eq!(verify(&signed(name, value.clone()), key(1).did(), NOW), Err(error), "{name} {value:?}");
        }
        for (name, value) in [("ts", json!(NOW.0 + 300)), ("ts", json!(0)), ("later", json!([1.to_string()]))] {
            assert!(verify(&signed(name, value), key(1).did(), NOW).is_ok(), "{name}");
        }
    }

    #[test]
    fn the_largest_list_that_is_promised_fits() {
        let ids = (0..5_000).map(|n| format!("urn:uuid:{n:032x}")).collect();
        assert!(mint(&key(1), ids, NOW).to_json().len() <= MAX_REVOCATIONS_BYTES);
    }

    proptest! {
        #[test]
        fn every_changed_byte_is_noticed(at in 0usize..10_000, byte: u8) {
            let list = mint(&key(1), vec!["urn:uuid:a".to_owned(), "urn:uuid:b".to_owned()], NOW);
            let mut bytes = list.to_json().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(changed) = parse(&bytes) && changed != list {
                prop_assert!(verify(&changed, key(1).did(), NOW).is_err());
            }
        }
    }
}
