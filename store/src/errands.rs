//! Errands: calls that this agent owes to a peer and has not made yet. Written with what made them necessary, in one
//! transaction, so that a decision is never lost between two programs; carried out by whoever is at work first.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, SqliteConnection, query, sqlite::SqliteRow};

use crate::{
    Store, StoreError,
    contacts::{did_from, peer_id},
};

/// An errand to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewErrand {
    /// Which act, in the node's words.
    pub kind: String,
    /// To whom.
    pub peer: Did,
    /// What the act needs, as JSON.
    pub payload: String,
    /// When it was decided.
    pub created: UnixSeconds,
    /// When to give up.
    pub expires: UnixSeconds,
}

/// An errand that is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    /// Its number.
    pub id: i64,
    /// As it was written.
    pub errand: NewErrand,
    /// How often it was tried before.
    pub attempts: u32,
    /// Why the last attempt failed, for the owner.
    pub last_error: Option<String>,
}

/// Errands that are kept; then the oldest goes.
const MAX_ERRANDS: i64 = 10_000;
/// Bytes of [`Errand::last_error`] that are kept.
const MAX_ERROR_BYTES: usize = 1_024;

/// Every column of an errand, in the order of [`errand_from`].
macro_rules! select {
    () => {
        "SELECT errands.id, kind, address, payload, created, expires, attempts, last_error \
         FROM errands JOIN peers ON peers.id = peer"
    };
}

impl Store {
    /// Writes an errand alone, due at once. At most 10,000 are kept; then the oldest goes.
    pub async fn add_errand(&self, errand: &NewErrand) -> Result<i64, StoreError> {
        let errand = errand.clone();
        self.write(|conn| Box::pin(async move { insert(conn, &errand, None).await })).await
    }

    /// Takes errands that are due, at most `limit`, and puts each off until `lease` so that no other process does them
    /// at the same moment. Expired ones are deleted instead. Taking counts as an attempt; what is given says how many
    /// there were before.
    pub async fn take_errands(
        &self,
        now: UnixSeconds,
        lease: UnixSeconds,
        limit: u32,
    ) -> Result<Vec<Errand>, StoreError> {
        let are_due = self.read(move |conn| Box::pin(async move { are_due(conn, now).await })).await?;
        if !are_due {
            return Ok(Vec::new());
        }
        self.write(move |conn| Box::pin(async move { take(conn, now, lease, limit).await })).await
    }

    /// Takes the errand with this payload, when it is due: the same for whoever wrote it a moment ago. `None` when it is
    /// done, or another process has it.
    pub async fn take_errand(
        &self,
        payload: &str,
        now: UnixSeconds,
        lease: UnixSeconds,
    ) -> Result<Option<Errand>, StoreError> {
        let payload = payload.to_owned();
        self.write(move |conn| Box::pin(async move { take_one(conn, &payload, now, lease).await })).await
    }

    /// All errands, oldest first.
    pub async fn errands(&self) -> Result<Vec<Errand>, StoreError> {
        self.read(|conn| {
            Box::pin(async move {
                let rows = query(concat!(select!(), " ORDER BY errands.id")).fetch_all(conn).await?;
                rows.iter().map(errand_from).collect()
            })
        })
        .await
    }

    /// Done, or pointless.
    pub async fn finish_errand(&self, id: i64) -> Result<(), StoreError> {
        self.write(move |conn| {
            Box::pin(async move {
                query("DELETE FROM errands WHERE id = ?").bind(id).execute(conn).await?;
                Ok(())
            })
        })
        .await
    }

    /// Not now: tried again at `next`. Of `why` the first 1,024 bytes are kept.
    pub async fn postpone_errand(&self, id: i64, next: UnixSeconds, why: &str) -> Result<(), StoreError> {
        let why = why[..why.floor_char_boundary(MAX_ERROR_BYTES)].to_owned();
        self.write(move |conn| {
            Box::pin(async move {
                query("UPDATE errands SET due = ?, last_error = ? WHERE id = ?")
                    .bind(next.0)
                    .bind(why)
                    .bind(id)
                    .execute(conn)
                    .await?;
                Ok(())
            })
        })
        .await
    }
}

