//! Delegated operating keys (section 11.1): a root signs which key acts for it, and which keys no longer do.
//!
//! A receiver pins the newest state that it has seen of a root. Phase one verifies states and mints none.
use crate::{
    Did, UnixSeconds,
    did::PublicKey,
    json::{Object, Value, canonical_as_received},
    sign::verify_base64_any,
};

const TYPE: &str = "muretai/keystate/1";
const MAX_EPOCH: i64 = i32::MAX as i64;

/// The members that the root signs; one that is missing is signed as `null`.
const SIGNED: [&str; 14] = [
    "typ",
    "rootDid",
    "epoch",
    "rootKey",
    "rootNextHash",
    "opDid",
    "opNextHash",
    "encPub",
    "encNextHash",
    "guardiansHash",
    "revokedOps",
    "notBefore",
    "notAfter",
    "ts",
];
/// Signed too where it is present.
const SIGNED_IF_PRESENT: &str = "encPubPqHash";

/// A state that verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyState {
    epoch: i64,
    root_key: PublicKey,
    /// `None` when the state names no key that could sign a message.
    operating: Option<Did>,
    revoked: Vec<String>,
}

impl KeyState {
    /// Counts the states of one root; only a greater one replaces another.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }
    /// Whether a state takes the place of `pinned`: signed by the same root key, and strictly newer.
    pub fn replaces(&self, pinned: &KeyState) -> bool {
        self.root_key == pinned.root_key && self.epoch > pinned.epoch
    }
    /// Whether this state says that `did` no longer acts for the root.
    pub fn burns(&self, did: &Did) -> bool {
        self.revoked.iter().any(|revoked| revoked == did.as_str())
    }
    /// The operating key, unless the state burns it itself.
    pub fn operating(&self) -> Option<&Did> {
        self.operating.as_ref().filter(|did| !self.burns(did))
    }
}

/// Why a state is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyStateError {
    /// Not an object, or not of the one type.
    #[error("the key state is not of type {TYPE}")]
    OtherType,
    /// A member of the wrong type, or a number outside its range.
    #[error("the key state's {member} is not valid")]
    Invalid {
        /// Which one.
        member: &'static str,
    },
    /// The state of somebody else.
    #[error("the key state is of another root")]
    OtherRoot,
    /// The root key is not the one in the root's DID; a lineage of root keys never travels with a message.
    #[error("the key state's root key is not the root's own")]
    OtherRootKey,
    /// `sig` is missing or wrong.
    #[error("the key state's signature does not verify")]
    Signature,
    /// Too early or too late.
    #[error("the key state is not valid now")]
    OutsideWindow,
    /// A newer state of the root is known.
    #[error("the key state is of epoch {found}, epoch {pinned} is known")]
    Superseded {
        /// The epoch that came in.
        found: i64,
        /// The epoch that is pinned.
        pinned: i64,
    },
}

/// Verifies the state of `root` that came with a message.
pub fn verify(state: &Value, root: &Did, now: UnixSeconds) -> Result<KeyState, KeyStateError> {
    let verified = verify_signed(state, root)?;
    if verified.root_key != root.key() {
        return Err(KeyStateError::OtherRootKey);
    }
    let now = now.0 as f64;
    let not_before = time(state, "notBefore")?.ok_or(KeyStateError::Invalid { member: "notBefore" })?;
    let not_after = time(state, "notAfter")?.unwrap_or(f64::INFINITY);
    match not_before <= now && now <= not_after {
        true => Ok(verified),
        false => Err(KeyStateError::OutsideWindow),
    }
}

/// Verifies a state that was pinned earlier: whatever the time, and under the root key that it names.
pub fn verify_pinned(state: &Value, root: &Did) -> Result<KeyState, KeyStateError> {
    verify_signed(state, root)
}

fn verify_signed(state: &Value, root: &Did) -> Result<KeyState, KeyStateError> {
    let text = |member| state.member(member).and_then(Value::as_str);
    if text("typ") != Some(TYPE) {
        return Err(KeyStateError::OtherType);
    }
    let epoch = match state.member("epoch") {
        Some(Value::Number(epoch)) => epoch.as_integral().filter(|epoch| (0..=MAX_EPOCH).contains(epoch)),
        _ => None,
    };
    let epoch = epoch.ok_or(KeyStateError::Invalid { member: "epoch" })?;
    if text("rootDid") != Some(root.as_str()) {
        return Err(KeyStateError::OtherRoot);
    }
    let root_key = text("rootKey").and_then(root_key).ok_or(KeyStateError::Invalid { member: "rootKey" })?;
    let payload = signed_payload(state).ok_or(KeyStateError::Signature)?;
    let signer = Did::from_key(&root_key);
    if !text("sig").is_some_and(|sig| verify_base64_any(&signer, payload.as_bytes(), sig)) {
        return Err(KeyStateError::Signature);
    }
    let operating = text("opDid").and_then(|did| did.parse().ok()).filter(|did: &Did| did.ed25519().is_some());
    // Only a list burns keys; anything else in its place burns nothing.
    let revoked = state.member("revokedOps").and_then(Value::as_array).unwrap_or_default();
    let revoked = revoked.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Ok(KeyState { epoch, root_key, operating, revoked })
}

