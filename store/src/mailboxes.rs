//! What a relay keeps: letters, which listener of a mailbox is the newest, published cards, invites.
//!
//! One trait, two stores: a SQLite file for one relay process, PostgreSQL for many behind one address. What a letter
//! says is nobody's business here; who may deposit or fetch was decided before.
//!
//! Letters are fetched by what is not acknowledged, never by a time or a cursor: numbers of two processes may become
//! visible out of their order.
mod accounts;
mod error;
mod events;
mod postgres;
mod sqlite;

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use muretai_protocol::{Did, UnixSeconds};
use tokio::sync::mpsc;

pub use error::MailboxError;

/// How long an answer waits for who takes it.
const ANSWER_KEPT_SECS: i64 = 60;
const DAY_SECS: i64 = 86_400;
/// How long a mailbox that stands empty, and the epoch that it had, is remembered after its last deposit or claim.
const MAILBOX_KEPT_DAYS: i64 = 30;

/// The store's number of a letter, ascending in one mailbox for all practical purposes.
pub type Qid = i64;

/// Bounds of mailboxes (9.2). All of them are the operator's choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotas {
    /// Letters in one mailbox, 1,000.
    pub mailbox_letters: u32,
    /// Bytes of letters in one mailbox, 16 MiB. A letter weighs what its box weighs.
    pub mailbox_bytes: u64,
    /// Letters of one sender in one mailbox, 200.
    pub sender_letters: u32,
    /// How long letters are kept, 7 days.
    pub retention: Duration,
    /// Live invites of one DID, 20.
    pub invites: u32,
    /// Bytes of all letters together, each with 400 more for what is kept beside its box; 0 for no bound. One who
    /// deposits in ever new mailboxes meets no other.
    pub total_bytes: u64,
    /// Published cards, 100,000; over it the oldest that was not renewed goes. 0 for no bound.
    pub cards: u64,
    /// Bytes of them, each with 400 more, 1 GiB; the same goes over it. 0 for no bound.
    pub card_bytes: u64,
    /// Bytes of invites, each with 400 more, 1 GiB; over it the one that was left first goes. 0 for no bound.
    pub invite_bytes: u64,
    /// Mailboxes that are remembered, 1,000,000; a sweep forgets empty ones over it. 0 for no bound.
    pub mailboxes: u64,
}

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas {
            mailbox_letters: 1_000,
            mailbox_bytes: 16 * 1_048_576,
            sender_letters: 200,
            retention: Duration::from_secs(7 * 86_400),
            invites: 20,
            total_bytes: 0,
            cards: 100_000,
            card_bytes: 1 << 30,
            invite_bytes: 1 << 30,
            mailboxes: 1_000_000,
        }
    }
}

/// A letter to keep. Its signature was checked.
#[derive(Debug, Clone)]
pub struct NewLetter {
    /// Whose mailbox.
    pub to: Did,
    /// Who deposits it.
    pub from: Did,
    /// The deposit's id.
    pub id: String,
    /// The key to open it with.
    pub from_enc: Option<String>,
    /// The sealed box.
    pub blob: String,
    /// When it came.
    pub ts: UnixSeconds,
    /// Its depositor waits for the answer until then.
    pub awaited_until: Option<UnixSeconds>,
}

/// What became of a deposit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deposited {
    /// It is on disk.
    Stored(Qid),
    /// The same deposit is there already; when it is awaited now, that is noted.
    Again(Qid),
    /// A bound stands in the way; nothing was stored.
    Full(Bound),
}

/// The bound that was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// [`Quotas::mailbox_letters`].
    MailboxLetters,
    /// [`Quotas::mailbox_bytes`].
    MailboxBytes,
    /// [`Quotas::sender_letters`].
    SenderLetters,
    /// [`Quotas::total_bytes`].
    TotalBytes,
}

