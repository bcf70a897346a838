//! One signed call of a method that is not `message/send`, and its unsigned result (5.2).
//!
//! A call that may have arrived is sent again under the same message id, which every receiver deduplicates: what counts
//! once is done once. When the answer to an earlier copy is lost for good, that is an error of its own
//! ([`TrustError::AnswerLost`]), and the caller knows what it means for its method.
use std::time::Duration;

use bytes::Bytes;
use muretai_protocol::{
    MessageId,
    json::{Object, Value},
    message::{self, Draft, Role},
    rpc::{self, Code},
    text::one_line,
    urls,
};
use muretai_transports::{TransportError, guard::Policy};
use tokio::time::{Instant, timeout_at};

use super::TrustError;
use crate::{
    Agent,
    agent::{now, random},
    send::{
        ResolvedPeer, SendError,
        answer::{self, PeerRefusal, Response},
        outbox::refused,
    },
};

/// How often a call is sent when the connection fails.
const ATTEMPTS: u32 = 3;
/// The first wait between attempts; each further one is longer by as much.
const PAUSE: Duration = Duration::from_millis(100);
/// Characters of what a peer says about its build that an error repeats.
const MAX_BUILD_CHARS: usize = 60;

/// A call.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// The method.
    pub(crate) method: &'static str,
    /// The signed text (5.1): the method's name, and a note after a line feed.
    pub(crate) text: &'a str,
    /// The params beside `message`.
    pub(crate) params: Object,
    /// For everything together, repeats after a broken connection among it.
    pub(crate) timeout: Duration,
    /// The id of a call that may have been made before; `None` takes a fresh one.
    pub(crate) message_id: Option<MessageId>,
}

/// Where a request goes, and how long it may take.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// What is dialled.
    pub(crate) url: &'a str,
    /// Under which rules.
    pub(crate) policy: Policy,
    /// When everything has to be over.
    pub(crate) deadline: Instant,
    /// For one attempt.
    pub(crate) each: Duration,
}

/// Nobody said anything.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The request did not get through, or its answer did not get back.
    Transport { attempts: u32, source: TransportError },
    /// The time is over.
    TimedOut { after: Duration },
}

impl Agent {
    /// Makes the call. A refusal is [`SendError::Refused`] with the peer's code; `-32601` names the peer's build.
    pub(crate) async fn call(&self, peer: &ResolvedPeer, call: Call<'_>) -> Result<Value, TrustError> {
        if peer.url.is_empty() {
            // A call is answered at once or not at all; a mailbox does neither.
            let who = peer.name.clone().unwrap_or_else(|| peer.did.to_string());
            return Err(SendError::NoAddress { who, is_contact: peer.name.is_some() }.into());
        }
        let url = urls::post_address(&peer.url);
        let place =
            Place { url: &url, policy: peer.policy, deadline: Instant::now() + call.timeout, each: call.timeout };
        let is_again = call.message_id.is_some();
        let message_id = call.message_id.clone().unwrap_or_else(|| MessageId::from_random(random()));
        let id = message_id.as_str().to_owned();
        let mut attempts = 0;
        for round in 1.. {
            let sending = self.exchange(&place, || {
                attempts += 1;
                (id.clone(), self.call_body(peer, &call, &message_id))
            });
            let refusal = match sending.await {
                Ok(Response::Result(result)) => return Ok(result),
                Ok(Response::Refusal(refusal)) => refusal,
                Ok(Response::Status { status, retry_after }) => {
                    return Err(SendError::HttpStatus { url, status, retry_after, message_id: id }.into());
                }
                Ok(Response::NotAnAnswer(what)) => {
                    return Err(SendError::NotAnAnswer { url, what, message_id: id }.into());
                }
                Err(NoAnswer::TimedOut { after }) => {
                    return Err(SendError::TimedOut { url, after, message_id: id }.into());
                }
                Err(NoAnswer::Transport { attempts, source }) => {
                    return Err(SendError::Transport { url, attempts, message_id: id, source }.into());
                }
            };
            if refusal.is_duplicate() {
                return Err(TrustError::AnswerLost { url, method: call.method });
            }
            // Seen and not stored: our own first copy, which is still being worked on.
            let is_in_hand = refusal.code == Code::ReplayOrStale.number() && (attempts > 1 || is_again);
            if !is_in_hand || round == ATTEMPTS || !pause(round, place.deadline).await {
                return Err(sorted(refusal, call.method, id));
            }
        }
        unreachable!("the last round returns")
    }

    /// Posts a request until somebody says something about it: `request` writes it anew for each attempt, and gives
    /// its id. What could not connect, or lost its connection, is tried again.
    pub(crate) async fn exchange(
        &self,
        place: &Place<'_>,
        mut request: impl FnMut() -> (String, String),
    ) -> Result<Response, NoAnswer> {
        for attempt in 1.. {
            let (id, body) = request();
            let until = place.deadline.min(Instant::now() + place.each);
            let post = self.inner.http.post(place.url, Bytes::from(body), &[], place.policy);
            let source = match timeout_at(until, post).await {
                Ok(Ok(fetched)) => return Ok(answer::sort(&fetched, &id)),
                Ok(Err(source)) => source,
                Err(_) => return Err(NoAnswer::TimedOut { after: place.each }),
            };
            let may_pass = matches!(source, TransportError::Connect { .. } | TransportError::Closed { .. });
            if !may_pass || attempt == ATTEMPTS || !pause(attempt, place.deadline).await {
                return Err(NoAnswer::Transport { attempts: attempt, source });
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Signed anew for each attempt, under one id.
    fn call_body(&self, peer: &ResolvedPeer, call: &Call<'_>, message_id: &MessageId) -> String {
        let draft = Draft {
            role: Role::User,
            to: peer.did.as_str(),
            message_id,
            context_id: None,
            text: call.text,
            timestamp: now(),
            extra: Object::new(),
        };
        let mut params = call.params.clone();
        params.insert("message".to_owned(), message::sign(self.key(), &draft));
        rpc::request(message_id.as_str(), call.method, &params.into())
    }
}

/// Waits before the next attempt; `false` when there is no time for one.
async fn pause(attempt: u32, deadline: Instant) -> bool {
    let wait = PAUSE * attempt;
    if Instant::now() + wait >= deadline {
        return false;
    }
    tokio::time::sleep(wait).await;
    true
}

/// A refusal as an error. Only `-32601` proves that a peer lacks a method (5.1).
fn sorted(refusal: PeerRefusal, method: &'static str, message_id: String) -> TrustError {
    if refusal.code != Code::MethodNotFound.number() {
        return refused(refusal, message_id).into();
    }
    TrustError::NoSuchMethod { method, build: refusal.data.as_ref().and_then(build_of) }
}

/// What a peer says that it is: `version`, and `protocolVersion`.
fn build_of(data: &Value) -> Option<String> {
    let member = |key| {
        let text = data.member(key)?.as_str()?;
        Some(one_line(text, MAX_BUILD_CHARS)).filter(|text| !text.is_empty())
    };
    match (member("version"), member("protocolVersion")) {
        (Some(version), Some(protocol)) => Some(format!("version {version}, protocol {protocol}")),
        (Some(version), None) => Some(format!("version {version}")),
        (None, Some(protocol)) => Some(format!("protocol {protocol}")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests;
