//! Waiting for one letter: `send --wait`, `claim --wait`.
use std::{sync::Arc, time::Duration};

use muretai_store::StoreError;
use muretai_transports::{
    TransportError,
    relay::{RelayTimes, RelayTransport},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::Instant,
};

use super::{MailError, lock::MailLock, place};
use crate::{
    Agent,
    receive::service::{Receiver, ReceiverOptions},
};

/// How often the store is looked at: what is waited for may come another way.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a relay is asked to wait for the next letter.
const LONGEST_POLL: Duration = Duration::from_secs(20);
/// The first pause after a relay could not be used; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long what letters made necessary may keep the next ones waiting; the rest waits in the outbox.
const LONGEST_SETTLING: Duration = Duration::from_secs(5);
/// How long letters that are in hand may take to be acknowledged once what somebody waits for is there.
const LAST_ACKS: Duration = Duration::from_millis(500);

/// The end of one batch, and the leave to fetch the next.
type BatchEnd = oneshot::Sender<()>;

/// Who fetches the mail meanwhile.
enum Fetching {
    /// Nobody yet, or another process.
    Elsewhere,
    /// This process, until its tasks end.
    Here(Fetch),
    /// A newer listener: to fetch again would start a quarrel.
    Superseded,
}

/// Tasks that fetch; they end when it is dropped.
struct Fetch {
    tasks: JoinSet<Result<(), TransportError>>,
    batches: mpsc::Receiver<BatchEnd>,
    _lock: MailLock,
}

impl Agent {
    /// Fetches mail, or watches a running `serve` do it, until `is_there` finds what somebody waits for, or the time is
    /// over (`None`). A relay that cannot be used is tried again until then.
    ///
    /// # Errors
    /// When the store fails, or the file cannot be locked that keeps programs apart.
    pub async fn mail_until<T, F>(
        &self,
        timeout: Duration,
        receiver: &ReceiverOptions,
        is_there: impl Fn() -> F + Send + Sync,
    ) -> Result<Option<T>, MailError>
    where
        F: Future<Output = Result<Option<T>, StoreError>> + Send,
        T: Send,
    {
        let deadline = Instant::now() + timeout;
        let receiver = Receiver::new(self, receiver);
        let mut fetching = Fetching::Elsewhere;
        let mut leave = None::<BatchEnd>;
        loop {
            if let Some(found) = is_there().await? {
                if leave.is_none()
                    && let Fetching::Here(fetch) = &mut fetching
                {
                    let _ = tokio::time::timeout(LAST_ACKS, fetch.batches.recv()).await;
                }
                return Ok(Some(found));
            }
            drop(leave.take());
            let now = Instant::now();
            if now >= deadline {
                return Ok(None);
            }
            if let Fetching::Elsewhere = fetching
                && let Some(fetch) = self.fetch(&receiver, deadline).await?
            {
                fetching = Fetching::Here(fetch);
            }
            let next = deadline.min(now + LOOK_EVERY);
            match &mut fetching {
                Fetching::Here(fetch) => tokio::select! {
                    Some(end) = fetch.batches.recv() => leave = Some(end),
                    Some(ended) = fetch.tasks.join_next() => match ended {
                        Ok(Err(TransportError::Superseded { relay })) => {
                            tracing::info!(relay, "a newer listener fetches the mail");
                            fetching = Fetching::Superseded;
                        }
                        _ if fetch.tasks.is_empty() => fetching = Fetching::Elsewhere,
                        _ => {}
                    },
                    () = tokio::time::sleep_until(next) => {}
                },
                Fetching::Elsewhere | Fetching::Superseded => tokio::time::sleep_until(next).await,
            }
        }
    }

    /// Begins to fetch at every mailbox, unless another process of this agent does, or there is none.
    async fn fetch(&self, receiver: &Receiver, deadline: Instant) -> Result<Option<Fetch>, MailError> {
        let relays = self.mailboxes().await?;
        // The epochs are made before anybody looks whether a `serve` listens: one that begins later has greater ones.
        let mut places = Vec::with_capacity(relays.len());
        for relay in &relays {
            places.push(place(relay, self.mailbox_policy(relay).await?));
        }
        if places.is_empty() || relays.iter().any(|relay| self.is_served_at(relay)) {
            return Ok(None);
        }
        let path = self.mail_lock();
        let lock = MailLock::try_take(&path);
        let lock = lock.map_err(|source| MailError::Lock { path: path.display().to_string(), source })?;
        let Some(lock) = lock else { return Ok(None) };
        self.note_fetching(&relays, crate::agent::now()).await?;
        let (ends, batches) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        for place in places {
            let relay = place.relay.clone();
            let transport = self.relay_transport(RelayTimes::default()).at(place, None);
            let (agent, receiver, ends) = (self.clone(), receiver.clone(), ends.clone());
            tasks.spawn(async move {
                let fetcher = Fetcher { agent, receiver, relay, transport, deadline };
                fetcher.run(ends).await
            });
        }
        Ok(Some(Fetch { tasks, batches, _lock: lock }))
    }
}

/// Fetches at one relay.
struct Fetcher {
    agent: Agent,
    receiver: Receiver,
    relay: String,
    transport: RelayTransport,
    deadline: Instant,
}

impl Fetcher {
    /// Fetches batch after batch until the time is over or a newer listener takes over.
    async fn run(&self, ends: mpsc::Sender<BatchEnd>) -> Result<(), TransportError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let wait = self.deadline.saturating_duration_since(Instant::now()).min(LONGEST_POLL);
            if wait.is_zero() {
                return Ok(());
            }
            match self.transport.drain_waiting(Arc::new(self.receiver.clone()), wait).await {
                Ok(_) => pause = FIRST_PAUSE,
                Err(error @ TransportError::Superseded { .. }) => return Err(error),
                Err(error) => {
                    tell(&self.relay, &error);
                    tokio::time::sleep_until(self.deadline.min(Instant::now() + pause)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
            }
            // Without it, the next program of this home may only take this one for a stranger.
            let _ = self.agent.note_fetching(std::slice::from_ref(&self.relay), crate::agent::now()).await;
            let (end, leave) = oneshot::channel();
            if ends.send(end).await.is_err() {
                return Ok(());
            }
            // Resolves when the other side lets go.
            let _ = leave.await;
            let _ = tokio::time::timeout(LONGEST_SETTLING, self.agent.settle_mail(&self.receiver)).await;
        }
    }
}

fn tell(relay: &str, error: &TransportError) {
    tracing::warn!(relay, error = error as &dyn std::error::Error, "mail could not be fetched; it is tried again");
}
