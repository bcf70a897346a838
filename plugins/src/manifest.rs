//! `plugins.toml` in the home: which plugins the owner named, in the order in which their policies run, each pinned by
//! the SHA-256 of its file. Strict: what is not understood is refused with its line, never passed over.
//!
//! Changes keep the owner's comments and order, and replace the file in one step. What is read of a plugin's file is
//! read once: the bytes that were hashed are the bytes that run.
use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use muretai_protocol::json::Object;
use sha2::{Digest, Sha256};

use crate::engine::Limits;

mod edit;
mod read;

/// The name of the file in the home.
pub const FILE_NAME: &str = "plugins.toml";
/// Bytes of it.
const MAX_MANIFEST_BYTES: u64 = 1_048_576;
/// Plugins that it may name.
pub const MAX_PLUGINS: usize = 64;
/// Bytes of a plugin's file.
pub const MAX_PLUGIN_BYTES: u64 = 64 * 1_048_576;

/// What the owner decided about plugins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    /// In the order of the file, which is that of the policies.
    pub plugins: Vec<Entry>,
}

/// One plugin that the owner named.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What the owner calls it, `[a-z0-9][a-z0-9-]{0,31}`; unique.
    pub name: String,
    /// Its file, absolute.
    pub path: PathBuf,
    /// Of the file, 64 lower-case hex digits.
    pub sha256: String,
    /// How it is run.
    pub kind: Kind,
    /// The version that it declared when it was added.
    pub version: String,
    /// What is used of it: `skill:ID` and `policy`.
    pub offers: Vec<String>,
    /// The agents that use it; `None` is all.
    pub agents: Option<Vec<String>>,
    /// The skill that takes what is addressed to no skill.
    pub default_skill: Option<String>,
    /// Handed to the plugin as it is.
    pub config: Object,
    /// How it is kept in bounds.
    pub limits: Limits,
}

/// How a plugin is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A shared library, in a child process with the rights of its owner.
    Native,
    /// A WebAssembly module, in a sandbox without any rights.
    Wasm,
}

impl Kind {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Native => "native",
            Kind::Wasm => "wasm",
        }
    }
    /// The limits that hold unless the owner sets others. What runs in WebAssembly is in the agent's own memory.
    pub fn default_limits(self) -> Limits {
        match self {
            Kind::Native => Limits::default(),
            Kind::Wasm => Limits { memory_mib: 32, ..Limits::default() },
        }
    }
    /// What a file's first bytes say. What is no WebAssembly is tried as a library.
    pub fn of(bytes: &[u8]) -> Kind {
        if crate::wasm::is_module(bytes) { Kind::Wasm } else { Kind::Native }
    }
}

impl Entry {
    /// Whether an agent uses it.
    pub fn is_for(&self, agent: &str) -> bool {
        self.agents.as_ref().is_none_or(|agents| agents.iter().any(|name| name == agent))
    }
    /// Whether the owner lets its policy decide.
    pub fn uses_policy(&self) -> bool {
        self.offers.iter().any(|offer| offer == "policy")
    }
    /// The ids of the skills that the owner lets it offer.
    pub fn skills(&self) -> impl Iterator<Item = &str> {
        self.offers.iter().filter_map(|offer| offer.strip_prefix("skill:"))
    }
}

/// Why `plugins.toml` or a file that it names cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The file system said no.
    #[error("cannot use {}", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Larger than anything that is meant to be here.
    #[error("{} is larger than {limit} bytes", .path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// No regular file: a folder, a pipe, a device.
    #[error("{} is no file", .0.display())]
    NoFile(PathBuf),
    /// Not what such a file says.
    #[error("{}, line {line}: {reason}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// Others can change it, and with it what runs with the owner's rights.
    #[error("{} can be changed by other users (mode {mode:04o})", .path.display())]
    OpenToOthers {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Somebody else's, who can change it, and with it what runs with the owner's rights.
    #[error("{} belongs to another user (number {owner})", .path.display())]
    OfAnother {
        /// The file or its folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// The plugin's file is not the one that was added.
    #[error("{} is not the file that was added as {name}: its SHA-256 is {found}, the pinned one is {pinned}", .path.display())]
    Changed {
        /// The plugin.
        name: String,
        /// Its file.
        path: PathBuf,
        /// What it has now.
        found: String,
        /// What it had.
        pinned: String,
    },
    /// The plugin's file is not where it was when it was added.
    #[error("the file of the plugin {name} is gone: {}", .path.display())]
    Missing {
        /// The plugin.
        name: String,
        /// Where its file was.
        path: PathBuf,
    },
    /// There is one of this name.
    #[error("there is a plugin named {0} already")]
    NameTaken(String),
    /// There is none of this name.
    #[error("there is no plugin named {name}{}", listed(.existing))]
    NoSuchPlugin {
        /// The name.
        name: String,
        /// Those that there are.
        existing: Vec<String>,
    },
    /// As many as there may be.
    #[error("there are {MAX_PLUGINS} plugins already")]
    Full,
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(", only {}", names.join(", ")) }
}

