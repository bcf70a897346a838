//! Introductions (section 8): the ones that this agent wrote, was told of, and was given.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, SqliteConnection, query};
use tokio::sync::oneshot;

use crate::{
    Store, StoreError,
    contacts::{self, Contact, Relation},
    errands::{self, NewErrand},
    handled::{mark_fresh, seen_before},
    lists,
    messages::Handling,
    reader::ReadJob,
    requests::Decision,
};

mod held;
pub(crate) mod rows;
pub(crate) mod standing;

use rows::{columns, introduction_from};
use standing::Asked;

/// Which of the three parties this agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The issuer: this agent vouches.
    Issued,
    /// The target: somebody is introduced to this agent.
    Received,
    /// The subject: this agent was introduced, and presents the introduction to the target.
    Held,
}

/// What became of an introduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntroductionStatus {
    /// Waits: for the target's answer (issued), the owner's decision (received), or its first use (held).
    Pending,
    /// The target accepted it (issued), the owner did (received), or it was used and worked (held).
    Accepted,
    /// Somebody said no.
    Rejected,
    /// The issuer took it back.
    Revoked,
    /// Ended by what became of its issuer: the owner removed the contact. Comes never back to life.
    Ended,
}

/// One introduction. Whether it has expired is for the reader to see: [`IntroductionRow::valid_until`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntroductionRow {
    /// The credential's id, unique for its issuer.
    pub id: String,
    /// Which party this agent is.
    pub role: Role,
    /// Who vouches.
    pub issuer: Did,
    /// Who is introduced.
    pub subject: Did,
    /// To whom.
    pub target: Did,
    /// What became of it.
    pub status: IntroductionStatus,
    /// How far the issuer trusts the subject, 0 to 1000.
    pub trust_level_bp: Option<u16>,
    /// What the issuer says that the subject knows; unsafe to show raw.
    pub expertise: Vec<String>,
    /// When it was signed.
    pub issued: UnixSeconds,
    /// The first second in which it is no longer valid.
    pub valid_until: UnixSeconds,
    /// Where its revocation is asked.
    pub issuer_endpoint: Option<String>,
    /// The subject asked for it, and its signed request is inside.
    pub is_requested: bool,
    /// The signed credential as compact JSON.
    pub vc: String,
    /// When it was written here.
    pub created: UnixSeconds,
    /// When its status changed last.
    pub changed: UnixSeconds,
}

/// What came of keeping an introduction that somebody gave this agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Stored now, or stored before with the same content; the target as a contact.
    Stored(Contact),
    /// There is direct trust to the target already: nothing to keep.
    NotNeeded(Contact),
    /// The owner blocked the target, or the bound on what an issuer may give is reached.
    Refused,
}

/// What came of a target's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Recorded now; the row as it is.
    Recorded(IntroductionRow),
    /// No pending introduction with this id to this target.
    NoSuch,
    /// The request's id was handled before; nothing changed.
    Duplicate {
        /// An honest re-send.
        same_content: bool,
    },
}

impl Store {
    /// Stores an introduction that this agent signed, with the errand that takes it on its way. The same id twice is
    /// [`StoreError::InviteExists`]'s kind of programming error and fails.
    pub async fn add_issued(&self, row: &IntroductionRow, errand: Option<NewErrand>) -> Result<(), StoreError> {
        let row = row.clone();
        self.write(|conn| {
            Box::pin(async move {
                rows::insert(conn, &row).await?;
                add_errand(conn, errand).await
            })
        })
        .await
    }

    /// Introductions of one role, or all, newest first.
    pub async fn introductions(&self, role: Option<Role>) -> Result<Vec<IntroductionRow>, StoreError> {
        self.read(move |conn| {
            Box::pin(async move {
                let rows = query(concat!(
                    columns!(),
                    " FROM introductions AS i WHERE ?1 IS NULL OR role = ?1 ORDER BY created DESC, seq DESC"
                ))
                .bind(role.map(|role| role as i64))
                .fetch_all(conn)
                .await?;
                rows.iter().map(introduction_from).collect()
            })
        })
        .await
    }

    /// One introduction.
    pub async fn introduction(
        &self,
        role: Role,
        issuer: &Did,
        id: &str,
    ) -> Result<Option<IntroductionRow>, StoreError> {
        let (issuer, id) = (issuer.clone(), id.to_owned());
        self.read(move |conn| Box::pin(async move { rows::find(conn, role, &issuer, &id).await })).await
    }

