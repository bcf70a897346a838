//! Introductions, the records inside, and revocation lists.
use std::sync::LazyLock;

use muretai_protocol::{
    UnixSeconds,
    introduction::{self, IntroductionSpec, Parties, Provenance, RequestRecord},
    json::{Object, Value, parse},
    revocations,
    sign::{Seed, SigningKey},
    urls,
};

const NOW: UnixSeconds = UnixSeconds(1_785_000_000);
static NORTH: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::from_seed(&Seed::from_bytes([1; 32])));
static SOUTH: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::from_seed(&Seed::from_bytes([2; 32])));
static WEST: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::from_seed(&Seed::from_bytes([4; 32])));

/// Judges the data as a credential, a record and a list, then lets west sign the data as words about north.
pub fn run(data: &[u8]) {
    if let Ok(value) = parse(data) {
        judge(&value);
        judge_record(&value);
        if let Ok(list) = revocations::verify(&value, WEST.did(), NOW) {
            assert!(list.revoked.is_sorted_by(|a, b| a < b));
            assert!(list.revoked.iter().all(|id| list.names(id)));
        }
        resign(value);
    }
    mint_and_judge(&String::from_utf8_lossy(data));
}

fn judge(vc: &Value) -> bool {
    let named = Parties { subject: NORTH.did(), target: None };
    let Ok(read) = introduction::verify(vc, &named, NOW) else { return false };
    assert!(read.issuer != read.subject && read.issuer != read.target && read.subject != read.target);
    assert!(
        read.valid_until > NOW && read.trust_level_bp.is_none_or(|level| level <= introduction::MAX_TRUST_LEVEL_BP)
    );
    assert!(read.expertise.len() <= introduction::MAX_EXPERTISE);
    assert!(read.issuer_endpoint.is_none_or(|endpoint| urls::is_plain_url(&endpoint) && !endpoint.ends_with('/')));
    assert!((1..=introduction::MAX_INTRODUCTION_ID_BYTES).contains(&read.id.len()));
    if let Provenance::Requested(record) = read.provenance {
        assert!(record.named_target().is_none_or(|named| named == read.target.as_str()));
    }
    true
}

fn judge_record(value: &Value) {
    let Ok(record) = RequestRecord::from_value(value.clone()) else { return };
    let kept = parse(record.raw.to_json().as_bytes()).expect("a record can be kept");
    assert_eq!(RequestRecord::from_value(kept), Ok(record.clone()));
    let _ = record.verify(NORTH.did(), WEST.did(), SOUTH.did(), NOW);
}

/// The same document as west would have signed it, so that what is behind the proof is reached.
fn resign(value: Value) {
    let Value::Object(mut members) = value else { return };
    members.insert("issuer".to_owned(), WEST.did().into());
    members.remove("proof");
    members.remove("sig");
    let Ok(payload) = muretai_protocol::json::canonical_as_received(&Value::Object(members.clone())) else { return };
    let sig = Value::from(WEST.sign_base64(payload.as_bytes()));
    let mut list = members.clone();
    list.insert("sig".to_owned(), sig.clone());
    let _ = revocations::verify(&Value::Object(list), WEST.did(), NOW);
    members.insert("proof".to_owned(), Object::from([("jws".to_owned(), sig)]).into());
    judge(&Value::Object(members));
}

fn mint_and_judge(text: &str) {
    let expertise: Vec<String> = text.split(',').map(str::to_owned).collect();
    let spec = IntroductionSpec {
        id: [7; 16],
        subject: NORTH.did(),
        target: SOUTH.did(),
        expertise: &expertise,
        trust_level_bp: u16::try_from(text.len()).unwrap_or(u16::MAX),
        issued: NOW,
        valid_until: UnixSeconds(NOW.0 + 1),
        request: None,
        issuer_endpoint: text.lines().next().filter(|line| line.contains("://")),
    };
    let Ok(vc) = introduction::mint(&WEST, &spec) else { return };
    let wire = parse(vc.to_json().as_bytes()).expect("a credential can be read");
    assert!(judge(&wire), "what west wrote verifies");
    let list = revocations::mint(&WEST, expertise, NOW);
    let wire = parse(list.to_json().as_bytes()).expect("a list can be read");
    assert!(revocations::verify(&wire, WEST.did(), NOW).is_ok(), "what west took back, too");
}
