//! The task that owns the reading connection.
use std::collections::HashMap;

use muretai_protocol::{Did, UnixSeconds, json::Value};
use sqlx::{Connection, Row, SqliteConnection, query, sqlite::SqliteRow};
use tokio::sync::{mpsc, oneshot};

use crate::{
    StoreError,
    mailboxes::{Fetched, MailboxError, Qid, StoredLetter},
    open::Location,
    queue::take_waiting,
};

/// What was cached is worth nothing after the next commit, so there is little of it.
const TUNING: &str = "PRAGMA query_only = 1; PRAGMA cache_size = -512";

/// Requests that are taken at once.
const MAX_WAITING: usize = 64;

/// Boxes are numbered in order and weighed without being read; the first that is over the bytes is named without its box.
const FETCH: &str = "SELECT l.qid, l.id, l.from_did, l.from_enc, l.ts, l.awaited_until, \
    CASE WHEN p.n <= ?3 AND (p.n = 1 OR p.upto <= ?4) THEN l.blob END \
    FROM (SELECT qid, size, row_number() OVER before AS n, sum(size) OVER before AS upto FROM letters \
        WHERE mailbox = (SELECT id FROM mailboxes WHERE did = ?1) AND qid NOT IN (SELECT value FROM json_each(?2)) \
        WINDOW before AS (ORDER BY qid ROWS UNBOUNDED PRECEDING) ORDER BY qid LIMIT ?3 + 1) p \
    CROSS JOIN letters l ON l.qid = p.qid WHERE p.n <= 2 OR p.upto - p.size <= ?4 ORDER BY p.qid";

/// For many at once: the numbers and weights of their oldest letters.
const PICK: &str = "SELECT (SELECT group_concat(qid || ':' || size) FROM (SELECT qid, size FROM letters \
        WHERE mailbox = (SELECT id FROM mailboxes WHERE did = r.value->>0) \
        AND qid NOT IN (SELECT value FROM json_each(r.value->1)) ORDER BY qid LIMIT ?2)) FROM json_each(?1) r";
const LETTERS: &str = "SELECT qid, id, from_did, from_enc, ts, awaited_until, blob FROM letters \
    WHERE qid IN (SELECT value FROM json_each(?))";

/// Bytes of boxes that are read at once for several requests.
const MAX_BYTES: u64 = 8 * 1_048_576;

type Answer<T> = oneshot::Sender<Result<T, MailboxError>>;

/// What is to be read.
pub(super) enum Read {
    Letters(Wanted, Answer<Fetched>),
    LastSeen(Did, Answer<Option<UnixSeconds>>),
    AwaitedUntil(Did, Qid, Answer<Option<UnixSeconds>>),
    Card(Did, Answer<Option<String>>),
    Invite(String, UnixSeconds, Answer<Option<String>>),
    Close(oneshot::Sender<()>),
}

/// Which letters.
pub(super) struct Wanted {
    pub(super) did: Did,
    pub(super) in_hand: Vec<Qid>,
    pub(super) max_letters: u32,
    pub(super) max_bytes: u64,
}

/// Serves until the store is dropped or closed.
pub(super) async fn run(location: Location, mut reads: mpsc::Receiver<Read>) {
    let mut reader = Reader { location, conn: None };
    let mut waiting = Vec::with_capacity(MAX_WAITING);
    let mut wanted = Vec::new();
    let mut closing = None;
    while take_waiting(&mut reads, &mut waiting, MAX_WAITING).await > 0 {
        for read in waiting.drain(..) {
            match read {
                Read::Close(done) => {
                    reads.close();
                    closing = Some(done);
                }
                Read::Letters(one, answer) => wanted.push((one, answer)),
                read => reader.serve(read).await,
            }
        }
        reader.serve_letters(std::mem::take(&mut wanted)).await;
    }
    if let Some(conn) = reader.conn {
        conn.close().await.ok();
    }
    if let Some(done) = closing {
        done.send(()).ok();
    }
}

struct Reader {
    location: Location,
    conn: Option<SqliteConnection>,
}

