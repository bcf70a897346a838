//! Deletes what is too old, a little at a time, so that deposits get in between.
use muretai_protocol::UnixSeconds;
use sqlx::{AssertSqlSafe, Row, SqliteConnection, query, raw_sql};

use crate::{
    StoreError,
    mailboxes::{
        DAY_SECS, MAILBOX_KEPT_DAYS, Quotas,
        sqlite::{keep::Piles, reader::qid_list},
    },
};

/// Rows that go in one transaction.
const MAX_ROWS: i64 = 500;
/// Transactions in one sweep.
pub(super) const MAX_ROUNDS: usize = 1_000;
/// Free pages that a file may keep for what comes next, and how many go back to the file system at once.
const SPARE_PAGES: i64 = 4_096;
const PAGES_BACK: i64 = 512;

/// What one transaction removed.
#[derive(Default)]
pub(super) struct Gone {
    pub(super) letters: Vec<GoneLetter>,
    pub(super) invites: u64,
    /// Mailboxes that nobody needs any more.
    pub(super) mailboxes: Vec<String>,
    pub(super) has_more: bool,
}

pub(super) struct GoneLetter {
    pub(super) did: String,
    pub(super) mailbox: i64,
    pub(super) size: u32,
}

/// One round. Mailboxes are looked at when `is_new_day`.
pub(super) async fn sweep(
    conn: &mut SqliteConnection,
    quotas: &Quotas,
    piles: &mut Piles,
    now: UnixSeconds,
    is_new_day: bool,
) -> Result<Gone, StoreError> {
    let mut gone = Gone { letters: letters(conn, quotas, now).await?, ..Gone::default() };
    let expired =
        "DELETE FROM invites WHERE rowid IN (SELECT rowid FROM invites WHERE exp <= ? LIMIT ?) RETURNING size";
    for row in query(expired).bind(now.0).bind(MAX_ROWS).fetch_all(&mut *conn).await? {
        piles.invites.remove(row.try_get(0)?);
        gone.invites += 1;
    }
    if is_new_day {
        gone.mailboxes = mailboxes(conn, now).await?;
    }
    piles.mailboxes -= gone.mailboxes.len() as i64;
    let forgotten = forget_empty(conn, quotas.mailboxes, piles).await?;
    piles.mailboxes -= forgotten.len() as i64;
    gone.mailboxes.extend(forgotten);
    let most = gone.letters.len().max(gone.mailboxes.len()) as u64;
    gone.has_more = most.max(gone.invites) >= MAX_ROWS.unsigned_abs();
    let is_over = quotas.mailboxes > 0 && piles.mailboxes.max(0).unsigned_abs() > quotas.mailboxes;
    gone.has_more |= is_over && piles.looked_at > 0;
    gone.has_more |= give_back(conn).await?;
    Ok(gone)
}

async fn letters(
    conn: &mut SqliteConnection,
    quotas: &Quotas,
    now: UnixSeconds,
) -> Result<Vec<GoneLetter>, StoreError> {
    let retention = i64::try_from(quotas.retention.as_secs()).unwrap_or(i64::MAX);
    let rows = query(
        "DELETE FROM letters WHERE qid IN (SELECT qid FROM letters WHERE ts < ? ORDER BY ts LIMIT ?) \
         RETURNING (SELECT did FROM mailboxes WHERE id = mailbox), mailbox, size",
    )
    .bind(now.0.saturating_sub(retention))
    .bind(MAX_ROWS)
    .fetch_all(conn)
    .await?;
    let gone = rows.iter().map(|row| {
        let size = u32::try_from(row.try_get::<i64, _>(2)?).unwrap_or(u32::MAX);
        Ok(GoneLetter { did: row.try_get(0)?, mailbox: row.try_get(1)?, size })
    });
    gone.collect()
}

/// A mailbox is only a DID and an epoch. Whoever proves a DID makes one, so those that stand empty for long go; an
/// epoch that nobody renewed for so long supersedes nobody who is still there.
async fn mailboxes(conn: &mut SqliteConnection, now: UnixSeconds) -> Result<Vec<String>, StoreError> {
    let rows = query(
        "DELETE FROM mailboxes WHERE id IN (SELECT id FROM mailboxes m WHERE day < ? \
         AND NOT EXISTS (SELECT 1 FROM letters WHERE mailbox = m.id) LIMIT ?) RETURNING did",
    )
    .bind(now.0 / DAY_SECS - MAILBOX_KEPT_DAYS)
    .bind(MAX_ROWS)
    .fetch_all(conn)
    .await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Empty ones that are too many, those first that were made first: they are made again when they are needed. Only so many
/// are looked at, because most may hold letters; the next round goes on behind them.
async fn forget_empty(conn: &mut SqliteConnection, most: u64, piles: &mut Piles) -> Result<Vec<String>, StoreError> {
    let over = piles.mailboxes - i64::try_from(most).unwrap_or(i64::MAX);
    if most == 0 || over <= 0 {
        return Ok(Vec::new());
    }
    let sql = "SELECT id, did, EXISTS (SELECT 1 FROM letters WHERE mailbox = m.id) FROM mailboxes m \
               WHERE id > ? ORDER BY id LIMIT ?";
    let rows = query(sql).bind(piles.looked_at).bind(MAX_ROWS).fetch_all(&mut *conn).await?;
    piles.looked_at = if rows.len() < MAX_ROWS as usize { 0 } else { rows[rows.len() - 1].try_get(0)? };
    let (mut ids, mut dids) = (Vec::new(), Vec::new());
    for row in &rows {
        if !row.try_get::<bool, _>(2)? && (ids.len() as i64) < over {
            ids.push(row.try_get(0)?);
            dids.push(row.try_get(1)?);
        }
    }
    query("DELETE FROM mailboxes WHERE id IN (SELECT value FROM json_each(?))")
        .bind(qid_list(&ids))
        .execute(conn)
        .await?;
    Ok(dids)
}

/// Whether there is more to give back.
async fn give_back(conn: &mut SqliteConnection) -> Result<bool, StoreError> {
    let row = raw_sql("SELECT freelist_count, page_count FROM pragma_freelist_count, pragma_page_count")
        .fetch_one(&mut *conn)
        .await?;
    let (free, pages): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    if free <= SPARE_PAGES.max(pages / 4) {
        return Ok(false);
    }
    raw_sql(AssertSqlSafe(format!("PRAGMA incremental_vacuum({PAGES_BACK})"))).fetch_all(conn).await?;
    Ok(true)
}
