//! The project's own vectors, `tests/vectors/*.json`: written by a second implementation, `generate.py` beside them,
//! and run here on every machine. Each case says by its `why` what goes wrong when it fails.
#![allow(clippy::unwrap_used)]
use std::{fs, path::Path};

use muretai_protocol::{
    Did, UnixSeconds,
    card::{self, Expect, verify_envelope},
    did::PublicKey,
    introduction::{self, IntroductionError, Parties, Provenance},
    invite::{self, InviteError, Link, LinkError, parse_link},
    json::{Value, canonical, canonical_as_received, parse},
    linkage::{self, Domain, LinkageError},
    message::{EnvelopeError, Message, signing_payload},
    phrase::{self, PhraseError},
    revocations::{self, RevocationsError},
    sealed::SealingKey,
    sign::{Seed, SigningKey},
};

/// Runs every case of a file and compares with what it expects. The number of cases is asserted, because a group that
/// silently runs none is the usual failure.
fn run(file: &str, count: usize, judge: impl Fn(&Value) -> Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(file);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let vectors = parse(&bytes).unwrap();
    let cases = vectors.member("cases").and_then(Value::as_array).unwrap();
    assert_eq!(cases.len(), count, "cases in {file}");
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let (found, expected) = (judge(case), case.member("expect").unwrap());
            let told = || {
                format!("{} ({}): {} {}", text(case, "name"), text(case, "why"), found.to_json(), expected.to_json())
            };
            (found != *expected).then(told)
        })
        .collect();
    assert!(wrong.is_empty(), "{file}: found, expected\n{}", wrong.join("\n"));
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case.member(key).and_then(Value::as_str).unwrap_or_else(|| panic!("no text {key} in {}", case.to_json()))
}

fn optional<'a>(case: &'a Value, key: &str) -> Option<&'a str> {
    case.member(key).map(|value| value.as_str().unwrap())
}

fn did(case: &Value, key: &str) -> Did {
    text(case, key).parse().unwrap()
}

fn now(case: &Value) -> UnixSeconds {
    UnixSeconds(case.member("now").unwrap().as_i64().unwrap())
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn seed(case: &Value, key: &str) -> Seed {
    Seed::from_bytes(bytes(text(case, key)).try_into().unwrap())
}

fn object<const N: usize>(members: [(&str, String); N]) -> Value {
    Value::Object(members.map(|(key, text)| (key.to_owned(), Value::from(text))).into_iter().collect())
}

fn or_refused<E>(result: Result<String, E>) -> Value {
    Value::from(result.unwrap_or_else(|_| "refused".to_owned()))
}

#[test]
fn canonical_json() {
    run("canonical.json", 18, |case| or_refused(canonical(&parse(text(case, "document").as_bytes()).unwrap())));
}

#[test]
fn numbers() {
    run("numbers.json", 54, |case| {
        let refused = object([("sign", "refused".to_owned()), ("verify", "refused".to_owned())]);
        let Ok(document) = parse(text(case, "document").as_bytes()) else { return refused };
        let texts = [("sign", canonical(&document)), ("verify", canonical_as_received(&document))];
        object(texts.map(|(side, text)| (side, text.unwrap_or_else(|_| "refused".to_owned()))))
    });
}

#[test]
fn encodings() {
    run("encodings.json", 60, |case| {
        or_refused(parse(&bytes(text(case, "documentHex"))).map(|d| canonical(&d).unwrap()))
    });
}

#[test]
fn dids() {
    run("did.json", 29, |case| {
        let Ok(did) = text(case, "did").parse::<Did>() else { return "refused".into() };
        assert_eq!(Did::from_key(&did.key()), did, "encoding gives the same spelling");
        let (curve, key) = match did.key() {
            PublicKey::Ed25519(key) => ("ed25519", key.to_vec()),
            PublicKey::P256(key) => ("p256", key.to_vec()),
        };
        object([("curve", curve.to_owned()), ("keyHex", hex(&key))])
    });
}

/// Steps e to 5 of the ladder, without its storage.
fn judge_message(case: &Value) -> &'static str {
    let Ok(message) = Message::from_value(case.member("message").unwrap().clone()) else { return "shape" };
    let envelope = match message.into_envelope() {
        Ok(envelope) => envelope,
        Err(EnvelopeError::Unsigned) => return "unsigned",
        Err(_) => return "incomplete",
    };
    if !envelope.is_for(&did(case, "me")) {
        return "not addressed";
    }
    if envelope.freshness(now(case)).is_err() {
        return "stale";
    }
    if envelope.verify(now(case)).is_ok() { "verified" } else { "signature" }
}

