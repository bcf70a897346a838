//! Deletes what nobody needs, a bounded part at a time, so that the file does not grow with what has passed.
use muretai_protocol::UnixSeconds;
use sqlx::{Row, SqliteConnection, query};

use crate::{StoreError, introductions::rows as introductions};

/// Rows of one kind that one sweep deletes: the write lock is held meanwhile.
const CHUNK: i64 = 500;
/// How long what has passed is kept for the owner to look at.
const KEPT_SECS: i64 = 30 * 86_400;

/// See [`crate::Store::sweep_trust`].
pub(super) async fn sweep(conn: &mut SqliteConnection, now: UnixSeconds) -> Result<u64, StoreError> {
    let past = now.0.saturating_sub(KEPT_SECS);
    let mut deleted = 0;
    let ended = query("SELECT seq FROM introductions WHERE valid_until <= ? ORDER BY valid_until LIMIT ?")
        .bind(past)
        .bind(CHUNK)
        .fetch_all(&mut *conn)
        .await?;
    for row in &ended {
        introductions::delete(conn, row.try_get(0)?).await?;
        deleted += 1;
    }
    // What was decided about an introduction is remembered for as long as the introduction is.
    let requests = "DELETE FROM requests WHERE id IN (SELECT id FROM requests AS r WHERE expires <= ?1 AND NOT \
                    (kind = 1 AND EXISTS (SELECT 1 FROM introductions AS i \
                    WHERE i.role = 1 AND i.issuer = r.via AND i.id = r.wire_id)) ORDER BY expires LIMIT ?2)";
    let held = "DELETE FROM held WHERE request IN (SELECT request FROM held JOIN requests ON id = request \
                WHERE expires <= ?1 LIMIT ?2)";
    let errands = "DELETE FROM errands WHERE id IN (SELECT id FROM errands WHERE expires <= ?1 LIMIT ?2)";
    for (sql, time) in [(requests, past), (held, now.0), (errands, now.0)] {
        deleted += query(sql).bind(time).bind(CHUNK).execute(&mut *conn).await?.rows_affected();
    }
    Ok(deleted)
}
