//! The golden vectors of introductions and domains (section 14), through the functions that production code uses. The
//! files are not committed here: `MURETAI_VECTORS` names their folder.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
use std::{env, fs, path::PathBuf};

use muretai_protocol::{
    Did, UnixSeconds,
    introduction::{
        IntroductionError, IntroductionSpec, Parties, Provenance, RecordError, RequestRecord, mint, verify,
    },
    json::{Value, canonical, parse},
    linkage::{self, Domain, LinkageError, TokenError},
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

fn key(value: &Value, path: &str) -> SigningKey {
    let hex = text(value, path);
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    SigningKey::from_seed(&Seed::from_bytes(bytes.try_into().unwrap()))
}

#[test]
fn the_introduction_verifies_for_its_parties() {
    let Some(vectors) = vectors("derived_examples.json") else { return };
    let case = at(&vectors, "introduction");
    let vc = at(case, "vc");
    let [issuer, subject, target] = ["introducerSeed", "subjectSeed", "targetSeed"].map(|seed| key(case, seed));
    let now = UnixSeconds::from_iso(text(case, "checkNow")).unwrap();
    let parties = Parties { subject: subject.did(), target: Some(target.did()) };
    let read = verify(vc, &parties, now).unwrap();
    assert_eq!((&read.issuer, &read.subject, &read.target), (issuer.did(), subject.did(), target.did()));
    assert_eq!((read.expertise.join(" ").as_str(), read.trust_level_bp), ("translation", Some(873)));
    assert_eq!(read.issuer_endpoint.as_deref(), Some("https://introducer.example"));
    assert!(matches!(&read.provenance, Provenance::Requested(record) if record.raw == *at(vc, "provenance.request")));

    let mut signed = vc.as_object().unwrap().clone();
    signed.remove("proof");
    assert_eq!(canonical(&Value::Object(signed)).unwrap(), text(case, "signedBody"));

    let late = UnixSeconds::from_iso(text(vc, "credentialSubject.validUntil")).unwrap();
    assert_eq!(verify(vc, &parties, late).unwrap_err(), IntroductionError::Expired { valid_until: late });
    let other = Parties { subject: target.did(), target: None };
    assert!(matches!(verify(vc, &other, now), Err(IntroductionError::OtherSubject { .. })));
}

#[test]
fn the_introduction_is_what_we_would_write() {
    let Some(vectors) = vectors("derived_examples.json") else { return };
    let case = at(&vectors, "introduction");
    let vc = at(case, "vc");
    let time = |path| UnixSeconds::from_iso(text(vc, path)).unwrap();
    let record = RequestRecord::from_value(at(vc, "provenance.request").clone()).unwrap();
    let subject: Did = text(vc, "credentialSubject.id").parse().unwrap();
    let target: Did = text(vc, "credentialSubject.introducedTo").parse().unwrap();
    let spec = IntroductionSpec {
        id: [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff],
        subject: &subject,
        target: &target,
        expertise: &["translation".to_owned()],
        trust_level_bp: 873,
        issued: time("issuanceDate"),
        valid_until: time("credentialSubject.validUntil"),
        request: Some(&record),
        issuer_endpoint: Some(text(vc, "issuerEndpoint")),
    };
    assert_eq!(mint(&key(case, "introducerSeed"), &spec).unwrap(), *vc, "Ed25519 is deterministic");
    let issued = UnixSeconds(spec.issued.0 + 31 * 86_400);
    let verdict = record.verify(&subject, key(case, "introducerSeed").did(), &target, issued);
    assert!(matches!(verdict, Err(RecordError::TooOld { .. })), "{verdict:?}");
}

#[test]
fn domain_tokens_verify_and_are_what_we_would_write() {
    let Some(vectors) = vectors("wire_vectors.json") else { return };
    let cases = at(&vectors, "domainLinkage").as_array().unwrap();
    assert_eq!(cases.len(), 3, "cases in domainLinkage");
    for case in cases {
        let (name, token) = (text(case, "name"), text(case, "token"));
        let did: Did = text(case, "did").parse().unwrap();
        let domain: Domain = text(case, "domain").parse().unwrap();
        let [nbf, exp] = ["nbf", "exp"].map(|member| UnixSeconds(at(case, member).as_i64().unwrap()));
        assert_eq!(linkage::signing_input(&did, &domain, nbf, exp), text(case, "signingInput"), "{name}");
        assert_eq!(token.rsplit_once('.').unwrap().0, text(case, "signingInput"), "{name}");
        let document = linkage::document(&[token.to_owned()]);
        for now in [nbf, exp] {
            let linkage = linkage::verify(&document, &did, &domain, now).unwrap();
            assert_eq!((&linkage.did, &linkage.domain, linkage.exp), (&did, &domain, exp), "{name}");
        }
        let late = linkage::verify(&document, &did, &domain, UnixSeconds(exp.0 + 1));
        assert_eq!(late, Err(LinkageError::Token(TokenError::Expired { exp })), "{name}");
    }
}
