//! The rows of the outbox, inside the caller's transaction.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, SqliteConnection, query, sqlite::SqliteRow};

use crate::{
    StoreError,
    contacts::peer_id,
    messages::{OutStatus, Received, Reply, ReplyBy, Settles, TARGET_SETTING},
    outbox::{EarlierReply, Keep, OutboxRow},
};

/// Bytes of [`OutboxRow::last_error`] that are kept.
pub(super) const MAX_ERROR_BYTES: usize = 1_024;
/// Messages of the owner's that may be on their way.
const MAX_MESSAGES: i64 = if cfg!(test) { 50 } else { 100_000 };
/// Replies and notices that are kept; then the oldest goes.
const MAX_OTHERS: i64 = if cfg!(test) { 20 } else { 10_000 };
/// When messages are tried again whose leader is gone.
const NEXT_SECS: i64 = 30;
/// How long a reply is tried, unless its writer says otherwise.
const REPLY_LIFE_SECS: i64 = 7 * 86_400;

/// Every column of a row, in the order of [`row_from`].
macro_rules! select {
    () => {
        "SELECT seq, address, name, message_id, context_id, reply_to, text, is_reply, is_auto, outbox.expires, via, \
         outbox.extra, fallback_relay, fallback_enc_pub, attempts, created, due, last_error, outbox.relay, deposited, \
         outbox.allow_private \
         FROM outbox JOIN messages USING (seq) JOIN peers ON id = outbox.peer \
         LEFT JOIN contacts ON contacts.peer = outbox.peer"
    };
}

/// Whose words they are, and so what goes first when there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The owner's: never dropped for want of room.
    Message = 0,
    /// The responder's.
    Reply = 1,
    /// A machine's notice or acknowledgement.
    Notice = 2,
}

/// Puts a message that was just written into the outbox.
pub(crate) async fn insert(
    conn: &mut SqliteConnection,
    seq: i64,
    peer: i64,
    kind: Kind,
    created: UnixSeconds,
    keep: &Keep,
) -> Result<(), StoreError> {
    if kind == Kind::Message {
        let row = query("SELECT count(*) FROM outbox WHERE kind = 0").fetch_one(&mut *conn).await?;
        if row.try_get::<i64, _>(0)? >= MAX_MESSAGES {
            return Err(StoreError::OutboxFull { limit: MAX_MESSAGES });
        }
    }
    write(conn, seq, peer, (kind, false), created, keep).await
}

/// The same for a reply that nobody waits for.
pub(crate) async fn insert_reply(
    conn: &mut SqliteConnection,
    seq: i64,
    peer: i64,
    is_auto: bool,
    created: UnixSeconds,
    by: &ReplyBy,
) -> Result<(), StoreError> {
    let keep = Keep {
        expires: by.expires.unwrap_or(UnixSeconds(created.0.saturating_add(REPLY_LIFE_SECS))),
        via: None,
        allow_private: false,
        extra: by.extra.clone(),
        relay: by.relay.clone(),
        enc_pub: by.enc_pub.clone(),
        lease: None,
    };
    let kind = if is_auto { Kind::Notice } else { Kind::Reply };
    write(conn, seq, peer, (kind, true), created, &keep).await
}

