//! The channel on which a process learns what happened. A reader that is too slow loses events and is told so.
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::mailboxes::Event;

/// Events that may wait for their reader.
const CAPACITY: usize = 8_192;

/// The sending end.
///
/// Either room for one [`Event::Resync`] is set aside, or one is in the channel, or there is room: so events that are
/// dropped always have a `Resync` behind them that has not been read yet.
pub(super) struct Events {
    inner: Mutex<Inner>,
}

struct Inner {
    sender: mpsc::Sender<Event>,
    aside: Option<mpsc::OwnedPermit<Event>>,
    receiver: Option<mpsc::Receiver<Event>>,
}

impl Events {
    pub(super) fn new() -> Events {
        Events::with_capacity(CAPACITY)
    }

    fn with_capacity(capacity: usize) -> Events {
        let (sender, receiver) = mpsc::channel(capacity);
        Events { inner: Mutex::new(Inner { sender, aside: None, receiver: Some(receiver) }) }
    }

    /// The receiving end, once; later ones are closed.
    pub(super) fn take(&self) -> mpsc::Receiver<Event> {
        let taken = self.inner.lock().unwrap_or_else(PoisonError::into_inner).receiver.take();
        taken.unwrap_or_else(|| mpsc::channel(1).1)
    }

    /// Tells what happened, in this order.
    pub(super) fn tell(&self, events: impl IntoIterator<Item = Event>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            inner.tell(event);
        }
    }
}

impl Inner {
    fn tell(&mut self, event: Event) {
        if self.aside.is_none() {
            self.aside = self.sender.clone().try_reserve_owned().ok();
        }
        if event == Event::Resync {
            // Without one aside, an older one is still to be read, and it is worth as much.
            if let Some(permit) = self.aside.take() {
                permit.send(Event::Resync);
            }
        } else if self.sender.try_send(event).is_err()
            && let Some(permit) = self.aside.take()
        {
            permit.send(Event::Resync);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(receiver: &mut mpsc::Receiver<Event>) -> Vec<Event> {
        std::iter::from_fn(|| receiver.try_recv().ok()).collect()
    }

    #[test]
    fn a_slow_reader_is_told_to_look_again() {
        let events = Events::with_capacity(4);
        let mut receiver = events.take();
        events.tell((0..10).map(Event::Answered));
        let mut seen = drain(&mut receiver);
        assert_eq!(seen.pop(), Some(Event::Resync));
        assert_eq!(seen, [Event::Answered(0), Event::Answered(1), Event::Answered(2)]);
        events.tell((0..3).map(Event::Answered));
        assert_eq!(drain(&mut receiver).len(), 3, "and then goes on");
        events.tell([Event::Resync, Event::Resync, Event::Answered(1)]);
        assert_eq!(drain(&mut receiver), [Event::Resync, Event::Resync, Event::Answered(1)]);
    }

    #[test]
    fn what_is_lost_after_a_resync_is_followed_by_one() {
        let events = Events::with_capacity(2);
        let mut receiver = events.take();
        for _ in 0..50 {
            events.tell((0..3).map(Event::Answered));
            assert_eq!(receiver.try_recv().ok(), Some(Event::Answered(0)));
            events.tell([Event::Answered(7)]);
            assert_eq!(drain(&mut receiver).last(), Some(&Event::Resync));
        }
        assert!(events.take().try_recv().is_err(), "taken once");
    }
}
