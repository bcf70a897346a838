//! Why the store could not do it.
use std::sync::Arc;

/// Why the store could not do what it was asked. Whatever failed has changed nothing.
///
/// Cloneable, because everyone whose message was in a failed batch is told the same.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Made by a newer version of this program; nothing was changed.
    #[error("the database was made by a newer version (schema {found}, this program knows {known})")]
    Newer {
        /// The schema of the file.
        found: i64,
        /// The newest schema that this program knows.
        known: i64,
    },
    /// The database of another agent; nothing was changed.
    #[error("the database belongs to {recorded}, and the key is that of {key}")]
    OtherAgent {
        /// The DID that it was made for.
        recorded: String,
        /// The DID of whoever opened it.
        key: String,
    },
    /// The disk is full. Once there is room, the store works again without being reopened.
    #[error("the disk is full")]
    Full,
    /// The file or its folder cannot be written.
    #[error("the database is read-only")]
    ReadOnly,
    /// Another process held the write lock for longer than the busy timeout.
    #[error("another process holds the database")]
    Busy,
    /// Not a database, not one of ours, or damaged. It is left as it was found.
    #[error("the database is damaged")]
    Damaged,
    /// The file or its folder cannot be made or opened.
    #[error("the database cannot be opened")]
    CannotOpen(#[source] Arc<std::io::Error>),
    /// The disk failed to read or write.
    #[error("the disk failed")]
    Disk(#[source] Arc<sqlx::Error>),
    /// The file was moved, deleted or replaced while it was open: what was written now would be lost. The store stays
    /// useless until it is opened again.
    #[error("the database file was moved, deleted or replaced while it was open")]
    Replaced,
    /// A name that another contact has.
    #[error("the name {0} is taken")]
    NameTaken(String),
    /// An invite with this nonce or code exists.
    #[error("an invite with this nonce or code exists")]
    InviteExists,
    /// More tags than a contact may have, or longer ones.
    #[error("a contact has at most 16 tags of at most 64 bytes each")]
    TooManyTags,
    /// More of the owner's messages are on their way than are kept.
    #[error("{limit} messages wait in the outbox, which is the limit")]
    OutboxFull {
        /// How many are kept.
        limit: i64,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Anything else that SQLite says.
    #[error("the database failed")]
    Sql(#[source] Arc<sqlx::Error>),
}

/// SQLite's primary result codes that have a meaning of their own here.
mod code {
    pub(super) const BUSY: u32 = 5;
    pub(super) const LOCKED: u32 = 6;
    pub(super) const READONLY: u32 = 8;
    pub(super) const IOERR: u32 = 10;
    pub(super) const CORRUPT: u32 = 11;
    pub(super) const FULL: u32 = 13;
    pub(super) const CANTOPEN: u32 = 14;
    pub(super) const NOTADB: u32 = 26;
}

impl StoreError {
    /// Whether one row may be at fault, so that the rest of its batch deserves another try.
    pub(crate) fn is_about_a_row(&self) -> bool {
        matches!(self, StoreError::Sql(_)) && !self.is_connection_lost()
    }

    /// Whether the thread behind the connection is gone.
    pub(crate) fn is_connection_lost(&self) -> bool {
        matches!(self, StoreError::Sql(error) if matches!(**error, sqlx::Error::WorkerCrashed))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> StoreError {
        if let sqlx::Error::Io(error) = error {
            return error.into();
        }
        let primary = match &error {
            sqlx::Error::Database(e) => e.code().and_then(|c| c.parse::<u32>().ok()).map(|c| c & 0xff),
            _ => None,
        };
        match primary {
            Some(code::BUSY | code::LOCKED) => StoreError::Busy,
            Some(code::READONLY) => StoreError::ReadOnly,
            Some(code::IOERR) => StoreError::Disk(Arc::new(error)),
            Some(code::CORRUPT | code::NOTADB) => StoreError::Damaged,
            Some(code::FULL) => StoreError::Full,
            Some(code::CANTOPEN) => StoreError::CannotOpen(Arc::new(std::io::Error::other(error))),
            _ => StoreError::Sql(Arc::new(error)),
        }
    }
}

impl From<std::io::Error> for StoreError {
    fn from(error: std::io::Error) -> StoreError {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => StoreError::Full,
            std::io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly,
            _ => StoreError::CannotOpen(Arc::new(error)),
        }
    }
}
