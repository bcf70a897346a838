//! What all requests share: the store, the listeners, the clock, and the bounds.
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use muretai_protocol::{Did, UnixSeconds};
use muretai_store::mailboxes::{Counts, MailboxError, Mailboxes, Quotas};
use muretai_transports::http::ServerLimits;

use crate::{
    Bounds, MetricsAccess,
    answer::Refusal,
    budget::Budget,
    calls::Calls,
    hub::Hub,
    metrics::{Count, Metrics, Op},
    rate::Rates,
    senders::Senders,
    stream::wheel::Wheel,
};

/// How long one call of the store may take before the request is refused; what it does is then whole or not done.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// For how long the counts of the store are good enough for `/metrics`: counting may be work.
const COUNTS_AGE: Duration = Duration::from_secs(5);
/// When a request that failed for the store's sake may be tried again.
const RETRY_AFTER_SECS: u64 = 5;

/// The clock of the relay; tests have their own.
pub(crate) type Clock = Box<dyn Fn() -> UnixSeconds + Send + Sync>;

pub(crate) struct Shared {
    pub(crate) store: Box<dyn Mailboxes>,
    pub(crate) hub: Hub,
    pub(crate) calls: Calls,
    pub(crate) rates: Rates,
    pub(crate) senders: Senders,
    pub(crate) metrics: Metrics,
    pub(crate) budget: Budget,
    pub(crate) wheel: Wheel,
    /// The canonical base that links are built from.
    pub(crate) base: String,
    /// Origins that tokens are taken for, from the configuration alone.
    pub(crate) origins: Vec<String>,
    pub(crate) bounds: Bounds,
    pub(crate) quotas: Quotas,
    pub(crate) limits: ServerLimits,
    pub(crate) access: MetricsAccess,
    clock: Clock,
    health: Health,
    counts: Mutex<Option<(Instant, Counts)>>,
}

/// What a relay is made of.
pub(crate) struct Parts {
    pub(crate) store: Box<dyn Mailboxes>,
    pub(crate) base: String,
    pub(crate) origins: Vec<String>,
    pub(crate) bounds: Bounds,
    pub(crate) quotas: Quotas,
    pub(crate) limits: ServerLimits,
    pub(crate) access: MetricsAccess,
    pub(crate) clock: Clock,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Shared {
        let Parts { store, base, origins, bounds, quotas, limits, access, clock } = parts;
        Shared {
            hub: Hub::new(),
            calls: Calls::new(bounds.max_rpc_waiting),
            rates: Rates::new(bounds.deposits_per_minute),
            senders: Senders::default(),
            metrics: Metrics::default(),
            budget: Budget::new(bounds.max_deposit_bytes),
            wheel: Wheel::default(),
            health: Health::default(),
            counts: Mutex::default(),
            store,
            base,
            origins,
            bounds,
            quotas,
            limits,
            access,
            clock,
        }
    }

    pub(crate) fn now(&self) -> UnixSeconds {
        (self.clock)()
    }

    /// Waits for the store, measures, and turns a failure into a refusal. It is logged when it begins and when it ends.
    pub(crate) async fn ask<T>(
        &self,
        op: Op,
        call: impl Future<Output = Result<T, MailboxError>>,
    ) -> Result<T, Refusal> {
        let started = Instant::now();
        let result = tokio::time::timeout(STORE_TIMEOUT, call).await;
        self.metrics.took(op, started.elapsed());
        match result {
            Ok(Ok(value)) => {
                self.health.works(op);
                Ok(value)
            }
            Ok(Err(error)) => Err(self.failed(op, Some(&error))),
            Err(_) => Err(self.failed(op, None)),
        }
    }

    /// The store was not asked in time, because it keeps others waiting.
    pub(crate) fn late(&self, op: Op) -> Refusal {
        self.failed(op, None)
    }

