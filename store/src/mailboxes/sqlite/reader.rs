//! The task that owns the reading connection.
use muretai_protocol::{Did, UnixSeconds, json::Value};
use sqlx::{Connection, Row, SqliteConnection, query};
use tokio::sync::{mpsc, oneshot};

use crate::{
    StoreError,
    mailboxes::{Fetched, MailboxError, Qid, StoredLetter},
    open::Location,
    queue::take_waiting,
};

const TUNING: &str = "PRAGMA query_only = 1; PRAGMA cache_size = -8192";

/// Requests that are taken at once.
const MAX_WAITING: usize = 64;

/// Boxes are numbered in order and weighed without being read; the first that is over the bytes is named without its box.
const FETCH: &str = "SELECT l.qid, l.id, l.from_did, l.from_enc, l.ts, l.awaited_until, \
    CASE WHEN p.n <= ?3 AND (p.n = 1 OR p.upto <= ?4) THEN l.blob END \
    FROM (SELECT qid, size, row_number() OVER before AS n, sum(size) OVER before AS upto FROM letters \
        WHERE mailbox = (SELECT id FROM mailboxes WHERE did = ?1) AND qid NOT IN (SELECT value FROM json_each(?2)) \
        WINDOW before AS (ORDER BY qid ROWS UNBOUNDED PRECEDING) ORDER BY qid LIMIT ?3 + 1) p \
    CROSS JOIN letters l ON l.qid = p.qid WHERE p.n <= 2 OR p.upto - p.size <= ?4 ORDER BY p.qid";

type Answer<T> = oneshot::Sender<Result<T, MailboxError>>;

/// What is to be read.
pub(super) enum Read {
    Letters(Wanted, Answer<Fetched>),
    LastSeen(Did, Answer<Option<UnixSeconds>>),
    AwaitedUntil(Did, Qid, Answer<Option<UnixSeconds>>),
    Card(Did, Answer<Option<String>>),
    Invite(String, UnixSeconds, Answer<Option<String>>),
    /// Cards and invites.
    Count(Answer<(u64, u64)>),
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
    let mut closing = None;
    while take_waiting(&mut reads, &mut waiting, MAX_WAITING).await > 0 {
        for read in waiting.drain(..) {
            match read {
                Read::Close(done) => {
                    reads.close();
                    closing = Some(done);
                }
                read => reader.serve(read).await,
            }
        }
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
            Read::Letters(wanted, answer) => {
                let found = match self.lend().await {
                    Ok(conn) => fetch(conn, &wanted).await,
                    Err(error) => Err(error),
                };
                self.answer(found, answer);
            }
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
            Read::Count(answer) => {
                let found = match self.lend().await {
                    Ok(conn) => count(conn).await,
                    Err(error) => Err(error),
                };
                self.answer(found, answer);
            }
            // Taken out before.
            Read::Close(done) => drop(done),
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
        let Some(blob) = row.try_get(6)? else {
            fetched.has_more = true;
            break;
        };
        fetched.letters.push(StoredLetter {
            qid: row.try_get(0)?,
            id: row.try_get(1)?,
            from: row.try_get(2)?,
            from_enc: row.try_get(3)?,
            blob,
            ts: UnixSeconds(row.try_get(4)?),
            awaited_until: row.try_get::<Option<i64>, _>(5)?.map(UnixSeconds),
        });
    }
    Ok(fetched)
}

async fn count(conn: &mut SqliteConnection) -> Result<(u64, u64), StoreError> {
    let row = query("SELECT (SELECT count(*) FROM cards), (SELECT count(*) FROM invites)").fetch_one(conn).await?;
    let number = |index| Ok::<_, StoreError>(row.try_get::<i64, _>(index)?.max(0).unsigned_abs());
    Ok((number(0)?, number(1)?))
}

/// As `json_each` takes it.
pub(super) fn qid_list(qids: &[Qid]) -> String {
    Value::from(qids.iter().map(|qid| Value::from(*qid)).collect::<Vec<_>>()).to_json()
}
