//! Cards and invites, inside the writer's transaction. Whoever has a key may leave some, and keys cost nothing: when there
//! are too many, those that nobody renewed, or that were left first, make room.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, SqliteConnection, query, raw_sql};

use crate::{
    StoreError,
    mailboxes::{PutCard, PutInvite, Quotas, accounts::Pile},
};

/// Rows that are looked at together when room has to be made.
const OLDEST: usize = 128;

/// An invite to keep.
pub(super) struct NewInvite {
    pub(super) did: Did,
    pub(super) code: String,
    pub(super) card: String,
    pub(super) exp: UnixSeconds,
    pub(super) now: UnixSeconds,
}

/// How much there is beside letters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Piles {
    pub(super) cards: Pile,
    pub(super) invites: Pile,
    pub(super) mailboxes: i64,
    /// Up to which mailbox a sweep looked for empty ones.
    pub(super) looked_at: i64,
}

impl Piles {
    pub(super) async fn load(conn: &mut SqliteConnection) -> Result<Piles, StoreError> {
        let sql = "SELECT (SELECT count(*) FROM cards), (SELECT ifnull(sum(size), 0) FROM cards), \
                   (SELECT count(*) FROM invites), (SELECT ifnull(sum(size), 0) FROM invites), \
                   (SELECT count(*) FROM mailboxes)";
        let row = raw_sql(sql).fetch_one(conn).await?;
        Ok(Piles {
            cards: Pile { count: row.try_get(0)?, bytes: row.try_get(1)? },
            invites: Pile { count: row.try_get(2)?, bytes: row.try_get(3)? },
            mailboxes: row.try_get(4)?,
            looked_at: 0,
        })
    }
}

/// A renewal gets the highest number; the lowest go when there are too many.
pub(super) async fn put_card(
    conn: &mut SqliteConnection,
    quotas: &Quotas,
    cards: &mut Pile,
    did: &Did,
    ts: i64,
    envelope: &str,
) -> Result<PutCard, StoreError> {
    let held = query("SELECT ts, size FROM cards WHERE did = ?").bind(did.as_str()).fetch_optional(&mut *conn).await?;
    if let Some(row) = held {
        let held: i64 = row.try_get(0)?;
        if held >= ts {
            return Ok(PutCard::Held(held));
        }
        cards.remove(row.try_get(1)?);
    }
    let size = bytes_of(envelope);
    query("INSERT OR REPLACE INTO cards (did, ts, envelope, size) VALUES (?, ?, ?, ?)")
        .bind(did.as_str())
        .bind(ts)
        .bind(envelope.to_owned())
        .bind(size)
        .execute(&mut *conn)
        .await?;
    cards.add(size);
    while cards.is_over(quotas.cards, quotas.card_bytes) {
        let oldest = "SELECT renewal, size FROM cards ORDER BY renewal LIMIT ?";
        let gone = first_to_go(conn, cards, oldest, quotas.cards, quotas.card_bytes).await?;
        query("DELETE FROM cards WHERE renewal <= ?").bind(gone).execute(&mut *conn).await?;
    }
    Ok(PutCard::Stored)
}

/// The same card again gets its first code; an expired one gives its code away.
pub(super) async fn put_invite(
    conn: &mut SqliteConnection,
    quotas: &Quotas,
    invites: &mut Pile,
    new: &NewInvite,
) -> Result<(PutInvite, String), StoreError> {
    let rows = query("SELECT code, card = ? FROM invites WHERE did = ? AND exp > ?")
        .bind(new.card.clone())
        .bind(new.did.as_str())
        .bind(new.now.0)
        .fetch_all(&mut *conn)
        .await?;
    for row in &rows {
        if row.try_get(1)? {
            return Ok((PutInvite::Stored, row.try_get(0)?));
        }
    }
    if rows.len() >= quotas.invites as usize {
        return Ok((PutInvite::TooMany, new.code.clone()));
    }
    let expired = query("DELETE FROM invites WHERE code = ? AND exp <= ? RETURNING size")
        .bind(new.code.clone())
        .bind(new.now.0)
        .fetch_all(&mut *conn)
        .await?;
    for row in expired {
        invites.remove(row.try_get(0)?);
    }
    let size = bytes_of(&new.card);
    let done = query("INSERT OR IGNORE INTO invites (code, did, exp, card, size) VALUES (?, ?, ?, ?, ?)")
        .bind(new.code.clone())
        .bind(new.did.as_str())
        .bind(new.exp.0)
        .bind(new.card.clone())
        .bind(size)
        .execute(&mut *conn)
        .await?;
    if done.rows_affected() == 0 {
        return Ok((PutInvite::CodeTaken, new.code.clone()));
    }
    invites.add(size);
    while invites.is_over(0, quotas.invite_bytes) {
        let oldest = "SELECT rowid, size FROM invites ORDER BY rowid LIMIT ?";
        let gone = first_to_go(conn, invites, oldest, 0, quotas.invite_bytes).await?;
        query("DELETE FROM invites WHERE rowid <= ?").bind(gone).execute(&mut *conn).await?;
    }
    Ok((PutInvite::Stored, new.code.clone()))
}

/// Up to which number the oldest have to go, and takes them off the pile. The newest never goes.
async fn first_to_go(
    conn: &mut SqliteConnection,
    pile: &mut Pile,
    oldest: &'static str,
    most: u64,
    max_bytes: u64,
) -> Result<i64, StoreError> {
    let mut last = i64::MIN;
    for row in query(oldest).bind(OLDEST as i64).fetch_all(conn).await? {
        if !pile.is_over(most, max_bytes) {
            break;
        }
        last = row.try_get(0)?;
        pile.remove(row.try_get(1)?);
    }
    Ok(last)
}

fn bytes_of(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}
