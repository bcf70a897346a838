//! A listener at work: takes the letters that a source fetches, has them handled, acknowledges them, and knows when it
//! is done. The source runs inside it, so that dropping the future ends everything at once.
use std::{collections::HashMap, future, pin::Pin, process, sync::Arc, time::Duration};

use muretai_protocol::relay::{BadItem, Item};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{self, JoinError, JoinSet},
    time::Instant,
};

use super::{
    Drained, Fault, ListenEvent, RelayTimes, Watcher,
    acks::Acks,
    backoff::Backoff,
    lanes::{Lanes, Letter, Sender},
    mailbox::Mailbox,
    opening::{Fate, Opener},
    random_u32,
};
use crate::{Service, Stop, TransportError};

/// Failed acknowledgements after which a session that ends gives up. What is not acknowledged comes again, and is known.
const MAX_LAST_ACKS: u32 = 3;
/// Longest pause before one of them.
const MAX_LAST_PAUSE: Duration = Duration::from_secs(5);

/// Letters on their way from a source into a session.
pub(super) struct Fetched {
    items: Vec<Result<Item, BadItem>>,
    /// Told how many were not in hand before.
    taken: oneshot::Sender<usize>,
}

/// The source's end.
pub(super) struct Feed {
    letters: mpsc::Sender<Fetched>,
    /// Changes whenever letters are out of hand.
    progress: watch::Receiver<Progress>,
    /// Letters that were out of hand at the last [`Feed::mark`].
    marked: u64,
}

/// What a source may want to wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Progress {
    acked: u64,
    /// Nothing is handled or acknowledged at the moment.
    is_at_rest: bool,
}

impl Feed {
    /// Remembers how things stand; to be called before letters are asked for.
    pub(super) fn mark(&mut self) {
        self.marked = self.progress.borrow().acked;
    }

    /// Hands letters over, once there is room for them. Says how many were not in hand already.
    pub(super) async fn give(&mut self, items: Vec<Result<Item, BadItem>>) -> usize {
        let (taken, count) = oneshot::channel();
        if self.letters.send(Fetched { items, taken }).await.is_err() {
            // The session wants no more; it drops this future.
            future::pending::<()>().await;
        }
        count.await.unwrap_or(0)
    }

    /// Waits until letters are out of hand that were in hand at the last [`Feed::mark`]. `false`: none will be.
    pub(super) async fn progressed(&mut self) -> bool {
        let before = self.marked;
        let changed = self.progress.wait_for(|now| now.acked != before || now.is_at_rest).await;
        changed.is_ok_and(|now| now.acked != before)
    }
}

/// How a session ends, and what it does with letters that cannot be taken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Tries them again; ends when stopped or superseded.
    Listen,
    /// Leaves them; ends when its source does.
    Drain,
}

type Source<'a> = Pin<Box<dyn Future<Output = Result<(), TransportError>> + Send + 'a>>;
type Ack = Pin<Box<dyn Future<Output = (Vec<String>, Result<(), TransportError>)> + Send>>;

/// See the module.
pub(super) struct Session {
    mode: Mode,
    mailbox: Arc<Mailbox>,
    opener: Arc<Opener>,
    times: RelayTimes,
    watcher: Option<Watcher>,
    lanes: Lanes,
    tasks: JoinSet<Fate>,
    /// Whose letter a task handles.
    senders: HashMap<task::Id, (Sender, Arc<Letter>)>,
    acks: Acks,
    ack: Option<Ack>,
    ack_backoff: Backoff,
    drained: Drained,
    acked: u64,
    progress: watch::Sender<Progress>,
    /// The source has ended, or was ended.
    is_closing: bool,
    /// Why the session cannot go on.
    failure: Option<TransportError>,
    /// The owner knows that the relay hands out what is no item; a relay could fill a log with it.
    has_warned: bool,
}

