//! The key file: PKCS#8 PEM, 0600 in a 0700 folder whatever the umask, never replaced.
use std::path::PathBuf;

use muretai_protocol::sign::Seed;
use zeroize::Zeroizing;

use crate::home::AgentDir;

/// Why a key file was not made or read. Nothing on disk has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// To be split: exists, is no file, unreadable, empty, truncated, not PKCS#8, not Ed25519, encrypted and no
    /// passphrase, wrong passphrase, io.
    #[error("{} already holds a key", .0.display())]
    Exists(PathBuf),
    /// A passphrase is needed.
    #[error("{} is encrypted", .0.display())]
    NeedsPassphrase(PathBuf),
    /// It does not fit.
    #[error("the passphrase does not open {}", .0.display())]
    WrongPassphrase(PathBuf),
}

/// Writes a seed: temp file in the folder, fsync, link without replacing, fsync of the folder.
pub fn create(_dir: &AgentDir, _seed: &Seed, _passphrase: Option<&str>) -> Result<(), KeyFileError> {
    todo!()
}
/// Whether a passphrase is needed, without asking for it.
pub fn is_encrypted(_dir: &AgentDir) -> Result<bool, KeyFileError> {
    todo!()
}
/// Reads a seed.
pub fn read(_dir: &AgentDir, _passphrase: Option<&Zeroizing<String>>) -> Result<Seed, KeyFileError> {
    todo!()
}
