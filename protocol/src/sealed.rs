//! Sealed letters (section 9.4): v1 and the hybrid v2.
use crate::sign::Seed;

/// The X25519 key of an identity; its public half is the card's `enc_pub`.
pub struct SealingKey {
    _private: (),
}
/// Does not open: too short, wrong key, wrong associated data, bad tag. Never partial text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sealed letter does not open")]
pub struct DoesNotOpen;
/// The peer's key cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sealing key is malformed")]
pub struct BadSealingKey;

impl SealingKey {
    /// Derives the sealing keys of a seed.
    pub fn from_seed(_seed: &Seed) -> SealingKey {
        todo!()
    }
    /// 64 hex digits.
    pub fn enc_pub(&self) -> String {
        todo!()
    }
    /// 2368 hex digits.
    pub fn enc_pub_pq(&self) -> String {
        todo!()
    }
    /// Seals v1.
    pub fn seal(
        &self,
        _their_enc_pub: &str,
        _plaintext: &[u8],
        _ad: &[u8],
        _nonce: [u8; 12],
    ) -> Result<String, BadSealingKey> {
        todo!()
    }
    /// Seals v2; `kem_random` is the encapsulation's randomness.
    pub fn seal_hybrid(
        &self,
        _their_enc_pub: &str,
        _their_enc_pub_pq: &str,
        _plaintext: &[u8],
        _ad: &[u8],
        _nonce: [u8; 12],
        _kem_random: [u8; 32],
    ) -> Result<String, BadSealingKey> {
        todo!()
    }
    /// Opens either version.
    pub fn open(&self, _their_enc_pub: &str, _blob: &str, _ad: &[u8]) -> Result<Vec<u8>, DoesNotOpen> {
        todo!()
    }
}
