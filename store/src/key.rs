//! The compact key of a handled id.
use sha2::{Digest, Sha256};

/// Bytes of a key: half of a SHA-256, so that the one index with random access stays small.
pub(crate) const KEY_BYTES: usize = 16;

/// The key of a sender and its message id. No address contains a zero byte, so the pair is unambiguous.
pub(crate) fn handled_key(from: &str, message_id: &str) -> [u8; KEY_BYTES] {
    let mut hash = Sha256::new();
    hash.update(from.as_bytes());
    hash.update([0]);
    hash.update(message_id.as_bytes());
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(&hash.finalize()[..KEY_BYTES]);
    key
}
