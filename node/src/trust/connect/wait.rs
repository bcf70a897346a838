//! Waiting for the peer's owner: our own store says what a running `serve` was told, and the peer says where we stand.
use std::time::Duration;

use muretai_store::{
    contacts::Relation as ContactRelation,
    requests::{RequestRow, RequestStatus},
};
use tokio::time::Instant;

use super::{ConnectRequest, Connected, Said};
use crate::{
    Agent,
    agent::now,
    send::ResolvedPeer,
    trust::{TrustError, status::Relation, whom::Whom},
};

/// How often our own store is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often the peer is asked, when nobody receives for this agent.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// The same while a `serve` of this agent would be told: it may be out of the peer's reach.
const ASK_SELDOM: Duration = Duration::from_secs(15);
/// For one such question.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

impl Agent {
    /// Waits until the peer's owner has decided, or the time is over.
    pub(super) async fn wait_for_owner(
        &self,
        row: &RequestRow,
        whom: &Whom,
        request: &ConnectRequest,
        until: Instant,
    ) -> Result<Connected, TrustError> {
        let mut asked = Instant::now();
        let mut may_repeat = true;
        loop {
            if let Some(outcome) = self.outcome_here(row).await? {
                return Ok(outcome);
            }
            let pause = if self.served_by().is_none() { ASK_EVERY } else { ASK_SELDOM };
            // A question that lies at a relay is answered to nobody.
            if !whom.peer.url.is_empty() && asked.elapsed() >= pause {
                let outcome = self.outcome_there(row, whom, request, until, &mut may_repeat).await?;
                if let Some(outcome) = outcome {
                    return Ok(outcome);
                }
                asked = Instant::now();
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return self.pending(row).await;
            }
            let can_ask = !whom.peer.url.is_empty();
            if self.served_by().is_some() || self.mailboxes().await?.is_empty() {
                tokio::time::sleep(LOOK_EVERY.min(left)).await;
                continue;
            }
            // The answer comes by mail, and nobody else fetches that.
            let time = if can_ask { pause.min(left) } else { left };
            let look = || async {
                match self.outcome_here(row).await {
                    Err(TrustError::Store(error)) => Err(error),
                    Ok(outcome) => Ok(outcome.map(Ok)),
                    Err(error) => Ok(Some(Err(error))),
                }
            };
            if let Some(outcome) = self.mail_until(time, &request.receiver, look).await? {
                return outcome;
            }
        }
    }

    /// What our own store knows: the peer told a running `serve`, or there is trust by another way.
    async fn outcome_here(&self, row: &RequestRow) -> Result<Option<Connected>, TrustError> {
        let contact = self.store().contact(&row.peer).await?;
        if let Some(contact) = contact.filter(|contact| contact.relation == ContactRelation::Direct) {
            return Ok(Some(Connected::Connected { contact, was_known: false }));
        }
        let status = self.store().request(row.id, now()).await?.map(|row| row.status);
        match status {
            Some(RequestStatus::Rejected) => Ok(Some(Connected::Rejected { did: row.peer.clone() })),
            Some(status @ (RequestStatus::Withdrawn | RequestStatus::Expired)) => {
                Err(TrustError::NotOpen { id: row.id, status })
            }
            // Accepted without a contact: it was removed again in the same moment.
            Some(status @ RequestStatus::Accepted) => Err(TrustError::NotOpen { id: row.id, status }),
            Some(RequestStatus::Pending | RequestStatus::Hidden) => Ok(None),
            None => Err(TrustError::NoSuchRequest { id: row.id }),
        }
    }

    /// What the peer says of us. A peer that says nothing, or nothing useful, is asked again later.
    async fn outcome_there(
        &self,
        row: &RequestRow,
        whom: &Whom,
        request: &ConnectRequest,
        until: Instant,
        may_repeat: &mut bool,
    ) -> Result<Option<Connected>, TrustError> {
        let timeout = ASK_TIMEOUT.min(request.timeout).min(until.saturating_duration_since(Instant::now()));
        let connected = |said| match said {
            Said::Connected(contact) => Some(Connected::Connected { contact: *contact, was_known: false }),
            Said::Pending => None,
        };
        let direct = ResolvedPeer { mailbox: None, ..whom.peer.clone() };
        match self.status_at(&direct, self.did(), timeout).await {
            Ok(status) if status.relation == Relation::Direct => Ok(connected(self.connected(row, whom).await?)),
            // Neither connected nor pending: refused, or forgotten. Only a request tells which, and one is enough.
            Ok(status) if status.relation == Relation::None && std::mem::take(may_repeat) => {
                let again = ConnectRequest { timeout, ..request.clone() };
                match self.request_connection(row, whom, &again).await {
                    Ok(said) => Ok(connected(said)),
                    Err(error) if error.code().is_some() && !error.is_passing() => {
                        self.after_failure(row, &error, false).await?;
                        Ok(Some(Connected::Rejected { did: row.peer.clone() }))
                    }
                    Err(TrustError::Store(error)) => Err(error.into()),
                    Err(_) => Ok(None),
                }
            }
            Ok(_) => Ok(None),
            Err(TrustError::Store(error)) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }
}
