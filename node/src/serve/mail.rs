//! Listening at relays while an agent is served: one task for each, beside the HTTP server.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muretai_transports::{
    Stop, Transport, TransportError,
    guard::Policy,
    relay::{ListenEvent, RelayTimes},
};
use tokio::{sync::Notify, task::JoinSet};

use super::ServeError;
use crate::{Agent, mail::place, receive::service::Receiver};

/// The mailboxes of a served agent.
pub(super) struct Mail {
    agent: Agent,
    receiver: Receiver,
    times: RelayTimes,
    state: Arc<State>,
}

/// What listeners say about themselves.
pub(super) struct State {
    relays: Vec<String>,
    lines: Mutex<Vec<Line>>,
    /// Rung when a connection came or went: once for whoever tells others, once for whoever publishes the card.
    changed: [Notify; 2],
}

/// How it stands with one relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Not connected yet, and nobody was told.
    New,
    Connected,
    /// Not connected, and the owner knows.
    Lost,
}

impl Mail {
    pub(super) fn new(agent: &Agent, receiver: &Receiver, relays: Vec<String>, times: RelayTimes) -> Mail {
        let lines = Mutex::new(vec![Line::New; relays.len()]);
        let state = Arc::new(State { relays, lines, changed: Default::default() });
        Mail { agent: agent.clone(), receiver: receiver.clone(), times, state }
    }

    /// The relays, connected or not.
    pub(super) fn relays(&self) -> &[String] {
        &self.state.relays
    }

    /// What is known of the connections.
    pub(super) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state)
    }

    /// Listens at every relay until stopped, then finishes what is in hand. A newer listener anywhere is the end of all:
    /// two of one identity would take each other's mail. Other failures end the one listener; the last one tells.
    pub(super) async fn listen(&self, stop: &Stop) -> Result<(), ServeError> {
        let mut tasks = JoinSet::new();
        for (number, relay) in self.state.relays.iter().enumerate() {
            let (state, receiver) = (Arc::clone(&self.state), self.receiver.clone());
            let watcher = move |event: &ListenEvent| {
                if state.note(number, event) {
                    receiver.set_mailbox(state.connected().first().map(String::as_str));
                    state.ring();
                }
            };
            // The owner chose the relay, so it is dialled wherever it is.
            let place = place(relay, Policy::Owner);
            let transport = self.agent.relay_transport(self.times.clone()).at(place, Some(Arc::new(watcher)));
            let (receiver, stop, relay) = (self.receiver.clone(), stop.clone(), relay.clone());
            tasks.spawn(async move { (number, relay, transport.listen(Arc::new(receiver), stop).await) });
        }
        let mut last = Ok(());
        while let Some(ended) = tasks.join_next().await {
            let Ok((number, relay, Err(source))) = ended else { continue };
            self.state.close(number);
            self.receiver.set_mailbox(self.state.connected().first().map(String::as_str));
            if let TransportError::Superseded { .. } = source {
                stop.stop();
                last = Err(ServeError::Superseded { relay });
            } else if !matches!(last, Err(ServeError::Superseded { .. })) {
                tracing::error!(relay, error = &source as &dyn std::error::Error, "mail is no longer fetched there");
                last = Err(ServeError::Relay { relay, source });
            }
        }
        last
    }
}

impl State {
    /// The relays that are connected, in their order.
    pub(super) fn connected(&self) -> Vec<String> {
        let lines = self.lock();
        let connected = self.relays.iter().zip(&*lines).filter(|(_, line)| **line == Line::Connected);
        connected.map(|(relay, _)| relay.clone()).collect()
    }

    /// All of them.
    pub(super) fn relays(&self) -> &[String] {
        &self.relays
    }

    /// Waits until a connection came or went, for whoever tells others.
    pub(super) async fn changed(&self) {
        self.changed[0].notified().await;
    }

    /// The same for whoever publishes the card.
    pub(super) async fn card_changed(&self) {
        self.changed[1].notified().await;
    }

    fn ring(&self) {
        for changed in &self.changed {
            changed.notify_one();
        }
    }

    /// Takes note; says whether a connection came or went. The owner is told once that one is lost, and when it is back.
    fn note(&self, number: usize, event: &ListenEvent) -> bool {
        let mut lines = self.lock();
        let (Some(line), Some(relay)) = (lines.get_mut(number), self.relays.get(number)) else { return false };
        let before = *line;
        match event {
            ListenEvent::Connected => *line = Line::Connected,
            ListenEvent::Lost { .. } => *line = Line::Lost,
            ListenEvent::Handled(_) => return false,
        }
        match (before, event) {
            (Line::New, ListenEvent::Connected) => tracing::info!(relay, "mail is fetched here"),
            (Line::Lost, ListenEvent::Connected) => tracing::info!(relay, "mail is fetched here again"),
            (Line::New | Line::Connected, ListenEvent::Lost { why, retry_in }) => {
                tracing::warn!(relay, why, ?retry_in, "mail cannot be fetched here; it is tried again");
            }
            (Line::Lost, ListenEvent::Lost { why, .. }) => tracing::debug!(relay, why, "mail still cannot be fetched"),
            _ => {}
        }
        (before == Line::Connected) != (*line == Line::Connected)
    }

    /// Nobody listens there any more.
    fn close(&self, number: usize) {
        if let Some(line) = self.lock().get_mut(number) {
            *line = Line::Lost;
        }
        self.ring();
    }

    /// Nothing in here panics half-way, so a poisoned lock holds whole lines.
    fn lock(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn connections_come_and_go_and_each_change_is_told_once() {
        let relays = vec!["https://relay.example".to_owned(), "https://relay.example/2".to_owned()];
        let state =
            State { relays: relays.clone(), lines: Mutex::new(vec![Line::New; 2]), changed: Default::default() };
        let lost = ListenEvent::Lost { why: "x".to_owned(), retry_in: Duration::from_secs(1) };
        assert!(!state.note(0, &lost) && !state.note(0, &lost), "it never was connected");
        assert!(state.note(1, &ListenEvent::Connected));
        assert_eq!(state.connected(), relays[1..]);
        assert!(state.note(0, &ListenEvent::Connected) && !state.note(0, &ListenEvent::Connected));
        assert!(!state.note(0, &ListenEvent::Handled(7)));
        assert_eq!(state.connected(), relays);
        assert!(state.note(1, &lost) && !state.note(1, &lost));
        assert!(!state.note(2, &lost));
        assert_eq!(state.connected(), relays[..1]);
    }
}
