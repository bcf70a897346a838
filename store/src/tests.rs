//! What needs a hand inside: failing disks, poisoned rows, older and newer schemas, the way of ids to their index.
use std::{borrow::Cow, path::Path};

use muretai_protocol::{Did, UnixSeconds, did::PublicKey};
use sha2::{Digest, Sha256};
use sqlx::{
    AssertSqlSafe, Row, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
    raw_sql,
    sqlite::SqliteConnectOptions,
};

use crate::{
    Store, StoreError,
    contacts::Relation,
    errands::NewErrand,
    messages::{Committed, OutStatus, Outgoing, Query, Received, Reply, ReplyBy},
    open::{APPLICATION_ID, MIGRATIONS},
    outbox::Keep,
};

const FIRST: &str = include_str!("../migrations/0001_agent.sql");
const SECOND: &str = include_str!("../migrations/0002_trust.sql");

fn did(n: u32) -> Did {
    let mut key = [7; 32];
    key[..4].copy_from_slice(&n.to_be_bytes());
    Did::from_key(&PublicKey::Ed25519(key))
}

fn received(n: u32) -> Received {
    Received {
        from: did(n % 5),
        message_id: format!("id-{n}"),
        context_id: None,
        reply_to: None,
        text: format!("text {n}"),
        timestamp: UnixSeconds(1_800_000_000),
        received: UnixSeconds(1_800_000_000),
        digest: [1; 32],
        sig: "c2ln".to_owned(),
        extra: None,
        is_auto: false,
        reply: Some(Reply {
            message_id: format!("re-{n}"),
            text: "received".to_owned(),
            timestamp: UnixSeconds(1_800_000_000),
            sig: "c2ln".to_owned(),
            is_auto: true,
        }),
        reply_by: None,
        settles: None,
    }
}

async fn fresh() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
    (folder, store)
}

/// Runs SQL on the writing connection.
async fn on_writer(store: &Store, sql: &str) {
    let sql = sql.to_owned();
    store
        .write(|conn| Box::pin(async move { Ok(raw_sql(AssertSqlSafe(sql)).execute(conn).await.map(drop)?) }))
        .await
        .unwrap();
}

async fn number(store: &Store, sql: &'static str) -> i64 {
    store.read(move |conn| Box::pin(async move { Ok(raw_sql(sql).fetch_one(conn).await?.try_get(0)?) })).await.unwrap()
}

/// Commits all at once and gives the outcomes in order.
async fn commit_all(store: &Store, messages: impl IntoIterator<Item = Received>) -> Vec<Result<Committed, StoreError>> {
    let calls: Vec<_> = messages
        .into_iter()
        .map(|message| {
            let store = store.clone();
            tokio::spawn(async move { store.commit_received(message).await })
        })
        .collect();
    let mut outcomes = Vec::new();
    for call in calls {
        outcomes.push(call.await.unwrap());
    }
    outcomes
}

async fn stored_ids(store: &Store) -> Vec<String> {
    store.messages(&Query::default()).await.unwrap().into_iter().map(|row| row.message_id).collect()
}

#[tokio::test]
async fn a_full_disk_fails_everyone_and_is_over_when_there_is_room() {
    let (folder, store) = fresh().await;
    store.commit_received(received(0)).await.unwrap();
    on_writer(&store, "PRAGMA max_page_count = 1").await;
    let large = |n| Received { text: "x".repeat(60_000), ..received(n) };
    for outcome in commit_all(&store, (1..90).map(large)).await {
        assert!(matches!(outcome, Err(StoreError::Full)), "{outcome:?}");
    }
    let outgoing = Outgoing {
        peer: did(1).to_string(),
        message_id: "out".to_owned(),
        context_id: None,
        reply_to: None,
        text: "x".repeat(60_000),
        timestamp: UnixSeconds(1_800_000_000),
        sig: None,
        target: None,
        is_auto: false,
        keep: None,
    };
    assert!(matches!(store.queue_outgoing(&outgoing).await, Err(StoreError::Full)));
    assert_eq!(stored_ids(&store).await, ["id-0"]);
    assert!(store.standing(did(1).as_str(), "id-1").await.unwrap().handled.is_none());

    on_writer(&store, "PRAGMA max_page_count = 1000000").await;
    for outcome in commit_all(&store, (0..90).map(large)).await.into_iter().skip(1) {
        assert!(matches!(outcome, Ok(Committed::Stored { .. })), "{outcome:?}");
    }
    assert_eq!(stored_ids(&store).await.len(), 90);
    store.close().await;
    Store::open(&folder.path().join("agent.db")).await.unwrap().check().await.unwrap();
}

