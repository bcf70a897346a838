//! What a muretai agent remembers, in one SQLite file. What a message means is decided elsewhere.
//!
//! Two processes on one file are normal: WAL, a busy timeout, short transactions that begin as writers. Everything
//! that arrives from concurrent peers goes through a group commit: many messages, one synced transaction.
#![forbid(unsafe_code)]

pub mod contacts;
pub mod error;
pub mod invites;
pub mod messages;
pub mod settings;

pub use error::StoreError;

use std::path::Path;

/// An open store. Cheap to clone; closed when the last clone is dropped or by [`Store::close`].
#[derive(Clone, Debug)]
pub struct Store {
    _private: (),
}

impl Store {
    /// Opens the file, creates it (0600) and its schema when absent, migrates an older one after a backup copy, and
    /// refuses a newer one. The path is opened as a path, never as a URL.
    pub async fn open(_path: &Path) -> Result<Store, StoreError> {
        todo!()
    }
    /// Waits for what was handed in, checkpoints and closes.
    pub async fn close(&self) {
        todo!()
    }
}
