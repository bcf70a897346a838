//! Notices: messages that a machine writes by itself, for the outbox to carry. They are kept out of the conversation, and
//! nobody answers them.
use muretai_protocol::{
    Did, MessageId, UnixSeconds,
    json::{Object, Value},
    message::{self, Draft, Role},
};
use muretai_store::{
    StoreError,
    messages::Outgoing,
    outbox::Keep,
};

use crate::{Agent, receive::return_address::{ReturnAddress, notice_expires}};

/// A notice to somebody.
pub(crate) struct Notice<'a> {
    /// Whom.
    pub(crate) to: &'a Did,
    /// Its id; a notice whose id is in the store is not written again.
    pub(crate) message_id: MessageId,
    /// The conversation.
    pub(crate) context_id: Option<&'a str>,
    /// The message that it is about.
    pub(crate) reply_to: Option<&'a str>,
    /// The word that says what it is about.
    pub(crate) status: &'a str,
    /// What it says.
    pub(crate) text: &'a str,
    /// Further unsigned metadata.
    pub(crate) extra: Object,
    /// Where it goes when nobody knows where its recipient is.
    pub(crate) fallback: Option<&'a ReturnAddress>,
}

impl Agent {
    /// Writes a notice and puts it into the outbox.
    pub(crate) async fn post_notice(&self, notice: Notice<'_>, now: UnixSeconds) -> Result<(), StoreError> {
        if self.store().outgoing(notice.message_id.as_str()).await?.is_some() {
            return Ok(());
        }
        let outgoing = self.outgoing_notice(notice, now);
        self.store().queue_outgoing(&outgoing).await?;
        self.outbox_written().notify_one();
        Ok(())
    }

    /// A notice as the store takes it, for those who write it together with something else.
    pub(crate) fn outgoing_notice(&self, notice: Notice<'_>, now: UnixSeconds) -> Outgoing {
        let mut extra = notice.extra;
        extra.insert("auto".to_owned(), true.into());
        extra.insert("status".to_owned(), notice.status.into());
        if let Some(reply_to) = notice.reply_to {
            extra.insert("replyTo".to_owned(), reply_to.into());
        }
        let kept = Value::from(extra.clone()).to_json();
        let draft = Draft {
            role: Role::User,
            to: notice.to.as_str(),
            message_id: &notice.message_id,
            context_id: notice.context_id,
            text: notice.text,
            timestamp: now,
            extra,
        };
        let signed = message::sign(self.key(), &draft);
        let sig = signed.member("metadata").and_then(|metadata| metadata.member("sig")).and_then(Value::as_str);
        Outgoing {
            peer: notice.to.to_string(),
            message_id: notice.message_id.as_str().to_owned(),
            context_id: notice.context_id.map(str::to_owned),
            reply_to: notice.reply_to.map(str::to_owned),
            text: notice.text.to_owned(),
            timestamp: now,
            sig: sig.map(str::to_owned),
            target: None,
            is_auto: true,
            keep: Some(Keep {
                expires: notice_expires(now),
                via: None,
                extra: Some(kept),
            }),
        }
    }
}
