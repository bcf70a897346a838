//! Trust that its other side has still to confirm: an invite was claimed by a letter, and the inviter has not answered.
//!
//! A mark beside the contact says so, with what the contact was before. Whatever makes trust for another reason takes the
//! mark away in its own transaction, so a late refusal takes back only what the claim made.
use muretai_protocol::Did;
use sqlx::{Row, SqliteConnection, query};

use crate::{
    Store, StoreError,
    contacts::{self, Contact, Introduce, Relation},
};

/// Before a DID: the setting that marks its trust, and says what the contact was before.
const MARK: &str = "provisional:";
/// There was no contact before.
const NOBODY: &str = "";

impl Store {
    /// As [`Store::connect`], for trust that may be taken back ([`Store::take_back`]). What was trusted before is trusted
    /// as before.
    pub async fn connect_provisionally(&self, who: &Introduce) -> Result<Contact, StoreError> {
        let who = who.clone();
        self.write(|conn| Box::pin(async move { connect(conn, &who).await })).await
    }

    /// Whether the trust in a contact waits for its confirmation.
    pub async fn is_provisional(&self, did: &Did) -> Result<bool, StoreError> {
        Ok(self.setting(&format!("{MARK}{did}")).await?.is_some())
    }

    /// Ends trust that was never confirmed: the contact is what it was before. `false` when there is none such, as when
    /// trust was made for another reason meanwhile.
    pub async fn take_back(&self, did: &Did) -> Result<bool, StoreError> {
        let did = did.clone();
        self.write(|conn| Box::pin(async move { take_back(conn, &did).await })).await
    }
}

async fn connect(conn: &mut SqliteConnection, who: &Introduce) -> Result<Contact, StoreError> {
    let mark = mark_of(conn, &who.did).await?;
    let before = contacts::find(conn, &who.did).await?.map(|contact| contact.relation);
    let mark = match (mark, before) {
        (Some(mark), Some(Relation::Direct)) => Some(mark),
        (_, Some(Relation::Direct)) => None,
        (_, Some(relation)) => Some(relation.stored().to_string()),
        (_, None) => Some(NOBODY.to_owned()),
    };
    let contact = contacts::introduce(conn, who).await?;
    if let Some(mark) = mark {
        query("INSERT INTO settings (key, value) VALUES (? || ?, ?)")
            .bind(MARK)
            .bind(who.did.as_str())
            .bind(mark)
            .execute(conn)
            .await?;
    }
    Ok(contact)
}

async fn take_back(conn: &mut SqliteConnection, did: &Did) -> Result<bool, StoreError> {
    let Some(mark) = mark_of(conn, did).await? else { return Ok(false) };
    confirm(conn, did).await?;
    let Some(mut contact) = contacts::find(conn, did).await?.filter(|it| it.relation == Relation::Direct) else {
        return Ok(false);
    };
    if mark == NOBODY {
        return contacts::remove(conn, contact).await;
    }
    contact.relation = Relation::from_stored(mark.parse().map_err(|_| StoreError::Damaged)?)?;
    contacts::save(conn, &contact).await?;
    Ok(true)
}

/// Takes the mark away: the trust stands.
pub(crate) async fn confirm(conn: &mut SqliteConnection, did: &Did) -> Result<(), StoreError> {
    query("DELETE FROM settings WHERE key = ? || ?").bind(MARK).bind(did.as_str()).execute(conn).await?;
    Ok(())
}

async fn mark_of(conn: &mut SqliteConnection, did: &Did) -> Result<Option<String>, StoreError> {
    let row = query("SELECT value FROM settings WHERE key = ? || ?").bind(MARK).bind(did.as_str());
    Ok(row.fetch_optional(conn).await?.map(|row| row.try_get(0)).transpose()?)
}
