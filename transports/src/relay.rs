//! The relay transport: sealed letters that wait for agents that sleep (section 9).
//!
//! One [`RelayTransport`] deposits letters for anybody at any relay, and, once it has a place of its own
//! ([`RelayTransport::at`]), listens there. Nothing that a relay says is believed: letters are opened, and whoever is
//! behind the [`Service`] verifies what is inside.
use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use muretai_protocol::{Did, relay::Epoch, sealed::SealingKey, sign::SigningKey, urls};

use crate::{
    Delivery, PeerAddress, Route, Service, Stop, Transport, TransportError, TransportName,
    guard::{self, Policy},
    http::HttpTransport,
};

mod acks;
mod backoff;
mod clock;
mod deposit;
pub mod directory;
mod draining;
mod lanes;
mod listening;
mod mailbox;
mod opening;
mod refusal;
mod session;
mod sleep;
pub mod sse;

pub use deposit::deposit_id_of;
use listening::Listener;
use mailbox::Mailbox;
use session::{Mode, Session};

/// A relay is a detour, and its answers come late.
const COST: u8 = 100;

/// The keys of an agent, and what it knows of its peers' keys.
#[async_trait]
pub trait Keyring: Send + Sync {
    /// Signs deposits and tokens.
    fn signing(&self) -> &SigningKey;
    /// Seals and opens.
    fn sealing(&self) -> &SealingKey;
    /// The X25519 key that this peer is known to have, 64 hex digits; tried before what a relay says.
    async fn enc_pub_of(&self, peer: &Did) -> Option<String>;
}

/// A relay where this agent has its mailbox.
#[derive(Debug, Clone)]
pub struct Place {
    /// Its base URL, canonical.
    pub relay: String,
    /// What may be dialled for it: the owner's own word, mostly.
    pub policy: Policy,
    /// Names this listener; made once, when the listener begins.
    pub epoch: Epoch,
    /// Use the long poll alone, not the stream.
    pub poll_only: bool,
}

/// How long things may take, and how they are tried again.
#[derive(Debug, Clone)]
pub struct RelayTimes {
    /// How long [`Transport::deliver`] lets the relay wait for an answer of a peer that listens right now
    /// (`POST /rpc`), at most 25 s; zero deposits without waiting (`POST /send`).
    pub answer_wait: Duration,
    /// How long that call may take in all. The letter of a call that is not over by then is deposited by `/send`.
    pub answer_limit: Duration,
    /// The first pause after a failure; it doubles, with as much again at random.
    pub min_pause: Duration,
    /// The longest pause.
    pub max_pause: Duration,
    /// Where this process is to die, for crash tests.
    pub fault: Option<Fault>,
}

/// A point of receiving letters at which a crash test has the process end, as if it were killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Letters were fetched; none was handed over.
    AfterFetch,
    /// The service took a letter; it is not acknowledged.
    AfterCommit,
    /// The relay has an acknowledgement.
    AfterAck,
}

impl std::str::FromStr for Fault {
    type Err = UnknownFault;

    /// Reads `after-fetch`, `after-commit` and `after-ack`.
    fn from_str(text: &str) -> Result<Fault, UnknownFault> {
        match text {
            "after-fetch" => Ok(Fault::AfterFetch),
            "after-commit" => Ok(Fault::AfterCommit),
            "after-ack" => Ok(Fault::AfterAck),
            _ => Err(UnknownFault),
        }
    }
}

/// No point of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fault is `after-fetch`, `after-commit` or `after-ack`")]
pub struct UnknownFault;

/// The most that is kept, of the time for a letter, for the deposit that follows a call without an answer.
const DEPOSIT_RESERVE: Duration = Duration::from_secs(5);
/// A call is worth its while when it may take so long; below, the letter is deposited at once.
const SHORTEST_CALL: Duration = Duration::from_secs(1);

impl RelayTimes {
    /// For a letter that has `left` for everything, and whose sender waits at most `longest` for the answer: whatever
    /// the relay does with the call, a third of the time, at most 5 s, is left to deposit the letter.
    pub fn answered_within(left: Duration, longest: Duration) -> RelayTimes {
        let limit = left - DEPOSIT_RESERVE.min(left / 3);
        if limit < SHORTEST_CALL || longest.is_zero() {
            return RelayTimes::default();
        }
        // The relay counts in seconds, and needs a moment to say that nothing came.
        let wait = limit.saturating_sub(deposit::GRACE.min(limit / 4)).min(longest).as_secs().max(1);
        RelayTimes { answer_wait: Duration::from_secs(wait), answer_limit: limit, ..RelayTimes::default() }
    }
}

impl Default for RelayTimes {
    fn default() -> RelayTimes {
        RelayTimes {
            answer_wait: Duration::ZERO,
            answer_limit: Duration::MAX,
            min_pause: Duration::from_secs(1),
            max_pause: Duration::from_secs(60),
            fault: None,
        }
    }
}

/// What a listener tells about itself while it works. Called often; must return at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenEvent {
    /// The relay took us as the listener of the mailbox.
    Connected,
    /// The connection was lost, or the relay refused it for now; it is tried again.
    Lost {
        /// Why, in words.
        why: String,
        /// In how long.
        retry_in: Duration,
    },
    /// Letters were handed to the service; so many in all, by this listener.
    Handled(u64),
}

/// What became of a drained mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Letters that the service took, for good or for bad.
    pub handled: u64,
    /// Letters that did not open.
    pub unopened: u64,
    /// Letters that the service could not take now; the relay keeps them.
    pub left: u64,
}