    /// The introductions that let `subject` in now, best trust level first, at most 64: accepted by the owner, unexpired,
    /// issued by somebody who is a direct contact and not blocked. Both ways: as the subject of one that was received,
    /// and as the target of one that was held and has worked.
    pub async fn standing_introductions(
        &self,
        subject: &Did,
        now: UnixSeconds,
    ) -> Result<Vec<IntroductionRow>, StoreError> {
        let (answer, outcome) = oneshot::channel();
        let asked = Asked { subject: subject.as_str().to_owned(), now, answer };
        self.reader()?.send(ReadJob::Introductions(asked)).await.map_err(|_| StoreError::Closed)?;
        outcome.await.map_err(|_| StoreError::Closed)?
    }

    /// The introductions of `subject` to this agent that wait for the owner, best trust level first, at most four:
    /// unexpired, issued by somebody who is a direct contact and not blocked.
    pub async fn waiting_introductions(
        &self,
        subject: &Did,
        now: UnixSeconds,
    ) -> Result<Vec<IntroductionRow>, StoreError> {
        let subject = subject.clone();
        self.read(move |conn| {
            Box::pin(async move {
                let rows = query(concat!(
                    columns!(),
                    " FROM introductions AS i INDEXED BY introductions_subject \
                     JOIN contacts AS c ON c.peer = issuer AND c.relation = 1 AND c.is_blocked = 0 \
                     WHERE role = 1 AND subject = (SELECT id FROM peers WHERE address = ?) AND status = 0 \
                     AND valid_until > ? ORDER BY ifnull(trust_level_bp, -1) DESC, valid_until DESC, seq LIMIT 4"
                ))
                .bind(subject.as_str())
                .bind(now.0)
                .fetch_all(conn)
                .await?;
                rows.iter().map(introduction_from).collect()
            })
        })
        .await
    }

    /// The best introduction to present to `target`: held, unexpired, neither rejected nor revoked, its issuer a direct
    /// contact. One that has worked before comes first.
    pub async fn held_for(&self, target: &Did, now: UnixSeconds) -> Result<Option<IntroductionRow>, StoreError> {
        let target = target.clone();
        self.read(move |conn| {
            Box::pin(async move {
                let row = query(concat!(
                    columns!(),
                    " FROM introductions AS i INDEXED BY introductions_target \
                     JOIN contacts AS c ON c.peer = issuer AND c.relation = 1 \
                     WHERE role = 2 AND target = (SELECT id FROM peers WHERE address = ?) AND status IN (0, 1) \
                     AND valid_until > ? \
                     ORDER BY status DESC, ifnull(trust_level_bp, -1) DESC, valid_until DESC LIMIT 1"
                ))
                .bind(target.as_str())
                .bind(now.0)
                .fetch_optional(conn)
                .await?;
                row.as_ref().map(introduction_from).transpose()
            })
        })
        .await
    }

    /// Keeps an introduction that somebody gave this agent: the row, and its target as a contact of relation
    /// [`crate::contacts::Relation::Offered`] with a name and coordinates, by the word of its issuer (source
    /// `Introducer`), which changes nothing that is known. An issuer may give at most 256 live ones. A contact that is
    /// there keeps its stronger relation. Our question that it answers is settled.
    pub async fn keep_held(
        &self,
        row: &IntroductionRow,
        target: &crate::contacts::Introduce,
    ) -> Result<Kept, StoreError> {
        let (row, target) = (row.clone(), target.clone());
        self.write(|conn| Box::pin(async move { held::keep(conn, &row, &target).await })).await
    }

    /// Records that a held introduction was presented: `Accepted` says that it worked, and makes the contact
    /// `Introduced`; otherwise `status` says what the target answered. What was revoked or has ended stays so.
    pub async fn record_presented(
        &self,
        issuer: &Did,
        id: &str,
        status: IntroductionStatus,
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        let (issuer, id) = (issuer.clone(), id.to_owned());
        self.write(move |conn| Box::pin(async move { held::presented(conn, &issuer, &id, status, now).await })).await
    }

    /// Takes back an introduction that this agent issued; `None` when there is none. Twice changes nothing. The errands
    /// (such as telling the target) are stored in the same transaction, and a pending delivery of it is dropped.
    pub async fn revoke_issued(
        &self,
        id: &str,
        now: UnixSeconds,
        errand: Option<NewErrand>,
    ) -> Result<Option<IntroductionRow>, StoreError> {
        let id = id.to_owned();
        self.write(move |conn| {
            Box::pin(async move {
                let Some(mut row) = rows::find_issued(conn, &id).await? else { return Ok(None) };
                if row.status != IntroductionStatus::Revoked {
                    rows::set_status(conn, &mut row, IntroductionStatus::Revoked, now).await?;
                    errands::drop_about(conn, &id).await?;
                    add_errand(conn, errand).await?;
                }
                Ok(Some(row))
            })
        })
        .await
    }

