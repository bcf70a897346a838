//! Sealed letters (section 9.4): v1 between two X25519 keys, v2 with ML-KEM-768 beside it.
//!
//! Every key derives from the identity's seed. Nonces and the randomness of an encapsulation are arguments; both must
//! be fresh and uniformly random for each letter, because two agents use one key for all letters between them.
use std::{fmt, sync::OnceLock};

use chacha20poly1305::{
    ChaCha20Poly1305, KeyInit as _,
    aead::{Aead as _, Payload},
};
use hkdf::Hkdf;
use ml_kem::{DecapsulationKey, EncapsulationKey, MlKem768, kem::Decapsulate as _, kem::KeyExport as _};
use sha2::{Digest as _, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::{base64, hex, sign::Seed};

/// What a v2 letter starts with; a v1 letter starts with its nonce.
const HYBRID_MAGIC: &[u8; 4] = b"a2b2";
const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;
/// An encapsulated ML-KEM-768 key (FIPS 203).
const KEM_CIPHERTEXT_LEN: usize = 1088;
/// The encapsulation key of ML-KEM-768 (FIPS 203).
const KEM_PUBLIC_LEN: usize = 1184;

/// The sealing keys of an identity; their public halves are the card's `enc_pub` and `enc_pub_pq`.
///
/// Cheap to make: the ML-KEM key pair, which costs far more than all else here, is expanded when first used.
pub struct SealingKey {
    x25519: StaticSecret,
    /// `d || z` of FIPS 203.
    kem_seed: Zeroizing<[u8; 64]>,
    kem: OnceLock<Box<DecapsulationKey<MlKem768>>>,
}

/// Does not open: too short, wrong key, wrong associated data, bad tag. Never partial text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sealed letter does not open")]
pub struct DoesNotOpen;

/// The peer's key cannot be used: not hex of the right length, or a point or vector that no honest key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sealing key is malformed")]
pub struct BadSealingKey;

impl SealingKey {
    /// Derives the sealing keys of a seed.
    pub fn from_seed(seed: &Seed) -> SealingKey {
        let mut kem_seed = Zeroizing::new([0; 64]);
        kem_seed[..32].copy_from_slice(&*derive("agentnet-mlkem-768-a:", seed));
        kem_seed[32..].copy_from_slice(&*derive("agentnet-mlkem-768-b:", seed));
        SealingKey { x25519: StaticSecret::from(*derive("agentnet-x25519:", seed)), kem_seed, kem: OnceLock::new() }
    }

    /// The X25519 public key, 64 hex digits.
    pub fn enc_pub(&self) -> String {
        hex::encode(PublicKey::from(&self.x25519).as_bytes())
    }

    /// The ML-KEM-768 encapsulation key, 2368 hex digits.
    pub fn enc_pub_pq(&self) -> String {
        hex::encode(&self.kem().encapsulation_key().to_bytes())
    }

    /// Seals v1 for the holder of `their_enc_pub`. The nonce must be random.
    ///
    /// # Errors
    /// When the key is not one that can be sealed to.
    pub fn seal(
        &self,
        their_enc_pub: &str,
        plaintext: &[u8],
        ad: &[u8],
        mut nonce: [u8; 12],
    ) -> Result<String, BadSealingKey> {
        let shared = self.agree(their_enc_pub).ok_or(BadSealingKey)?;
        // A v1 letter that starts like a v2 letter would be read as one. Any other random nonce is as good.
        if nonce.starts_with(HYBRID_MAGIC) {
            nonce[0] ^= 0x80;
        }
        let key = derive_key(shared.as_slice(), b"agentnet-box-v1");
        Ok(base64::encode(&encrypt(&key, nonce, plaintext, ad, Vec::new())))
    }

    /// Seals v2; `kem_random` is the encapsulation's randomness. The nonce must be random too.
    ///
    /// # Errors
    /// When either key is not one that can be sealed to; a caller may fall back to v1 then.
    pub fn seal_hybrid(
        &self,
        their_enc_pub: &str,
        their_enc_pub_pq: &str,
        plaintext: &[u8],
        ad: &[u8],
        nonce: [u8; 12],
        kem_random: [u8; 32],
    ) -> Result<String, BadSealingKey> {
        let shared = self.agree(their_enc_pub).ok_or(BadSealingKey)?;
        let theirs = hex::decode::<KEM_PUBLIC_LEN>(their_enc_pub_pq).ok_or(BadSealingKey)?;
        let theirs = EncapsulationKey::<MlKem768>::new(&theirs.into()).map_err(|_| BadSealingKey)?;
        let kem_random = Zeroizing::new(kem_random);
        let (ciphertext, kem_shared) = theirs.encapsulate_deterministic(&(*kem_random).into());
        let kem_shared = Zeroizing::new(<[u8; 32]>::from(kem_shared));
        let key = hybrid_key(&shared, &kem_shared);
        let head = [HYBRID_MAGIC.as_slice(), &ciphertext].concat();
        Ok(base64::encode(&encrypt(&key, nonce, plaintext, ad, head)))
    }

    /// Opens either version; the first four bytes decide which, and the other one is not tried.
    ///
    /// The caller bounds the length of `blob`.
    ///
    /// # Errors
    /// One answer for everything that can be wrong.
    pub fn open(&self, their_enc_pub: &str, blob: &str, ad: &[u8]) -> Result<Vec<u8>, DoesNotOpen> {
        let sealed = base64::decode(blob).ok_or(DoesNotOpen)?;
        let shared = self.agree(their_enc_pub).ok_or(DoesNotOpen)?;
        let Some(hybrid) = sealed.strip_prefix(HYBRID_MAGIC) else {
            return decrypt(&derive_key(shared.as_slice(), b"agentnet-box-v1"), &sealed, ad);
        };
        let (ciphertext, rest) = hybrid.split_at_checked(KEM_CIPHERTEXT_LEN).ok_or(DoesNotOpen)?;
        let kem_shared = self.kem().decapsulate_slice(ciphertext).map_err(|_| DoesNotOpen)?;
        decrypt(&hybrid_key(&shared, &Zeroizing::new(kem_shared.into())), rest, ad)
    }

    fn kem(&self) -> &DecapsulationKey<MlKem768> {
        self.kem.get_or_init(|| Box::new(DecapsulationKey::from_seed((*self.kem_seed).into())))
    }

    /// X25519; `None` for a malformed key and for one that gives the all-zero secret (RFC 7748, 6.1).
    fn agree(&self, their_enc_pub: &str) -> Option<Zeroizing<[u8; 32]>> {
        let theirs = PublicKey::from(hex::decode::<32>(their_enc_pub)?);
        let shared = self.x25519.diffie_hellman(&theirs);
        shared.was_contributory().then(|| Zeroizing::new(*shared.as_bytes()))
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.enc_pub())
    }
}

