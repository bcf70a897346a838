//! When news of the store may have been lost, everybody who waits has to look again. All at once they would be a burst that
//! the store, and whoever deposits meanwhile, feels for seconds; at a database that restarted, a burst of every process at
//! the same moment. So they look in waves, after a pause that is each process's own.
use std::{sync::Arc, time::Duration};

use tokio::{sync::Notify, time::sleep};

use crate::{jitter, shared::Shared};

/// Listeners, or calls, that are woken at once, and how long after them the next ones: 6,400 in a second.
const WAVE: usize = 64;
const BETWEEN: Duration = Duration::from_millis(10);
/// The longest pause before the first wave.
const FIRST: Duration = Duration::from_millis(200);

/// Wakes everybody each time that it is asked to. Being asked again meanwhile makes one more round.
pub(crate) async fn in_waves(shared: Arc<Shared>, asked: Arc<Notify>) {
    loop {
        asked.notified().await;
        sleep(jitter::up_to(FIRST)).await;
        // Taken after the pause: whoever sits down later looks by itself.
        for some in shared.hub.resync().chunks(WAVE) {
            some.iter().for_each(|listener| listener.look_again());
            sleep(BETWEEN).await;
        }
        for some in shared.calls.awaited().chunks(WAVE) {
            some.iter().for_each(|qid| shared.calls.wake(*qid));
            sleep(BETWEEN).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use muretai_protocol::relay::Epoch;
    use muretai_store::mailboxes::Event;

    use super::*;
    use crate::{
        hub::{Flags, Kind, Sitting},
        testing::{Rig, key},
    };

    const LISTENERS: u8 = 200;

    fn woken(listeners: &[Sitting<'_>]) -> usize {
        listeners.iter().filter(|listener| listener.signal().is_up(Flags::RESYNC)).count()
    }

    #[tokio::test(start_paused = true)]
    async fn everybody_looks_again_and_not_all_at_once() {
        let rig = Rig::new();
        let hub = &rig.shared.hub;
        let sit = |n| hub.sit(key(n).did(), &Epoch::new(1, 1), Kind::Stream).ok().unwrap();
        let listeners: Vec<Sitting<'_>> = (0..LISTENERS).map(sit).collect();
        for _ in 0..3 {
            rig.store.tell(&Event::Resync);
        }
        let mut seen = vec![0];
        while *seen.last().unwrap() < listeners.len() {
            sleep(Duration::from_millis(1)).await;
            seen.push(woken(&listeners));
        }
        let largest = seen.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(largest <= WAVE, "{largest} at once");
        // One that comes later is woken too.
        for listener in &listeners {
            listener.signal().wait().await;
        }
        sleep(Duration::from_secs(5)).await;
        rig.store.tell(&Event::Resync);
        sleep(Duration::from_secs(5)).await;
        assert_eq!(woken(&listeners), listeners.len());
    }
}
