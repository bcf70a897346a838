//! Cards and invites, inside the writer's transaction.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, SqliteConnection, query};

use crate::{
    StoreError,
    mailboxes::{PutCard, PutInvite, Quotas},
};

/// An invite to keep.
pub(super) struct NewInvite {
    pub(super) did: Did,
    pub(super) code: String,
    pub(super) card: String,
    pub(super) exp: UnixSeconds,
    pub(super) now: UnixSeconds,
}

/// A renewal gets the highest number; the lowest go when there are too many.
pub(super) async fn put_card(
    conn: &mut SqliteConnection,
    quotas: &Quotas,
    did: &Did,
    ts: i64,
    envelope: &str,
) -> Result<PutCard, StoreError> {
    let held = query("SELECT ts FROM cards WHERE did = ?").bind(did.as_str()).fetch_optional(&mut *conn).await?;
    let held: Option<i64> = held.map(|row| row.try_get(0)).transpose()?;
    if let Some(held) = held
        && held >= ts
    {
        return Ok(PutCard::Held(held));
    }
    query("INSERT OR REPLACE INTO cards (did, ts, envelope) VALUES (?, ?, ?)")
        .bind(did.as_str())
        .bind(ts)
        .bind(envelope.to_owned())
        .execute(&mut *conn)
        .await?;
    if held.is_none() && quotas.cards > 0 {
        query(
            "DELETE FROM cards WHERE renewal IN (SELECT renewal FROM cards ORDER BY renewal \
             LIMIT max(0, (SELECT count(*) FROM cards) - ?))",
        )
        .bind(i64::try_from(quotas.cards).unwrap_or(i64::MAX))
        .execute(conn)
        .await?;
    }
    Ok(PutCard::Stored)
}

/// The same card again gets its first code; an expired one gives its code away.
pub(super) async fn put_invite(
    conn: &mut SqliteConnection,
    quotas: &Quotas,
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
    query("DELETE FROM invites WHERE code = ? AND exp <= ?")
        .bind(new.code.clone())
        .bind(new.now.0)
        .execute(&mut *conn)
        .await?;
    let done = query("INSERT OR IGNORE INTO invites (code, did, exp, card) VALUES (?, ?, ?, ?)")
        .bind(new.code.clone())
        .bind(new.did.as_str())
        .bind(new.exp.0)
        .bind(new.card.clone())
        .execute(conn)
        .await?;
    let outcome = if done.rows_affected() == 0 { PutInvite::CodeTaken } else { PutInvite::Stored };
    Ok((outcome, new.code.clone()))
}
