//! Looks whether the file is sound, for whoever asks what is wrong.
use sqlx::{Row, query};

use crate::{Store, StoreError};

impl Store {
    /// Has SQLite look through the whole file for damage (`PRAGMA quick_check`): `Damaged` when it finds any. Reads
    /// every page, so it takes as long as the file is large.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.read(|conn| {
            Box::pin(async move {
                let row = query("PRAGMA quick_check(1)").fetch_one(conn).await?;
                let verdict: String = row.try_get(0)?;
                if verdict == "ok" { Ok(()) } else { Err(StoreError::Damaged) }
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_new_file_is_sound() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
        assert!(store.check().await.is_ok());
        store.close().await;
    }
}
