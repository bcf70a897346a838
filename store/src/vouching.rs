//! What introductions mean for contacts: when a voucher goes, so does what hangs on it.
use muretai_protocol::UnixSeconds;
use sqlx::{Row, SqliteConnection, query};

use crate::{StoreError, errands, outbox::rows};

/// Ignores the end of introductions: what has expired may still be why a contact is listed.
pub(crate) const ANY_TIME: UnixSeconds = UnixSeconds(i64::MIN);

/// Ends everything that a peer vouched for, for good, and everything that one of us asked the other.
pub(crate) async fn end_issued_by(conn: &mut SqliteConnection, issuer: i64) -> Result<(), StoreError> {
    let about = query(
        "SELECT subject FROM introductions WHERE role = 1 AND issuer = ?1 AND status IN (0, 1) \
         UNION SELECT target FROM introductions WHERE role = 2 AND issuer = ?1 AND status IN (0, 1)",
    )
    .bind(issuer)
    .fetch_all(&mut *conn)
    .await?;
    query(
        "UPDATE introductions SET status = 4, changed = unixepoch() \
         WHERE role IN (1, 2) AND issuer = ? AND status IN (0, 1, 2)",
    )
    .bind(issuer)
    .execute(&mut *conn)
    .await?;
    let waiting = query(
        "SELECT id FROM requests INDEXED BY requests_via WHERE via = ?1 AND kind = 1 AND status IN (0, 4) \
         UNION ALL SELECT id FROM requests INDEXED BY requests_peer WHERE peer = ?1 AND kind IN (2, 3) \
         AND status IN (0, 4)",
    )
    .bind(issuer)
    .fetch_all(&mut *conn)
    .await?;
    for row in waiting {
        withdraw(conn, row.try_get(0)?).await?;
    }
    for row in about {
        settle_relation(conn, row.try_get(0)?, ANY_TIME).await?;
    }
    Ok(())
}

/// Ends every introduction of a peer to this agent, and of this agent to it.
pub(crate) async fn end_about(conn: &mut SqliteConnection, peer: i64) -> Result<(), StoreError> {
    for which in ["INDEXED BY introductions_subject", "INDEXED BY introductions_target"] {
        let (role, column) = if which.ends_with("subject") { (1, "subject") } else { (2, "target") };
        let sql = format!(
            "UPDATE introductions {which} SET status = 4, changed = unixepoch() \
             WHERE role = {role} AND {column} = ? AND status IN (0, 1, 2)"
        );
        query(sqlx::AssertSqlSafe(sql)).bind(peer).execute(&mut *conn).await?;
    }
    let waiting = query("SELECT id FROM requests WHERE peer = ? AND kind = 1 AND status IN (0, 4)")
        .bind(peer)
        .fetch_all(&mut *conn)
        .await?;
    for row in waiting {
        withdraw(conn, row.try_get(0)?).await?;
    }
    Ok(())
}

/// Closes a request that has lost its reason, and drops what is held on it.
pub(crate) async fn withdraw(conn: &mut SqliteConnection, request: i64) -> Result<(), StoreError> {
    query("UPDATE requests SET status = 3, decided = unixepoch() WHERE id = ?")
        .bind(request)
        .execute(&mut *conn)
        .await?;
    query("DELETE FROM held WHERE request = ?").bind(request).execute(conn).await?;
    Ok(())
}

/// Makes an introduced or offered contact what its introductions still make it; without any it is a stranger, whose name
/// and coordinates the owner still has. Direct contacts stay as they are.
pub(crate) async fn settle_relation(
    conn: &mut SqliteConnection,
    peer: i64,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    let row = query(
        "SELECT EXISTS (SELECT 1 FROM introductions INDEXED BY introductions_subject \
             JOIN contacts ON peer = issuer AND relation = 1 \
             WHERE role = 1 AND subject = ?1 AND status = 1 AND valid_until > ?2), \
         (SELECT max(status) FROM introductions INDEXED BY introductions_target \
             JOIN contacts ON peer = issuer AND relation = 1 \
             WHERE role = 2 AND target = ?1 AND status IN (0, 1) AND valid_until > ?2)",
    )
    .bind(peer)
    .bind(now.0)
    .fetch_one(&mut *conn)
    .await?;
    let (is_let_in, held): (bool, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    let relation = match held {
        _ if is_let_in => 2,
        Some(1) => 2,
        Some(_) => 3,
        None => 0,
    };
    query("UPDATE contacts SET relation = ? WHERE peer = ? AND relation IN (2, 3)")
        .bind(relation)
        .bind(peer)
        .execute(conn)
        .await?;
    Ok(())
}

/// What a peer that is blocked now has asked, or vouches for, is hidden; what was asked of it, is owed to it or is on its
/// way to it is taken back. Its held messages go.
pub(crate) async fn hide(conn: &mut SqliteConnection, peer: i64, now: UnixSeconds) -> Result<(), StoreError> {
    query("UPDATE requests SET status = 4 WHERE (peer = ?1 OR via = ?1) AND direction = 0 AND status = 0")
        .bind(peer)
        .execute(&mut *conn)
        .await?;
    query("UPDATE requests SET status = 3, decided = ? WHERE peer = ? AND direction = 1 AND status = 0")
        .bind(now.0)
        .bind(peer)
        .execute(&mut *conn)
        .await?;
    query("DELETE FROM held WHERE request IN (SELECT id FROM requests WHERE peer = ? AND direction = 0)")
        .bind(peer)
        .execute(&mut *conn)
        .await?;
    errands::drop_of_peer(conn, peer).await?;
    rows::drop_of_peer(conn, peer).await
}

/// What [`hide`] hid waits again, but for what a blocked peer has a part in. Whoever is trusted need not be asked.
pub(crate) async fn show(conn: &mut SqliteConnection, peer: i64) -> Result<(), StoreError> {
    query(
        "UPDATE requests SET status = CASE WHEN kind = 0 AND EXISTS \
             (SELECT 1 FROM contacts WHERE contacts.peer = requests.peer AND relation = 1) THEN 3 ELSE 0 END \
         WHERE (peer = ?1 OR via = ?1) AND status = 4 AND NOT EXISTS \
             (SELECT 1 FROM contacts WHERE contacts.peer IN (requests.peer, requests.via) AND is_blocked = 1)",
    )
    .bind(peer)
    .execute(conn)
    .await?;
    Ok(())
}
