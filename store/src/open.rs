//! Finds, makes, checks and upgrades the database file.
//!
//! `PRAGMA user_version` is the number of the last migration that was applied, so a file that is up to date costs no
//! further query. Migrations are not compared by hash at run time: a comment that changed in a shipped file must not
//! take an agent offline. Their hashes are frozen by a test instead.
use std::{
    io,
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use sqlx::{
    ConnectOptions, Connection, Row, SqliteConnection,
    migrate::{Migration, Migrator},
    query,
    sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteSynchronous},
};

use crate::StoreError;

/// The migrations that this program knows, in order.
pub(crate) static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// `mrta`: marks a file as a database of ours.
pub(crate) const APPLICATION_ID: i64 = 0x6d72_7461;

/// How long a statement waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two attempts to switch a new file to WAL while another process does the same.
const WAL_RETRY: Duration = Duration::from_millis(20);

/// A path and how to open it.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    path: PathBuf,
    application_id: i64,
    options: SqliteConnectOptions,
}

impl Location {
    /// The database of an agent.
    pub(crate) fn new(path: &Path) -> Result<Location, StoreError> {
        Location::of(path, APPLICATION_ID)
    }

    /// Takes any path that is valid UTF-8. It becomes absolute, so that SQLite reads none as a URI or `:memory:`.
    pub(crate) fn of(path: &Path, application_id: i64) -> Result<Location, StoreError> {
        let path = std::path::absolute(path)?;
        if path.to_str().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not valid UTF-8").into());
        }
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(false)
            .busy_timeout(BUSY_TIMEOUT)
            .synchronous(SqliteSynchronous::Full)
            .pragma("temp_store", "MEMORY")
            .disable_statement_logging()
            .statement_cache_capacity(64)
            .command_buffer_size(4)
            .row_buffer_size(256);
        Ok(Location { path, application_id, options })
    }

    /// A file that is made here can give pages back to the file system.
    pub(crate) fn shrinkable(mut self) -> Location {
        self.options = self.options.auto_vacuum(SqliteAutoVacuum::Incremental);
        self
    }

    /// Where the file is, absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Watches the file that is at the path now; made where the first connection is.
    pub(crate) fn watch(&self) -> Watch {
        Watch::new(&self.path)
    }

    /// One more connection to a file that [`Location::prepare`] has checked.
    pub(crate) async fn connect(&self, tuning: &str) -> Result<SqliteConnection, StoreError> {
        let mut conn = self.options.connect().await?;
        sqlx::raw_sql(sqlx::AssertSqlSafe(tuning)).execute(&mut conn).await?;
        Ok(conn)
    }

    /// Makes the file when it is absent or empty, checks whose it is, and brings its schema up to date. Gives the
    /// connection that did it.
    pub(crate) async fn prepare(&self, migrator: &Migrator) -> Result<SqliteConnection, StoreError> {
        create_if_absent(&self.path)?;
        let mut conn = self.options.connect().await?;
        match self.upgrade(&mut conn, migrator).await {
            Ok(()) => Ok(conn),
            Err(error) => {
                // What is refused must not stay open.
                conn.close().await.ok();
                Err(error)
            }
        }
    }

    /// Opens a file of ours as it is; `None` when it is absent or empty.
    pub(crate) async fn inspect(&self) -> Result<Option<SqliteConnection>, StoreError> {
        match std::fs::metadata(&self.path) {
            Ok(meta) if meta.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory).into()),
            Ok(_) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        let known = MIGRATIONS.iter().map(|m| m.version).max().unwrap_or(0);
        let mut conn = self.options.connect().await?;
        let found = match look(&mut conn, self.application_id).await {
            Ok(Found::Ours { version }) if version <= known => return Ok(Some(conn)),
            Ok(Found::Ours { version }) => Err(StoreError::Newer { found: version, known }),
            Ok(Found::Empty) => Ok(None),
            Ok(Found::Foreign) => Err(StoreError::Damaged),
            Err(error) => Err(error),
        };
        conn.close().await.ok();
        found
    }

    async fn upgrade(&self, conn: &mut SqliteConnection, migrator: &Migrator) -> Result<(), StoreError> {
        let known = migrator.iter().map(|m| m.version).max().unwrap_or(0);
        match look(conn, self.application_id).await? {
            Found::Ours { version } if version == known => Ok(()),
            Found::Ours { version } if version > known => Err(StoreError::Newer { found: version, known }),
            Found::Ours { version } => {
                let backup = self.back_up(conn, version).await?;
                let migrated = migrate(conn, migrator, self.application_id).await;
                if migrated.is_err() {
                    // The original is as it was, and a start that fails again and again must not fill the disk.
                    std::fs::remove_file(backup).ok();
                }
                migrated
            }
            Found::Empty => {
                make_private(&self.path)?;
                switch_to_wal(conn).await?;
                migrate(conn, migrator, self.application_id).await
            }
            Found::Foreign => Err(StoreError::Damaged),
        }
    }

    /// Copies an older database beside itself, before it is changed. A copy that is there already is kept.
    async fn back_up(&self, conn: &mut SqliteConnection, version: i64) -> Result<PathBuf, StoreError> {
        let backup = self.new_backup(version)?;
        let target = backup.to_string_lossy().into_owned();
        if let Err(error) = query("VACUUM INTO ?").bind(target).execute(conn).await {
            std::fs::remove_file(&backup).ok();
            return Err(error.into());
        }
        std::fs::File::open(&backup)?.sync_all()?;
        sync_folder(&backup)?;
        Ok(backup)
    }

    /// An empty file of a name that is free: `agent.db.v1.bak`, `agent.db.v1.bak-2`, …
    fn new_backup(&self, version: i64) -> Result<PathBuf, StoreError> {
        for attempt in 1..1000 {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".v{version}.bak"));
            if attempt > 1 {
                name.push(format!("-{attempt}"));
            }
            match create_private(Path::new(&name)) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                other => return Ok(other.map(|()| name.into())?),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists).into())
    }
}

