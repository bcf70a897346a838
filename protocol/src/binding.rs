//! Device bindings (section 11.2): an owner and a device sign that they belong together.
//!
//! Phase one verifies what arrives in `metadata.binding` and mints nothing for the wire.
use crate::{
    Did, UnixSeconds, json,
    json::{Value, canonical_as_received},
    limits::CLOCK_WINDOW_SECS,
    sign::{SigningKey, verify_base64, verify_base64_any},
};

/// The type that is inside the signed bytes of version 2, so that nothing else can be passed off as a binding.
const TYPE_V2: &str = "muretai/devicebinding/2";

/// A binding that verified.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Binding {
    /// Signed by the owner alone. It grants nothing: anybody can claim a device this way.
    V1 {
        /// Who claims the device.
        claimant: Did,
    },
    /// Signed by the owner and by the device.
    V2 {
        /// Whose account the device acts for.
        owner: Did,
        /// When the binding ends; `None` for never.
        valid_until: Option<UnixSeconds>,
    },
}

impl Binding {
    /// The owner whose account the binding grants: that of version 2.
    pub fn owner(&self) -> Option<&Did> {
        match self {
            Binding::V1 { .. } => None,
            Binding::V2 { owner, .. } => Some(owner),
        }
    }
}

/// Why a binding is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindingError {
    /// Not an object.
    #[error("the binding is not an object")]
    NotAnObject,
    /// `typ` is there and is not the one of version 2.
    #[error("the binding is not of type {TYPE_V2}")]
    OtherType,
    /// A time that is a float, a bool, or missing; refused before any cryptography.
    #[error("the binding's {member} is not an integer")]
    NotAnInteger {
        /// `ts` or `validUntil`.
        member: &'static str,
    },
    /// `rootDid` is missing or not a DID.
    #[error("the binding names no owner")]
    NoOwner,
    /// Made for another device than the one that presents it.
    #[error("the binding is for another device")]
    OtherDevice,
    /// Made later than the clock allows.
    #[error("the binding is {secs} s ahead, the limit is {CLOCK_WINDOW_SECS} s")]
    FromTheFuture {
        /// How far ahead.
        secs: i64,
    },
    /// `validUntil` is over.
    #[error("the binding has expired")]
    Expired,
    /// `sig` is missing or wrong.
    #[error("the owner's signature on the binding does not verify")]
    OwnerSignature,
    /// `deviceSig` is missing or wrong.
    #[error("the device's signature on the binding does not verify")]
    DeviceSignature,
}

/// Verifies a binding that `device` presents. What has no `typ` is read as version 1.
pub fn verify(binding: &Value, device: &Did, now: UnixSeconds) -> Result<Binding, BindingError> {
    let members = binding.as_object().ok_or(BindingError::NotAnObject)?;
    match members.get("typ") {
        None => verify_v1(binding, device),
        Some(typ) if typ.as_str() == Some(TYPE_V2) => verify_v2(binding, device, now),
        Some(_) => Err(BindingError::OtherType),
    }
}

fn verify_v1(binding: &Value, device: &Did) -> Result<Binding, BindingError> {
    let not_a_number = BindingError::NotAnInteger { member: "ts" };
    let ts = binding.member("ts").filter(|ts| matches!(ts, Value::Number(_))).ok_or(not_a_number.clone())?;
    let claimant = owner_of(binding, device)?;
    let payload = payload_v1(&claimant, device, ts).ok_or(not_a_number)?;
    match has_signature(binding, "sig", |sig| verify_base64_any(&claimant, payload.as_bytes(), sig)) {
        true => Ok(Binding::V1 { claimant }),
        false => Err(BindingError::OwnerSignature),
    }
}

fn verify_v2(binding: &Value, device: &Did, now: UnixSeconds) -> Result<Binding, BindingError> {
    let integer = |member| binding.member(member).and_then(Value::as_i64).ok_or(BindingError::NotAnInteger { member });
    let (ts, valid_until) = (integer("ts")?, integer("validUntil")?);
    let owner = owner_of(binding, device)?;
    let ahead = ts.saturating_sub(now.0);
    if ahead > CLOCK_WINDOW_SECS {
        return Err(BindingError::FromTheFuture { secs: ahead });
    }
    if valid_until != 0 && valid_until < now.0 {
        return Err(BindingError::Expired);
    }
    let payload = payload_v2(&owner, device, UnixSeconds(ts), UnixSeconds(valid_until));
    if !has_signature(binding, "sig", |sig| verify_base64_any(&owner, payload.as_bytes(), sig)) {
        return Err(BindingError::OwnerSignature);
    }
    if !has_signature(binding, "deviceSig", |sig| verify_base64(device, payload.as_bytes(), sig)) {
        return Err(BindingError::DeviceSignature);
    }
    Ok(Binding::V2 { owner, valid_until: (valid_until != 0).then_some(UnixSeconds(valid_until)) })
}

/// The owner of a binding that is for `device`, which the caller names.
fn owner_of(binding: &Value, device: &Did) -> Result<Did, BindingError> {
    let text = |member| binding.member(member).and_then(Value::as_str);
    if text("deviceDid") != Some(device.as_str()) {
        return Err(BindingError::OtherDevice);
    }
    text("rootDid").and_then(|owner| owner.parse().ok()).ok_or(BindingError::NoOwner)
}

