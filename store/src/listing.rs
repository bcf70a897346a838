//! Lists messages.
use muretai_protocol::UnixSeconds;
use sqlx::{AssertSqlSafe, Row, query, sqlite::SqliteRow};

use crate::{
    Store, StoreError,
    messages::{Direction, MessageRow, OutStatus, Query},
};

/// Every column of a message, in the order of [`row_from`].
macro_rules! select {
    () => {
        "SELECT seq, direction, address, name, message_id, context_id, reply_to, text, timestamp, received, \
         is_unread, is_auto, is_verified, status, extra, code \
         FROM messages JOIN peers ON id = messages.peer LEFT JOIN contacts ON contacts.peer = messages.peer"
    };
}

const FILTERED: &str =
    concat!(select!(), " WHERE seq > ?1 AND (?2 IS NULL OR address = ?2) AND (?3 IS NULL OR context_id = ?3)");

impl Store {
    /// Lists, oldest first, in order of `seq`. What `limit` means is said at [`Query::limit`].
    pub async fn messages(&self, query: &Query) -> Result<Vec<MessageRow>, StoreError> {
        let query = query.clone();
        self.read(|conn| Box::pin(async move { list(conn, &query).await })).await
    }
}

async fn list(conn: &mut sqlx::SqliteConnection, what: &Query) -> Result<Vec<MessageRow>, StoreError> {
    let mut sql = FILTERED.to_owned();
    if what.unread_only {
        sql.push_str(" AND is_unread = 1");
    } else if !what.with_sent {
        sql.push_str(" AND direction = 0");
    }
    if !what.with_auto {
        sql.push_str(" AND is_auto = 0");
    }
    let newest_first = what.limit.is_some() && what.after_seq.is_none();
    sql.push_str(if newest_first { " ORDER BY seq DESC LIMIT ?4" } else { " ORDER BY seq LIMIT ?4" });
    let rows = query(AssertSqlSafe(sql))
        .bind(what.after_seq.unwrap_or(0))
        .bind(&what.peer)
        .bind(&what.context_id)
        .bind(what.limit.map_or(-1, i64::from))
        .fetch_all(conn)
        .await?;
    let mut messages = rows.iter().map(row_from).collect::<Result<Vec<_>, _>>()?;
    if newest_first {
        messages.reverse();
    }
    Ok(messages)
}

/// The newest one: ids are random, so there is but one, unless the owner's copy of a file says otherwise.
pub(crate) async fn find_outgoing(
    conn: &mut sqlx::SqliteConnection,
    message_id: &str,
) -> Result<Option<MessageRow>, StoreError> {
    let sql = concat!(select!(), " WHERE message_id = ? AND status IS NOT NULL ORDER BY seq DESC LIMIT 1");
    let row = query(sql).bind(message_id).fetch_optional(conn).await?;
    row.as_ref().map(row_from).transpose()
}

/// The answer to an outgoing message that is more than word of it.
pub(crate) async fn find_answer(
    conn: &mut sqlx::SqliteConnection,
    message_id: &str,
) -> Result<Option<MessageRow>, StoreError> {
    let sql = concat!(
        select!(),
        " WHERE seq = (SELECT answer FROM messages WHERE message_id = ? AND status IS NOT NULL ORDER BY seq DESC \
         LIMIT 1) AND (is_auto = 0 OR (text <> '' AND ifnull(instr(extra, '\"status\"'), 0) = 0))"
    );
    let row = query(sql).bind(message_id).fetch_optional(conn).await?;
    row.as_ref().map(row_from).transpose()
}

fn row_from(row: &SqliteRow) -> Result<MessageRow, StoreError> {
    Ok(MessageRow {
        seq: row.try_get(0)?,
        direction: Direction::from_stored(row.try_get(1)?)?,
        peer: row.try_get(2)?,
        name: row.try_get(3)?,
        message_id: row.try_get(4)?,
        context_id: row.try_get(5)?,
        reply_to: row.try_get(6)?,
        text: row.try_get(7)?,
        timestamp: UnixSeconds(row.try_get(8)?),
        received: UnixSeconds(row.try_get(9)?),
        is_unread: row.try_get(10)?,
        is_auto: row.try_get(11)?,
        is_verified: row.try_get(12)?,
        status: row.try_get::<Option<i64>, _>(13)?.map(OutStatus::from_stored).transpose()?,
        extra: row.try_get(14)?,
        code: row.try_get(15)?,
    })
}
