//! Cards and invites: one short transaction each, on the pool. Whoever has a key may leave some, and keys cost nothing:
//! when there are too many, those that nobody renewed, or that were left first, make room.
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Acquire, PgPool, Row, query, raw_sql};
use tokio::sync::Semaphore;

use crate::mailboxes::{
    MailboxError, PutCard, PutInvite, Quotas,
    accounts::{OVERHEAD_BYTES, Pile},
    postgres::{
        Shared,
        failure::Tries,
        link::safe,
        records::{one_text, trying},
    },
};

/// Who publishes at a time: listeners need the pool's other connections.
const WRITERS: usize = 2;

/// The turns of those who publish.
pub(super) fn turns() -> Semaphore {
    Semaphore::new(WRITERS)
}

/// About how much there is of one kind: what this process added since it counted last. Nobody holds a lock for it; a bound
/// may be passed by what others add until the next count, which each sweep makes.
#[derive(Default)]
pub(super) struct About {
    pile: Mutex<Pile>,
    is_trimming: AtomicBool,
}

impl About {
    /// Whether there may be too much now.
    fn add(&self, size: usize, bounds: (u64, u64)) -> bool {
        let mut pile = self.pile.lock().unwrap_or_else(PoisonError::into_inner);
        pile.add(i64::try_from(size).unwrap_or(i64::MAX));
        pile.is_over(bounds.0, bounds.1)
    }

    fn set(&self, counted: Pile) {
        *self.pile.lock().unwrap_or_else(PoisonError::into_inner) = counted;
    }
}

/// What is bounded: its table, the column that orders it, how many and how many bytes there may be.
struct Kind<'a> {
    about: &'a About,
    table: &'static str,
    order: &'static str,
    bounds: (u64, u64),
}

fn cards(shared: &Shared) -> Kind<'_> {
    let Quotas { cards, card_bytes, .. } = shared.quotas;
    Kind { about: &shared.cards, table: "cards", order: "renewal", bounds: (cards, card_bytes) }
}

fn invites(shared: &Shared) -> Kind<'_> {
    Kind { about: &shared.invites, table: "invites", order: "number", bounds: (0, shared.quotas.invite_bytes) }
}

/// Both kinds, counted anew.
pub(super) async fn trim(shared: &Shared) -> Result<(), MailboxError> {
    cards(shared).trim(shared).await?;
    invites(shared).trim(shared).await
}

impl Kind<'_> {
    async fn added(&self, shared: &Shared, size: usize) -> Result<(), MailboxError> {
        if self.about.add(size, self.bounds) { self.trim(shared).await } else { Ok(()) }
    }

    /// One at a time in this process: others leave it to that one.
    async fn trim(&self, shared: &Shared) -> Result<(), MailboxError> {
        if self.about.is_trimming.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let _done = Done(&self.about.is_trimming);
        let counted = self.count(shared).await?;
        self.about.set(counted);
        if counted.is_over(self.bounds.0, self.bounds.1) {
            self.make_room(shared).await?;
            self.about.set(self.count(shared).await?);
        }
        Ok(())
    }

    async fn count(&self, shared: &Shared) -> Result<Pile, MailboxError> {
        let sql = format!("SELECT count(*), coalesce(sum(size), 0)::bigint FROM {}", self.table);
        let row = trying!(raw_sql(safe(sql.clone())).fetch_one(&shared.pool));
        Ok(Pile { count: row.try_get(0)?, bytes: row.try_get(1)? })
    }

    /// A little more than has to go, so that not every new one costs a search.
    async fn make_room(&self, shared: &Shared) -> Result<(), MailboxError> {
        let kept = |bound: u64| match bound {
            0 => i64::MAX,
            bound => i64::try_from(bound - bound / 64).unwrap_or(i64::MAX),
        };
        let Kind { table, order, .. } = self;
        let sql = format!(
            "DELETE FROM {table} WHERE {order} <= (SELECT max({order}) FROM (SELECT {order}, row_number() OVER w AS n, \
             sum(size + {OVERHEAD_BYTES}) OVER w AS upto FROM {table} \
             WINDOW w AS (ORDER BY {order} DESC ROWS UNBOUNDED PRECEDING)) k WHERE n > 1 AND (n > $1 OR upto > $2))"
        );
        let (most, bytes) = (kept(self.bounds.0), kept(self.bounds.1));
        trying!(query(safe(sql.clone())).bind(most).bind(bytes).execute(&shared.pool));
        Ok(())
    }
}

struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

pub(super) async fn put_card(shared: &Shared, did: &Did, ts: i64, envelope: &str) -> Result<PutCard, MailboxError> {
    let _turn = shared.turns.acquire().await;
    let sql = "INSERT INTO cards (did, ts, envelope) VALUES ($1, $2, $3) \
               ON CONFLICT (did) DO UPDATE SET ts = excluded.ts, envelope = excluded.envelope, renewal = DEFAULT \
               WHERE cards.ts < excluded.ts";
    let done = trying!(query(sql).bind(did.as_str()).bind(ts).bind(envelope).execute(&shared.pool));
    if done.rows_affected() == 0 {
        let row = trying!(query("SELECT ts FROM cards WHERE did = $1").bind(did.as_str()).fetch_optional(&shared.pool));
        return Ok(PutCard::Held(row.map_or(Ok(ts), |row| row.try_get(0))?));
    }
    cards(shared).added(shared, envelope.len()).await?;
    Ok(PutCard::Stored)
}

pub(super) async fn card(pool: &PgPool, did: &Did) -> Result<Option<String>, MailboxError> {
    one_text(pool, "SELECT envelope FROM cards WHERE did = $1", did.as_str()).await
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

pub(super) async fn put_invite(shared: &Shared, new: NewInvite<'_>) -> Result<(PutInvite, String), MailboxError> {
    let _turn = shared.turns.acquire().await;
    let (outcome, code, is_new) = trying!(try_invite(&shared.pool, shared.quotas.invites, &new));
    if is_new {
        invites(shared).added(shared, new.card.len()).await?;
    }
    Ok((outcome, code))
}

/// One at a time for each DID. The same card again gets its first code; an expired one gives its code away. Says too
/// whether there is one more now.
async fn try_invite(pool: &PgPool, most: u32, new: &NewInvite<'_>) -> Result<(PutInvite, String, bool), sqlx::Error> {
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
            return Ok((PutInvite::Stored, row.try_get(0)?, false));
        }
    }
    if rows.len() >= most as usize {
        return Ok((PutInvite::TooMany, new.code.to_owned(), false));
    }
    let sql = "INSERT INTO invites (code, did, exp, card) VALUES ($1, $2, $3, $4) ON CONFLICT (code) DO UPDATE \
               SET did = excluded.did, exp = excluded.exp, card = excluded.card, number = DEFAULT WHERE invites.exp <= $5";
    let done = query(sql)
        .bind(new.code)
        .bind(new.did.as_str())
        .bind(new.exp.0)
        .bind(new.card)
        .bind(new.now.0)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    let is_new = done.rows_affected() > 0;
    let outcome = if is_new { PutInvite::Stored } else { PutInvite::CodeTaken };
    Ok((outcome, new.code.to_owned(), is_new))
}
