//! `did:key` (section 2.1): an address that is its own key.
use std::{
    fmt, hash,
    str::FromStr,
    sync::{Arc, OnceLock},
};

use crate::{limits::MAX_B58_LEN, sign::Verifier};

mod base58;

/// What every DID of ours begins with; `z` says base58btc.
const PREFIX: &str = "did:key:z";
const ED25519_CODEC: [u8; 2] = [0xed, 0x01];
const P256_CODEC: [u8; 2] = [0x80, 0x24];

/// A valid `did:key` in its one spelling, Ed25519 or P-256.
///
/// Cheap to clone. The key is decoded once, when the text is read, and made ready to verify once, when it first does.
#[derive(Clone)]
pub struct Did(Arc<Inner>);

struct Inner {
    text: Box<str>,
    key: PublicKey,
    verifier: OnceLock<Option<Verifier>>,
}

/// The key inside a DID. Points are not judged here, only where a key verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublicKey {
    /// 32 bytes.
    Ed25519([u8; 32]),
    /// 33 bytes, SEC1 compressed.
    P256([u8; 33]),
}

/// Why text is not a DID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DidError {
    /// Another method, another base, other case, white space in front.
    #[error("a DID begins with `{PREFIX}`")]
    Prefix,
    /// Longer than [`MAX_B58_LEN`]; nothing was decoded.
    #[error("the DID has {len} characters, the limit is {MAX_B58_LEN}")]
    TooLong {
        /// Bytes of the text.
        len: usize,
    },
    /// A character outside the base58btc alphabet; white space and fragments end here.
    #[error("character {position} of the DID is not base58btc")]
    Alphabet {
        /// Counted from 1, in bytes, over the whole text.
        position: usize,
    },
    /// A key, but not one that an agent may have, such as X25519.
    #[error("the DID holds neither an Ed25519 nor a P-256 key")]
    UnsupportedKey,
    /// A known kind of key with too few or too many bytes.
    #[error("the key in the DID has {found} bytes, not {expected}")]
    KeyLength {
        /// Bytes that a key of its kind has.
        expected: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// A P-256 key that does not begin with 02 or 03.
    #[error("the P-256 key in the DID is not in compressed form")]
    NotCompressed,
}

