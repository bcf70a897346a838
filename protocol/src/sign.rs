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

/// An Ed25519 key that may sign, decompressed: more than a tenth of the work of a verification, done once.
pub(crate) struct Verifier(VerifyingKey);

impl Verifier {
    /// Refuses a small-order key, a second spelling of a point, and what is no point.
    pub(crate) fn new(key: &[u8; 32]) -> Option<Verifier> {
        is_acceptable(key).then(|| VerifyingKey::from_bytes(key).ok().map(Verifier))?
    }

    /// Verifies exactly as section 2.2 says.
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(signature) = <&[u8; 64]>::try_from(signature) else { return false };
        let Some((r, _)) = signature.split_first_chunk::<32>() else { return false };
        // dalek's `verify` refuses S >= L, computes [S]B - [h]A and compares its encoding with the bytes of R: the
        // cofactorless equation, and no decompression of R, whose encoding is known to be the only one.
        is_acceptable(r) && self.0.verify(message, &Signature::from_bytes(signature)).is_ok()
    }
}

/// Verifies exactly as section 2.2 says: small-order and non-canonical encodings refused, cofactorless equation.
pub fn verify_ed25519(key: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
    Verifier::new(key).is_some_and(|key| key.verify(message, signature))
}

/// ES256; accepts raw `r||s` and DER of at most 72 bytes.
pub fn verify_p256(key: &[u8; 33], message: &[u8], signature: &[u8]) -> bool {
    use p256_ecdsa::{Signature, VerifyingKey, signature::Verifier as _};
    if signature.len() > MAX_P256_DER_BYTES {
        return false;
    }
    let Ok(key) = VerifyingKey::from_sec1_bytes(key) else { return false };
    // A DER signature can have 64 bytes too, so the length alone does not decide.
    let spellings = [Signature::from_slice(signature), Signature::from_der(signature)];
    spellings.into_iter().flatten().any(|signature| key.verify(message, &signature).is_ok())
}

/// Whether a signature under this DID can verify at all: its key is a point that [`verify_ed25519`] or [`verify_p256`]
/// takes. The codec does not judge points (2.1); who adds a contact or makes a friend does.
pub fn has_usable_key(did: &Did) -> bool {
    match did.key() {
        PublicKey::Ed25519(_) => did.verifier().is_some(),
        PublicKey::P256(key) => p256_ecdsa::VerifyingKey::from_sec1_bytes(&key).is_ok(),
    }
}

