//! The group commit: everything that waits goes into one transaction, in few statements.
//!
//! The first attempt takes every message for new, which is nearly always so. A duplicate fails it as a whole; the second
//! attempt looks every id up. A row that still fails makes each message try alone, so that it harms nobody else. Errors
//! that are about no row (full disk, another writer) fail everyone at once.
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, LazyLock},
};

use sqlx::{Arguments, AssertSqlSafe, Row, SqliteConnection, query, query_with, sqlite::SqliteArguments};
use tokio::sync::oneshot;

use crate::{
    StoreError,
    key::KEY_BYTES,
    messages::{Committed, Received},
    writer::{begin, commit, roll_back},
};

/// Messages in one transaction.
pub(crate) const MAX_BATCH: usize = 256;
/// Messages in one statement.
const MAX_CHUNK: usize = 64;
/// Addresses whose numbers are kept in memory; numbers never change.
const MAX_KNOWN_PEERS: usize = 4096;
/// A contact's `last_seen` is written when it is older than this: one small update a minute, not one a message.
const SEEN_EVERY_SECS: i64 = 60;

/// A message and who waits for it.
pub(crate) struct Pending {
    pub(crate) message: Received,
    pub(crate) key: [u8; KEY_BYTES],
    pub(crate) answer: oneshot::Sender<Result<Committed, StoreError>>,
}

/// Collects messages and commits them together.
#[derive(Default)]
pub(crate) struct Batch {
    pending: Vec<Pending>,
    peers: HashMap<Box<str>, Peer>,
}

#[derive(Clone, Copy)]
struct Peer {
    id: i64,
    seen: i64,
}

/// `STATEMENTS[i]` takes up to `2^i` messages; rows that are not needed are bound to NULL and skipped.
static STATEMENTS: LazyLock<Vec<Statement>> =
    LazyLock::new(|| (0..=MAX_CHUNK.ilog2()).map(|power| Statement::new(1 << power)).collect());

struct Statement {
    insert: Arc<str>,
    /// With `BEGIN` and `COMMIT` around it: one trip to the connection's thread for a whole batch.
    alone: Arc<str>,
}

impl Statement {
    fn new(messages: usize) -> Statement {
        let ids = vec!["(?,?)"; messages].join(",");
        let rows = vec!["(?,?,?,?,?,?,?,?,?,?,?)"; 2 * messages].join(",");
        // OR ROLLBACK saves the journal that undoing half a statement would need; a failure ends the transaction anyway.
        let insert = format!(
            "INSERT OR ROLLBACK INTO handled (key, digest) SELECT column1, column2 FROM (VALUES {ids}) \
             WHERE column1 IS NOT NULL; \
             INSERT OR ROLLBACK INTO messages (peer, direction, is_auto, timestamp, received, message_id, reply_to, \
             context_id, sig, text, extra, is_unread, is_verified) \
             SELECT column1, column2, column3, column4, column5, column6, column7, column8, column9, column10, column11, \
             column2 = 0, 1 FROM (VALUES {rows}) WHERE column1 IS NOT NULL"
        );
        Statement { alone: format!("BEGIN IMMEDIATE; {insert}; COMMIT").into(), insert: insert.into() }
    }
}