#[test]
fn messages() {
    run("messages.json", 13, |case| {
        assert_eq!(judge_message(case), "verified", "{}", text(case, "name"));
        let message = Message::from_value(case.member("message").unwrap().clone()).unwrap();
        let meta = |key| message.meta(key).unwrap();
        let (from, to) = (meta("from").as_str().unwrap(), meta("to").as_str().unwrap());
        let context = message.context_id.as_deref();
        let payload = signing_payload(from, to, message.message_id.as_str(), context, meta("timestamp"), &message.text);
        if case.member("seedHex").is_some() {
            let key = SigningKey::from_seed(&seed(case, "seedHex"));
            assert_eq!(key.sign_base64(payload.as_bytes()), text(case, "sig"), "Ed25519 is deterministic");
        }
        payload.into()
    });
}

#[test]
fn refused_messages() {
    run("messages_refused.json", 50, |case| judge_message(case).into());
}

#[test]
fn cards() {
    run("cards.json", 37, |case| {
        use card::EnvelopeError as E;
        let caller = case.member("caller").unwrap();
        let looked_for = caller.member("did").map(|_| did(caller, "did"));
        let expect = Expect {
            did: looked_for.as_ref(),
            plain_card: caller.member("plain"),
            dialled: optional(caller, "dialled"),
            now: now(case),
        };
        let envelope = case.member("envelope").unwrap();
        let verdict = match verify_envelope(envelope, &expect) {
            Ok(card) => {
                assert_eq!(Some(&card.raw), envelope.member("card"));
                "proven"
            }
            Err(E::Shape(_)) => "shape",
            Err(E::OtherType) => "other type",
            Err(E::Card(_)) => "card",
            Err(E::OtherDid { .. }) => "other did",
            Err(E::Unverifiable(_)) => "unverifiable",
            Err(E::Signature) => "signature",
            Err(E::TooOld { .. }) => "too old",
            Err(E::FromFuture { .. }) => "from the future",
            Err(E::DiffersFromPlainCard) => "differs",
            Err(E::OtherScope { .. }) => "other scope",
            Err(_) => "something else",
        };
        verdict.into()
    });
}

#[test]
fn invites() {
    run("invites.json", 28, |case| {
        let card = case.member("card").unwrap();
        let verdict = match invite::verify(card.clone(), Some(&did(case, "me")), now(case)) {
            Ok(invite) => {
                assert_eq!(invite.raw, *card, "nothing is normalised");
                "accepted"
            }
            Err(InviteError::NotAnObject) => "not an object",
            Err(InviteError::Missing(_)) => "missing",
            Err(InviteError::Malformed(_)) => "malformed",
            Err(InviteError::Unverifiable(_)) => "unverifiable",
            Err(InviteError::Forged) => "forged",
            Err(InviteError::Own) => "own",
            Err(InviteError::Expired { .. }) => "expired",
            Err(InviteError::BadRelay) => "bad relay",
            Err(_) => "something else",
        };
        verdict.into()
    });
}

#[test]
fn links() {
    run("links.json", 31, |case| match parse_link(text(case, "link")) {
        Ok(Link::Token(card)) => Value::Object([("card".to_owned(), card)].into_iter().collect()),
        Ok(Link::Fetch(url)) => object([("fetch", url)]),
        Err(LinkError::Damaged) => "damaged".into(),
        Err(LinkError::NotALink) => "not a link".into(),
        Err(_) => "something else".into(),
    });
}