/// A letter that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLetter {
    /// Its number.
    pub qid: Qid,
    /// The deposit's id.
    pub id: String,
    /// Who deposited it.
    pub from: String,
    /// The key to open it with.
    pub from_enc: Option<String>,
    /// The sealed box.
    pub blob: String,
    /// When it came.
    pub ts: UnixSeconds,
    /// Its depositor waits for the answer until then.
    pub awaited_until: Option<UnixSeconds>,
}

/// Some letters of a mailbox, in ascending order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fetched {
    /// The letters.
    pub letters: Vec<StoredLetter>,
    /// There are more that are not in hand.
    pub has_more: bool,
}

/// Which epoch a mailbox is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EpochClaim {
    /// The claimed one is the newest that was ever seen.
    Current,
    /// A newer one was seen.
    Superseded,
}

/// What is known of a mailbox's listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presence {
    /// A listener waits at one of the relay's processes that are alive.
    pub is_online: bool,
    /// When one did last, when that is known.
    pub last_seen: Option<UnixSeconds>,
}

/// What became of a published card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutCard {
    /// It is the newest.
    Stored,
    /// One of this time is held, which is as new or newer.
    Held(i64),
}

/// What became of an invite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutInvite {
    /// It is kept until it expires.
    Stored,
    /// The code is taken; try another.
    CodeTaken,
    /// Its DID has as many live ones as it may.
    TooMany,
}

/// What all processes of a relay keep together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Letters.
    pub letters: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Mailboxes that hold letters.
    pub mailboxes: u64,
    /// Published cards.
    pub cards: u64,
    /// Live invites.
    pub invites: u64,
    /// Bytes of cards and invites.
    pub directory_bytes: u64,
    /// Mailboxes that are remembered, empty ones too.
    pub remembered: u64,
}

/// What a sweep removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Letters that were too old.
    pub letters: u64,
    /// Invites that had expired.
    pub invites: u64,
}

/// Something that listeners in this process have to know, wherever it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A letter was stored for this DID.
    Letter(Did),
    /// A listener with this epoch took this DID's mailbox: older ones are superseded.
    Epoch(Did, String),
    /// The answer to a synchronous call was left.
    Answered(Qid),
    /// Another process acknowledged these letters of this DID.
    Acked(Did, Vec<Qid>),
    /// Events may have been lost: everything has to be looked at again.
    Resync,
}

