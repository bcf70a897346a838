//! Domains that were proven to belong to a DID (section 11.4), and when.
use muretai_protocol::{Did, UnixSeconds};

use crate::{Store, StoreError};

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
        let _ = row;
        todo!()
    }

    /// Forgets a verdict.
    pub async fn forget_domain(&self, did: &Did, domain: &str) -> Result<bool, StoreError> {
        let _ = (did, domain);
        todo!()
    }

    /// The newest verdict about a DID that is not older than `since`.
    pub async fn domain_of(&self, did: &Did, since: UnixSeconds) -> Result<Option<DomainRow>, StoreError> {
        let _ = (did, since);
        todo!()
    }

    /// All verdicts, by domain.
    pub async fn domains(&self) -> Result<Vec<DomainRow>, StoreError> {
        todo!()
    }
}
