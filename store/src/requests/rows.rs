//! Requests as rows, and the messages that are held on them.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, SqliteConnection, query, sqlite::SqliteRow};

use super::{NewRequest, RequestKind, RequestRow, RequestStatus};
use crate::{
    StoreError,
    contacts::{Coordinates, did_from, peer_id},
    messages::{Direction, Received},
};

/// Every column of a request `r`, in the order of [`request_from`].
macro_rules! select {
    () => {
        "SELECT r.id, kind, direction, (SELECT address FROM peers WHERE peers.id = r.peer), \
         (SELECT address FROM peers WHERE peers.id = r.via), (SELECT address FROM peers WHERE peers.id = r.about), \
         status, wire_id, peer_name, note, url, relay, enc_pub, record, is_vouched, created, expires, decided, \
         (SELECT text FROM held WHERE request = r.id) FROM requests AS r "
    };
}
pub(crate) use select;

impl RequestKind {
    const ALL: [RequestKind; 5] = [
        RequestKind::Connect,
        RequestKind::Introduction,
        RequestKind::IntroduceMe,
        RequestKind::Referral,
        RequestKind::Message,
    ];
}

impl RequestStatus {
    /// As it is stored; what has expired is pending there.
    pub(crate) fn stored(self) -> i64 {
        match self {
            RequestStatus::Pending | RequestStatus::Expired => 0,
            RequestStatus::Accepted => 1,
            RequestStatus::Rejected => 2,
            RequestStatus::Withdrawn => 3,
            RequestStatus::Hidden => 4,
        }
    }

    fn from_stored(number: i64, is_past: bool) -> Result<RequestStatus, StoreError> {
        match number {
            0 if is_past => Ok(RequestStatus::Expired),
            0 => Ok(RequestStatus::Pending),
            1 => Ok(RequestStatus::Accepted),
            2 => Ok(RequestStatus::Rejected),
            3 => Ok(RequestStatus::Withdrawn),
            4 => Ok(RequestStatus::Hidden),
            _ => Err(StoreError::Damaged),
        }
    }
}

impl RequestRow {
    /// Whether it takes room: it waits, shown or hidden.
    pub(crate) fn is_live(&self, now: UnixSeconds) -> bool {
        matches!(self.status, RequestStatus::Pending | RequestStatus::Hidden) && self.expires > now
    }

    /// Whether the owner said no and that still counts.
    pub(crate) fn is_rejected(&self, now: UnixSeconds) -> bool {
        self.status == RequestStatus::Rejected && self.expires > now
    }
}

/// Reads what [`select`] selected.
pub(crate) fn request_from(row: &SqliteRow, now: UnixSeconds) -> Result<RequestRow, StoreError> {
    let kind: i64 = row.try_get(1)?;
    let expires = UnixSeconds(row.try_get(16)?);
    let did = |index: usize| row.try_get::<Option<&str>, _>(index)?.map(did_from).transpose();
    Ok(RequestRow {
        id: row.try_get(0)?,
        kind: RequestKind::ALL.into_iter().find(|known| *known as i64 == kind).ok_or(StoreError::Damaged)?,
        direction: Direction::from_stored(row.try_get(2)?)?,
        peer: did_from(row.try_get(3)?)?,
        via: did(4)?,
        about: did(5)?,
        status: RequestStatus::from_stored(row.try_get(6)?, expires <= now)?,
        wire_id: row.try_get(7)?,
        peer_name: row.try_get(8)?,
        note: row.try_get(9)?,
        coordinates: Coordinates {
            url: row.try_get(10)?,
            relay: row.try_get(11)?,
            enc_pub: row.try_get(12)?,
            enc_pub_pq: None,
        },
        record: row.try_get(13)?,
        is_vouched: row.try_get(14)?,
        created: UnixSeconds(row.try_get(15)?),
        expires,
        decided: row.try_get::<Option<i64>, _>(17)?.map(UnixSeconds),
        held_text: row.try_get(18)?,
    })
}

/// One row, hidden ones among them.
pub(crate) async fn find(
    conn: &mut SqliteConnection,
    id: i64,
    now: UnixSeconds,
) -> Result<Option<RequestRow>, StoreError> {
    let row = query(concat!(select!(), "WHERE r.id = ?")).bind(id).fetch_optional(conn).await?;
    row.map(|row| request_from(&row, now)).transpose()
}

/// A row that the transaction has just written or seen.
pub(crate) async fn expect(
    conn: &mut SqliteConnection,
    id: i64,
    now: UnixSeconds,
) -> Result<Box<RequestRow>, StoreError> {
    find(conn, id, now).await?.map(Box::new).ok_or(StoreError::Damaged)
}

/// The newest row that asks the same of the same: for a referral, in the same words.
pub(crate) async fn newest_like(
    conn: &mut SqliteConnection,
    request: &NewRequest,
    direction: Direction,
) -> Result<Option<RequestRow>, StoreError> {
    let row = query(concat!(
        select!(),
        "INDEXED BY requests_peer WHERE r.peer = (SELECT id FROM peers WHERE address = ?1) AND kind = ?2 \
         AND direction = ?3 AND about IS (SELECT id FROM peers WHERE address = ?4) AND (?2 <> 3 OR note IS ?5) \
         ORDER BY r.id DESC LIMIT 1"
    ))
    .bind(request.peer.as_str())
    .bind(request.kind as i64)
    .bind(direction as i64)
    .bind(request.about.as_ref().map(Did::as_str))
    .bind(&request.note)
    .fetch_optional(conn)
    .await?;
    row.map(|row| request_from(&row, request.created)).transpose()
}

