//! The golden vectors of cards, invites, sealed letters and origins (section 14), through the functions that
//! production code uses. The files are not committed here: `MURETAI_VECTORS` names their folder.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
use std::{env, fs, path::PathBuf};

use muretai_protocol::{
    Did, UnixSeconds,
    card::{EnvelopeError, Expect, verify_envelope},
    invite::{InviteError, Link, parse_link, token_link, verify},
    json,
    json::{Value, canonical_as_received, parse},
    relay::{Deposit, DepositError, deposit_payload, listen_payload, listen_token, verify_token},
    sealed::{DoesNotOpen, SealingKey},
    sign::{Seed, SigningKey},
    urls::origin,
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

/// The cases of a group, whose number is asserted: a group that silently runs zero cases proves nothing.
fn cases<'a>(vectors: &'a Value, path: &str, count: usize) -> &'a [Value] {
    let cases = at(vectors, path).as_array().unwrap();
    assert_eq!(cases.len(), count, "cases in {path}");
    cases
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn seed(hex: &str) -> Seed {
    Seed::from_bytes(bytes(hex).try_into().unwrap())
}

fn sealing_key(seed_hex: &str) -> SealingKey {
    SealingKey::from_seed(&seed(seed_hex))
}

/// The value with one more member.
fn with(value: &Value, key: &str, member: Value) -> Value {
    let mut members = value.as_object().unwrap().clone();
    members.insert(key.to_owned(), member);
    Value::Object(members)
}

#[test]
fn card_envelopes_verify() {
    let Some(vectors) = vectors("wire_vectors.json") else { return };
    for case in cases(&vectors, "cardpub", 2) {
        let (name, card, ts) = (text(case, "name"), at(case, "card"), at(case, "ts"));
        let signed = json!({"v": 1, "typ": "agentcard", "card": (card.clone()), "ts": (ts.clone())});
        assert_eq!(canonical_as_received(&signed).unwrap(), text(case, "envelopePayload"), "{name}");
        let envelope = with(&signed, "sig", text(case, "sig").into());
        let did: Did = text(card, "did").parse().unwrap();
        let now = UnixSeconds(ts.as_i64().unwrap());
        // The card without a url is one that a directory holds, which proves no origin.
        let dialled = Some(text(card, "url")).filter(|url| !url.is_empty());
        let expect = Expect { did: Some(&did), plain_card: Some(card), dialled, now };
        let proven = verify_envelope(&envelope, &expect).unwrap();
        assert_eq!((&proven.raw, &proven.did), (card, &did), "{name}");
        let later = Expect { now: UnixSeconds(now.0 + 21_601), ..expect };
        assert_eq!(verify_envelope(&envelope, &later), Err(EnvelopeError::TooOld { age_secs: 21_601 }), "{name}");
    }
}

#[test]
fn card_envelopes_that_prove_nothing_are_refused() {
    let Some(vectors) = vectors("reject_extra.json") else { return };
    for case in cases(&vectors, "reject.cardpub", 3) {
        let did: Did = text(case, "expectedDid").parse().unwrap();
        let envelope = at(case, "envelope");
        let now = UnixSeconds(at(envelope, "ts").as_i64().unwrap());
        let expect = Expect { did: Some(&did), plain_card: None, dialled: None, now };
        assert_eq!(verify_envelope(envelope, &expect), Err(EnvelopeError::Signature), "{}", text(case, "name"));
    }
}

#[test]
fn invites_verify() {
    let Some(vectors) = vectors("wire_vectors.json") else { return };
    for case in cases(&vectors, "invite", 2) {
        let (name, unsigned) = (text(case, "name"), at(case, "card"));
        assert_eq!(canonical_as_received(unsigned).unwrap(), text(case, "invitePayload"), "{name}");
        let card = with(unsigned, "sig", text(case, "sig").into());
        let exp = UnixSeconds::from_iso(text(unsigned, "exp")).unwrap();
        let invite = verify(card.clone(), None, UnixSeconds(exp.0 - 1)).unwrap();
        assert_eq!((invite.nonce.as_str(), invite.exp), (text(unsigned, "nonce"), exp), "{name}");
        assert_eq!(verify(card.clone(), None, exp), Err(InviteError::Expired { exp }), "{name}");
        assert_eq!(parse_link(&token_link(&card)), Ok(Link::Token(card)), "{name}");
    }
}

#[test]
fn invites_that_must_not_be_accepted_are_refused() {
    let Some(vectors) = vectors("wire_vectors.json") else { return };
    for case in cases(&vectors, "reject.invite", 2) {
        let input = at(case, "input").clone();
        let exp = UnixSeconds::from_iso(text(&input, "exp")).unwrap();
        let expected = match text(case, "category") {
            "expired-invite" => InviteError::Expired { exp },
            "forged-invite" => InviteError::Forged,
            other => panic!("an unknown category {other}"),
        };
        let now = UnixSeconds::from_iso(text(case, "checkNow")).unwrap();
        assert_eq!(verify(input, None, now), Err(expected), "{}", text(case, "name"));
    }
}

