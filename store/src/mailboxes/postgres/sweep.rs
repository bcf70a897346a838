//! Deletes what is too old, a little at a time and by one process at a time.
use std::sync::atomic::Ordering;

use muretai_protocol::UnixSeconds;
use sqlx::{Acquire, PgConnection, Row, query, raw_sql};

use crate::mailboxes::{
    DAY_SECS, MAILBOX_KEPT_DAYS, MailboxError, Swept,
    accounts::Totals,
    postgres::{
        Shared,
        batch::update_totals,
        directory,
        failure::Tries,
        link::{listed, safe},
        records::trying,
        schema::LOCK_SWEEP,
    },
};

/// Rows that go in one transaction.
const MAX_ROWS: i64 = 500;
/// Transactions in one sweep.
const MAX_ROUNDS: usize = 1_000;
/// The piece of the sums that sweeps write.
const SHARD: i32 = 0;

pub(super) async fn sweep(shared: &Shared, now: UnixSeconds) -> Result<Swept, MailboxError> {
    let today = now.0 / DAY_SECS;
    let is_new_day = shared.swept_day.load(Ordering::Relaxed) != today;
    let mut all = Swept::default();
    let mut over = Over::read(shared).await?;
    for _ in 0..MAX_ROUNDS {
        let Some(round) = trying!(round(shared, now, is_new_day, &mut over)) else { return Ok(all) };
        all.letters += round.letters;
        all.invites += round.invites;
        if !round.has_more {
            break;
        }
    }
    shared.swept_day.store(today, Ordering::Relaxed);
    directory::trim(shared).await?;
    Ok(all)
}

struct Round {
    letters: u64,
    invites: u64,
    has_more: bool,
}

/// Mailboxes that are more than are to be remembered, and up to which one was looked for empty ones.
struct Over {
    mailboxes: i64,
    looked_at: i64,
}

impl Over {
    async fn read(shared: &Shared) -> Result<Over, MailboxError> {
        let most = match shared.quotas.mailboxes {
            0 => i64::MAX,
            most => i64::try_from(most).unwrap_or(i64::MAX),
        };
        let count: i64 = trying!(raw_sql("SELECT count(*) FROM mailboxes").fetch_one(&shared.pool)).try_get(0)?;
        Ok(Over { mailboxes: count.saturating_sub(most).max(0), looked_at: 0 })
    }

    /// Empty ones go, those first that were made first: they are made again when they are needed. Only so many are looked
    /// at, because most may hold letters.
    async fn forget(&mut self, conn: &mut PgConnection) -> Result<u64, sqlx::Error> {
        if self.mailboxes == 0 {
            return Ok(0);
        }
        let sql = "SELECT id, letters FROM mailboxes WHERE id > $1 ORDER BY id LIMIT $2";
        let rows = query(sql).bind(self.looked_at).bind(MAX_ROWS).fetch_all(&mut *conn).await?;
        let mut empty: Vec<i64> = Vec::new();
        for row in &rows {
            self.looked_at = row.try_get(0)?;
            if row.try_get::<i64, _>(1)? == 0 && (empty.len() as i64) < self.mailboxes {
                empty.push(self.looked_at);
            }
        }
        let sql = "DELETE FROM mailboxes WHERE id IN (SELECT id FROM mailboxes WHERE id = ANY($1) AND letters = 0 \
                   ORDER BY id FOR UPDATE SKIP LOCKED)";
        let gone = query(sql).bind(empty).execute(conn).await?.rows_affected();
        self.mailboxes -= i64::try_from(gone).unwrap_or(0);
        if rows.len() < MAX_ROWS as usize {
            self.mailboxes = 0;
        }
        Ok(gone)
    }
}

/// `None` when another process sweeps.
async fn round(
    shared: &Shared,
    now: UnixSeconds,
    is_new_day: bool,
    over: &mut Over,
) -> Result<Option<Round>, sqlx::Error> {
    let mut conn = shared.pool.acquire().await?;
    let mut transaction = conn.begin().await?;
    let conn = &mut *transaction;
    let sql = format!("SELECT pg_try_advisory_xact_lock({LOCK_SWEEP})");
    if !raw_sql(safe(sql)).fetch_one(&mut *conn).await?.try_get::<bool, _>(0)? {
        return Ok(None);
    }
    let retention = i64::try_from(shared.quotas.retention.as_secs()).unwrap_or(i64::MAX);
    let letters = letters(conn, now.0.saturating_sub(retention)).await?;
    let invites = "DELETE FROM invites WHERE code IN (SELECT code FROM invites WHERE exp <= $1 LIMIT $2)";
    let invites = query(invites).bind(now.0).bind(MAX_ROWS).execute(&mut *conn).await?.rows_affected();
    query("DELETE FROM answers WHERE until <= $1").bind(now.0).execute(&mut *conn).await?;
    let mut mailboxes = 0;
    if is_new_day {
        // A mailbox is only a DID and an epoch. Whoever proves a DID makes one, so those that stand empty for long go.
        let sql = "DELETE FROM mailboxes WHERE id IN (SELECT id FROM mailboxes WHERE day < $1 AND letters = 0 \
                   ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)";
        let before = now.0 / DAY_SECS - MAILBOX_KEPT_DAYS;
        mailboxes = query(sql).bind(before).bind(MAX_ROWS).execute(&mut *conn).await?.rows_affected();
    }
    over.forget(conn).await?;
    transaction.commit().await?;
    let has_more = over.mailboxes > 0 || letters.max(invites).max(mailboxes) >= MAX_ROWS.unsigned_abs();
    Ok(Some(Round { letters, invites, has_more }))
}

/// Mailboxes are locked in the order of their ids before letters are touched, as everybody does.
async fn letters(conn: &mut PgConnection, before: i64) -> Result<u64, sqlx::Error> {
    let rows = query("SELECT mailbox, qid FROM letters WHERE ts < $1 ORDER BY ts LIMIT $2")
        .bind(before)
        .bind(MAX_ROWS)
        .fetch_all(&mut *conn)
        .await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let (mut mailboxes, mut qids): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
    for row in &rows {
        mailboxes.push(row.try_get(0)?);
        qids.push(row.try_get(1)?);
    }
    let sql = format!(
        "SELECT 1 FROM mailboxes WHERE id IN ({}) ORDER BY id FOR NO KEY UPDATE",
        listed(mailboxes.iter().copied())
    );
    raw_sql(safe(sql)).execute(&mut *conn).await?;
    let row = query(
        "WITH gone AS (DELETE FROM letters l USING unnest($1::bigint[], $2::bigint[]) a (mailbox, qid) \
             WHERE l.mailbox = a.mailbox AND l.qid = a.qid RETURNING l.mailbox, l.size), \
         sums AS (SELECT mailbox, count(*) AS letters, sum(size)::bigint AS bytes FROM gone GROUP BY mailbox), \
         changed AS (UPDATE mailboxes m SET letters = m.letters - s.letters, bytes = m.bytes - s.bytes \
             FROM sums s WHERE m.id = s.mailbox RETURNING m.letters) \
         SELECT (SELECT count(*) FROM gone), (SELECT coalesce(sum(size), 0)::bigint FROM gone), \
             (SELECT count(*) FROM changed WHERE letters = 0)",
    )
    .bind(mailboxes)
    .bind(qids)
    .fetch_one(&mut *conn)
    .await?;
    let (letters, bytes, emptied): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let sql = update_totals(SHARD, Totals { letters: -letters, bytes: -bytes }, -emptied);
    raw_sql(safe(sql)).execute(conn).await?;
    Ok(letters.max(0).unsigned_abs())
}
