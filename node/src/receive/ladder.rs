//! Steps 1 to 5' of the ladder (section 4.1), in their fixed order: the first failure answers, later steps are not
//! reached. Nothing is written before the signature is known good, so nobody can use up another's id.
use std::{future::Future, time::Duration};

use muretai_protocol::{
    Did, MessageId, UnixSeconds,
    json::Value,
    message::{EnvelopeError, Message, Stale, Unverified, Verified},
    rpc::{Code, Refusal},
};
use muretai_store::{
    Store, StoreError,
    messages::{Handling, Standing},
};

pub use super::frame::Profile;
use super::{
    refusals::{self as say, plain},
    replay::{Attempt, Claim, Key, ReplayGuard},
    senders::Senders,
};
use crate::mail::tail;

/// How long a copy waits for the outcome of the first one. A responder may be slower; the copy is then told so.
const COPY_PATIENCE: Duration = Duration::from_secs(30);

/// Where handled ids are remembered for good; the store, or nothing in a benchmark.
pub trait Memory: Send + Sync {
    /// What is known of a sender and one of its ids. Writes nothing.
    fn standing(&self, from: &str, message_id: &str) -> impl Future<Output = Result<Standing, StoreError>> + Send;
}

impl Memory for Store {
    fn standing(&self, from: &str, message_id: &str) -> impl Future<Output = Result<Standing, StoreError>> + Send {
        Store::standing(self, from, message_id)
    }
}

/// Which times a message may have (4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Somebody waits for the answer: the present.
    Call,
    /// It lay in a mailbox: as old as a relay keeps letters.
    Mail,
}

/// The ladder of one endpoint.
pub struct Ladder<M> {
    me: Did,
    profile: Profile,
    guard: ReplayGuard,
    senders: Senders,
    memory: M,
    /// The refusal that teaches (4.4).
    lesson: Refusal,
}

/// A message that passed every step; its id is claimed until `claim` is confirmed or dropped.
pub struct Passed {
    /// The message, believed.
    pub verified: Verified,
    /// Its content, as a re-send must have it again.
    pub digest: [u8; 32],
    /// Its id, claimed.
    pub claim: Claim,
    /// What the gate wants to know of the sender.
    pub standing: Standing,
}

impl Passed {
    /// The request, for the transaction that records it as handled.
    pub(crate) fn handling(&self) -> Handling {
        let message_id = self.verified.message().message_id.as_str().to_owned();
        Handling { from: self.verified.from().clone(), message_id, digest: self.digest }
    }

    /// A direct contact whom the owner wants to hear.
    pub(crate) fn is_from_contact(&self) -> bool {
        self.standing.is_direct && !self.standing.is_blocked
    }

    /// The id is in the store already: the refusal that says so.
    pub(crate) fn duplicate(self, same_content: bool) -> Refusal {
        if same_content {
            self.claim.confirm(self.digest);
            return say::duplicate();
        }
        tracing::warn!(from = tail(self.verified.from()), "a sender used one message id for two contents");
        self.claim.conflict();
        say::repeated()
    }

    /// The act is on disk.
    pub(crate) fn done(self) {
        self.claim.confirm(self.digest);
    }
}

/// What step 4 found.
enum Found {
    /// Handled before, with this digest.
    Handled([u8; 32]),
    /// Not handled.
    Fresh(Standing),
}

impl<M: Memory> Ladder<M> {
    /// A ladder for messages to `me`. `requirement` is the object of the card (6.5).
    pub fn new(me: Did, profile: Profile, guard: ReplayGuard, memory: M, requirement: Value) -> Ladder<M> {
        let lesson = plain(Code::Signature, say::UNSIGNED).with("accepts", vec![requirement]);
        Ladder { me, profile, guard, senders: Senders::default(), memory, lesson }
    }

    /// The replay guard.
    pub fn guard(&self) -> &ReplayGuard {
        &self.guard
    }

    /// Climbs, as a request whose sender waits. Cancelling releases what was claimed.
    pub async fn climb(&self, message: Message, now: UnixSeconds) -> Result<Passed, Refusal> {
        self.climb_in(Window::Call, message, now).await
    }

    /// Climbs; `window` is that of step 3.
    pub async fn climb_in(&self, window: Window, message: Message, now: UnixSeconds) -> Result<Passed, Refusal> {
        let envelope = message.into_envelope().map_err(|missing| self.teach(&missing))?; // 1
        if !envelope.is_for(&self.me) {
            return Err(plain(Code::NotAddressedToMe, say::OTHER_RECIPIENT)); // 2
        }
        let envelope = check_freshness(envelope, window, now)?; // 3
        let key = Key::new(&envelope.from, envelope.message.message_id.as_str());
        match self.profile {
            Profile::Node => {
                let standing = match self.look_up(&key, &envelope.from, &envelope.message.message_id).await? {
                    Found::Fresh(standing) => standing,
                    Found::Handled(seen) => return Err(self.repeated(seen, envelope.verify(now).ok().as_ref())), // 4
                };
                let verified = self.verify(envelope, now)?; // 5
                self.claim(key, verified, standing).await // 5'
            }
            Profile::Door => {
                let verified = self.verify(envelope, now)?; // row 10
                let message_id = &verified.message().message_id;
                let standing = match self.look_up(&key, verified.from().as_str(), message_id).await? {
                    Found::Fresh(standing) => standing,
                    Found::Handled(seen) => return Err(self.repeated(seen, Some(&verified))), // row 11
                };
                self.claim(key, verified, standing).await
            }
        }
    }

