//! The one question that every signed artifact ends in.
use crate::{
    Did, base64,
    did::PublicKey,
    sign::{verify_base64, verify_p256},
};

/// Verifies a strict base64 signature over `payload` under the key that `did` is, of either curve.
///
/// For cards and invites; message envelopes are Ed25519 alone (2.1) and do not come here.
pub(crate) fn verifies(did: &Did, payload: &str, signature: &str) -> bool {
    match did.key() {
        PublicKey::Ed25519(_) => verify_base64(did, payload.as_bytes(), signature),
        PublicKey::P256(key) => {
            base64::decode(signature).is_some_and(|signature| verify_p256(&key, payload.as_bytes(), &signature))
        }
    }
}