/// Verifies a strict base64 signature under the Ed25519 key of `signer`; a P-256 signer never verifies here.
pub fn verify_base64(signer: &Did, message: &[u8], signature: &str) -> bool {
    let Some(key) = signer.verifier() else { return false };
    decode_signature(signature).is_some_and(|signature| key.verify(message, &signature))
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

fn is_acceptable(point: &[u8; 32]) -> bool {
    !is_small_order(point) && is_canonical(point)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(byte: u8) -> SigningKey {
        SigningKey::from_seed(&Seed::from_bytes([byte; 32]))
    }

    fn public(key: &SigningKey) -> [u8; 32] {
        *key.did().ed25519().unwrap()
    }

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn signs_as_rfc_8032_says() {
        for (seed, public_key, message, signature) in [
            (
                "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                "",
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
            ),
            (
                "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                "72",
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
            ),
        ] {
            let key = SigningKey::from_seed(&Seed::from_bytes(bytes(seed).try_into().unwrap()));
            let message = bytes(message);
            assert_eq!(public(&key).to_vec(), bytes(public_key));
            assert_eq!(key.sign(&message).to_vec(), bytes(signature));
            assert!(verify_ed25519(&public(&key), &message, &bytes(signature)));
        }
    }

    #[test]
    fn secrets_do_not_show() {
        let seed = Seed::from_bytes([0xab; 32]);
        let key = SigningKey::from_seed(&seed);
        assert_eq!(format!("{seed:?}"), "Seed(…)");
        assert_eq!(format!("{key:?}"), format!("SigningKey({})", key.did()));
    }

    #[test]
    fn a_small_order_key_verifies_nothing() {
        // With S = 0 and R = A the equation holds for the identity, and for the others in one message of eight.
        for mut point in SMALL_ORDER {
            for sign in [0, SIGN] {
                point[31] |= sign;
                let mut signature = [0; 64];
                signature[..32].copy_from_slice(&point);
                for message in 0..=u8::MAX {
                    assert!(!verify_ed25519(&point, &[message], &signature));
                    assert!(!verify_ed25519(&public(&key(1)), &[message], &signature));
                }
            }
        }
    }

    #[test]
    fn the_table_holds_all_small_order_encodings() {
        for mut point in SMALL_ORDER {
            for sign in [0, SIGN] {
                point[31] |= sign;
                assert!(is_small_order(&point));
                // Decompression is lax: it takes y >= p, and the negative of x = 0.
                assert!(VerifyingKey::from_bytes(&point).is_ok_and(|key| key.is_weak()), "{point:x?}");
            }
        }
        assert!(!is_small_order(&public(&key(1))));
    }

    #[test]
    fn a_point_has_one_encoding() {
        for (first, middle, last, canonical) in [
            (0xec, 0xff, 0x7f, true),
            (0xed, 0xff, 0x7f, false),
            (0xff, 0xff, 0x7f, false),
            (0xed, 0xff, 0xff, false),
            (0xec, 0xff, 0xff, true),
            (0xed, 0xff, 0x7e, true),
            (0xed, 0xfe, 0x7f, true),
            (0x00, 0x00, 0x80, true),
        ] {
            assert_eq!(is_canonical(&little_endian(first, middle, last)), canonical, "{first:x} {middle:x} {last:x}");
        }
    }

    #[test]
    fn a_signature_has_one_spelling() {
        let key = key(1);
        let good = key.sign(b"hello");
        assert!(verify_ed25519(&public(&key), b"hello", &good));
        // S + L is the same scalar.
        let order = bytes("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
        let (mut other, mut carry) = (good, 0);
        for (byte, added) in other[32..].iter_mut().zip(order) {
            let sum = u16::from(*byte) + u16::from(added) + carry;
            (*byte, carry) = (sum as u8, sum >> 8);
        }
        assert!(!verify_ed25519(&public(&key), b"hello", &other));
        for len in 0..64 {
            assert!(!verify_ed25519(&public(&key), b"hello", &good[..len]));
        }
        assert!(!verify_ed25519(&public(&key), b"hello", &[good.as_slice(), &[0]].concat()));
    }

    #[test]
    fn an_envelope_signature_is_ed25519_in_strict_base64() {
        let key = key(1);
        let good = key.sign_base64(b"hello");
        assert!(verify_base64(key.did(), b"hello", &good) && verify_base64_any(key.did(), b"hello", &good));
        let unpadded = good.trim_end_matches('=').to_owned();
        for other in [format!("{good} "), format!("{unpadded}===="), unpadded, "A".repeat(1 << 20), String::new()] {
            assert!(!verify_base64(key.did(), b"hello", &other) && !verify_base64_any(key.did(), b"hello", &other));
        }
    }

    #[test]
    fn a_p256_key_verifies_raw_and_der_outside_envelopes() {
        use p256_ecdsa::signature::Signer as _;
        let secret = p256_ecdsa::SigningKey::from_slice(&[7; 32]).unwrap();
        let public: [u8; 33] = secret.verifying_key().to_sec1_point(true).as_bytes().try_into().unwrap();
        let did = Did::from_key(&PublicKey::P256(public));
        let signature: p256_ecdsa::Signature = secret.sign(b"hello");
        let (raw, der) = (signature.to_bytes().to_vec(), signature.to_der().as_bytes().to_vec());
        for signature in [&raw, &der] {
            assert!(verify_p256(&public, b"hello", signature));
            assert!(!verify_p256(&public, b"other", signature));
            assert!(verify_base64_any(&did, b"hello", &base64::encode(signature)));
            assert!(!verify_base64(&did, b"hello", &base64::encode(signature)), "never in an envelope");
            for len in 0..signature.len() {
                assert!(!verify_p256(&public, b"hello", &signature[..len]));
            }
        }
        assert!(!verify_p256(&public, b"hello", &[der, vec![0; 80]].concat()));
        assert!(!verify_p256(&[2; 33], b"hello", &raw[..64]), "not a point that signed");
        assert!(!verify_p256(&[0xff; 33], b"hello", &raw), "not a point");
    }

    #[test]
    fn an_unusable_key_is_told_before_it_signs() {
        let ed25519 = |key| Did::from_key(&PublicKey::Ed25519(key));
        assert!(has_usable_key(key(1).did()));
        for unusable in [SMALL_ORDER[1], [0xff; 32], little_endian(2, 0, 0)] {
            assert!(!has_usable_key(&ed25519(unusable)));
        }
        let mut beyond_the_field = [0xff; 33];
        beyond_the_field[0] = 2;
        assert!(!has_usable_key(&Did::from_key(&PublicKey::P256(beyond_the_field))));
    }

    proptest! {
        #[test]
        fn what_is_signed_verifies_and_nothing_else(seed: [u8; 32], message: Vec<u8>, flip in 0usize..512) {
            let key = SigningKey::from_seed(&Seed::from_bytes(seed));
            let mut signature = key.sign(&message);
            prop_assert!(verify_ed25519(&public(&key), &message, &signature));
            prop_assert!(!verify_ed25519(&public(&key), &[message.as_slice(), b"!"].concat(), &signature));
            signature[flip / 8] ^= 1 << (flip % 8);
            prop_assert!(!verify_ed25519(&public(&key), &message, &signature));
        }

        #[test]
        fn verifying_never_panics(key: [u8; 32], message: Vec<u8>, signature in proptest::collection::vec(any::<u8>(), 60..80)) {
            prop_assert!(!verify_ed25519(&key, &message, &signature));
            let mut p256 = [2; 33];
            p256[1..].copy_from_slice(&key);
            prop_assert!(!verify_p256(&p256, &message, &signature));
        }
    }
}