impl Session {
    pub(super) fn new(
        mode: Mode,
        mailbox: Arc<Mailbox>,
        service: Arc<dyn Service>,
        times: RelayTimes,
        watcher: Option<Watcher>,
    ) -> Session {
        Session {
            mode,
            opener: Arc::new(Opener { mailbox: Arc::clone(&mailbox), service }),
            mailbox,
            ack_backoff: Backoff::new(times.min_pause, times.max_pause),
            times,
            watcher,
            lanes: Lanes::default(),
            tasks: JoinSet::new(),
            senders: HashMap::new(),
            acks: Acks::default(),
            ack: None,
            drained: Drained::default(),
            acked: 0,
            progress: watch::Sender::new(Progress::default()),
            is_closing: false,
            failure: None,
            has_warned: false,
        }
    }

    /// Runs a source to its end, or until stopped, and then finishes what was begun.
    pub(super) async fn run<'a, S, F>(mut self, source: S, stop: &Stop) -> Result<Drained, TransportError>
    where
        S: FnOnce(Feed) -> F,
        F: Future<Output = Result<(), TransportError>> + Send + 'a,
    {
        let (letters, mut fetched) = mpsc::channel(1);
        let feed = Feed { letters, progress: self.progress.subscribe(), marked: 0 };
        let mut source: Option<Source<'a>> = Some(Box::pin(source(feed)));
        loop {
            self.start();
            if self.is_closing && self.is_done() {
                self.drained.left = self.lanes.waiting();
                return self.failure.map_or(Ok(self.drained), Err);
            }
            if self.is_closing {
                source = None;
            }
            self.step(&mut source, &mut fetched, stop).await;
        }
    }

    /// Waits for one thing to happen, and takes note of it.
    async fn step(&mut self, source: &mut Option<Source<'_>>, fetched: &mut mpsc::Receiver<Fetched>, stop: &Stop) {
        let wake = [self.lanes.next_wake(), self.acks.next_due()].into_iter().flatten().min();
        let has_room = source.is_some() && self.lanes.has_room();
        tokio::select! {
            biased;
            () = stop.stopped(), if !self.is_closing => self.close(),
            Some(ended) = self.tasks.join_next_with_id() => self.handled(ended),
            (batch, result) = optional(&mut self.ack) => self.acknowledged(batch, result),
            Some(fetched) = fetched.recv(), if has_room => self.take(fetched),
            result = optional(source) => self.source_ended(result),
            () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
        }
    }

    fn is_done(&self) -> bool {
        self.lanes.is_idle() && (self.is_superseded() || self.acks.is_empty())
    }

    /// A relay takes no acknowledgement of a listener that is not the newest.
    fn is_superseded(&self) -> bool {
        matches!(self.failure, Some(TransportError::Superseded { .. }))
    }

    /// Begins whatever can be begun now, and says how things stand.
    fn start(&mut self) {
        let now = Instant::now();
        self.lanes.wake(now);
        while let Some((sender, letter)) = self.lanes.start() {
            let (opener, at_hand) = (Arc::clone(&self.opener), Arc::clone(&letter));
            let handle = self.tasks.spawn(async move { opener.handle(&at_hand).await });
            self.senders.insert(handle.id(), (sender, letter));
        }
        if self.ack.is_none()
            && !self.is_superseded()
            && let Some(batch) = self.acks.due(now, self.lanes.is_idle())
        {
            let mailbox = Arc::clone(&self.mailbox);
            self.ack = Some(Box::pin(async move {
                let result = mailbox.ack(&batch).await;
                (batch, result)
            }));
        }
        let is_at_rest = self.lanes.is_idle() && self.lanes.next_wake().is_none() && self.acks.is_empty();
        let now = Progress { acked: self.acked, is_at_rest };
        self.progress.send_if_modified(|before| std::mem::replace(before, now) != now);
    }

    /// Fetches no more. A listener lets go of what was not begun: it is asked to end, and the relay has it.
    fn close(&mut self) {
        self.is_closing = true;
        self.ack_backoff.reset();
        self.acks.hurry();
        if self.mode == Mode::Listen || self.failure.is_some() {
            self.lanes.drop_waiting();
        }
    }

    fn source_ended(&mut self, result: Result<(), TransportError>) {
        if let Err(error) = result {
            self.fail(error);
        } else {
            self.close();
        }
    }

