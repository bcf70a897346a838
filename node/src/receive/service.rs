//! What an agent offers to every transport that listens for it: one call, and a few documents.
use std::{net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use muretai_plugins::{ContactState, Skills, TrustPolicy};
use muretai_protocol::{
    UnixSeconds,
    a2a::{self, Version},
    card,
    introduction::Introduction,
    json::Value,
    rpc::{self, Code, Id, Refusal},
};
use muretai_store::{Store, invites::ClaimStanding};
use muretai_transports::{Document, Incoming, Outcome, Postmark, Service, Unopened, Way};
use tokio::sync::Notify;

use super::{
    extra,
    frame::{self, Call, Profile, Request},
    gate::{Gate, Sender, Verdict, verdicts},
    ladder::{Ladder, Passed},
    methods::{
        Desk, about, claim, connect, hold, introduce, params::ClaimParams, question, referral, send::Admitted, status,
        told,
    },
    rate::RateLimit,
    refusals as say,
    replay::ReplayGuard,
    responder::{CommandResponder, CommandSpec},
    return_address::ReturnAddress,
};
use crate::Agent;

mod answerer;
mod documents;
mod letters;
mod log;
mod rates;
mod stale_keys;
mod tally;
#[cfg(test)]
mod tests;
mod unheard;
mod unopened;

use answerer::{Answerer, Responders};
use documents::Documents;
use letters::Reposted;
use rates::Rates;
use stale_keys::StaleKeys;
use tally::{Counted, Tally};
use unopened::Throttle;

/// How an agent receives.
#[derive(Clone, Default)]
pub struct ReceiverOptions {
    /// The canonical base that the card names.
    pub url: String,
    /// Strangers are answered.
    pub open_door: bool,
    /// `None` is off.
    pub rate: Option<RateLimit>,
    /// `None` acknowledges.
    pub reply_with: Option<CommandSpec>,
    /// What answers before `reply_with` does.
    pub skills: Option<Arc<dyn Skills>>,
    /// What decides about senders before the built-in gate does, in this order.
    pub policies: Vec<Arc<dyn TrustPolicy>>,
}

/// An agent that receives. Cheap to clone.
#[derive(Clone)]
pub struct Receiver {
    inner: Arc<Inner>,
}

struct Inner {
    agent: Agent,
    url: String,
    profile: Profile,
    ladder: Ladder<Store>,
    gate: Gate,
    rates: Option<Rates>,
    answerer: Answerer,
    documents: Documents,
    /// Rung when there is something to do that no request waits for.
    errands: Notify,
    /// Peers whose sealing keys have to be looked up again.
    stale_keys: StaleKeys,
    /// Whom letters were told to that did not open.
    told: Throttle,
    /// When this receiver began.
    began: UnixSeconds,
    reposted: Reposted,
    tally: Tally,
}

impl Receiver {
    /// Makes an agent ready to receive. Nothing is bound or written.
    pub fn new(agent: &Agent, options: &ReceiverOptions) -> Receiver {
        let profile = if options.open_door { Profile::Door } else { Profile::Node };
        let requirement = card::requirement(agent.did(), &card::post_address(&options.url));
        let command = options.reply_with.clone();
        let command = command.map(|spec| CommandResponder::new(spec, agent.name(), agent.store().clone()));
        let skills = options.skills.clone();
        let listed = skills.as_ref().map(|skills| skills.list()).unwrap_or_default();
        let guard = ReplayGuard::default();
        let inner = Inner {
            url: options.url.clone(),
            profile,
            ladder: Ladder::new(agent.did().clone(), profile, guard, agent.store().clone(), requirement),
            gate: Gate::new(agent, options.open_door, options.policies.clone()),
            rates: options.rate.map(Rates::new),
            answerer: Answerer::new(Responders { skills, command }),
            documents: Documents::new(agent, &options.url, options.open_door, listed),
            errands: Notify::new(),
            stale_keys: StaleKeys::default(),
            told: Throttle::default(),
            began: crate::agent::now(),
            reposted: Reposted::default(),
            tally: Tally::default(),
            agent: agent.clone(),
        };
        Receiver { inner: Arc::new(inner) }
    }

    /// Tells slow responders that time is up: whoever waits for them gets a signed "no answer", and the message is
    /// stored all the same.
    pub fn hurry(&self) {
        self.inner.answerer.hurry();
    }

    /// Waits until no message is in hand any more.
    pub async fn idle(&self) {
        self.inner.answerer.idle().await;
    }

    /// Letters so far that were taken, for good or for bad.
    pub fn letters(&self) -> u64 {
        self.inner.tally.all().letters
    }

    /// Of these, letters that were refused or did not open.
    pub fn rejected(&self) -> u64 {
        self.inner.tally.all().rejected
    }

    /// The same two numbers for one relay.
    pub(crate) fn letters_of(&self, relay: &str) -> (u64, u64) {
        let Counted { letters, rejected } = self.inner.tally.of(relay);
        (letters, rejected)
    }

    /// Says where this agent's mail is fetched from now on, for its card.
    pub(crate) fn set_mailbox(&self, relay: Option<&str>) {
        self.inner.documents.set_mailbox(relay);
    }

    /// The card as it is served now; `None` while the store fails.
    pub(crate) async fn card(&self) -> Option<Value> {
        let card = self.inner.documents.card(&self.inner.agent, &self.inner.gate).await?;
        Some(card.value().clone())
    }

    /// Waits until somebody's request made an errand necessary, or a key has to be looked up again.
    pub async fn errand_written(&self) {
        self.inner.errands.notified().await;
    }

    /// The same receiver as if it had begun at another time; the only one of its kind.
    #[cfg(test)]
    pub(crate) fn began(self, began: UnixSeconds) -> Receiver {
        let inner = Arc::into_inner(self.inner).unwrap();
        Receiver { inner: Arc::new(Inner { began, ..inner }) }
    }

    /// Lets the second pass for which policies and the own revocations are remembered.
    #[cfg(test)]
    pub(crate) fn forget_policies(&self) {
        self.inner.gate.forget_policies();
        self.inner.documents.forget();
    }

    /// Answers a request that passed the ladder; `back` is where the answer to a letter goes.
    async fn answer(
        &self,
        call: Call,
        passed: Passed,
        now: UnixSeconds,
        back: Option<ReturnAddress>,
        is_by_relay: bool,
    ) -> Result<Value, Refusal> {
        match call {
            Call::Send(version) => {
                let reply = self.answer_message(passed, now, back, is_by_relay).await?;
                Ok(if version == Version::V1_0 { a2a::result_to_v1(&reply) } else { reply })
            }
            Call::Claim(params) => {
                self.limit_claim(&passed, &params, now).await?;
                let Inner { agent, url, .. } = &*self.inner;
                match back {
                    None => claim::redeem(agent, url, passed, *params, now).await,
                    Some(back) => claim::redeem_letter(agent, url, passed, *params, back, now).await,
                }
            }
            call => self.answer_query(call, passed, now, back.is_some()).await,
        }
    }

    /// The methods about trust: each has a policy of its own in place of the gate.
    async fn answer_query(
        &self,
        call: Call,
        passed: Passed,
        now: UnixSeconds,
        is_letter: bool,
    ) -> Result<Value, Refusal> {
        let is_contact = passed.is_from_contact();
        if let Some(rates) = self.inner.rates.as_ref().filter(|_| !(is_letter && is_contact)) {
            rates.admit_query(passed.verified.from(), is_contact)?;
        }
        let desk = &self.desk(now).await?;
        match call {
            Call::TrustStatus(params) => status::answer(desk, passed, *params).await,
            Call::ConnectRequest(params) => connect::request(desk, passed, *params).await,
            Call::ConnectRespond(params) => connect::respond(desk, passed, *params).await,
            Call::IntroductionRequest => question::introduce_me(desk, passed).await,
            Call::IntroducePropose(params) => introduce::propose(desk, passed, *params).await,
            Call::IntroduceRespond(params) => introduce::respond(desk, passed, *params).await,
            Call::ReferralRequest(params) => referral::answer(desk, passed, *params).await,
            // `answer` took these.
            Call::Send(_) | Call::Claim(_) => Err(say::internal()),
        }
    }

    /// A live invite is the owner's own permission and is spent by its use, so it needs no other limit.
    async fn limit_claim(&self, passed: &Passed, params: &ClaimParams, now: UnixSeconds) -> Result<(), Refusal> {
        claim::check_text(passed)?;
        let Some(rates) = &self.inner.rates else { return Ok(()) };
        let from = passed.verified.from();
        let rate = match self.inner.agent.store().claim_standing(&params.nonce, from, now).await {
            Ok(ClaimStanding::Open) => return Ok(()),
            Ok(ClaimStanding::Repeated) => &rates.repeated_claims,
            Ok(ClaimStanding::Dead) => &rates.refused_claims,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "an invite could not be looked up");
                return Err(say::internal());
            }
        };
        rate.admit(from).map_err(say::rate_limited)
    }

    /// Steps 6 and 7, then the responder, then the commit. A refusal drops `passed`, which releases the id.
    async fn answer_message(
        &self,
        mut passed: Passed,
        now: UnixSeconds,
        back: Option<ReturnAddress>,
        is_by_relay: bool,
    ) -> Result<Value, Refusal> {
        let agent = &self.inner.agent;
        let about = about::about(agent, &passed, back.is_some()).await?;
        let entry = match about.is_awaited && !passed.standing.is_blocked {
            true => self.let_in_awaited(&passed)?,
            false => self.let_in(&passed, now, back.is_some()).await?,
        };
        let state = match entry {
            Entry::In(state) => state,
            Entry::Held(introduction) => {
                if !hold::can_wait(passed.verified.message()) {
                    return Err(hold::not_kept(introduction.as_deref()));
                }
                let extra = take_extra(&mut passed)?;
                return hold::hold(&self.desk(now).await?, passed, extra, introduction.as_deref(), back).await;
            }
        };
        let is_for_owner = told::take(agent, &passed, state, now).await?;
        if told::did_not_open(passed.verified.message()) && self.inner.stale_keys.note(passed.verified.from()) {
            self.inner.errands.notify_one();
        }
        if let Some(back) = &back {
            back.teach(agent, &passed).await;
        }
        let extra = take_extra(&mut passed)?;
        let (settles, is_answer) = (about.settles, about.is_answer);
        let admitted = Admitted { passed, extra, settles, is_answer, is_for_owner, back, is_by_relay, received: now };
        self.inner.answerer.answer(agent, admitted, state).await
    }

    /// Steps 6 and 7. Letters of whom the owner let in are not counted: the relay bounds how many there are, and a refused
    /// one would be lost.
    async fn let_in(&self, passed: &Passed, now: UnixSeconds, is_letter: bool) -> Result<Entry, Refusal> {
        let (did, standing) = (passed.verified.from(), &passed.standing);
        let vc = passed.verified.message().meta("vc");
        let verdict = self.inner.gate.judge(&Sender { did, standing, vc, method: "message/send", now }).await?; // 6
        let state = match &verdict {
            Verdict::Admitted(state) => *state,
            Verdict::Held(_) if passed.is_from_contact() => ContactState::Direct,
            Verdict::Held(_) | Verdict::Vouched(_) => ContactState::None,
        };
        let is_counted = !(is_letter && state != ContactState::None);
        if let Some(rates) = self.inner.rates.as_ref().filter(|_| is_counted) {
            rates.admit_message(did, state)?; // 7
        }
        match verdict {
            Verdict::Admitted(state) => Ok(Entry::In(state)),
            Verdict::Vouched(introduction) => {
                introduce::accept(&self.desk(now).await?, &introduction).await?;
                Ok(Entry::In(ContactState::Introduced))
            }
            Verdict::Held(introduction) => Ok(Entry::Held(introduction)),
        }
    }

    /// Step 7 for an answer to a message of ours: as in the answer to a call, nobody is asked whether it may come.
    fn let_in_awaited(&self, passed: &Passed) -> Result<Entry, Refusal> {
        if passed.is_from_contact() {
            return Ok(Entry::In(ContactState::Direct));
        }
        if let Some(rates) = &self.inner.rates {
            rates.admit_message(passed.verified.from(), ContactState::None)?;
        }
        Ok(Entry::In(ContactState::None))
    }

    /// A request of somebody who waits for the answer.
    async fn take_call(
        &self,
        body: Bytes,
        a2a_version: Option<&str>,
        remote: Option<SocketAddr>,
        is_by_relay: bool,
    ) -> Outcome {
        let now = crate::agent::now();
        let read = frame::read(&body, a2a_version, self.inner.profile);
        // The answer may take minutes, and nobody needs the bytes any more.
        drop(body);
        let Request { id, call, message } = match read {
            Ok(request) => request,
            Err(rejected) => {
                log::rejected(remote, &rejected.refusal);
                let body = rpc::error(&rejected.id, &rejected.refusal).into();
                return Outcome { status: rejected.status, body };
            }
        };
        let line = log::Line::begin(&message, remote);
        let (result, policy) = match self.inner.ladder.climb(message, now).await {
            Ok(passed) => verdicts::noted(self.answer(call, passed, now, None, is_by_relay)).await,
            Err(refusal) => (Err(refusal), None),
        };
        line.end(result.as_ref().err(), policy.as_deref());
        Outcome { status: 200, body: answer_body(&id, &result) }
    }

    /// What a method has at hand.
    async fn desk(&self, now: UnixSeconds) -> Result<Desk<'_>, Refusal> {
        let Inner { agent, url, gate, errands, .. } = &*self.inner;
        Ok(Desk { agent, url, gate, policies: gate.policies().await?, now, errands })
    }
}