/// Watches a listener.
pub type Watcher = Arc<dyn Fn(&ListenEvent) + Send + Sync>;

/// The relay transport. Cheap to clone.
#[derive(Clone)]
pub struct RelayTransport {
    keyring: Arc<dyn Keyring>,
    http: Arc<HttpTransport>,
    times: RelayTimes,
    place: Option<Place>,
    watcher: Option<Watcher>,
}

impl RelayTransport {
    /// A transport that delivers. Cheap: nothing is dialled.
    pub fn new(keyring: Arc<dyn Keyring>, http: Arc<HttpTransport>, times: RelayTimes) -> RelayTransport {
        RelayTransport { keyring, http, times, place: None, watcher: None }
    }

    /// The same, with a mailbox of its own to listen at.
    pub fn at(self, place: Place, watcher: Option<Watcher>) -> RelayTransport {
        RelayTransport { place: Some(place), watcher, ..self }
    }

    /// Hands over what lies in the mailbox now and acknowledges what was taken, then returns: `muretai inbox --sync`.
    /// Dropping the future leaves unacknowledged letters with the relay.
    ///
    /// # Errors
    /// [`TransportError::Superseded`] when a newer listener has the mailbox; letters that were taken before are taken.
    pub async fn drain(&self, service: Arc<dyn Service>) -> Result<Drained, TransportError> {
        self.drain_waiting(service, Duration::ZERO).await
    }

    /// The same, and waits at most so long for the next letters when there are none.
    pub async fn drain_waiting(&self, service: Arc<dyn Service>, wait: Duration) -> Result<Drained, TransportError> {
        let (mailbox, session) = self.session(Mode::Drain, service)?;
        let times = self.times.clone();
        session.run(|feed| draining::run(mailbox, times, feed, wait), &Stop::new()).await
    }

    fn session(&self, mode: Mode, service: Arc<dyn Service>) -> Result<(Arc<Mailbox>, Session), TransportError> {
        let place = self.place.clone().ok_or(TransportError::NotBound)?;
        let mailbox = Arc::new(Mailbox::new(Arc::clone(&self.keyring), Arc::clone(&self.http), place));
        let session = Session::new(mode, Arc::clone(&mailbox), service, self.times.clone(), self.watcher.clone());
        Ok((mailbox, session))
    }
}

#[async_trait]
impl Transport for RelayTransport {
    fn name(&self) -> TransportName {
        TransportName::Relay
    }

    fn route(&self, peer: &PeerAddress) -> Option<Route> {
        let (did, mailbox) = (peer.did.as_ref()?, peer.mailbox.as_ref()?);
        let policy = if mailbox.allow_private { Policy::Owner } else { Policy::Peer };
        let is_dialled = urls::is_plain_url(&mailbox.relay) && guard::check_url(&mailbox.relay, policy).is_ok();
        is_dialled.then(|| Route {
            transport: TransportName::Relay,
            address: mailbox.relay.clone(),
            cost: COST,
            allow_private: mailbox.allow_private,
            mailbox: Some(Box::new((did.clone(), mailbox.clone()))),
        })
    }

    /// Seals the request (v2 when the peer's ML-KEM key is known), signs the deposit and hands it to the relay. A
    /// repeated request deposits under the same id ([`deposit_id_of`]), and the relay keeps one letter.
    ///
    /// # Errors
    /// [`TransportError::RelayRefused`] with the relay's words, [`TransportError::BadSealingKey`], and whatever ends a
    /// call.
    async fn deliver(&self, route: &Route, request: Bytes) -> Result<Delivery, TransportError> {
        match route.mailbox.as_deref() {
            Some((to, mailbox)) => deposit::deliver(self, to, mailbox, &request).await,
            None => Err(TransportError::NoAddress { url: guard::printable(&route.address) }),
        }
    }

    /// Listens at its place until stopped: by stream, or by long poll where the relay has no stream. Reconnects with
    /// jittered pauses, and at once after the machine slept.
    ///
    /// # Errors
    /// [`TransportError::NotBound`] without a place; [`TransportError::Superseded`] when a newer listener took over.
    async fn listen(&self, service: Arc<dyn Service>, stop: Stop) -> Result<(), TransportError> {
        let (mailbox, session) = self.session(Mode::Listen, service)?;
        let listener = |feed| Listener::new(mailbox, self.times.clone(), self.watcher.clone(), feed).run();
        session.run(listener, &stop).await.map(drop)
    }
}

/// Randomness for nonces, ids and pauses.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system has randomness");
    bytes
}

fn random_u32() -> u32 {
    u32::from_le_bytes(random())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_leaves_time_for_the_deposit() {
        let millis = Duration::from_millis;
        let longest = Duration::from_secs(10);
        for (left, wait_secs, limit) in [
            (millis(0), 0, Duration::MAX),
            (millis(1_400), 0, Duration::MAX),
            (millis(1_500), 1, millis(1_000)),
            (millis(3_000), 1, millis(2_000)),
            (millis(9_000), 4, millis(6_000)),
            (millis(20_000), 10, millis(15_000)),
            (millis(600_000), 10, millis(595_000)),
        ] {
            let times = RelayTimes::answered_within(left, longest);
            assert_eq!((times.answer_wait, times.answer_limit), (Duration::from_secs(wait_secs), limit), "{left:?}");
        }
        assert!(RelayTimes::answered_within(longest, Duration::ZERO).answer_wait.is_zero(), "nobody waits");
    }
}
