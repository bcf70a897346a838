//! The durable set of handled ids, built for ids that arrive in no order.
//!
//! An index over random keys would dirty a page of its own for every message. So new ids are appended to `handled_log`,
//! one small row for each group commit, and kept in memory as the [`Tail`]; from there they move to the table `handled`
//! in sorted runs, a slice with each later commit, so that one page takes many. An id is handled when it is in the table
//! or in the log. Every process that writes messages reads the log rows of others before it adds its own: it inserts
//! under the condition that it knows the last row.
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sha2::{Digest as _, Sha256};
use sqlx::{Row, SqliteConnection, query, sqlite::SqliteRow};

use crate::{StoreError, messages::Handling};

/// Half of a SHA-256: the one index with random access stays small.
pub(crate) const KEY_BYTES: usize = 16;
/// A content digest.
const DIGEST_BYTES: usize = 32;
/// A key and a digest, as the log holds them.
pub(crate) const ENTRY_BYTES: usize = KEY_BYTES + DIGEST_BYTES;
/// Ids that gather in memory before they start to move: 1.5 MiB, and as much again while they do.
const RUN_LEN: usize = if cfg!(test) { 300 } else { 28_000 };

/// What stands for a sender and its message id.
pub(crate) type Key = [u8; KEY_BYTES];
/// What stands for the content.
pub(crate) type Digest = [u8; DIGEST_BYTES];

/// The key of a sender and its message id. No address contains a zero byte, so the pair is unambiguous.
pub(crate) fn handled_key(from: &str, message_id: &str) -> Key {
    let mut hash = Sha256::new();
    hash.update(from.as_bytes());
    hash.update([0]);
    hash.update(message_id.as_bytes());
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(&hash.finalize()[..KEY_BYTES]);
    key
}

/// The log, in memory: what of it is known, and what is on its way to the table.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// Every log row up to this one is known here, or has moved to the table.
    seen: i64,
    is_loaded: bool,
    fresh: HashMap<Key, Digest>,
    /// Sorted; moves to the table from the front.
    run: Vec<(Key, Digest)>,
    moved: usize,
    /// The log rows that the run came from.
    run_until: i64,
}

/// The writer's and the reader's view of the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedTail(Arc<Mutex<Tail>>);

impl SharedTail {
    /// Never held across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Tail> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tail {
    /// The last log row that is known.
    pub(crate) fn seen(&self) -> i64 {
        self.seen
    }

    /// Whether the log was read at all.
    pub(crate) fn is_loaded(&self) -> bool {
        self.is_loaded
    }

    /// The content that was handled under this key, when it is in the log.
    pub(crate) fn digest(&self, key: &Key) -> Option<Digest> {
        if let Some(digest) = self.fresh.get(key) {
            return Some(*digest);
        }
        let found = self.run.binary_search_by_key(key, |(key, _)| *key).ok()?;
        Some(self.run[found].1)
    }

    /// Takes committed entries of log rows up to `seen`. Taking them twice changes nothing.
    pub(crate) fn take(&mut self, entries: impl IntoIterator<Item = (Key, Digest)>, seen: i64) {
        self.fresh.extend(entries);
        self.seen = self.seen.max(seen);
        self.is_loaded = true;
        if self.run.is_empty() && self.fresh.len() >= RUN_LEN {
            self.run = self.fresh.drain().collect();
            self.run.sort_unstable_by_key(|(key, _)| *key);
            self.run_until = self.seen;
        }
    }

    /// The next entries to move, at most so many.
    pub(crate) fn next_slice(&self, len: usize) -> Vec<u8> {
        let end = self.run.len().min(self.moved + len);
        encode(self.run[self.moved..end].iter().map(|(key, digest)| (key, digest)))
    }

    /// A slice was committed.
    pub(crate) fn slice_moved(&mut self, slice: &[u8]) {
        self.moved += slice.len() / ENTRY_BYTES;
    }

    /// The log rows up to this one have moved as a whole and can be deleted.
    pub(crate) fn spent_until(&self) -> Option<i64> {
        (!self.run.is_empty() && self.moved == self.run.len()).then_some(self.run_until)
    }

    /// Their deletion was committed.
    pub(crate) fn forget_spent(&mut self) {
        self.run = Vec::new();
        self.moved = 0;
    }
}

/// Entries as a log row holds them.
pub(crate) fn encode<'a>(entries: impl IntoIterator<Item = (&'a Key, &'a Digest)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, digest) in entries {
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(digest);
    }
    bytes
}

/// Reads a log row.
pub(crate) fn decode(entries: &[u8]) -> Result<Vec<(Key, Digest)>, StoreError> {
    let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() {
        return Err(StoreError::Damaged);
    }
    let split = |entry: &[u8; ENTRY_BYTES]| {
        let (mut key, mut digest) = ([0; KEY_BYTES], [0; DIGEST_BYTES]);
        key.copy_from_slice(&entry[..KEY_BYTES]);
        digest.copy_from_slice(&entry[KEY_BYTES..]);
        (key, digest)
    };
    Ok(entries.iter().map(split).collect())
}