impl ManifestError {
    /// Whether a file is not what its pin says.
    pub fn is_unverified(&self) -> bool {
        matches!(self, ManifestError::Changed { .. })
    }
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            ManifestError::Malformed { .. } => {
                Some("correct the line; `muretai plugin add` writes entries as they have to be".to_owned())
            }
            ManifestError::OpenToOthers { path, .. } => Some(format!("`chmod go-w {}` closes it", path.display())),
            ManifestError::OfAnother { path, .. } => Some(format!(
                "look at what it says, then make it yours: `chown \"$(id -u)\" {}` as root",
                path.display()
            )),
            ManifestError::Changed { name, path, .. } => Some(format!(
                "if you changed it: `muretai plugin add --replace --name {name} {}`; if not, find out who did",
                path.display()
            )),
            ManifestError::Missing { name, .. } => Some(format!(
                "put it back, or `muretai plugin remove {name}` does without it; \
                 where it moved to, `muretai plugin add --replace --name {name} PATH`"
            )),
            ManifestError::NameTaken(_) => {
                Some("--replace puts this file in its place, --name gives this one another name".to_owned())
            }
            ManifestError::NoSuchPlugin { .. } => Some("`muretai plugin list` shows them".to_owned()),
            _ => None,
        }
    }
}

impl Manifest {
    /// Reads the file of a home; one that is not there names nothing.
    pub fn read(home: &Path) -> Result<Manifest, ManifestError> {
        let path = home.join(FILE_NAME);
        match load(&path)? {
            None => Ok(Manifest::default()),
            Some(text) => Manifest::parse(&text, &path),
        }
    }

    /// Reads the text of such a file; `path` is for its errors.
    pub fn parse(text: &str, path: &Path) -> Result<Manifest, ManifestError> {
        read::manifest(text).map_err(|(line, reason)| ManifestError::Malformed { path: path.to_owned(), line, reason })
    }

    /// The plugin of a name.
    pub fn find(&self, name: &str) -> Result<&Entry, ManifestError> {
        self.plugins.iter().find(|entry| entry.name == name).ok_or_else(|| ManifestError::NoSuchPlugin {
            name: name.to_owned(),
            existing: self.plugins.iter().map(|entry| entry.name.clone()).collect(),
        })
    }

    /// Adds a plugin at the end of a home's file, which is made when it is not there; the home is not.
    pub fn add(home: &Path, entry: &Entry) -> Result<(), ManifestError> {
        change(home, |manifest, text, path| {
            if manifest.plugins.iter().any(|other| other.name == entry.name) {
                return Err(ManifestError::NameTaken(entry.name.clone()));
            }
            if manifest.plugins.len() >= MAX_PLUGINS {
                return Err(ManifestError::Full);
            }
            let text = edit::with(text, entry);
            // What was written must be readable; a configuration that is not stays out of the file.
            Manifest::parse(&text, path).map(|_| text)
        })
    }

    /// Puts what is new in the place of the plugin of the same name. What did not change stays as it is written, and so
    /// do its limits.
    pub fn replace(home: &Path, entry: &Entry) -> Result<(), ManifestError> {
        change(home, |manifest, text, path| {
            let text = edit::replaced(text, manifest.find(&entry.name)?, entry);
            Manifest::parse(&text, path).map(|_| text)
        })
    }

    /// Takes a plugin out of a home's file and returns what it said.
    pub fn remove(home: &Path, name: &str) -> Result<Entry, ManifestError> {
        // A home that is not there has none, and no folder to lock.
        Manifest::read(home)?.find(name)?;
        let mut removed = None;
        change(home, |manifest, text, _| {
            removed = Some(manifest.find(name)?.clone());
            Ok(edit::without(text, name))
        })?;
        Ok(removed.expect("it was found, or the change failed"))
    }
}

/// Reads a plugin's configuration from a file of its own, in JSON or in TOML. Tells in one line what is wrong with it.
///
/// It is to be kept in TOML, which has no null: such members are left out.
pub fn config(text: &str, is_toml: bool) -> Result<Object, String> {
    if is_toml { read::toml_config(text) } else { read::json_config(text) }
}

