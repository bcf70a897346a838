//! What only a database server does: it goes away, it is somebody else's, processes that share it die.
use std::sync::Arc;

use muretai_protocol::UnixSeconds;
use muretai_store::mailboxes::{Deposited, Event, MailboxError, Mailboxes, Presence, Quotas, open_postgres};
use sqlx::{AssertSqlSafe, Connection, PgConnection, raw_sql};
use tokio::sync::mpsc;

use crate::place::{NOW, Place, did, ids, letter, stored};

/// Runs SQL, at the place's database or beside it.
async fn run(url: &str, sql: impl Into<String>) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    raw_sql(AssertSqlSafe(sql.into())).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

fn server() -> String {
    std::env::var("MURETAI_TEST_POSTGRES").unwrap()
}

/// The name of the place's database.
fn name(place: &Place) -> String {
    let target = place.target();
    let (before, _) = target.split_once('?').unwrap();
    before.rsplit_once('/').unwrap().1.to_owned()
}

async fn refused(url: &str) -> MailboxError {
    open_postgres(url, Quotas::default()).await.err().expect("must be refused")
}

#[tokio::test]
async fn what_is_no_database_of_ours_is_refused() {
    for url in ["mysql://secret@x/y", "relay.db", "postgres:/x", ""] {
        let error = refused(url).await;
        assert!(matches!(error, MailboxError::BadUrl(_)), "{url}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
    let error = refused("postgres://muretai:secret@127.0.0.1:1/none").await;
    assert!(matches!(error, MailboxError::Unreachable(_)), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("secret"));
    let Some(place) = Place::postgres().await else { return };
    run(&place.target(), "CREATE SCHEMA muretai_relay; CREATE TABLE muretai_relay.other (a int)").await;
    assert!(matches!(refused(&place.target()).await, MailboxError::Foreign));
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let Some(place) = Place::postgres().await else { return };
    place.open(Quotas::default()).await.close().await;
    run(&place.target(), "UPDATE muretai_relay.meta SET version = 99").await;
    assert!(matches!(refused(&place.target()).await, MailboxError::Newer { found: 99, known: 2 }));
}

#[tokio::test]
async fn a_database_of_an_older_program_is_brought_up_to_date() {
    let Some(place) = Place::postgres().await else { return };
    let store = place.open(Quotas::default()).await;
    store.put_card(&did(1), 1, "a card with \u{e9}").await.unwrap();
    store.put_invite(&did(1), "code", "an invite", UnixSeconds(NOW.0 + 9), NOW).await.unwrap();
    let counts = store.counts().await.unwrap();
    store.close().await;
    let older = "SET search_path = muretai_relay; ALTER TABLE cards DROP COLUMN size; ALTER TABLE invites DROP COLUMN size; \
                 ALTER TABLE invites DROP COLUMN number; UPDATE meta SET version = 1";
    run(&place.target(), older).await;
    let store = place.open(Quotas::default()).await;
    assert_eq!(store.counts().await.unwrap(), counts);
    assert_eq!(counts.directory_bytes, 14 + 9);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_may_start_at_once() {
    let Some(place) = Place::postgres().await else { return };
    let starting: Vec<_> = (0..6_u32)
        .map(|n| {
            let url = place.target();
            tokio::spawn(async move {
                let store = open_postgres(&url, Quotas::default()).await.unwrap();
                stored(&*store, letter(1, n, "a")).await;
                store.close().await;
            })
        })
        .collect();
    for one in starting {
        one.await.unwrap();
    }
    let store = place.open(Quotas::default()).await;
    assert_eq!(ids(&*store, 1).await.len(), 6);
    store.close().await;
}

async fn resync(events: &mut mpsc::Receiver<Event>) {
    while events.recv().await.unwrap() != Event::Resync {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_away_is_used_again() {
    let Some(place) = Place::postgres().await else { return };
    let store: Arc<dyn Mailboxes> = place.open(Quotas::default()).await.into();
    let mut events = store.events();
    store.set_online(&[(did(1), true)], NOW).await.unwrap();
    let first = stored(&*store, letter(1, 2, "a")).await;

    let name = name(&place);
    let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    // Restarted: nobody notices but for an event.
    run(&server(), &end).await;
    stored(&*store, letter(1, 2, "b")).await;
    assert_eq!(ids(&*store, 1).await, ["a", "b"]);
    resync(&mut events).await;

    // Away: everything fails, and says so.
    run(&server(), format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).await;
    run(&server(), &end).await;
    let away = |error: MailboxError| assert!(matches!(error, MailboxError::Unreachable(_)), "{error:?}");
    away(store.deposit(letter(1, 2, "c")).await.unwrap_err());
    away(store.ack(&did(1), "e", &[first], false).await.unwrap_err());
    away(store.fetch(&did(1), &[], 9, 999).await.unwrap_err());
    away(store.set_online(&[(did(2), true)], NOW).await.unwrap_err());
    away(store.put_card(&did(1), 1, "card").await.unwrap_err());
    away(store.sweep(NOW).await.unwrap_err());

    run(&server(), format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).await;
    assert!(matches!(store.deposit(letter(1, 2, "c")).await.unwrap(), Deposited::Stored(_)));
    assert_eq!(store.ack(&did(1), "e", &[first], false).await.unwrap(), Some(1));
    assert_eq!(ids(&*store, 1).await, ["b", "c"]);
    store.set_online(&[(did(3), true)], NOW).await.unwrap();
    for n in [1, 2, 3] {
        assert!(store.presence(&did(n), NOW).await.unwrap().is_online, "{n} is known again");
    }
    resync(&mut events).await;
    // And what happens elsewhere is heard again.
    let other = place.open(Quotas::default()).await;
    stored(&*other, letter(7, 2, "d")).await;
    while events.recv().await.unwrap() != Event::Letter(did(7)) {}
    other.close().await;
    store.close().await;
}

#[tokio::test]
async fn listeners_of_a_dead_process_are_offline() {
    let Some(place) = Place::postgres().await else { return };
    let dying = place.open(Quotas::default()).await;
    dying.claim(&did(1), "e", NOW).await.unwrap();
    dying.set_online(&[(did(1), true)], NOW).await.unwrap();
    let store = place.open(Quotas::default()).await;
    store.set_online(&[(did(2), true)], NOW).await.unwrap();
    assert!(store.presence(&did(1), NOW).await.unwrap().is_online);
    // It died without a word, long ago.
    drop(dying);
    let older = "UPDATE muretai_relay.processes SET seen = seen - interval '1 hour' \
                 WHERE id = (SELECT process FROM muretai_relay.listeners WHERE did = ";
    run(&place.target(), format!("{older}'{}')", did(1))).await;
    assert_eq!(store.presence(&did(1), NOW).await.unwrap(), Presence { is_online: false, last_seen: None });
    assert!(store.presence(&did(2), NOW).await.unwrap().is_online);

    // One that was only slow is there again with its next word.
    run(&place.target(), format!("{older}'{}')", did(2))).await;
    assert!(!store.presence(&did(2), NOW).await.unwrap().is_online);
    let mut events = store.events();
    store.sweep(NOW).await.unwrap();
    assert!(store.presence(&did(2), NOW).await.unwrap().is_online);
    assert!(store.presence(&did(1), NOW).await.unwrap().last_seen.is_some(), "the dead one is buried");
    resync(&mut events).await;
    store.close().await;
}