impl Batch {
    pub(crate) fn push(&mut self, one: Pending) {
        self.pending.push(one);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Commits what was pushed and answers everyone. Gives whether the connection can be used further.
    pub(crate) async fn commit(&mut self, conn: Result<&mut SqliteConnection, StoreError>) -> bool {
        let pending = std::mem::take(&mut self.pending);
        let conn = match conn {
            Ok(conn) => conn,
            Err(error) => return fail(pending, &error),
        };
        let mut outcome = self.store(conn, &pending).await;
        if outcome.as_ref().is_err_and(StoreError::is_about_a_row) {
            outcome = self.store_carefully(conn, &pending).await;
        }
        match outcome {
            Ok(committed) => {
                for (one, outcome) in pending.into_iter().zip(committed) {
                    one.answer.send(Ok(outcome)).ok();
                }
                true
            }
            Err(error) if error.is_about_a_row() && pending.len() > 1 => {
                for one in pending {
                    let alone = self.store_carefully(conn, std::slice::from_ref(&one)).await;
                    let outcome = alone.map(|committed| committed[0]);
                    one.answer.send(outcome).ok();
                }
                true
            }
            Err(error) => fail(pending, &error),
        }
    }

    /// Stores all as new: any duplicate is an error.
    async fn store(&mut self, conn: &mut SqliteConnection, all: &[Pending]) -> Result<Vec<Committed>, StoreError> {
        let all: Vec<&Pending> = all.iter().collect();
        if all.len() <= MAX_CHUNK
            && let Some(peers) = self.known_and_seen(&all)
        {
            let statement = &STATEMENTS[power(all.len())];
            let last = match insert(conn, statement.alone.clone(), &all, &peers).await {
                Ok(last) => last,
                Err(error) => {
                    roll_back(conn).await;
                    return Err(error);
                }
            };
            return Ok(stored(&all, last));
        }
        begin(conn).await?;
        let inserted = self.insert_all(conn, &all).await;
        self.finish(conn, inserted).await
    }

    /// Stores what is new and tells which are not.
    async fn store_carefully(
        &mut self,
        conn: &mut SqliteConnection,
        all: &[Pending],
    ) -> Result<Vec<Committed>, StoreError> {
        begin(conn).await?;
        let inserted = self.insert_new(conn, all).await;
        self.finish(conn, inserted).await
    }

    async fn finish(
        &mut self,
        conn: &mut SqliteConnection,
        inserted: Result<(Vec<Committed>, Learned), StoreError>,
    ) -> Result<Vec<Committed>, StoreError> {
        match inserted {
            Ok((committed, learned)) => {
                commit(conn).await?;
                self.remember(learned);
                Ok(committed)
            }
            Err(error) => {
                roll_back(conn).await;
                Err(error)
            }
        }
    }

    async fn insert_new(
        &self,
        conn: &mut SqliteConnection,
        all: &[Pending],
    ) -> Result<(Vec<Committed>, Learned), StoreError> {
        let mut digests: HashMap<[u8; KEY_BYTES], [u8; 32]> = HashMap::new();
        let mut duplicates = Vec::with_capacity(all.len());
        let mut fresh = Vec::with_capacity(all.len());
        for one in all {
            let earlier = match digests.get(&one.key) {
                Some(digest) => Some(*digest),
                None => stored_digest(conn, &one.key).await?,
            };
            duplicates.push(earlier.map(|digest| digest == one.message.digest));
            if earlier.is_none() {
                digests.insert(one.key, one.message.digest);
                fresh.push(one);
            }
        }
        let (inserted, learned) = self.insert_all(conn, &fresh).await?;
        let mut inserted = inserted.into_iter();
        let committed = duplicates.into_iter().map(|duplicate| match duplicate {
            Some(same_content) => Committed::Duplicate { same_content },
            None => inserted.next().expect("insert_all gives one outcome for each fresh message"),
        });
        Ok((committed.collect(), learned))
    }

    async fn insert_all(
        &self,
        conn: &mut SqliteConnection,
        all: &[&Pending],
    ) -> Result<(Vec<Committed>, Learned), StoreError> {
        let learned = self.learn(conn, all).await?;
        let mut committed = Vec::with_capacity(all.len());
        for chunk in all.chunks(MAX_CHUNK) {
            let peers: Vec<i64> = chunk
                .iter()
                .map(|one| {
                    let address = one.message.from.as_str();
                    self.peers.get(address).or_else(|| learned.get(address)).map(|peer| peer.id)
                })
                .collect::<Option<_>>()
                .ok_or(StoreError::Damaged)?;
            let last = insert(conn, STATEMENTS[power(chunk.len())].insert.clone(), chunk, &peers).await?;
            committed.extend(stored(chunk, last));
        }
        Ok((committed, learned))
    }

    /// The numbers of all senders, when all are known and none needs its `last_seen` written.
    fn known_and_seen(&self, all: &[&Pending]) -> Option<Vec<i64>> {
        all.iter()
            .map(|one| {
                let peer = self.peers.get(one.message.from.as_str())?;
                (one.message.received.0 < peer.seen + SEEN_EVERY_SECS).then_some(peer.id)
            })
            .collect()
    }

    /// Numbers the addresses that have none and notes when their contacts were seen. What is learned counts once the
    /// transaction has committed.
    async fn learn(&self, conn: &mut SqliteConnection, all: &[&Pending]) -> Result<Learned, StoreError> {
        let mut learned = Learned::new();
        let Some(now) = all.iter().map(|one| one.message.received.0).max() else { return Ok(learned) };
        let is_due = |address: &&str| self.peers.get(*address).is_none_or(|peer| now >= peer.seen + SEEN_EVERY_SECS);
        let due: HashSet<&str> = all.iter().map(|one| one.message.from.as_str()).filter(is_due).collect();
        if due.is_empty() {
            return Ok(learned);
        }
        // A DID holds nothing that JSON would escape.
        let due = format!("[\"{}\"]", due.into_iter().collect::<Vec<_>>().join("\",\""));
        query("INSERT INTO peers (address) SELECT value FROM json_each(?) WHERE true ON CONFLICT DO NOTHING")
            .bind(&due)
            .execute(&mut *conn)
            .await?;
        query(
            "UPDATE contacts SET last_seen = ?2 WHERE ifnull(last_seen, 0) < ?2 AND peer IN \
             (SELECT id FROM peers WHERE address IN (SELECT value FROM json_each(?1)))",
        )
        .bind(&due)
        .bind(now)
        .execute(&mut *conn)
        .await?;
        let rows = query("SELECT address, id FROM peers WHERE address IN (SELECT value FROM json_each(?))")
            .bind(&due)
            .fetch_all(conn)
            .await?;
        for row in rows {
            learned.insert(row.try_get::<String, _>(0)?.into(), Peer { id: row.try_get(1)?, seen: now });
        }
        Ok(learned)
    }

    fn remember(&mut self, learned: Learned) {
        if self.peers.len() + learned.len() > MAX_KNOWN_PEERS {
            self.peers.clear();
        }
        self.peers.extend(learned);
    }
}

type Learned = HashMap<Box<str>, Peer>;

fn power(messages: usize) -> usize {
    messages.next_power_of_two().ilog2() as usize
}

fn fail(pending: Vec<Pending>, error: &StoreError) -> bool {
    for one in pending {
        one.answer.send(Err(error.clone())).ok();
    }
    !error.is_connection_lost()
}

/// SQLite numbers the rows of one statement without gaps.
fn stored(chunk: &[&Pending], last: i64) -> Vec<Committed> {
    let mut next = last + 1 - chunk.iter().map(|one| one.rows()).sum::<i64>();
    let seqs = chunk.iter().map(|one| {
        let seq = next;
        next += one.rows();
        Committed::Stored { seq }
    });
    seqs.collect()
}

async fn stored_digest(conn: &mut SqliteConnection, key: &[u8; KEY_BYTES]) -> Result<Option<[u8; 32]>, StoreError> {
    let row = query("SELECT digest FROM handled WHERE key = ?").bind(&key[..]).fetch_optional(conn).await?;
    let Some(row) = row else { return Ok(None) };
    let digest: &[u8] = row.try_get(0)?;
    Ok(Some(digest.try_into().map_err(|_| StoreError::Damaged)?))
}

/// Inserts one chunk; gives the seq of its last row.
async fn insert(
    conn: &mut SqliteConnection,
    sql: Arc<str>,
    chunk: &[&Pending],
    peers: &[i64],
) -> Result<i64, StoreError> {
    let arguments = arguments(chunk, peers).map_err(sqlx::Error::Encode)?;
    let done = query_with(AssertSqlSafe(sql), arguments).execute(conn).await?;
    Ok(done.last_insert_rowid())
}

fn arguments(chunk: &[&Pending], peers: &[i64]) -> Result<SqliteArguments, sqlx::error::BoxDynError> {
    let mut to = SqliteArguments::default();
    to.reserve((chunk.len() + 1) * 26, 0);
    for one in chunk {
        to.add(&one.key[..])?;
        to.add(&one.message.digest[..])?;
    }
    for _ in chunk.len()..1 << power(chunk.len()) {
        to.add(None::<i64>)?;
        to.add(None::<i64>)?;
    }
    for (one, peer) in chunk.iter().zip(peers) {
        one.add_rows(*peer, &mut to)?;
    }
    // What is left is unbound, which SQLite reads as NULL.
    Ok(to)
}

impl Pending {
    fn rows(&self) -> i64 {
        if self.message.reply.is_some() { 2 } else { 1 }
    }

    fn add_rows(&self, peer: i64, to: &mut SqliteArguments) -> Result<(), sqlx::error::BoxDynError> {
        let message = &self.message;
        to.add(peer)?;
        to.add(0)?;
        to.add(0)?;
        to.add(message.timestamp.0)?;
        to.add(message.received.0)?;
        to.add(message.message_id.as_str())?;
        to.add(message.reply_to.as_deref())?;
        to.add(message.context_id.as_deref())?;
        to.add(message.sig.as_str())?;
        to.add(message.text.as_str())?;
        to.add(message.extra.as_deref())?;
        let Some(reply) = &message.reply else { return Ok(()) };
        to.add(peer)?;
        to.add(1)?;
        to.add(i32::from(reply.is_auto))?;
        to.add(reply.timestamp.0)?;
        to.add(message.received.0)?;
        to.add(reply.message_id.as_str())?;
        to.add(message.message_id.as_str())?;
        to.add(message.context_id.as_deref())?;
        to.add(reply.sig.as_str())?;
        to.add(reply.text.as_str())?;
        to.add(None::<&str>)?;
        Ok(())
    }
}
