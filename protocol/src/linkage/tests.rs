use proptest::prelude::*;

use super::*;
use crate::sign::{Seed, SigningKey};

const NOW: UnixSeconds = UnixSeconds(1_785_000_000);

fn north() -> SigningKey {
    SigningKey::from_seed(&Seed::from_bytes([1; 32]))
}

fn domain() -> Domain {
    "north.example".parse().unwrap()
}

fn token() -> String {
    mint(&north(), &domain(), NOW, UnixSeconds(NOW.0 + 86_400))
}

fn verdict(token: &str) -> Result<Linkage, LinkageError> {
    verify(&document(&[token.to_owned()]), north().did(), &domain(), NOW)
}

/// The token with one member replaced, by its path in header or payload, and signed again.
fn changed(path: &str, value: Value) -> Result<(), TokenError> {
    let token = token();
    let [header, payload, _] = token.split('.').collect::<Vec<_>>().try_into().unwrap();
    let read = |segment: &str| json::parse(&base64::decode_url(segment).unwrap()).unwrap();
    let mut root = json!({"header": (read(header)), "payload": (read(payload))});
    let (parents, name) = path.rsplit_once('.').unwrap();
    let mut at = &mut root;
    for parent in parents.split('.') {
        let Value::Object(members) = at else { unreachable!() };
        at = members.get_mut(parent).unwrap();
    }
    let Value::Object(members) = at else { unreachable!() };
    match value {
        Value::Null => drop(members.remove(name)),
        value => drop(members.insert(name.to_owned(), value)),
    }
    let segment = |name| base64::encode_url(root.member(name).unwrap().to_json().as_bytes());
    let input = format!("{}.{}", segment("header"), segment("payload"));
    let token = format!("{input}.{}", base64::encode_url(&north().sign(input.as_bytes())));
    token::verify(&token, north().did(), &domain(), NOW).map(drop)
}

#[test]
fn a_token_links_a_did_to_a_domain() {
    let exp = UnixSeconds(NOW.0 + 86_400);
    assert_eq!(verdict(&token()), Ok(Linkage { did: north().did().clone(), domain: domain(), exp }));
    let other: Domain = "a.north.example".parse().unwrap();
    let of_other = verify(&document(&[token()]), north().did(), &other, NOW);
    assert_eq!(of_other, Err(LinkageError::Token(TokenError::OtherOrigin)));
    let stranger = SigningKey::from_seed(&Seed::from_bytes([9; 32]));
    assert_eq!(verify(&document(&[token()]), stranger.did(), &domain(), NOW), Err(LinkageError::NotNamed));
}

#[test]
fn each_failure_has_its_name() {
    use TokenError as E;
    let float = json::parse(format!("{}.0", NOW.0).as_bytes()).unwrap();
    for (path, value, error) in [
        ("header.alg", json!("none"), E::Header),
        ("header.alg", json!("eddsa"), E::Header),
        ("header.alg", json!(null), E::Header),
        ("header.crit", json!(["exp"]), E::Header),
        ("payload.iss", json!("did:key:zOther"), E::OtherDid("iss")),
        ("payload.sub", json!("did:key:zOther"), E::OtherDid("sub")),
        ("payload.sub", json!(null), E::Malformed("sub")),
        ("payload.vc", json!(null), E::Malformed("vc")),
        ("payload.vc.type", json!("DomainLinkageCredential"), E::Malformed("type")),
        ("payload.vc.type", json!(["DomainLinkageCredential"]), E::Malformed("type")),
        ("payload.vc.@context", json!([CONTEXT]), E::Malformed("@context")),
        ("payload.vc.credentialSubject", json!([]), E::Malformed("id")),
        ("payload.vc.credentialSubject.id", json!("did:key:zOther"), E::OtherDid("id")),
        ("payload.vc.credentialSubject.origin", json!("https://south.example"), E::OtherOrigin),
        ("payload.vc.credentialSubject.origin", json!("http://north.example"), E::OtherOrigin),
        ("payload.vc.credentialSubject.origin", json!(""), E::OtherOrigin),
        ("payload.vc.credentialSubject.origin", json!(1), E::Malformed("origin")),
        ("payload.exp", json!(null), E::Malformed("exp")),
        ("payload.exp", json!(true), E::Malformed("exp")),
        ("payload.exp", float.clone(), E::Malformed("exp")),
        ("payload.exp", json!(NOW.0 - 1), E::Expired { exp: UnixSeconds(NOW.0 - 1) }),
        ("payload.nbf", float, E::Malformed("nbf")),
        ("payload.nbf", json!(NOW.0 + 1), E::TooEarly { nbf: UnixSeconds(NOW.0 + 1) }),
    ] {
        assert_eq!(changed(path, value.clone()), Err(error), "{path} {value:?}");
    }
    for (path, value) in [
        ("payload.exp", json!(NOW.0)),
        ("payload.nbf", json!(null)),
        ("payload.later", json!(1)),
        ("header.kid", json!(null)),
        ("payload.vc.credentialSubject.origin", json!("HTTPS://North.Example:443/")),
        ("payload.vc.type", json!(["VerifiableCredential", "DomainLinkageCredential", "Other"])),
    ] {
        assert_eq!(changed(path, value.clone()), Ok(()), "{path} {value:?}");
    }
}

