//! Whose database this is. A key that was lost and made anew must not take over the contacts of the old one.
use std::path::Path;

use muretai_protocol::Did;
use sqlx::{Connection, Row, SqliteConnection, query};

use crate::{StoreError, open::Location};

/// The setting that names the agent.
const DID_SETTING: &str = "did";

/// The DID that a database names, without changing anything; `None` when there is no file, or nobody opened it yet.
///
/// # Errors
/// A file that [`crate::Store::open`] would refuse is refused here too.
pub async fn recorded_did(path: &Path) -> Result<Option<String>, StoreError> {
    let location = Location::new(path)?;
    let Some(mut conn) = location.inspect().await? else { return Ok(None) };
    let recorded = recorded(&mut conn).await;
    conn.close().await.ok();
    recorded
}

/// Writes the DID when none is there, and compares it otherwise.
pub(crate) async fn claim(conn: &mut SqliteConnection, did: &Did) -> Result<(), StoreError> {
    let found = match recorded(conn).await? {
        Some(found) => found,
        None => {
            // Two processes may open a new file together: whoever is second reads what the first one wrote.
            query("INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING")
                .bind(DID_SETTING)
                .bind(did.as_str())
                .execute(&mut *conn)
                .await?;
            recorded(conn).await?.ok_or(StoreError::Damaged)?
        }
    };
    if found == did.as_str() {
        return Ok(());
    }
    Err(StoreError::OtherAgent { recorded: found, key: did.to_string() })
}

async fn recorded(conn: &mut SqliteConnection) -> Result<Option<String>, StoreError> {
    let row = query("SELECT value FROM settings WHERE key = ?").bind(DID_SETTING).fetch_optional(conn).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}
