//! Answers that nobody heard: who asked through a relay, and waited, was gone when the answer came. The request is done;
//! its reply goes the way of the answer to a letter.
use bytes::Bytes;
use muretai_protocol::{
    Did, a2a,
    json::{self, Object, Value},
    message::Message,
};
use muretai_store::{StoreError, messages::Outgoing, outbox::Keep};
use muretai_transports::Postmark;

use super::Receiver;
use crate::receive::{
    methods::{claim, send::is_notice},
    return_address::ReturnAddress,
};

impl Receiver {
    /// Puts the reply in such an answer into the outbox, and that a claim was accepted. Results of other methods are not
    /// sent: who asked asks again. `false` after a refusal, which changed nothing: the request is judged anew as a letter.
    pub(super) async fn post_unheard(&self, postmark: &Postmark, answer: &Bytes) -> bool {
        let Ok(Value::Object(mut frame)) = json::parse(answer) else { return false };
        let Some(result) = frame.remove("result") else { return false };
        let id = frame.remove("id").unwrap_or(Value::Null);
        let posted = match claim::accepted_unheard(&self.inner.agent, postmark, (&id, &result)).await {
            Ok(false) => match reply_in(result) {
                Some(reply) => self.post(postmark, &reply).await,
                None => return true,
            },
            posted => posted,
        };
        match posted {
            Ok(true) => self.inner.agent.outbox_written().notify_one(),
            Ok(false) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "a reply that nobody heard could not be put into the outbox");
            }
        }
        true
    }

    async fn post(&self, postmark: &Postmark, reply: &Message) -> Result<bool, StoreError> {
        let agent = &self.inner.agent;
        let Some(to) = reply.meta("to").and_then(Value::as_str).and_then(|to| to.parse::<Did>().ok()) else {
            return Ok(false);
        };
        let extra: Object = reply.metadata.clone().into_iter().filter(|(key, _)| !is_envelope(key)).collect();
        let by = ReturnAddress::of_postmark(postmark).reply_by(&extra, crate::agent::now());
        if agent.store().post_reply(&to, reply.message_id.as_str(), &by).await? {
            return Ok(true);
        }
        // That a message is held is said by a reply that is not kept; everything else is.
        let is_held = is_notice(reply) && reply.meta("status").and_then(Value::as_str) == Some("held");
        if !is_held || agent.store().outgoing(reply.message_id.as_str()).await?.is_some() {
            return Ok(false);
        }
        let text_of = |key| reply.meta(key).and_then(Value::as_str).map(str::to_owned);
        let now = crate::agent::now();
        agent
            .store()
            .queue_outgoing(&Outgoing {
                peer: to.to_string(),
                message_id: reply.message_id.as_str().to_owned(),
                context_id: reply.context_id.clone(),
                reply_to: text_of("replyTo"),
                text: reply.text.clone(),
                timestamp: now,
                sig: text_of("sig"),
                target: None,
                is_auto: true,
                keep: Some(Keep {
                    expires: by.expires.unwrap_or(now),
                    via: None,
                    extra: by.extra,
                    relay: by.relay,
                    enc_pub: by.enc_pub,
                    allow_private: false,
                    lease: None,
                }),
            })
            .await?;
        Ok(true)
    }
}

/// The reply in a result of ours, in either shape.
fn reply_in(result: Value) -> Option<Message> {
    let Value::Object(mut result) = result else { return None };
    let message = match result.remove("message") {
        Some(Value::Object(message)) => a2a::message_from_v1(message),
        _ => result,
    };
    Message::from_value(message.into()).ok()
}

fn is_envelope(key: &str) -> bool {
    matches!(key, "from" | "to" | "sig" | "timestamp")
}
