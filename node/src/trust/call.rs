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
use muretai_transports::{MailboxAddress, TransportError, guard::Policy};
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

mod relayed;

pub(crate) use relayed::{Relayed, before_relay};

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
    /// The id of a call that may have been made before, or that the caller has to know first; `None` takes a fresh one.
    pub(crate) message_id: Option<MessageId>,
    /// What it asks for comes later, by itself: an agent that is nowhere else waits for it at the peer's relay.
    pub(crate) is_answered_later: bool,
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
    /// Makes the call: directly, and where nobody is there through the peer's relay, under the same message id. A refusal
    /// is [`SendError::Refused`] with the peer's code; `-32601` names the peer's build.
    ///
    /// # Errors
    /// [`TrustError::AtRelay`] when the relay has the call and the peer does not listen.
    pub(crate) async fn call(&self, peer: &ResolvedPeer, call: Call<'_>) -> Result<Value, TrustError> {
        let deadline = Instant::now() + call.timeout;
        let attempt = Attempt {
            peer,
            call: &call,
            message_id: call.message_id.clone().unwrap_or_else(|| MessageId::from_random(random())),
        };
        match &peer.mailbox {
            None if peer.url.is_empty() => {
                let (who, is_contact) = (peer.did.to_string(), peer.name.is_some());
                Err(SendError::NoAddress { who, is_contact }.into())
            }
            None => self.call_directly(&attempt, deadline).await,
            Some(mailbox) if peer.url.is_empty() => self.call_by_relay(&attempt, mailbox, deadline).await,
            Some(mailbox) => match self.call_directly(&attempt, before_relay(deadline)).await {
                Err(error) if is_nobody(&error) => self.call_by_relay(&attempt, mailbox, deadline).await,
                result => result,
            },
        }
    }

    async fn call_directly(&self, attempt: &Attempt<'_>, deadline: Instant) -> Result<Value, TrustError> {
        let Attempt { peer, call, message_id } = attempt;
        let url = urls::post_address(&peer.url);
        let place = Place { url: &url, policy: peer.policy, deadline, each: call.timeout };
        let is_again = call.message_id.is_some();
        let id = message_id.as_str().to_owned();
        let mut attempts = 0;
        for round in 1.. {
            let sending = self.exchange(&place, || {
                attempts += 1;
                (id.clone(), self.call_body(attempt, call.params.clone()))
            });
            let said = sending.await.map_err(|nothing| attempt.no_answer(nothing, &url))?;
            let refusal = match attempt.read(said, &url) {
                Ok(Err(refusal)) => refusal,
                Ok(Ok(result)) => return Ok(result),
                Err(error) => return Err(error),
            };
            // Seen and not stored: our own first copy, which is still being worked on.
            let is_in_hand = refusal.code == Code::ReplayOrStale.number() && (attempts > 1 || is_again);
            if !is_in_hand || round == ATTEMPTS || !pause(round, place.deadline).await {
                return Err(sorted(refusal, call.method, id));
            }
        }
        unreachable!("the last round returns")
    }

    /// Through the peer's relay, once: the relay keeps what the peer does not take now.
    async fn call_by_relay(
        &self,
        attempt: &Attempt<'_>,
        mailbox: &MailboxAddress,
        deadline: Instant,
    ) -> Result<Value, TrustError> {
        let Attempt { peer, call, message_id } = attempt;
        let (id, relay) = (message_id.as_str(), mailbox.relay.as_str());
        let told = |key: &str| call.params.contains_key(key);
        let is_homeless = call.is_answered_later && !told("url") && !told("relay");
        let params = match is_homeless {
            true => with(&call.params, "relay", relay),
            false => call.params.clone(),
        };
        let body = self.call_body(attempt, params);
        let sending = self.by_relay(&peer.did, mailbox, (id, body), deadline, call.timeout);
        let relayed = sending.await.map_err(|nothing| attempt.no_answer(nothing, relay))?;
        if is_homeless {
            // Only now: the guard let it be dialled, and it is a relay.
            self.settle_at(mailbox).await?;
        }
        match relayed {
            Relayed::Left { relay } => {
                Err(TrustError::AtRelay { relay, method: call.method, message_id: id.to_owned() })
            }
            Relayed::Said(said) => match attempt.read(said, relay)? {
                Ok(result) => Ok(result),
                Err(refusal) => Err(sorted(refusal, call.method, id.to_owned())),
            },
        }
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
    fn call_body(&self, attempt: &Attempt<'_>, mut params: Object) -> String {
        let Attempt { peer, call, message_id } = attempt;
        let draft = Draft {
            role: Role::User,
            to: peer.did.as_str(),
            message_id,
            context_id: None,
            text: call.text,
            timestamp: now(),
            extra: Object::new(),
        };
        params.insert("message".to_owned(), message::sign(self.key(), &draft));
        rpc::request(message_id.as_str(), call.method, &params.into())
    }
}

/// A call to a peer, under one id on every way.
struct Attempt<'a> {
    peer: &'a ResolvedPeer,
    call: &'a Call<'a>,
    message_id: MessageId,
}

impl Attempt<'_> {
    /// The result, or a refusal that says nothing about an earlier copy.
    fn read(&self, said: Response, url: &str) -> Result<Result<Value, PeerRefusal>, TrustError> {
        let (url, message_id) = (url.to_owned(), self.message_id.as_str().to_owned());
        match said {
            Response::Result(result) => Ok(Ok(result)),
            Response::Refusal(refusal) if refusal.is_duplicate() => {
                Err(TrustError::AnswerLost { url, method: self.call.method })
            }
            Response::Refusal(refusal) => Ok(Err(refusal)),
            Response::Status { status, retry_after } => {
                Err(SendError::HttpStatus { url, status, retry_after, message_id }.into())
            }
            Response::NotAnAnswer(what) => Err(SendError::NotAnAnswer { url, what, message_id }.into()),
        }
    }

    fn no_answer(&self, nothing: NoAnswer, url: &str) -> TrustError {
        let (url, message_id) = (url.to_owned(), self.message_id.as_str().to_owned());
        match nothing {
            NoAnswer::TimedOut { after } => SendError::TimedOut { url, after, message_id }.into(),
            NoAnswer::Transport { attempts, source } => {
                SendError::Transport { url, attempts, message_id, source }.into()
            }
        }
    }
}

fn with(params: &Object, key: &str, value: &str) -> Object {
    let mut params = params.clone();
    params.insert(key.to_owned(), value.into());
    params
}

/// Whether nobody said anything, so that another way is worth a try.
fn is_nobody(error: &TrustError) -> bool {
    match error {
        TrustError::Send(SendError::Transport { .. } | SendError::TimedOut { .. }) => true,
        TrustError::Send(SendError::HttpStatus { status, .. }) => matches!(status, 429 | 502..=504),
        _ => false,
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
