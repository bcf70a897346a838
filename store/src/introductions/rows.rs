//! Introductions as rows.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, SqliteConnection, query, sqlite::SqliteRow};

use super::{IntroductionRow, IntroductionStatus, Role};
use crate::{
    StoreError,
    contacts::{did_from, peer_id},
    lists,
};

/// Every column of an introduction `i`, in the order of [`introduction_from`].
macro_rules! columns {
    () => {
        "SELECT role, id, (SELECT address FROM peers WHERE peers.id = issuer), \
         (SELECT address FROM peers WHERE peers.id = subject), (SELECT address FROM peers WHERE peers.id = target), \
         status, trust_level_bp, i.expertise, issued, valid_until, issuer_endpoint, is_requested, vc, created, changed"
    };
}
pub(crate) use columns;

/// Introductions of one issuer that may be alive in one role.
const MAX_LIVE: i64 = 256;
/// Introductions of one issuer that are kept in one role although they are dead.
const MAX_DEAD: i64 = 256;

impl Role {
    const ALL: [Role; 3] = [Role::Issued, Role::Received, Role::Held];
}

impl IntroductionStatus {
    const ALL: [IntroductionStatus; 5] = [
        IntroductionStatus::Pending,
        IntroductionStatus::Accepted,
        IntroductionStatus::Rejected,
        IntroductionStatus::Revoked,
        IntroductionStatus::Ended,
    ];
}

/// Reads what [`columns`] selected.
pub(crate) fn introduction_from(row: &SqliteRow) -> Result<IntroductionRow, StoreError> {
    let (role, status): (i64, i64) = (row.try_get(0)?, row.try_get(5)?);
    let status = IntroductionStatus::ALL.into_iter().find(|known| *known as i64 == status);
    Ok(IntroductionRow {
        role: Role::ALL.into_iter().find(|known| *known as i64 == role).ok_or(StoreError::Damaged)?,
        id: row.try_get(1)?,
        issuer: did_from(row.try_get(2)?)?,
        subject: did_from(row.try_get(3)?)?,
        target: did_from(row.try_get(4)?)?,
        status: status.ok_or(StoreError::Damaged)?,
        trust_level_bp: row.try_get(6)?,
        expertise: lists::decode(row.try_get(7)?)?,
        issued: UnixSeconds(row.try_get(8)?),
        valid_until: UnixSeconds(row.try_get(9)?),
        issuer_endpoint: row.try_get(10)?,
        is_requested: row.try_get(11)?,
        vc: row.try_get(12)?,
        created: UnixSeconds(row.try_get(13)?),
        changed: UnixSeconds(row.try_get(14)?),
    })
}

/// One introduction, as the transaction sees it.
pub(crate) async fn find(
    conn: &mut SqliteConnection,
    role: Role,
    issuer: &Did,
    id: &str,
) -> Result<Option<IntroductionRow>, StoreError> {
    let row = query(concat!(
        columns!(),
        " FROM introductions AS i WHERE role = ? AND id = ? AND issuer = (SELECT id FROM peers WHERE address = ?)"
    ))
    .bind(role as i64)
    .bind(id)
    .bind(issuer.as_str())
    .fetch_optional(conn)
    .await?;
    row.as_ref().map(introduction_from).transpose()
}

/// One that this agent issued; an id is enough, for there is one issuer.
pub(crate) async fn find_issued(conn: &mut SqliteConnection, id: &str) -> Result<Option<IntroductionRow>, StoreError> {
    let row = query(concat!(columns!(), " FROM introductions AS i WHERE role = 0 AND id = ?"))
        .bind(id)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(introduction_from).transpose()
}