/// Writes the reply to a message that is not among the others, and puts it into the outbox.
pub(crate) async fn write_reply(
    conn: &mut SqliteConnection,
    asked: &Received,
    reply: &Reply,
    by: &ReplyBy,
) -> Result<(), StoreError> {
    let peer = peer_id(conn, asked.from.as_str()).await?;
    let done = query(
        "INSERT INTO messages (peer, direction, is_unread, is_auto, is_verified, timestamp, received, message_id, \
         reply_to, context_id, sig, text) VALUES (?, 1, 0, ?, 1, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(peer)
    .bind(reply.is_auto)
    .bind(reply.timestamp.0)
    .bind(asked.received.0)
    .bind(&reply.message_id)
    .bind(&asked.message_id)
    .bind(&asked.context_id)
    .bind(&reply.sig)
    .bind(&reply.text)
    .execute(&mut *conn)
    .await?;
    insert_reply(conn, done.last_insert_rowid(), peer, reply.is_auto, asked.received, by).await?;
    bound(conn).await
}

/// How far back a reply is looked for that was made a moment ago.
const RECENT_ROWS: i64 = 10_000;

/// See [`crate::Store::post_reply`].
pub(super) async fn post_reply(
    conn: &mut SqliteConnection,
    peer: &Did,
    message_id: &str,
    by: &ReplyBy,
) -> Result<bool, StoreError> {
    let row = query(
        "SELECT seq, messages.peer, is_auto, received FROM messages JOIN peers ON id = messages.peer \
         WHERE seq > (SELECT max(seq) FROM messages) - ? AND address = ? AND message_id = ? AND direction = 1 \
         AND status IS NULL AND seq NOT IN (SELECT seq FROM outbox) \
         AND NOT EXISTS (SELECT 1 FROM messages AS asked WHERE asked.seq = messages.seq - 1 \
         AND asked.message_id = messages.reply_to AND asked.is_auto = 1) ORDER BY seq DESC LIMIT 1",
    )
    .bind(RECENT_ROWS)
    .bind(peer.as_str())
    .bind(message_id)
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(false) };
    let (seq, peer, is_auto) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    insert_reply(conn, seq, peer, is_auto, UnixSeconds(row.try_get(3)?), by).await?;
    bound(conn).await?;
    Ok(true)
}

/// See [`crate::Store::reply_to`].
pub(super) async fn reply_to(
    conn: &mut SqliteConnection,
    peer: &Did,
    message_id: &str,
) -> Result<Option<EarlierReply>, StoreError> {
    let row = query(
        "SELECT reply.message_id, reply.text, reply.is_auto, asked.received \
         FROM messages AS asked JOIN peers ON id = asked.peer JOIN messages AS reply ON reply.seq = asked.seq + 1 \
         WHERE asked.seq > (SELECT max(seq) FROM messages) - ? AND address = ? AND asked.message_id = ? \
         AND asked.direction = 0 AND reply.direction = 1 AND reply.reply_to = asked.message_id \
         ORDER BY asked.seq DESC LIMIT 1",
    )
    .bind(RECENT_ROWS)
    .bind(peer.as_str())
    .bind(message_id)
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let received = UnixSeconds(row.try_get(3)?);
    Ok(Some(EarlierReply { message_id: row.try_get(0)?, text: row.try_get(1)?, is_auto: row.try_get(2)?, received }))
}

