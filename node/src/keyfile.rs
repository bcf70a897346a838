//! The key file: PKCS#8 PEM, 0600 in a 0700 folder whatever the umask, never replaced.
//!
//! Plain files are PKCS#8 v1, which every OpenSSL reads; with a passphrase they are PBES2 (scrypt, AES-256-CBC).
//! Whatever stands where a key belongs is either a key or an error that names the file; its bytes stay as they are.
mod codec;
mod place;

use std::{
    fs,
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
};

use muretai_protocol::{Did, sign::Seed};
use muretai_store::StoreError;
use zeroize::Zeroizing;

use crate::{Fault, home::AgentDir};

/// Bytes of a key file that are read. A plain one has 119, an encrypted one about 400.
const MAX_KEY_FILE_BYTES: u64 = 16_384;

/// Why a key file was not made or read. Nothing on disk has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// There is an identity already.
    #[error("{} already holds a key", .0.display())]
    Exists(PathBuf),
    /// There is the database of an agent whose key is gone, and this is another key.
    #[error("{} is the database of {did}", .path.display())]
    DatabaseOfOther {
        /// The database.
        path: PathBuf,
        /// Whose it is; in words when it does not say.
        did: String,
        /// The local name.
        name: String,
    },
    /// There is a database that does not tell whose it is.
    #[error("{} cannot be read, so nobody knows whose it is", .path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// Something else is where the key would go.
    #[error("{} is in the way: it is {what}", .path.display())]
    Occupied {
        /// Where.
        path: PathBuf,
        /// What it is, in words.
        what: &'static str,
    },
    /// There is no key file.
    #[error("there is no key file {}", .0.display())]
    Missing(PathBuf),
    /// A folder, a link to nowhere or a special file.
    #[error("{} is no key file but {what}", .path.display())]
    NotAFile {
        /// Where.
        path: PathBuf,
        /// What it is, in words.
        what: &'static str,
    },
    /// It cannot be opened or read.
    #[error("cannot read the key file {}", .path.display())]
    Unreadable {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No key is that long.
    #[error("{} is {bytes} bytes, a key file has at most {MAX_KEY_FILE_BYTES}", .path.display())]
    TooLarge {
        /// Where.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// 0 bytes.
    #[error("the key file {} is empty", .0.display())]
    Empty(PathBuf),
    /// It begins as PEM and ends too early.
    #[error("the key file {} is cut short", .0.display())]
    Truncated(PathBuf),
    /// Not PEM at all.
    #[error("{} is not a PEM file", .0.display())]
    NotPem(PathBuf),
    /// PEM of another kind.
    #[error("{} holds something else than a PKCS#8 private key: {label}", .path.display())]
    OtherPem {
        /// Where.
        path: PathBuf,
        /// The PEM label.
        label: String,
    },
    /// PEM with the right label, and its content is not what the label says.
    #[error("the key file {} is damaged", .path.display())]
    Damaged {
        /// Where.
        path: PathBuf,
        /// Why, without any of its content.
        #[source]
        source: pkcs8::Error,
    },
    /// A private key of another algorithm.
    #[error("{} holds another kind of key than Ed25519: {algorithm}", .path.display())]
    NotEd25519 {
        /// Where.
        path: PathBuf,
        /// Its name, or its object identifier.
        algorithm: String,
    },
    /// The public key that the file carries beside the private one is another key's.
    #[error("the two halves of the key in {} do not belong together", .0.display())]
    HalvesDiffer(PathBuf),
    /// Encrypted in a way that is not read here, or at a cost that is out of bounds.
    #[error("{} is encrypted with {scheme}, which is not supported", .path.display())]
    UnsupportedEncryption {
        /// Where.
        path: PathBuf,
        /// The scheme in words.
        scheme: String,
    },
    /// A passphrase is needed.
    #[error("{} is encrypted", .0.display())]
    NeedsPassphrase(PathBuf),
    /// It does not fit.
    #[error("the passphrase does not open {}", .0.display())]
    WrongPassphrase(PathBuf),
    /// A passphrase of no characters protects nothing.
    #[error("the passphrase is empty")]
    EmptyPassphrase,
    /// The folder or the file cannot be written.
    #[error("cannot write the key file {}", .path.display())]
    Unwritable {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl KeyFileError {
    /// Whose fault.
    pub fn fault(&self) -> Fault {
        Fault::Failed
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            KeyFileError::DatabaseOfOther { name, .. } => {
                return Some(format!(
                    "nothing was changed; `muretai keygen {name} --restore` brings its own key back from the 24 words; \
                     for a new identity choose another name"
                ));
            }
            KeyFileError::Database { .. } => "nothing was changed; move it away, or choose another name",
            KeyFileError::Exists(_) => "an identity is never replaced; choose another name",
            KeyFileError::Occupied { .. } => "nothing was changed; look at it, and move it away if it is not needed",
            KeyFileError::Missing(_) => {
                "`muretai keygen` makes an identity, `muretai keygen --restore` brings one back"
            }
            KeyFileError::Unreadable { .. } => "check who owns the file and its mode, which should be 0600",
            KeyFileError::NotAFile { .. }
            | KeyFileError::TooLarge { .. }
            | KeyFileError::Empty(_)
            | KeyFileError::Truncated(_)
            | KeyFileError::NotPem(_)
            | KeyFileError::OtherPem { .. }
            | KeyFileError::Damaged { .. }
            | KeyFileError::NotEd25519 { .. }
            | KeyFileError::HalvesDiffer(_) => {
                "it was left as it is; move it away and bring the identity back with `muretai keygen --restore`"
            }
            KeyFileError::UnsupportedEncryption { .. } => {
                "write it anew with `openssl pkcs8 -topk8 -scrypt`, keeping the original"
            }
            KeyFileError::NeedsPassphrase(_) => "give the passphrase at the prompt, or by file or file descriptor",
            KeyFileError::WrongPassphrase(_) => {
                "check the passphrase; without it, the 24 words bring the identity back"
            }
            KeyFileError::EmptyPassphrase => "give a passphrase, or none at all for a key file that is not encrypted",
            KeyFileError::Unwritable { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

/// Writes a seed: temp file in the folder, fsync, link without replacing, fsync of the folder.
///
/// The folder and its missing parents are made 0700. A failure leaves nothing behind and changes nothing.
pub fn create(dir: &AgentDir, seed: &Seed, passphrase: Option<&str>) -> Result<(), KeyFileError> {
    let path = dir.key_file();
    refuse_occupied(&path)?;
    let pem = match passphrase {
        None => codec::encode(seed),
        Some("") => return Err(KeyFileError::EmptyPassphrase),
        Some(passphrase) => codec::encode_encrypted(seed, passphrase),
    };
    match place::place(&path, pem.as_bytes()) {
        Ok(()) => Ok(()),
        // Another process was faster: say what it left there.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            refuse_occupied(&path)?;
            Err(KeyFileError::Exists(path))
        }
        Err(source) => Err(KeyFileError::Unwritable { path, source }),
    }
}

/// Whether [`create`] would find the place free, so that nobody is asked for words in vain; else says what is there.
pub fn check_free(dir: &AgentDir) -> Result<(), KeyFileError> {
    refuse_occupied(&dir.key_file())
}

/// Whether a key may go beside the database that is there: none may, unless it is the one that the database names.
/// `did` is that of a key that is restored; a new one has no business there. Changes nothing.
pub async fn check_database(dir: &AgentDir, did: Option<&Did>) -> Result<(), KeyFileError> {
    let path = dir.database();
    if !fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
        return Ok(());
    }
    match muretai_store::recorded_did(&path).await {
        Err(source) => Err(KeyFileError::Database { path, source }),
        Ok(found) if did.is_some_and(|did| found.as_deref().is_none_or(|found| found == did.as_str())) => Ok(()),
        Ok(found) => {
            let did = found.unwrap_or_else(|| "an agent whose key is gone".to_owned());
            Err(KeyFileError::DatabaseOfOther { path, did, name: dir.name.clone() })
        }
    }
}

/// Whether a passphrase is needed, without asking for it. A file that holds no key is an error.
pub fn is_encrypted(dir: &AgentDir) -> Result<bool, KeyFileError> {
    let path = dir.key_file();
    let text = read_text(&path)?;
    Ok(codec::block(&path, &text)?.is_encrypted())
}

/// Reads a seed. A passphrase for a file that is not encrypted is not used.
pub fn read(dir: &AgentDir, passphrase: Option<&Zeroizing<String>>) -> Result<Seed, KeyFileError> {
    let path = dir.key_file();
    let text = read_text(&path)?;
    codec::decode(&path, &codec::block(&path, &text)?, passphrase.map(|p| p.as_str()))
}

/// A sentence about a key file or folder that other users of the machine can look into; `None` when all is well.
pub fn permissions_warning(dir: &AgentDir) -> Option<String> {
    let key = dir.key_file();
    if let Some(mode) = open_bits(&key) {
        return Some(format!("{} is open to other users (mode {mode:04o}): `chmod 600` closes it", key.display()));
    }
    let mode = open_bits(&dir.path)?;
    Some(format!("{} is open to other users (mode {mode:04o}): `chmod 700` closes it", dir.path.display()))
}

#[cfg(unix)]
fn open_bits(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn open_bits(_path: &Path) -> Option<u32> {
    None
}

/// What else than a regular file a path is, in words.
fn what_else(path: &Path, link: &fs::Metadata) -> Option<&'static str> {
    let target = fs::metadata(path);
    match target {
        Ok(meta) if meta.is_file() => None,
        Ok(meta) if meta.is_dir() => Some("a folder"),
        Ok(_) => Some("a special file"),
        Err(_) if link.is_symlink() => Some("a symbolic link that leads nowhere"),
        Err(_) => None,
    }
}

/// `Ok` when nothing is at `path`; else says what is there, having read it if it can be.
fn refuse_occupied(path: &Path) -> Result<(), KeyFileError> {
    let owned = || path.to_owned();
    let link = match fs::symlink_metadata(path) {
        Ok(link) => link,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(KeyFileError::Unwritable { path: owned(), source }),
    };
    if let Some(what) = what_else(path, &link) {
        return Err(KeyFileError::Occupied { path: owned(), what });
    }
    let verdict = read_text(path).and_then(|text| codec::block(path, &text).map(drop));
    Err(match verdict {
        Ok(()) => KeyFileError::Exists(owned()),
        Err(KeyFileError::Empty(_)) => KeyFileError::Occupied { path: owned(), what: "an empty file" },
        Err(KeyFileError::Truncated(_)) => {
            KeyFileError::Occupied { path: owned(), what: "a key file that is cut short" }
        }
        Err(KeyFileError::Unreadable { .. }) => {
            KeyFileError::Occupied { path: owned(), what: "a file that cannot be read" }
        }
        Err(_) => KeyFileError::Occupied { path: owned(), what: "a file that is no key" },
    })
}

/// The file's text, at most [`MAX_KEY_FILE_BYTES`] of it, in memory that is wiped.
fn read_text(path: &Path) -> Result<Zeroizing<String>, KeyFileError> {
    let unreadable = |source: io::Error| KeyFileError::Unreadable { path: path.to_owned(), source };
    let link = match fs::symlink_metadata(path) {
        Ok(link) => link,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(KeyFileError::Missing(path.to_owned())),
        Err(error) => return Err(unreadable(error)),
    };
    // Asked before opening, because opening a named pipe would wait for its writer.
    if let Some(what) = what_else(path, &link) {
        return Err(KeyFileError::NotAFile { path: path.to_owned(), what });
    }
    let file = fs::File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    if bytes > MAX_KEY_FILE_BYTES {
        return Err(KeyFileError::TooLarge { path: path.to_owned(), bytes });
    }
    // Reserved at once: a buffer that grows would leave copies of the key behind.
    let mut content = Zeroizing::new(Vec::with_capacity(MAX_KEY_FILE_BYTES as usize + 1));
    file.take(MAX_KEY_FILE_BYTES).read_to_end(&mut content).map_err(unreadable)?;
    if content.is_empty() {
        return Err(KeyFileError::Empty(path.to_owned()));
    }
    match std::str::from_utf8(&content) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err(KeyFileError::NotPem(path.to_owned())),
    }
}

#[cfg(test)]
mod tests;
