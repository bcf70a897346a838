//! The group commit: everything that waits goes into one transaction, in few statements.
//!
//! The first attempt takes every message for new, which is nearly always so. A duplicate fails it as a whole; the second
//! attempt looks every id up. A row that still fails makes each message try alone, so that it harms nobody else. Errors
//! that are about no row (full disk, another writer) fail everyone at once.
use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use sqlx::{Arguments, AssertSqlSafe, Row, SqliteConnection, query, query_with, sqlite::SqliteArguments};
use tokio::sync::oneshot;

use crate::{
    StoreError,
    handled::{self, Digest, ENTRY_BYTES, KEY_BYTES, Key, SharedTail, Tail, catch_up, digest_in_table},
    messages::{Committed, Received},
    outbox::rows,
    writer::{begin, commit, roll_back},
};

/// Messages in one transaction.
pub(crate) const MAX_BATCH: usize = 256;
/// Messages in one statement.
const MAX_CHUNK: usize = 64;
/// Addresses whose numbers are kept in memory; numbers never change.
const MAX_KNOWN_PEERS: usize = 4096;
/// Older ids that move to the table with each message: more than one, so that a run is gone before the next is full.
const MOVED_PER_MESSAGE: usize = 2;
/// A contact's `last_seen` is written when it is older than this: one small update a minute, not one a message.
const SEEN_EVERY_SECS: i64 = 60;

/// A message and who waits for it.
pub(crate) struct Pending {
    pub(crate) message: Received,
    pub(crate) key: Key,
    pub(crate) answer: oneshot::Sender<Result<Committed, StoreError>>,
}

/// Collects messages and commits them together.
pub(crate) struct Batch {
    pending: Vec<Pending>,
    peers: HashMap<Box<str>, Peer>,
    tail: SharedTail,
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
        // OR ROLLBACK saves the journal that undoing half a statement would need; a failure ends the transaction anyway.
        // The log takes no row, and fails for it, when another process has written to it or an id is in the table.
        let numbers = |count: usize| {
            let mut list = String::from("(0)");
            (1..count).for_each(|n| write!(list, ",({n})").expect("a String takes everything"));
            list
        };
        let rows = vec!["(?,?,?,?,?,?,?,?,?,?,?)"; 2 * messages].join(",");
        let insert = format!(
            "INSERT OR ROLLBACK INTO handled_log (entries) \
             SELECT CASE WHEN ? = ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'handled_log'), 0) \
             AND NOT EXISTS (SELECT 1 FROM (VALUES {ids}) CROSS JOIN handled \
             ON key = substr(?, 1 + {ENTRY_BYTES} * column1, {KEY_BYTES})) THEN ? END; \
             INSERT OR IGNORE INTO handled (key, digest) \
             SELECT substr(run, 1 + {ENTRY_BYTES} * column1, {KEY_BYTES}), \
             substr(run, 1 + {KEY_BYTES} + {ENTRY_BYTES} * column1, {digest}) \
             FROM (SELECT ? AS run) CROSS JOIN (VALUES {moving}) WHERE {ENTRY_BYTES} * column1 < length(run); \
             INSERT OR ROLLBACK INTO messages (peer, direction, is_auto, timestamp, received, message_id, reply_to, \
             context_id, sig, text, extra, is_unread, is_verified) \
             SELECT column1, column2, column3, column4, column5, column6, column7, column8, column9, column10, column11, \
             column2 = 0, 1 FROM (VALUES {rows}) WHERE column1 IS NOT NULL",
            ids = numbers(messages),
            moving = numbers(MOVED_PER_MESSAGE * messages),
            digest = ENTRY_BYTES - KEY_BYTES,
        );
        Statement { alone: format!("BEGIN IMMEDIATE; {insert}; COMMIT").into(), insert: insert.into() }
    }
}

/// What one chunk inserts.
struct Chunk<'a> {
    messages: Vec<&'a Pending>,
    peers: Vec<i64>,
    /// The log row before the one that it adds.
    seen: i64,
    /// Older ids that move to the table with it.
    slice: Vec<u8>,
}

