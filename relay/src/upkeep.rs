//! What goes on beside requests: news of the store, signs of life, who is there, what is too old.
use std::{sync::Arc, time::Duration};

use muretai_protocol::{Did, relay::Epoch};
use muretai_store::mailboxes::{Event, Qid};
use muretai_transports::Stop;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{Instant, MissedTickBehavior},
};

use crate::{
    metrics::{Count, Op},
    resync,
    shared::Shared,
    stream::wheel::Wheel,
};

/// How often the store hears who came and went.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How many at a time.
const TELL_AT_ONCE: usize = 1_000;
/// How long the end may take to say that nobody is there any more.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Begins everything that goes on until the tasks are aborted. `stop` sends listeners and callers away.
pub(crate) fn begin(shared: &Arc<Shared>, stop: &Stop) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let events = shared.store.events();
    let gone = shared.calls.gone();
    let look_again = Arc::new(Notify::new());
    tasks.spawn(pass_on(Arc::clone(shared), events, Arc::clone(&look_again)));
    tasks.spawn(resync::in_waves(Arc::clone(shared), look_again));
    tasks.spawn(turn_the_wheel(Arc::clone(shared)));
    tasks.spawn(tell_presence(Arc::clone(shared)));
    tasks.spawn(sweep(Arc::clone(shared)));
    if let Some(gone) = gone {
        tasks.spawn(mark_gone(Arc::clone(shared), gone));
    }
    let (shared, stop) = (Arc::clone(shared), stop.clone());
    tasks.spawn(async move {
        stop.stopped().await;
        shared.hub.stop();
        shared.calls.stop();
    });
    tasks
}

/// Has everybody look who is concerned by what happened, here or at another process.
async fn pass_on(shared: Arc<Shared>, mut events: mpsc::Receiver<Event>, look_again: Arc<Notify>) {
    while let Some(event) = events.recv().await {
        match event {
            Event::Letter(did) => shared.hub.wake(&did),
            Event::Epoch(did, epoch) => {
                if let Some(epoch) = Epoch::parse(&epoch) {
                    shared.hub.supersede(&did, &epoch);
                }
            }
            Event::Answered(qid) => shared.calls.wake(qid),
            Event::Acked(did, qids) => shared.hub.acked(&did, &qids),
            Event::Resync => {
                tracing::info!("news of the store may have been lost; everything is looked at again");
                look_again.notify_one();
            }
        }
    }
}

async fn turn_the_wheel(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(Wheel::pace(shared.bounds.heartbeat));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        shared.wheel.turn();
    }
}

async fn tell_presence(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(TELL_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        shared.hub.expire(Instant::now());
        loop {
            let changes = shared.hub.take_changes(TELL_AT_ONCE);
            if changes.is_empty() {
                break;
            }
            if shared.ask(Op::Other, shared.store.set_online(&changes, shared.now())).await.is_err() {
                shared.hub.put_back(changes);
                break;
            }
        }
    }
}

async fn sweep(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(shared.bounds.sweep_every.max(Duration::from_millis(100)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Ok(swept) = shared.ask(Op::Other, shared.store.sweep(shared.now())).await else { continue };
        shared.metrics.add(Count::Expired, swept.letters);
        if swept.letters + swept.invites > 0 {
            tracing::info!(letters = swept.letters, invites = swept.invites, "too old, deleted");
        }
    }
}

/// Notes in the store that nobody waits for the answer to a letter any more.
async fn mark_gone(shared: Arc<Shared>, mut gone: mpsc::Receiver<(Did, Qid)>) {
    while let Some((did, qid)) = gone.recv().await {
        // A failure is in the log; the letter's own time ends it too.
        let _ = shared.ask(Op::Other, shared.store.stop_waiting(&did, qid)).await;
    }
}

/// The last act of a relay: nobody is there any more, and the store is closed.
pub(crate) async fn end(shared: &Shared) {
    let told = shared.hub.told();
    let tell_all = async {
        for some in told.chunks(TELL_AT_ONCE) {
            let changes: Vec<(Did, bool)> = some.iter().map(|did| (did.clone(), false)).collect();
            if shared.ask(Op::Other, shared.store.set_online(&changes, shared.now())).await.is_err() {
                break;
            }
        }
    };
    if tokio::time::timeout(LAST_WORDS, tell_all).await.is_err() {
        tracing::debug!("the store was not told that everybody left");
    }
    shared.store.close().await;
}
