//! Fetching mail once: for cron, and for whoever runs no service.
use std::{sync::Arc, time::Duration};

use muretai_transports::{
    TransportError,
    guard::Policy,
    relay::{ListenEvent, RelayTimes},
};
use tokio::time::Instant;

use super::{MailError, base, is_among, lock::MailLock, place};
use crate::{
    Agent,
    receive::service::{Receiver, ReceiverOptions},
};

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synced {
    /// Which.
    pub relay: String,
    /// Letters that came, refused ones among them.
    pub letters: u64,
    /// Of these, letters that were refused or did not open.
    pub rejected: u64,
    /// Letters that could not be stored now; the relay keeps them.
    pub left: u64,
    /// A running `serve` of this agent listens there already: nothing was to do.
    pub is_served: bool,
}

/// Told how many letters came so far.
type Progress = Arc<dyn Fn(u64) + Send + Sync>;

impl Agent {
    /// Empties this agent's mailboxes once, as `receiver` says that messages are received, and sends what is due in the
    /// outbox, the answers among it. `progress` is told how many letters came so far.
    ///
    /// Dropping the future leaves with the relay what was not acknowledged; of that, nothing is handled twice.
    ///
    /// # Errors
    /// The first of [`MailError`]; the other relays are asked all the same.
    pub async fn sync_mail(
        &self,
        request: &SyncRequest,
        receiver: &ReceiverOptions,
        progress: Arc<dyn Fn(u64) + Send + Sync>,
    ) -> Result<Vec<Synced>, MailError> {
        let deadline = Instant::now() + request.timeout;
        let relays = self.relays_to_sync(&request.relays).await?;
        let path = self.mail_lock();
        let lock = MailLock::take(&path, deadline).await;
        let lock = lock.map_err(|source| MailError::Lock { path: path.display().to_string(), source })?;
        let _lock = lock.ok_or(MailError::Elsewhere)?;
        let receiver = Receiver::new(self, receiver);
        let (mut done, mut failed) = (Vec::new(), None);
        for relay in relays {
            match self.sync_at(&relay, request, deadline, &receiver, &progress).await {
                Ok(synced) => done.push(synced),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        // What is not sent in time waits in the outbox.
        let _ = tokio::time::timeout_at(deadline, self.settle_mail(&receiver)).await;
        failed.map_or(Ok(done), Err)
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

    async fn relays_to_sync(&self, named: &[String]) -> Result<Vec<String>, MailError> {
        let mut relays = Vec::new();
        for relay in named {
            let relay = base(relay).ok_or_else(|| MailError::BadRelay { url: relay.clone() })?;
            if !is_among(&relays, &relay) {
                relays.push(relay);
            }
        }
        if relays.is_empty() {
            relays = self.mailboxes().await?;
        }
        if relays.is_empty() { Err(MailError::NoRelay) } else { Ok(relays) }
    }

    async fn sync_at(
        &self,
        relay: &str,
        request: &SyncRequest,
        deadline: Instant,
        receiver: &Receiver,
        progress: &Progress,
    ) -> Result<Synced, MailError> {
        // The epoch is made before anybody looks whether a `serve` listens: one that begins afterwards has a greater one.
        let is_named = is_among(&request.relays, relay);
        let policy = if is_named { Policy::Owner } else { self.mailbox_policy(relay).await? };
        let place = place(relay, policy);
        if self.is_served_at(relay) {
            return Ok(Synced { is_served: true, ..Synced::nothing(relay) });
        }
        let (before, rejected) = (receiver.letters(), receiver.rejected());
        let (progress, counted) = (Arc::clone(progress), receiver.clone());
        let watcher = move |event: &ListenEvent| {
            if let ListenEvent::Handled(_) = event {
                progress(counted.letters());
            }
        };
        let transport = self.relay_transport(request.times.clone()).at(place, Some(Arc::new(watcher)));
        let draining = transport.drain(Arc::new(receiver.clone()));
        let drained = tokio::time::timeout_at(deadline, draining)
            .await
            .unwrap_or_else(|_| Err(TransportError::Timeout { url: relay.to_owned(), limit: request.timeout }));
        match drained {
            Ok(drained) => {
                if is_named {
                    self.remember_mailbox(relay).await?;
                }
                let (letters, rejected) = (receiver.letters() - before, receiver.rejected() - rejected);
                Ok(Synced { letters, rejected, left: drained.left, ..Synced::nothing(relay) })
            }
            Err(TransportError::Superseded { .. }) if self.is_served_at(relay) => {
                Ok(Synced { is_served: true, ..Synced::nothing(relay) })
            }
            Err(source) => Err(MailError::Transport { relay: relay.to_owned(), source }),
        }
    }
}

impl Synced {
    fn nothing(relay: &str) -> Synced {
        Synced { relay: relay.to_owned(), letters: 0, rejected: 0, left: 0, is_served: false }
    }
}