#[tokio::test]
async fn a_read_only_database_fails_everyone_and_can_be_read() {
    let (_folder, store) = fresh().await;
    store.commit_received(received(0)).await.unwrap();
    on_writer(&store, "PRAGMA query_only = 1").await;
    for outcome in commit_all(&store, (1..5).map(received)).await {
        assert!(matches!(outcome, Err(StoreError::ReadOnly)), "{outcome:?}");
    }
    assert!(matches!(store.set_setting("a", Some("b")).await, Err(StoreError::ReadOnly)));
    assert_eq!(stored_ids(&store).await, ["id-0"]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_may_not_be_written_can_still_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, store) = fresh().await;
    store.commit_received(received(0)).await.unwrap();
    store.close().await;
    let path = folder.path().join("agent.db");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
    if std::fs::OpenOptions::new().write(true).open(&path).is_ok() {
        return; // The superuser may write everything.
    }
    let store = Store::open(&path).await.unwrap();
    assert_eq!(stored_ids(&store).await, ["id-0"]);
    assert!(matches!(store.commit_received(received(1)).await, Err(StoreError::ReadOnly)));
}

#[tokio::test]
async fn a_poisoned_row_harms_nobody_else() {
    let (_folder, store) = fresh().await;
    let trigger = "CREATE TEMP TRIGGER poison BEFORE INSERT ON messages WHEN new.text = 'poison' \
                   BEGIN SELECT RAISE(ABORT, 'no'); END";
    on_writer(&store, trigger).await;
    let poisoned =
        |n: u32| if n % 10 == 3 { Received { text: "poison".to_owned(), ..received(n) } } else { received(n) };
    for (n, outcome) in commit_all(&store, (0..40).map(poisoned)).await.into_iter().enumerate() {
        match outcome {
            Ok(Committed::Stored { .. }) => assert_ne!(n % 10, 3),
            Err(StoreError::Sql(_)) => assert_eq!(n % 10, 3),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(stored_ids(&store).await.len(), 36);
    // It was not handled: once it can be stored, it is.
    on_writer(&store, "DROP TRIGGER poison").await;
    assert!(matches!(store.commit_received(poisoned(3)).await, Ok(Committed::Stored { .. })));
}

#[tokio::test]
async fn another_writer_is_waited_for() {
    let (folder, store) = fresh().await;
    let path = folder.path().join("agent.db");
    let options = SqliteConnectOptions::new().filename(&path);
    let mut other = sqlx::ConnectOptions::connect(&options).await.unwrap();
    raw_sql("BEGIN IMMEDIATE; INSERT INTO settings VALUES ('a', 'other')").execute(&mut other).await.unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.commit_received(received(0)).await }
    });
    // Reading does not wait.
    assert_eq!(store.setting("a").await.unwrap(), None);
    assert!(!waiting.is_finished());
    raw_sql("COMMIT").execute(&mut other).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Ok(Committed::Stored { .. })));
    assert_eq!(store.setting("a").await.unwrap().as_deref(), Some("other"));
}

