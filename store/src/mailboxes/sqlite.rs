//! Mailboxes in one SQLite file, for one relay process.
//!
//! One task owns the writing connection and commits what waits together; one owns the reading connection. The file is
//! this process's alone, so what bounds and duplicates are decided by is kept in memory, who waits and what was
//! answered is nowhere else, and both are exact.
mod batch;
mod cache;
mod file;
mod keep;
mod online;
mod reader;
mod sweep;
#[cfg(test)]
mod tests;
mod writer;

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use muretai_protocol::{Did, UnixSeconds};
use tokio::sync::{mpsc, oneshot};

#[cfg(test)]
pub(super) use file::MIGRATIONS;

use crate::mailboxes::{
    Counts, Deposited, EpochClaim, Event, Fetched, MailboxError, Mailboxes, NewLetter, Presence, PutCard, PutInvite,
    Qid, Quotas, Swept,
    events::Events,
    sqlite::{
        online::Online,
        reader::Read,
        writer::{Act, Done, Job},
    },
};

/// Requests that may wait for a task; further callers wait for room.
const QUEUE_LEN: usize = 1_024;

/// An open file.
pub(super) struct SqliteMailboxes {
    writer: mpsc::Sender<Job>,
    reader: mpsc::Sender<Read>,
    online: Online,
    events: Arc<Events>,
}

impl SqliteMailboxes {
    pub(super) async fn open(path: &Path, quotas: Quotas) -> Result<SqliteMailboxes, MailboxError> {
        let opened = file::open(path).await?;
        let events = Arc::new(Events::new());
        let (reader, reads) = mpsc::channel(QUEUE_LEN);
        let (writer, jobs) = mpsc::channel(QUEUE_LEN);
        let (location, watch) = (opened.location.clone(), opened.location.watch());
        let writing = writer::Writer::new(location, watch, opened.lock, quotas, events.clone(), opened.first).await?;
        tokio::spawn(writer::run(writing, jobs));
        tokio::spawn(reader::run(opened.location, reads));
        Ok(SqliteMailboxes { writer, reader, online: Online::default(), events })
    }

    async fn act(&self, act: Act) -> Result<Done, MailboxError> {
        let (answer, outcome) = oneshot::channel();
        self.writer.send(Job::Act(act, answer)).await.map_err(|_| MailboxError::Closed)?;
        outcome.await.map_err(|_| MailboxError::Closed)?
    }

    async fn read<T>(
        &self,
        make: impl FnOnce(oneshot::Sender<Result<T, MailboxError>>) -> Read,
    ) -> Result<T, MailboxError> {
        let (answer, outcome) = oneshot::channel();
        self.reader.send(make(answer)).await.map_err(|_| MailboxError::Closed)?;
        outcome.await.map_err(|_| MailboxError::Closed)?
    }

    fn refuse_closed(&self) -> Result<(), MailboxError> {
        if self.writer.is_closed() { Err(MailboxError::Closed) } else { Ok(()) }
    }
}

#[async_trait]
impl Mailboxes for SqliteMailboxes {
    async fn deposit(&self, letter: NewLetter) -> Result<Deposited, MailboxError> {
        self.act(Act::Deposit(Box::new(letter))).await?.deposited()
    }

    async fn fetch(
        &self,
        did: &Did,
        in_hand: &[Qid],
        max_letters: u32,
        max_bytes: u64,
    ) -> Result<Fetched, MailboxError> {
        let wanted = reader::Wanted { did: did.clone(), in_hand: in_hand.to_vec(), max_letters, max_bytes };
        self.read(|answer| Read::Letters(wanted, answer)).await
    }

    async fn ack(&self, did: &Did, epoch: &str, qids: &[Qid], _tell: bool) -> Result<Option<u64>, MailboxError> {
        let act = Act::Ack { did: did.clone(), epoch: epoch.into(), qids: qids.to_vec() };
        self.act(act).await?.acked()
    }

    async fn claim(&self, did: &Did, epoch: &str, now: UnixSeconds) -> Result<EpochClaim, MailboxError> {
        self.act(Act::Claim { did: did.clone(), epoch: epoch.into(), now }).await?.claimed()
    }

    async fn set_online(&self, changes: &[(Did, bool)], now: UnixSeconds) -> Result<(), MailboxError> {
        self.refuse_closed()?;
        let gone = self.online.change(changes);
        if gone.is_empty() {
            return Ok(());
        }
        self.act(Act::Seen { dids: gone, now }).await.map(drop)
    }

    async fn presence(&self, did: &Did, _now: UnixSeconds) -> Result<Presence, MailboxError> {
        let last_seen = self.read(|answer| Read::LastSeen(did.clone(), answer)).await?;
        Ok(Presence { is_online: self.online.has(did), last_seen })
    }

    async fn put_answer(&self, did: &Did, qid: Qid, blob: &str, now: UnixSeconds) -> Result<bool, MailboxError> {
        let awaited_until = self.read(|answer| Read::AwaitedUntil(did.clone(), qid, answer)).await?;
        let is_left = awaited_until.is_some_and(|until| until >= now) && self.online.leave_answer(qid, blob, now);
        if is_left {
            self.events.tell([Event::Answered(qid)]);
        }
        Ok(is_left)
    }

    async fn stop_waiting(&self, did: &Did, qid: Qid) -> Result<(), MailboxError> {
        self.act(Act::StopWaiting { did: did.clone(), qid }).await?;
        self.online.take_answer(qid);
        Ok(())
    }

    async fn take_answer(&self, qid: Qid) -> Result<Option<String>, MailboxError> {
        self.refuse_closed()?;
        Ok(self.online.take_answer(qid))
    }

    async fn put_card(&self, did: &Did, ts: i64, envelope: &str) -> Result<PutCard, MailboxError> {
        self.act(Act::PutCard { did: did.clone(), ts, envelope: envelope.to_owned() }).await?.card()
    }

    async fn card(&self, did: &Did) -> Result<Option<String>, MailboxError> {
        self.read(|answer| Read::Card(did.clone(), answer)).await
    }

    async fn put_invite(
        &self,
        did: &Did,
        code: &str,
        card: &str,
        exp: UnixSeconds,
        now: UnixSeconds,
    ) -> Result<(PutInvite, String), MailboxError> {
        let act = Act::PutInvite(keep::NewInvite {
            did: did.clone(),
            code: code.to_owned(),
            card: card.to_owned(),
            exp,
            now,
        });
        self.act(act).await?.invite()
    }

    async fn invite(&self, code: &str, now: UnixSeconds) -> Result<Option<String>, MailboxError> {
        self.read(|answer| Read::Invite(code.to_owned(), now, answer)).await
    }

    async fn sweep(&self, now: UnixSeconds) -> Result<Swept, MailboxError> {
        self.online.forget_answers(now);
        let mut all = Swept::default();
        for _ in 0..sweep::MAX_ROUNDS {
            let (swept, has_more) = self.act(Act::Sweep { now }).await?.swept()?;
            all.letters += swept.letters;
            all.invites += swept.invites;
            if !has_more {
                break;
            }
        }
        Ok(all)
    }

    async fn counts(&self) -> Result<Counts, MailboxError> {
        self.act(Act::Count).await?.counts()
    }

    fn events(&self) -> mpsc::Receiver<Event> {
        self.events.take()
    }

    async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.reader.send(Read::Close(done)).await.is_ok() {
            closed.await.ok();
        }
        let (done, closed) = oneshot::channel();
        if self.writer.send(Job::Close(done)).await.is_ok() {
            closed.await.ok();
        }
    }
}
