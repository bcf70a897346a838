use proptest::prelude::*;

use super::*;
use crate::{
    UnixSeconds, a2a,
    json::{canonical_as_received, parse},
    sign::{Seed, SigningKey},
};

const NOW: UnixSeconds = UnixSeconds(1_785_000_000);
const BASE: &str = "https://north.example/a";

fn key(byte: u8) -> SigningKey {
    SigningKey::from_seed(&Seed::from_bytes([byte; 32]))
}

fn spec<'a>(did: &'a Did, profile: &'a Profile) -> CardSpec<'a> {
    CardSpec {
        did,
        name: "north",
        description: "An example",
        url: BASE,
        version: "0.1.0",
        profile,
        enc_pub: None,
        enc_pub_pq: None,
        relay: None,
        open_door: false,
        methods: &["message/send"],
        skills: &[],
        trust: TrustFacts { has_gate: true, connect: Some("filtered"), trust_query: Some("self") },
    }
}

fn north_card() -> Value {
    build(&spec(key(1).did(), &Profile::default()))
}

fn with(value: &Value, key: &str, member: Value) -> Value {
    let mut members = value.as_object().unwrap().clone();
    members.insert(key.to_owned(), member);
    Value::Object(members)
}

fn without(value: &Value, key: &str) -> Value {
    let mut members = value.as_object().unwrap().clone();
    members.remove(key);
    Value::Object(members)
}

fn expect() -> Expect<'static> {
    Expect { did: None, plain_card: None, dialled: Some(BASE), now: NOW }
}

#[test]
fn the_own_card_is_a_card() {
    let card = read(north_card()).unwrap();
    assert_eq!((&card.did, card.name.as_str(), card.url.as_str()), (key(1).did(), "north", BASE));
    assert_eq!((card.relay, card.enc_pub), (None, None));
    let interface = a2a::interface_of(&north_card()).unwrap();
    assert_eq!((interface.url.as_str(), interface.version), (BASE, a2a::Version::V0_3));
    let at_origin = build(&CardSpec { url: "https://north.example", ..spec(key(1).did(), &Profile::default()) });
    assert_eq!(a2a::interface_of(&at_origin).unwrap().url, "https://north.example/", "the POST address");
}

#[test]
fn what_does_not_apply_is_left_out() {
    let card = north_card();
    for absent in ["profile", "relay", "enc_pub", "enc_pub_pq", "agentEntry"] {
        assert_eq!(card.member(absent), None, "{absent}");
    }
    assert_eq!(card.member("muretai").unwrap().member("open_door"), None);
    assert_eq!(card.member("skills").unwrap().as_array().unwrap().len(), 1);
    let unreachable = build(&CardSpec { url: "", ..spec(key(1).did(), &Profile::default()) });
    for absent in ["supportedInterfaces", "preferredTransport"] {
        assert_eq!(unreachable.member(absent), None, "{absent}");
    }
    assert_eq!(read(unreachable).unwrap().url, "");
}

#[test]
fn an_open_door_says_so_twice_alike() {
    let trust = TrustFacts::default();
    let card = build(&CardSpec { open_door: true, trust, ..spec(key(1).did(), &Profile::default()) });
    assert_eq!(card.member("agentEntry"), Some(&json!({"open_door": true})));
    assert_eq!(card.member("muretai").unwrap().member("open_door"), Some(&Value::Bool(true)));
    assert_eq!(card.member("muretai").unwrap().member("wot"), Some(&Value::Bool(false)));
}

#[test]
fn the_own_block_says_how_trust_is_made() {
    let block = |card: &Value| card.member("muretai").unwrap().clone();
    let gated = block(&north_card());
    for (name, value) in [("wot", json!(true)), ("connect", json!("filtered")), ("trustQuery", json!("self"))] {
        assert_eq!(gated.member(name), Some(&value));
    }
    let open = block(&build(&CardSpec { trust: TrustFacts::default(), ..spec(key(1).did(), &Profile::default()) }));
    assert_eq!(open.as_object().unwrap().keys().collect::<Vec<_>>(), ["channel", "methods", "node", "seq", "wot"]);
}

