//! A message that is in the store and was not delivered, sent once more under its own id.
use std::{sync::OnceLock, time::Duration};

use muretai_protocol::{Did, json::Value};
use muretai_store::messages::{MessageRow, OutStatus};
use muretai_transports::guard::Policy;
use tokio::time::{Instant, timeout_at};

use crate::{
    Agent,
    send::{
        SendError, SendRequest, Sent,
        delivery::Delivery,
        flush::How,
        foreign,
        outbox::extra_for,
        peer::{CardFetchError, FetchedCard},
        resolve::Recipient,
    },
};

/// What to send again.
#[derive(Debug, Clone)]
pub struct ResendRequest {
    /// The id of the message.
    pub message_id: String,
    /// For everything together.
    pub timeout: Duration,
    /// Connection failures are tried again this often.
    pub retries: u32,
    /// Dial loopback and private addresses that a peer named.
    pub allow_private: bool,
}

impl Agent {
    /// Sends a message again that is queued, at a relay, expired or failed: with its own id, which makes a peer that has
    /// it say so instead of taking it twice, and with a fresh timestamp and signature. To an agent without a DID it may
    /// be a second message. Cancelling leaves it in the outbox.
    ///
    /// # Errors
    /// What was delivered or refused, and what was never sent, is refused before anything is dialled.
    pub async fn resend(&self, request: &ResendRequest) -> Result<Sent, SendError> {
        let message_id = request.message_id.trim();
        let stored = self.store().outgoing(message_id).await?;
        if let Some(stored) = &stored {
            self.refuse_settled(stored).await?;
        }
        let how = How { timeout: request.timeout, retries: request.retries, ..How::by_hand(request.allow_private) };
        if let Some(row) = self.store().outbox_row(message_id).await? {
            // What lies at a relay is not taken out of there: it is sent beside it.
            let taken = self.store().take_outgoing(message_id, how.lease()).await?;
            return self.send_row(&taken.unwrap_or(row), &how).await;
        }
        let stored = stored.ok_or_else(|| SendError::NoSuchMessage(message_id.to_owned()))?;
        let deadline = Instant::now() + request.timeout;
        let again = SendRequest {
            target: stored.peer.clone(),
            text: stored.text.clone(),
            context_id: stored.context_id.clone(),
            reply_to: stored.reply_to.clone(),
            timeout: request.timeout,
            retries: request.retries,
            unverified: false,
            allow_private: request.allow_private,
            via: None,
        };
        match stored.peer.parse::<Did>() {
            Ok(did) => self.resend_to_peer(again, did, &stored, deadline).await,
            Err(_) => self.resend_to_foreign(again, &stored, deadline).await,
        }
    }

    async fn refuse_settled(&self, stored: &MessageRow) -> Result<(), SendError> {
        match stored.status {
            Some(OutStatus::Queued | OutStatus::Failed | OutStatus::AtRelay | OutStatus::Expired) => {}
            Some(OutStatus::Refused) => return Err(settled(stored, "the peer refused it")),
            Some(OutStatus::Delivered) | None => return Err(settled(stored, "it was delivered")),
        }
        // A notice that is owed carries more than its text, and goes again by itself.
        let quoted = Value::from(stored.message_id.as_str()).to_json();
        if self.store().errands().await?.iter().any(|owed| owed.errand.payload.contains(&quoted)) {
            return Err(settled(stored, "it is a notice that `muretai serve` sends by itself"));
        }
        Ok(())
    }

    async fn resend_to_peer(
        &self,
        mut again: SendRequest,
        did: Did,
        stored: &MessageRow,
        deadline: Instant,
    ) -> Result<Sent, SendError> {
        if !self.has_way(&did, again.allow_private).await?
            && let Some(target) = self.store().target_of(&stored.message_id).await?
        {
            again.target = target;
        }
        let peer = match self.resolve_in_time(&again, deadline).await? {
            Recipient::Peer(peer) if peer.did == did => peer,
            Recipient::Peer(peer) => return Err(other_did(again.target, peer.did.to_string(), did)),
            Recipient::Foreign { url, .. } => return Err(other_did(url, "an agent without a DID".to_owned(), did)),
        };
        match Delivery::resume(self, &again, extra_for(&again), peer, deadline, stored, true).await? {
            Some(delivery) => delivery.run().await,
            None => Err(settled(stored, "it was delivered")),
        }
    }

    async fn has_way(&self, did: &Did, allow_private: bool) -> Result<bool, SendError> {
        match self.store().contact(did).await? {
            Some(contact) => Ok(self.contact_at(&contact, allow_private).await?.is_some()),
            None => Ok(false),
        }
    }

    async fn resend_to_foreign(
        &self,
        again: SendRequest,
        stored: &MessageRow,
        deadline: Instant,
    ) -> Result<Sent, SendError> {
        let url = stored.peer.clone();
        let after = again.timeout;
        let fetch = timeout_at(deadline, self.fetch_card_under(&url, None, Policy::Owner)).await;
        let timed_out = SendError::TimedOut { url, after, message_id: stored.message_id.clone() };
        match fetch.map_err(|_| SendError::NotKept(timed_out.into()))?? {
            FetchedCard::Foreign { card, url } => {
                foreign::send(self, &again, &card, &url, deadline, Some(stored), &OnceLock::new()).await
            }
            FetchedCard::Peer(_) => Err(settled(stored, "its peer has a DID now; send it anew")),
        }
    }
}

fn settled(stored: &MessageRow, why: &'static str) -> SendError {
    SendError::NotResendable { message_id: stored.message_id.clone(), why }
}

pub(super) fn other_did(url: String, found: String, expected: Did) -> SendError {
    CardFetchError::OtherDid { url, found, expected }.into()
}

#[cfg(test)]
mod tests;
