//! Keys and signatures (section 2.2).
use std::fmt;

use crate::Did;

/// The 32 secret bytes that an identity is. Zeroized on drop, never shown.
#[derive(Clone, zeroize::Zeroize, zeroize::ZeroizeOnDrop)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Takes the seed's bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Seed {
        Seed(bytes)
    }
    /// The secret bytes, for the key file, the phrase and key derivation only.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}
impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(…)")
    }
}

/// A signing identity: the expanded key and its DID.
pub struct SigningKey {
    _private: (),
}

impl SigningKey {
    /// Expands a seed.
    pub fn from_seed(_seed: &Seed) -> SigningKey {
        todo!()
    }
    /// The identity's address.
    pub fn did(&self) -> &Did {
        todo!()
    }
    /// RFC 8032 pure Ed25519.
    pub fn sign(&self, _message: &[u8]) -> [u8; 64] {
        todo!()
    }
    /// The signature as strict base64, as it travels.
    pub fn sign_base64(&self, _message: &[u8]) -> String {
        todo!()
    }
}
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.did())
    }
}

/// Verifies exactly as section 2.2 says: small-order and non-canonical encodings refused, cofactorless equation.
pub fn verify_ed25519(_key: &[u8; 32], _message: &[u8], _signature: &[u8]) -> bool {
    todo!()
}
/// ES256; accepts raw `r||s` and DER of at most 72 bytes.
pub fn verify_p256(_key: &[u8; 33], _message: &[u8], _signature: &[u8]) -> bool {
    todo!()
}
/// Verifies a strict base64 signature under the Ed25519 key of `signer`; a P-256 signer never verifies here.
pub fn verify_base64(_signer: &Did, _message: &[u8], _signature: &str) -> bool {
    todo!()
}
