//! `did:key` (section 2.1): an address that is its own key.
use std::{fmt, str::FromStr};

/// A valid `did:key` in its one spelling, Ed25519 or P-256.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Did(Box<str>);

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
    /// To be split into situations.
    #[error("not a did:key")]
    NotADidKey,
}

impl Did {
    /// The DID of a public key.
    pub fn from_key(_key: &PublicKey) -> Did {
        todo!()
    }
    /// The key that this DID is.
    pub fn key(&self) -> PublicKey {
        todo!()
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Did {
    type Err = DidError;
    fn from_str(_text: &str) -> Result<Did, DidError> {
        todo!()
    }
}
impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl AsRef<str> for Did {
    fn as_ref(&self) -> &str {
        &self.0
    }
}
