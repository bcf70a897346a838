//! Why the store could not do it.
/// Errors name situations: full disk, read-only, locked by another process for too long, damaged, newer schema.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Made by a newer version.
    #[error("the database was made by a newer version (schema {found}, this program knows {known})")]
    Newer {
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The disk is full.
    #[error("the disk is full")]
    Full,
    /// The file or its folder cannot be written.
    #[error("the database is read-only")]
    ReadOnly,
    /// Another process held the write lock for longer than the busy timeout.
    #[error("another process holds the database")]
    Busy,
    /// Not a database, or damaged.
    #[error("the database is damaged")]
    Damaged,
    /// A name that another contact has.
    #[error("the name {0} is taken")]
    NameTaken(String),
    /// Anything else that SQLite says.
    #[error("the database failed")]
    Sql(#[source] sqlx::Error),
}
