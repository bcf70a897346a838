//! What an agent offers to every transport that listens for it: one call, and a few documents.
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use muretai_plugins::{Applicant, ContactState, Responder, Response, Skills, TrustPolicy};
use muretai_protocol::{
    UnixSeconds,
    a2a::{self, Version},
    card,
    json::Value,
    rpc::{self, Code, Refusal},
};
use muretai_store::{Store, invites::ClaimStanding};
use muretai_transports::{Document, Incoming, Outcome, Service, Stop};

use super::{
    extra,
    frame::{self, Call, Profile, Request},
    gate::Gate,
    in_hand::InHand,
    ladder::{Ladder, Passed},
    methods::{
        claim::{self, ClaimParams},
        send,
    },
    rate::{RateLimit, RateLimiter},
    refusals as say,
    replay::ReplayGuard,
    responder::{Acknowledge, CommandResponder, CommandSpec},
};
use crate::Agent;

mod documents;
mod log;
#[cfg(test)]
mod tests;

use documents::Documents;

/// What a sender is told to wait when too much is in hand.
const BUSY_RETRY_SECS: u64 = 5;
/// Bytes that a message in hand costs beside its text and what is kept with it.
const OVERHEAD_BYTES: usize = 4_096;

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
}

/// What is counted apart, so that nobody spends what others need: strangers what contacts need, and who guesses at
/// invites what those need who hold one.
struct Rates {
    contacts: RateLimiter,
    strangers: RateLimiter,
    /// Claims that were redeemed before, by the same DID.
    repeated_claims: RateLimiter,
    /// Claims of what is no live invite.
    refused_claims: RateLimiter,
}

impl Rates {
    fn new(limit: RateLimit) -> Rates {
        let new = || RateLimiter::new(limit);
        Rates { contacts: new(), strangers: new(), repeated_claims: new(), refused_claims: new() }
    }
}

/// Who answers, and how the work is kept in bounds.
enum Answerer {
    /// Answers at once.
    Quick(Acknowledge),
    /// Takes its time: the work goes on when the asker hangs up, so that a slow answer is not begun over and over.
    Slow { responder: Arc<dyn Responder>, contacts: InHand, strangers: InHand, hurry: Stop },
}

impl Receiver {
    /// Makes an agent ready to receive. Nothing is bound or written.
    pub fn new(agent: &Agent, options: &ReceiverOptions) -> Receiver {
        let profile = if options.open_door { Profile::Door } else { Profile::Node };
        let requirement = card::requirement(agent.did(), &card::post_address(&options.url));
        let answerer = match &options.reply_with {
            None => Answerer::Quick(Acknowledge),
            Some(spec) => Answerer::Slow {
                responder: Arc::new(command_responder(agent, spec.clone())),
                contacts: InHand::new(),
                strangers: InHand::new(),
                hurry: Stop::new(),
            },
        };
        let guard = ReplayGuard::default();
        let inner = Inner {
            url: options.url.clone(),
            profile,
            ladder: Ladder::new(agent.did().clone(), profile, guard, agent.store().clone(), requirement),
            gate: Gate::new(options.open_door),
            rates: options.rate.map(Rates::new),
            answerer,
            documents: Documents::new(agent, &options.url, options.open_door),
            agent: agent.clone(),
        };
        Receiver { inner: Arc::new(inner) }
    }

    /// Tells slow responders that time is up: whoever waits for them gets a signed "no answer", and the message is
    /// stored all the same.
    pub fn hurry(&self) {
        if let Answerer::Slow { hurry, .. } = &self.inner.answerer {
            hurry.stop();
        }
    }

    /// Waits until no message is in hand any more.
    pub async fn idle(&self) {
        if let Answerer::Slow { contacts, strangers, .. } = &self.inner.answerer {
            contacts.emptied().await;
            strangers.emptied().await;
        }
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
        let Passed { verified, standing, .. } = &passed;
        let is_direct = standing.is_direct;
        let applicant = Applicant {
            did: verified.from().clone(),
            contact: if is_direct { ContactState::Direct } else { ContactState::None },
            introduction: None,
            domain: None,
            method: "message/send",
            now,
        };
        self.inner.gate.admit(&applicant, standing.is_blocked).await?; // 6
        if let Some(rates) = &self.inner.rates {
            let rate = if is_direct { &rates.contacts } else { &rates.strangers };
            rate.admit(passed.verified.from()).map_err(say::rate_limited)?; // 7
        }
        let extra = extra::take(&mut passed.verified);
        let extra = extra.map_err(|extra::TooLarge| say::plain(Code::InvalidRequest, say::EXTRA_TOO_LARGE))?;
        match &self.inner.answerer {
            // The loop brake: machines do not answer each other's notices.
            _ if send::is_notice(passed.verified.message()) => {
                send::store_and_reply(&self.inner.agent, passed, extra, Response::accepted(), now).await
            }
            Answerer::Quick(responder) => {
                let response = responder.respond(&passed.verified).await;
                send::store_and_reply(&self.inner.agent, passed, extra, response, now).await
            }
            Answerer::Slow { responder, contacts, strangers, hurry } => {
                let in_hand = if is_direct { contacts } else { strangers };
                // What is kept is counted twice: some of it may be in the message, too.
                let kept = extra.as_ref().map_or(0, String::len);
                let size = OVERHEAD_BYTES + passed.verified.message().text.len() + 2 * kept;
                let place = in_hand.take(size).ok_or_else(|| say::rate_limited(BUSY_RETRY_SECS))?;
                let (agent, responder, hurry) = (self.inner.agent.clone(), Arc::clone(responder), hurry.clone());
                let work = async move {
                    let _place = place;
                    let response = tokio::select! {
                        response = responder.respond(&passed.verified) => response,
                        () = hurry.stopped() => Response::no_answer("the agent is stopping"),
                    };
                    send::store_and_reply(&agent, passed, extra, response, now).await
                };
                tokio::spawn(work).await.unwrap_or_else(|_| Err(say::internal()))
            }
        }
    }
}

fn command_responder(agent: &Agent, spec: CommandSpec) -> CommandResponder {
    CommandResponder::new(spec, agent.name(), agent.store().clone())
}

#[async_trait]
impl Service for Receiver {
    async fn call(&self, request: Incoming) -> Outcome {
        let now = crate::agent::now();
        let Incoming { body, a2a_version, remote } = request;
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
        let result = match self.inner.ladder.climb(message, now).await {
            Ok(passed) => self.answer(call, passed, now).await,
            Err(refusal) => Err(refusal),
        };
        line.end(result.as_ref().err());
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
        self.inner.documents.at(path, self.inner.agent.key())
    }
}
