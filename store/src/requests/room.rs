//! How much may wait. A DID costs nothing, so strangers share one room; contacts share another, and none has it alone.
use muretai_protocol::UnixSeconds;
use sqlx::{Row, SqliteConnection, query};

use super::{NewRequest, PendingLimits, RequestKind};
use crate::StoreError;

const HOUR_SECS: i64 = 3_600;

/// What asks for room.
pub(super) struct Asks<'a> {
    pub(super) request: &'a NewRequest,
    /// It takes the room of strangers.
    pub(super) is_stranger: bool,
    /// The contact on whose account it goes.
    pub(super) sponsor: Option<i64>,
}

impl Asks<'_> {
    /// `None` when there is room; otherwise the seconds until asking again makes sense.
    pub(super) async fn wait(
        &self,
        conn: &mut SqliteConnection,
        limits: PendingLimits,
    ) -> Result<Option<u64>, StoreError> {
        let now = self.request.created;
        if let Some(wait) = self.hourly_wait(conn, limits, now).await? {
            return Ok(Some(wait));
        }
        let row = query(
            "SELECT count(*), min(expires), count(*) FILTER (WHERE via = ?3 OR (via IS NULL AND peer = ?3)) \
             FROM requests INDEXED BY requests_waiting \
             WHERE direction = 0 AND status IN (0, 4) AND expires > ?1 AND is_stranger = ?2",
        )
        .bind(now.0)
        .bind(self.is_stranger)
        .bind(self.sponsor)
        .fetch_one(conn)
        .await?;
        let (waiting, soonest): (i64, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        let of_sponsor: i64 = row.try_get(2)?;
        let total = i64::from(limits.total);
        let is_full = waiting >= total || (self.sponsor.is_some() && of_sponsor >= (total / 4).max(1));
        Ok(is_full.then(|| until(soonest.unwrap_or(i64::MAX), now)))
    }

    async fn hourly_wait(
        &self,
        conn: &mut SqliteConnection,
        limits: PendingLimits,
        now: UnixSeconds,
    ) -> Result<Option<u64>, StoreError> {
        let is_counted = matches!(self.request.kind, RequestKind::Connect | RequestKind::Message);
        if !self.is_stranger || self.request.is_vouched || !is_counted {
            return Ok(None);
        }
        let row = query(
            "SELECT count(*), min(created) FROM requests INDEXED BY requests_of_strangers \
             WHERE direction = 0 AND is_vouched = 0 AND is_stranger = 1 AND created > ? AND created <= ? \
             AND kind IN (0, 4)",
        )
        .bind(now.0.saturating_sub(HOUR_SECS))
        .bind(now.0)
        .fetch_one(conn)
        .await?;
        let (count, oldest): (i64, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        let is_full = count >= i64::from(limits.strangers_per_hour);
        Ok(is_full.then(|| until(oldest.unwrap_or(now.0).saturating_add(HOUR_SECS), now)))
    }
}

/// At most an hour: the owner may decide before anything expires.
fn until(time: i64, now: UnixSeconds) -> u64 {
    time.saturating_sub(now.0).clamp(1, HOUR_SECS).unsigned_abs()
}

/// For what no wait of a known length will mend.
pub(super) const LATER_SECS: u64 = HOUR_SECS.unsigned_abs();
