//! Letters that are read, answers, figures: one short statement each, on the pool.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{PgPool, Row, query, raw_sql};

use crate::mailboxes::{
    ANSWER_KEPT_SECS, Counts, Event, Fetched, MailboxError, Presence, Qid, StoredLetter,
    postgres::{Shared, failure::Tries, keeper::ALIVE, link::safe},
};

/// Boxes are numbered in order and weighed without being read; the first that is over the bytes is named without its box.
const FETCH: &str = "SELECT l.qid, l.id, l.from_did, l.from_enc, l.ts, l.awaited_until, \
    CASE WHEN p.n <= $3 AND (p.n = 1 OR p.upto <= $4) THEN l.blob END \
    FROM (SELECT mailbox, qid, size, row_number() OVER before AS n, sum(size) OVER before AS upto FROM letters \
        WHERE mailbox = (SELECT id FROM mailboxes WHERE did = $1) AND qid <> ALL($2) \
        WINDOW before AS (ORDER BY qid ROWS UNBOUNDED PRECEDING) ORDER BY qid LIMIT $3 + 1) p \
    JOIN letters l ON l.mailbox = p.mailbox AND l.qid = p.qid WHERE p.n <= 2 OR p.upto - p.size <= $4 ORDER BY p.qid";

/// Runs it until it succeeds or fails for good.
macro_rules! trying {
    ($act:expr) => {{
        let mut tries = Tries::default();
        loop {
            match $act.await {
                Ok(outcome) => break outcome,
                Err(error) => tries.after(error).await?,
            }
        }
    }};
}
pub(super) use trying;

pub(super) async fn fetch(
    pool: &PgPool,
    did: &Did,
    in_hand: &[Qid],
    max_letters: u32,
    max_bytes: u64,
) -> Result<Fetched, MailboxError> {
    if max_letters == 0 {
        return Ok(Fetched::default());
    }
    let max_bytes = i64::try_from(max_bytes).unwrap_or(i64::MAX);
    let rows = trying!(
        query(FETCH).bind(did.as_str()).bind(in_hand).bind(i64::from(max_letters)).bind(max_bytes).fetch_all(pool)
    );
    let mut fetched = Fetched { letters: Vec::with_capacity(rows.len()), has_more: false };
    for row in rows {
        let Some(blob) = row.try_get(6)? else {
            fetched.has_more = true;
            break;
        };
        fetched.letters.push(StoredLetter {
            qid: row.try_get(0)?,
            id: text(row.try_get(1)?)?,
            from: row.try_get(2)?,
            from_enc: row.try_get::<Option<Vec<u8>>, _>(3)?.map(text).transpose()?,
            blob: text(blob)?,
            ts: UnixSeconds(row.try_get(4)?),
            awaited_until: row.try_get::<Option<i64>, _>(5)?.map(UnixSeconds),
        });
    }
    Ok(fetched)
}

fn text(bytes: Vec<u8>) -> Result<String, sqlx::Error> {
    String::from_utf8(bytes).map_err(|error| sqlx::Error::Decode(error.into()))
}

pub(super) async fn presence(pool: &PgPool, did: &Did) -> Result<Presence, MailboxError> {
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM listeners l JOIN processes p ON p.id = l.process \
         WHERE l.did = $1 AND p.seen > clock_timestamp() - {ALIVE}), (SELECT last_seen FROM mailboxes WHERE did = $1)"
    );
    let row = trying!(query(safe(sql.clone())).bind(did.as_str()).fetch_one(pool));
    Ok(Presence { is_online: row.try_get(0)?, last_seen: row.try_get::<Option<i64>, _>(1)?.map(UnixSeconds) })
}

pub(super) async fn put_answer(
    shared: &Shared,
    did: &Did,
    qid: Qid,
    blob: &str,
    now: UnixSeconds,
) -> Result<bool, MailboxError> {
    let sql = "INSERT INTO answers (qid, until, blob) SELECT l.qid, $3, $4 FROM letters l \
               WHERE l.mailbox = (SELECT id FROM mailboxes WHERE did = $1) AND l.qid = $2 AND l.awaited_until >= $5 \
               ON CONFLICT (qid) DO UPDATE SET until = excluded.until, blob = excluded.blob";
    let done = trying!(
        query(sql)
            .bind(did.as_str())
            .bind(qid)
            .bind(now.0.saturating_add(ANSWER_KEPT_SECS))
            .bind(blob.as_bytes())
            .bind(now.0)
            .execute(&shared.pool)
    );
    let is_left = done.rows_affected() > 0;
    if is_left {
        shared.events.tell([Event::Answered(qid)]);
        shared.notices.tell(vec![Event::Answered(qid)]);
    }
    Ok(is_left)
}

pub(super) async fn take_answer(pool: &PgPool, qid: Qid) -> Result<Option<String>, MailboxError> {
    let row = trying!(query("DELETE FROM answers WHERE qid = $1 RETURNING blob").bind(qid).fetch_optional(pool));
    let blob: Option<Vec<u8>> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(blob.map(text).transpose()?)
}

pub(super) async fn one_text(pool: &PgPool, sql: &'static str, of: &str) -> Result<Option<String>, MailboxError> {
    let row = trying!(query(sql).bind(of).fetch_optional(pool));
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

pub(super) async fn counts(pool: &PgPool) -> Result<Counts, MailboxError> {
    let sql = "SELECT sum(t.letters)::bigint, sum(t.bytes)::bigint, sum(t.mailboxes)::bigint, \
               c.count, i.count, c.bytes + i.bytes, (SELECT count(*) FROM mailboxes) FROM totals t, \
               (SELECT count(*), coalesce(sum(size), 0)::bigint AS bytes FROM cards) c, \
               (SELECT count(*), coalesce(sum(size), 0)::bigint AS bytes FROM invites) i \
               GROUP BY c.count, c.bytes, i.count, i.bytes";
    let row = trying!(raw_sql(sql).fetch_one(pool));
    let number = |index| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(index)?.max(0).unsigned_abs());
    Ok(Counts {
        letters: number(0)?,
        bytes: number(1)?,
        mailboxes: number(2)?,
        cards: number(3)?,
        invites: number(4)?,
        directory_bytes: number(5)?,
        remembered: number(6)?,
    })
}