    /// Step 5.
    fn verify(&self, envelope: Unverified, now: UnixSeconds) -> Result<Verified, Refusal> {
        let verified = match self.senders.find(&envelope.from) {
            Some(from) => envelope.verify_as(from, now),
            None => envelope.verify(now).inspect(|verified| self.senders.remember(verified.from())),
        };
        verified.map_err(|_| plain(Code::Signature, say::BAD_SIGNATURE))
    }

    /// Step 4: the memory guard first, then the store. Writes nothing.
    async fn look_up(&self, key: &Key, from: &str, message_id: &MessageId) -> Result<Found, Refusal> {
        match self.guard.look_up(key) {
            Some(digest) => Ok(Found::Handled(digest)),
            None => self.ask_memory(from, message_id).await,
        }
    }

    async fn ask_memory(&self, from: &str, message_id: &MessageId) -> Result<Found, Refusal> {
        let standing = self.memory.standing(from, message_id.as_str()).await.map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "a message id could not be looked up");
            say::internal()
        })?;
        Ok(match standing.handled {
            Some(handled) => Found::Handled(handled.digest),
            None => Found::Fresh(standing),
        })
    }

    /// Step 5': claims the id, or waits for whoever has it and then answers as for any copy.
    async fn claim(&self, key: Key, verified: Verified, mut standing: Standing) -> Result<Passed, Refusal> {
        let digest = verified.content_digest();
        let patience = tokio::time::sleep(COPY_PATIENCE);
        tokio::pin!(patience);
        loop {
            let mut ended = match self.guard.claim(key) {
                Attempt::Claimed(claim) => {
                    return Ok(Passed { verified, digest, claim, standing });
                }
                Attempt::Handled(seen) => return Err(self.repeated(seen, Some(&verified))),
                Attempt::Pending(ended) => ended,
            };
            tokio::select! {
                // Only ever an error: the sender is dropped when the first copy ends.
                _ = ended.changed() => {}
                () = &mut patience => return Err(say::in_hand()),
            }
            // The owner may have decided about the sender meanwhile, or another process stored the message.
            let message_id = &verified.message().message_id;
            match self.ask_memory(verified.from().as_str(), message_id).await? {
                Found::Fresh(newer) => standing = newer,
                Found::Handled(seen) => return Err(self.repeated(seen, Some(&verified))),
            }
        }
    }

    /// The refusal of a seen id. Only its proven sender, sending the same content again, hears `duplicate:true`.
    pub(crate) fn repeated(&self, seen: [u8; 32], proven: Option<&Verified>) -> Refusal {
        match proven {
            Some(verified) if verified.content_digest() == seen => say::duplicate(),
            Some(verified) => {
                self.guard.count_conflict();
                tracing::warn!(from = tail(verified.from()), "a sender used one message id for two contents");
                say::repeated()
            }
            None => say::repeated(),
        }
    }

    fn teach(&self, missing: &EnvelopeError) -> Refusal {
        match missing {
            EnvelopeError::Unsigned => self.lesson.clone(),
            _ => plain(Code::Signature, say::INCOMPLETE),
        }
    }
}

