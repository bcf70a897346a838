use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::{
    json,
    json::parse,
    message::{Draft, Message, MessageId, Role, sign},
    sign::{Seed, SigningKey},
};

const NOW: UnixSeconds = UnixSeconds(1_785_000_000);
const DAY: i64 = 86_400;

fn key(byte: u8) -> SigningKey {
    SigningKey::from_seed(&Seed::from_bytes([byte; 32]))
}

/// West vouches for north to south.
fn west() -> SigningKey {
    key(4)
}
fn north() -> SigningKey {
    key(1)
}
fn south() -> SigningKey {
    key(2)
}

/// What west writes, after a change.
fn minted<'a>(change: impl FnOnce(&mut IntroductionSpec<'a>)) -> Result<Value, MintError> {
    static NAMED: LazyLock<(SigningKey, SigningKey, [String; 1])> =
        LazyLock::new(|| (north(), south(), ["translation".to_owned()]));
    let (north, south, expertise) = &*NAMED;
    let mut spec = IntroductionSpec {
        id: [0xab; 16],
        subject: north.did(),
        target: south.did(),
        expertise,
        trust_level_bp: 873,
        issued: NOW,
        valid_until: UnixSeconds(NOW.0 + 30 * DAY),
        request: None,
        issuer_endpoint: Some("https://west.example/a/"),
    };
    change(&mut spec);
    mint(&west(), &spec)
}

