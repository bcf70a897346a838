//! What the owner decides.
use muretai_protocol::UnixSeconds;
use sqlx::{Row, SqliteConnection, query};

use super::{Decided, Decision, RequestKind, RequestRow, RequestStatus, rows};
use crate::{
    StoreError,
    contacts::{self, Contact, CoordinateSource, Introduce, Relation, peer_id},
    errands::{self, NewErrand},
    introductions::{IntroductionStatus, Role, rows as introductions},
    messages::Direction,
    names, vouching,
};

/// How long a no stands.
const REJECTED_SECS: i64 = 30 * 86_400;
/// [`Relation`] of somebody who was no contact, in the column `before`.
const NOBODY: i64 = -1;

/// What the owner says.
pub(super) struct Word {
    pub(super) decision: Decision,
    pub(super) name: Option<String>,
    pub(super) own_name: String,
    pub(super) errands: Vec<NewErrand>,
    pub(super) now: UnixSeconds,
}

/// See [`crate::Store::decide`].
pub(super) async fn decide(conn: &mut SqliteConnection, id: i64, word: &Word) -> Result<Decided, StoreError> {
    let Some(row) = rows::find(conn, id, word.now).await?.filter(|row| row.status != RequestStatus::Hidden) else {
        return Ok(Decided::NoSuch);
    };
    let row = Box::new(row);
    match (row.direction, row.status, word.decision) {
        (Direction::In, RequestStatus::Pending, _) => {}
        (Direction::In, RequestStatus::Rejected, Decision::Accept) => {}
        (Direction::In, RequestStatus::Accepted, Decision::Accept)
        | (Direction::In, RequestStatus::Rejected, Decision::Reject) => return Ok(Decided::Unchanged(row)),
        _ => return Ok(Decided::NotOpen(row)),
    }
    let (mut contact, mut delivered) = (None, 0);
    match (word.decision, row.kind) {
        (Decision::Reject, _) => reject(conn, &row, word.now).await?,
        (Decision::Accept, RequestKind::Connect) => contact = Some(accept_connect(conn, &row, word).await?),
        (Decision::Accept, RequestKind::Introduction) => {
            let name = word.name.as_deref();
            match accept_introduction(conn, &row, name, &word.own_name, word.now).await? {
                Some((who, count)) => (contact, delivered) = (Some(who), count),
                None => return Ok(Decided::NotOpen(row)),
            }
        }
        (Decision::Accept, RequestKind::Message) => {
            delivered = rows::deliver(conn, id).await?;
            rows::close(conn, id, RequestStatus::Accepted, word.now).await?;
        }
        (Decision::Accept, RequestKind::IntroduceMe | RequestKind::Referral) => {
            rows::close(conn, id, RequestStatus::Accepted, word.now).await?;
        }
    }
    errands::drop_of_request(conn, id).await?;
    for errand in &word.errands {
        errands::insert(conn, errand, Some(id)).await?;
    }
    Ok(Decided::Done { row: rows::expect(conn, id, word.now).await?, contact: contact.map(Box::new), delivered })
}

/// A no stands for 30 days from now, whenever the request came.
async fn reject(conn: &mut SqliteConnection, row: &RequestRow, now: UnixSeconds) -> Result<(), StoreError> {
    rows::close(conn, row.id, RequestStatus::Rejected, now).await?;
    rows::drop_held(conn, row.id).await?;
    query("UPDATE requests SET expires = max(expires, ?) WHERE id = ?")
        .bind(now.0.saturating_add(REJECTED_SECS))
        .bind(row.id)
        .execute(&mut *conn)
        .await?;
    if let (RequestKind::Introduction, Some(issuer), Some(id)) = (row.kind, &row.via, &row.wire_id)
        && let Some(mut introduction) = introductions::find(conn, Role::Received, issuer, id).await?
        && introduction.status == IntroductionStatus::Pending
    {
        introductions::set_status(conn, &mut introduction, IntroductionStatus::Rejected, now).await?;
    }
    Ok(())
}

async fn accept_connect(conn: &mut SqliteConnection, row: &RequestRow, word: &Word) -> Result<Contact, StoreError> {
    let before = contacts::find(conn, &row.peer).await?.map(|contact| contact.relation);
    let mut contact = contacts::introduce(conn, &introduce_of(row, &word.own_name, word.now)).await?;
    give_name(conn, &mut contact, word.name.as_deref()).await?;
    rows::close(conn, row.id, RequestStatus::Accepted, word.now).await?;
    if before != Some(Relation::Direct) {
        query("UPDATE requests SET before = ? WHERE id = ?")
            .bind(before.map_or(NOBODY, Relation::stored))
            .bind(row.id)
            .execute(conn)
            .await?;
    }
    Ok(contact)
}

