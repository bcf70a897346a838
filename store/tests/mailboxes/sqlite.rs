//! The file of one relay: private, its own, of one process.
use std::path::Path;

use muretai_protocol::UnixSeconds;
use muretai_store::mailboxes::{MailboxError, Quotas, open_sqlite};
use sqlx::{Connection, SqliteConnection, raw_sql, sqlite::SqliteConnectOptions};

use crate::place::{NOW, all, did, ids, letter, stored};

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn refused(path: &Path) -> MailboxError {
    open_sqlite(path, Quotas::default()).await.err().expect("must be refused")
}

#[tokio::test]
async fn a_new_file_and_its_folder_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home/relay/relay.db");
    let store = open_sqlite(&path, Quotas::default()).await.unwrap();
    stored(&*store, letter(1, 2, "a")).await;
    let home = path.parent().unwrap();
    assert_eq!(files(home), ["relay.db", "relay.db-shm", "relay.db-wal", "relay.db.lock"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(home), 0o700);
        for name in files(home) {
            assert_eq!(mode(&home.join(&name)), 0o600, "{name}");
        }
    }
    store.close().await;
    assert_eq!(files(home), ["relay.db", "relay.db.lock"]);
}

#[tokio::test]
async fn any_name_is_a_path_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a b", "file:x?mode=memory", ":memory:", "q'uote\"s", "日本"] {
        let path = folder.path().join(name).join(name);
        let store = open_sqlite(&path, Quotas::default()).await.unwrap();
        stored(&*store, letter(1, 2, name)).await;
        store.close().await;
        let store = open_sqlite(&path, Quotas::default()).await.unwrap();
        assert_eq!(ids(&*store, 1).await, [name]);
        store.close().await;
    }
    assert_eq!(files(folder.path()).len(), 5);
}

#[tokio::test]
async fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.db");
    let store = open_sqlite(&path, Quotas::default()).await.unwrap();
    assert!(matches!(refused(&path).await, MailboxError::InUse));
    stored(&*store, letter(1, 2, "a")).await;
    assert!(matches!(refused(&path).await, MailboxError::InUse));
    store.close().await;
    let store = open_sqlite(&path, Quotas::default()).await.unwrap();
    assert_eq!(all(&*store, 1).await.letters.len(), 1);
}

#[tokio::test]
async fn what_is_not_a_relays_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.db");
    for content in [b"hello".to_vec(), vec![0; 5_000], vec![0xff; 70_000]] {
        std::fs::write(&path, &content).unwrap();
        assert!(matches!(refused(&path).await, MailboxError::Foreign));
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    assert!(matches!(refused(folder.path()).await, MailboxError::Io(_)));
    // An agent's database is no relay's, and the other way round.
    let agents = folder.path().join("agent.db");
    muretai_store::Store::open(&agents).await.unwrap().close().await;
    assert!(matches!(refused(&agents).await, MailboxError::Foreign));
    let relays = folder.path().join("other.db");
    open_sqlite(&relays, Quotas::default()).await.unwrap().close().await;
    assert!(muretai_store::Store::open(&relays).await.is_err());
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.db");
    open_sqlite(&path, Quotas::default()).await.unwrap().close().await;
    let mut conn = SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(&path)).await.unwrap();
    raw_sql("PRAGMA user_version = 99").execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    assert!(matches!(refused(&path).await, MailboxError::Newer { found: 99, known: 2 }));
}

#[tokio::test]
async fn a_file_of_an_older_program_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.db");
    let store = open_sqlite(&path, Quotas::default()).await.unwrap();
    stored(&*store, letter(1, 2, "a")).await;
    store.put_card(&did(1), 1, "a card with \u{e9}").await.unwrap();
    store.put_invite(&did(1), "code", "an invite", UnixSeconds(NOW.0 + 9), NOW).await.unwrap();
    let counts = store.counts().await.unwrap();
    store.close().await;
    let mut conn = SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(&path)).await.unwrap();
    let older = "DROP INDEX cards_by_size; DROP INDEX invites_by_size; ALTER TABLE cards DROP COLUMN size; \
                 ALTER TABLE invites DROP COLUMN size; PRAGMA user_version = 1";
    raw_sql(older).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    let store = open_sqlite(&path, Quotas::default()).await.unwrap();
    assert_eq!(store.counts().await.unwrap(), counts);
    assert_eq!(counts.directory_bytes, 14 + 9);
    assert_eq!(ids(&*store, 1).await, ["a"]);
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_is_acknowledged_once_the_file_is_not_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.db");
    let store = open_sqlite(&path, Quotas::default()).await.unwrap();
    stored(&*store, letter(1, 2, "a")).await;
    std::fs::rename(&path, folder.path().join("away.db")).unwrap();
    let error = store.deposit(letter(1, 2, "b")).await.unwrap_err();
    assert!(matches!(error, MailboxError::Replaced), "{error:?}");
}
