//! The task that owns the writing connection of a process. What waits together shares one transaction.
//!
//! One is enough: what comes while it commits goes together in the next. More of them cut the batches smaller, and each
//! transaction has its price, for the database above all.
use std::{collections::HashMap, sync::Arc, time::Duration};

use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Connection, PgConnection};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use crate::{
    mailboxes::{
        Deposited, EpochClaim, Event, MailboxError, NewLetter, Qid,
        postgres::{
            Shared,
            batch::Work,
            failure::{Kind, kind, too_late},
            link::roll_back,
        },
    },
    queue::take_waiting,
};

/// Acts in one transaction, and about how many bytes of boxes.
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: usize = 8 * 1_048_576;
/// For one transaction. The server gives up a statement before that.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(25);
const MAX_TRIES: u32 = 8;
/// Mailboxes whose numbers are remembered.
const MAX_KNOWN: usize = 65_536;

pub(super) enum Job {
    Act(Act, oneshot::Sender<Result<Done, MailboxError>>),
    /// Finish what waits, close, and say so.
    Close(oneshot::Sender<()>),
}

/// One thing to do. Doing it again is harmless.
pub(super) enum Act {
    Deposit(Box<NewLetter>),
    Ack { did: Did, epoch: Box<str>, qids: Vec<Qid>, tell: bool },
    Claim { did: Did, epoch: Box<str>, now: UnixSeconds },
    StopWaiting { did: Did, qid: Qid },
}

impl Act {
    /// Whose mailbox it is about.
    pub(super) fn did(&self) -> &Did {
        match self {
            Act::Deposit(letter) => &letter.to,
            Act::Ack { did, .. } | Act::Claim { did, .. } | Act::StopWaiting { did, .. } => did,
        }
    }
}

/// What became of it.
#[derive(Debug, Clone)]
pub(super) enum Done {
    Deposited(Deposited),
    Acked(Option<u64>),
    Claimed(EpochClaim),
    Nothing,
}

pub(super) struct Pending {
    pub(super) act: Act,
    answer: oneshot::Sender<Result<Done, MailboxError>>,
}

/// Why an attempt failed.
pub(super) enum Failure {
    /// A mailbox whose number was remembered is gone.
    Stale,
    Sql(sqlx::Error),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Failure {
        Failure::Sql(error)
    }
}

/// What a transaction made true.
pub(super) struct Committed {
    pub(super) done: Vec<Done>,
    /// For this process, and for the others.
    pub(super) own: Vec<Event>,
    pub(super) others: Vec<Event>,
}

pub(super) struct Lane {
    shared: Arc<Shared>,
    shard: i32,
    conn: Option<PgConnection>,
    known: HashMap<Box<str>, i64>,
}

impl Lane {
    pub(super) fn new(shared: Arc<Shared>, shard: i32) -> Lane {
        Lane { shared, shard, conn: None, known: HashMap::new() }
    }

    /// Serves until the store is dropped or closed.
    pub(super) async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut waiting = Vec::with_capacity(MAX_BATCH);
        let mut closing = None;
        while take_waiting(&mut jobs, &mut waiting, MAX_BATCH).await > 0 {
            let (mut batch, mut bytes) = (Vec::with_capacity(waiting.len()), 0);
            for job in waiting.drain(..) {
                match job {
                    Job::Act(act, answer) => {
                        bytes += if let Act::Deposit(letter) = &act { letter.blob.len() } else { 0 };
                        batch.push(Pending { act, answer });
                        if bytes > MAX_BATCH_BYTES {
                            self.commit(std::mem::take(&mut batch)).await;
                            bytes = 0;
                        }
                    }
                    Job::Close(done) => {
                        jobs.close();
                        closing = Some(done);
                    }
                }
            }
            self.commit(batch).await;
        }
        if let Some(conn) = self.conn {
            timeout(ATTEMPT_TIMEOUT, conn.close()).await.ok();
        }
        if let Some(done) = closing {
            done.send(()).ok();
        }
    }

    /// Commits what waits and answers everyone.
    async fn commit(&mut self, batch: Vec<Pending>) {
        if batch.is_empty() {
            return;
        }
        match self.attempts(&batch).await {
            Ok(done) => {
                for (one, done) in batch.into_iter().zip(done) {
                    one.answer.send(Ok(done)).ok();
                }
            }
            Err(error) if kind(&error) == Kind::Row && batch.len() > 1 => {
                for one in batch {
                    let outcome = self.attempts(std::slice::from_ref(&one)).await;
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

    async fn attempts(&mut self, batch: &[Pending]) -> Result<Vec<Done>, sqlx::Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let was_connected = self.conn.is_some();
            let mut work = Work::new(self.shard);
            let attempt = timeout(ATTEMPT_TIMEOUT, self.attempt(&mut work, batch)).await;
            let error = match attempt.unwrap_or_else(|_| Err(Failure::Sql(too_late()))) {
                Ok(committed) => {
                    self.shared.events.tell(committed.own);
                    self.shared.notices.tell(committed.others);
                    return Ok(committed.done);
                }
                Err(Failure::Stale) if tries < MAX_TRIES => {
                    self.known.clear();
                    self.roll_back().await;
                    continue;
                }
                Err(Failure::Stale) => sqlx::Error::RowNotFound,
                Err(Failure::Sql(error)) => error,
            };
            match kind(&error) {
                Kind::Lost if tries < MAX_TRIES => {
                    self.roll_back().await;
                    sleep(Duration::from_millis(u64::from(tries) * 5)).await;
                }
                Kind::Gone => {
                    self.conn = None;
                    if work.is_committing() {
                        // It may have happened. Whoever asked will ask again; listeners have to look.
                        self.shared.resync_all();
                    } else if was_connected && tries == 1 {
                        // The connection was kept from before the server restarted.
                        continue;
                    }
                    return Err(error);
                }
                _ => {
                    self.roll_back().await;
                    return Err(error);
                }
            }
        }
    }

    async fn attempt(&mut self, work: &mut Work, batch: &[Pending]) -> Result<Committed, Failure> {
        if self.conn.is_none() {
            self.conn = Some(self.shared.link.durable().await?);
        }
        let Some(conn) = &mut self.conn else { return Err(Failure::Stale) };
        if self.known.len() > MAX_KNOWN {
            self.known.clear();
        }
        work.carry_out(conn, &self.shared.quotas, &mut self.known, batch).await
    }

    async fn roll_back(&mut self) {
        if let Some(conn) = &mut self.conn
            && !matches!(timeout(ATTEMPT_TIMEOUT, roll_back(conn)).await, Ok(Ok(())))
        {
            self.conn = None;
        }
    }
}