#[test]
fn sealed_letters() {
    run("sealed.json", 20, |case| {
        let recipient = SealingKey::from_seed(&seed(case, "recipientSeedHex"));
        assert_eq!(recipient.enc_pub(), text(case, "recipientEncPub"));
        match recipient.open(text(case, "senderEncPub"), text(case, "blob"), &bytes(text(case, "adHex"))) {
            Ok(plaintext) => object([("plaintextHex", hex(&plaintext))]),
            Err(_) => "does not open".into(),
        }
    });
}

#[test]
fn phrases() {
    run("phrases.json", 18, |case| match phrase::decode(text(case, "phrase")) {
        Ok(seed) => {
            assert_eq!(phrase::decode(&phrase::encode(&seed)).unwrap().expose(), seed.expose());
            let key = SigningKey::from_seed(&seed);
            object([("seedHex", hex(seed.expose())), ("did", key.did().to_string())])
        }
        Err(PhraseError::WordCount { .. }) => "word count".into(),
        Err(PhraseError::UnknownWord { .. }) => "unknown word".into(),
        Err(PhraseError::Checksum) => "checksum".into(),
        Err(_) => "something else".into(),
    });
}

#[test]
fn introductions() {
    use IntroductionError as E;
    run("introductions.json", 81, |case| {
        let target = case.member("target").map(|_| did(case, "target"));
        let parties = Parties { subject: &did(case, "subject"), target: target.as_ref() };
        let vc = case.member("vc").unwrap();
        let introduction = match introduction::verify(vc, &parties, now(case)) {
            Ok(introduction) => introduction,
            Err(error) => {
                let name = match error {
                    E::Malformed(_) => "malformed",
                    E::TooLarge { .. } => "too large",
                    E::OtherType => "other type",
                    E::OtherSubject { .. } => "other subject",
                    E::OtherTarget { .. } => "other target",
                    E::SelfIssued => "self-issued",
                    E::IssuedByTarget => "issued by target",
                    E::SubjectIsTarget => "subject is target",
                    E::Unverifiable(_) => "unverifiable",
                    E::Forged => "forged",
                    E::Expired { .. } => "expired",
                    E::UnknownProvenance => "unknown provenance",
                    E::Record(_) => "record",
                    _ => "something else",
                };
                return name.into();
            }
        };
        assert_eq!(introduction.raw, *vc, "nothing is normalised");
        let provenance = match introduction.provenance {
            Provenance::Unstated => "unstated",
            Provenance::Proactive => "proactive",
            Provenance::Requested(_) => "requested",
        };
        let level = introduction.trust_level_bp.map_or("null".to_owned(), |level| level.to_string());
        format!("{provenance} {level}").into()
    });
}

#[test]
fn revocation_lists() {
    run("revocations.json", 20, |case| {
        match revocations::verify(case.member("list").unwrap(), &did(case, "issuer"), now(case)) {
            Ok(list) => Value::Array(list.revoked.into_iter().map(Value::from).collect()),
            Err(RevocationsError::Malformed) => "malformed".into(),
            Err(RevocationsError::OtherIssuer) => "other issuer".into(),
            Err(RevocationsError::BadSignature) => "forged".into(),
            Err(RevocationsError::FromTheFuture) => "from the future".into(),
            Err(_) => "something else".into(),
        }
    });
}

#[test]
fn domains() {
    run("linkage.json", 40, |case| {
        let domain: Domain = text(case, "domain").parse().unwrap();
        match linkage::verify(case.member("document").unwrap(), &did(case, "did"), &domain, now(case)) {
            Ok(_) => "linked".into(),
            Err(LinkageError::Malformed) => "malformed".into(),
            Err(LinkageError::NotNamed) => "not named".into(),
            Err(LinkageError::Token(_)) => "token".into(),
            Err(_) => "something else".into(),
        }
    });
}
