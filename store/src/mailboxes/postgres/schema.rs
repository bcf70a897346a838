//! Makes the schema, checks whose it is, and brings it up to date: in one transaction, one process at a time.
use sqlx::{PgConnection, Row, migrate::Migrator, raw_sql};

use crate::mailboxes::{
    MailboxError,
    postgres::link::{SCHEMA, roll_back, safe},
};

/// The migrations that this program knows, in order.
pub(in crate::mailboxes) static MIGRATIONS: Migrator = sqlx::migrate!("./migrations-relay/postgres");

/// Advisory locks of ours, below `mrtr`: an application that shares the database has others.
pub(super) const LOCK_MIGRATE: i64 = 0x6d72_7472_0001;
pub(super) const LOCK_TOTALS: i64 = 0x6d72_7472_0002;
pub(super) const LOCK_SWEEP: i64 = 0x6d72_7472_0003;

pub(super) async fn prepare(conn: &mut PgConnection) -> Result<(), MailboxError> {
    // A migration, or the wait for another process's, may take its time.
    raw_sql("BEGIN; SET LOCAL statement_timeout = 0").execute(&mut *conn).await?;
    match upgrade(conn, &MIGRATIONS).await {
        Ok(()) => Ok(raw_sql("COMMIT").execute(conn).await.map(drop)?),
        Err(error) => {
            roll_back(conn).await.ok();
            Err(error)
        }
    }
}

async fn upgrade(conn: &mut PgConnection, migrator: &Migrator) -> Result<(), MailboxError> {
    let known = migrator.iter().map(|m| m.version).max().unwrap_or(0);
    raw_sql(safe(format!("SELECT pg_advisory_xact_lock({LOCK_MIGRATE})"))).execute(&mut *conn).await?;
    let found = look(conn).await?;
    if found > known {
        return Err(MailboxError::Newer { found, known });
    }
    if found == known {
        return Ok(());
    }
    raw_sql(safe(format!("CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))).execute(&mut *conn).await?;
    for migration in migrator.iter().filter(|m| m.version > found) {
        raw_sql(migration.sql.clone()).execute(&mut *conn).await?;
        raw_sql(safe(format!("UPDATE meta SET version = {}", migration.version))).execute(&mut *conn).await?;
    }
    Ok(())
}

/// The version that is there; 0 when the schema is absent or holds nothing.
async fn look(conn: &mut PgConnection) -> Result<i64, MailboxError> {
    let row = raw_sql(safe(format!(
        "SELECT to_regclass('{SCHEMA}.meta') IS NOT NULL, \
         (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('{SCHEMA}'))"
    )))
    .fetch_one(&mut *conn)
    .await?;
    let (has_meta, relations): (bool, i64) = (row.try_get(0)?, row.try_get(1)?);
    if !has_meta {
        return if relations == 0 { Ok(0) } else { Err(MailboxError::Foreign) };
    }
    let Ok(row) = raw_sql("SELECT version FROM meta").fetch_one(conn).await else { return Err(MailboxError::Foreign) };
    row.try_get(0).map_err(|_| MailboxError::Foreign)
}
