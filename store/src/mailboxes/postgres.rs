//! Mailboxes in a PostgreSQL database that many relay processes share.
//!
//! What a mailbox holds changes only under the lock of its row, so bounds, duplicates and epochs are exact across
//! processes. Deposits and acknowledgements go through one lane, a connection with a group commit; reads and rare acts
//! use a small pool; a keeper says who is alive and online; notices tell the other processes what happened.
mod batch;
mod deposits;
mod directory;
mod failure;
mod keeper;
mod lane;
mod link;
mod notices;
mod records;
mod schema;
mod sweep;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use async_trait::async_trait;
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Connection, PgConnection, PgPool, Row, raw_sql};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinHandle,
};

#[cfg(test)]
pub(super) use schema::MIGRATIONS;

use crate::mailboxes::{
    Counts, Deposited, EpochClaim, Event, Fetched, MailboxError, Mailboxes, NewLetter, Presence, PutCard, PutInvite,
    Qid, Quotas, Swept,
    events::Events,
    postgres::{
        directory::About,
        keeper::Keeper,
        lane::{Act, Done, Lane},
        link::Link,
        notices::Notices,
    },
};

/// Pieces of the sums; the migration makes so many.
const SHARDS: i64 = 64;
/// Requests that may wait for a task; further callers wait for room.
const QUEUE_LEN: usize = 1_024;

/// What the tasks of a process share.
struct Shared {
    link: Link,
    pool: PgPool,
    quotas: Quotas,
    process: i64,
    events: Arc<Events>,
    notices: Notices,
    cards: About,
    invites: About,
    /// Of those who publish.
    turns: Semaphore,
    swept_day: AtomicI64,
}

impl Shared {
    /// Everybody has to look at everything again.
    fn resync_all(&self) {
        self.events.tell([Event::Resync]);
        self.notices.tell(vec![Event::Resync]);
    }
}

