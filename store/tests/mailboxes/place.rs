//! Where a store is: a file in a folder of its own, or a database of its own.
use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use muretai_protocol::{Did, UnixSeconds, did::PublicKey};
use muretai_store::mailboxes::{
    Deposited, Fetched, MailboxError, Mailboxes, NewLetter, Qid, Quotas, open_postgres, open_sqlite,
};
use sqlx::{AssertSqlSafe, Connection};

pub(crate) const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

/// A place that is removed in the end; a database stays until its server goes.
pub(crate) enum Place {
    Sqlite { folder: tempfile::TempDir },
    Postgres { url: String },
}

impl Place {
    pub(crate) fn sqlite() -> Place {
        Place::Sqlite { folder: tempfile::tempdir().unwrap() }
    }

    /// `None`, and said so, when there is no server.
    pub(crate) async fn postgres() -> Option<Place> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Ok(server) = std::env::var("MURETAI_TEST_POSTGRES") else {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "MURETAI_TEST_POSTGRES is not set");
            eprintln!("SKIP: MURETAI_TEST_POSTGRES is not set");
            return None;
        };
        let name = format!("muretai_test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut conn = sqlx::PgConnection::connect(&server).await.unwrap();
        for sql in [format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"), format!("CREATE DATABASE {name}")] {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
        }
        let (before, query) = server.split_once('?').map_or((server.as_str(), ""), |(before, query)| (before, query));
        let (base, _) = before.rsplit_once('/').unwrap();
        Some(Place::Postgres { url: format!("{base}/{name}?{query}") })
    }

    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Place::Postgres { .. })
    }

    /// A file's path, or a URL.
    pub(crate) fn target(&self) -> String {
        match self {
            Place::Sqlite { folder } => folder.path().join("relay/relay.db").to_str().unwrap().to_owned(),
            Place::Postgres { url } => url.clone(),
        }
    }

    pub(crate) async fn open(&self, quotas: Quotas) -> Box<dyn Mailboxes> {
        open(&self.target(), quotas).await.unwrap()
    }
}

pub(crate) async fn open(target: &str, quotas: Quotas) -> Result<Box<dyn Mailboxes>, MailboxError> {
    if target.starts_with("postgres://") {
        open_postgres(target, quotas).await
    } else {
        open_sqlite(&PathBuf::from(target), quotas).await
    }
}

/// After a holder that was killed: the system frees the file when the process is gone.
pub(crate) async fn open_soon(target: &str, quotas: Quotas) -> Box<dyn Mailboxes> {
    for _ in 0..2_000 {
        match open(target, quotas.clone()).await {
            Err(MailboxError::InUse) => tokio::time::sleep(Duration::from_millis(5)).await,
            other => return other.unwrap(),
        }
    }
    panic!("still in use");
}

pub(crate) fn did(n: u32) -> Did {
    let mut key = [9; 32];
    key[..4].copy_from_slice(&n.to_be_bytes());
    Did::from_key(&PublicKey::Ed25519(key))
}

pub(crate) fn letter(to: u32, from: u32, id: impl Into<String>) -> NewLetter {
    let id = id.into();
    NewLetter {
        to: did(to),
        from: did(from),
        blob: format!("box of {id}"),
        id,
        from_enc: Some("ab".repeat(32)),
        ts: NOW,
        awaited_until: None,
    }
}

pub(crate) async fn stored(store: &dyn Mailboxes, letter: NewLetter) -> Qid {
    match store.deposit(letter).await.unwrap() {
        Deposited::Stored(qid) => qid,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn all(store: &dyn Mailboxes, to: u32) -> Fetched {
    store.fetch(&did(to), &[], 10_000, u64::MAX).await.unwrap()
}

pub(crate) async fn ids(store: &dyn Mailboxes, to: u32) -> Vec<String> {
    all(store, to).await.letters.into_iter().map(|letter| letter.id).collect()
}