#[tokio::test]
async fn ids_stay_handled_on_their_way_to_the_index() {
    let (folder, store) = fresh().await;
    let path = folder.path().join("agent.db");
    let other = Store::open(&path).await.unwrap();
    for round in 0..25_u32 {
        let messages = (round * 80..round * 80 + 80).map(received);
        for outcome in commit_all(if round % 5 == 4 { &other } else { &store }, messages).await {
            assert!(matches!(outcome, Ok(Committed::Stored { .. })), "{outcome:?}");
        }
    }
    assert!(number(&store, "SELECT count(*) FROM handled").await > 900);
    assert!(number(&store, "SELECT sum(length(entries)) / 48 FROM handled_log").await < 900);
    other.close().await;
    store.close().await;

    let store = Store::open(&path).await.unwrap();
    for n in [0, 299, 300, 700, 1500, 1999] {
        let standing = store.standing(received(n).from.as_str(), &received(n).message_id).await.unwrap();
        assert!(standing.handled.is_some(), "{n}");
    }
    let outcomes = commit_all(&store, (0..2100).map(received)).await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let is_new = matches!(outcome, Ok(Committed::Stored { .. }));
        assert_eq!(is_new, n >= 2000, "{n}: {outcome:?}");
    }
    assert_eq!(stored_ids(&store).await.len(), 2100);
}

#[tokio::test]
async fn seqs_are_never_given_twice() {
    let (_folder, store) = fresh().await;
    let Committed::Stored { seq } = store.commit_received(received(0)).await.unwrap() else { panic!("new") };
    on_writer(&store, "DELETE FROM messages").await;
    let Committed::Stored { seq: later } = store.commit_received(received(1)).await.unwrap() else { panic!("new") };
    assert!(later > seq + 1);
}

#[tokio::test]
async fn the_log_does_not_grow_without_bound() {
    let (folder, store) = fresh().await;
    let large = |n| Received { text: "x".repeat(60_000), ..received(n) };
    let mut most = 0;
    for round in 0..20_u32 {
        commit_all(&store, (round * 50..round * 50 + 50).map(large)).await;
        most = most.max(std::fs::metadata(folder.path().join("agent.db-wal")).unwrap().len());
    }
    // 60 MB went through it.
    assert!(most < 40 << 20, "{most}");
    store.close().await;
    assert!(!folder.path().join("agent.db-wal").exists());
}

#[tokio::test]
async fn the_oldest_errand_goes_when_there_are_too_many() {
    let (_folder, store) = fresh().await;
    let errand = NewErrand {
        kind: "propose".to_owned(),
        peer: did(1),
        payload: "{}".to_owned(),
        created: UnixSeconds(0),
        expires: UnixSeconds(9),
    };
    let first = store.add_errand(&errand).await.unwrap();
    let copies = "INSERT INTO errands (peer, due, attempts, created, expires, kind, payload) \
                  WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) \
                  SELECT peer, 0, 0, 0, 9, kind, payload FROM errands, n";
    on_writer(&store, copies).await;
    assert_eq!(number(&store, "SELECT count(*) FROM errands").await, 10_001);
    store.add_errand(&errand).await.unwrap();
    assert_eq!(number(&store, "SELECT count(*) FROM errands").await, 10_000);
    assert_eq!(store.errands().await.unwrap()[0].id, first + 2);
}

fn outgoing(id: &str, is_auto: bool) -> Outgoing {
    Outgoing {
        peer: did(1).to_string(),
        message_id: id.to_owned(),
        context_id: None,
        reply_to: None,
        text: "hello".to_owned(),
        timestamp: UnixSeconds(1_800_000_000),
        sig: None,
        target: None,
        is_auto,
        keep: Some(Keep {
            expires: UnixSeconds(1_800_001_000),
            via: None,
            allow_private: false,
            extra: None,
            relay: None,
            enc_pub: None,
            lease: None,
        }),
    }
}

