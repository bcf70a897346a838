//! The golden vectors of canonical JSON, identities, messages and bindings (section 14), through the functions that
//! production code uses. The files are not committed here: `MURETAI_VECTORS` names their folder.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
use std::{env, fs, path::PathBuf};

use muretai_protocol::{
    Did, UnixSeconds, binding,
    binding::{Binding, BindingError},
    did::{DidError, PublicKey},
    json,
    json::{Object, ParseError, Value, canonical, canonical_as_received, parse},
    keystate,
    message::{EnvelopeError, Message, SignatureError, signing_payload},
    phrase,
    sign::{Seed, SigningKey},
};

/// A vector file; `None`, said aloud, when there are no vectors on this machine.
fn vectors(file: &str) -> Option<Value> {
    let Some(folder) = env::var_os("MURETAI_VECTORS") else {
        eprintln!("skipped: MURETAI_VECTORS names no folder of golden vectors");
        return None;
    };
    let path = PathBuf::from(folder).join(file);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(parse(&bytes).unwrap())
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, key| value.member(key).unwrap_or_else(|| panic!("no {key} of {path}")))
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap()
}

fn did(value: &Value, path: &str) -> Did {
    text(value, path).parse().unwrap()
}

fn secs(value: &Value, path: &str) -> UnixSeconds {
    UnixSeconds(at(value, path).as_i64().unwrap())
}

/// The cases of a group, whose number is asserted: a group that silently runs zero cases proves nothing.
fn cases<'a>(vectors: &'a Value, path: &str, count: usize) -> &'a [Value] {
    let cases = at(vectors, path).as_array().unwrap();
    assert_eq!(cases.len(), count, "cases in {path}");
    cases
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn signing_key(seed_hex: &str) -> SigningKey {
    SigningKey::from_seed(&Seed::from_bytes(bytes(seed_hex).try_into().unwrap()))
}

#[test]
fn canonical_bytes_agree() {
    let (Some(wire), Some(extra)) = (vectors("wire_vectors.json"), vectors("reject_extra.json")) else { return };
    for case in cases(&wire, "canonical", 14).iter().chain(cases(&extra, "canonical", 1)) {
        let (name, payload, expected) = (text(case, "name"), at(case, "payload"), text(case, "canonical"));
        assert_eq!(canonical_as_received(payload).as_deref(), Ok(expected), "{name}");
        assert_eq!(parse(expected.as_bytes()).as_ref(), Ok(payload), "{name}");
        // A signer writes the same bytes, unless there is a float in them.
        assert_eq!(canonical(payload).is_ok(), name != "fractional-float-agrees", "{name}");
        assert!(canonical(payload).is_ok_and(|written| written == expected) || canonical(payload).is_err(), "{name}");
    }
}

#[test]
fn number_hazards_are_never_signed_and_verify_in_the_spelling_of_cpython() {
    let Some(vectors) = vectors("wire_vectors.json") else { return };
    for case in cases(&vectors, "numberHazards", 8) {
        let (name, payload) = (text(case, "name"), at(case, "payload"));
        assert!(canonical(payload).is_err(), "{name}");
        match name {
            "int-beyond-2exp53" => assert!(canonical_as_received(payload).is_err(), "{name}"),
            _ => assert_eq!(canonical_as_received(payload).as_deref(), Ok(text(case, "pythonCanonical")), "{name}"),
        }
    }
}

#[test]
fn dids_agree_in_both_directions() {
    let Some(vectors) = vectors("wire_vectors.json") else { return };
    for case in cases(&vectors, "did", 10) {
        let public = bytes(text(case, "publicHex"));
        let key = match text(case, "curve") {
            "ed25519" => PublicKey::Ed25519(public.try_into().unwrap()),
            _ => PublicKey::P256(public.try_into().unwrap()),
        };
        assert_eq!(did(case, "did").key(), key);
        assert_eq!(Did::from_key(&key).as_str(), text(case, "did"));
    }
}

#[test]
fn dids_of_other_kinds_and_lengths_are_refused() {
    let Some(vectors) = vectors("reject_extra.json") else { return };
    for case in cases(&vectors, "reject.did", 3) {
        let expected = match text(case, "name") {
            "x25519-multicodec" => DidError::UnsupportedKey,
            "ed25519-prefix-31-byte-key" => DidError::KeyLength { expected: 32, found: 31 },
            _ => DidError::KeyLength { expected: 32, found: 33 },
        };
        assert_eq!(text(case, "did").parse::<Did>(), Err(expected), "{}", text(case, "name"));
    }
}

