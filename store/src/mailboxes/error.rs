//! Why a store of mailboxes failed.
use std::sync::Arc;

use crate::StoreError;

/// Why a store of mailboxes failed. Whatever failed has changed nothing, but for [`MailboxError::Unreachable`]: a
/// commit whose answer was lost may have happened, and doing the same again is harmless.
///
/// Cloneable, because everyone whose act was in a failed batch is told the same.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum MailboxError {
    /// A newer program made the schema.
    #[error("the database has schema version {found}, this program knows {known}")]
    Newer {
        /// What it has.
        found: i64,
        /// What we know.
        known: i64,
    },
    /// It is some other database, or damaged. It is left as it was found.
    #[error("this is not a relay's database, or it is damaged")]
    Foreign,
    /// Another process has the file.
    #[error("another process uses this database")]
    InUse,
    /// No room. Once there is, the store works again.
    #[error("the disk is full")]
    DiskFull,
    /// The file was moved, deleted or replaced while it was open: what was written now would be lost. The store stays
    /// useless until it is opened again.
    #[error("the database file was moved, deleted or replaced while it was open")]
    Replaced,
    /// The database server is not there, went away, or did not answer in time. The store works again when it does.
    #[error("the database cannot be reached")]
    Unreachable(#[source] Arc<sqlx::Error>),
    /// The URL is none of `postgres://`.
    #[error("{0:?} names no database: it is a path, or a URL that begins with postgres://")]
    BadUrl(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// A file could not be used.
    #[error("the database cannot be opened")]
    Io(#[source] Arc<std::io::Error>),
    /// Anything else that the database says.
    #[error("the database failed")]
    Database(#[source] Arc<sqlx::Error>),
}

impl From<std::io::Error> for MailboxError {
    fn from(error: std::io::Error) -> MailboxError {
        StoreError::from(error).into()
    }
}

/// For SQLite.
impl From<StoreError> for MailboxError {
    fn from(error: StoreError) -> MailboxError {
        match error {
            StoreError::Newer { found, known } => MailboxError::Newer { found, known },
            StoreError::Damaged => MailboxError::Foreign,
            StoreError::Busy => MailboxError::InUse,
            StoreError::Full => MailboxError::DiskFull,
            StoreError::Replaced => MailboxError::Replaced,
            StoreError::Closed => MailboxError::Closed,
            StoreError::CannotOpen(error) => MailboxError::Io(error),
            StoreError::Disk(error) | StoreError::Sql(error) => MailboxError::Database(error),
            error => MailboxError::Io(Arc::new(std::io::Error::other(error))),
        }
    }
}
