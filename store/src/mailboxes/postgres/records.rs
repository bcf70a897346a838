//! Letters that are read, answers, cards, invites: one short statement or transaction each, on the pool.
use std::sync::atomic::Ordering;

use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Acquire, PgPool, Row, query, raw_sql};

use crate::mailboxes::{
    ANSWER_KEPT_SECS, Counts, Event, Fetched, MailboxError, Presence, PutCard, PutInvite, Qid, StoredLetter,
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

pub(super) async fn put_card(shared: &Shared, did: &Did, ts: i64, envelope: &str) -> Result<PutCard, MailboxError> {
    let sql = "INSERT INTO cards (did, ts, envelope) VALUES ($1, $2, $3) \
               ON CONFLICT (did) DO UPDATE SET ts = excluded.ts, envelope = excluded.envelope, renewal = DEFAULT \
               WHERE cards.ts < excluded.ts RETURNING xmax = 0";
    let row = trying!(query(sql).bind(did.as_str()).bind(ts).bind(envelope).fetch_optional(&shared.pool));
    let Some(row) = row else {
        let row = trying!(query("SELECT ts FROM cards WHERE did = $1").bind(did.as_str()).fetch_optional(&shared.pool));
        return Ok(PutCard::Held(row.map_or(Ok(ts), |row| row.try_get(0))?));
    };
    if row.try_get(0)? && shared.cards.fetch_add(1, Ordering::Relaxed) >= shared.quotas.cards {
        trim_cards(shared).await?;
    }
    Ok(PutCard::Stored)
}

/// A little more than has to go, so that not every new card costs a search.
pub(super) async fn trim_cards(shared: &Shared) -> Result<(), MailboxError> {
    let bound = shared.quotas.cards;
    if bound == 0 {
        return Ok(());
    }
    let count: i64 = trying!(raw_sql("SELECT count(*) FROM cards").fetch_one(&shared.pool)).try_get(0)?;
    shared.cards.store(count.max(0).unsigned_abs(), Ordering::Relaxed);
    if count.max(0).unsigned_abs() <= bound {
        return Ok(());
    }
    let kept = i64::try_from(bound - bound / 64).unwrap_or(i64::MAX);
    let sql = "DELETE FROM cards WHERE renewal <= (SELECT renewal FROM cards ORDER BY renewal DESC OFFSET $1 LIMIT 1)";
    trying!(query(sql).bind(kept).execute(&shared.pool));
    shared.cards.store(kept.unsigned_abs(), Ordering::Relaxed);
    Ok(())
}

pub(super) async fn one_text(pool: &PgPool, sql: &'static str, of: &str) -> Result<Option<String>, MailboxError> {
    let row = trying!(query(sql).bind(of).fetch_optional(pool));
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

pub(super) async fn invite(pool: &PgPool, code: &str, now: UnixSeconds) -> Result<Option<String>, MailboxError> {
    let sql = "SELECT card FROM invites WHERE code = $1 AND exp > $2";
    let row = trying!(query(sql).bind(code).bind(now.0).fetch_optional(pool));
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// An invite to keep.
pub(super) struct NewInvite<'a> {
    pub(super) did: &'a Did,
    pub(super) code: &'a str,
    pub(super) card: &'a str,
    pub(super) exp: UnixSeconds,
    pub(super) now: UnixSeconds,
}

pub(super) async fn put_invite(
    pool: &PgPool,
    most: u32,
    new: NewInvite<'_>,
) -> Result<(PutInvite, String), MailboxError> {
    Ok(trying!(try_invite(pool, most, &new)))
}

/// One at a time for each DID. The same card again gets its first code; an expired one gives its code away.
async fn try_invite(pool: &PgPool, most: u32, new: &NewInvite<'_>) -> Result<(PutInvite, String), sqlx::Error> {
    let mut conn = pool.acquire().await?;
    let mut transaction = conn.begin().await?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    query(lock).bind(new.did.as_str()).execute(&mut *transaction).await?;
    let rows = query("SELECT code, card = $1 FROM invites WHERE did = $2 AND exp > $3")
        .bind(new.card)
        .bind(new.did.as_str())
        .bind(new.now.0)
        .fetch_all(&mut *transaction)
        .await?;
    for row in &rows {
        if row.try_get(1)? {
            return Ok((PutInvite::Stored, row.try_get(0)?));
        }
    }
    if rows.len() >= most as usize {
        return Ok((PutInvite::TooMany, new.code.to_owned()));
    }
    let sql = "INSERT INTO invites (code, did, exp, card) VALUES ($1, $2, $3, $4) ON CONFLICT (code) DO UPDATE \
               SET did = excluded.did, exp = excluded.exp, card = excluded.card WHERE invites.exp <= $5";
    let done = query(sql)
        .bind(new.code)
        .bind(new.did.as_str())
        .bind(new.exp.0)
        .bind(new.card)
        .bind(new.now.0)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    let outcome = if done.rows_affected() == 0 { PutInvite::CodeTaken } else { PutInvite::Stored };
    Ok((outcome, new.code.to_owned()))
}

pub(super) async fn counts(pool: &PgPool) -> Result<Counts, MailboxError> {
    let sql = "SELECT sum(letters)::bigint, sum(bytes)::bigint, sum(mailboxes)::bigint, \
               (SELECT count(*) FROM cards), (SELECT count(*) FROM invites) FROM totals";
    let row = trying!(raw_sql(sql).fetch_one(pool));
    let number = |index| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(index)?.max(0).unsigned_abs());
    Ok(Counts { letters: number(0)?, bytes: number(1)?, mailboxes: number(2)?, cards: number(3)?, invites: number(4)? })
}
