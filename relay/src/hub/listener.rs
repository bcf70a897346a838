//! One listener, and what wakes it.
use std::sync::atomic::{AtomicU8, Ordering};

use muretai_protocol::{Did, relay::Epoch};
use tokio::sync::Notify;

/// How a listener listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A long poll.
    Poll,
    /// A poll that does not wait: somebody empties a mailbox and goes.
    Drain,
    /// A stream.
    Stream,
}

/// Things to look at. Each is a bit; several may be there at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags(u8);

impl Flags {
    /// There may be letters to hand out.
    pub(crate) const LETTERS: Flags = Flags(1);
    /// A newer listener has the mailbox.
    pub(crate) const SUPERSEDED: Flags = Flags(2);
    /// The same listener came back over another connection.
    pub(crate) const REPLACED: Flags = Flags(4);
    /// Time for a sign of life.
    pub(crate) const BEAT: Flags = Flags(8);
    /// The relay stops.
    pub(crate) const STOP: Flags = Flags(16);
    /// News may have been lost: the epoch has to be claimed again.
    pub(crate) const RESYNC: Flags = Flags(32);

    pub(crate) fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 != 0
    }

    pub(crate) const fn or(self, flags: Flags) -> Flags {
        Flags(self.0 | flags.0)
    }
}

/// Wakes one waiter. What is raised before it waits is seen when it does.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    flags: AtomicU8,
    notify: Notify,
}

impl Signal {
    pub(crate) fn raise(&self, flags: Flags) {
        // Whoever raised a flag that is still up has notified, or is about to.
        if self.flags.fetch_or(flags.0, Ordering::AcqRel) & flags.0 != flags.0 {
            self.notify.notify_one();
        }
    }

    /// Looks without taking anything down.
    pub(crate) fn is_up(&self, flags: Flags) -> bool {
        self.flags.load(Ordering::Acquire) & flags.0 != 0
    }

    /// Takes down what is up, and waits while nothing is. A dropped future takes nothing down.
    pub(crate) async fn wait(&self) -> Flags {
        loop {
            let flags = self.flags.swap(0, Ordering::AcqRel);
            if flags != 0 {
                return Flags(flags);
            }
            self.notify.notified().await;
        }
    }
}

/// A listener as it waits in one process, over one connection.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) did: Did,
    pub(crate) epoch: Epoch,
    pub(crate) kind: Kind,
    pub(crate) signal: Signal,
}

impl Listener {
    /// News may have been lost.
    pub(crate) fn look_again(&self) {
        self.signal.raise(Flags::RESYNC.or(Flags::LETTERS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_raised_before_waiting_is_seen() {
        let signal = Signal::default();
        signal.raise(Flags::LETTERS);
        signal.raise(Flags::BEAT);
        signal.raise(Flags::LETTERS);
        assert_eq!(signal.wait().await, Flags::LETTERS.or(Flags::BEAT));
        assert!(!signal.is_up(Flags::LETTERS));
        let (flags, ()) = tokio::join!(signal.wait(), async { signal.raise(Flags::STOP) });
        assert_eq!(flags, Flags::STOP);
    }
}