/// The bytes of a plugin's file, with their hash.
#[derive(Debug, Clone)]
pub struct PluginFile {
    /// What is run: these bytes, and never the file again.
    pub bytes: Arc<[u8]>,
    /// Their SHA-256 in hex.
    pub sha256: String,
}

impl PluginFile {
    /// Reads a file once.
    pub fn read(path: &Path) -> Result<PluginFile, ManifestError> {
        let bytes = read_bounded(path, MAX_PLUGIN_BYTES)?;
        Ok(PluginFile { sha256: sha256(&bytes), bytes: bytes.into() })
    }
    /// Reads the file of an entry, and refuses it when it is not the one that was pinned.
    pub fn pinned(entry: &Entry) -> Result<PluginFile, ManifestError> {
        let file = PluginFile::read(&entry.path).map_err(|error| match error {
            ManifestError::Io { path, source } if source.kind() == io::ErrorKind::NotFound => {
                ManifestError::Missing { name: entry.name.clone(), path }
            }
            other => other,
        })?;
        if file.sha256 != entry.sha256 {
            return Err(ManifestError::Changed {
                name: entry.name.clone(),
                path: entry.path.clone(),
                found: file.sha256,
                pinned: entry.sha256.clone(),
            });
        }
        Ok(file)
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a String takes every write");
        hex
    })
}

/// The text of the manifest; `None` when there is none.
fn load(path: &Path) -> Result<Option<String>, ManifestError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ManifestError::Io { path: path.to_owned(), source }),
        Ok(_) => check_mode(path)?,
    }
    let bytes = read_bounded(path, MAX_MANIFEST_BYTES)?;
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
        ManifestError::Malformed { path: path.to_owned(), line, reason: "it is not UTF-8 text".to_owned() }
    })
}

/// The file and the folder that it is in, also where a link leads: who can change one of them can name what runs here.
fn check_mode(path: &Path) -> Result<(), ManifestError> {
    #[cfg(unix)]
    {
        let real = fs::canonicalize(path).map_err(|source| ManifestError::Io { path: path.to_owned(), source })?;
        for folder in [path.parent(), real.parent()].into_iter().flatten() {
            check_owner(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
        }
        check_owner(&real)?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Owned by this user or by root, and nobody else can write it.
#[cfg(unix)]
fn check_owner(path: &Path) -> Result<(), ManifestError> {
    use std::os::unix::fs::MetadataExt;
    let facts = fs::metadata(path).map_err(|source| ManifestError::Io { path: path.to_owned(), source })?;
    judge(path, facts.is_dir(), facts.uid(), facts.mode() & 0o7777, rustix::process::geteuid().as_raw())
}

/// In a folder with the sticky bit nobody replaces what is another's.
#[cfg(unix)]
fn judge(path: &Path, is_folder: bool, owner: u32, mode: u32, user: u32) -> Result<(), ManifestError> {
    if owner != user && owner != 0 {
        return Err(ManifestError::OfAnother { path: path.to_owned(), owner });
    }
    if mode & 0o022 != 0 && !(is_folder && mode & 0o1000 != 0) {
        return Err(ManifestError::OpenToOthers { path: path.to_owned(), mode });
    }
    Ok(())
}

fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, ManifestError> {
    let failed = |source| ManifestError::Io { path: path.to_owned(), source };
    // Asked before it is opened: opening a pipe would wait for its writer.
    let facts = fs::metadata(path).map_err(failed)?;
    if !facts.is_file() {
        return Err(ManifestError::NoFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(ManifestError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// Reads, changes and replaces the file of a home; two changes at the same time wait for each other.
fn change(
    home: &Path,
    edit: impl FnOnce(&Manifest, &str, &Path) -> Result<String, ManifestError>,
) -> Result<(), ManifestError> {
    let path = home.join(FILE_NAME);
    let failed = |source| ManifestError::Io { path: path.clone(), source };
    // The folder itself is locked: the file is replaced, and a lock on the old one would say nothing about the new one.
    #[cfg(unix)]
    let folder = File::open(home).map_err(failed)?;
    #[cfg(unix)]
    folder.lock().map_err(failed)?;
    let text = load(&path)?.unwrap_or_default();
    let manifest = Manifest::parse(&text, &path)?;
    let text = edit(&manifest, &text, &path)?;
    // A temporary file is the owner's alone (0600) on Unix.
    let mut new = tempfile::NamedTempFile::new_in(home).map_err(failed)?;
    new.write_all(text.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(failed)?;
    new.persist(&path).map_err(|error| failed(error.error))?;
    #[cfg(unix)]
    folder.sync_all().map_err(failed)?;
    Ok(())
}

#[cfg(test)]
mod tests;