#[test]
fn documents_are_read_or_refused_as_bytes() {
    let Some(vectors) = vectors("reject_extra.json") else { return };
    for case in cases(&vectors, "reject.encoding.accept", 5) {
        let value = parse(&bytes(text(case, "documentHex"))).unwrap();
        assert_eq!(canonical(&value).as_deref(), Ok(text(case, "canonical")), "{}", text(case, "name"));
    }
    for case in cases(&vectors, "reject.encoding.refuse", 9) {
        let error = parse(&bytes(text(case, "documentHex"))).unwrap_err();
        let is_named = match text(case, "category") {
            "lone-surrogate" => matches!(error, ParseError::LoneSurrogate { .. }),
            "invalid-utf8" => matches!(error, ParseError::InvalidUtf8 { .. }),
            "byte-order-mark" => error == ParseError::ByteOrderMark,
            _ => error == ParseError::WrongEncoding,
        };
        assert!(is_named, "{}: {error}", text(case, "name"));
    }
}

#[test]
fn signing_payloads_agree() {
    let Some(vectors) = vectors("wire_vectors.json") else { return };
    for case in cases(&vectors, "envelope", 4) {
        let payload = signing_payload(
            text(case, "from"),
            text(case, "to"),
            text(case, "messageId"),
            case.member("contextId").and_then(Value::as_str),
            at(case, "timestamp"),
            text(case, "text"),
        );
        assert_eq!(payload, text(case, "signingPayload"), "{}", text(case, "name"));
    }
}

/// The case's flat fields as the message that would carry them; all else lands in the metadata.
fn message(input: &Value) -> Message {
    let mut metadata = input.as_object().unwrap().clone();
    metadata.retain(|key, _| !["messageId", "contextId", "text"].contains(&key.as_str()));
    Message::from_value(json!({
        "kind": "message",
        "role": "user",
        "messageId": text(input, "messageId"),
        "contextId": text(input, "contextId"),
        "parts": [{"kind": "text", "text": text(input, "text")}],
        "metadata": Value::Object(metadata),
    }))
    .unwrap()
}

#[test]
fn forged_messages_are_refused() {
    let (Some(wire), Some(extra)) = (vectors("wire_vectors.json"), vectors("reject_extra.json")) else { return };
    for case in cases(&wire, "reject.message", 6).iter().chain(cases(&extra, "reject.message", 4)) {
        let (name, input) = (text(case, "name"), at(case, "input"));
        let envelope = message(input).into_envelope();
        if name == "missing-sig" {
            assert_eq!(envelope.unwrap_err(), EnvelopeError::Incomplete);
            continue;
        }
        let envelope = envelope.unwrap();
        let me = match name {
            // Whoever verifies has to say who it is, and what the wire says about that is nothing but decoration.
            "wire-names-its-own-recipient" => did(input, "from"),
            "wrong-recipient" => did(case, "recipientDid"),
            _ => did(input, "to"),
        };
        let now = secs(input, "timestamp");
        if text(case, "category") == "wrong-recipient" {
            assert!(!envelope.is_for(&me), "{name}");
            assert!(envelope.verify(now).is_ok(), "{name} is well signed");
        } else {
            assert!(envelope.is_for(&me) && envelope.freshness(now).is_ok(), "{name}");
            assert_eq!(envelope.verify(now).unwrap_err(), SignatureError, "{name}");
        }
    }
}

#[test]
fn phrases_give_their_seed_and_did() {
    let Some(vectors) = vectors("derived_examples.json") else { return };
    for case in cases(&vectors, "bip39", 4) {
        let entropy = bytes(text(case, "entropyHex"));
        let seed = phrase::decode(text(case, "phrase")).unwrap();
        assert_eq!(seed.expose().as_slice(), entropy);
        assert_eq!(phrase::encode(&seed).as_str(), text(case, "phrase"));
        assert_eq!(SigningKey::from_seed(&seed).did().as_str(), text(case, "did"));
    }
}

#[test]
fn bindings_of_version_1_have_their_payload() {
    let Some(vectors) = vectors("wire_vectors.json") else { return };
    for case in cases(&vectors, "binding", 2) {
        let payload = binding::payload_v1(&did(case, "rootDid"), &did(case, "deviceDid"), at(case, "ts"));
        assert_eq!(payload.as_deref(), Some(text(case, "bindingPayload")), "{}", text(case, "name"));
    }
}

#[test]
fn bindings_of_version_2_verify_and_are_reproduced() {
    let Some(vectors) = vectors("wire_vectors.json") else { return };
    let now = secs(&vectors, "bindingV2.checkNow");
    for case in cases(&vectors, "bindingV2.cases", 2) {
        let (owner, device) = (signing_key(text(case, "ownerSeed")), signing_key(text(case, "deviceSeed")));
        let (ts, valid_until) = (secs(case, "ts"), secs(case, "validUntil"));
        let payload = binding::payload_v2(owner.did(), device.did(), ts, valid_until);
        assert_eq!(payload, text(case, "bindingPayload"));
        assert_eq!(&binding::sign(&owner, &device, ts, valid_until), at(case, "binding"));
        let verified = binding::verify(at(case, "binding"), device.did(), now).unwrap();
        assert_eq!(verified.owner(), Some(owner.did()));
        assert!(matches!(verified, Binding::V2 { valid_until: end, .. } if end.is_some() == (valid_until.0 != 0)));
    }
}

