//! What an agent offers to every transport that listens for it: one call, and a few documents.
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use muretai_plugins::{ContactState, Skills, TrustPolicy};
use muretai_protocol::{
    UnixSeconds,
    a2a::{self, Version},
    card,
    json::Value,
    rpc::{self, Code, Refusal},
};
use muretai_store::{Store, invites::ClaimStanding};
use muretai_transports::{Document, Incoming, Outcome, Service};
use tokio::sync::Notify;

use super::{
    extra,
    frame::{self, Call, Profile, Request},
    gate::{Gate, Sender, Verdict, verdicts},
    ladder::{Ladder, Passed},
    methods::{Desk, claim, connect, hold, introduce, params::ClaimParams, question, referral, status, told},
    rate::RateLimit,
    refusals as say,
    replay::ReplayGuard,
    responder::{CommandResponder, CommandSpec},
};
use crate::Agent;

mod answerer;
mod documents;
mod log;
mod rates;
#[cfg(test)]
mod tests;

use answerer::{Answerer, Responders};
use documents::Documents;
use rates::Rates;

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
    /// Rung when an errand was written.
    errands: Notify,
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

    /// Waits until somebody's request made an errand necessary.
    pub async fn errand_written(&self) {
        self.inner.errands.notified().await;
    }

    /// Lets the second pass for which policies and the own revocations are remembered.
    #[cfg(test)]
    pub(crate) fn forget_policies(&self) {
        self.inner.gate.forget_policies();
        self.inner.documents.forget();
    }

    async fn answer(&self, call: Call, passed: Passed, now: UnixSeconds) -> Result<Value, Refusal> {
        match call {
            Call::Send(version) => {
                let reply = self.answer_message(passed, now).await?;
                Ok(if version == Version::V1_0 { a2a::result_to_v1(&reply) } else { reply })
            }
            Call::Claim(params) => {
                self.limit_claim(&passed, &params, now).await?;
                claim::redeem(&self.inner.agent, &self.inner.url, passed, *params, now).await
            }
            call => self.answer_query(call, passed, now).await,
        }
    }

    /// The methods about trust: each has a policy of its own in place of the gate.
    async fn answer_query(&self, call: Call, passed: Passed, now: UnixSeconds) -> Result<Value, Refusal> {
        if let Some(rates) = &self.inner.rates {
            rates.admit_query(passed.verified.from(), passed.is_from_contact())?;
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
    async fn answer_message(&self, mut passed: Passed, now: UnixSeconds) -> Result<Value, Refusal> {
        let Inner { agent, gate, .. } = &*self.inner;
        let (did, standing) = (passed.verified.from(), &passed.standing);
        let vc = passed.verified.message().meta("vc");
        let verdict = gate.judge(&Sender { did, standing, vc, method: "message/send", now }).await?; // 6
        let state = match &verdict {
            Verdict::Admitted(state) => *state,
            Verdict::Held(_) if passed.is_from_contact() => ContactState::Direct,
            Verdict::Held(_) | Verdict::Vouched(_) => ContactState::None,
        };
        if let Some(rates) = &self.inner.rates {
            rates.admit_message(did, state)?; // 7
        }
        let state = match verdict {
            Verdict::Admitted(state) => state,
            Verdict::Vouched(introduction) => {
                introduce::accept(&self.desk(now).await?, &introduction).await?;
                ContactState::Introduced
            }
            Verdict::Held(introduction) => {
                if !hold::can_wait(passed.verified.message()) {
                    return Err(hold::not_kept(introduction.as_deref()));
                }
                let extra = take_extra(&mut passed)?;
                return hold::hold(&self.desk(now).await?, passed, extra, introduction.as_deref()).await;
            }
        };
        told::take(agent, &passed, state, now).await;
        let extra = take_extra(&mut passed)?;
        self.inner.answerer.answer(agent, passed, extra, state, now).await
    }

    /// What a method has at hand.
    async fn desk(&self, now: UnixSeconds) -> Result<Desk<'_>, Refusal> {
        let Inner { agent, url, gate, errands, .. } = &*self.inner;
        Ok(Desk { agent, url, gate, policies: gate.policies().await?, now, errands })
    }
}

fn take_extra(passed: &mut Passed) -> Result<Option<String>, Refusal> {
    let extra = extra::take(&mut passed.verified);
    extra.map_err(|extra::TooLarge| say::plain(Code::InvalidRequest, say::EXTRA_TOO_LARGE))
}

#[async_trait]
impl Service for Receiver {
    async fn call(&self, request: Incoming) -> Outcome {
        let now = crate::agent::now();
        let Incoming { body, a2a_version, remote, way: _ } = request;
        let read = frame::read(&body, a2a_version.as_deref(), self.inner.profile);
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
            Ok(passed) => verdicts::noted(self.answer(call, passed, now)).await,
            Err(refusal) => (Err(refusal), None),
        };
        line.end(result.as_ref().err(), policy.as_deref());
        let body = match result {
            Ok(result) => rpc::result(&id, &result),
            Err(refusal) => rpc::error(&id, &refusal),
        };
        Outcome { status: 200, body: Bytes::from(body) }
    }

    async fn document(&self, path: &str) -> Option<Document> {
        if let Some(code) = path.strip_prefix("i/") {
            return documents::invite(self.inner.agent.store(), code).await;
        }
        self.inner.documents.at(path, &self.inner.agent, &self.inner.gate).await
    }
}