    /// The ids of what this agent issued, revoked, and would otherwise still be valid: sorted.
    pub async fn revoked_ids(&self, now: UnixSeconds) -> Result<Vec<String>, StoreError> {
        self.read(move |conn| {
            Box::pin(async move {
                let rows =
                    query("SELECT id FROM introductions WHERE role = 0 AND status = 3 AND valid_until > ? ORDER BY id")
                        .bind(now.0)
                        .fetch_all(conn)
                        .await?;
                rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
            })
        })
        .await
    }

    /// Marks what a verified list of `issuer` names, received and held, as revoked; contacts that nothing else vouches
    /// for are strangers from then on, and keep name and coordinates. Gives how many changed. An id that is not here costs nothing.
    pub async fn mark_revoked(&self, issuer: &Did, ids: &[String], now: UnixSeconds) -> Result<u64, StoreError> {
        let (issuer, ids) = (issuer.clone(), lists::encode(ids));
        let is_new = {
            let (issuer, ids) = (issuer.clone(), ids.clone());
            self.read(|conn| Box::pin(async move { Ok(!held::named(conn, &issuer, &ids).await?.is_empty()) })).await?
        };
        if !is_new {
            return Ok(0);
        }
        self.write(move |conn| Box::pin(async move { held::mark_revoked(conn, &issuer, &ids, now).await })).await
    }

    /// Records that the target will not have an introduction of ours, or that it leads nowhere, before anybody decided
    /// about it there. What was owed with it is dropped. `false`, and nothing changes, when it was not pending.
    pub async fn reject_issued(&self, id: &str, now: UnixSeconds) -> Result<bool, StoreError> {
        let id = id.to_owned();
        self.write(move |conn| {
            Box::pin(async move {
                let row = rows::find_issued(conn, &id).await?;
                let Some(mut row) = row.filter(|row| row.status == IntroductionStatus::Pending) else {
                    return Ok(false);
                };
                rows::set_status(conn, &mut row, IntroductionStatus::Rejected, now).await?;
                errands::drop_about(conn, &id).await?;
                Ok(true)
            })
        })
        .await
    }

    /// Records the target's answer to an introduction of ours, from `introduce/respond`, with the errand that gives the
    /// subject its introduction. The same answer again is recorded already and writes no second errand; the target may
    /// change its mind to yes, and once more to no, which ends it. The id counts as handled in the same transaction, also of an answer to nothing when it came
    /// from a contact.
    pub async fn settle_issued(
        &self,
        id: &str,
        target: &Did,
        decision: Decision,
        errand: Option<NewErrand>,
        handling: &Handling,
        now: UnixSeconds,
    ) -> Result<Settled, StoreError> {
        let (id, target, handling) = (id.to_owned(), target.clone(), handling.clone());
        let tail = self.inner.tail.clone();
        self.write(move |conn| {
            Box::pin(async move {
                if let Some(same_content) = seen_before(conn, &tail, &handling).await? {
                    return Ok(Settled::Duplicate { same_content });
                }
                let settled = settle(conn, &id, &target, decision, errand, now).await?;
                // Anybody can answer to nothing, and must not be able to fill the disk with it.
                let is_kept = matches!(settled, Settled::Recorded(_)) || is_contact(conn, &target).await?;
                if is_kept {
                    mark_fresh(conn, &handling).await?;
                }
                Ok(settled)
            })
        })
        .await
    }
}

async fn is_contact(conn: &mut SqliteConnection, did: &Did) -> Result<bool, StoreError> {
    Ok(contacts::find(conn, did).await?.is_some_and(|contact| contact.relation != Relation::None))
}

async fn settle(
    conn: &mut SqliteConnection,
    id: &str,
    target: &Did,
    decision: Decision,
    errand: Option<NewErrand>,
    now: UnixSeconds,
) -> Result<Settled, StoreError> {
    use IntroductionStatus::{Accepted, Ended, Rejected, Revoked};
    let Some(mut row) = rows::find_issued(conn, id).await? else { return Ok(Settled::NoSuch) };
    let is_over = matches!(row.status, Revoked | Ended) || row.valid_until <= now;
    if row.target != *target || is_over {
        return Ok(Settled::NoSuch);
    }
    let status = match decision {
        Decision::Accept => Accepted,
        // For good: a target that changes its mind to and fro must not make us write to the subject each time.
        Decision::Reject if row.status == Accepted => Ended,
        Decision::Reject => Rejected,
    };
    if row.status != status {
        rows::set_status(conn, &mut row, status, now).await?;
        errands::drop_about(conn, id).await?;
        add_errand(conn, errand).await?;
    }
    Ok(Settled::Recorded(row))
}

async fn add_errand(conn: &mut SqliteConnection, errand: Option<NewErrand>) -> Result<(), StoreError> {
    if let Some(errand) = errand {
        errands::insert(conn, &errand, None).await?;
    }
    Ok(())
}
