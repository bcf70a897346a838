//! `did:key`: one spelling per key.
use muretai_protocol::Did;

/// Decodes and encodes again.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(did) = text.parse::<Did>() {
        assert_eq!(did.as_str(), text, "no repair");
        assert_eq!(Did::from_key(&did.key()), did, "one spelling");
    }
}