// The limits are small in these tests: 50 messages, 20 replies and notices.
#[tokio::test]
async fn the_outbox_is_bounded_and_the_owners_words_stay() {
    let (_folder, store) = fresh().await;
    for n in 0..50 {
        store.queue_outgoing(&outgoing(&format!("m{n}"), false)).await.unwrap();
    }
    let refused = store.queue_outgoing(&outgoing("m50", false)).await;
    assert!(matches!(refused, Err(StoreError::OutboxFull { limit: 50 })), "{refused:?}");
    assert!(store.outgoing("m50").await.unwrap().is_none(), "nothing of it is kept");

    // Replies push notices out, and only then each other.
    store.queue_outgoing(&outgoing("notice", true)).await.unwrap();
    let reply = |n: u32, is_auto| {
        let mut message = received(n);
        message.reply.as_mut().unwrap().is_auto = is_auto;
        Received { reply_by: Some(ReplyBy::default()), ..message }
    };
    commit_all(&store, (100..110).map(|n| reply(n, true))).await;
    commit_all(&store, (200..230).map(|n| reply(n, false))).await;
    let rows = store.outbox(true).await.unwrap();
    assert_eq!(rows.iter().filter(|row| !row.is_reply && !row.is_auto).count(), 50);
    let replies: Vec<_> = rows.iter().filter(|row| row.is_reply).collect();
    assert_eq!((replies.len(), rows.len()), (20, 70));
    assert!(replies.iter().all(|row| !row.is_auto));
    assert_eq!(store.outgoing("notice").await.unwrap().unwrap().status, Some(OutStatus::Failed));
    assert_eq!(number(&store, "SELECT count(*) FROM messages WHERE status = 3 AND direction = 1").await, 21);
    // There is room again.
    store.drop_outgoing("m7").await.unwrap().unwrap();
    store.queue_outgoing(&outgoing("m50", false)).await.unwrap();
}

#[tokio::test]
async fn a_message_whose_reply_cannot_be_kept_was_not_handled() {
    let (_folder, store) = fresh().await;
    on_writer(&store, "CREATE TEMP TRIGGER no_room BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'no'); END").await;
    let letter = |n| Received { reply_by: Some(ReplyBy::default()), ..received(n) };
    let mixed = (0..20).map(|n| if n % 2 == 0 { letter(n) } else { received(n) });
    for (n, outcome) in commit_all(&store, mixed).await.into_iter().enumerate() {
        assert_eq!(outcome.is_ok(), n % 2 == 1, "{n}: {outcome:?}");
    }
    assert_eq!(stored_ids(&store).await.len(), 10);
    assert!(store.standing(received(0).from.as_str(), "id-0").await.unwrap().handled.is_none());
    on_writer(&store, "DROP TRIGGER no_room").await;
    for outcome in commit_all(&store, (0..20).map(letter)).await.into_iter().step_by(2) {
        assert!(matches!(outcome, Ok(Committed::Stored { .. })), "{outcome:?}");
    }
    assert_eq!(store.outbox(true).await.unwrap().len(), 10);
}

#[test]
fn shipped_migrations_are_frozen() {
    // Changing a shipped file would make two schemas of one version: write a new one instead.
    let frozen = [
        (1, "cbd036394f4d39d116998e46200795777153c5997330be0368cd3a49961e6a04"),
        (2, "55133d90c5e42b0bd351c938513cf62f3679c73cb23d1783d401c29989ecb13c"),
        (3, "28589da8498125440c60db9fec18a2ab4627da0dc1a03df29f372f574c7d4e86"),
    ];
    let found: Vec<(i64, String)> = MIGRATIONS.iter().map(|m| (m.version, sha256(m.sql.as_str()))).collect();
    assert_eq!(found.len(), frozen.len());
    for ((version, hash), (frozen_version, frozen_hash)) in found.iter().zip(frozen) {
        assert_eq!((*version, hash.as_str()), (frozen_version, frozen_hash));
    }
    assert!(MIGRATIONS.iter().all(|m| !m.sql.as_str().contains('\r')));
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn the_committed_schema_is_the_schema() {
    let (_folder, store) = fresh().await;
    let schema: String = store
        .read(|conn| {
            Box::pin(async move {
                let sql = "SELECT group_concat(sql || ';', char(10, 10) ORDER BY rowid) || char(10) FROM sqlite_schema \
                           WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'";
                Ok(raw_sql(sql).fetch_one(conn).await?.try_get(0)?)
            })
        })
        .await
        .unwrap();
    if std::env::var_os("MURETAI_UPDATE_SCHEMA").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/schema.sql"), &schema).unwrap();
    }
    let committed = include_str!("../schema.sql");
    assert!(schema == committed, "store/schema.sql is stale: run this test with MURETAI_UPDATE_SCHEMA=1\n{schema}");
}