/// The answer as JSON-RPC.
fn answer_body(id: &Id, result: &Result<Value, Refusal>) -> Bytes {
    Bytes::from(match result {
        Ok(result) => rpc::result(id, result),
        Err(refusal) => rpc::error(id, refusal),
    })
}

/// What became of a message at the gate.
enum Entry {
    /// It is let in, from somebody of this standing.
    In(ContactState),
    /// It waits for the owner, on this introduction when there is one.
    Held(Option<Box<Introduction>>),
}

fn take_extra(passed: &mut Passed) -> Result<Option<String>, Refusal> {
    let extra = extra::take(&mut passed.verified);
    extra.map_err(|extra::TooLarge| say::plain(Code::InvalidRequest, say::EXTRA_TOO_LARGE))
}

#[async_trait]
impl Service for Receiver {
    async fn call(&self, request: Incoming) -> Outcome {
        let Incoming { body, a2a_version, remote, way } = request;
        match way {
            Way::Call => self.take_call(body, a2a_version.as_deref(), remote, false).await,
            Way::RelayCall => self.take_call(body, a2a_version.as_deref(), remote, true).await,
            Way::Mailbox(postmark) => {
                let outcome = self.take_letter(&body, a2a_version.as_deref(), &postmark).await;
                if outcome.status == 200 {
                    self.inner.tally.letter(&postmark.relay);
                }
                outcome
            }
        }
    }

    async fn unopened(&self, letter: Unopened) -> bool {
        let is_taken = self.note_unopened(&letter).await;
        if is_taken {
            self.inner.tally.letter(&letter.postmark.relay);
        }
        is_taken
    }

    async fn heard(&self, postmark: &Postmark, request: &Bytes, answer: &Bytes) {
        self.note_heard(postmark, request, answer).await;
    }

    async fn unheard(&self, postmark: &Postmark, answer: Bytes) -> bool {
        self.post_unheard(postmark, &answer).await
    }

    async fn document(&self, path: &str) -> Option<Document> {
        if let Some(code) = path.strip_prefix("i/") {
            return documents::invite(self.inner.agent.store(), code).await;
        }
        self.inner.documents.at(path, &self.inner.agent, &self.inner.gate).await
    }
}
