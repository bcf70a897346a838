//! The way through a relay: a sealed letter, answered at once by a peer that listens, or kept for it.
use std::time::Duration;

use bytes::Bytes;
use muretai_protocol::UnixSeconds;
use muretai_transports::{
    Delivery as Delivered, PeerAddress, Receipt, Route, Transport, TransportError, TransportName,
    http::Fetched,
    relay::{RelayTimes, RelayTransport},
};
use tokio::time::Instant;

use super::{Delivery, Setback, Way, wording};
use crate::{
    agent::now,
    send::{SendError, Sent, SentStatus, answer, backoff},
};

/// The longest that a relay is asked to wait for a peer that listens.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

impl Delivery<'_> {
    /// Leaves it at the peer's relay, and takes the answer along when there is one at once.
    pub(super) async fn go_by_relay(&mut self) -> Result<Sent, SendError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.way = Way { name: TransportName::Relay, deadline: self.deadline, limit: left };
        self.version = wording::FIRST_VERSION;
        let transport = self.agent.relay_transport(self.times(left));
        let address = PeerAddress {
            did: Some(self.peer.did.clone()),
            mailbox: self.peer.mailbox.clone(),
            ..PeerAddress::default()
        };
        let Some(route) = transport.route(&address) else {
            return Err(self.not_through(TransportError::BadSealingKey).into_error());
        };
        let mut retries_left = self.request.retries;
        loop {
            let setback = match self.deposit(&transport, &route).await {
                Ok(sent) => return Ok(sent),
                Err(setback) => setback,
            };
            match setback {
                Setback::TryAgain(error) if retries_left > 0 => {
                    retries_left -= 1;
                    if !self.pause().await {
                        return Err(error);
                    }
                }
                setback => return Err(setback.into_error()),
            }
        }
    }

    /// Whoever waits calls; a relay that does not answer the call gets the letter all the same.
    fn times(&self, left: Duration) -> RelayTimes {
        RelayTimes::answered_within(left, if self.is_awaited { ANSWER_WAIT } else { Duration::ZERO })
    }

    /// One deposit, and what came of it.
    async fn deposit(&mut self, transport: &RelayTransport, route: &Route) -> Result<Sent, Setback> {
        self.attempts += 1;
        let body = self.body();
        match tokio::time::timeout_at(self.way.deadline, transport.deliver(route, body)).await {
            Ok(Ok(Delivered::Answered(body))) => {
                self.cannot_have_arrived = false;
                self.judge(answer::sort(&unsealed(body, self.url()), self.message_id.as_str())).await
            }
            Ok(Ok(Delivered::Queued(receipt))) => self.lies_at(receipt).await,
            Ok(Err(source)) => Err(self.not_through(source)),
            Err(_) => {
                self.cannot_have_arrived = false;
                let (url, after) = (self.url(), self.way.limit);
                Err(Setback::GiveUp(SendError::TimedOut { url, after, message_id: self.id() }))
            }
        }
    }

    async fn lies_at(&self, receipt: Receipt) -> Result<Sent, Setback> {
        let (since, store) = (now(), self.agent.store());
        let expires = UnixSeconds(since.0 + backoff::LIFE_SECS);
        let recorded = store.record_at_relay(self.seq, &receipt.relay, since, expires).await;
        recorded.map_err(|error| Setback::GiveUp(error.into()))?;
        if self.has_answer {
            self.expect_the_reply().await;
        }
        Ok(self.sent(SentStatus::AtRelay, None))
    }

    /// The reply will lie in this agent's own mailbox. One that has none has it at the peer's relay from now on. The letter
    /// is under way, so that a fault here fails nothing.
    async fn expect_the_reply(&self) {
        let Some(mailbox) = &self.peer.mailbox else { return };
        let settled = match self.agent.mailboxes().await {
            Ok(own) if own.is_empty() => self.agent.settle_at(mailbox).await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = settled {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "where the reply will lie could not be noted");
        }
    }
}

/// The peer's answer, as if it had come directly: everything about it is checked in the same way.
fn unsealed(body: Bytes, url: String) -> Fetched {
    Fetched { status: 200, body, url, content_type: None, retry_after: None, location: None }
}