#[test]
fn a_profile_becomes_expertise() {
    let did = key(1).did().clone();
    let skill =
        |profile: &Profile| build(&spec(&did, profile)).member("skills").unwrap().as_array().unwrap().get(1).cloned();
    let tags = vec!["maps".to_owned(), "rivers".to_owned()];
    for (profile, expected) in [
        (Profile { tags: tags.clone(), ..Profile::default() }, Some(("specialist", "Handles: maps, rivers"))),
        (Profile { bio: Some("Knows maps".into()), ..Profile::default() }, Some(("specialist", "Knows maps"))),
        (Profile { role: Some("guide".into()), ..Profile::default() }, Some(("guide", "Domain expertise"))),
        (Profile { role: Some("specialist".into()), ..Profile::default() }, None),
        (Profile { display_name: Some("North".into()), affiliation: Some("Pole".into()), ..Profile::default() }, None),
        (Profile { bio: Some(String::new()), ..Profile::default() }, None),
    ] {
        let found = skill(&profile);
        let text = |field| found.as_ref().and_then(|skill: &Value| skill.member(field)).and_then(Value::as_str);
        assert_eq!(text("name").zip(text("description")), expected, "{profile:?}");
    }
    let set = Profile { tags, bio: Some("b".into()), ..Profile::default() };
    assert_eq!(build(&spec(&did, &set)).member("profile"), Some(&json!({"bio": "b", "tags": ["maps", "rivers"]})));
}

#[test]
fn the_doors_terms_are_one_object_and_need_no_url() {
    let (north, card) = (key(1), north_card());
    let did = north.did();
    let scheme = card.member("securitySchemes").unwrap().member("did-key-ed25519").unwrap();
    let terms = requirement(did, BASE);
    assert_eq!(scheme.member("agentEntry"), Some(&terms));
    assert_eq!(scheme.member("muretai"), Some(&terms));
    assert_eq!(requirement(did, ""), without(&terms, "endpoint"));
    assert!(!without(&terms, "endpoint").to_json().contains("://"), "complete without URLs");
    let message = terms.member("exampleRequest").unwrap().member("params").unwrap().member("message").unwrap();
    assert_eq!(message.member("metadata").unwrap().member("to").unwrap().as_str(), Some(did.as_str()));
    assert_eq!(message.as_object().unwrap().get("contextId"), Some(&Value::Null));
    assert_eq!(message.to_json().matches("\"<").count(), 5, "five blanks");
}

#[test]
fn all_that_a_card_lacks_is_named_at_once() {
    assert_eq!(read(json!([])), Err(CardError::NotAnObject));
    let all = ["name", "description", "version", "capabilities", "defaultInputModes", "defaultOutputModes", "skills"];
    let all: Vec<_> = all.into_iter().chain(["url or supportedInterfaces"]).collect();
    assert_eq!(read(json!({})), Err(CardError::Missing(all.clone())));
    for field in &all[..7] {
        assert_eq!(read(without(&north_card(), field)), Err(CardError::Missing(vec![*field])));
        assert_eq!(read(with(&north_card(), field, Value::Null)), Err(CardError::Missing(vec![*field])));
        let wrong = read(with(&north_card(), field, json!(7)));
        assert!(matches!(wrong, Err(CardError::WrongType { field: named, .. }) if named == *field), "{field}");
    }
    for one in ["url", "supportedInterfaces"] {
        assert!(read(without(&north_card(), one)).is_ok(), "the other one is enough");
    }
    assert_eq!(read(without(&north_card(), "did")), Err(CardError::NoDid));
    assert_eq!(read(with(&north_card(), "did", "did:web:x".into())), Err(CardError::BadDid));
    for field in ["url", "did", "relay", "enc_pub"] {
        let wrong = CardError::WrongType { field, expected: "a string" };
        assert_eq!(read(with(&north_card(), field, json!({}))), Err(wrong));
    }
}