/// The newest row about an introduction that this agent was told of.
pub(crate) async fn newest_about(
    conn: &mut SqliteConnection,
    issuer: &Did,
    id: &str,
    now: UnixSeconds,
) -> Result<Option<RequestRow>, StoreError> {
    let row = query(concat!(
        select!(),
        "INDEXED BY requests_via WHERE via = (SELECT id FROM peers WHERE address = ?) AND kind = 1 AND wire_id = ? \
         ORDER BY r.id DESC LIMIT 1"
    ))
    .bind(issuer.as_str())
    .bind(id)
    .fetch_optional(conn)
    .await?;
    row.map(|row| request_from(&row, now)).transpose()
}

/// How a new row is written.
#[derive(Clone, Copy)]
pub(crate) struct As {
    pub(crate) direction: Direction,
    pub(crate) status: RequestStatus,
    /// It takes the room of strangers.
    pub(crate) is_stranger: bool,
}

/// Writes a new row; gives its number.
pub(crate) async fn insert(conn: &mut SqliteConnection, request: &NewRequest, how: As) -> Result<i64, StoreError> {
    let peer = peer_id(conn, request.peer.as_str()).await?;
    let (mut via, mut about) = (None, None);
    if let Some(did) = &request.via {
        via = Some(peer_id(conn, did.as_str()).await?);
    }
    if let Some(did) = &request.about {
        about = Some(peer_id(conn, did.as_str()).await?);
    }
    let is_open = matches!(how.status, RequestStatus::Pending | RequestStatus::Hidden);
    let done = query(
        "INSERT INTO requests (kind, direction, status, peer, via, about, is_vouched, is_stranger, refreshed, created, \
         expires, decided, wire_id, peer_name, url, relay, enc_pub, note, record) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(request.kind as i64)
    .bind(how.direction as i64)
    .bind(how.status.stored())
    .bind(peer)
    .bind(via)
    .bind(about)
    .bind(request.is_vouched)
    .bind(how.is_stranger)
    .bind(request.created.0)
    .bind(request.expires.0)
    .bind((!is_open).then_some(request.created.0))
    .bind(&request.wire_id)
    .bind(&request.peer_name)
    .bind(&request.coordinates.url)
    .bind(&request.coordinates.relay)
    .bind(&request.coordinates.enc_pub)
    .bind(&request.note)
    .bind(&request.record)
    .execute(conn)
    .await?;
    Ok(done.last_insert_rowid())
}

/// Puts what a repeated request says now into its row, but for its time. `false` when it was repeated too often.
pub(crate) async fn refresh(conn: &mut SqliteConnection, id: i64, request: &NewRequest) -> Result<bool, StoreError> {
    let done = query(
        "UPDATE requests SET refreshed = refreshed + 1, peer_name = ?, url = ?, relay = ?, enc_pub = ?, note = ?, \
         record = ?, is_vouched = max(is_vouched, ?) WHERE id = ? AND refreshed < ?",
    )
    .bind(&request.peer_name)
    .bind(&request.coordinates.url)
    .bind(&request.coordinates.relay)
    .bind(&request.coordinates.enc_pub)
    .bind(&request.note)
    .bind(&request.record)
    .bind(request.is_vouched)
    .bind(id)
    .bind(MAX_REFRESHES)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// How often a request may be repeated with effect. Each time leaves an id for good, and asking costs nothing.
const MAX_REFRESHES: i64 = 10;

/// Records what became of a row.
pub(crate) async fn close(
    conn: &mut SqliteConnection,
    id: i64,
    status: RequestStatus,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    query("UPDATE requests SET status = ?, decided = ? WHERE id = ?")
        .bind(status.stored())
        .bind(now.0)
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}

/// Keeps a message on a row that has none.
pub(crate) async fn hold(conn: &mut SqliteConnection, id: i64, message: &Received) -> Result<(), StoreError> {
    query(
        "INSERT INTO held (request, is_auto, timestamp, received, message_id, reply_to, context_id, sig, text, extra) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id)
    .bind(message.is_auto)
    .bind(message.timestamp.0)
    .bind(message.received.0)
    .bind(&message.message_id)
    .bind(&message.reply_to)
    .bind(&message.context_id)
    .bind(&message.sig)
    .bind(&message.text)
    .bind(&message.extra)
    .execute(conn)
    .await?;
    Ok(())
}

/// Moves what is held on a row to the inbox, as it arrived. Gives how many.
pub(crate) async fn deliver(conn: &mut SqliteConnection, id: i64) -> Result<u32, StoreError> {
    let done = query(
        "INSERT INTO messages (peer, direction, is_unread, is_auto, is_verified, timestamp, received, message_id, \
         reply_to, context_id, sig, text, extra) \
         SELECT peer, 0, 1, is_auto, 1, timestamp, received, message_id, reply_to, context_id, sig, text, extra \
         FROM held JOIN requests ON requests.id = request WHERE request = ?",
    )
    .bind(id)
    .execute(&mut *conn)
    .await?;
    query(
        "UPDATE contacts SET last_seen = max(ifnull(last_seen, 0), (SELECT received FROM held WHERE request = ?1)) \
         WHERE peer = (SELECT peer FROM requests WHERE id = ?1) AND EXISTS (SELECT 1 FROM held WHERE request = ?1)",
    )
    .bind(id)
    .execute(&mut *conn)
    .await?;
    drop_held(conn, id).await?;
    Ok(u32::try_from(done.rows_affected()).unwrap_or(u32::MAX))
}

/// Forgets what is held on a row.
pub(crate) async fn drop_held(conn: &mut SqliteConnection, id: i64) -> Result<(), StoreError> {
    query("DELETE FROM held WHERE request = ?").bind(id).execute(conn).await?;
    Ok(())
}