impl Batch {
    pub(crate) fn new(tail: SharedTail) -> Batch {
        Batch { pending: Vec::with_capacity(MAX_BATCH), peers: HashMap::new(), tail }
    }

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
        let mut outcome = match self.plan(&pending) {
            Some(chunk) => self.store_at_once(conn, chunk).await,
            None => self.store_in_steps(conn, &pending, false).await,
        };
        if outcome.as_ref().is_err_and(StoreError::is_about_a_row) {
            outcome = self.store_in_steps(conn, &pending, true).await;
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
                    let alone = self.store_in_steps(conn, std::slice::from_ref(&one), true).await;
                    one.answer.send(alone.map(|committed| committed[0])).ok();
                }
                true
            }
            Err(error) => fail(pending, &error),
        }
    }

    /// One statement for all, when that will do: all senders are known and were seen lately, no id is a duplicate as far
    /// as memory tells, the log needs no other care, and nobody's outbox is concerned.
    fn plan<'p>(&self, pending: &'p [Pending]) -> Option<Chunk<'p>> {
        let number = |one: &Pending| {
            let peer = self.peers.get(one.message.from.as_str())?;
            (one.message.received.0 < peer.seen + SEEN_EVERY_SECS).then_some(peer.id)
        };
        let peers = pending.iter().map(number).collect::<Option<_>>()?;
        // What is checked and the log row that it is checked against belong together: one lock.
        let tail = self.tail.lock();
        let is_plain = |one: &Pending| one.message.reply_by.is_none() && one.message.settles.is_none();
        let is_ready = pending.len() <= MAX_CHUNK
            && pending.iter().all(is_plain)
            && tail.is_loaded()
            && tail.spent_until().is_none();
        (is_ready && !has_duplicate(pending, &tail)).then(|| Chunk {
            messages: pending.iter().collect(),
            peers,
            seen: tail.seen(),
            slice: tail.next_slice(MOVED_PER_MESSAGE * pending.len()),
        })
    }

    async fn store_at_once(
        &mut self,
        conn: &mut SqliteConnection,
        chunk: Chunk<'_>,
    ) -> Result<Vec<Committed>, StoreError> {
        match chunk.insert(conn, |statement| &statement.alone).await {
            Ok(committed) => {
                self.committed(&chunk.messages, chunk.seen + 1, &chunk.slice);
                Ok(committed)
            }
            Err(error) => {
                roll_back(conn).await;
                Err(error)
            }
        }
    }

    /// Stores what is new and tells which are not. Without `look_up`, an id that has moved to the table is an error.
    async fn store_in_steps(
        &mut self,
        conn: &mut SqliteConnection,
        pending: &[Pending],
        look_up: bool,
    ) -> Result<Vec<Committed>, StoreError> {
        begin(conn).await?;
        let mut fresh = Vec::new();
        let known = self.find_known(conn, pending, look_up, &mut fresh).await;
        let inserted = match &known {
            Ok(_) => self.insert_all(conn, &fresh).await,
            Err(error) => Err(error.clone()),
        };
        let mut inserted = self.finish(conn, inserted, &fresh).await?.into_iter();
        let committed = known?.into_iter().map(|known| match known {
            Some(same_content) => Committed::Duplicate { same_content },
            None => inserted.next().expect("insert_all gives one outcome for each fresh message"),
        });
        Ok(committed.collect())
    }

    /// Ends the transaction and remembers what it made true.
    async fn finish(
        &mut self,
        conn: &mut SqliteConnection,
        inserted: Result<Inserted, StoreError>,
        all: &[&Pending],
    ) -> Result<Vec<Committed>, StoreError> {
        let inserted = match inserted {
            Ok(inserted) => inserted,
            Err(error) => {
                roll_back(conn).await;
                return Err(error);
            }
        };
        commit(conn).await?;
        self.remember(inserted.learned);
        if inserted.has_trimmed {
            self.tail.lock().forget_spent();
        }
        self.committed(all, inserted.seen, &inserted.slice);
        Ok(inserted.committed)
    }

    /// For each message, whether its content is the same as that of an earlier one with its id; `None` for new ones,
    /// which are also put into `fresh`. Memory is exact from here to the end of the transaction; the table is asked when
    /// there is a reason.
    async fn find_known<'p>(
        &self,
        conn: &mut SqliteConnection,
        pending: &'p [Pending],
        look_up: bool,
        fresh: &mut Vec<&'p Pending>,
    ) -> Result<Vec<Option<bool>>, StoreError> {
        catch_up(conn, &self.tail).await?;
        if !look_up && !has_duplicate(pending, &self.tail.lock()) {
            fresh.extend(pending);
            return Ok(vec![None; pending.len()]);
        }
        let mut digests: HashMap<Key, Digest> = HashMap::new();
        let mut known = Vec::with_capacity(pending.len());
        for one in pending {
            let remembered = digests.get(&one.key).copied().or_else(|| self.tail.lock().digest(&one.key));
            let earlier = match remembered {
                Some(digest) => Some(digest),
                None => digest_in_table(conn, &one.key).await?,
            };
            known.push(earlier.map(|digest| digest == one.message.digest));
            if earlier.is_none() {
                digests.insert(one.key, one.message.digest);
                fresh.push(one);
            }
        }
        Ok(known)
    }

    /// Inserts any number of new messages inside a transaction that has caught up with the log.
    async fn insert_all(&self, conn: &mut SqliteConnection, all: &[&Pending]) -> Result<Inserted, StoreError> {
        let spent = self.tail.lock().spent_until();
        if let Some(spent) = spent {
            query("DELETE FROM handled_log WHERE id <= ?").bind(spent).execute(&mut *conn).await?;
        }
        let learned = self.learn(conn, all).await?;
        let (seen, slice) = self.next_slice(all.len().min(MAX_CHUNK));
        let mut inserted = Inserted { has_trimmed: spent.is_some(), seen, slice, ..Inserted::default() };
        for messages in all.chunks(MAX_CHUNK) {
            let peers = messages.iter().map(|one| self.peer(one.message.from.as_str(), &learned));
            let peers = peers.collect::<Option<_>>().ok_or(StoreError::Damaged)?;
            let slice = if inserted.seen == seen { inserted.slice.clone() } else { Vec::new() };
            let chunk = Chunk { messages: messages.to_vec(), peers, seen: inserted.seen, slice };
            let mut committed = chunk.insert(conn, |statement| &statement.insert).await?;
            chunk.follow_up(conn, &committed).await?;
            inserted.committed.append(&mut committed);
            inserted.seen += 1;
        }
        if all.iter().any(|one| one.message.reply_by.is_some()) {
            rows::bound(conn).await?;
        }
        inserted.learned = learned;
        Ok(inserted)
    }

    fn peer(&self, address: &str, learned: &Learned) -> Option<i64> {
        learned.get(address).or_else(|| self.peers.get(address)).map(|peer| peer.id)
    }

    /// The last log row that is known, and the ids that move with a chunk of so many messages.
    fn next_slice(&self, messages: usize) -> (i64, Vec<u8>) {
        let tail = self.tail.lock();
        let slice =
            if tail.spent_until().is_some() { Vec::new() } else { tail.next_slice(MOVED_PER_MESSAGE * messages) };
        (tail.seen(), slice)
    }

    /// The reader may have seen the new log rows already, so `seen` is counted from what the transaction found.
    fn committed(&self, all: &[&Pending], seen: i64, slice: &[u8]) {
        let mut tail = self.tail.lock();
        tail.slice_moved(slice);
        tail.take(all.iter().map(|one| (one.key, one.message.digest)), seen);
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

/// What a transaction has done, to be remembered once it is committed.
#[derive(Default)]
struct Inserted {
    committed: Vec<Committed>,
    learned: Learned,
    /// The last log row.
    seen: i64,
    slice: Vec<u8>,
    has_trimmed: bool,
}

/// Whether the same id comes twice, or is in the part of the durable set that is in memory.
fn has_duplicate(pending: &[Pending], tail: &Tail) -> bool {
    let mut keys: Vec<&Key> = pending.iter().map(|one| &one.key).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1]) || keys.into_iter().any(|key| tail.digest(key).is_some())
}