impl Did {
    /// The DID of a public key.
    pub fn from_key(key: &PublicKey) -> Did {
        let mut bytes = Vec::with_capacity(35);
        match key {
            PublicKey::Ed25519(key) => {
                bytes.extend(ED25519_CODEC);
                bytes.extend(key);
            }
            PublicKey::P256(key) => {
                bytes.extend(P256_CODEC);
                bytes.extend(key);
            }
        }
        Did::new(format!("{PREFIX}{}", base58::encode(&bytes)).into(), *key)
    }
    fn new(text: Box<str>, key: PublicKey) -> Did {
        Did(Arc::new(Inner { text, key, verifier: OnceLock::new() }))
    }
    /// The key that this DID is.
    pub fn key(&self) -> PublicKey {
        self.0.key
    }
    /// The key, if it is an Ed25519 key: the only kind that signs message envelopes.
    pub fn ed25519(&self) -> Option<&[u8; 32]> {
        match &self.0.key {
            PublicKey::Ed25519(key) => Some(key),
            PublicKey::P256(_) => None,
        }
    }
    /// The Ed25519 key, ready to verify; `None` for P-256, and for bytes that verify nothing (2.2, rules 2 and 3).
    pub(crate) fn verifier(&self) -> Option<&Verifier> {
        self.0.verifier.get_or_init(|| self.ed25519().and_then(Verifier::new)).as_ref()
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

impl FromStr for Did {
    type Err = DidError;
    fn from_str(text: &str) -> Result<Did, DidError> {
        if text.len() > MAX_B58_LEN {
            return Err(DidError::TooLong { len: text.len() });
        }
        let encoded = text.strip_prefix(PREFIX).ok_or(DidError::Prefix)?;
        let bytes = base58::decode(encoded).map_err(|at| DidError::Alphabet { position: PREFIX.len() + at + 1 })?;
        let key = key_from_multicodec(&bytes)?;
        Ok(Did::new(text.into(), key))
    }
}

fn key_from_multicodec(bytes: &[u8]) -> Result<PublicKey, DidError> {
    if let Some(key) = bytes.strip_prefix(&ED25519_CODEC) {
        let key = key.try_into().map_err(|_| DidError::KeyLength { expected: 32, found: key.len() })?;
        return Ok(PublicKey::Ed25519(key));
    }
    let key = bytes.strip_prefix(&P256_CODEC).ok_or(DidError::UnsupportedKey)?;
    let key: [u8; 33] = key.try_into().map_err(|_| DidError::KeyLength { expected: 33, found: key.len() })?;
    match key[0] {
        2 | 3 => Ok(PublicKey::P256(key)),
        _ => Err(DidError::NotCompressed),
    }
}

// A DID has one spelling, so its text is its identity; the cached key adds nothing.
impl PartialEq for Did {
    fn eq(&self, other: &Did) -> bool {
        self.0.text == other.0.text
    }
}
impl Eq for Did {}
impl PartialOrd for Did {
    fn partial_cmp(&self, other: &Did) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Did {
    fn cmp(&self, other: &Did) -> std::cmp::Ordering {
        self.0.text.cmp(&other.0.text)
    }
}
impl hash::Hash for Did {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}
impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.text)
    }
}
impl fmt::Debug for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}
impl AsRef<str> for Did {
    fn as_ref(&self) -> &str {
        &self.0.text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOUTH: &str = "did:key:z6MknSLrJoTcukLrE435hVNQT4JUhbvWLX4kUzqkEStBU8Vi";

    #[test]
    fn has_one_spelling() {
        assert_eq!(SOUTH.parse::<Did>().map(|did| did.to_string()).as_deref(), Ok(SOUTH));
        let body = &SOUTH["did:key:z".len()..];
        for (text, error) in [
            (String::new(), DidError::Prefix),
            (format!(" {SOUTH}"), DidError::Prefix),
            (format!("did:KEY:z{body}"), DidError::Prefix),
            (format!("did:key:u{body}"), DidError::Prefix),
            (format!("did:key:Z{body}"), DidError::Prefix),
            ("did:key:z".to_owned(), DidError::UnsupportedKey),
            (format!("{SOUTH} "), DidError::Alphabet { position: 57 }),
            (format!("{SOUTH}#{body}"), DidError::Alphabet { position: 57 }),
            ("did:key:z6Mk0".to_owned(), DidError::Alphabet { position: 13 }),
            ("did:key:z6Mké".to_owned(), DidError::Alphabet { position: 13 }),
            (format!("did:key:z1{body}"), DidError::UnsupportedKey),
            (format!("did:key:z{}", "1".repeat(503)), DidError::UnsupportedKey),
            (format!("did:key:z{}", "1".repeat(504)), DidError::TooLong { len: 513 }),
        ] {
            assert_eq!(text.parse::<Did>(), Err(error), "{text}");
        }
        let longer = format!("{SOUTH}1").parse::<Did>();
        assert!(matches!(longer, Err(DidError::UnsupportedKey | DidError::KeyLength { .. })), "{longer:?}");
    }

    #[test]
    fn refuses_a_p256_key_that_is_not_compressed() {
        let mut bytes = [P256_CODEC.as_slice(), &[0; 33]].concat();
        for (first, is_key) in [(2, true), (3, true), (0, false), (4, false)] {
            bytes[2] = first;
            let did = format!("{PREFIX}{}", base58::encode(&bytes)).parse::<Did>();
            assert_eq!(did.is_ok(), is_key, "{first}");
        }
    }

    proptest! {
        #[test]
        fn reading_gives_back_the_key(ed: [u8; 32], p256: [u8; 32], odd: bool) {
            let mut compressed = [2 + u8::from(odd); 33];
            compressed[1..].copy_from_slice(&p256);
            for key in [PublicKey::Ed25519(ed), PublicKey::P256(compressed)] {
                let did = Did::from_key(&key);
                let read: Did = did.as_str().parse().unwrap();
                prop_assert_eq!(read.key(), key);
                prop_assert_eq!(read, did);
            }
        }

        #[test]
        fn refuses_every_truncation(ed: [u8; 32]) {
            let did = Did::from_key(&PublicKey::Ed25519(ed));
            for len in 0..did.as_str().len() {
                prop_assert!(did.as_str()[..len].parse::<Did>().is_err());
            }
        }

        #[test]
        fn reading_never_panics(text in "(did:key:z)?\\PC{0,80}") {
            let _ = text.parse::<Did>();
        }
    }
}
