//! The parse boundary: what it lets through has one meaning.
use muretai_protocol::json::{canonical, canonical_as_received, parse as read};

/// Reads, writes, and reads again.
pub fn run(data: &[u8]) {
    let Ok(value) = read(data) else { return };
    let again = read(value.to_json().as_bytes()).expect("what was written can be read");
    assert_eq!(again, value, "written as received, read as written");
    let Ok(verified) = canonical_as_received(&value) else {
        assert!(canonical(&value).is_err(), "a signer is never laxer than a verifier");
        return;
    };
    let again = read(verified.as_bytes()).expect("canonical JSON can be read");
    assert_eq!(canonical_as_received(&again).as_deref(), Ok(verified.as_str()), "canonical form is a fixed point");
    if let Ok(signed) = canonical(&value) {
        assert_eq!(signed, verified, "signer and verifier agree");
    }
}
