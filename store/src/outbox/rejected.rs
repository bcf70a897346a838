//! Letters that did not get in here.
use muretai_protocol::UnixSeconds;
use sqlx::{Row, SqliteConnection, query};

use crate::{StoreError, outbox::RejectedLetter};

/// Letters of contacts that are kept, and as many of everybody else: who is a stranger, or pretends to be many, pushes out
/// nothing that the owner wants to see.
const MAX_LETTERS: i64 = 500;
/// Bytes of each text that are kept: all of them are somebody else's words.
const MAX_TEXT_BYTES: usize = 1_024;

/// Writes one and makes room for it.
pub(super) async fn insert(conn: &mut SqliteConnection, letter: &RejectedLetter) -> Result<(), StoreError> {
    query("INSERT INTO rejected (received, bytes, code, relay, sender, letter, reason) VALUES (?, ?, ?, ?, ?, ?, ?)")
        .bind(letter.received.0)
        .bind(i64::try_from(letter.bytes).unwrap_or(i64::MAX))
        .bind(letter.code)
        .bind(cut(&letter.relay))
        .bind(cut(&letter.from))
        .bind(cut(&letter.id))
        .bind(cut(&letter.reason))
        .execute(&mut *conn)
        .await?;
    query(
        "WITH kinds AS (
            SELECT id, sender, EXISTS (
                SELECT 1 FROM peers JOIN contacts ON contacts.peer = peers.id
                WHERE peers.address = rejected.sender AND contacts.is_blocked = 0
            ) AS is_contact FROM rejected
        )
        DELETE FROM rejected WHERE id IN (
            SELECT id FROM kinds WHERE is_contact = (SELECT is_contact FROM kinds WHERE sender = ? LIMIT 1)
            ORDER BY id DESC LIMIT -1 OFFSET ?
        )",
    )
    .bind(cut(&letter.from))
    .bind(MAX_LETTERS)
    .execute(conn)
    .await?;
    Ok(())
}

/// The newest, oldest of them first.
pub(super) async fn list(conn: &mut SqliteConnection, limit: u32) -> Result<Vec<RejectedLetter>, StoreError> {
    let rows =
        query("SELECT received, bytes, code, relay, sender, letter, reason FROM rejected ORDER BY id DESC LIMIT ?")
            .bind(limit)
            .fetch_all(conn)
            .await?;
    let letters = rows.iter().rev().map(|row| {
        Ok(RejectedLetter {
            received: UnixSeconds(row.try_get(0)?),
            bytes: u64::try_from(row.try_get::<i64, _>(1)?).map_err(|_| StoreError::Damaged)?,
            code: row.try_get(2)?,
            relay: row.try_get(3)?,
            from: row.try_get(4)?,
            id: row.try_get(5)?,
            reason: row.try_get(6)?,
        })
    });
    letters.collect()
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}