fn signed_payload(state: &Value) -> Option<String> {
    let state = state.as_object()?;
    let member = |name: &str| (name.to_owned(), state.get(name).cloned().unwrap_or(Value::Null));
    let optional = state.contains_key(SIGNED_IF_PRESENT).then(|| member(SIGNED_IF_PRESENT));
    let signed: Object = SIGNED.into_iter().map(member).chain(optional).collect();
    canonical_as_received(&signed.into()).ok()
}

/// The state without what its root did not sign, such as a `chain` of many kilobytes.
pub(crate) fn without_unsigned(state: &Value) -> Value {
    let is_signed = |name: &str| SIGNED.contains(&name) || [SIGNED_IF_PRESENT, "sig"].contains(&name);
    let members = state.as_object().into_iter().flatten().filter(|(name, _)| is_signed(name));
    Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// A time in seconds, which old nodes wrote as floats; `None` for `null`.
fn time(state: &Value, member: &'static str) -> Result<Option<f64>, KeyStateError> {
    match state.member(member) {
        None => Ok(None),
        Some(Value::Number(secs)) => secs.as_f64().map(Some).ok_or(KeyStateError::Invalid { member }),
        Some(_) => Err(KeyStateError::Invalid { member }),
    }
}

/// 64 hex digits of an Ed25519 key or 66 of a P-256 key.
fn root_key(hex: &str) -> Option<PublicKey> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let byte = |pair: &[u8]| Some((digit(pair.first()?)? << 4 | digit(pair.get(1)?)?) as u8);
    let bytes: Vec<u8> = match hex.len() {
        64 | 66 => hex.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?,
        _ => return None,
    };
    match <[u8; 32]>::try_from(bytes) {
        Ok(key) => Some(PublicKey::Ed25519(key)),
        Err(bytes) => bytes.try_into().ok().map(PublicKey::P256),
    }
}

/// The key that acts for `root` now: the operating key of the state that counts, or the root itself.
///
/// `inline` came with a message, `pinned` was kept from an earlier one. A pin that does not verify, and anything else
/// that is not in order, leaves the root.
pub fn resolve(root: &Did, inline: Option<&Value>, pinned: Option<&Value>, now: UnixSeconds) -> Did {
    let Ok(pin) = pinned.map(|state| verify_pinned(state, root)).transpose() else { return root.clone() };
    let inline = inline.and_then(|state| verify(state, root, now).ok());
    let inline = inline.filter(|state| pin.as_ref().is_none_or(|pin| state.replaces(pin)));
    let acting = match (&inline, &pin) {
        (Some(inline), Some(pin)) if inline.operating().is_some_and(|did| pin.burns(did)) => pin.operating(),
        (Some(state), _) | (None, Some(state)) => state.operating(),
        (None, None) => None,
    };
    acting.unwrap_or(root).clone()
}

/// Who may have signed a message of a root, in the order in which they are tried, and what to pin.
#[derive(Debug, Clone)]
pub(crate) struct Signers {
    /// At most three: the key of the state that came along, the pinned one, the root.
    pub(crate) candidates: Vec<Did>,
    /// Whether the state that came along replaces the pin.
    pub(crate) is_newer: bool,
}