/// A store of mailboxes. All calls are safe side by side; a dropped future leaves its act whole: done or not done.
#[async_trait]
pub trait Mailboxes: Send + Sync + 'static {
    /// Keeps a letter: when this returns `Stored` it survives power loss. Concurrent deposits share a commit.
    async fn deposit(&self, letter: NewLetter) -> Result<Deposited, MailboxError>;
    /// The oldest letters of a mailbox that are not in hand, at most `max_letters` and, but for the first, `max_bytes`.
    async fn fetch(
        &self,
        did: &Did,
        in_hand: &[Qid],
        max_letters: u32,
        max_bytes: u64,
    ) -> Result<Fetched, MailboxError>;
    /// Deletes letters of this mailbox, and says how many there were, when `epoch` is the newest; `None` when it is not,
    /// and nothing is deleted. A greater epoch than was seen claims the mailbox. Concurrent calls share a commit. With
    /// `tell`, other processes get [`Event::Acked`].
    async fn ack(&self, did: &Did, epoch: &str, qids: &[Qid], tell: bool) -> Result<Option<u64>, MailboxError>;
    /// Claims the mailbox for a listener: the greatest epoch ever seen has it. An equal epoch is current.
    async fn claim(&self, did: &Did, epoch: &str, now: UnixSeconds) -> Result<EpochClaim, MailboxError>;
    /// Says that listeners of this process began to wait (`true`) or ceased to. The last word about a DID counts, so it
    /// is said when its first one begins and its last one ends.
    async fn set_online(&self, changes: &[(Did, bool)], now: UnixSeconds) -> Result<(), MailboxError>;
    /// Whether a listener waits now, and when the last one ceased to.
    async fn presence(&self, did: &Did, now: UnixSeconds) -> Result<Presence, MailboxError>;
    /// Leaves the answer to a letter whose depositor waits; `false` when this mailbox has no letter that is awaited now.
    /// Kept for a minute; a later one takes its place.
    async fn put_answer(&self, did: &Did, qid: Qid, blob: &str, now: UnixSeconds) -> Result<bool, MailboxError>;
    /// The depositor of this letter waits no longer: it is not awaited from now on, and an answer that was left is
    /// dropped. Without it a listener would be told that an answer was delivered which nobody takes.
    async fn stop_waiting(&self, did: &Did, qid: Qid) -> Result<(), MailboxError>;
    /// Takes an answer, once.
    async fn take_answer(&self, qid: Qid) -> Result<Option<String>, MailboxError>;
    /// Publishes a card; only a greater `ts` replaces one.
    async fn put_card(&self, did: &Did, ts: i64, envelope: &str) -> Result<PutCard, MailboxError>;
    /// A published card.
    async fn card(&self, did: &Did) -> Result<Option<String>, MailboxError>;
    /// Keeps an invite under a code until `exp`. The very same card again is `Stored` under its first code, which is
    /// given back.
    async fn put_invite(
        &self,
        did: &Did,
        code: &str,
        card: &str,
        exp: UnixSeconds,
        now: UnixSeconds,
    ) -> Result<(PutInvite, String), MailboxError>;
    /// The card of an invite that has not expired.
    async fn invite(&self, code: &str, now: UnixSeconds) -> Result<Option<String>, MailboxError>;
    /// Deletes what is too old, in batches, and tells the other processes that this one is alive.
    async fn sweep(&self, now: UnixSeconds) -> Result<Swept, MailboxError>;
    /// How much there is.
    async fn counts(&self) -> Result<Counts, MailboxError>;
    /// What happens from now on, at this process and at others. Taken once; a slow reader gets [`Event::Resync`].
    fn events(&self) -> mpsc::Receiver<Event>;
    /// Waits for what was handed in, and closes. Later calls fail with [`MailboxError::Closed`].
    async fn close(&self);
}

/// Opens the SQLite file of one relay process, and makes it when it is absent.
///
/// # Errors
/// A file of a newer program, of something else, or of another running relay is refused, and stays as it is.
pub async fn open_sqlite(path: &Path, quotas: Quotas) -> Result<Box<dyn Mailboxes>, MailboxError> {
    Ok(Box::new(sqlite::SqliteMailboxes::open(path, quotas).await?))
}

/// Connects to a PostgreSQL database that many relay processes share.
///
/// # Errors
/// A database of a newer program, or of something else, is refused, and stays as it is.
pub async fn open_postgres(url: &str, quotas: Quotas) -> Result<Box<dyn Mailboxes>, MailboxError> {
    Ok(Box::new(postgres::PgMailboxes::open(url, quotas).await?))
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};
    use sqlx::migrate::Migrator;

    use super::*;

    fn hashes(migrator: &Migrator) -> Vec<(i64, String)> {
        let hash = |text: &str| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(migrator.iter().all(|migration| !migration.sql.as_str().contains('\r')));
        migrator.iter().map(|migration| (migration.version, hash(migration.sql.as_str()))).collect()
    }

    #[test]
    fn shipped_migrations_are_frozen() {
        // Changing a shipped file would make two schemas of one version: write a new one instead.
        assert_eq!(
            hashes(&sqlite::MIGRATIONS),
            [
                (1, "5328357709fad3189753da18a29680e390922b4f4ed38767d8e1c28c57ae99cd".to_owned()),
                (2, "c6ac27b793c48697739a02f52ad6956be140b643cba21d736b29fd8a66451c52".to_owned())
            ]
        );
        assert_eq!(
            hashes(&postgres::MIGRATIONS),
            [
                (1, "f88ae519ab40d07c4f6a9a4b367ae922a9543351641946bd41bab06820b257ae".to_owned()),
                (2, "fc126c2e43849e981735f5eb81818c2da37074ca94c9c5ed61c3b8728a1bd04e".to_owned())
            ]
        );
    }
}
