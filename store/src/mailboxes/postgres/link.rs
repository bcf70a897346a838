//! How to reach the database.
use std::{str::FromStr, time::Duration};

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
    raw_sql,
};

use crate::mailboxes::{
    MailboxError,
    postgres::failure::{Kind, kind, too_late},
};

/// The schema that everything is in.
pub(super) const SCHEMA: &str = "muretai_relay";

/// How long a connection may take to come about, and to become free.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections for what needs none of its own.
const POOL_SIZE: u32 = 6;
/// One that was idle for longer is asked whether it lives.
const DOUBTED_AFTER: Duration = Duration::from_secs(1);

/// Where the database is and how sessions are set up.
#[derive(Clone)]
pub(super) struct Link {
    options: PgConnectOptions,
}

impl Link {
    pub(super) fn new(url: &str) -> Result<Link, MailboxError> {
        let is_ours = url.starts_with("postgres://") || url.starts_with("postgresql://");
        // The URL may hold a password: what is shown is not the URL.
        let bad = || MailboxError::BadUrl(url.split_once("://").map_or(url, |(scheme, _)| scheme).to_owned());
        if !is_ours {
            return Err(bad());
        }
        let options = PgConnectOptions::from_str(url).map_err(|_| bad())?;
        // Every query here goes by an index. A plan that was made while a table was empty must not read all of it later.
        let options = options.application_name("muretai-relay").disable_statement_logging().options([
            ("search_path", SCHEMA),
            ("enable_seqscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("jit", "off"),
            ("statement_timeout", "15s"),
            ("idle_in_transaction_session_timeout", "30s"),
            ("default_transaction_isolation", "read committed"),
        ]);
        Ok(Link { options })
    }

    /// A connection whose commits are on disk before they are answered, whatever the server's default.
    pub(super) async fn durable(&self) -> Result<PgConnection, sqlx::Error> {
        let mut conn = self.connect().await?;
        set_durable(&mut conn).await?;
        Ok(conn)
    }

    /// For what is true only while processes live: it does not wait for the disk.
    pub(super) async fn volatile(&self) -> Result<PgConnection, sqlx::Error> {
        let mut conn = self.connect().await?;
        raw_sql("SET synchronous_commit = off").execute(&mut conn).await?;
        Ok(conn)
    }

    async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        match tokio::time::timeout(CONNECT_TIMEOUT, self.options.connect()).await {
            Ok(Ok(conn)) => Ok(conn),
            Ok(Err(error)) => Err(unreachable(error)),
            Err(_) => Err(too_late()),
        }
    }

    pub(super) fn pool(&self) -> PgPool {
        PgPoolOptions::new()
            .max_connections(POOL_SIZE)
            .acquire_timeout(CONNECT_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire(|conn, about| {
                Box::pin(async move {
                    if about.idle_for > DOUBTED_AFTER {
                        conn.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_connect(|conn, _| Box::pin(set_durable(conn)))
            .connect_lazy_with(self.options.clone())
    }

    /// A pool of one, which is what a listener asks for.
    pub(super) fn pool_of_one(&self) -> PgPool {
        PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT_TIMEOUT)
            .max_lifetime(None)
            .idle_timeout(None)
            .connect_lazy_with(self.options.clone())
    }
}

async fn set_durable(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    let sql = "SELECT set_config('synchronous_commit', 'on', false) \
               WHERE current_setting('synchronous_commit') = 'off'";
    raw_sql(sql).execute(conn).await.map(drop)
}

/// Whatever refuses a connection, the server is not to be had.
fn unreachable(error: sqlx::Error) -> sqlx::Error {
    match kind(&error) {
        Kind::Gone => error,
        _ => sqlx::Error::Io(std::io::Error::other(error)),
    }
}

/// Ends whatever transaction is left.
pub(super) async fn roll_back(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    raw_sql("ROLLBACK").execute(conn).await.map(drop)
}

/// Numbers only, so that nothing needs to be bound.
pub(super) fn listed(numbers: impl IntoIterator<Item = i64>) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    numbers.join(",")
}

/// SQL that was put together from numbers, names of our own and DIDs, which hold nothing that SQL reads.
pub(super) fn safe(sql: String) -> AssertSqlSafe<String> {
    AssertSqlSafe(sql)
}