/// Watches that the files of a database stay where they are: SQLite would go on writing into a deleted or renamed one
/// without a word, and what was acknowledged would be gone with the process.
///
/// Looks at paths alone: closing a descriptor of the database would drop SQLite's locks on it.
#[derive(Debug)]
pub(crate) struct Watch {
    database: PathBuf,
    log: PathBuf,
    database_was: Option<Identity>,
    log_was: Option<Identity>,
}

type Identity = (u64, u64);

impl Watch {
    /// Takes the database that is there now for the one that is open.
    fn new(database: &Path) -> Watch {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let database_was = identity(database).ok();
        Watch { database: database.to_owned(), log: log.into(), database_was, log_was: None }
    }

    /// Two looks at the file system, about a microsecond each. The log is known from the first time that it is seen; it
    /// stays while a connection is open.
    pub(crate) fn check(&mut self) -> Result<(), StoreError> {
        let is_gone = |e: &io::Error| e.kind() == io::ErrorKind::NotFound || e.kind() == io::ErrorKind::NotADirectory;
        let look = |path| match identity(path) {
            Ok(found) => Ok(Some(found)),
            Err(e) if is_gone(&e) => Ok(None),
            Err(e) => Err(StoreError::from(e)),
        };
        if look(&self.database)? != self.database_was {
            return Err(StoreError::Replaced);
        }
        let log = look(&self.log)?;
        if self.log_was.is_some() && log != self.log_was {
            return Err(StoreError::Replaced);
        }
        self.log_was = log;
        Ok(())
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

/// Where an open file cannot be renamed or deleted, that it is there is all there is to know.
#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<Identity> {
    std::fs::metadata(path).map(|_| (0, 0))
}

/// What a file turned out to be.
enum Found {
    Empty,
    Ours { version: i64 },
    Foreign,
}

async fn look(conn: &mut SqliteConnection, application_id: i64) -> Result<Found, StoreError> {
    let sql = "SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), \
               (SELECT count(*) FROM sqlite_schema)";
    let row = sqlx::raw_sql(sql).fetch_one(conn).await?;
    let (version, application): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let tables: i64 = row.try_get(2)?;
    Ok(match (version, application, tables) {
        (version, found, _) if found == application_id && version > 0 => Found::Ours { version },
        (0, 0, 0) => Found::Empty,
        _ => Found::Foreign,
    })
}

/// The switch needs the file for itself and, unlike a write, does not wait for it.
async fn switch_to_wal(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    let mut waited = Duration::ZERO;
    loop {
        match sqlx::raw_sql("PRAGMA journal_mode = WAL").fetch_one(&mut *conn).await.map_err(StoreError::from) {
            Ok(row) if row.try_get::<String, _>(0)? == "wal" => return Ok(()),
            Ok(_) => return Err(StoreError::ReadOnly),
            Err(StoreError::Busy) if waited < BUSY_TIMEOUT => {
                tokio::time::sleep(WAL_RETRY).await;
                waited += WAL_RETRY;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Applies what is missing in one transaction. Another process may have done it meanwhile.
async fn migrate(conn: &mut SqliteConnection, migrator: &Migrator, application_id: i64) -> Result<(), StoreError> {
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *conn).await?;
    let outcome = apply_missing(conn, migrator, application_id).await;
    let end = if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = sqlx::raw_sql(end).execute(&mut *conn).await;
    outcome?;
    ended?;
    Ok(())
}

async fn apply_missing(
    conn: &mut SqliteConnection,
    migrator: &Migrator,
    application_id: i64,
) -> Result<(), StoreError> {
    let row = sqlx::raw_sql("SELECT user_version FROM pragma_user_version").fetch_one(&mut *conn).await?;
    let applied: i64 = row.try_get(0)?;
    let missing: Vec<&Migration> = migrator.iter().filter(|m| m.version > applied).collect();
    for migration in missing {
        sqlx::raw_sql(migration.sql.clone()).execute(&mut *conn).await?;
        let mark = format!("PRAGMA application_id = {application_id}; PRAGMA user_version = {}", migration.version);
        sqlx::raw_sql(sqlx::AssertSqlSafe(mark)).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Every opening passes here before it touches SQLite: closing any descriptor of a file drops the process's locks on it,
/// so the descriptor that makes the file must be gone before anyone locks it.
static CREATING: Mutex<()> = Mutex::new(());

fn create_if_absent(path: &Path) -> Result<(), StoreError> {
    let _creating = CREATING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory).into()),
        Ok(_) => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e.into()),
    }
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    match create_private(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e.into()),
        Ok(()) => Ok(sync_folder(path)?),
    }
}

/// SQLite gives the WAL and the shared memory file the mode of the database. It is 0600 from the first moment; the second
/// step undoes a umask that takes the owner's bits too.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        let file = options.mode(0o600).open(path)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).inspect_err(|_| drop(std::fs::remove_file(path)))
    }
    #[cfg(not(unix))]
    options.open(path).map(drop)
}

/// For an empty file that somebody else made. By path: closing a descriptor of it would drop SQLite's locks.
fn make_private(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(())
}

/// Makes the folder and its missing parents, each 0700 before anything is made in it.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_folder(parent)?;
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => return Ok(()),
        made => made?,
    }
    #[cfg(unix)]
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}

/// A file whose folder entry is not on disk is lost with the power.
fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        return std::fs::File::open(folder)?.sync_all();
    }
    Ok(())
}