/// North's question to west, with these metadata members after signing.
fn question(text: &str, metadata: impl IntoIterator<Item = (&'static str, Value)>) -> RequestRecord {
    let west = west();
    let draft = Draft {
        role: Role::User,
        to: west.did().as_str(),
        message_id: &MessageId::new("m1").unwrap(),
        context_id: None,
        text,
        timestamp: UnixSeconds(NOW.0 - DAY),
        extra: Object::new(),
    };
    let mut message = sign(&north(), &draft);
    let Value::Object(members) = &mut message else { unreachable!() };
    let Some(Value::Object(members)) = members.get_mut("metadata") else { unreachable!() };
    members.extend(metadata.into_iter().map(|(key, value)| (key.to_owned(), value)));
    let envelope = Message::from_value(message).unwrap().into_envelope().unwrap();
    RequestRecord::of(&envelope.verify_delegated(None, NOW).unwrap())
}

fn named() -> RequestRecord {
    question(&format!("{INTRODUCE_ME_TO}{}", south().did()), [])
}

fn verdict(vc: &Value) -> Result<Introduction, IntroductionError> {
    verify(vc, &Parties { subject: north().did(), target: Some(south().did()) }, NOW)
}

/// The credential with members replaced, in the credential or its subject, and signed again.
fn resigned(vc: &Value, signer: &SigningKey, changes: &[(&str, Value)]) -> Value {
    let mut members = vc.as_object().unwrap().clone();
    members.remove("proof");
    for (name, value) in changes {
        match name.strip_prefix("credentialSubject.") {
            None => drop(members.insert((*name).to_owned(), value.clone())),
            Some(name) => {
                let Some(Value::Object(subject)) = members.get_mut("credentialSubject") else { unreachable!() };
                subject.insert(name.to_owned(), value.clone());
            }
        }
    }
    let payload = signed_body(&Value::Object(members.clone())).unwrap_or_default();
    members.insert("proof".to_owned(), json!({"jws": (signer.sign_base64(payload.as_bytes()))}));
    Value::Object(members)
}

/// West's word about a change.
fn changed(name: &str, value: Value) -> Result<Introduction, IntroductionError> {
    verdict(&resigned(&minted(|_| ()).unwrap(), &west(), &[(name, value)]))
}

#[test]
fn an_introduction_says_who_vouches_for_whom() {
    let vc = minted(|_| ()).unwrap();
    let introduction = verdict(&vc).unwrap();
    assert_eq!(introduction.id, format!("urn:uuid:{}", "ab".repeat(16)));
    assert_eq!((&introduction.issuer, &introduction.subject), (west().did(), north().did()));
    assert_eq!((&introduction.target, introduction.trust_level_bp), (south().did(), Some(873)));
    assert_eq!((introduction.issued, introduction.valid_until), (NOW, UnixSeconds(NOW.0 + 30 * DAY)));
    assert_eq!((introduction.expertise, introduction.provenance), (vec!["translation".into()], Provenance::Proactive));
    assert_eq!(introduction.issuer_endpoint.as_deref(), Some("https://west.example/a"));
    assert_eq!(introduction.raw, vc);
    assert!(verify(&vc, &Parties { subject: north().did(), target: None }, NOW).is_ok());
}

#[test]
fn an_introduction_that_was_asked_for_carries_the_question() {
    for record in [named(), question("who translates?", [])] {
        let vc = minted(|spec| spec.request = Some(&record)).unwrap();
        assert_eq!(verdict(&vc).unwrap().provenance, Provenance::Requested(record.clone()));
        let kept = parse(record.raw.to_json().as_bytes()).unwrap();
        assert_eq!(RequestRecord::from_value(kept), Ok(record));
    }
    assert_eq!(named().named_target(), Some(south().did().as_str()));
    assert_eq!(question("who translates?", []).named_target(), None);
}

#[test]
fn a_float_that_an_sdk_made_of_a_time_travels_on() {
    let float = parse(format!("{}.0", NOW.0 - DAY).as_bytes()).unwrap();
    let record = question("who translates?", [("timestamp", float.clone())]);
    assert_eq!(record.raw.member("timestamp"), Some(&float));
    let vc = minted(|spec| spec.request = Some(&record)).unwrap();
    let received = parse(vc.to_json().as_bytes()).unwrap();
    assert!(received.to_json().contains(&format!("\"timestamp\":{}.0", NOW.0 - DAY)));
    assert!(matches!(verdict(&received).unwrap().provenance, Provenance::Requested(_)));
    let integer = received.to_json().replace(&format!("{}.0", NOW.0 - DAY), &format!("{}", NOW.0 - DAY));
    assert_eq!(verdict(&parse(integer.as_bytes()).unwrap()).unwrap_err(), IntroductionError::Forged);
}

#[test]
fn each_failure_has_its_name() {
    use IntroductionError as E;
    for name in ["id", "issuer", "issuanceDate", "credentialSubject", "type"] {
        assert_eq!(changed(name, json!(null)).unwrap_err(), E::Malformed(name));
        assert_eq!(changed(name, json!(1)).unwrap_err(), E::Malformed(name));
    }
    for (name, value, error) in [
        ("type", json!(["VerifiableCredential"]), E::OtherType),
        ("issuer", json!(north().did()), E::SelfIssued),
        ("issuer", json!(south().did()), E::IssuedByTarget),
        ("issuer", json!(key(9).did()), E::Forged),
        ("id", json!("a b"), E::Malformed("id")),
        ("id", json!("a".repeat(129)), E::Malformed("id")),
        ("credentialSubject.validUntil", json!(NOW.to_iso()), E::Expired { valid_until: NOW }),
        ("credentialSubject.validUntil", json!("soon"), E::Malformed("validUntil")),
        ("credentialSubject.expertise", json!("all"), E::Malformed("expertise")),
        ("credentialSubject.expertise", json!([1i64]), E::Malformed("expertise")),
        ("credentialSubject.expertise", json!(["é".repeat(33)]), E::Malformed("expertise")),
        ("credentialSubject.expertise", Value::Array(vec!["a".into(); 17]), E::Malformed("expertise")),
        ("credentialSubject.trustLevelBp", json!(1001), E::Malformed("trustLevelBp")),
        ("credentialSubject.trustLevelBp", json!(-1), E::Malformed("trustLevelBp")),
        ("credentialSubject.trustLevelBp", json!(true), E::Malformed("trustLevelBp")),
        ("credentialSubject.trustLevelBp", parse(b"5.0").unwrap(), E::Malformed("trustLevelBp")),
        ("issuerEndpoint", json!(7), E::Malformed("issuerEndpoint")),
        ("provenance", json!("requested"), E::UnknownProvenance),
        ("provenance", json!({"mode": "overheard"}), E::UnknownProvenance),
        ("provenance", json!({"mode": "requested"}), E::Record(RecordError::Malformed("JSON object"))),
    ] {
        assert_eq!(changed(name, value.clone()).unwrap_err(), error, "{name} {value:?}");
    }
    let large = changed("note", json!("a".repeat(MAX_INTRODUCTION_BYTES)));
    assert!(matches!(large, Err(E::TooLarge { bytes }) if bytes > MAX_INTRODUCTION_BYTES));
    let number = changed("note", json!(1i64 << 53));
    assert!(matches!(number, Err(E::Unverifiable(_))), "{number:?}");
    for other in [json!(null), json!([]), json!("vc"), json!({})] {
        assert!(matches!(verdict(&other), Err(E::Malformed(_))));
    }
}

#[test]
fn what_the_verification_does_not_ask_for_is_no_fault() {
    for (name, value) in [
        ("later", json!([{"a": [1]}])),
        ("provenance", json!(null)),
        ("issuerEndpoint", json!(null)),
        ("credentialSubject.expertise", json!(null)),
        ("credentialSubject.trustLevelBp", json!(null)),
        ("id", json!("a".repeat(128))),
        ("credentialSubject.expertise", Value::Array(vec!["é".repeat(32).into(); 16])),
    ] {
        assert!(changed(name, value.clone()).is_ok(), "{name} {value:?}");
    }
}

#[test]
fn an_endpoint_that_cannot_be_asked_is_none() {
    for (endpoint, read) in [
        ("https://west.example/", Some("https://west.example")),
        ("http://[::1]:8/a/b//", Some("http://[::1]:8/a/b")),
        ("", None),
        ("/", None),
        ("https://west.example/?a", None),
        ("https://user@west.example", None),
        ("ftp://west.example", None),
    ] {
        let introduction = changed("issuerEndpoint", json!(endpoint)).unwrap();
        assert_eq!(introduction.issuer_endpoint.as_deref(), read, "{endpoint}");
    }
}

#[test]
fn the_level_of_old_credentials_is_a_float() {
    let level = |old: &str, new: Value| {
        let level = ("credentialSubject.trustLevel", parse(old.as_bytes()).unwrap());
        let changes = [level, ("credentialSubject.trustLevelBp", new)];
        let introduction = verdict(&resigned(&minted(|_| ()).unwrap(), &west(), &changes))?;
        Ok(introduction.trust_level_bp)
    };
    for (old, read) in [("0.8734", 873), ("0.8735", 874), ("1.0", 1000), ("1", 1000), ("0", 0)] {
        assert_eq!(level(old, json!(null)), Ok(Some(read)), "{old}");
    }
    for old in ["true", "1.001", "-0.1", "\"0.5\"", "[]"] {
        assert_eq!(level(old, json!(null)), Err(IntroductionError::Malformed("trustLevel")), "{old}");
        assert_eq!(level(old, json!(5)), Ok(Some(5)), "the new one is preferred");
    }
}

#[test]
fn the_caller_names_the_parties() {
    let vc = minted(|_| ()).unwrap();
    let verify = |subject: &SigningKey, target: &SigningKey| {
        verify(&vc, &Parties { subject: subject.did(), target: Some(target.did()) }, NOW).unwrap_err()
    };
    let (expected, found) = (key(9).did().clone(), north().did().clone());
    assert_eq!(verify(&key(9), &south()), IntroductionError::OtherSubject { expected, found });
    let (expected, found) = (key(9).did().clone(), south().did().clone());
    assert_eq!(verify(&north(), &key(9)), IntroductionError::OtherTarget { expected, found });
    let to_itself = resigned(&vc, &west(), &[("credentialSubject.introducedTo", json!(north().did()))]);
    let north = north();
    let parties = Parties { subject: north.did(), target: None };
    assert_eq!(super::verify(&to_itself, &parties, NOW).unwrap_err(), IntroductionError::SubjectIsTarget);
}

#[test]
fn a_proof_is_a_signature_by_the_issuer() {
    let vc = minted(|_| ()).unwrap();
    let jws = vc.member("proof").unwrap().member("jws").unwrap().clone();
    let with = |proof: Value| {
        let mut members = vc.as_object().unwrap().clone();
        members.insert("proof".to_owned(), proof);
        verdict(&Value::Object(members)).map(|introduction| introduction.id)
    };
    let fragment = format!("{}#key", west().did());
    assert!(with(json!({"jws": (jws.clone())})).is_ok(), "the rest is not signed and says nothing");
    assert!(with(json!({"jws": (jws.clone()), "verificationMethod": fragment})).is_ok());
    for proof in [
        json!({"jws": (jws.clone()), "type": "DataIntegrityProof"}),
        json!({"jws": (jws.clone()), "verificationMethod": (north().did())}),
        json!({"jws": (jws.clone()), "verificationMethod": [1]}),
        json!({"jws": 1}),
        json!({}),
        json!([]),
        json!(null),
    ] {
        assert_eq!(with(proof), Err(IntroductionError::Malformed("proof")));
    }
    let other = resigned(&vc, &key(9), &[]);
    assert_eq!(verdict(&other).unwrap_err(), IntroductionError::Forged);
    let unpadded = jws.as_str().unwrap().trim_end_matches('=').to_owned();
    assert_eq!(with(json!({"jws": unpadded})), Err(IntroductionError::Forged));
}

#[test]
fn a_record_is_of_the_parties_and_of_the_time() {
    use RecordError as E;
    let (record, at) = (named(), |secs: i64| UnixSeconds(NOW.0 - DAY + secs));
    let verify = |subject: &SigningKey, issuer: &SigningKey, target: &SigningKey, issued| {
        record.verify(subject.did(), issuer.did(), target.did(), issued)
    };
    for secs in [-300, 0, 30 * DAY] {
        assert_eq!(verify(&north(), &west(), &south(), at(secs)), Ok(()));
    }
    let (old, ahead) = (30 * DAY + 1, -301);
    assert_eq!(verify(&north(), &west(), &south(), at(old)), Err(E::TooOld { age_secs: old }));
    assert_eq!(verify(&north(), &west(), &south(), at(ahead)), Err(E::FromFuture { ahead_secs: 301 }));
    assert_eq!(verify(&key(9), &west(), &south(), NOW), Err(E::OtherAsker));
    assert_eq!(verify(&north(), &key(9), &south(), NOW), Err(E::OtherIntroducer));
    assert_eq!(verify(&north(), &west(), &key(9), NOW), Err(E::OtherTarget));
    let words = question("who translates?", []);
    assert_eq!(words.verify(north().did(), west().did(), key(9).did(), NOW), Ok(()), "it names no target");
    let noted = question(&format!("{INTRODUCE_ME_TO}{}\nplease", south().did()), []);
    assert_eq!(noted.verify(north().did(), west().did(), south().did(), NOW), Err(E::OtherTarget));
}

/// A record with a member replaced.
fn with(record: &RequestRecord, name: &str, value: Option<Value>) -> RequestRecord {
    let mut members = record.raw.as_object().unwrap().clone();
    match value {
        Some(value) => drop(members.insert(name.to_owned(), value)),
        None => drop(members.remove(name)),
    }
    RequestRecord { raw: Value::Object(members) }
}

#[test]
fn a_record_has_seven_members() {
    let verify = |record: RequestRecord| record.verify(north().did(), west().did(), south().did(), NOW);
    for name in ["from", "to", "messageId", "contextId", "timestamp", "text", "sig"] {
        let missing = with(&named(), name, None);
        assert_eq!(verify(missing.clone()), Err(RecordError::Malformed(name)));
        assert_eq!(RequestRecord::from_value(missing.raw), Err(RecordError::Malformed(name)));
        assert_eq!(verify(with(&named(), name, Some(json!([])))), Err(RecordError::Malformed(name)));
    }
    for (name, value) in [
        ("messageId", json!("m2")),
        ("contextId", json!("")),
        ("timestamp", json!(NOW.0)),
        ("text", json!("who else?")),
        ("sig", json!("")),
    ] {
        assert_eq!(verify(with(&named(), name, Some(value))), Err(RecordError::Forged), "{name}");
    }
    let unsafe_time = with(&named(), "timestamp", Some(json!(1i64 << 53)));
    assert!(matches!(verify(unsafe_time), Err(RecordError::FromFuture { .. })));
    let endless = with(&named(), "timestamp", Some(parse(b"1e300").unwrap()));
    assert_eq!(verify(endless), Err(RecordError::FromFuture { ahead_secs: i64::MAX }));
    assert_eq!(verify(with(&named(), "later", Some(json!(1)))), Ok(()), "the credential's proof covers it");
}

/// North's state that lets `op` act for it, with a long chain beside it that nobody signed.
fn state(op: &SigningKey) -> Value {
    let hex = |key: &SigningKey| crate::hex::encode(key.did().ed25519().unwrap());
    let signed = json!({
        "typ": "muretai/keystate/1", "rootDid": (north().did()), "epoch": 1, "rootKey": (hex(&north())),
        "rootNextHash": "", "opDid": (op.did()), "opNextHash": "", "encPub": "", "encNextHash": "",
        "guardiansHash": "", "revokedOps": [], "notBefore": (NOW.0 - 2 * DAY), "notAfter": NOW.0, "ts": (NOW.0 - 2 * DAY)
    });
    let mut members = signed.as_object().unwrap().clone();
    let sig = north().sign_base64(canonical_as_received(&signed).unwrap().as_bytes());
    members.extend([("sig".to_owned(), sig.into()), ("chain".to_owned(), "a".repeat(60_000).into())]);
    Value::Object(members)
}

#[test]
fn a_question_under_an_operating_key_brings_its_state() {
    let op = key(7);
    let draft_payload = |text: &str| {
        let (from, to) = (north().did().clone(), west().did().clone());
        let time = json!(NOW.0 - DAY);
        crate::message::signing_payload(from.as_str(), to.as_str(), "m1", None, &time, text)
    };
    let sig = op.sign_base64(draft_payload("who translates?").as_bytes());
    let record = question("who translates?", [("sig", json!(sig)), ("keystate", state(&op))]);
    assert!(record.raw.to_json().len() < 2_000, "without the chain");
    assert_eq!(record.verify(north().did(), west().did(), south().did(), NOW), Ok(()));
    let vc = minted(|spec| spec.request = Some(&record)).unwrap();
    assert!(verdict(&vc).is_ok());
    let later = UnixSeconds(NOW.0 + 1);
    let verdict = record.verify(north().did(), west().did(), south().did(), later);
    assert_eq!(verdict, Err(RecordError::Forged), "the state had ended when the introduction was issued");
    let bare = with(&record, "keystate", None);
    assert_eq!(bare.verify(north().did(), west().did(), south().did(), NOW), Err(RecordError::Forged));
    let by_root = question("who translates?", [("keystate", state(&op))]);
    assert_eq!(by_root.raw.member("keystate"), None, "the root signed itself");
}

#[test]
fn minting_refuses_what_verifying_would() {
    use MintError as E;
    let (other, record) = (key(9), named());
    let long = ["é".repeat(33)];
    let many: Vec<String> = vec!["a".to_owned(); 17];
    let large = question(&"a".repeat(MAX_INTRODUCTION_BYTES), []);
    let damaged = with(&record, "later", Some(json!(1i64 << 53)));
    let refusal = |change: fn(&mut IntroductionSpec<'_>)| minted(|spec| change(spec)).unwrap_err();
    assert_eq!(minted(|spec| spec.subject = other.did()).map(drop), Ok(()));
    let west = west();
    assert_eq!(minted(|spec| spec.subject = west.did()), Err(E::NotThree));
    assert_eq!(minted(|spec| spec.target = west.did()), Err(E::NotThree));
    assert_eq!(refusal(|spec| spec.target = spec.subject), E::NotThree);
    assert_eq!(refusal(|spec| spec.trust_level_bp = 1001), E::TrustLevel { level: 1001 });
    assert_eq!(minted(|spec| spec.expertise = &many), Err(E::TooMuchExpertise { count: 17 }));
    assert_eq!(minted(|spec| spec.expertise = &long), Err(E::ExpertiseTooLong { bytes: 66 }));
    assert_eq!(refusal(|spec| spec.valid_until = NOW), E::NoTime { valid_until: NOW });
    assert_eq!(refusal(|spec| spec.issuer_endpoint = Some("west.example")), E::Endpoint);
    assert!(matches!(minted(|spec| spec.request = Some(&large)), Err(E::TooLarge { .. })));
    let unspelled = minted(|spec| spec.request = Some(&damaged));
    assert!(matches!(unspelled, Err(E::Record(RecordError::Unverifiable(_)))), "{unspelled:?}");
    let retargeted = minted(|spec| (spec.target, spec.request) = (other.did(), Some(&record)));
    assert_eq!(retargeted, Err(E::Record(RecordError::OtherTarget)));
    let resubjected = minted(|spec| (spec.subject, spec.request) = (other.did(), Some(&record)));
    assert_eq!(resubjected, Err(E::Record(RecordError::OtherAsker)));
}

proptest! {
    #[test]
    fn every_changed_byte_is_noticed(at: prop::sample::Index, byte: u8, asked: bool) {
        let record = named();
        let vc = minted(|spec| spec.request = asked.then_some(&record)).unwrap();
        let mut bytes = vc.to_json().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(changed) = parse(&bytes) && changed != vc && verdict(&changed).is_ok() {
            // Only the proof's own words about itself are not signed: its date and the names of its members.
            let jws = |vc: &Value| vc.member("proof").and_then(|proof| proof.member("jws")).cloned();
            prop_assert_eq!(jws(&changed), jws(&vc));
            prop_assert_eq!(signed_body(&changed), signed_body(&vc));
        }
    }

    #[test]
    fn what_is_minted_verifies_after_the_wire(
        id: [u8; 16],
        expertise in prop::collection::vec("\\PC{0,16}", 0..=16),
        level in 0u16..=1000,
        days in 1i64..365,
        endpoint in prop::option::of("https?://[a-z]{1,9}(:[0-9]{1,5})?(/[a-z~.]{1,4}){0,3}/{0,2}"),
    ) {
        let valid_until = UnixSeconds(NOW.0 + days * DAY);
        let vc = minted(|spec| {
            (spec.id, spec.trust_level_bp, spec.valid_until) = (id, level, valid_until);
            spec.issuer_endpoint = endpoint.as_deref();
        }).unwrap();
        let vc = resigned(&vc, &west(), &[("credentialSubject.expertise", Value::Array(expertise.iter().map(Value::from).collect()))]);
        let received = parse(vc.to_json().as_bytes()).unwrap();
        let read = verdict(&received).unwrap();
        prop_assert_eq!((read.expertise, read.trust_level_bp, read.valid_until), (expertise, Some(level), valid_until));
        prop_assert_eq!(read.issuer_endpoint, endpoint.map(|e| e.trim_end_matches('/').to_owned()));
        prop_assert_eq!(read.raw, vc);
    }
}
