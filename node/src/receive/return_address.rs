//! Where the answer to a letter goes. Nobody waits for it, and what a relay says about a letter proves nothing: whoever
//! signed the message is its sender, and the key that opened the letter is whoever's sealed it.
use muretai_protocol::{
    UnixSeconds,
    json::{Object, Value},
    message::Message,
    relay::MAILBOX_RETENTION_SECS,
    urls,
};
use muretai_store::{contacts::Coordinates, messages::ReplyBy};
use muretai_transports::Postmark;

use crate::{Agent, receive::ladder::Passed};

/// Longest relay URL that is kept, and that is read out of a message.
const MAX_RELAY_BYTES: usize = 2_048;

/// Where a letter came from, as far as an answer has to know.
#[derive(Debug, Clone)]
pub(crate) struct ReturnAddress {
    /// The relay where the sender says that its own mailbox is.
    named: Option<String>,
    /// The relay that the letter was fetched from.
    relay: String,
    /// The key that opened the letter.
    enc_pub: Option<String>,
}

impl ReturnAddress {
    /// Of a letter, from what its message and its relay say. To be asked while the message has its metadata.
    ///
    /// Whoever has a copy of a message can seal it once more with a key of its own. So the key, and the relay that is
    /// named unsigned, count only when the deposit is of the message's sender, which honest relays check.
    pub(crate) fn of(message: &Message, postmark: &Postmark) -> ReturnAddress {
        if message.meta("from").and_then(Value::as_str) != Some(postmark.from.as_str()) {
            return ReturnAddress { named: None, relay: postmark.relay.clone(), enc_pub: None };
        }
        let named = message.meta("relay").and_then(Value::as_str);
        let named = named.filter(|relay| relay.len() <= MAX_RELAY_BYTES && urls::is_plain_url(relay));
        ReturnAddress {
            named: named.map(|relay| relay.trim_end_matches('/').to_owned()),
            relay: postmark.relay.clone(),
            enc_pub: postmark.enc_pub.clone(),
        }
    }

    /// The same when nobody knows the message any more.
    pub(crate) fn of_postmark(postmark: &Postmark) -> ReturnAddress {
        ReturnAddress { named: None, relay: postmark.relay.clone(), enc_pub: postmark.enc_pub.clone() }
    }

    /// The way of a reply with this unsigned metadata; a contact's own coordinates go before it.
    pub(crate) fn reply_by(&self, extra: &Object, now: UnixSeconds) -> ReplyBy {
        ReplyBy {
            extra: Some(Value::from(extra.clone()).to_json()),
            relay: Some(self.named.as_ref().unwrap_or(&self.relay).clone()),
            enc_pub: self.enc_pub.clone(),
            expires: Some(notice_expires(now)),
        }
    }

    /// Relay and key for a notice.
    pub(crate) fn fallback(&self) -> Option<(String, String)> {
        Some((self.named.as_ref().unwrap_or(&self.relay).clone(), self.enc_pub.clone()?))
    }

    /// Fills what is not known yet of a contact that wrote: the weakest word there is, which replaces nothing. A fault
    /// with it never costs the message.
    pub(crate) async fn teach(&self, agent: &Agent, passed: &Passed) {
        let standing = &passed.standing;
        if standing.is_blocked || !(standing.is_direct || standing.is_introduced) {
            return;
        }
        let told = Coordinates { relay: self.named.clone(), enc_pub: self.enc_pub.clone(), ..Coordinates::default() };
        if let Err(error) = agent.store().fill_coordinates(passed.verified.from(), &told).await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "where a contact has its mailbox could not be stored");
        }
    }
}

/// When a reply or a notice that nobody fetches is given up.
pub(crate) fn notice_expires(now: UnixSeconds) -> UnixSeconds {
    UnixSeconds(now.0.saturating_add(MAILBOX_RETENTION_SECS))
}