fn has_signature(binding: &Value, member: &str, verifies: impl FnOnce(&str) -> bool) -> bool {
    binding.member(member).and_then(Value::as_str).is_some_and(verifies)
}

/// The signed bytes of version 1, `ts` as received; `None` for a number without a canonical form.
pub fn payload_v1(owner: &Did, device: &Did, ts: &Value) -> Option<String> {
    canonical_as_received(&json!({"deviceDid": device, "rootDid": owner, "ts": ts.clone()})).ok()
}

/// The signed bytes of version 2; a binding without end has `valid_until` 0.
pub fn payload_v2(owner: &Did, device: &Did, ts: UnixSeconds, valid_until: UnixSeconds) -> String {
    json!({"deviceDid": device, "rootDid": owner, "ts": ts.0, "typ": TYPE_V2, "validUntil": valid_until.0}).to_json()
}

/// A binding of version 2, signed by both; a binding without end has `valid_until` 0.
pub fn sign(owner: &SigningKey, device: &SigningKey, ts: UnixSeconds, valid_until: UnixSeconds) -> Value {
    let payload = payload_v2(owner.did(), device.did(), ts, valid_until);
    json!({
        "typ": TYPE_V2,
        "rootDid": owner.did(),
        "deviceDid": device.did(),
        "ts": ts.0,
        "validUntil": valid_until.0,
        "sig": owner.sign_base64(payload.as_bytes()),
        "deviceSig": device.sign_base64(payload.as_bytes()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sign::Seed;

    const NOW: UnixSeconds = UnixSeconds(1_784_273_700);

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_seed(&Seed::from_bytes([byte; 32]))
    }

    fn with(binding: &Value, member: &str, value: Value) -> Value {
        let mut members = binding.as_object().unwrap().clone();
        members.insert(member.into(), value);
        members.into()
    }

    fn verdict(binding: &Value) -> Result<Binding, BindingError> {
        verify(binding, key(2).did(), NOW)
    }

    #[test]
    fn both_signatures_make_a_binding() {
        let binding = sign(&key(1), &key(2), NOW, UnixSeconds(0));
        assert_eq!(verdict(&binding), Ok(Binding::V2 { owner: key(1).did().clone(), valid_until: None }));
        let bounded = sign(&key(1), &key(2), UnixSeconds(NOW.0 + 300), NOW);
        assert_eq!(verdict(&bounded).unwrap().owner(), Some(key(1).did()));
    }

    #[test]
    fn each_failure_has_its_name() {
        let good = sign(&key(1), &key(2), NOW, UnixSeconds(0));
        let float = json::parse(b"1784273700.0").unwrap();
        for (binding, error) in [
            (json!([]), BindingError::NotAnObject),
            (with(&good, "typ", json!("muretai/devicebinding/1")), BindingError::OtherType),
            (with(&good, "typ", json!(null)), BindingError::OtherType),
            (with(&good, "ts", float.clone()), BindingError::NotAnInteger { member: "ts" }),
            (with(&good, "ts", json!(true)), BindingError::NotAnInteger { member: "ts" }),
            (with(&good, "validUntil", float), BindingError::NotAnInteger { member: "validUntil" }),
            (with(&good, "validUntil", json!(null)), BindingError::NotAnInteger { member: "validUntil" }),
            (with(&good, "deviceDid", json!(key(3).did())), BindingError::OtherDevice),
            (with(&good, "rootDid", json!("did:key:z")), BindingError::NoOwner),
            (with(&good, "rootDid", json!(key(3).did())), BindingError::OwnerSignature),
            (with(&good, "ts", json!(NOW.0 - 1)), BindingError::OwnerSignature),
            (with(&good, "sig", json!(null)), BindingError::OwnerSignature),
            (with(&good, "deviceSig", json!(null)), BindingError::DeviceSignature),
            (with(&good, "deviceSig", good.member("sig").unwrap().clone()), BindingError::DeviceSignature),
            (
                sign(&key(1), &key(2), UnixSeconds(NOW.0 + 301), UnixSeconds(0)),
                BindingError::FromTheFuture { secs: 301 },
            ),
            (sign(&key(1), &key(2), NOW, UnixSeconds(NOW.0 - 1)), BindingError::Expired),
            (sign(&key(1), &key(2), NOW, UnixSeconds(-1)), BindingError::Expired),
        ] {
            assert_eq!(verdict(&binding), Err(error), "{}", binding.to_json());
        }
    }

    #[test]
    fn version_1_verifies_and_grants_nothing() {
        let (owner, device) = (key(1), key(2));
        for ts in ["1784273700", "1784273700.0", "0"] {
            let ts = json::parse(ts.as_bytes()).unwrap();
            let sig = owner.sign_base64(payload_v1(owner.did(), device.did(), &ts).unwrap().as_bytes());
            let binding = json!({"rootDid": owner.did(), "deviceDid": device.did(), "ts": ts, "sig": sig});
            assert_eq!(verdict(&binding), Ok(Binding::V1 { claimant: owner.did().clone() }));
            assert_eq!(verdict(&binding).unwrap().owner(), None);
            assert_eq!(verdict(&with(&binding, "ts", json!(1))), Err(BindingError::OwnerSignature));
            assert_eq!(verdict(&with(&binding, "ts", json!("1"))), Err(BindingError::NotAnInteger { member: "ts" }));
        }
    }
}