/// `SHA-256(label || seed)`.
fn derive(label: &str, seed: &Seed) -> Zeroizing<[u8; 32]> {
    Zeroizing::new(Sha256::new().chain_update(label).chain_update(seed.expose()).finalize().into())
}

fn derive_key(secret: &[u8], info: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    // No salt and 32 zero bytes are the same thing in HKDF.
    Hkdf::<Sha256>::new(None, secret).expand(info, key.as_mut_slice()).expect("32 bytes are within HKDF's 8160");
    key
}

fn hybrid_key(shared: &[u8; 32], kem_shared: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let mut secret = Zeroizing::new([0; 64]);
    secret[..32].copy_from_slice(shared);
    secret[32..].copy_from_slice(kem_shared);
    derive_key(secret.as_slice(), b"agentnet-box-v2")
}

/// Appends `nonce || ciphertext || tag` to `head`.
fn encrypt(key: &[u8; 32], nonce: [u8; NONCE_LEN], plaintext: &[u8], ad: &[u8], mut head: Vec<u8>) -> Vec<u8> {
    let sealed = ChaCha20Poly1305::new(&(*key).into())
        .encrypt(&nonce.into(), Payload { msg: plaintext, aad: ad })
        .expect("ChaCha20-Poly1305 takes 256 GiB, more than memory holds");
    head.reserve_exact(NONCE_LEN + sealed.len());
    head.extend_from_slice(&nonce);
    head.extend_from_slice(&sealed);
    head
}

