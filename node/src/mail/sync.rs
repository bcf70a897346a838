//! Fetching mail once: for cron, and for whoever runs no service. All relays are asked side by side, and what became of
//! each is told; one that is away takes nothing from the others.
use std::{panic, sync::Arc, time::Duration};

use muretai_store::StoreError;
use muretai_transports::{
    TransportError,
    guard::Policy,
    relay::{
        ListenEvent, RelayTimes,
        directory::{Presence, Relay},
    },
};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

use super::{MailError, base, is_among, lock::MailLock, place};
use crate::{
    Agent,
    agent::now,
    receive::service::{Receiver, ReceiverOptions},
};

/// Relays that are asked at once.
const MAX_AT_ONCE: usize = 16;
/// How long a relay may take to say who listens; without its word nothing is said about it.
const PRESENCE_PATIENCE: Duration = Duration::from_secs(2);

/// What `inbox --sync` is told.
#[derive(Debug, Clone, Default)]
pub struct SyncRequest {
    /// Relays; empty takes those where this agent has a mailbox.
    pub relays: Vec<String>,
    /// For everything together.
    pub timeout: Duration,
    /// How relays are treated.
    pub times: RelayTimes,
}

/// What it did at one relay.
#[derive(Debug)]
pub struct Synced {
    /// Which.
    pub relay: String,
    /// Letters that came, refused ones among them; before a failure, too.
    pub letters: u64,
    /// Of these, letters that were refused or did not open.
    pub rejected: u64,
    /// Letters that could not be stored now; the relay keeps them.
    pub left: u64,
    /// A running `serve` of this agent listens there already: nothing was to do.
    pub is_served: bool,
    /// The owner named the relay, now or in the configuration. Others were used once, or named by a peer.
    pub is_chosen: bool,
    /// Another listener of this identity was online there, none of this home; it was superseded.
    pub has_superseded: bool,
    /// It was only a peer's word, has been out of reach for 30 days, and is no mailbox of this agent any more.
    pub is_forgotten: bool,
    /// Why the mailbox was not emptied.
    pub failure: Option<MailError>,
}

/// Told how many letters came so far.
type Progress = Arc<dyn Fn(u64) + Send + Sync>;

/// What the relays have in common.
struct Rounds {
    agent: Agent,
    receiver: Receiver,
    times: RelayTimes,
    timeout: Duration,
    progress: Progress,
    /// Where this home listened so lately that it may still count as a listener.
    own: Vec<String>,
    turns: Semaphore,
    _lock: MailLock,
}

/// A relay that is to be asked.
struct Wanted {
    relay: String,
    policy: Policy,
    is_chosen: bool,
    deadline: Instant,
}

impl Agent {
    /// Empties this agent's mailboxes once, as `receiver` says that messages are received, and sends what is due in the
    /// outbox, the answers among it. `progress` is told how many letters came so far. What became of each relay is said
    /// in the order in which they were named; a relay that the owner did not choose has half of the time.
    ///
    /// Dropping the future leaves with the relay what was not acknowledged; of that, nothing is handled twice.
    ///
    /// # Errors
    /// When no relay could be asked: none is known, one is none, another program fetches, the store or the lock fails.
    pub async fn sync_mail(
        &self,
        request: &SyncRequest,
        receiver: &ReceiverOptions,
        progress: Arc<dyn Fn(u64) + Send + Sync>,
    ) -> Result<Vec<Synced>, MailError> {
        let deadline = Instant::now() + request.timeout;
        let wanted = self.relays_to_sync(request, deadline).await?;
        let path = self.mail_lock();
        let lock = MailLock::take(&path, deadline).await;
        let lock = lock.map_err(|source| MailError::Lock { path: path.display().to_string(), source })?;
        let relays: Vec<String> = wanted.iter().map(|wanted| wanted.relay.clone()).collect();
        let sync = Arc::new(Rounds {
            agent: self.clone(),
            receiver: Receiver::new(self, receiver),
            times: request.times.clone(),
            timeout: request.timeout,
            progress,
            own: self.fetched_lately(now()).await?,
            turns: Semaphore::new(MAX_AT_ONCE),
            _lock: lock.ok_or(MailError::Elsewhere)?,
        });
        self.note_fetching(&relays, now()).await?;
        let mut done = Rounds::at_all(&sync, wanted).await;
        let named = !request.relays.is_empty();
        self.note_synced(&mut done, named).await?;
        // What is not sent in time waits in the outbox.
        let _ = tokio::time::timeout_at(deadline, self.settle_mail(&sync.receiver)).await;
        Ok(done)
    }

    /// Does what letters made necessary.
    pub(super) async fn settle_mail(&self, receiver: &Receiver) {
        receiver.renew_keys().await;
        self.run_errands().await;
        self.run_outbox().await;
    }

    pub(super) fn mail_lock(&self) -> std::path::PathBuf {
        self.inner.dir.path.join("mail.lock")
    }

