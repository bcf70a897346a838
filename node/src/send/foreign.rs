//! A2A agents without a DID, 0.2 to 1.0. Nothing that they say can be verified, and it is marked so everywhere.
use std::sync::OnceLock;

use bytes::Bytes;
use muretai_protocol::{
    MessageId,
    a2a::{self, Interface},
    json::Value,
    rpc::Code,
};
use muretai_store::messages::{Answered, MessageRow, OutStatus, Outgoing};
use muretai_transports::{TransportError, TransportName, guard::Policy, http::Fetched};
use tokio::time::Instant;

use crate::{
    Agent,
    agent::{now, random},
    send::{
        SendError, SendRequest, Sent, SentReply, SentStatus,
        answer::{self, PeerRefusal, Response},
        outbox::{VERSION_HEADER, refused},
    },
};

/// One message to a foreign agent.
struct Call<'a> {
    agent: &'a Agent,
    request: &'a SendRequest,
    message_id: String,
    interface: Interface,
    policy: Policy,
    deadline: Instant,
    attempts: u32,
}

/// Sends one unsigned message, in the version that the card names, to the address as the card spells it.
///
/// One call makes one POST: without signed ids nobody promises that a second one is not a second message. The one
/// exception is `-32601`, after which the other version's method is tried, since the first was not understood.
pub(crate) async fn send(
    agent: &Agent,
    request: &SendRequest,
    card: &Value,
    card_url: &str,
    deadline: Instant,
    again: Option<&MessageRow>,
    stored: &OnceLock<String>,
) -> Result<Sent, SendError> {
    let no_interface = || SendError::ForeignNoInterface { url: card_url.to_owned() };
    let interface = a2a::interface_of(card).ok_or_else(no_interface)?;
    // The owner typed the card's origin. Another origin in the card is the stranger's word.
    let same_origin = muretai_protocol::urls::origin(&interface.url) == muretai_protocol::urls::origin(card_url);
    let policy = match same_origin {
        true => Policy::Owner,
        false => agent.policy_for_named(&interface.url, request.allow_private),
    };
    let (seq, message_id) = match again {
        None => queue(agent, request, card_url).await?,
        Some(row) => {
            agent.store().requeue_outgoing(row.seq, now(), None, None).await?;
            (row.seq, row.message_id.clone())
        }
    };
    stored.set(message_id.clone()).ok();
    let mut call = Call { agent, request, message_id, interface, policy, deadline, attempts: 0 };
    match call.run().await {
        Ok(sent) => {
            let reply = sent.reply.as_ref().map(answered);
            agent.store().record_outcome(seq, OutStatus::Delivered, reply.as_ref()).await?;
            Ok(sent)
        }
        Err(error) => {
            if let Some(status) = status_of(&error) {
                agent.store().record_outcome(seq, status, None).await?;
            }
            Err(if error.is_kept() { SendError::NotKept(error.into()) } else { error })
        }
    }
}

async fn queue(agent: &Agent, request: &SendRequest, card_url: &str) -> Result<(i64, String), SendError> {
    let message_id = MessageId::from_random(random()).as_str().to_owned();
    let outgoing = Outgoing {
        peer: card_url.to_owned(),
        message_id: message_id.clone(),
        context_id: request.context_id.clone(),
        reply_to: request.reply_to.clone(),
        text: request.text.clone(),
        timestamp: now(),
        sig: None,
        target: None,
        is_auto: false,
        keep: None,
    };
    Ok((agent.store().queue_outgoing(&outgoing).await?, message_id))
}

/// What a failure says about the message; `None` when it may have arrived or may yet be taken.
fn status_of(error: &SendError) -> Option<OutStatus> {
    match error {
        SendError::Refused { code, .. } if *code == Code::Internal.number() => None,
        SendError::Refused { .. } => Some(OutStatus::Refused),
        SendError::Transport { source, .. } if source.is_unreachable() => Some(OutStatus::Failed),
        SendError::ForeignNoText { .. } => Some(OutStatus::Delivered),
        _ => None,
    }
}

