//! Letters: requests that lay in a mailbox. They climb the same ladder, and nobody waits for what comes of it: an answer
//! is a letter of its own, a refusal is kept for the owner to see, and its sender hears of it when the owner knows it.
use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;
use muretai_protocol::{
    Did, MessageId, UnixSeconds, a2a,
    json::{self, Object, Value},
    message::{Message, Verified},
    rpc::{Code, Id, Refusal},
    text,
};
use muretai_store::{
    StoreError,
    contacts::Relation,
    messages::Direction,
    outbox::RejectedLetter,
    requests::{RequestKind, RequestRow},
};
use muretai_transports::{Outcome, Postmark};
use sha2::{Digest, Sha256};

use super::{Receiver, answer_body, frame, log, log::Line};
use crate::{
    Agent,
    receive::{
        frame::Request, gate::verdicts, ladder::Window, methods::about::REFUSED, refusals as say, replay::Key,
        return_address::ReturnAddress,
    },
    send::notice::Notice,
};

/// Characters of a sender and of an id that are kept of what was refused.
const MAX_SHOWN_CHARS: usize = 128;

/// A request whose message is proven to be of its sender, whatever else is wrong with it.
struct Proven {
    verified: Verified,
    is_claim: bool,
    is_respond: bool,
}

impl Receiver {
    /// Takes a letter, for good or for bad: status 200. 503 when it has to be brought again.
    pub(super) async fn take_letter(&self, body: &Bytes, a2a_version: Option<&str>, postmark: &Postmark) -> Outcome {
        let now = crate::agent::now();
        let (id, result) = self.judge_letter(body, a2a_version, postmark, now).await;
        let is_taken = match &result {
            Ok(_) => true,
            Err(refusal) if is_passing(refusal) => false,
            // What was handled before is confirmed to the relay, and to nobody else (4.5).
            Err(refusal) if *refusal == say::duplicate() => {
                self.repost(body, postmark, now).await;
                true
            }
            Err(refusal) => self.keep_refusal(body, postmark, refusal, now).await.is_ok_and(|()| true),
        };
        Outcome { status: if is_taken { 200 } else { 503 }, body: answer_body(&id, &result) }
    }

    async fn judge_letter(
        &self,
        body: &[u8],
        a2a_version: Option<&str>,
        postmark: &Postmark,
        now: UnixSeconds,
    ) -> (Id, Result<Value, Refusal>) {
        let Request { id, call, message } = match frame::read(body, a2a_version, self.inner.profile) {
            Ok(request) => request,
            Err(rejected) => {
                log::rejected(None, &rejected.refusal);
                return (rejected.id, Err(rejected.refusal));
            }
        };
        let line = Line::begin(&message, None);
        let back = ReturnAddress::of(&message, postmark);
        let (result, policy) = match self.inner.ladder.climb_in(Window::Mail, message, now).await {
            Ok(passed) => verdicts::noted(self.answer(call, passed, now, Some(back), true)).await,
            Err(refusal) => (Err(refusal), None),
        };
        line.end(result.as_ref().err(), policy.as_deref());
        (id, result)
    }

    /// Posts the reply of a message that was handled before this process began: its relay brings it again because it was
    /// not acknowledged, so nobody knows whether somebody who waited heard the answer. It is the same reply under the same
    /// id, and once for each message.
    async fn repost(&self, body: &[u8], postmark: &Postmark, now: UnixSeconds) {
        let agent = &self.inner.agent;
        let Some(Proven { verified, is_claim: false, .. }) = proven(body, agent.did(), now) else { return };
        let message = verified.message();
        let asked = message.message_id.as_str();
        let reply = match agent.store().reply_to(verified.from(), asked).await {
            Ok(Some(reply)) if reply.received < self.inner.began => reply,
            Ok(_) => return,
            Err(error) => return not_kept(&error),
        };
        if is_auto(message) || !self.inner.reposted.admit(verified.from(), asked) {
            return;
        }
        let mut extra = Object::from([("replyTo".to_owned(), asked.into())]);
        if reply.is_auto {
            let status = if reply.text.is_empty() { "accepted" } else { "no-answer" };
            extra.insert("auto".to_owned(), true.into());
            extra.insert("status".to_owned(), status.into());
        }
        let by = ReturnAddress::of(message, postmark).reply_by(&extra, now);
        match agent.store().post_reply(verified.from(), &reply.message_id, &by).await {
            Ok(true) => agent.outbox_written().notify_one(),
            Ok(false) => {}
            Err(error) => not_kept(&error),
        }
    }

    /// Keeps a refusal for the owner, and tells it to a direct contact.
    async fn keep_refusal(
        &self,
        body: &[u8],
        postmark: &Postmark,
        refusal: &Refusal,
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        let agent = &self.inner.agent;
        let proven = proven(body, agent.did(), now);
        self.file_refusal(body, proven.as_ref(), postmark, (refusal.code.number(), words(refusal)), now).await?;
        if let Some(proven @ Proven { is_claim: false, .. }) = proven {
            let back = ReturnAddress::of(proven.verified.message(), postmark);
            tell(agent, &proven, refusal, &back).await.inspect_err(not_kept)?;
        }
        self.inner.tally.rejected(&postmark.relay);
        Ok(())
    }