fn decrypt(key: &[u8; 32], sealed: &[u8], ad: &[u8]) -> Result<Vec<u8>, DoesNotOpen> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(DoesNotOpen)?;
    if sealed.len() < TAG_LEN {
        return Err(DoesNotOpen);
    }
    ChaCha20Poly1305::new(&(*key).into())
        .decrypt(&(*nonce).into(), Payload { msg: sealed, aad: ad })
        .map_err(|_| DoesNotOpen)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(byte: u8) -> SealingKey {
        SealingKey::from_seed(&Seed::from_bytes([byte; 32]))
    }

    fn seal_both(north: &SealingKey, south: &SealingKey, text: &[u8], ad: &[u8], nonce: [u8; 12]) -> [String; 2] {
        [
            north.seal(&south.enc_pub(), text, ad, nonce).unwrap(),
            north.seal_hybrid(&south.enc_pub(), &south.enc_pub_pq(), text, ad, nonce, [7; 32]).unwrap(),
        ]
    }

    #[test]
    fn no_truncation_and_no_flipped_bit_opens() {
        let (north, south) = (key(3), key(9));
        for blob in seal_both(&north, &south, b"hi", b"ad", [5; 12]) {
            let bytes = base64::decode(&blob).unwrap();
            for len in 0..bytes.len() {
                let cut = base64::encode(&bytes[..len]);
                assert_eq!(south.open(&north.enc_pub(), &cut, b"ad"), Err(DoesNotOpen), "{len} bytes");
            }
            // Every bit of the frame; of the 1088 bytes of an encapsulation, a bit of every 13th.
            let hybrid = bytes.len() > KEM_CIPHERTEXT_LEN;
            for bit in (0..bytes.len() * 8).filter(|bit| !hybrid || bit / 8 < 8 || bit / 8 > 1088 || bit % 104 == 0) {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let flipped = base64::encode(&flipped);
                assert_eq!(south.open(&north.enc_pub(), &flipped, b"ad"), Err(DoesNotOpen), "bit {bit}");
            }
        }
    }

    #[test]
    fn only_the_recipient_opens_and_only_from_the_sender() {
        let (north, south, east) = (key(3), key(9), key(4));
        for blob in seal_both(&north, &south, b"hi", b"", [5; 12]) {
            assert_eq!(south.open(&north.enc_pub(), &blob, b"").as_deref(), Ok(b"hi".as_slice()));
            assert_eq!(east.open(&north.enc_pub(), &blob, b""), Err(DoesNotOpen));
            assert_eq!(south.open(&east.enc_pub(), &blob, b""), Err(DoesNotOpen));
            assert_eq!(south.open(&north.enc_pub(), &blob, b"other"), Err(DoesNotOpen));
            assert_eq!(south.open(&north.enc_pub(), &format!(" {blob}"), b""), Err(DoesNotOpen));
        }
    }

    #[test]
    fn keys_that_prove_nothing_are_refused() {
        let (north, south) = (key(3), key(9));
        let pq = south.enc_pub_pq();
        // The all-zero point, the point of order two, and text that is no key at all.
        let order_two = format!("01{}", "0".repeat(62));
        for bad in ["0".repeat(64).as_str(), &order_two, "", "zz", &"a".repeat(63), &"g".repeat(64)] {
            assert_eq!(north.seal(bad, b"", b"", [5; 12]), Err(BadSealingKey), "{bad}");
            assert_eq!(north.seal_hybrid(bad, &pq, b"", b"", [5; 12], [7; 32]), Err(BadSealingKey), "{bad}");
            assert_eq!(north.open(bad, &base64::encode(&[0; 40]), b""), Err(DoesNotOpen));
        }
        // FIPS 203 refuses coefficients of 3329 and more.
        for bad in ["", &pq[2..], &format!("{}00", &pq), &"f".repeat(2 * KEM_PUBLIC_LEN)] {
            assert_eq!(north.seal_hybrid(&south.enc_pub(), bad, b"", b"", [5; 12], [7; 32]), Err(BadSealingKey));
        }
    }

    #[test]
    fn a_nonce_that_looks_like_the_hybrid_magic_still_opens() {
        let (north, south) = (key(3), key(9));
        let nonce = *b"a2b2 is here";
        let blob = north.seal(&south.enc_pub(), b"hi", b"", nonce).unwrap();
        assert_eq!(south.open(&north.enc_pub(), &blob, b"").as_deref(), Ok(b"hi".as_slice()));
    }

    #[test]
    fn debug_shows_the_public_half_only() {
        assert_eq!(format!("{:?}", key(3)), format!("SealingKey({})", key(3).enc_pub()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn both_versions_open_what_they_sealed(
            text in proptest::collection::vec(any::<u8>(), 0..300),
            ad in proptest::collection::vec(any::<u8>(), 0..20),
            nonce: [u8; 12],
        ) {
            let (north, south) = (key(3), key(9));
            for blob in seal_both(&north, &south, &text, &ad, nonce) {
                let opened = south.open(&north.enc_pub(), &blob, &ad);
                prop_assert_eq!(opened.as_deref(), Ok(text.as_slice()));
            }
        }

        #[test]
        fn no_text_makes_open_panic(blob in any::<String>(), bytes in proptest::collection::vec(any::<u8>(), 0..1200)) {
            let (north, south) = (key(3), key(9));
            prop_assert_eq!(south.open(&north.enc_pub(), &blob, b""), Err(DoesNotOpen));
            let hybrid = base64::encode(&[HYBRID_MAGIC.as_slice(), &bytes].concat());
            for blob in [base64::encode(&bytes), hybrid] {
                prop_assert_eq!(south.open(&north.enc_pub(), &blob, b""), Err(DoesNotOpen));
            }
        }
    }
}
