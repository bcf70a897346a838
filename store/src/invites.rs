//! Invites that this agent made.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, SqliteConnection, query, sqlite::SqliteRow};

use crate::{
    Store, StoreError,
    contacts::{self, Contact, Introduce, Relation, did_from, peer_id},
    handled::mark_handled,
    messages::{Handling, Outgoing, insert_outgoing, is_outgoing},
};

/// Every column of an invite, in the order of [`invite_from`].
macro_rules! select {
    () => {
        "SELECT nonce, code, card, note, created, expires, revoked, address, used \
         FROM invites LEFT JOIN peers ON peers.id = used_by"
    };
}

/// One invite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InviteRow {
    /// The secret that a claim names.
    pub nonce: String,
    /// The secret of the short link.
    pub code: String,
    /// The signed card as compact JSON.
    pub card: String,
    /// The owner's note.
    pub note: Option<String>,
    /// When it was minted.
    pub created: UnixSeconds,
    /// The first second at which it is dead.
    pub expires: UnixSeconds,
    /// When the owner revoked it.
    pub revoked: Option<UnixSeconds>,
    /// Who spent it.
    pub used_by: Option<Did>,
    /// When it was spent.
    pub used: Option<UnixSeconds>,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// Spent now, the contact written in the same transaction.
    Accepted(Contact),
    /// The same DID claimed it before, successfully, and is still a direct contact: same success again.
    Repeated(Contact),
    /// Unknown, expired, revoked or spent by another: one answer on the wire; the reason is for the owner's log.
    Refused(ClaimRefusal),
}

/// Why a claim was refused, for the owner alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimRefusal {
    /// This agent issued no such nonce.
    Unknown,
    /// Too late.
    Expired,
    /// The owner took it back.
    Revoked,
    /// Spent, by another or by somebody whom the owner has removed since.
    Spent,
    /// The claimer is blocked.
    Blocked,
}

/// How a claim would be judged, before anything is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimStanding {
    /// It would be accepted.
    Open,
    /// The same DID claimed it before, successfully.
    Repeated,
    /// It would be refused.
    Dead,
}

impl Store {
    /// Stores a minted invite. [`StoreError::InviteExists`] when its nonce or its code is not new.
    pub async fn add_invite(&self, invite: &InviteRow) -> Result<(), StoreError> {
        let invite = invite.clone();
        self.write(|conn| Box::pin(async move { insert(conn, &invite).await })).await
    }

    /// All invites, newest first.
    pub async fn invites(&self) -> Result<Vec<InviteRow>, StoreError> {
        self.read(|conn| {
            Box::pin(async move {
                let rows = query(concat!(select!(), " ORDER BY created DESC, invites.id DESC")).fetch_all(conn).await?;
                rows.iter().map(invite_from).collect()
            })
        })
        .await
    }

    /// The card JSON of a live invite (not revoked, not expired, not spent) by its short code.
    pub async fn invite_card(&self, code: &str, now: UnixSeconds) -> Result<Option<String>, StoreError> {
        let code = code.to_owned();
        self.read(move |conn| {
            Box::pin(async move {
                let row = query(
                    "SELECT card FROM invites \
                     WHERE code = ? AND expires > ? AND revoked IS NULL AND used_by IS NULL",
                )
                .bind(code)
                .bind(now.0)
                .fetch_optional(conn)
                .await?;
                Ok(row.map(|row| row.try_get(0)).transpose()?)
            })
        })
        .await
    }

    /// Revokes by nonce or code; gives the invite as it is now. `None` when there is no such invite; revoking twice
    /// changes nothing.
    pub async fn revoke_invite(&self, nonce_or_code: &str, now: UnixSeconds) -> Result<Option<InviteRow>, StoreError> {
        let which = nonce_or_code.to_owned();
        self.write(move |conn| {
            Box::pin(async move {
                query("UPDATE invites SET revoked = ?2 WHERE (nonce = ?1 OR code = ?1) AND revoked IS NULL")
                    .bind(&which)
                    .bind(now.0)
                    .execute(&mut *conn)
                    .await?;
                let row = query(concat!(select!(), " WHERE nonce = ?1 OR code = ?1")).bind(which);
                row.fetch_optional(conn).await?.as_ref().map(invite_from).transpose()
            })
        })
        .await
    }

    /// Tells how [`Store::claim_invite`] would judge a claim now. Writes nothing.
    pub async fn claim_standing(&self, nonce: &str, did: &Did, now: UnixSeconds) -> Result<ClaimStanding, StoreError> {
        let (nonce, did) = (nonce.to_owned(), did.clone());
        self.read(move |conn| {
            Box::pin(async move {
                Ok(match look_up(conn, &nonce, &did, now).await? {
                    Judgement::Accept => ClaimStanding::Open,
                    Judgement::Repeat(_) => ClaimStanding::Repeated,
                    Judgement::Refuse(_) => ClaimStanding::Dead,
                })
            })
        })
        .await
    }

    /// Redeems: checks, spends and writes the contact in one transaction, single use under concurrency, also between
    /// processes. The id of a claim that is refused does not count as handled.
    pub async fn claim_invite(
        &self,
        nonce: &str,
        who: &Introduce,
        message: &Handling,
    ) -> Result<ClaimOutcome, StoreError> {
        let (nonce, who, message) = (nonce.to_owned(), who.clone(), message.clone());
        self.write(|conn| Box::pin(async move { claim(conn, &nonce, &who, &message).await })).await
    }