/// Writes a new one.
pub(crate) async fn insert(conn: &mut SqliteConnection, row: &IntroductionRow) -> Result<(), StoreError> {
    let issuer = peer_id(conn, row.issuer.as_str()).await?;
    let subject = peer_id(conn, row.subject.as_str()).await?;
    let target = peer_id(conn, row.target.as_str()).await?;
    query(
        "INSERT INTO introductions (role, issuer, subject, target, status, trust_level_bp, issued, valid_until, \
         is_requested, created, changed, id, issuer_endpoint, expertise, vc) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(row.role as i64)
    .bind(issuer)
    .bind(subject)
    .bind(target)
    .bind(row.status as i64)
    .bind(row.trust_level_bp)
    .bind(row.issued.0)
    .bind(row.valid_until.0)
    .bind(row.is_requested)
    .bind(row.created.0)
    .bind(row.changed.0)
    .bind(&row.id)
    .bind(&row.issuer_endpoint)
    .bind(lists::encode(&row.expertise))
    .bind(&row.vc)
    .execute(conn)
    .await?;
    Ok(())
}

/// Changes a status.
pub(crate) async fn set_status(
    conn: &mut SqliteConnection,
    row: &mut IntroductionRow,
    status: IntroductionStatus,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    query(
        "UPDATE introductions SET status = ?, changed = ? \
         WHERE role = ? AND id = ? AND issuer = (SELECT id FROM peers WHERE address = ?)",
    )
    .bind(status as i64)
    .bind(now.0)
    .bind(row.role as i64)
    .bind(&row.id)
    .bind(row.issuer.as_str())
    .execute(conn)
    .await?;
    row.status = status;
    row.changed = now;
    Ok(())
}

/// Whether an issuer may have one more alive. What is dead goes when there is too much of it.
pub(crate) async fn make_room(
    conn: &mut SqliteConnection,
    role: Role,
    issuer: i64,
    now: UnixSeconds,
) -> Result<bool, StoreError> {
    let row = query(
        "SELECT count(*) FROM introductions WHERE role = ? AND issuer = ? AND status IN (0, 1) AND valid_until > ?",
    )
    .bind(role as i64)
    .bind(issuer)
    .bind(now.0)
    .fetch_one(&mut *conn)
    .await?;
    if row.try_get::<i64, _>(0)? >= MAX_LIVE {
        return Ok(false);
    }
    let dead = query(
        "SELECT seq FROM introductions WHERE role = ? AND issuer = ? \
         AND NOT (status IN (0, 1) AND valid_until > ?) ORDER BY seq DESC LIMIT -1 OFFSET ?",
    )
    .bind(role as i64)
    .bind(issuer)
    .bind(now.0)
    .bind(MAX_DEAD - 1)
    .fetch_all(&mut *conn)
    .await?;
    for row in dead {
        delete(conn, row.try_get(0)?).await?;
    }
    Ok(true)
}

/// Deletes one. A contact that is known from nothing else, and was never heard of, goes with it: whoever vouches must not
/// be able to fill the list of contacts.
pub(crate) async fn delete(conn: &mut SqliteConnection, seq: i64) -> Result<(), StoreError> {
    let row =
        query("SELECT CASE role WHEN 1 THEN subject ELSE target END FROM introductions WHERE seq = ? AND role <> 0")
            .bind(seq)
            .fetch_optional(&mut *conn)
            .await?;
    query("DELETE FROM introductions WHERE seq = ?").bind(seq).execute(&mut *conn).await?;
    let Some(row) = row else { return Ok(()) };
    let about: i64 = row.try_get(0)?;
    let is_unused = "peer = ? AND (relation = 3 OR (relation = 0 AND last_seen IS NULL)) AND NOT EXISTS \
                     (SELECT 1 FROM introductions INDEXED BY introductions_target WHERE role = 2 AND target = peer) \
                     AND NOT EXISTS \
                     (SELECT 1 FROM introductions INDEXED BY introductions_subject WHERE role = 1 AND subject = peer)";
    for act in ["DELETE FROM contacts WHERE is_blocked = 0 AND ", "UPDATE contacts SET relation = 0 WHERE "] {
        query(sqlx::AssertSqlSafe(format!("{act}{is_unused}"))).bind(about).execute(&mut *conn).await?;
    }
    Ok(())
}