    fn fail(&mut self, error: TransportError) {
        // The first reason is the one to tell, unless a newer listener is it.
        if self.failure.is_none() || matches!(error, TransportError::Superseded { .. }) {
            self.failure = Some(error);
        }
        self.close();
    }

    fn take(&mut self, fetched: Fetched) {
        let mut new = 0;
        for item in fetched.items {
            match Letter::of(item) {
                Some(letter) => new += usize::from(self.lanes.take(letter)),
                None if self.has_warned => {}
                None => {
                    self.has_warned = true;
                    tracing::warn!(relay = self.mailbox.relay(), "the relay hands out items without a number");
                }
            }
        }
        // A source that does not listen any more was dropped.
        let _ = fetched.taken.send(new);
        if new > 0 {
            self.die_at(Fault::AfterFetch);
        }
    }

    fn handled(&mut self, ended: Result<(task::Id, Fate), JoinError>) {
        let (id, fate) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!("a letter ended in a panic; it is left with the relay for now");
                (error.id(), Fate::NotNow)
            }
        };
        let Some((sender, letter)) = self.senders.remove(&id) else { return };
        match fate {
            Fate::NotNow => return self.not_now(&sender),
            Fate::Taken => self.drained.handled += 1,
            Fate::Unopened => self.drained.unopened += 1,
        }
        self.die_at(Fault::AfterCommit);
        self.lanes.handled(&sender);
        self.acks.add(letter.qid().to_owned(), Instant::now());
        if self.is_closing && (self.mode == Mode::Listen || self.failure.is_some()) {
            self.lanes.drop_waiting();
        }
        self.tell(&ListenEvent::Handled(self.drained.handled + self.drained.unopened));
    }

    fn not_now(&mut self, sender: &Sender) {
        if self.mode == Mode::Drain {
            return self.lanes.abandoned(sender);
        }
        let times = &self.times;
        self.lanes.postponed(sender, |failures| {
            let mut backoff = Backoff::new(times.min_pause, times.max_pause).after(failures);
            Instant::now() + backoff.pause(random_u32(), None)
        });
        if self.is_closing {
            self.lanes.drop_waiting();
        }
    }

    fn acknowledged(&mut self, batch: Vec<String>, result: Result<(), TransportError>) {
        self.ack = None;
        match result {
            Ok(()) => {
                self.die_at(Fault::AfterAck);
                self.acks.arrived();
                self.ack_backoff.reset();
                self.acked += batch.len() as u64;
                batch.iter().for_each(|qid| self.lanes.acked(qid));
            }
            Err(error @ TransportError::Superseded { .. }) => {
                self.acks.arrived();
                self.fail(error);
            }
            Err(error) => {
                let pause = self.ack_backoff.pause(random_u32(), error.retry_after());
                // Who drains wants to come to an end, and is not to wait for a relay that takes no acknowledgements.
                let is_ending = self.is_closing || self.mode == Mode::Drain;
                let gives_up = is_ending && (self.ack_backoff.failures() >= MAX_LAST_ACKS || pause > MAX_LAST_PAUSE);
                tracing::debug!(%error, ?pause, gives_up, letters = batch.len(), "letters are not acknowledged");
                if gives_up && self.is_closing {
                    let relay = self.mailbox.relay();
                    tracing::warn!(relay, %error, "letters that are here are not acknowledged; they will come again");
                    self.acks = Acks::default();
                } else if gives_up {
                    // Nothing gets out of hand any more, so there is no use in fetching.
                    self.acks.failed(batch, Instant::now(), Instant::now());
                    self.fail(error);
                } else {
                    self.acks.failed(batch, Instant::now(), Instant::now() + pause);
                }
            }
        }
    }

    fn tell(&self, event: &ListenEvent) {
        if let Some(watcher) = &self.watcher {
            watcher(event);
        }
    }

    /// For crash tests: ends the process as a kill would.
    fn die_at(&self, point: Fault) {
        if self.times.fault == Some(point) {
            process::abort();
        }
    }
}

/// The end of a future that may not be there: never, then.
async fn optional<F: Future + Unpin>(slot: &mut Option<F>) -> F::Output {
    match slot {
        Some(future) => future.await,
        None => future::pending().await,
    }
}
