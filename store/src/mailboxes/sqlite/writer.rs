//! The task that owns the writing connection. What waits together shares one transaction, and nobody is answered before
//! it is on disk.
use std::{fs::File, sync::Arc};

use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Connection, Row, SqliteConnection, raw_sql};
use tokio::sync::{mpsc, oneshot};

use crate::{
    StoreError,
    mailboxes::{
        Counts, Deposited, EpochClaim, MailboxError, NewLetter, PutCard, PutInvite, Qid, Quotas, Swept,
        events::Events,
        sqlite::{
            batch::{Memory, Work},
            keep::NewInvite,
        },
    },
    open::{Location, Watch},
    queue::take_waiting,
    writer::roll_back,
};

/// The log is written back every 8,000 pages and cut to 64 MiB after a burst: a mailbox that is filled and drained
/// meanwhile is written back once.
const TUNING: &str =
    "PRAGMA cache_size = -32768; PRAGMA wal_autocheckpoint = 8000; PRAGMA journal_size_limit = 67108864";

/// Acts in one transaction, and about how many bytes of boxes.
pub(super) const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: usize = 8 * 1_048_576;

/// What the writer is asked.
pub(super) enum Job {
    Act(Act, oneshot::Sender<Result<Done, MailboxError>>),
    /// Finish what waits, checkpoint, close, and say so.
    Close(oneshot::Sender<()>),
    /// Runs SQL on the writing connection.
    #[cfg(test)]
    Sql(&'static str, oneshot::Sender<()>),
}

/// One thing to do. It can be done again when its transaction failed because of another.
pub(super) enum Act {
    Deposit(Box<NewLetter>),
    Ack { did: Did, epoch: Box<str>, qids: Vec<Qid> },
    Claim { did: Did, epoch: Box<str>, now: UnixSeconds },
    StopWaiting { did: Did, qid: Qid },
    Seen { dids: Vec<Did>, now: UnixSeconds },
    PutCard { did: Did, ts: i64, envelope: String },
    PutInvite(NewInvite),
    Sweep { now: UnixSeconds },
    Count,
}

/// What became of it.
#[derive(Debug, Clone)]
pub(super) enum Done {
    Deposited(Deposited),
    Acked(Option<u64>),
    Claimed(EpochClaim),
    Card(PutCard),
    Invite((PutInvite, String)),
    /// And whether there is more to sweep.
    Swept((Swept, bool)),
    Counts(Counts),
    Nothing,
}

/// Every act has its own outcome: the `Err` of these is never seen.
macro_rules! outcomes {
    ($($name:ident: $variant:ident -> $kind:ty;)*) => {
        impl Done {
            $(pub(super) fn $name(self) -> Result<$kind, MailboxError> {
                if let Done::$variant(outcome) = self { Ok(outcome) } else { Err(MailboxError::Closed) }
            })*
        }
    };
}

outcomes! {
    deposited: Deposited -> Deposited;
    acked: Acked -> Option<u64>;
    claimed: Claimed -> EpochClaim;
    card: Card -> PutCard;
    invite: Invite -> (PutInvite, String);
    swept: Swept -> (Swept, bool);
    counts: Counts -> Counts;
}

/// An act and who waits for it.
pub(super) struct Pending {
    pub(super) act: Act,
    answer: oneshot::Sender<Result<Done, MailboxError>>,
}

/// Serves until the store is dropped or closed.
pub(super) async fn run(mut writer: Writer, mut jobs: mpsc::Receiver<Job>) {
    let mut waiting = Vec::with_capacity(MAX_BATCH);
    let mut batch = Vec::with_capacity(MAX_BATCH);
    let mut closing = None;
    while take_waiting(&mut jobs, &mut waiting, MAX_BATCH).await > 0 {
        let mut bytes = 0;
        for job in waiting.drain(..) {
            match job {
                Job::Act(act, answer) => {
                    bytes += if let Act::Deposit(letter) = &act { letter.blob.len() } else { 0 };
                    batch.push(Pending { act, answer });
                    if bytes > MAX_BATCH_BYTES {
                        writer.commit(&mut batch).await;
                        bytes = 0;
                    }
                }
                Job::Close(done) => {
                    jobs.close();
                    closing = Some(done);
                }
                #[cfg(test)]
                Job::Sql(sql, done) => {
                    let conn = writer.conn.as_mut().expect("it was opened with the store");
                    raw_sql(sql).execute(conn).await.expect("the tests' SQL is sound");
                    done.send(()).ok();
                }
            }
        }
        writer.commit(&mut batch).await;
    }
    writer.close().await;
    if let Some(done) = closing {
        done.send(()).ok();
    }
}

/// The writing connection and what is remembered of the file.
pub(super) struct Writer {
    location: Location,
    watch: Watch,
    conn: Option<SqliteConnection>,
    quotas: Quotas,
    memory: Memory,
    events: Arc<Events>,
    lock: File,
}

impl Writer {
    pub(super) async fn new(
        location: Location,
        watch: Watch,
        lock: File,
        quotas: Quotas,
        events: Arc<Events>,
        mut first: SqliteConnection,
    ) -> Result<Writer, MailboxError> {
        raw_sql(TUNING).execute(&mut first).await.map_err(StoreError::from)?;
        let memory = Memory::load(&mut first).await?;
        Ok(Writer { location, watch, conn: Some(first), quotas, memory, events, lock })
    }

    /// Commits what waits and answers everyone.
    async fn commit(&mut self, batch: &mut Vec<Pending>) {
        if batch.is_empty() {
            return;
        }
        let batch = std::mem::take(batch);
        match self.attempt(&batch).await {
            Ok(done) => {
                for (one, done) in batch.into_iter().zip(done) {
                    one.answer.send(Ok(done)).ok();
                }
            }
            Err(error) if error.is_about_a_row() && batch.len() > 1 => {
                for one in batch {
                    let outcome = self.attempt(std::slice::from_ref(&one)).await;
                    let outcome = outcome.map(|mut done| done.pop().unwrap_or(Done::Nothing));
                    one.answer.send(outcome.map_err(MailboxError::from)).ok();
                }
            }
            Err(error) => {
                let error = MailboxError::from(error);
                for one in batch {
                    one.answer.send(Err(error.clone())).ok();
                }
            }
        }
    }

    /// One transaction. What failed has changed nothing, on disk or in memory.
    async fn attempt(&mut self, batch: &[Pending]) -> Result<Vec<Done>, StoreError> {
        // It must be sure that it writes where others will look.
        self.watch.check()?;
        if self.conn.is_none() {
            self.conn = Some(self.location.connect(TUNING).await?);
        }
        let conn = self.conn.as_mut().ok_or(StoreError::Closed)?;
        let mut work = Work::default();
        match work.carry_out(conn, &mut self.memory, &self.quotas, batch).await {
            Ok(()) => {
                let (done, events) = self.memory.committed(work);
                self.events.tell(events);
                Ok(done)
            }
            Err(error) => {
                roll_back(conn).await;
                self.memory.forget(batch);
                if error.is_connection_lost() {
                    self.conn = None;
                }
                Err(error)
            }
        }
    }

    async fn close(mut self) {
        if let Some(mut conn) = self.conn.take() {
            raw_sql("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut conn).await.ok();
            conn.close().await.ok();
        }
        // Only now may another process have the file.
        drop(self.lock);
    }
}

/// The first column.
pub(super) async fn number(conn: &mut SqliteConnection, sql: &'static str) -> Result<i64, StoreError> {
    Ok(raw_sql(sql).fetch_one(conn).await?.try_get(0)?)
}