async fn write(
    conn: &mut SqliteConnection,
    seq: i64,
    peer: i64,
    (kind, is_reply): (Kind, bool),
    created: UnixSeconds,
    keep: &Keep,
) -> Result<(), StoreError> {
    query(
        "INSERT INTO outbox (seq, peer, kind, is_reply, is_taken, attempts, due, created, expires, via, fallback_relay, \
         fallback_enc_pub, extra, allow_private) VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(seq)
    .bind(peer)
    .bind(kind as i64)
    .bind(is_reply)
    .bind(keep.lease.is_some())
    .bind(keep.lease.unwrap_or(created).0)
    .bind(created.0)
    .bind(keep.expires.0)
    .bind(&keep.via)
    .bind(&keep.relay)
    .bind(&keep.enc_pub)
    .bind(&keep.extra)
    .bind(keep.allow_private)
    .execute(conn)
    .await?;
    Ok(())
}

/// Drops the oldest replies and notices beyond what is kept, notices first. A reply that goes so has failed.
pub(crate) async fn bound(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    let row = query("SELECT count(*) FROM outbox WHERE kind > 0").fetch_one(&mut *conn).await?;
    let excess = row.try_get::<i64, _>(0)? - MAX_OTHERS;
    if excess <= 0 {
        return Ok(());
    }
    let going = query("SELECT seq FROM outbox WHERE kind > 0 ORDER BY kind DESC, seq LIMIT ?")
        .bind(excess)
        .fetch_all(&mut *conn)
        .await?;
    for row in going {
        settle(conn, row.try_get(0)?, OutStatus::Failed, None).await?;
    }
    Ok(())
}

/// Records what became of a message, and takes it out of the outbox unless it is still under way. What was once delivered
/// stays so; a reply has a status only when it ended badly.
pub(crate) async fn settle(
    conn: &mut SqliteConnection,
    seq: i64,
    status: OutStatus,
    code: Option<i64>,
) -> Result<(), StoreError> {
    query(
        "UPDATE messages SET status = ?2, code = ?3 WHERE seq = ?1 AND status <> ?4 \
         OR seq = ?1 AND status IS NULL AND ?2 NOT IN (?4, ?5, ?6) \
         AND EXISTS (SELECT 1 FROM outbox WHERE seq = ?1 AND is_reply = 1)",
    )
    .bind(seq)
    .bind(status as i64)
    .bind(code)
    .bind(OutStatus::Delivered as i64)
    .bind(OutStatus::Queued as i64)
    .bind(OutStatus::AtRelay as i64)
    .execute(&mut *conn)
    .await?;
    if matches!(status, OutStatus::Delivered | OutStatus::Refused) {
        query("DELETE FROM settings WHERE key = ? || (SELECT message_id FROM messages WHERE seq = ?)")
            .bind(TARGET_SETTING)
            .bind(seq)
            .execute(&mut *conn)
            .await?;
    }
    if !matches!(status, OutStatus::Queued | OutStatus::AtRelay) {
        query("DELETE FROM outbox WHERE seq = ?").bind(seq).execute(conn).await?;
    }
    Ok(())
}

/// Records what a message of `peer`, at `seq`, says about one of ours. Nothing happens when there is none such, or it was
/// sent to somebody else.
pub(crate) async fn settle_by_word(
    conn: &mut SqliteConnection,
    peer: i64,
    settles: &Settles,
    seq: i64,
) -> Result<(), StoreError> {
    let row = query(
        "SELECT seq FROM messages WHERE message_id = ? AND status IS NOT NULL AND peer = ? AND direction = 1 \
         ORDER BY seq DESC LIMIT 1",
    )
    .bind(&settles.asked)
    .bind(peer)
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(()) };
    let asked: i64 = row.try_get(0)?;
    settle(conn, asked, settles.status, settles.code).await?;
    if settles.is_answer {
        // A machine's acknowledgement may have been taken for the answer before.
        query(
            "UPDATE messages SET answer = ? WHERE seq = ? AND (answer IS NULL OR EXISTS \
             (SELECT 1 FROM messages AS earlier WHERE earlier.seq = messages.answer AND earlier.is_auto = 1))",
        )
        .bind(seq)
        .bind(asked)
        .execute(conn)
        .await?;
    }
    Ok(())
}

/// See [`crate::Store::requeue_outgoing`].
pub(crate) async fn requeue(
    conn: &mut SqliteConnection,
    seq: i64,
    timestamp: UnixSeconds,
    sig: Option<&str>,
    keep: Option<&Keep>,
) -> Result<bool, StoreError> {
    let (queued, at_relay) = (OutStatus::Queued as i64, OutStatus::AtRelay as i64);
    let done = query(
        "UPDATE messages SET status = CASE status WHEN ?2 THEN ?2 ELSE ?3 END, timestamp = ?4, sig = ?5 \
         WHERE seq = ?1 AND status NOT IN (?6, ?7)",
    )
    .bind(seq)
    .bind(at_relay)
    .bind(queued)
    .bind(timestamp.0)
    .bind(sig)
    .bind(OutStatus::Delivered as i64)
    .bind(OutStatus::Refused as i64)
    .execute(&mut *conn)
    .await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    let Some(keep) = keep else { return Ok(true) };
    let found = query("SELECT deposited FROM outbox WHERE seq = ?").bind(seq).fetch_optional(&mut *conn).await?;
    match (found, keep.lease) {
        (None, _) => {
            let sql = "SELECT peer, is_auto FROM messages WHERE seq = ?";
            let row = query(sql).bind(seq).fetch_one(&mut *conn).await?;
            let kind = if row.try_get(1)? { Kind::Notice } else { Kind::Message };
            insert(conn, seq, row.try_get(0)?, kind, timestamp, keep).await?;
        }
        (Some(_), Some(lease)) => put_off(conn, seq, lease).await?,
        (Some(_), None) => {}
    }
    Ok(true)
}