    /// Keeps the refusal of a call for the owner, whose relay tells that it was heard. One that only asks for patience, and
    /// one of what was handled before, says nothing about the request; who called comes again, or has its answer.
    pub(super) async fn note_heard(&self, postmark: &Postmark, request: &Bytes, answer: &Bytes) {
        let Ok(answer) = json::parse(answer) else { return };
        let Some(error) = answer.member("error") else { return };
        let code = error.member("code").and_then(Value::as_i64).unwrap_or_default();
        let data = |name: &str| error.member("data").and_then(|data| data.member(name));
        let is_passing = code == Code::Internal.number() || code == Code::RateLimited.number();
        if is_passing
            || data("duplicate").is_some()
            || data("detail").and_then(Value::as_str) == say::in_hand().detail()
        {
            return;
        }
        let said = data("detail").or_else(|| error.member("message")).and_then(Value::as_str).unwrap_or_default();
        let now = crate::agent::now();
        let proven = proven(request, self.inner.agent.did(), now);
        // A failure is in the log; the caller has its answer, and nobody is to ask again.
        let _ = self.file_refusal(request, proven.as_ref(), postmark, (code, said), now).await;
    }

    /// Writes down what was refused and why.
    async fn file_refusal(
        &self,
        body: &[u8],
        proven: Option<&Proven>,
        postmark: &Postmark,
        (code, words): (i64, &str),
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        let (from, id) = match proven {
            Some(Proven { verified, .. }) => (verified.from().as_str(), verified.message().message_id.as_str()),
            None => (postmark.from.as_str(), postmark.id.as_str()),
        };
        let letter = RejectedLetter {
            received: now,
            relay: postmark.relay.clone(),
            from: text::one_line(from, MAX_SHOWN_CHARS),
            id: text::one_line(id, MAX_SHOWN_CHARS),
            reason: words.to_owned(),
            code: Some(code),
            bytes: body.len() as u64,
        };
        self.inner.agent.store().add_rejected(&letter).await.inspect_err(not_kept)
    }
}

/// Whether the letter may be taken another time: ours is the fault, or another copy of it is being answered.
fn is_passing(refusal: &Refusal) -> bool {
    refusal.code == Code::Internal || *refusal == say::in_hand()
}

/// A machine's words.
fn is_auto(message: &Message) -> bool {
    message.meta("auto").and_then(Value::as_bool) == Some(true)
}

/// Messages whose replies were posted again. Beyond what it remembers nothing is posted again.
#[derive(Debug, Default)]
pub(super) struct Reposted(Mutex<HashSet<Key>>);

/// What [`Reposted`] remembers, 32 bytes each.
const MAX_REPOSTED: usize = 4_096;

impl Reposted {
    fn admit(&self, from: &Did, message_id: &str) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.len() < MAX_REPOSTED && seen.insert(Key::new(from.as_str(), message_id))
    }
}

/// A refusal in words.
fn words(refusal: &Refusal) -> &str {
    refusal.detail().unwrap_or_else(|| refusal.code.message())
}

/// Tells a direct contact, or whoever accepts a request that is no longer open, that its letter was refused; a notice and
/// an id that was used twice get nothing. Told again, it is the same notice.
async fn tell(agent: &Agent, proven: &Proven, refusal: &Refusal, back: &ReturnAddress) -> Result<(), StoreError> {
    let (asked, message) = (&proven.verified, proven.verified.message());
    if is_auto(message) || *refusal == say::repeated() || !may_hear(agent, proven, refusal).await? {
        return Ok(());
    }
    let code = refusal.code.number();
    let notice = Notice {
        to: asked.from().clone(),
        status: REFUSED,
        text: format!("refused {code}: {}", words(refusal)),
        reply_to: Some(message.message_id.as_str().to_owned()),
        context_id: message.context_id.clone(),
        extra: Object::from([("code".to_owned(), code.into())]),
        fallback: back.fallback(),
    };
    agent.leave_notice_as(&notice_id(asked, code), notice).await
}

/// Whether a sender hears that its letter was refused. Somebody who was asked to connect, and accepts too late, trusts
/// this agent in vain until it hears so.
async fn may_hear(agent: &Agent, proven: &Proven, refusal: &Refusal) -> Result<bool, StoreError> {
    let from = proven.verified.from();
    let contact = agent.store().contact(from).await?;
    match contact {
        Some(contact) if contact.is_blocked => return Ok(false),
        Some(contact) if contact.relation == Relation::Direct => return Ok(true),
        _ => {}
    }
    if !proven.is_respond || refusal.code != Code::NoSuchPendingRequest {
        return Ok(false);
    }
    let asked = agent.store().requests(true, crate::agent::now()).await?;
    let is_connect = |row: &RequestRow| row.direction == Direction::Out && row.kind == RequestKind::Connect;
    Ok(asked.iter().any(|row| row.peer == *from && is_connect(row)))
}

/// The same for the same refusal of the same message.
fn notice_id(asked: &Verified, code: i64) -> MessageId {
    let digest = Sha256::new()
        .chain_update(asked.to())
        .chain_update("|")
        .chain_update(asked.from().as_str())
        .chain_update("|")
        .chain_update(code.to_string())
        .chain_update("|")
        .chain_update(asked.message().message_id.as_str())
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    MessageId::from_random(bytes)
}

/// Who wrote a letter that was refused, when its signature says so. Looks at as much as the refusal may have left unread.
fn proven(body: &[u8], me: &Did, now: UnixSeconds) -> Option<Proven> {
    let Ok(Value::Object(mut frame)) = json::parse(body) else { return None };
    let method = frame.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(Value::Object(mut params)) = frame.remove("params") else { return None };
    let Some(Value::Object(message)) = params.remove("message") else { return None };
    let message = if method == "SendMessage" { a2a::message_from_v1(message) } else { message };
    let envelope = Message::from_value(message.into()).ok()?.into_envelope().ok().filter(|it| it.is_for(me))?;
    let verified = envelope.verify(now).ok()?;
    Some(Proven { verified, is_claim: method == "onboard/claim", is_respond: method == "connect/respond" })
}

fn not_kept(error: &StoreError) {
    tracing::error!(error = error as &dyn std::error::Error, "what became of a letter could not be stored");
}
