//! Keys and signatures (section 2.2).
use std::fmt;

use ed25519_dalek::{Signature, Verifier as _, VerifyingKey, hazmat};
use p256::ecdsa as p256_ecdsa;
use sha2::Sha512;

use crate::{Did, base64, did::PublicKey};

/// The largest DER encoding of a P-256 signature.
const MAX_P256_DER_BYTES: usize = 72;

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

/// A signing identity: the expanded key and its DID. The key is zeroized on drop and never shown.
pub struct SigningKey {
    // Expanded once: a signature then costs one hash less. Both halves come from one seed here and nowhere else; a
    // foreign public half would give the secret away.
    secret: hazmat::ExpandedSecretKey,
    public: VerifyingKey,
    did: Did,
}

impl SigningKey {
    /// Expands a seed.
    pub fn from_seed(seed: &Seed) -> SigningKey {
        let secret = hazmat::ExpandedSecretKey::from(seed.expose());
        let public = VerifyingKey::from(&secret);
        SigningKey { secret, public, did: Did::from_key(&PublicKey::Ed25519(public.to_bytes())) }
    }
    /// The identity's address.
    pub fn did(&self) -> &Did {
        &self.did
    }
    /// RFC 8032 pure Ed25519.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        hazmat::raw_sign::<Sha512>(&self.secret, message, &self.public).to_bytes()
    }
    /// The signature as strict base64, as it travels.
    pub fn sign_base64(&self, message: &[u8]) -> String {
        base64::encode(&self.sign(message))
    }
}
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.did())
    }
}

/// Verifies exactly as section 2.2 says: small-order and non-canonical encodings refused, cofactorless equation.
pub fn verify_ed25519(key: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
    let Ok(signature) = <&[u8; 64]>::try_from(signature) else { return false };
    let Some((r, _)) = signature.split_first_chunk::<32>() else { return false };
    if [key, r].into_iter().any(|point| is_small_order(point) || !is_canonical(point)) {
        return false;
    }
    // `verify` decompresses the key, refuses S >= L, computes [S]B - [h]A and compares its encoding with the bytes of R:
    // the cofactorless equation, and no decompression of R, whose encoding is known to be the only one.
    VerifyingKey::from_bytes(key).is_ok_and(|key| key.verify(message, &Signature::from_bytes(signature)).is_ok())
}

/// ES256; accepts raw `r||s` and DER of at most 72 bytes.
pub fn verify_p256(key: &[u8; 33], message: &[u8], signature: &[u8]) -> bool {
    use p256_ecdsa::{Signature, VerifyingKey, signature::Verifier as _};
    let signature = match signature.len() {
        64 => Signature::from_slice(signature),
        len if len <= MAX_P256_DER_BYTES => Signature::from_der(signature),
        _ => return false,
    };
    let (Ok(signature), Ok(key)) = (signature, VerifyingKey::from_sec1_bytes(key)) else { return false };
    key.verify(message, &signature).is_ok()
}

/// Verifies a strict base64 signature under the Ed25519 key of `signer`; a P-256 signer never verifies here.
pub fn verify_base64(signer: &Did, message: &[u8], signature: &str) -> bool {
    let Some(key) = signer.ed25519() else { return false };
    decode_signature(signature).is_some_and(|signature| verify_ed25519(key, message, &signature))
}

/// Verifies a strict base64 signature under the key of `signer`, whichever kind it is.
///
/// For the few records that a P-256 root may sign (2.1); message envelopes use [`verify_base64`].
pub fn verify_base64_any(signer: &Did, message: &[u8], signature: &str) -> bool {
    let Some(signature) = decode_signature(signature) else { return false };
    match signer.key() {
        PublicKey::Ed25519(key) => verify_ed25519(&key, message, &signature),
        PublicKey::P256(key) => verify_p256(&key, message, &signature),
    }
}

/// Decodes what can be a signature; longer text is not even decoded.
fn decode_signature(text: &str) -> Option<Vec<u8>> {
    const MAX_LEN: usize = MAX_P256_DER_BYTES / 3 * 4;
    (text.len() <= MAX_LEN).then(|| base64::decode(text))?
}

/// The top bit of a point's last byte is the sign of x and not part of y.
const SIGN: u8 = 0x80;

/// The encodings of small-order points, sign bit cleared. With one of them as key, a constant would verify everything.
const SMALL_ORDER: [[u8; 32]; 7] = [
    [0; 32],
    little_endian(0x01, 0x00, 0x00),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, //
        0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, //
        0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
    little_endian(0xec, 0xff, 0x7f),
    little_endian(0xed, 0xff, 0x7f),
    little_endian(0xee, 0xff, 0x7f),
];

const fn little_endian(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut bytes = [middle; 32];
    bytes[0] = first;
    bytes[31] = last;
    bytes
}

fn is_small_order(point: &[u8; 32]) -> bool {
    let mut y = *point;
    y[31] &= !SIGN;
    SMALL_ORDER.contains(&y)
}

/// Whether y is below p = 2^255 - 19, so that the point has this encoding only.
fn is_canonical(point: &[u8; 32]) -> bool {
    let [first, middle @ .., last] = point;
    *first < 0xed || last & !SIGN != 0x7f || middle.iter().any(|&byte| byte != 0xff)
}