fn fail(pending: Vec<Pending>, error: &StoreError) -> bool {
    for one in pending {
        one.answer.send(Err(error.clone())).ok();
    }
    !error.is_connection_lost()
}

impl Chunk<'_> {
    async fn insert(
        &self,
        conn: &mut SqliteConnection,
        which: impl FnOnce(&Statement) -> &Arc<str>,
    ) -> Result<Vec<Committed>, StoreError> {
        let power = self.messages.len().next_power_of_two().ilog2() as usize;
        let sql = which(&STATEMENTS[power]).clone();
        let arguments = self.arguments().map_err(sqlx::Error::Encode)?;
        let done = query_with(AssertSqlSafe(sql), arguments).execute(conn).await?;
        Ok(self.stored(done.last_insert_rowid()))
    }

    fn arguments(&self) -> Result<SqliteArguments, sqlx::error::BoxDynError> {
        let mut to = SqliteArguments::default();
        to.reserve(self.messages.len() * 22 + 4, 0);
        let entries = handled::encode(self.messages.iter().map(|one| (&one.key, &one.message.digest)));
        to.add(self.seen)?;
        to.add(&entries[..])?;
        to.add(entries)?;
        to.add(&self.slice[..])?;
        for (one, peer) in self.messages.iter().zip(&self.peers) {
            one.add_rows(*peer, &mut to)?;
        }
        // What is left is unbound, which SQLite reads as NULL.
        Ok(to)
    }

    /// Puts replies that nobody waits for into the outbox, and records what messages say about ours.
    async fn follow_up(&self, conn: &mut SqliteConnection, committed: &[Committed]) -> Result<(), StoreError> {
        for ((one, peer), committed) in self.messages.iter().zip(&self.peers).zip(committed) {
            let (Received { reply, reply_by, settles, received, .. }, Committed::Stored { seq }) =
                (&one.message, *committed)
            else {
                continue;
            };
            if let (Some(reply), Some(by)) = (reply, reply_by) {
                rows::insert_reply(conn, seq + 1, *peer, reply.is_auto, *received, by).await?;
            }
            if let Some(settles) = settles {
                rows::settle_by_word(conn, *peer, settles, seq).await?;
            }
        }
        Ok(())
    }

    /// SQLite numbers the rows of one statement without gaps.
    fn stored(&self, last: i64) -> Vec<Committed> {
        let mut next = last + 1 - self.messages.iter().map(|one| one.rows()).sum::<i64>();
        let seqs = self.messages.iter().map(|one| {
            let seq = next;
            next += one.rows();
            Committed::Stored { seq }
        });
        seqs.collect()
    }
}

impl Pending {
    fn rows(&self) -> i64 {
        if self.message.reply.is_some() { 2 } else { 1 }
    }

    fn add_rows(&self, peer: i64, to: &mut SqliteArguments) -> Result<(), sqlx::error::BoxDynError> {
        let message = &self.message;
        to.add(peer)?;
        to.add(0)?;
        to.add(i32::from(message.is_auto))?;
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