    fn failed(&self, op: Op, error: Option<&MailboxError>) -> Refusal {
        self.metrics.add(Count::StoreFailures, 1);
        self.health.fails(op, error);
        let message = match error {
            Some(MailboxError::DiskFull) => "the relay has no room on its disk",
            Some(MailboxError::Closed) => "the relay is stopping",
            Some(_) => "the relay's store failed",
            None => "the relay's store did not answer in time",
        };
        Refusal::failing(message, RETRY_AFTER_SECS)
    }

    /// How much is kept; `None` when the store does not say.
    pub(crate) async fn kept(&self) -> Option<Counts> {
        let held = *self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counts)) = held.filter(|(at, _)| at.elapsed() < COUNTS_AGE) {
            return Some(counts);
        }
        let counts = self.ask(Op::Other, self.store.counts()).await.ok()?;
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), counts));
        Some(counts)
    }

    /// Whether the store did what it was asked to do last.
    pub(crate) fn is_healthy(&self) -> bool {
        self.health.is_good()
    }

    /// Every limit, by the name that it has in answers and in `relay stats`. Durations are in seconds.
    pub(crate) fn limits(&self) -> Vec<(&'static str, u64)> {
        let (quotas, bounds, server) = (&self.quotas, &self.bounds, &self.limits);
        vec![
            ("mailboxLetters", quotas.mailbox_letters.into()),
            ("mailboxBytes", quotas.mailbox_bytes),
            ("senderLetters", quotas.sender_letters.into()),
            ("retentionSecs", quotas.retention.as_secs()),
            ("invites", quotas.invites.into()),
            ("totalBytes", quotas.total_bytes),
            ("cards", quotas.cards),
            ("cardBytes", quotas.card_bytes),
            ("inviteBytes", quotas.invite_bytes),
            ("mailboxes", quotas.mailboxes),
            ("depositBytes", bounds.max_deposit_bytes as u64),
            ("waitSecs", bounds.max_wait.as_secs()),
            ("rpcWaitSecs", bounds.rpc_wait.as_secs()),
            ("redeliverSecs", bounds.redeliver_after.as_secs()),
            ("batchLetters", bounds.max_batch.0.into()),
            ("batchBytes", bounds.max_batch.1),
            ("heartbeatSecs", bounds.heartbeat.as_secs()),
            ("streamLifeSecs", bounds.stream_life.as_secs()),
            ("senderRate", bounds.deposits_per_minute.unwrap_or(0).into()),
            ("rpcWaiting", bounds.max_rpc_waiting as u64),
            ("sweepSecs", bounds.sweep_every.as_secs()),
            ("connections", server.max_connections as u64),
            ("headSecs", server.head_timeout.as_secs()),
            ("requestSecs", server.request_timeout.as_secs()),
            ("writeSecs", server.write_timeout.as_secs()),
            ("keepAliveSecs", server.keep_alive.as_secs()),
        ]
    }
}

/// Whether reading and writing work. One line in the log for each change.
#[derive(Default)]
struct Health {
    is_failing: [AtomicBool; 2],
}

impl Health {
    fn works(&self, op: Op) {
        let flag = &self.is_failing[usize::from(op.is_write())];
        // The common case does not write to what all threads share.
        if flag.load(Ordering::Relaxed) && flag.swap(false, Ordering::Relaxed) {
            tracing::info!(?op, "the store works again");
        }
    }

    fn fails(&self, op: Op, error: Option<&MailboxError>) {
        if self.is_failing[usize::from(op.is_write())].swap(true, Ordering::Relaxed) {
            return;
        }
        match error {
            Some(error) => {
                let cause = std::error::Error::source(error).map(ToString::to_string);
                tracing::error!(?op, %error, cause, "the store failed; requests are refused until it works again");
            }
            None => tracing::error!(?op, "the store does not answer; requests are refused until it does"),
        }
    }

    fn is_good(&self) -> bool {
        self.is_failing.iter().all(|flag| !flag.load(Ordering::Relaxed))
    }
}

/// The end of a DID, for logs.
pub(crate) fn tail(did: &Did) -> &str {
    let text = did.as_str();
    text.get(text.len().saturating_sub(8)..).unwrap_or_default()
}