/// A database as version 1 left it, made from the frozen text by SQLite alone.
async fn version_1(path: &Path) {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let mut conn = sqlx::ConnectOptions::connect(&options).await.unwrap();
    raw_sql("PRAGMA journal_mode = WAL").execute(&mut conn).await.unwrap();
    raw_sql(FIRST).execute(&mut conn).await.unwrap();
    let rows = format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1; \
         INSERT INTO peers VALUES (1, '{0}'); \
         INSERT INTO contacts VALUES (1, 'north', NULL, 1, 0, NULL, NULL, NULL, 0, 0, 5, NULL); \
         INSERT INTO messages VALUES (1, 1, 0, 1, 0, 1, NULL, NULL, 5, 6, 'old', NULL, NULL, 's', 'from long ago', NULL); \
         INSERT INTO invites VALUES (1, 'n1', 'c1', 'card', 'note', 5, 6, NULL, 1, 7); \
         INSERT INTO settings VALUES ('name', 'south'); \
         INSERT INTO handled VALUES (x'{2}', x'{3}'); \
         INSERT INTO handled_log VALUES (1, x'{1}')",
        did(1),
        "00".repeat(48),
        "01".repeat(16),
        "02".repeat(32),
    );
    raw_sql(AssertSqlSafe(rows)).execute(&mut conn).await.unwrap();
    sqlx::Connection::close(conn).await.unwrap();
}

#[tokio::test]
async fn a_database_of_version_1_opens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    version_1(&path).await;
    let store = Store::open(&path).await.unwrap();
    assert_eq!(stored_ids(&store).await, ["old"]);
    let north = store.contact_named("north").await.unwrap().unwrap();
    assert_eq!((north.did, north.relation, north.added), (did(1), Relation::Direct, UnixSeconds(5)));
    assert!(north.expertise.is_empty());
    assert!(store.set_expertise(&did(1), &["rust".to_owned()]).await.unwrap());
    let invite = store.invites().await.unwrap().remove(0);
    assert_eq!((invite.note.as_deref(), invite.used_by), (Some("note"), Some(did(1))));
    assert_eq!(store.setting("name").await.unwrap().as_deref(), Some("south"));
    for table in [
        "SELECT count(*) FROM peers",
        "SELECT count(*) FROM contacts",
        "SELECT count(*) FROM invites",
        "SELECT count(*) FROM messages",
        "SELECT count(*) FROM handled",
        "SELECT count(*) FROM handled_log",
        "SELECT count(*) FROM settings",
    ] {
        assert_eq!(number(&store, table).await, 1, "{table}");
    }
    assert_eq!(store.commit_received(received(7)).await.unwrap(), Committed::Stored { seq: 2 });
    let queued = Outgoing {
        peer: did(1).to_string(),
        message_id: "out".to_owned(),
        context_id: None,
        reply_to: None,
        text: "hello".to_owned(),
        timestamp: UnixSeconds(1_800_000_000),
        sig: None,
        target: None,
        is_auto: false,
        keep: None,
    };
    let seq = store.queue_outgoing(&queued).await.unwrap();
    store.record_outcome(seq, OutStatus::Refused, None).await.unwrap();
    let newest = MIGRATIONS.iter().map(|m| m.version).max().unwrap();
    let backups = std::fs::read_dir(folder.path())
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().contains(".bak"));
    assert_eq!(backups.count(), usize::from(newest > 1));
}

/// A database as version 2 left it.
async fn version_2(path: &Path) {
    version_1(path).await;
    let options = SqliteConnectOptions::new().filename(path);
    let mut conn = sqlx::ConnectOptions::connect(&options).await.unwrap();
    raw_sql(SECOND).execute(&mut conn).await.unwrap();
    let rows = "PRAGMA user_version = 2; \
         UPDATE contacts SET relay = 'https://relay.example', enc_pub = 'ab'; \
         INSERT INTO messages VALUES (2, 1, 1, 0, 0, 1, 0, NULL, 5, 6, 'out', NULL, NULL, 's', 'under way', NULL); \
         INSERT INTO settings VALUES ('target:out', 'south.example')";
    raw_sql(rows).execute(&mut conn).await.unwrap();
    sqlx::Connection::close(conn).await.unwrap();
}

