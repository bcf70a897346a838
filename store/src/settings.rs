//! Small facts about this agent, by key: the URL it serves at, its display name, its defaults.
use sqlx::{Row, query};

use crate::{Store, StoreError};

impl Store {
    /// The value of a key.
    pub async fn setting(&self, key: &str) -> Result<Option<String>, StoreError> {
        let key = key.to_owned();
        self.read(|conn| {
            Box::pin(async move {
                let row = query("SELECT value FROM settings WHERE key = ?").bind(key).fetch_optional(conn).await?;
                Ok(row.map(|row| row.try_get(0)).transpose()?)
            })
        })
        .await
    }

    /// The keys that begin with `prefix`, without it, and their values, by key.
    pub async fn settings_under(&self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        let prefix = prefix.to_owned();
        self.read(|conn| {
            Box::pin(async move {
                let rows = query("SELECT substr(key, 1 + length(?1)), value FROM settings WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key")
                    .bind(prefix)
                    .fetch_all(conn)
                    .await?;
                rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
            })
        })
        .await
    }

    /// Sets or, with `None`, forgets a key.
    pub async fn set_setting(&self, key: &str, value: Option<&str>) -> Result<(), StoreError> {
        let (key, value) = (key.to_owned(), value.map(str::to_owned));
        self.write(|conn| {
            Box::pin(async move {
                match value {
                    Some(value) => {
                        query("INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value")
                            .bind(key)
                            .bind(value)
                            .execute(conn)
                            .await?
                    }
                    None => query("DELETE FROM settings WHERE key = ?").bind(key).execute(conn).await?,
                };
                Ok(())
            })
        })
        .await
    }

    /// Sets a key to `new` where it has the value `old`; says whether it had.
    pub async fn replace_setting(&self, key: &str, old: &str, new: &str) -> Result<bool, StoreError> {
        let (key, old, new) = (key.to_owned(), old.to_owned(), new.to_owned());
        self.write(|conn| {
            Box::pin(async move {
                let replacing = query("UPDATE settings SET value = ? WHERE key = ? AND value = ?");
                let done = replacing.bind(new).bind(key).bind(old).execute(conn).await?;
                Ok(done.rows_affected() == 1)
            })
        })
        .await
    }
}