#[test]
fn what_a_card_adds_is_kept_and_means_nothing() {
    let card = with(&north_card(), "later", json!({"relay": "x", "n": [1]}));
    assert_eq!(read(card.clone()).unwrap().raw, card);
    let card = with(&with(&card, "relay", "https://r.example/?x".into()), "enc_pub", "zz".into());
    let card = read(with(&card, "name", "n".repeat(1000).into())).unwrap();
    assert_eq!((card.relay, card.enc_pub, card.name.len()), (None, None, MAX_NAME_CHARS));
}

#[test]
fn an_envelope_proves_its_card() {
    let (north, card) = (key(1), north_card());
    let envelope = sign_envelope(&north, &card, NOW).unwrap();
    let expect = Expect { did: Some(north.did()), plain_card: Some(&card), ..expect() };
    assert_eq!(verify_envelope(&envelope, &expect).unwrap(), read(card.clone()).unwrap());
    let added = with(&envelope, "later", json!([1]));
    assert!(verify_envelope(&added, &expect).is_ok(), "unknown members mean nothing");
    let directory = Expect { plain_card: None, dialled: None, did: None, now: NOW };
    assert!(verify_envelope(&envelope, &directory).is_ok());
}

#[test]
fn each_way_to_fail_has_its_name() {
    use EnvelopeError as E;
    let (card, other) = (north_card(), key(2));
    let good = sign_envelope(&key(1), &card, NOW).unwrap();
    let fails = |envelope: &Value, expect: &Expect<'_>| verify_envelope(envelope, expect).unwrap_err();
    for (field, wrong) in
        [("typ", json!(1)), ("v", json!(2)), ("card", json!([])), ("ts", json!("1")), ("sig", json!({}))]
    {
        assert_eq!(fails(&with(&good, field, wrong), &expect()), E::Shape(field));
        assert_eq!(fails(&without(&good, field), &expect()), E::Shape(field));
    }
    assert_eq!(fails(&json!([]), &expect()), E::Shape("JSON object"));
    assert_eq!(fails(&with(&good, "typ", "invite".into()), &expect()), E::OtherType);
    assert_eq!(fails(&with(&good, "card", json!({})), &expect()), E::Card(CardError::NoDid));
    let looked_for = Expect { did: Some(other.did()), ..expect() };
    let found = E::OtherDid { expected: other.did().clone(), found: key(1).did().clone() };
    assert_eq!(fails(&good, &looked_for), found);
    assert_eq!(fails(&sign_envelope(&other, &card, NOW).unwrap(), &expect()), E::Signature);
    assert_eq!(fails(&with(&good, "ts", json!(1)), &expect()), E::Signature, "the time is signed too");
    let beside = with(&card, "name", "North".into());
    assert_eq!(fails(&good, &Expect { plain_card: Some(&beside), ..expect() }), E::DiffersFromPlainCard);
    let elsewhere = Expect { dialled: Some("https://north.example"), ..expect() };
    let scope = E::OtherScope { card_url: BASE.into(), dialled: "https://north.example".into() };
    assert_eq!(fails(&good, &elsewhere), scope);
    let huge = with(&good, "card", with(&card, "n", parse(b"9007199254740992").unwrap()));
    assert!(matches!(fails(&huge, &expect()), E::Unverifiable(_)));
}

#[test]
fn the_window_of_an_envelope_is_inclusive() {
    let at = |ts: i64| {
        let envelope = sign_envelope(&key(1), &north_card(), UnixSeconds(ts)).unwrap();
        verify_envelope(&envelope, &expect()).err()
    };
    assert_eq!(at(NOW.0 - 21_600), None);
    assert_eq!(at(NOW.0 - 21_601), Some(EnvelopeError::TooOld { age_secs: 21_601 }));
    assert_eq!(at(NOW.0 + 300), None);
    assert_eq!(at(NOW.0 + 301), Some(EnvelopeError::FromFuture { ahead_secs: 301 }));
    let edge = Expect { now: UnixSeconds(i64::MAX), ..expect() };
    let envelope = sign_envelope(&key(1), &north_card(), UnixSeconds(-1)).unwrap();
    assert!(matches!(verify_envelope(&envelope, &edge), Err(EnvelopeError::TooOld { .. })));
}