impl Reader {
    async fn serve(&mut self, read: Read) {
        match read {
            Read::LastSeen(did, answer) => {
                let found = self.one("SELECT last_seen FROM mailboxes WHERE did = ?", did.as_str(), None).await;
                self.answer(found.map(|seen: Option<Option<i64>>| seen.flatten().map(UnixSeconds)), answer);
            }
            Read::AwaitedUntil(did, qid, answer) => {
                let sql = "SELECT awaited_until FROM letters WHERE mailbox = (SELECT id FROM mailboxes WHERE did = ?) \
                           AND qid = ?";
                let found = self.one(sql, did.as_str(), Some(qid)).await;
                self.answer(found.map(|until: Option<Option<i64>>| until.flatten().map(UnixSeconds)), answer);
            }
            Read::Card(did, answer) => {
                let found = self.one("SELECT envelope FROM cards WHERE did = ?", did.as_str(), None).await;
                self.answer(found, answer);
            }
            Read::Invite(code, now, answer) => {
                let sql = "SELECT card FROM invites WHERE code = ? AND exp > ?";
                let found = self.one(sql, &code, Some(now.0)).await;
                self.answer(found, answer);
            }
            // Taken out before.
            Read::Letters(_, answer) => drop(answer),
            Read::Close(done) => drop(done),
        }
    }

    /// One has a statement of its own, many share two.
    async fn serve_letters(&mut self, mut wanted: Vec<(Wanted, Answer<Fetched>)>) {
        if wanted.len() > 1 {
            let found = match self.lend().await {
                Ok(conn) => fetch_all(conn, &wanted).await,
                Err(error) => Err(error),
            };
            if let Ok(found) = found {
                for ((_, answer), fetched) in wanted.into_iter().zip(found) {
                    answer.send(Ok(fetched)).ok();
                }
                return;
            }
        }
        for (one, answer) in wanted.drain(..) {
            let found = match self.lend().await {
                Ok(conn) => fetch(conn, &one).await,
                Err(error) => Err(error),
            };
            self.answer(found, answer);
        }
    }

    async fn lend(&mut self) -> Result<&mut SqliteConnection, StoreError> {
        if self.conn.is_none() {
            self.conn = Some(self.location.connect(TUNING).await?);
        }
        self.conn.as_mut().ok_or(StoreError::Closed)
    }