#[test]
fn bindings_that_are_not_in_order_are_refused() {
    let (Some(wire), Some(extra)) = (vectors("wire_vectors.json"), vectors("reject_extra.json")) else { return };
    let usual = did(&extra, "bindingV2.expectedDeviceDidForEveryOtherCase");
    let now = secs(&extra, "bindingV2.checkNow");
    for case in cases(&wire, "bindingV2.reject", 3).iter().chain(cases(&extra, "bindingV2.reject", 1)) {
        let device =
            case.member("expectedDeviceDid").map_or(usual.clone(), |did| did.as_str().unwrap().parse().unwrap());
        let expected = match text(case, "category") {
            "float-ts" => BindingError::NotAnInteger { member: "ts" },
            "missing-deviceSig" => BindingError::DeviceSignature,
            "wrong-typ" => BindingError::OtherType,
            _ => BindingError::OtherDevice,
        };
        assert_eq!(binding::verify(at(case, "input"), &device, now), Err(expected), "{}", text(case, "name"));
    }
}

#[test]
fn operating_keys_resolve() {
    let Some(vectors) = vectors("reject_extra.json") else { return };
    let (root, now) = (did(&vectors, "reject.keystate.rootDid"), secs(&vectors, "reject.keystate.checkNow"));
    let accept = cases(&vectors, "reject.keystate.accept", 10);
    for case in accept.iter().chain(cases(&vectors, "reject.keystate.refuse", 6)) {
        let resolved = keystate::resolve(&root, case.member("inline"), case.member("pinned"), now);
        assert_eq!(resolved, did(case, "expect"), "{}", text(case, "name"));
    }
}

/// A state of `root` as the sequence of pins describes it.
fn key_state(root: &SigningKey, state: &Value, ts: UnixSeconds) -> Value {
    let PublicKey::Ed25519(root_key) = root.did().key() else { unreachable!() };
    let mut members = json!({
        "typ": "muretai/keystate/1",
        "rootDid": root.did(),
        "epoch": at(state, "epoch").clone(),
        "rootKey": root_key.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        "rootNextHash": "",
        "opDid": signing_key(text(state, "opSeed")).did(),
        "opNextHash": "",
        "encPub": "",
        "encNextHash": "",
        "guardiansHash": "",
        "revokedOps": at(state, "revokedOps").clone(),
        "notBefore": 0,
        "notAfter": null,
        "ts": ts.0,
    });
    let sig = root.sign_base64(canonical(&members).unwrap().as_bytes());
    let Value::Object(object) = &mut members else { unreachable!() };
    object.insert("sig".to_owned(), sig.into());
    members
}

#[test]
fn a_pinned_key_state_is_replaced_by_newer_ones_only() {
    let Some(vectors) = vectors("reject_extra.json") else { return };
    let now = UnixSeconds(1_784_273_681);
    let root = signing_key(text(&vectors, "doorKeystatePin.rootSeed"));
    let door = signing_key(text(&vectors, "doorKeystatePin.doorSeed"));
    let mut pinned = None;
    for case in cases(&vectors, "doorKeystatePin.sequence", 3) {
        let states = at(&vectors, "doorKeystatePin.states");
        let signer = signing_key(text(states, &format!("{}.opSeed", text(case, "signer"))));
        let (from, to, timestamp) = (root.did().as_str(), door.did().as_str(), json!(now.0));
        let payload = signing_payload(from, to, "m1", Some("c1"), &timestamp, "hello");
        let message = message(&json!({
            "messageId": "m1", "contextId": "c1", "text": "hello", "timestamp": timestamp, "from": from, "to": to,
            "sig": signer.sign_base64(payload.as_bytes()),
            "keystate": key_state(&root, at(states, text(case, "state")), now),
        }));
        let envelope = message.into_envelope().unwrap();
        assert!(envelope.clone().verify(now).is_err(), "an operating key is none without a pin");
        let verified = envelope.verify_delegated(pinned.as_ref(), now);
        assert_eq!(verified.is_ok(), case.member("expectError").is_none(), "{}", text(case, "name"));
        if let Ok(verified) = verified {
            assert_eq!(verified.from(), root.did());
            pinned = verified.keystate_to_pin().cloned().or(pinned);
        }
    }
    assert_eq!(pinned.as_ref().and_then(|state| state.member("epoch")), Some(&json!(2)));
}

#[test]
fn the_helper_keeps_unknown_members() {
    let input = json!({"messageId": "m", "contextId": "c", "text": "t", "recipientDid": "x"});
    assert_eq!(message(&input).metadata, Object::from([("recipientDid".to_owned(), json!("x"))]));
}
