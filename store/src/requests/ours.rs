//! What this agent asks, and what peers answer.
use muretai_protocol::UnixSeconds;
use sqlx::SqliteConnection;

use super::{
    Answered, Decided, Decision, NewRequest, RequestKind, RequestRow, RequestStatus,
    rows::{self, As},
};
use crate::{
    StoreError,
    contacts::{self, Contact, Coordinates, Introduce, Relation},
    handled::{SharedTail, mark_fresh, seen_before},
    messages::{Direction, Handling},
};

/// See [`crate::Store::open_request`].
pub(super) async fn open(conn: &mut SqliteConnection, request: &NewRequest) -> Result<RequestRow, StoreError> {
    let now = request.created;
    if let Some(row) = rows::newest_like(conn, request, Direction::Out).await?
        && row.is_live(now)
    {
        return Ok(row);
    }
    let how = As { direction: Direction::Out, status: RequestStatus::Pending, is_stranger: false };
    let id = rows::insert(conn, request, how).await?;
    Ok(*rows::expect(conn, id, now).await?)
}

/// See [`crate::Store::settle_connect`].
pub(super) async fn settle(
    conn: &mut SqliteConnection,
    tail: &SharedTail,
    who: &Introduce,
    decision: Decision,
    handling: &Handling,
) -> Result<Answered, StoreError> {
    if let Some(same_content) = seen_before(conn, tail, handling).await? {
        return Ok(Answered::Duplicate { same_content });
    }
    let Some(row) = rows::newest_like(conn, &connect_to(who), Direction::Out).await? else {
        return Ok(Answered::NoSuch);
    };
    let is_blocked = contacts::find(conn, &who.did).await?.is_some_and(|contact| contact.is_blocked);
    if is_blocked || row.status != RequestStatus::Pending {
        return Ok(Answered::NoSuch);
    }
    mark_fresh(conn, handling).await?;
    match decision {
        Decision::Accept => {
            let who = Introduce { coordinates: known(&who.coordinates, &row.coordinates), ..who.clone() };
            Ok(Answered::Connected(contacts::introduce(conn, &who).await?.into()))
        }
        Decision::Reject => {
            rows::close(conn, row.id, RequestStatus::Rejected, who.now).await?;
            Ok(Answered::Rejected)
        }
    }
}

/// Where a peer is: as it says, or as it was asked. Its owner may decide while nobody serves.
fn known(told: &Coordinates, asked: &Coordinates) -> Coordinates {
    let either = |told: &Option<String>, asked: &Option<String>| told.clone().or_else(|| asked.clone());
    Coordinates {
        url: either(&told.url, &asked.url),
        relay: either(&told.relay, &asked.relay),
        enc_pub: either(&told.enc_pub, &asked.enc_pub),
        enc_pub_pq: None,
    }
}

/// What finds our connect request to somebody.
fn connect_to(who: &Introduce) -> NewRequest {
    NewRequest {
        kind: RequestKind::Connect,
        peer: who.did.clone(),
        via: None,
        about: None,
        wire_id: None,
        peer_name: None,
        note: None,
        coordinates: Coordinates::default(),
        record: None,
        is_vouched: false,
        created: who.now,
        expires: who.now,
    }
}

/// See [`crate::Store::connected_by_answer`].
pub(super) async fn connected(
    conn: &mut SqliteConnection,
    id: i64,
    who: &Introduce,
) -> Result<Option<Contact>, StoreError> {
    let Some(row) = rows::find(conn, id, who.now).await? else { return Ok(None) };
    let contact = contacts::find(conn, &who.did).await?;
    let is_blocked = contact.as_ref().is_some_and(|contact| contact.is_blocked);
    if row.direction != Direction::Out || row.kind != RequestKind::Connect || row.peer != who.did || is_blocked {
        return Ok(None);
    }
    match row.status {
        RequestStatus::Pending | RequestStatus::Expired => {
            let contact = contacts::introduce(conn, who).await?;
            rows::close(conn, id, RequestStatus::Accepted, who.now).await?;
            Ok(Some(contact))
        }
        RequestStatus::Accepted => Ok(contact.filter(|contact| contact.relation == Relation::Direct)),
        _ => Ok(None),
    }
}

/// See [`crate::Store::close_request`].
pub(super) async fn close(
    conn: &mut SqliteConnection,
    id: i64,
    status: RequestStatus,
    now: UnixSeconds,
) -> Result<Option<RequestRow>, StoreError> {
    let Some(row) = rows::find(conn, id, now).await?.filter(|row| row.direction == Direction::Out) else {
        return Ok(None);
    };
    if matches!(row.status, RequestStatus::Pending | RequestStatus::Expired) {
        let is_end = matches!(status, RequestStatus::Accepted | RequestStatus::Rejected);
        let status = if is_end { status } else { RequestStatus::Withdrawn };
        rows::close(conn, id, status, now).await?;
    }
    rows::find(conn, id, now).await
}

/// See [`crate::Store::withdraw_request`].
pub(super) async fn withdraw(conn: &mut SqliteConnection, id: i64, now: UnixSeconds) -> Result<Decided, StoreError> {
    let Some(row) = rows::find(conn, id, now).await?.filter(|row| row.status != RequestStatus::Hidden) else {
        return Ok(Decided::NoSuch);
    };
    match (row.direction, row.status) {
        (Direction::Out, RequestStatus::Pending) => {
            rows::close(conn, id, RequestStatus::Withdrawn, now).await?;
            Ok(Decided::Done { row: rows::expect(conn, id, now).await?, contact: None, delivered: 0 })
        }
        (Direction::Out, RequestStatus::Withdrawn) => Ok(Decided::Unchanged(Box::new(row))),
        _ => Ok(Decided::NotOpen(Box::new(row))),
    }
}
