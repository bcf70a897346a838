//! Requests that go through a peer's relay: sealed, and answered at once by a peer that listens there right now.
use std::time::Duration;

use bytes::Bytes;
use muretai_protocol::Did;
use muretai_store::StoreError;
use muretai_transports::{
    Delivery, MailboxAddress, PeerAddress, Transport, TransportError, http::Fetched, relay::RelayTimes,
};
use tokio::time::{Instant, timeout_at};

use super::NoAnswer;
use crate::{
    Agent,
    send::answer::{self, Response},
};

/// What is left to a relay of the time for everything, when somebody is dialled directly before it.
const RESERVE: Duration = Duration::from_secs(5);
/// The longest that a relay lets anybody wait for an answer (9.2).
const LONGEST_WAIT: Duration = Duration::from_secs(25);

/// What a relay did with a request.
#[derive(Debug)]
pub(crate) enum Relayed {
    /// The peer listens there, and said something.
    Said(Response),
    /// It does not, or not in time: the request lies there.
    Left {
        /// Base URL of the relay.
        relay: String,
    },
}

/// When an attempt to dial has to be over, so that a relay has its time, too.
pub(crate) fn before_relay(deadline: Instant) -> Instant {
    let left = deadline.saturating_duration_since(Instant::now());
    Instant::now() + left.saturating_sub(RESERVE.min(left / 2))
}

impl Agent {
    /// Has a mailbox at a peer's relay from now on.
    pub(crate) async fn settle_at(&self, mailbox: &MailboxAddress) -> Result<(), StoreError> {
        match mailbox.allow_private {
            true => self.remember_mailbox(&mailbox.relay).await,
            false => self.adopt_mailbox(&mailbox.relay).await,
        }
    }

    /// Leaves one request with this id at a relay and waits for an answer while the peer listens there, at most `wait`.
    pub(crate) async fn by_relay(
        &self,
        did: &Did,
        mailbox: &MailboxAddress,
        (id, body): (&str, String),
        deadline: Instant,
        wait: Duration,
    ) -> Result<Relayed, NoAnswer> {
        let left = deadline.saturating_duration_since(Instant::now());
        let transport = self.relay_transport(RelayTimes::answered_within(left, wait.min(LONGEST_WAIT)));
        let peer = PeerAddress { did: Some(did.clone()), mailbox: Some(mailbox.clone()), ..PeerAddress::default() };
        let Some(route) = transport.route(&peer) else {
            let source = TransportError::NoAddress { url: mailbox.relay.clone() };
            return Err(NoAnswer::Transport { attempts: 0, source });
        };
        match timeout_at(deadline, transport.deliver(&route, Bytes::from(body))).await {
            Ok(Ok(Delivery::Answered(body))) => Ok(Relayed::Said(answer::sort(&fetched(body, &mailbox.relay), id))),
            Ok(Ok(Delivery::Queued(receipt))) => Ok(Relayed::Left { relay: receipt.relay }),
            Ok(Err(source)) => Err(NoAnswer::Transport { attempts: 1, source }),
            Err(_) => Err(NoAnswer::TimedOut { after: left }),
        }
    }
}

/// An answer as if it had come by HTTP.
fn fetched(body: Bytes, relay: &str) -> Fetched {
    Fetched { status: 200, body, url: relay.to_owned(), content_type: None, retry_after: None, location: None }
}