/// Writes an errand inside the caller's transaction. `request` is the row whose decision made it necessary.
pub(crate) async fn insert(
    conn: &mut SqliteConnection,
    errand: &NewErrand,
    request: Option<i64>,
) -> Result<i64, StoreError> {
    let peer = peer_id(conn, errand.peer.as_str()).await?;
    let done = query(
        "INSERT INTO errands (peer, request, due, attempts, created, expires, kind, payload) \
         VALUES (?, ?, ?, 0, ?, ?, ?, ?)",
    )
    .bind(peer)
    .bind(request)
    .bind(errand.created.0)
    .bind(errand.created.0)
    .bind(errand.expires.0)
    .bind(&errand.kind)
    .bind(&errand.payload)
    .execute(&mut *conn)
    .await?;
    query("DELETE FROM errands WHERE id <= (SELECT id FROM errands ORDER BY id DESC LIMIT 1 OFFSET ?)")
        .bind(MAX_ERRANDS)
        .execute(conn)
        .await?;
    Ok(done.last_insert_rowid())
}

/// Drops what an earlier decision about a request made necessary.
pub(crate) async fn drop_of_request(conn: &mut SqliteConnection, request: i64) -> Result<(), StoreError> {
    query("DELETE FROM errands WHERE request = ?").bind(request).execute(conn).await?;
    Ok(())
}

/// Drops what is owed to a peer.
pub(crate) async fn drop_of_peer(conn: &mut SqliteConnection, peer: i64) -> Result<(), StoreError> {
    query("DELETE FROM errands WHERE peer = ?").bind(peer).execute(conn).await?;
    Ok(())
}

/// Drops errands whose payload names a credential that this agent issued.
pub(crate) async fn drop_about(conn: &mut SqliteConnection, introduction: &str) -> Result<(), StoreError> {
    query("DELETE FROM errands WHERE instr(payload, '\"' || ? || '\"')").bind(introduction).execute(conn).await?;
    Ok(())
}

/// A look that costs nobody the write lock: `serve` asks every few seconds, and mostly nothing is owed.
async fn are_due(conn: &mut SqliteConnection, now: UnixSeconds) -> Result<bool, StoreError> {
    let row = query("SELECT 1 FROM errands WHERE due <= ? LIMIT 1").bind(now.0).fetch_optional(conn).await?;
    Ok(row.is_some())
}

async fn take(
    conn: &mut SqliteConnection,
    now: UnixSeconds,
    lease: UnixSeconds,
    limit: u32,
) -> Result<Vec<Errand>, StoreError> {
    query("DELETE FROM errands WHERE due <= ?1 AND expires <= ?1").bind(now.0).execute(&mut *conn).await?;
    let rows = query(concat!(select!(), " WHERE due <= ? ORDER BY due, errands.id LIMIT ?"))
        .bind(now.0)
        .bind(limit)
        .fetch_all(&mut *conn)
        .await?;
    let taken = rows.iter().map(errand_from).collect::<Result<Vec<_>, _>>()?;
    for errand in &taken {
        put_off(conn, errand.id, lease).await?;
    }
    Ok(taken)
}

async fn take_one(
    conn: &mut SqliteConnection,
    payload: &str,
    now: UnixSeconds,
    lease: UnixSeconds,
) -> Result<Option<Errand>, StoreError> {
    let row = query(concat!(select!(), " WHERE payload = ? AND due <= ? LIMIT 1"))
        .bind(payload)
        .bind(now.0)
        .fetch_optional(&mut *conn)
        .await?;
    let Some(errand) = row.as_ref().map(errand_from).transpose()? else { return Ok(None) };
    put_off(conn, errand.id, lease).await?;
    Ok(Some(errand))
}

async fn put_off(conn: &mut SqliteConnection, id: i64, lease: UnixSeconds) -> Result<(), StoreError> {
    query("UPDATE errands SET due = ?, attempts = attempts + 1 WHERE id = ?")
        .bind(lease.0)
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}

fn errand_from(row: &SqliteRow) -> Result<Errand, StoreError> {
    Ok(Errand {
        id: row.try_get(0)?,
        errand: NewErrand {
            kind: row.try_get(1)?,
            peer: did_from(row.try_get(2)?)?,
            payload: row.try_get(3)?,
            created: UnixSeconds(row.try_get(4)?),
            expires: UnixSeconds(row.try_get(5)?),
        },
        attempts: row.try_get(6)?,
        last_error: row.try_get(7)?,
    })
}