/// Whether anything is due.
pub(super) async fn are_due(conn: &mut SqliteConnection, now: UnixSeconds) -> Result<bool, StoreError> {
    let row = query("SELECT 1 FROM outbox WHERE due <= ? LIMIT 1").bind(now.0).fetch_optional(conn).await?;
    Ok(row.is_some())
}

/// When the next one is due.
pub(super) async fn next_due(conn: &mut SqliteConnection) -> Result<Option<UnixSeconds>, StoreError> {
    let row = query("SELECT min(due) FROM outbox").fetch_one(conn).await?;
    Ok(row.try_get::<Option<i64>, _>(0)?.map(UnixSeconds))
}

/// See [`crate::Store::take_outbox`].
pub(super) async fn take(
    conn: &mut SqliteConnection,
    now: UnixSeconds,
    lease: UnixSeconds,
    limit: u32,
) -> Result<Vec<OutboxRow>, StoreError> {
    let over = query("SELECT seq FROM outbox WHERE due <= ?1 AND (expires <= ?1 OR deposited IS NOT NULL)")
        .bind(now.0)
        .fetch_all(&mut *conn)
        .await?;
    for row in over {
        settle(conn, row.try_get(0)?, OutStatus::Expired, None).await?;
    }
    let rows = query(concat!(select!(), " WHERE due <= ? ORDER BY seq LIMIT ?"))
        .bind(now.0)
        .bind(limit)
        .fetch_all(&mut *conn)
        .await?;
    let mut taken = rows.iter().map(row_from).collect::<Result<Vec<_>, _>>()?;
    for row in &mut taken {
        put_off(conn, row.seq, lease).await?;
        row.due = lease;
    }
    Ok(taken)
}

/// See [`crate::Store::take_outgoing`].
pub(super) async fn take_one(
    conn: &mut SqliteConnection,
    message_id: &str,
    lease: UnixSeconds,
) -> Result<Option<OutboxRow>, StoreError> {
    let Some(mut row) = find(conn, message_id).await?.filter(|row| row.at_relay.is_none()) else { return Ok(None) };
    put_off(conn, row.seq, lease).await?;
    row.due = lease;
    Ok(Some(row))
}

/// See [`crate::Store::take_queued`].
pub(super) async fn take_free(
    conn: &mut SqliteConnection,
    seq: i64,
    now: UnixSeconds,
    lease: UnixSeconds,
) -> Result<Option<OutboxRow>, StoreError> {
    let row = query(concat!(select!(), " WHERE seq = ? AND deposited IS NULL AND (is_taken = 0 OR due <= ?)"))
        .bind(seq)
        .bind(now.0)
        .fetch_optional(&mut *conn)
        .await?;
    let Some(mut row) = row.as_ref().map(row_from).transpose()? else { return Ok(None) };
    put_off(conn, row.seq, lease).await?;
    row.due = lease;
    Ok(Some(row))
}

/// See [`crate::Store::is_queued`].
pub(super) async fn is_queued(conn: &mut SqliteConnection, seq: i64) -> Result<bool, StoreError> {
    let row = query("SELECT 1 FROM outbox WHERE seq = ? AND deposited IS NULL").bind(seq).fetch_optional(conn).await?;
    Ok(row.is_some())
}

