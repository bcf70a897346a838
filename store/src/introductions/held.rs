//! Introductions that this agent was given, and what their issuers take back.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, SqliteConnection, query};

use super::{IntroductionRow, IntroductionStatus, Kept, Role, rows};
use crate::{
    StoreError,
    contacts::{self, CoordinateSource, Introduce, Relation, peer_id},
    vouching,
};

/// See [`crate::Store::keep_held`].
pub(super) async fn keep(
    conn: &mut SqliteConnection,
    row: &IntroductionRow,
    target: &Introduce,
) -> Result<Kept, StoreError> {
    let known = contacts::find(conn, &target.did).await?;
    match &known {
        Some(contact) if contact.is_blocked => return Ok(Kept::Refused),
        Some(contact) if contact.relation == Relation::Direct => return Ok(Kept::NotNeeded(contact.clone())),
        _ => {}
    }
    let issuer = contacts::find(conn, &row.issuer).await?;
    if !issuer.is_some_and(|issuer| issuer.relation == Relation::Direct && !issuer.is_blocked) {
        return Ok(Kept::Refused);
    }
    if let Some(kept) = rows::find(conn, Role::Held, &row.issuer, &row.id).await? {
        let is_alive = matches!(kept.status, IntroductionStatus::Pending | IntroductionStatus::Accepted);
        return Ok(match known {
            Some(contact) if is_alive && kept.vc == row.vc => Kept::Stored(contact),
            _ => Kept::Refused,
        });
    }
    let issuer = peer_id(conn, row.issuer.as_str()).await?;
    if row.valid_until <= target.now || !rows::make_room(conn, Role::Held, issuer, target.now).await? {
        return Ok(Kept::Refused);
    }
    let row = IntroductionRow { role: Role::Held, status: IntroductionStatus::Pending, ..row.clone() };
    rows::insert(conn, &row).await?;
    let target = Introduce { source: CoordinateSource::Introducer, allow_private: false, ..target.clone() };
    let contact = contacts::admit(conn, &target, Relation::Offered).await?;
    // The answer to "introduce me to T".
    query(
        "UPDATE requests SET status = 1, decided = ?1 WHERE peer = ?2 AND kind = 2 AND direction = 1 AND status = 0 \
         AND about = (SELECT id FROM peers WHERE address = ?3)",
    )
    .bind(target.now.0)
    .bind(issuer)
    .bind(target.did.as_str())
    .execute(conn)
    .await?;
    Ok(Kept::Stored(contact))
}

/// See [`crate::Store::record_presented`].
pub(super) async fn presented(
    conn: &mut SqliteConnection,
    issuer: &Did,
    id: &str,
    status: IntroductionStatus,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    let Some(mut row) = rows::find(conn, Role::Held, issuer, id).await? else { return Ok(()) };
    if matches!(row.status, IntroductionStatus::Revoked | IntroductionStatus::Ended) || row.status == status {
        return Ok(());
    }
    rows::set_status(conn, &mut row, status, now).await?;
    match status {
        IntroductionStatus::Accepted => {
            query(
                "UPDATE contacts SET relation = 2 \
                 WHERE peer = (SELECT id FROM peers WHERE address = ?) AND relation = 3",
            )
            .bind(row.target.as_str())
            .execute(conn)
            .await?;
        }
        IntroductionStatus::Revoked | IntroductionStatus::Ended => {
            let target = peer_id(conn, row.target.as_str()).await?;
            vouching::settle_relation(conn, target, now).await?;
        }
        // The contact stays: the owner has just written to it, and wants to find it again.
        IntroductionStatus::Pending | IntroductionStatus::Rejected => {}
    }
    Ok(())
}

/// What a list names that is here and not yet revoked: number, role, whom it is about, id.
pub(super) async fn named(
    conn: &mut SqliteConnection,
    issuer: &Did,
    ids: &str,
) -> Result<Vec<(i64, i64, i64, String)>, StoreError> {
    let rows = query(
        "SELECT DISTINCT seq, role, CASE role WHEN 1 THEN subject ELSE target END, introductions.id \
         FROM json_each(?1) CROSS JOIN introductions INDEXED BY introductions_id \
         ON role IN (1, 2) AND issuer = (SELECT id FROM peers WHERE address = ?2) AND introductions.id = value \
         WHERE status IN (0, 1, 2)",
    )
    .bind(ids)
    .bind(issuer.as_str())
    .fetch_all(conn)
    .await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?))).collect()
}

/// See [`crate::Store::mark_revoked`].
pub(super) async fn mark_revoked(
    conn: &mut SqliteConnection,
    issuer: &Did,
    ids: &str,
    now: UnixSeconds,
) -> Result<u64, StoreError> {
    let named = named(conn, issuer, ids).await?;
    for (seq, role, _, id) in &named {
        query("UPDATE introductions SET status = 3, changed = ? WHERE seq = ?")
            .bind(now.0)
            .bind(seq)
            .execute(&mut *conn)
            .await?;
        if *role == Role::Received as i64 {
            let waiting = query(
                "SELECT id FROM requests WHERE via = (SELECT id FROM peers WHERE address = ?) AND kind = 1 \
                 AND wire_id = ? AND status IN (0, 4)",
            )
            .bind(issuer.as_str())
            .bind(id)
            .fetch_all(&mut *conn)
            .await?;
            for row in waiting {
                vouching::withdraw(conn, row.try_get(0)?).await?;
            }
        }
    }
    for (_, _, about, _) in &named {
        vouching::settle_relation(conn, *about, now).await?;
    }
    Ok(named.len() as u64)
}
