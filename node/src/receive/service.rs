//! What an agent offers to every transport that listens for it: one call, and a few documents.
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use muretai_plugins::{Applicant, Responder, Response};
use muretai_protocol::{
    UnixSeconds,
    a2a::{self, Version},
    card,
    json::Value,
    rpc::{self, Refusal},
};
use muretai_store::Store;
use muretai_transports::{Document, Incoming, Outcome, Service, Stop};
use tokio::sync::Semaphore;

use super::{
    frame::{self, Call, Profile, Request},
    gate::Gate,
    ladder::{Ladder, Passed},
    methods::{claim, send},
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

/// Messages that slow responders may have in hand at once, waiting ones included.
const MAX_IN_HAND: u32 = 1_024;
/// What a sender is told to wait when that many are in hand.
const BUSY_RETRY_SECS: u64 = 5;

/// How an agent receives.
#[derive(Debug, Clone)]
pub struct ReceiverOptions {
    /// The canonical base that the card names.
    pub url: String,
    /// Strangers are answered.
    pub open_door: bool,
    /// `None` is off.
    pub rate: Option<RateLimit>,
    /// `None` acknowledges.
    pub reply_with: Option<CommandSpec>,
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
    /// Messages and claims are counted apart: claims come from strangers, who must not spend what contacts need.
    message_rate: Option<RateLimiter>,
    claim_rate: Option<RateLimiter>,
    answerer: Answerer,
    documents: Documents,
}

/// Who answers, and how the work is kept in bounds.
enum Answerer {
    /// Answers at once.
    Quick(Acknowledge),
    /// Takes its time: the work goes on when the asker hangs up, so that a slow answer is not begun over and over.
    Slow { responder: Arc<dyn Responder>, in_hand: Arc<Semaphore>, hurry: Stop },
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
                in_hand: Arc::new(Semaphore::new(MAX_IN_HAND as usize)),
                hurry: Stop::new(),
            },
        };
        let guard = ReplayGuard::default();
        let inner = Inner {
            url: options.url.clone(),
            profile,
            ladder: Ladder::new(agent.did().clone(), profile, guard, agent.store().clone(), requirement),
            gate: Gate::new(options.open_door),
            message_rate: options.rate.map(RateLimiter::new),
            claim_rate: options.rate.map(RateLimiter::new),
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
        if let Answerer::Slow { in_hand, .. } = &self.inner.answerer {
            let _all = in_hand.acquire_many(MAX_IN_HAND).await;
        }
    }

    async fn answer(&self, call: Call, passed: Passed, now: UnixSeconds) -> Result<Value, Refusal> {
        match call {
            Call::Send(version) => {
                let reply = self.answer_message(passed, now).await?;
                Ok(if version == Version::V1_0 { a2a::result_to_v1(&reply) } else { reply })
            }
            Call::Claim(params) => {
                limit(&self.inner.claim_rate, &passed)?;
                claim::redeem(&self.inner.agent, &self.inner.url, passed, *params, now).await
            }
        }
    }

    /// Steps 6 and 7, then the responder, then the commit. A refusal drops `passed`, which releases the id.
    async fn answer_message(&self, passed: Passed, now: UnixSeconds) -> Result<Value, Refusal> {
        let Passed { verified, standing, .. } = &passed;
        let applicant = Applicant::new(verified.from(), standing.is_blocked, standing.is_direct, verified);
        self.inner.gate.admit(&applicant).await?; // 6
        limit(&self.inner.message_rate, &passed)?; // 7
        match &self.inner.answerer {
            // The loop brake: machines do not answer each other's notices.
            _ if send::is_notice(passed.verified.message()) => {
                send::store_and_reply(&self.inner.agent, passed, Response::accepted(), now).await
            }
            Answerer::Quick(responder) => {
                let response = responder.respond(&passed.verified).await;
                send::store_and_reply(&self.inner.agent, passed, response, now).await
            }
            Answerer::Slow { responder, in_hand, hurry } => {
                let place = Arc::clone(in_hand).try_acquire_owned().map_err(|_| say::rate_limited(BUSY_RETRY_SECS))?;
                let (agent, responder, hurry) = (self.inner.agent.clone(), Arc::clone(responder), hurry.clone());
                let work = async move {
                    let _place = place;
                    let response = tokio::select! {
                        response = responder.respond(&passed.verified) => response,
                        () = hurry.stopped() => Response::no_answer("the agent is stopping"),
                    };
                    send::store_and_reply(&agent, passed, response, now).await
                };
                tokio::spawn(work).await.unwrap_or_else(|_| Err(say::internal()))
            }
        }
    }
}

fn command_responder(agent: &Agent, spec: CommandSpec) -> CommandResponder {
    CommandResponder::new(spec, agent.name(), agent.store().clone())
}

fn limit(rate: &Option<RateLimiter>, passed: &Passed) -> Result<(), Refusal> {
    match rate {
        Some(rate) => rate.admit(passed.verified.from()).map_err(say::rate_limited),
        None => Ok(()),
    }
}

#[async_trait]
impl Service for Receiver {
    async fn call(&self, request: Incoming) -> Outcome {
        let now = crate::agent::now();
        let Request { id, call, message } =
            match frame::read(&request.body, request.a2a_version.as_deref(), self.inner.profile) {
                Ok(request) => request,
                Err(rejected) => {
                    log::rejected(request.remote, &rejected.refusal);
                    let body = rpc::error(&rejected.id, &rejected.refusal).into();
                    return Outcome { status: rejected.status, body };
                }
            };
        let line = log::Line::begin(&message, request.remote);
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
