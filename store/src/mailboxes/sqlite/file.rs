//! The file: one process's alone, of a kind of its own.
use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use sqlx::{SqliteConnection, migrate::Migrator};

use crate::{
    mailboxes::MailboxError,
    open::{Location, create_folder, create_private},
};

/// The migrations that this program knows, in order.
pub(in crate::mailboxes) static MIGRATIONS: Migrator = sqlx::migrate!("./migrations-relay/sqlite");

/// `mrtr`: marks a file as a relay's.
pub(super) const APPLICATION_ID: i64 = 0x6d72_7472;

/// A file that is ready.
pub(super) struct Opened {
    pub(super) location: Location,
    pub(super) lock: File,
    pub(super) first: SqliteConnection,
}

pub(super) async fn open(path: &Path) -> Result<Opened, MailboxError> {
    let location = Location::of(path, APPLICATION_ID)?.shrinkable();
    if path.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    let lock = lock(location.path())?;
    let first = location.prepare(&MIGRATIONS).await?;
    Ok(Opened { location, lock, first })
}

/// Held as long as the file is open; the system drops it with the process. A file beside the database: closing a
/// descriptor of the database itself would drop SQLite's own locks. It is never deleted, because whoever holds a deleted
/// one would not be seen.
fn lock(database: &Path) -> Result<File, MailboxError> {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    match create_private(&path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e.into()),
        _ => {}
    }
    let file = OpenOptions::new().write(true).open(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(MailboxError::InUse),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}