/// A peer was blocked: what is queued for it has failed.
pub(crate) async fn drop_of_peer(conn: &mut SqliteConnection, peer: i64) -> Result<(), StoreError> {
    let rows =
        query("SELECT seq FROM outbox WHERE peer = ? AND deposited IS NULL").bind(peer).fetch_all(&mut *conn).await?;
    for row in rows {
        settle(conn, row.try_get(0)?, OutStatus::Failed, None).await?;
    }
    Ok(())
}

async fn put_off(conn: &mut SqliteConnection, seq: i64, lease: UnixSeconds) -> Result<(), StoreError> {
    query("UPDATE outbox SET due = ?, is_taken = 1 WHERE seq = ? AND deposited IS NULL")
        .bind(lease.0)
        .bind(seq)
        .execute(conn)
        .await?;
    Ok(())
}

/// All rows, oldest first.
pub(super) async fn list(conn: &mut SqliteConnection, with_auto: bool) -> Result<Vec<OutboxRow>, StoreError> {
    let rows =
        query(concat!(select!(), " WHERE ? OR is_auto = 0 ORDER BY seq")).bind(with_auto).fetch_all(conn).await?;
    rows.iter().map(row_from).collect()
}

/// One row. What has a status is found by its id; replies, which have none, are looked for one by one.
pub(super) async fn find(conn: &mut SqliteConnection, message_id: &str) -> Result<Option<OutboxRow>, StoreError> {
    let sql = concat!(
        select!(),
        " WHERE seq = coalesce((SELECT seq FROM messages WHERE message_id = ?1 AND status IS NOT NULL \
         AND seq IN (SELECT seq FROM outbox) ORDER BY seq DESC LIMIT 1), \
         (SELECT seq FROM outbox JOIN messages USING (seq) WHERE is_reply = 1 AND message_id = ?1 LIMIT 1))"
    );
    let row = query(sql).bind(message_id).fetch_optional(conn).await?;
    row.as_ref().map(row_from).transpose()
}

/// See [`crate::Store::postpone_outgoing`].
pub(super) async fn postpone(
    conn: &mut SqliteConnection,
    seq: i64,
    next: UnixSeconds,
    why: &str,
) -> Result<(), StoreError> {
    query(
        "UPDATE outbox SET due = min(?, expires), is_taken = 0, attempts = attempts + 1, last_error = ? \
         WHERE seq = ? AND deposited IS NULL",
    )
    .bind(next.0)
    .bind(why)
    .bind(seq)
    .execute(conn)
    .await?;
    Ok(())
}

/// See [`crate::Store::put_off_behind`]; `taken` is a JSON list.
pub(super) async fn put_off_behind(
    conn: &mut SqliteConnection,
    seq: i64,
    peer: &str,
    taken: &str,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    let row = query("SELECT due FROM outbox WHERE seq = ? AND deposited IS NULL")
        .bind(seq)
        .fetch_optional(&mut *conn)
        .await?;
    // The owner may have dropped it meanwhile; whoever is not there is not there for the others.
    let next = row.map_or(Ok(now.0.saturating_add(NEXT_SECS)), |row| row.try_get(0))?;
    query(
        "UPDATE outbox SET due = min(?1, expires), is_taken = 0 WHERE deposited IS NULL AND seq <> ?2 \
         AND (seq IN (SELECT value FROM json_each(?3)) \
         OR peer = (SELECT id FROM peers WHERE address = ?4) AND is_taken = 0 AND due < ?1)",
    )
    .bind(next)
    .bind(seq)
    .bind(taken)
    .bind(peer)
    .execute(conn)
    .await?;
    Ok(())
}