/// The candidates for a message that presents `inline` while `pinned` is known. Showing a state that is older than the
/// pin is refused: it is how a stolen, replaced key would come back.
pub(crate) fn signers(
    root: &Did,
    inline: Option<&Value>,
    pinned: Option<&Value>,
    now: UnixSeconds,
) -> Result<Signers, KeyStateError> {
    // A pin that does not verify lets nobody but the root speak.
    let Ok(pin) = pinned.map(|state| verify_pinned(state, root)).transpose() else {
        return Ok(Signers { candidates: vec![root.clone()], is_newer: false });
    };
    let inline = inline.and_then(|state| verify(state, root, now).ok());
    if let (Some(KeyState { epoch: found, .. }), Some(pin)) = (&inline, &pin)
        && *found < pin.epoch
    {
        return Err(KeyStateError::Superseded { found: *found, pinned: pin.epoch });
    }
    let newer = inline.filter(|state| pin.as_ref().is_none_or(|pin| state.replaces(pin)));
    let states = [newer.as_ref(), pin.as_ref()].into_iter().flatten();
    let mut candidates: Vec<Did> = states.clone().filter_map(KeyState::operating).cloned().collect();
    candidates.retain(|did| did != root && !states.clone().any(|state| state.burns(did)));
    candidates.push(root.clone());
    Ok(Signers { candidates, is_newer: newer.is_some() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        json,
        sign::{Seed, SigningKey},
    };

    const NOW: UnixSeconds = UnixSeconds(1_784_273_700);

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_seed(&Seed::from_bytes([byte; 32]))
    }

    fn hex(key: &SigningKey) -> String {
        key.did().ed25519().unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A state of `root` after `change`, signed by `signer`.
    fn state(root: &SigningKey, signer: &SigningKey, epoch: i64, op: u8, change: &[(&str, Value)]) -> Value {
        let mut members = json!({
            "typ": TYPE, "rootDid": root.did(), "epoch": epoch, "rootKey": hex(root), "rootNextHash": "",
            "opDid": key(op).did(), "opNextHash": "", "encPub": "", "encNextHash": "", "guardiansHash": "",
            "revokedOps": [], "notBefore": 0, "notAfter": null, "ts": NOW.0,
        })
        .as_object()
        .unwrap()
        .clone();
        members.extend(change.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        let payload = signed_payload(&Value::from(members.clone())).unwrap();
        members.insert("sig".into(), json!(signer.sign_base64(payload.as_bytes())));
        members.into()
    }

    fn verdict(change: &[(&str, Value)]) -> Result<KeyState, KeyStateError> {
        verify(&state(&key(1), &key(1), 1, 2, change), key(1).did(), NOW)
    }

    #[test]
    fn a_state_that_its_root_signed_verifies() {
        let verified = verdict(&[]).unwrap();
        assert_eq!((verified.epoch(), verified.operating()), (1, Some(key(2).did())));
        for change in [
            ("epoch", json::parse(b"1.0").unwrap()),
            ("notBefore", json::parse(b"0.0").unwrap()),
            ("notAfter", json!(NOW.0)),
            ("encPubPqHash", json!("00")),
            ("unknown", json!(1)),
        ] {
            assert!(verdict(std::slice::from_ref(&change)).is_ok(), "{change:?}");
        }
    }

    #[test]
    fn each_failure_has_its_name() {
        let float = |token: &str| json::parse(token.as_bytes()).unwrap();
        let invalid = |member| KeyStateError::Invalid { member };
        for (change, error) in [
            (("typ", json!("muretai/keystate/2")), KeyStateError::OtherType),
            (("epoch", json!(-1)), invalid("epoch")),
            (("epoch", json!(1i64 << 31)), invalid("epoch")),
            (("epoch", float("1.5")), invalid("epoch")),
            (("epoch", json!(true)), invalid("epoch")),
            (("rootKey", json!("00")), invalid("rootKey")),
            (("rootKey", json!("é".repeat(32))), invalid("rootKey")),
            (("rootDid", json!(key(2).did())), KeyStateError::OtherRoot),
            (("rootKey", json!(hex(&key(2)))), KeyStateError::Signature),
            (("notBefore", json!(NOW.0 + 1)), KeyStateError::OutsideWindow),
            (("notBefore", json!(null)), invalid("notBefore")),
            (("notAfter", json!(NOW.0 - 1)), KeyStateError::OutsideWindow),
            (("notAfter", json!("never")), invalid("notAfter")),
        ] {
            assert_eq!(verdict(std::slice::from_ref(&change)), Err(error), "{change:?}");
        }
        let foreign = state(&key(1), &key(3), 1, 2, &[]);
        assert_eq!(verify(&foreign, key(1).did(), NOW), Err(KeyStateError::Signature));
        let rotated = state(&key(1), &key(3), 1, 2, &[("rootKey", json!(hex(&key(3))))]);
        assert_eq!(verify(&rotated, key(1).did(), NOW), Err(KeyStateError::OtherRootKey));
        assert!(verify_pinned(&rotated, key(1).did()).is_ok());
        assert_eq!(verify(&json!([]), key(1).did(), NOW), Err(KeyStateError::OtherType));
    }

    #[test]
    fn candidates_are_the_new_key_the_pinned_key_and_the_root() {
        let root = key(1);
        let (first, second) = (state(&root, &root, 1, 2, &[]), state(&root, &root, 2, 3, &[]));
        let order = |inline: Option<&Value>, pinned: Option<&Value>| {
            signers(root.did(), inline, pinned, NOW).map(|signers| (signers.candidates, signers.is_newer))
        };
        let dids = |bytes: &[u8]| bytes.iter().map(|&byte| key(byte).did().clone()).collect::<Vec<_>>();
        assert_eq!(order(None, None), Ok((dids(&[1]), false)));
        assert_eq!(order(Some(&first), None), Ok((dids(&[2, 1]), true)));
        assert_eq!(order(Some(&second), Some(&first)), Ok((dids(&[3, 2, 1]), true)));
        assert_eq!(order(Some(&first), Some(&first)), Ok((dids(&[2, 1]), false)));
        assert_eq!(order(None, Some(&second)), Ok((dids(&[3, 1]), false)));
        assert_eq!(order(Some(&first), Some(&second)), Err(KeyStateError::Superseded { found: 1, pinned: 2 }));
        let fork = state(&root, &root, 2, 4, &[]);
        assert_eq!(order(Some(&fork), Some(&second)), Ok((dids(&[3, 1]), false)));
        let burning = state(&root, &root, 2, 3, &[("revokedOps", json!([key(2).did(), 5]))]);
        assert_eq!(order(Some(&burning), Some(&first)), Ok((dids(&[3, 1]), true)));
        assert_eq!(order(Some(&first), Some(&json!("damaged"))), Ok((dids(&[1]), false)));
    }
}