impl Call<'_> {
    async fn run(&mut self) -> Result<Sent, SendError> {
        match self.attempt().await? {
            Ok(sent) => Ok(sent),
            Err(refusal) if refusal.code == Code::MethodNotFound.number() => {
                self.interface.version = self.interface.version.other();
                self.attempt().await?.map_err(|refusal| refused(refusal, self.message_id.clone()))
            }
            Err(refusal) => Err(refused(refusal, self.message_id.clone())),
        }
    }

    async fn attempt(&mut self) -> Result<Result<Sent, PeerRefusal>, SendError> {
        self.attempts += 1;
        let response = self.post().await?;
        let url = self.interface.url.clone();
        let message_id = self.message_id.clone();
        match answer::sort(&response, &self.message_id) {
            Response::Refusal(refusal) => Ok(Err(refusal)),
            Response::Status { status, retry_after } => {
                Err(SendError::HttpStatus { url, status, retry_after, message_id })
            }
            Response::NotAnAnswer(what) => Err(SendError::NotAnAnswer { url, what, message_id }),
            Response::Result(result) => match a2a::text_of_result(&result) {
                Some(text) => Ok(Ok(self.sent(&result, text))),
                None => Err(SendError::ForeignNoText { url, message_id }),
            },
        }
    }

    async fn post(&self) -> Result<Fetched, SendError> {
        let Interface { url, version } = &self.interface;
        let body = a2a::unsigned_request(
            *version,
            &self.message_id,
            &self.message_id,
            self.request.context_id.as_deref(),
            &self.request.text,
        );
        let headers: Vec<_> = version.header().map(|v| (VERSION_HEADER, v.to_owned())).into_iter().collect();
        let call = self.agent.inner.http.post(url, Bytes::from(body), &headers, self.policy);
        let message_id = self.message_id.clone();
        match tokio::time::timeout_at(self.deadline, call).await {
            Ok(Ok(fetched)) => Ok(fetched),
            Ok(Err(source)) => Err(self.not_through(source)),
            Err(_) => Err(SendError::TimedOut { url: url.clone(), after: self.request.timeout, message_id }),
        }
    }

    fn not_through(&self, source: TransportError) -> SendError {
        let (url, message_id) = (self.interface.url.clone(), self.message_id.clone());
        SendError::Transport { url, attempts: self.attempts, message_id, source }
    }

    fn sent(&self, result: &Value, text: String) -> Sent {
        let inner = ["message", "task"].iter().find_map(|key| result.member(key)).unwrap_or(result);
        let member = |key: &str| inner.member(key).and_then(Value::as_str).map(str::to_owned);
        // A task has no message id; what stands for it is its own id.
        let reply_id = member("messageId").or_else(|| member("id")).filter(|id| !id.trim().is_empty());
        let reply = SentReply {
            message_id: reply_id.unwrap_or_else(|| MessageId::from_random(random()).as_str().to_owned()),
            text,
            from: None,
            timestamp: None,
            is_verified: false,
            is_auto: false,
            status: None,
            context_id: member("contextId"),
            commands: Vec::new(),
        };
        Sent {
            message_id: self.message_id.clone(),
            to: None,
            to_name: None,
            is_blocked: false,
            via: TransportName::Http,
            url: self.interface.url.clone(),
            context_id: reply.context_id.clone().or_else(|| self.request.context_id.clone()),
            status: SentStatus::Answered,
            reply: Some(reply),
            attempts: self.attempts,
        }
    }
}

fn answered(reply: &SentReply) -> Answered {
    Answered {
        message_id: reply.message_id.clone(),
        context_id: reply.context_id.clone(),
        text: reply.text.clone(),
        timestamp: now(),
        received: now(),
        sig: None,
        is_verified: false,
        is_auto: false,
        digest: None,
        extra: None,
    }
}

#[cfg(test)]
mod tests;