/// Lets the subject of an introduction in and delivers what is held on it. `None`, and nothing changes, when the
/// introduction has ended.
pub(super) async fn accept_introduction(
    conn: &mut SqliteConnection,
    row: &RequestRow,
    name: Option<&str>,
    own_name: &str,
    now: UnixSeconds,
) -> Result<Option<(Contact, u32)>, StoreError> {
    let (Some(issuer), Some(id)) = (&row.via, &row.wire_id) else { return Err(StoreError::Damaged) };
    let Some(mut introduction) = introductions::find(conn, Role::Received, issuer, id).await? else { return Ok(None) };
    let is_open = matches!(introduction.status, IntroductionStatus::Pending | IntroductionStatus::Rejected);
    if !is_open || introduction.valid_until <= now {
        return Ok(None);
    }
    introductions::set_status(conn, &mut introduction, IntroductionStatus::Accepted, now).await?;
    let known = contacts::find(conn, &row.peer).await?.filter(|contact| contact.relation == Relation::Direct);
    let mut contact = match known {
        // Nothing to add to trust, and nothing that another may say about it.
        Some(contact) => contact,
        None => contacts::admit(conn, &introduce_of(row, own_name, now), Relation::Introduced).await?,
    };
    give_name(conn, &mut contact, name).await?;
    let delivered = rows::deliver(conn, row.id).await?;
    rows::close(conn, row.id, RequestStatus::Accepted, now).await?;
    Ok(Some((contact, delivered)))
}

/// Who a row says that it is from: on its own word, or on that of whoever introduces it.
fn introduce_of(row: &RequestRow, own_name: &str, now: UnixSeconds) -> Introduce {
    let source = match row.kind {
        RequestKind::Introduction => CoordinateSource::Introducer,
        _ => CoordinateSource::Peer,
    };
    Introduce {
        did: row.peer.clone(),
        peer_name: row.peer_name.clone(),
        own_name: Some(own_name.to_owned()),
        coordinates: row.coordinates.clone(),
        source,
        allow_private: false,
        now,
    }
}

async fn give_name(conn: &mut SqliteConnection, contact: &mut Contact, name: Option<&str>) -> Result<(), StoreError> {
    let Some(name) = name.filter(|name| *name != contact.name) else { return Ok(()) };
    if names::is_taken(conn, name).await? {
        return Err(StoreError::NameTaken(name.to_owned()));
    }
    contact.name = name.to_owned();
    contacts::save(conn, contact).await
}

/// See [`crate::Store::undo_accept`].
pub(super) async fn undo(conn: &mut SqliteConnection, id: i64, now: UnixSeconds) -> Result<(), StoreError> {
    let Some(row) = rows::find(conn, id, now).await? else { return Ok(()) };
    let is_ours_to_undo = row.direction == Direction::In && row.kind == RequestKind::Connect;
    if !is_ours_to_undo || row.status != RequestStatus::Accepted {
        return Ok(());
    }
    let found = query("SELECT before FROM requests WHERE id = ?").bind(id).fetch_one(&mut *conn).await?;
    let before: Option<i64> = found.try_get(0)?;
    rows::close(conn, id, RequestStatus::Withdrawn, now).await?;
    query("UPDATE requests SET before = NULL WHERE id = ?").bind(id).execute(&mut *conn).await?;
    errands::drop_of_request(conn, id).await?;
    let contact = contacts::find(conn, &row.peer).await?;
    match (before, contact) {
        (Some(before), Some(contact)) if contact.relation == Relation::Direct => {
            step_back(conn, contact, before, now).await
        }
        _ => Ok(()),
    }
}

/// Makes a direct contact what it was before, if that still holds.
async fn step_back(
    conn: &mut SqliteConnection,
    mut contact: Contact,
    before: i64,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    let peer = peer_id(conn, contact.did.as_str()).await?;
    // Without a row of its own before, it has nothing that would vouch for it either, and is forgotten.
    contact.relation = if before == NOBODY { Relation::Offered } else { Relation::from_stored(before)? };
    contacts::save(conn, &contact).await?;
    vouching::end_issued_by(conn, peer).await?;
    vouching::settle_relation(conn, peer, now).await?;
    if before == NOBODY { contacts::forget_stranger(conn, peer).await } else { Ok(()) }
}
