//! PostgreSQL for tests that need it: one database for each test, in the server that `MURETAI_TEST_POSTGRES` names
//! (`tests/postgres.sh` starts one).
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{Connection, Executor, PgConnection};

use crate::rpc;

/// A database of its own, dropped with this.
pub struct Database {
    server: String,
    name: String,
    /// Its URL, for `relay serve --store`.
    pub url: String,
}

impl Database {
    /// Makes one; `None`, with a printed skip, where there is no server. In CI that is a fault.
    pub fn new() -> Option<Database> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Ok(server) = std::env::var("MURETAI_TEST_POSTGRES") else {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "MURETAI_TEST_POSTGRES names no server");
            eprintln!("SKIP no PostgreSQL: MURETAI_TEST_POSTGRES is not set, see tests/postgres.sh");
            return None;
        };
        let name = format!("muretai_{}_{}_{}", std::process::id(), rpc::now(), NEXT.fetch_add(1, Ordering::Relaxed));
        run(&server, &format!("CREATE DATABASE {name}"));
        let url = with_database(&server, &name);
        Some(Database { server, name, url })
    }
}

impl Database {
    /// Its name at the server.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        run(&self.server, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// Runs one statement.
pub fn run(url: &str, statement: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut conn = PgConnection::connect(url).await.unwrap_or_else(|error| panic!("PostgreSQL: {error}"));
        conn.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned()))).await.unwrap();
        conn.close().await.unwrap();
    });
}

/// The URL of another database of the same server.
fn with_database(url: &str, name: &str) -> String {
    let (rest, options) =
        url.split_once('?').map_or((url, String::new()), |(rest, options)| (rest, format!("?{options}")));
    let at = rest.find("://").expect("a URL") + 3;
    let end = rest[at..].find('/').map_or(rest.len(), |slash| at + slash);
    format!("{}/{name}{options}", &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_url_is_exchanged() {
        for (url, other) in [
            ("postgres://a:b@127.0.0.1:5433/postgres", "postgres://a:b@127.0.0.1:5433/x"),
            ("postgres://127.0.0.1", "postgres://127.0.0.1/x"),
            ("postgres:///postgres?host=/run/pg", "postgres:///x?host=/run/pg"),
        ] {
            assert_eq!(with_database(url, "x"), other);
        }
    }
}