/// Step 3. The refusal is decided without the signature; only a sender that proves itself learns its skew (4.2).
fn check_freshness(envelope: Unverified, window: Window, now: UnixSeconds) -> Result<Unverified, Refusal> {
    let time = match window {
        Window::Call => envelope.freshness(now),
        Window::Mail => envelope.freshness_of_mail(now),
    };
    let Err(stale) = time else { return Ok(envelope) };
    let is_measurable = matches!(stale, Stale::OutsideWindow(_) | Stale::OlderThanMail(_) | Stale::Milliseconds);
    if is_measurable && let Ok(verified) = envelope.verify(now) {
        return Err(say::stale_for_sender(&stale, verified.timestamp(), now));
    }
    Err(say::stale(&stale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::testing::{key, message_to};
    use muretai_store::messages::Handled;

    /// A memory that answers what it is told to, and counts how often it is asked.
    struct Fixed {
        standing: Option<Standing>,
        asked: std::sync::atomic::AtomicUsize,
    }

    impl Memory for Fixed {
        async fn standing(&self, _: &str, _: &str) -> Result<Standing, StoreError> {
            self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.standing.ok_or(StoreError::ReadOnly)
        }
    }

    const NOW: UnixSeconds = UnixSeconds(1_784_273_700);

    fn ladder(profile: Profile, standing: Option<Standing>) -> Ladder<Fixed> {
        let memory = Fixed { standing, asked: Default::default() };
        Ladder::new(key(200).did().clone(), profile, ReplayGuard::default(), memory, Value::Null)
    }

    fn message(text: &str) -> Message {
        Message::from_value(message_to(key(200).did(), &key(1), "m1", text, NOW)).unwrap()
    }

    async fn refused(ladder: &Ladder<Fixed>, message: Message) -> Refusal {
        match ladder.climb(message, NOW).await {
            Err(refusal) => refusal,
            Ok(_) => panic!("it passed"),
        }
    }

    fn asked(ladder: &Ladder<Fixed>) -> usize {
        ladder.memory.asked.load(std::sync::atomic::Ordering::Relaxed)
    }

    #[tokio::test]
    async fn what_passed_is_claimed_until_it_is_confirmed_or_dropped() {
        for profile in [Profile::Node, Profile::Door] {
            let ladder = ladder(profile, Some(Standing::default()));
            drop(ladder.climb(message("hello"), NOW).await.ok().unwrap());
            assert!(ladder.guard().is_empty(), "released");
            let passed = ladder.climb(message("hello"), NOW).await.ok().unwrap();
            passed.claim.confirm(passed.digest);
            let before = asked(&ladder);
            assert_eq!(refused(&ladder, message("hello")).await, say::duplicate());
            assert_eq!(refused(&ladder, message("other")).await, say::repeated());
            assert_eq!(asked(&ladder), before, "memory knew both times");
            assert_eq!(ladder.guard().conflicts(), 1);
        }
    }

    #[tokio::test]
    async fn a_store_that_cannot_be_asked_claims_nothing() {
        for profile in [Profile::Node, Profile::Door] {
            let ladder = ladder(profile, None);
            assert_eq!(refused(&ladder, message("hello")).await, say::internal());
            assert!(ladder.guard().is_empty());
        }
    }

    #[tokio::test]
    async fn a_letter_may_be_days_old_and_a_call_may_not() {
        for profile in [Profile::Node, Profile::Door] {
            let ladder = ladder(profile, Some(Standing::default()));
            let aged = |secs: i64| {
                let signed = message_to(key(200).did(), &key(1), "m1", "hello", UnixSeconds(NOW.0 - secs));
                Message::from_value(signed).unwrap()
            };
            assert_eq!(refused(&ladder, aged(6 * 86_400)).await.detail(), Some(say::TOO_OLD));
            let climb = |secs| ladder.climb_in(Window::Mail, aged(secs), NOW);
            assert!(climb(6 * 86_400).await.is_ok());
            let detail = |passed: Result<Passed, Refusal>| passed.err().unwrap().detail().unwrap().to_owned();
            assert_eq!(detail(climb(8 * 86_400).await), say::OLDER_THAN_MAIL);
            assert_eq!(detail(climb(-3_600).await), say::TOO_NEW);
        }
    }

    #[tokio::test]
    async fn an_id_that_only_the_store_knows_is_handled() {
        let passed = ladder(Profile::Node, Some(Standing::default())).climb(message("hello"), NOW).await;
        let handled = Some(Handled { digest: passed.ok().unwrap().digest });
        for profile in [Profile::Node, Profile::Door] {
            let ladder = ladder(profile, Some(Standing { handled, ..Standing::default() }));
            assert_eq!(refused(&ladder, message("hello")).await, say::duplicate());
            assert_eq!(refused(&ladder, message("other")).await, say::repeated());
        }
    }

    #[tokio::test]
    async fn nothing_is_looked_up_before_the_message_is_known_to_be_fresh_and_ours() {
        let ladder = ladder(Profile::Node, Some(Standing::default()));
        let stale = Message::from_value(message_to(key(200).did(), &key(1), "m1", "x", UnixSeconds(0))).unwrap();
        assert_eq!(refused(&ladder, stale).await.code, Code::ReplayOrStale);
        let elsewhere = Message::from_value(message_to(key(2).did(), &key(1), "m1", "x", NOW)).unwrap();
        assert_eq!(refused(&ladder, elsewhere).await.code, Code::NotAddressedToMe);
        assert_eq!(asked(&ladder), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_loses_its_patience_and_is_not_told_that_the_message_arrived() {
        let ladder = ladder(Profile::Node, Some(Standing::default()));
        let first = ladder.climb(message("hello"), NOW).await.ok().unwrap();
        assert_eq!(refused(&ladder, message("hello")).await, say::in_hand());
        drop(first);
        assert!(ladder.climb(message("hello"), NOW).await.is_ok());
    }
}