/// Reads the log rows that another process, or an earlier life of this one, has written. Inside a write transaction the
/// tail is then exact.
pub(crate) async fn catch_up(conn: &mut SqliteConnection, tail: &SharedTail) -> Result<(), StoreError> {
    let seen = tail.lock().seen();
    let rows = query(
        "SELECT id, entries FROM handled_log WHERE id > ?1 \
         UNION ALL SELECT seq, x'' FROM sqlite_sequence WHERE name = 'handled_log' AND seq > ?1",
    )
    .bind(seen)
    .fetch_all(conn)
    .await?;
    let mut last = seen;
    let mut entries = Vec::new();
    for row in &rows {
        last = last.max(row.try_get(0)?);
        entries.append(&mut decode(row.try_get(1)?)?);
    }
    tail.lock().take(entries, last);
    Ok(())
}

/// The content that was handled under a key that has moved to the table.
pub(crate) async fn digest_in_table(conn: &mut SqliteConnection, key: &Key) -> Result<Option<Digest>, StoreError> {
    let row = query("SELECT digest FROM handled WHERE key = ?").bind(&key[..]).fetch_optional(conn).await?;
    row.map(|row| digest_from(&row, 0)).transpose()
}

/// A digest as the table holds it.
pub(crate) fn digest_from(row: &SqliteRow, column: usize) -> Result<Digest, StoreError> {
    row.try_get_unchecked::<&[u8], _>(column)?.try_into().map_err(|_| StoreError::Damaged)
}

/// Writes one id straight into the table, for what is not part of a group commit. `false` when it was handled before.
/// It looks through the log without the help of a tail, for processes that live for one command.
pub(crate) async fn mark_handled(
    conn: &mut SqliteConnection,
    from: &str,
    message_id: &str,
    digest: &Digest,
) -> Result<bool, StoreError> {
    let done = query(
        "INSERT INTO handled (key, digest) SELECT ?1, ?2 \
         WHERE NOT EXISTS (SELECT 1 FROM handled_log WHERE instr(entries, ?1)) ON CONFLICT DO NOTHING",
    )
    .bind(&handled_key(from, message_id)[..])
    .bind(&digest[..])
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Whether the request was handled before, and if so, whether with the same content. Exact inside a write transaction.
pub(crate) async fn seen_before(
    conn: &mut SqliteConnection,
    tail: &SharedTail,
    handling: &Handling,
) -> Result<Option<bool>, StoreError> {
    let key = handled_key(handling.from.as_str(), &handling.message_id);
    let is_loaded = tail.lock().is_loaded();
    let in_log = if is_loaded {
        catch_up(conn, tail).await?;
        tail.lock().digest(&key)
    } else {
        digest_in_log(conn, &key).await?
    };
    let digest = match in_log {
        Some(digest) => Some(digest),
        None => digest_in_table(conn, &key).await?,
    };
    Ok(digest.map(|digest| digest == handling.digest))
}

/// Looks through the log without the help of a tail, for processes that live for one command.
async fn digest_in_log(conn: &mut SqliteConnection, key: &Key) -> Result<Option<Digest>, StoreError> {
    let row = query(
        "SELECT substr(entries, instr(entries, ?1) + ?2, ?3) FROM handled_log WHERE instr(entries, ?1) > 0 LIMIT 1",
    )
    .bind(&key[..])
    .bind(KEY_BYTES as i64)
    .bind(DIGEST_BYTES as i64)
    .fetch_optional(conn)
    .await?;
    row.map(|row| digest_from(&row, 0)).transpose()
}

/// Writes the id of a request that [`seen_before`] did not know.
pub(crate) async fn mark_fresh(conn: &mut SqliteConnection, handling: &Handling) -> Result<(), StoreError> {
    query("INSERT OR IGNORE INTO handled (key, digest) VALUES (?, ?)")
        .bind(&handled_key(handling.from.as_str(), &handling.message_id)[..])
        .bind(&handling.digest[..])
        .execute(conn)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u32) -> (Key, Digest) {
        (handled_key("did:key:z", &n.to_string()), [n as u8; DIGEST_BYTES])
    }

    #[test]
    fn entries_survive_the_log() {
        let entries: Vec<_> = (0..5).map(entry).collect();
        let bytes = encode(entries.iter().map(|(key, digest)| (key, digest)));
        assert_eq!(decode(&bytes).unwrap(), entries);
        assert!(matches!(decode(&bytes[1..]), Err(StoreError::Damaged)));
    }

    #[test]
    fn ids_stay_known_while_they_move() {
        let mut tail = Tail::default();
        for n in 0..RUN_LEN as u32 + 100 {
            tail.take([entry(n)], i64::from(n) + 1);
        }
        assert_eq!(tail.run.len(), RUN_LEN);
        assert_eq!(tail.run_until, RUN_LEN as i64);
        let mut moved = Vec::new();
        while tail.spent_until().is_none() {
            let slice = tail.next_slice(64);
            tail.slice_moved(&slice);
            moved.append(&mut decode(&slice).unwrap());
            for n in [0, 1, 299, 300, 399] {
                assert_eq!(tail.digest(&entry(n).0), Some(entry(n).1));
            }
        }
        assert!(moved.is_sorted());
        assert_eq!(moved.len(), RUN_LEN);
        assert_eq!(tail.spent_until(), Some(RUN_LEN as i64));
        tail.forget_spent();
        assert_eq!(tail.digest(&entry(0).0), None);
        assert_eq!(tail.digest(&entry(350).0), Some(entry(350).1));
    }
}