#[tokio::test]
async fn a_database_of_version_2_opens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    version_2(&path).await;
    let store = Store::open(&path).await.unwrap();
    let north = store.contact_named("north").await.unwrap().unwrap();
    assert_eq!(north.coordinates.relay.as_deref(), Some("https://relay.example"));
    assert_eq!((north.coordinates.enc_pub.as_deref(), north.coordinates.enc_pub_pq), (Some("ab"), None));
    // What was queued before there was an outbox is sent again when its owner says so.
    let row = store.outgoing("out").await.unwrap().unwrap();
    assert_eq!((row.status, row.code), (Some(OutStatus::Queued), None));
    assert!(store.outbox(true).await.unwrap().is_empty());
    assert!(store.take_outbox(UnixSeconds(i64::MAX), UnixSeconds(i64::MAX), 9).await.unwrap().is_empty());
    store.record_refused(row.seq, -32010).await.unwrap();
    assert_eq!(store.outgoing("out").await.unwrap().unwrap().code, Some(-32010));
    assert!(folder.path().join("agent.db.v2.bak").exists());
}

/// The migrations of today and one more.
fn migrator_of_tomorrow(sql: &'static str) -> Migrator {
    let mut all: Vec<Migration> = MIGRATIONS.iter().cloned().collect();
    let version = all.len() as i64 + 1;
    all.push(Migration::new(version, Cow::Borrowed("more"), MigrationType::Simple, sql.into_sql_str(), false));
    Migrator::with_migrations(all)
}

#[tokio::test]
async fn an_older_database_is_copied_then_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a'b ü?.db");
    version_1(&path).await;
    let migrator = migrator_of_tomorrow("ALTER TABLE peers ADD COLUMN more TEXT; UPDATE peers SET more = 'x'");
    let store = Store::open_with(&path, &migrator).await.unwrap();
    assert_eq!(number(&store, "SELECT count(*) FROM peers WHERE more = 'x'").await, 1);
    assert_eq!(stored_ids(&store).await, ["old"]);
    store.close().await;

    let backup = folder.path().join("a'b ü?.db.v1.bak");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let old = Store::open(&backup).await.unwrap();
    assert_eq!(stored_ids(&old).await, ["old"]);
    old.close().await;

    // The program of today refuses it and changes nothing.
    let before = std::fs::read(&path).unwrap();
    let refused = Store::open(&path).await.unwrap_err();
    assert!(matches!(refused, StoreError::Newer { found: 4, known: 3 }), "{refused:?}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_migration_that_fails_leaves_the_old_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    version_1(&path).await;
    let broken = migrator_of_tomorrow("CREATE TABLE more (a) STRICT; INSERT INTO nowhere VALUES (1)");
    for _ in 0..2 {
        assert!(Store::open_with(&path, &broken).await.is_err());
        // A start that fails again and again must not fill the disk with copies.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    let store = Store::open(&path).await.unwrap();
    assert_eq!(stored_ids(&store).await, ["old"]);
    assert_eq!(number(&store, "SELECT count(*) FROM sqlite_schema WHERE name = 'more'").await, 0);
}

#[tokio::test]
async fn a_database_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    for sql in ["CREATE TABLE t (a)", "PRAGMA user_version = 1", "PRAGMA user_version = 1; PRAGMA application_id = 7"] {
        let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
        let mut conn = sqlx::ConnectOptions::connect(&options).await.unwrap();
        raw_sql(sql).execute(&mut conn).await.unwrap();
        sqlx::Connection::close(conn).await.unwrap();
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(Store::open(&path).await, Err(StoreError::Damaged)), "{sql}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        std::fs::remove_file(&path).unwrap();
    }
}