/// Whether [`hasten`] would change anything.
pub(super) async fn has_any(conn: &mut SqliteConnection, peer: &str, now: UnixSeconds) -> Result<bool, StoreError> {
    let row = query(
        "SELECT 1 FROM outbox WHERE peer = (SELECT id FROM peers WHERE address = ?) AND is_taken = 0 AND due > ? \
         AND deposited IS NULL LIMIT 1",
    )
    .bind(peer)
    .bind(now.0)
    .fetch_optional(conn)
    .await?;
    Ok(row.is_some())
}

/// See [`crate::Store::hasten_outgoing`].
pub(super) async fn hasten(conn: &mut SqliteConnection, peer: &str, now: UnixSeconds) -> Result<(), StoreError> {
    query(
        "UPDATE outbox SET due = ?2 WHERE peer = (SELECT id FROM peers WHERE address = ?1) AND is_taken = 0 \
         AND due > ?2 AND deposited IS NULL",
    )
    .bind(peer)
    .bind(now.0)
    .execute(conn)
    .await?;
    Ok(())
}

/// See [`crate::Store::record_at_relay`].
pub(super) async fn at_relay(
    conn: &mut SqliteConnection,
    seq: i64,
    relay: &str,
    now: UnixSeconds,
    expires: UnixSeconds,
) -> Result<(), StoreError> {
    query("UPDATE messages SET status = ?, code = NULL WHERE seq = ? AND status NOT IN (?, ?)")
        .bind(OutStatus::AtRelay as i64)
        .bind(seq)
        .bind(OutStatus::Delivered as i64)
        .bind(OutStatus::Refused as i64)
        .execute(&mut *conn)
        .await?;
    query("DELETE FROM outbox WHERE seq = ? AND kind > 0").bind(seq).execute(&mut *conn).await?;
    query(
        "UPDATE outbox SET relay = ?, deposited = ?, due = ?4, expires = ?4, is_taken = 0, last_error = NULL, \
         attempts = attempts + 1 \
         WHERE seq = ?3",
    )
    .bind(relay)
    .bind(now.0)
    .bind(seq)
    .bind(expires.0)
    .execute(conn)
    .await?;
    Ok(())
}

/// See [`crate::Store::drop_outgoing`].
pub(super) async fn give_up(conn: &mut SqliteConnection, message_id: &str) -> Result<Option<OutboxRow>, StoreError> {
    let Some(row) = find(conn, message_id).await? else { return Ok(None) };
    if row.at_relay.is_none() {
        settle(conn, row.seq, OutStatus::Failed, None).await?;
    } else {
        query("DELETE FROM outbox WHERE seq = ?").bind(row.seq).execute(conn).await?;
    }
    Ok(Some(row))
}

fn row_from(row: &SqliteRow) -> Result<OutboxRow, StoreError> {
    let deposited: Option<i64> = row.try_get(19)?;
    let at_relay = deposited.map(|since| Ok::<_, StoreError>((row.try_get(18)?, UnixSeconds(since)))).transpose()?;
    Ok(OutboxRow {
        seq: row.try_get(0)?,
        peer: row.try_get(1)?,
        name: row.try_get(2)?,
        message_id: row.try_get(3)?,
        context_id: row.try_get(4)?,
        reply_to: row.try_get(5)?,
        text: row.try_get(6)?,
        is_reply: row.try_get(7)?,
        is_auto: row.try_get(8)?,
        status: if at_relay.is_some() { OutStatus::AtRelay } else { OutStatus::Queued },
        keep: Keep {
            expires: UnixSeconds(row.try_get(9)?),
            via: row.try_get(10)?,
            allow_private: row.try_get(20)?,
            extra: row.try_get(11)?,
            relay: row.try_get(12)?,
            enc_pub: row.try_get(13)?,
            lease: None,
        },
        attempts: row.try_get(14)?,
        created: UnixSeconds(row.try_get(15)?),
        due: UnixSeconds(row.try_get(16)?),
        last_error: row.try_get(17)?,
        at_relay,
    })
}
