//! Domains that were proven to belong to a DID (section 11.4), and when.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, query, sqlite::SqliteRow};

use crate::{
    Store, StoreError,
    contacts::{did_from, peer_id},
};

/// Every column of a verdict, in the order of [`domain_from`].
macro_rules! select {
    () => {
        "SELECT address, domain, verified FROM domains JOIN peers ON id = peer"
    };
}

/// A verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainRow {
    /// Whose.
    pub did: Did,
    /// The bare domain.
    pub domain: String,
    /// When both directions were checked.
    pub verified: UnixSeconds,
}

impl Store {
    /// Records a verdict; a newer one replaces the older. Another DID's verdict for the same domain goes.
    pub async fn record_domain(&self, row: &DomainRow) -> Result<(), StoreError> {
        let row = row.clone();
        self.write(move |conn| {
            Box::pin(async move {
                let peer = peer_id(conn, row.did.as_str()).await?;
                query("INSERT OR REPLACE INTO domains (domain, peer, verified) VALUES (?, ?, ?)")
                    .bind(row.domain)
                    .bind(peer)
                    .bind(row.verified.0)
                    .execute(conn)
                    .await?;
                Ok(())
            })
        })
        .await
    }

    /// Forgets a verdict. `false` when there was none.
    pub async fn forget_domain(&self, did: &Did, domain: &str) -> Result<bool, StoreError> {
        let (did, domain) = (did.clone(), domain.to_owned());
        self.write(move |conn| {
            Box::pin(async move {
                let done =
                    query("DELETE FROM domains WHERE domain = ? AND peer = (SELECT id FROM peers WHERE address = ?)")
                        .bind(domain)
                        .bind(did.as_str())
                        .execute(conn)
                        .await?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }

    /// The newest verdict about a DID that is not older than `since`.
    pub async fn domain_of(&self, did: &Did, since: UnixSeconds) -> Result<Option<DomainRow>, StoreError> {
        let did = did.clone();
        self.read(move |conn| {
            Box::pin(async move {
                let newest = query(concat!(
                    select!(),
                    " WHERE address = ? AND verified >= ? ORDER BY verified DESC, domain LIMIT 1"
                ));
                let row = newest.bind(did.as_str()).bind(since.0).fetch_optional(conn).await?;
                row.as_ref().map(domain_from).transpose()
            })
        })
        .await
    }

    /// All verdicts, by domain.
    pub async fn domains(&self) -> Result<Vec<DomainRow>, StoreError> {
        self.read(|conn| {
            Box::pin(async move {
                let rows = query(concat!(select!(), " ORDER BY domain")).fetch_all(conn).await?;
                rows.iter().map(domain_from).collect()
            })
        })
        .await
    }
}

fn domain_from(row: &SqliteRow) -> Result<DomainRow, StoreError> {
    Ok(DomainRow { did: did_from(row.try_get(0)?)?, domain: row.try_get(1)?, verified: UnixSeconds(row.try_get(2)?) })
}