    /// The first column of the row, when there is one.
    async fn one<T>(&mut self, sql: &'static str, text: &str, number: Option<i64>) -> Result<Option<T>, StoreError>
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
    {
        let conn = self.lend().await?;
        let mut found = query(sql).bind(text.to_owned());
        if let Some(number) = number {
            found = found.bind(number);
        }
        match found.fetch_optional(conn).await? {
            Some(row) => Ok(Some(row.try_get(0)?)),
            None => Ok(None),
        }
    }

    fn answer<T>(&mut self, found: Result<T, StoreError>, answer: Answer<T>) {
        if found.as_ref().is_err_and(StoreError::is_connection_lost) {
            self.conn = None;
        }
        answer.send(found.map_err(MailboxError::from)).ok();
    }
}

async fn fetch(conn: &mut SqliteConnection, wanted: &Wanted) -> Result<Fetched, StoreError> {
    if wanted.max_letters == 0 {
        return Ok(Fetched::default());
    }
    let rows = query(FETCH)
        .bind(wanted.did.as_str())
        .bind(qid_list(&wanted.in_hand))
        .bind(i64::from(wanted.max_letters))
        .bind(i64::try_from(wanted.max_bytes).unwrap_or(i64::MAX))
        .fetch_all(conn)
        .await?;
    let mut fetched = Fetched { letters: Vec::with_capacity(rows.len()), has_more: false };
    for row in rows {
        let Some(letter) = read_letter(&row)? else {
            fetched.has_more = true;
            break;
        };
        fetched.letters.push(letter);
    }
    Ok(fetched)
}

/// `None` for one whose box was left out.
fn read_letter(row: &SqliteRow) -> Result<Option<StoredLetter>, StoreError> {
    let Some(blob) = row.try_get(6)? else { return Ok(None) };
    Ok(Some(StoredLetter {
        qid: row.try_get(0)?,
        id: row.try_get(1)?,
        from: row.try_get(2)?,
        from_enc: row.try_get(3)?,
        blob,
        ts: UnixSeconds(row.try_get(4)?),
        awaited_until: row.try_get::<Option<i64>, _>(5)?.map(UnixSeconds),
    }))
}

async fn fetch_all(
    conn: &mut SqliteConnection,
    wanted: &[(Wanted, Answer<Fetched>)],
) -> Result<Vec<Fetched>, StoreError> {
    let asked = wanted.iter().map(|(one, _)| {
        let in_hand = Value::from(one.in_hand.iter().map(|qid| Value::from(*qid)).collect::<Vec<_>>());
        Value::from(vec![Value::from(one.did.as_str()), in_hand])
    });
    let most = wanted.iter().map(|(one, _)| i64::from(one.max_letters)).max().unwrap_or(0);
    let rows =
        query(PICK).bind(Value::from(asked.collect::<Vec<_>>()).to_json()).bind(most + 1).fetch_all(&mut *conn).await?;
    let mut fetched = Vec::with_capacity(wanted.len());
    let mut picked: Vec<(usize, Qid)> = Vec::new();
    let mut bytes = 0;
    for (n, ((one, _), row)) in wanted.iter().zip(rows).enumerate() {
        let (qids, weight, has_more) = pick(one, row.try_get::<Option<&str>, _>(0)?.unwrap_or_default())?;
        fetched.push(Fetched { letters: Vec::with_capacity(qids.len()), has_more });
        picked.extend(qids.into_iter().map(|qid| (n, qid)));
        bytes += weight;
        if bytes > MAX_BYTES {
            read_picked(conn, &mut picked, &mut fetched).await?;
            bytes = 0;
        }
    }
    read_picked(conn, &mut picked, &mut fetched).await?;
    Ok(fetched)
}

/// What fits of `qid:size,qid:size`, what it weighs, and whether there is more.
fn pick(wanted: &Wanted, listed: &str) -> Result<(Vec<Qid>, u64, bool), StoreError> {
    let (mut qids, mut bytes) = (Vec::new(), 0_u64);
    if wanted.max_letters == 0 {
        return Ok((qids, bytes, false));
    }
    for one in listed.split(',').filter(|one| !one.is_empty()) {
        let (qid, size) = one.split_once(':').ok_or(StoreError::Damaged)?;
        let size: u64 = size.parse().map_err(|_| StoreError::Damaged)?;
        let fits = qids.is_empty() || bytes + size <= wanted.max_bytes;
        if !fits || qids.len() >= wanted.max_letters as usize {
            return Ok((qids, bytes, true));
        }
        bytes += size;
        qids.push(qid.parse().map_err(|_| StoreError::Damaged)?);
    }
    Ok((qids, bytes, false))
}

/// One that was acknowledged meanwhile is left out.
async fn read_picked(
    conn: &mut SqliteConnection,
    picked: &mut Vec<(usize, Qid)>,
    fetched: &mut [Fetched],
) -> Result<(), StoreError> {
    if picked.is_empty() {
        return Ok(());
    }
    let mut qids: Vec<Qid> = picked.iter().map(|(_, qid)| *qid).collect();
    qids.sort_unstable();
    qids.dedup();
    let rows = query(LETTERS).bind(qid_list(&qids)).fetch_all(conn).await?;
    let mut letters = HashMap::with_capacity(rows.len());
    for row in rows {
        if let Some(letter) = read_letter(&row)? {
            letters.insert(letter.qid, letter);
        }
    }
    for (n, qid) in picked.drain(..) {
        // Two may ask for the same mailbox.
        fetched[n].letters.extend(letters.get(&qid).cloned());
    }
    Ok(())
}

/// As `json_each` takes it.
pub(super) fn qid_list(qids: &[Qid]) -> String {
    Value::from(qids.iter().map(|qid| Value::from(*qid)).collect::<Vec<_>>()).to_json()
}