    /// The same for a claim that nobody waits for the answer of: when it is accepted, `welcome` is in the outbox. Written
    /// once, however often the claim is made.
    pub async fn claim_invite_by_mail(
        &self,
        nonce: &str,
        who: &Introduce,
        message: &Handling,
        welcome: &Outgoing,
    ) -> Result<ClaimOutcome, StoreError> {
        let (nonce, who, message, welcome) = (nonce.to_owned(), who.clone(), message.clone(), welcome.clone());
        self.write(|conn| {
            Box::pin(async move {
                let outcome = claim(conn, &nonce, &who, &message).await?;
                let is_refused = matches!(outcome, ClaimOutcome::Refused(_));
                if !is_refused && !is_outgoing(conn, &welcome.message_id).await? {
                    insert_outgoing(conn, &welcome).await?;
                }
                Ok(outcome)
            })
        })
        .await
    }
}

async fn claim(
    conn: &mut SqliteConnection,
    nonce: &str,
    who: &Introduce,
    message: &Handling,
) -> Result<ClaimOutcome, StoreError> {
    let outcome = match look_up(conn, nonce, &who.did, who.now).await? {
        Judgement::Refuse(why) => return Ok(ClaimOutcome::Refused(why)),
        Judgement::Repeat(contact) => ClaimOutcome::Repeated(*contact),
        Judgement::Accept => {
            let contact = contacts::introduce(conn, who).await?;
            let peer = peer_id(conn, who.did.as_str()).await?;
            query("UPDATE invites SET used_by = ?, used = ? WHERE nonce = ?")
                .bind(peer)
                .bind(who.now.0)
                .bind(nonce)
                .execute(&mut *conn)
                .await?;
            ClaimOutcome::Accepted(contact)
        }
    };
    mark_handled(conn, who.did.as_str(), &message.message_id, &message.digest).await?;
    Ok(outcome)
}

async fn look_up(
    conn: &mut SqliteConnection,
    nonce: &str,
    did: &Did,
    now: UnixSeconds,
) -> Result<Judgement, StoreError> {
    let claimer = contacts::find(conn, did).await?;
    let row = query(concat!(select!(), " WHERE nonce = ?")).bind(nonce).fetch_optional(conn).await?;
    let invite = row.as_ref().map(invite_from).transpose()?;
    Ok(judge(invite.as_ref(), claimer, did, now))
}

enum Judgement {
    Accept,
    Repeat(Box<Contact>),
    Refuse(ClaimRefusal),
}

/// Spent comes before expired: a lost response must not strand whom the invite let in.
fn judge(invite: Option<&InviteRow>, claimer: Option<Contact>, did: &Did, now: UnixSeconds) -> Judgement {
    if claimer.as_ref().is_some_and(|contact| contact.is_blocked) {
        return Judgement::Refuse(ClaimRefusal::Blocked);
    }
    let Some(invite) = invite else { return Judgement::Refuse(ClaimRefusal::Unknown) };
    if invite.revoked.is_some() {
        return Judgement::Refuse(ClaimRefusal::Revoked);
    }
    match (&invite.used_by, claimer) {
        (Some(used_by), Some(contact)) if used_by == did && contact.relation == Relation::Direct => {
            Judgement::Repeat(Box::new(contact))
        }
        (Some(_), _) => Judgement::Refuse(ClaimRefusal::Spent),
        (None, _) if invite.expires <= now => Judgement::Refuse(ClaimRefusal::Expired),
        (None, _) => Judgement::Accept,
    }
}

async fn insert(conn: &mut SqliteConnection, invite: &InviteRow) -> Result<(), StoreError> {
    let used_by = match &invite.used_by {
        Some(did) => Some(peer_id(conn, did.as_str()).await?),
        None => None,
    };
    let inserted = query(
        "INSERT INTO invites (nonce, code, card, note, created, expires, revoked, used_by, used) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(&invite.nonce)
    .bind(&invite.code)
    .bind(&invite.card)
    .bind(&invite.note)
    .bind(invite.created.0)
    .bind(invite.expires.0)
    .bind(invite.revoked.map(|time| time.0))
    .bind(used_by)
    .bind(invite.used.map(|time| time.0))
    .execute(conn)
    .await;
    match inserted {
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Err(StoreError::InviteExists),
        other => Ok(other.map(drop)?),
    }
}

fn invite_from(row: &SqliteRow) -> Result<InviteRow, StoreError> {
    let seconds = |index: usize| Ok::<_, StoreError>(row.try_get::<Option<i64>, _>(index)?.map(UnixSeconds));
    Ok(InviteRow {
        nonce: row.try_get(0)?,
        code: row.try_get(1)?,
        card: row.try_get(2)?,
        note: row.try_get(3)?,
        created: UnixSeconds(row.try_get(4)?),
        expires: UnixSeconds(row.try_get(5)?),
        revoked: seconds(6)?,
        used_by: row.try_get::<Option<&str>, _>(7)?.map(did_from).transpose()?,
        used: seconds(8)?,
    })
}