#[test]
fn sealed_letters_open() {
    for (file, count) in [("wire_vectors.json", 3), ("reject_extra.json", 4)] {
        let Some(vectors) = vectors(file) else { return };
        let group = at(&vectors, "cryptobox");
        let recipient = sealing_key(text(group, "recipientSeed"));
        assert_eq!(recipient.enc_pub(), text(group, "recipientEncPub"));
        assert_eq!(sealing_key(text(group, "senderSeed")).enc_pub(), text(group, "senderEncPub"));
        for case in cases(group, "open", count) {
            let ad = case.member("adHex").map(|ad| bytes(ad.as_str().unwrap())).unwrap_or_default();
            let opened = recipient.open(text(group, "senderEncPub"), text(case, "blob"), &ad);
            assert_eq!(opened, Ok(bytes(text(case, "plaintextHex"))), "{}", text(case, "name"));
        }
    }
}

#[test]
fn sealed_letters_do_not_open_under_other_associated_data() {
    let Some(vectors) = vectors("reject_extra.json") else { return };
    let group = at(&vectors, "cryptobox");
    let recipient = sealing_key(text(group, "recipientSeed"));
    for case in cases(group, "mustNotOpen", 2) {
        let opened = recipient.open(text(group, "senderEncPub"), text(case, "blob"), &bytes(text(case, "adHex")));
        assert_eq!(opened, Err(DoesNotOpen), "{}", text(case, "name"));
    }
}

#[test]
fn the_hybrid_letter_opens() {
    let Some(vectors) = vectors("derived_examples.json") else { return };
    let case = at(&vectors, "cryptoboxV2");
    let recipient = sealing_key(text(case, "recipientSeed"));
    let pq = text(case, "recipientEncPubPqHex");
    assert_eq!(recipient.enc_pub_pq(), pq);
    let opened = recipient.open(text(case, "senderEncPub"), text(case, "blob"), &bytes(text(case, "adHex")));
    assert_eq!(opened, Ok(bytes(text(case, "plaintextHex"))));
    let sender = sealing_key(text(case, "senderSeed"));
    let sealed = sender.seal_hybrid(text(case, "recipientEncPub"), pq, b"back", b"ad", [1; 12], [2; 32]).unwrap();
    assert_eq!(recipient.open(text(case, "senderEncPub"), &sealed, b"ad").as_deref(), Ok(b"back".as_slice()));
}

#[test]
fn deposits_are_signed_by_plain_joining() {
    let Some(vectors) = vectors("wire_vectors.json") else { return };
    let key = SigningKey::from_seed(&seed(text(&vectors, "relay.seedA")));
    for case in cases(&vectors, "relay.send", 3) {
        let (name, id, blob) = (text(case, "name"), text(case, "id"), text(case, "blob"));
        let payload = deposit_payload(text(case, "to"), text(case, "from"), id, blob);
        assert_eq!(payload, text(case, "sendSigMsg"), "{name}");
        let to: Did = text(case, "to").parse().unwrap();
        let deposit = Deposit::sign(&key, &to, &sealing_key(&"00".repeat(32)).enc_pub(), id, blob.to_owned());
        assert_eq!((deposit.from.as_str(), deposit.sig.as_str()), (text(case, "from"), text(case, "sig")), "{name}");
        assert!(deposit.is_signed(), "{name}");
        match Deposit::read(deposit.to_json().as_bytes()) {
            Ok(read) => assert_eq!(read, deposit, "{name}"),
            // The signature holds; a letter that nobody could open is refused all the same.
            Err(DepositError::BadBlob) => assert_eq!(name, "empty-blob"),
            Err(error) => panic!("{name}: {error}"),
        }
        let other = Deposit { id: format!("{id}0"), ..deposit };
        assert!(!other.is_signed(), "{name}");
    }
}

#[test]
fn listen_tokens_are_for_one_minute_at_one_origin() {
    let Some(vectors) = vectors("wire_vectors.json") else { return };
    let key = SigningKey::from_seed(&seed(text(&vectors, "relay.seedA")));
    for case in cases(&vectors, "relay.listen", 4) {
        let (name, minute) = (text(case, "name"), at(case, "minute").as_i64().unwrap());
        let origin = origin(text(case, "relayUrl"));
        assert_eq!(origin, text(case, "origin"), "{name}");
        assert_eq!(key.did().as_str(), text(case, "did"), "{name}");
        assert_eq!(listen_payload(text(case, "did"), minute, &origin), text(case, "listenTokenMsg"), "{name}");
        let token = listen_token(&key, minute, &origin);
        assert_eq!(token, text(case, "token"), "{name}");
        assert!(verify_token(key.did(), minute, &origin, &token, UnixSeconds(minute * 60)), "{name}");
        assert!(!verify_token(key.did(), minute + 1, &origin, &token, UnixSeconds(minute * 60)), "{name}");
        assert!(!verify_token(key.did(), minute, "https://relay.example", &token, UnixSeconds(minute * 60)), "{name}");
    }
}

#[test]
fn origins_are_spelled_as_the_lists_say() {
    let Some(vectors) = vectors("derived_examples.json") else { return };
    for spelling in cases(&vectors, "relayOrigin.same.spellings", 9) {
        assert_eq!(origin(spelling.as_str().unwrap()), text(&vectors, "relayOrigin.same.origin"), "{spelling:?}");
    }
    for case in cases(&vectors, "relayOrigin.other", 9) {
        let [url, expected] = case.as_array().unwrap() else { panic!("not a pair: {case:?}") };
        assert_eq!(origin(url.as_str().unwrap()), expected.as_str().unwrap(), "{url:?}");
    }
}