#[test]
fn two_tokens_of_a_did_are_tried_among_64_entries() {
    let bad = format!("{}A", &token()[..token().len() - 1]);
    let bad = if bad == token() { format!("{}B", &token()[..token().len() - 1]) } else { bad };
    let with = |entries: Vec<Value>| verify(&json!({"linked_dids": entries}), north().did(), &domain(), NOW);
    let good = || Value::from(token());
    let expired = || Value::from(mint(&north(), &domain(), UnixSeconds(0), UnixSeconds(1)));
    assert!(with(vec![json!({"proof": 1}), json!(1), expired(), good()]).is_ok());
    assert!(with(vec![expired(), expired(), good()]).is_err(), "two are verified");
    assert!(with([vec![json!("a.b.c"); 63], vec![good()]].concat()).is_ok());
    assert_eq!(with([vec![json!("a.b.c"); 64], vec![good()]].concat()), Err(LinkageError::NotNamed));
    assert_eq!(with(vec![format!("{}{}", token(), "A".repeat(MAX_TOKEN_BYTES)).into()]), Err(LinkageError::NotNamed));
    assert!(matches!(verdict(&bad), Err(LinkageError::Token(TokenError::Forged | TokenError::NotAToken))));
    for malformed in [json!([]), json!({}), json!({"linked_dids": (token())}), json!(null)] {
        assert_eq!(verify(&malformed, north().did(), &domain(), NOW), Err(LinkageError::Malformed));
    }
}

#[test]
fn a_card_lists_at_most_five_domains() {
    let card = |domains: Value| json!({"domains": domains});
    assert!(card_lists(&card(json!(["a.example", "north.example"])), &domain()));
    let many = Value::Array(vec!["a.example".into(); 5]);
    let Value::Array(mut sixth) = many else { unreachable!() };
    sixth.push("north.example".into());
    for domains in [json!(sixth), json!("north.example"), json!(["North.example"]), json!([1i64]), json!(null)] {
        assert!(!card_lists(&card(domains), &domain()));
    }
}

proptest! {
    #[test]
    fn every_changed_character_is_noticed(at: prop::sample::Index, character in "[A-Za-z0-9_.-]") {
        let good = token();
        let at = at.index(good.len());
        let changed = format!("{}{character}{}", &good[..at], &good[at + 1..]);
        prop_assert_eq!(verdict(&changed).is_ok(), changed == good);
    }

    #[test]
    fn verifying_never_panics(token in "\\PC{0,40}(\\.[A-Za-z0-9_-]{0,40}){0,3}") {
        prop_assert!(verdict(&token).is_err());
        prop_assert!(token::verify(&token, north().did(), &domain(), NOW).is_err());
    }
}