/// An open database.
pub(super) struct PgMailboxes {
    shared: Arc<Shared>,
    lane: mpsc::Sender<lane::Job>,
    keeper: mpsc::Sender<keeper::Job>,
    is_closed: AtomicBool,
    listening: JoinHandle<()>,
    sending: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for PgMailboxes {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl PgMailboxes {
    pub(super) async fn open(url: &str, quotas: Quotas) -> Result<PgMailboxes, MailboxError> {
        let link = Link::new(url)?;
        let mut conn = link.durable().await?;
        let prepared = prepare(&mut conn).await;
        conn.close().await.ok();
        let process = prepared?;
        let events = Arc::new(Events::new());
        // Hears before it looks: what happens from now on is told.
        let first = notices::connect(&link).await?;
        let (notices, sending) = Notices::new(link.clone(), process);
        let pool = link.pool();
        let shared = Arc::new(Shared {
            link: link.clone(),
            pool,
            quotas,
            process,
            events: events.clone(),
            notices,
            cards: About::default(),
            invites: About::default(),
            turns: directory::turns(),
            swept_day: AtomicI64::new(0),
        });
        let keeper = Keeper::new(shared.clone()).await?;
        let (online, jobs) = mpsc::channel(QUEUE_LEN);
        tokio::spawn(keeper.run(jobs));
        let (lane, jobs) = mpsc::channel(QUEUE_LEN);
        let shard = i32::try_from(process.rem_euclid(SHARDS)).unwrap_or(0);
        tokio::spawn(Lane::new(shared.clone(), shard).run(jobs));
        Ok(PgMailboxes {
            lane,
            keeper: online,
            is_closed: AtomicBool::new(false),
            listening: tokio::spawn(notices::listen(link, process, events, first)),
            sending: Mutex::new(Some(tokio::spawn(sending))),
            shared,
        })
    }

    fn refuse_closed(&self) -> Result<(), MailboxError> {
        if self.is_closed.load(Ordering::Acquire) { Err(MailboxError::Closed) } else { Ok(()) }
    }

    /// The pool, while the store is open.
    fn pool(&self) -> Result<&PgPool, MailboxError> {
        self.refuse_closed().map(|()| &self.shared.pool)
    }

    async fn keep(
        &self,
        make: impl FnOnce(oneshot::Sender<Result<(), MailboxError>>) -> keeper::Job,
    ) -> Result<(), MailboxError> {
        self.refuse_closed()?;
        let (answer, outcome) = oneshot::channel();
        self.keeper.send(make(answer)).await.map_err(|_| MailboxError::Closed)?;
        outcome.await.map_err(|_| MailboxError::Closed)?
    }

    async fn act(&self, act: Act) -> Result<Done, MailboxError> {
        self.refuse_closed()?;
        let (answer, outcome) = oneshot::channel();
        self.lane.send(lane::Job::Act(act, answer)).await.map_err(|_| MailboxError::Closed)?;
        outcome.await.map_err(|_| MailboxError::Closed)?
    }
}

/// Brings the schema up to date. Gives the number of this process.
async fn prepare(conn: &mut PgConnection) -> Result<i64, MailboxError> {
    schema::prepare(conn).await?;
    Ok(raw_sql("SELECT nextval('process_ids')").fetch_one(conn).await?.try_get(0)?)
}

#[async_trait]
impl Mailboxes for PgMailboxes {
    async fn deposit(&self, letter: NewLetter) -> Result<Deposited, MailboxError> {
        match self.act(Act::Deposit(Box::new(letter))).await? {
            Done::Deposited(outcome) => Ok(outcome),
            _ => Err(MailboxError::Closed),
        }
    }

    async fn fetch(
        &self,
        did: &Did,
        in_hand: &[Qid],
        max_letters: u32,
        max_bytes: u64,
    ) -> Result<Fetched, MailboxError> {
        records::fetch(self.pool()?, did, in_hand, max_letters, max_bytes).await
    }

    async fn ack(&self, did: &Did, epoch: &str, qids: &[Qid], tell: bool) -> Result<Option<u64>, MailboxError> {
        match self.act(Act::Ack { did: did.clone(), epoch: epoch.into(), qids: qids.to_vec(), tell }).await? {
            Done::Acked(outcome) => Ok(outcome),
            _ => Err(MailboxError::Closed),
        }
    }

    async fn claim(&self, did: &Did, epoch: &str, now: UnixSeconds) -> Result<EpochClaim, MailboxError> {
        match self.act(Act::Claim { did: did.clone(), epoch: epoch.into(), now }).await? {
            Done::Claimed(outcome) => Ok(outcome),
            _ => Err(MailboxError::Closed),
        }
    }

    async fn set_online(&self, changes: &[(Did, bool)], now: UnixSeconds) -> Result<(), MailboxError> {
        if changes.is_empty() {
            return self.refuse_closed();
        }
        self.keep(|answer| keeper::Job::Online(keeper::Changes { of: changes.to_vec(), now, answer })).await
    }

    async fn presence(&self, did: &Did, _now: UnixSeconds) -> Result<Presence, MailboxError> {
        records::presence(self.pool()?, did).await
    }

    async fn put_answer(&self, did: &Did, qid: Qid, blob: &str, now: UnixSeconds) -> Result<bool, MailboxError> {
        self.refuse_closed()?;
        records::put_answer(&self.shared, did, qid, blob, now).await
    }

    async fn stop_waiting(&self, did: &Did, qid: Qid) -> Result<(), MailboxError> {
        self.act(Act::StopWaiting { did: did.clone(), qid }).await.map(drop)
    }

    async fn take_answer(&self, qid: Qid) -> Result<Option<String>, MailboxError> {
        records::take_answer(self.pool()?, qid).await
    }

    async fn put_card(&self, did: &Did, ts: i64, envelope: &str) -> Result<PutCard, MailboxError> {
        self.refuse_closed()?;
        directory::put_card(&self.shared, did, ts, envelope).await
    }

    async fn card(&self, did: &Did) -> Result<Option<String>, MailboxError> {
        directory::card(self.pool()?, did).await
    }

    async fn put_invite(
        &self,
        did: &Did,
        code: &str,
        card: &str,
        exp: UnixSeconds,
        now: UnixSeconds,
    ) -> Result<(PutInvite, String), MailboxError> {
        let new = directory::NewInvite { did, code, card, exp, now };
        self.refuse_closed()?;
        directory::put_invite(&self.shared, new).await
    }

    async fn invite(&self, code: &str, now: UnixSeconds) -> Result<Option<String>, MailboxError> {
        directory::invite(self.pool()?, code, now).await
    }

    async fn sweep(&self, now: UnixSeconds) -> Result<Swept, MailboxError> {
        self.keep(keeper::Job::Beat).await?;
        sweep::sweep(&self.shared, now).await
    }

    async fn counts(&self) -> Result<Counts, MailboxError> {
        records::counts(self.pool()?).await
    }

    fn events(&self) -> mpsc::Receiver<Event> {
        self.shared.events.take()
    }

    async fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let (done, closed) = oneshot::channel();
        if self.lane.send(lane::Job::Close(done)).await.is_ok() {
            closed.await.ok();
        }
        let (done, closed) = oneshot::channel();
        if self.keeper.send(keeper::Job::Close(done)).await.is_ok() {
            closed.await.ok();
        }
        self.listening.abort();
        // What was committed last is told.
        self.shared.notices.close();
        let sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sending) = sending {
            sending.await.ok();
        }
        self.shared.pool.close().await;
    }
}