    async fn relays_to_sync(&self, request: &SyncRequest, deadline: Instant) -> Result<Vec<Wanted>, MailError> {
        let mut relays = Vec::new();
        for relay in &request.relays {
            let relay = base(relay).ok_or_else(|| MailError::BadRelay { url: relay.clone() })?;
            if !is_among(&relays, &relay) {
                relays.push(relay);
            }
        }
        let is_named = !relays.is_empty();
        if !is_named {
            relays = self.mailboxes().await?;
        }
        let mut wanted = Vec::with_capacity(relays.len());
        for relay in relays {
            let policy = if is_named { Policy::Owner } else { self.mailbox_policy(&relay).await? };
            let is_chosen = is_named || self.is_configured(&relay);
            let deadline = if is_chosen { deadline } else { deadline - request.timeout / 2 };
            wanted.push(Wanted { relay, policy, is_chosen, deadline });
        }
        if wanted.is_empty() { Err(MailError::NoRelay) } else { Ok(wanted) }
    }

    /// Remembers what worked, and forgets what has not for long.
    async fn note_synced(&self, done: &mut [Synced], is_named: bool) -> Result<(), StoreError> {
        let of = |is_it: fn(&Synced) -> bool| -> Vec<String> {
            done.iter().filter(|one| is_it(one)).map(|one| one.relay.clone()).collect()
        };
        let listened = of(|one| one.failure.is_none() && !one.is_served);
        let reached = of(|one| !one.is_away());
        let away = of(Synced::is_away);
        self.note_fetching(&listened, now()).await?;
        if is_named {
            for relay in &listened {
                self.remember_mailbox(relay).await?;
            }
        }
        // Where nobody at all is reached, this machine is off the network, and that proves nothing about relays.
        if reached.is_empty() {
            return Ok(());
        }
        let forgotten = self.age_mailboxes(&reached, &away, now()).await?;
        for one in done {
            one.is_forgotten = is_among(&forgotten, &one.relay);
        }
        Ok(())
    }
}

impl Rounds {
    async fn at_all(sync: &Arc<Rounds>, wanted: Vec<Wanted>) -> Vec<Synced> {
        let mut tasks = JoinSet::new();
        for (number, wanted) in wanted.into_iter().enumerate() {
            let sync = Arc::clone(sync);
            tasks.spawn(async move { (number, sync.at(&wanted).await) });
        }
        let mut done = Vec::with_capacity(tasks.len());
        while let Some(ended) = tasks.join_next().await {
            match ended {
                Ok(one) => done.push(one),
                Err(error) if error.is_panic() => panic::resume_unwind(error.into_panic()),
                Err(_) => {}
            }
        }
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, synced)| synced).collect()
    }

    async fn at(&self, wanted: &Wanted) -> Synced {
        let _turn = self.turns.acquire().await;
        let relay = &wanted.relay;
        // The epoch is made before anybody looks whether a `serve` listens: one that begins afterwards has a greater one.
        let place = place(relay, wanted.policy);
        let nothing = Synced::nothing(wanted);
        if self.agent.is_served_at(relay) {
            return Synced { is_served: true, ..nothing };
        }
        let is_other_online = self.is_other_online(wanted).await;
        let (progress, counted) = (Arc::clone(&self.progress), self.receiver.clone());
        let watcher = move |event: &ListenEvent| {
            if let ListenEvent::Handled(_) = event {
                progress(counted.letters());
            }
        };
        let transport = self.agent.relay_transport(self.times.clone()).at(place, Some(Arc::new(watcher)));
        let draining = transport.drain(Arc::new(self.receiver.clone()));
        let drained = tokio::time::timeout_at(wanted.deadline, draining)
            .await
            .unwrap_or_else(|_| Err(TransportError::Timeout { url: relay.clone(), limit: self.timeout }));
        let (letters, rejected) = self.receiver.letters_of(relay);
        let some = Synced { letters, rejected, ..nothing };
        match drained {
            Ok(drained) => Synced { left: drained.left, has_superseded: is_other_online, ..some },
            Err(TransportError::Superseded { .. }) if self.agent.is_served_at(relay) => {
                Synced { is_served: true, ..some }
            }
            Err(source) => Synced { failure: Some(MailError::Transport { relay: relay.clone(), source }), ..some },
        }
    }

    /// Whether the relay says that somebody listens for this identity, and it is nobody of this home.
    async fn is_other_online(&self, wanted: &Wanted) -> bool {
        if is_among(&self.own, &wanted.relay) {
            return false;
        }
        let relay = Relay { base: &wanted.relay, policy: wanted.policy, timeout: PRESENCE_PATIENCE };
        let presence = relay.presence(&self.agent.inner.http, self.agent.did()).await;
        matches!(presence, Ok(Presence { is_online: Some(true), .. }))
    }
}

impl Synced {
    fn nothing(wanted: &Wanted) -> Synced {
        Synced {
            relay: wanted.relay.clone(),
            letters: 0,
            rejected: 0,
            left: 0,
            is_served: false,
            is_chosen: wanted.is_chosen,
            has_superseded: false,
            is_forgotten: false,
            failure: None,
        }
    }

    /// The relay did not do what relays do. One that a newer listener has does.
    fn is_away(&self) -> bool {
        match &self.failure {
            Some(MailError::Transport { source: TransportError::Superseded { .. }, .. }) | None => false,
            Some(_) => true,
        }
    }
}
