//! Notices of a machine that need no answer and may take their time: written to the outbox, sent by whoever sends that.
use muretai_protocol::{
    Did, MessageId, UnixSeconds,
    json::{Object, Value},
};
use muretai_store::{StoreError, messages::Outgoing, outbox::Keep};

use crate::{
    Agent,
    agent::{now, random},
    send::{backoff::LIFE_SECS, outbox::notice},
};

/// A notice to leave for a peer.
#[derive(Debug)]
pub(crate) struct Notice {
    /// Whom it is for.
    pub(crate) to: Did,
    /// The word that says what it is about.
    pub(crate) status: &'static str,
    /// For people; may be empty.
    pub(crate) text: String,
    /// The id of the peer's message that it is about.
    pub(crate) reply_to: Option<String>,
    /// The conversation.
    pub(crate) context_id: Option<String>,
    /// Further unsigned metadata.
    pub(crate) extra: Object,
    /// Relay and sealing key to fall back on where the peer is no contact, or one without a mailbox.
    pub(crate) fallback: Option<(String, String)>,
}

impl Agent {
    /// Leaves a notice in the outbox, in its place behind what waits there for the same peer; gives its id. It is tried
    /// for seven days.
    pub(crate) async fn leave_notice(&self, what: Notice) -> Result<String, StoreError> {
        let message_id = MessageId::from_random(random());
        self.leave_notice_as(&message_id, what).await?;
        Ok(message_id.as_str().to_owned())
    }

    /// The same under an id that stands for what it is about: one that was left before is not left again.
    pub(crate) async fn leave_notice_as(&self, message_id: &MessageId, what: Notice) -> Result<(), StoreError> {
        if self.store().outgoing(message_id.as_str()).await?.is_some() {
            return Ok(());
        }
        let outgoing = outgoing_notice(message_id, what);
        self.store().queue_outgoing(&outgoing).await?;
        self.outbox_written().notify_one();
        Ok(())
    }
}

/// A notice as the store takes it, for whoever writes it together with something else.
pub(crate) fn outgoing_notice(message_id: &MessageId, what: Notice) -> Outgoing {
    let mut extra = notice(what.extra, what.status);
    if let Some(reply_to) = &what.reply_to {
        extra.insert("replyTo".to_owned(), reply_to.as_str().into());
    }
    let (relay, enc_pub) = what.fallback.unzip();
    let timestamp = now();
    Outgoing {
        peer: what.to.to_string(),
        message_id: message_id.as_str().to_owned(),
        context_id: what.context_id,
        reply_to: what.reply_to,
        text: what.text,
        timestamp,
        sig: None,
        target: None,
        is_auto: true,
        keep: Some(Keep {
            expires: UnixSeconds(timestamp.0 + LIFE_SECS),
            via: None,
            allow_private: false,
            extra: Some(Value::from(extra).to_json()),
            relay,
            enc_pub,
            lease: None,
        }),
    }
}