#[test]
fn a_float_time_is_verified_as_it_was_received() {
    let signed_at = |ts: &str| {
        let card = canonical_as_received(&north_card()).unwrap();
        let payload = format!(r#"{{"card":{card},"ts":{ts},"typ":"agentcard","v":1}}"#);
        with(&parse(payload.as_bytes()).unwrap(), "sig", key(1).sign_base64(payload.as_bytes()).into())
    };
    for good in ["1785000000.0", "1784999999.25", "1785000300.0"] {
        assert!(verify_envelope(&signed_at(good), &expect()).is_ok(), "{good}");
    }
    let ahead = verify_envelope(&signed_at("1785000300.5"), &expect());
    assert_eq!(ahead, Err(EnvelopeError::FromFuture { ahead_secs: 301 }));
    let respelled = with(&signed_at("1785000000.0"), "ts", json!(1_785_000_000));
    assert_eq!(verify_envelope(&respelled, &expect()), Err(EnvelopeError::Signature), "no coercion");
}

#[test]
fn a_copy_in_a_directory_may_be_old_and_not_from_the_future() {
    let north = key(1);
    let copy = |ts: i64| {
        let envelope = sign_envelope(&north, &north_card(), UnixSeconds(ts)).unwrap();
        verify_copy(&envelope, north.did(), NOW)
    };
    for ts in [0, NOW.0 - 21_601, NOW.0, NOW.0 + 300] {
        let proven = copy(ts).unwrap();
        assert_eq!((proven.ts, proven.card), (UnixSeconds(ts), read(north_card()).unwrap()));
    }
    assert_eq!(copy(NOW.0 + 301), Err(EnvelopeError::FromFuture { ahead_secs: 301 }));
    let envelope = sign_envelope(&north, &north_card(), NOW).unwrap();
    let other = verify_copy(&envelope, key(2).did(), NOW);
    assert!(matches!(other, Err(EnvelopeError::OtherDid { .. })), "a relay shows somebody else's card");
    let forged = sign_envelope(&key(2), &north_card(), NOW).unwrap();
    assert_eq!(verify_copy(&forged, north.did(), NOW), Err(EnvelopeError::Signature));
    let later = with(&envelope, "ts", json!(NOW.0 + 1));
    assert_eq!(verify_copy(&later, north.did(), NOW), Err(EnvelopeError::Signature), "a relay cannot make it newer");
}

/// B5: whatever a card holds, a re-serialiser that keeps its values keeps its signature.
#[test]
fn a_card_survives_another_serialiser() {
    let odd =
        json!({"no": false, "empty": "", "list": [], "nothing": null, "deep": {"z": [{"a": {}}], "a": "\u{e9}/"}});
    let card = with(&north_card(), "later", odd);
    let envelope = sign_envelope(&key(1), &card, NOW).unwrap();
    let foreign: serde_json::Value = serde_json::from_str(&envelope.to_json()).unwrap();
    let pretty = serde_json::to_string_pretty(&foreign).unwrap();
    assert!(verify_envelope(&parse(pretty.as_bytes()).unwrap(), &expect()).is_ok());
    let changed = pretty.replace(r#""no": false"#, r#""no": true"#);
    assert_ne!(changed, pretty);
    let changed = parse(changed.as_bytes()).unwrap();
    assert_eq!(verify_envelope(&changed, &expect()), Err(EnvelopeError::Signature));
}

#[test]
fn a_plugins_float_is_not_signed() {
    let card = with(&north_card(), "n", parse(b"0.5").unwrap());
    assert!(sign_envelope(&key(1), &card, NOW).is_err());
}

proptest! {
    #[test]
    fn reading_never_panics(text in any::<String>(), field in "name|url|did|relay|enc_pub|skills|ts|sig|card") {
        let wrong = with(&north_card(), &field, text.as_str().into());
        let _ = read(wrong.clone());
        let _ = verify_envelope(&wrong, &expect());
        let envelope = sign_envelope(&key(1), &wrong, NOW).unwrap();
        let _ = verify_envelope(&envelope, &expect());
        let _ = verify_copy(&with(&envelope, &field, text.as_str().into()), key(1).did(), NOW);
        let _ = verify_envelope(&with(&envelope, &field, text.into()), &expect());
    }
}
