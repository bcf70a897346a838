//! Calls that lie at a relay (9.5): what they stand for here is undone when their peer refuses them by letter.
//!
//! Each has a record under the id of its message, so that nobody but the peer that it went to settles it, and a process
//! may end in between. A record is kept for as long as a relay keeps the call, and then the answer.
use muretai_protocol::{
    Did, UnixSeconds,
    json::{self, Object, Value},
    message::{Message, Verified},
    relay::MAILBOX_RETENTION_SECS,
    rpc::Code,
};
use muretai_store::{
    StoreError,
    contacts::{CoordinateSource, Introduce},
    requests::RequestStatus,
};

use crate::{Agent, agent::now, receive::methods::about::REFUSED};

/// Before a message id: the setting that keeps the record.
const KEY: &str = "call.left:";
/// Seconds for which a record is kept.
const LIFE_SECS: i64 = 2 * MAILBOX_RETENTION_SECS + 86_400;
/// Refusals that say nothing about the call itself, so that what it stands for stays.
const PASSING: [Code; 3] = [Code::RateLimited, Code::Internal, Code::ReplayOrStale];

/// What a call stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Left {
    /// A request of ours, open until it is answered.
    Request(i64),
    /// An introduction of ours that was proposed.
    Proposal(String),
    /// Our acceptance of a peer's request, which made the peer a direct contact.
    Accept(i64),
}

impl Agent {
    /// Remembers what a call stands for that was left at a relay.
    pub(super) async fn note_left(&self, message_id: &str, to: &Did, left: &Left) -> Result<(), StoreError> {
        self.forget_left().await?;
        let (kind, about) = match left {
            Left::Request(id) => ("request", Value::from(*id)),
            Left::Proposal(id) => ("proposal", id.as_str().into()),
            Left::Accept(id) => ("accept", Value::from(*id)),
        };
        let record = Object::from([
            ("did".to_owned(), Value::from(to)),
            (kind.to_owned(), about),
            ("made".to_owned(), now().0.into()),
        ]);
        self.store().set_setting(&format!("{KEY}{message_id}"), Some(&Value::from(record).to_json())).await
    }

    /// Takes the peer's refusal of a call: a notice with `replyTo` and `code`. Doing it again changes nothing, and so does
    /// the word of anybody else.
    pub(crate) async fn settle_left(&self, notice: &Verified) -> Result<(), StoreError> {
        let Some((key, to, left)) = self.left_for(notice.message()).await? else { return Ok(()) };
        if to != *notice.from() {
            tracing::warn!(from = crate::mail::tail(notice.from()), "somebody else than the peer refuses a call");
            return Ok(());
        }
        let code = code_of(notice.message());
        tracing::info!(from = crate::mail::tail(&to), code, "a call that lay at a relay was refused");
        match left {
            Left::Request(id) => {
                if code == Some(Code::AlreadyConnected.number()) {
                    self.connected_by_letter(id, &to).await?;
                }
                // What is connected now stays so.
                self.store().close_request(id, RequestStatus::Rejected, now()).await?;
            }
            Left::Accept(id) => {
                if code == Some(Code::NoSuchPendingRequest.number()) {
                    self.store().undo_accept(id, now()).await?;
                }
            }
            Left::Proposal(id) => {
                self.store().reject_issued(&id, now()).await?;
            }
        }
        self.store().set_setting(&key, None).await
    }

    /// Whether a message refuses a call that lay at a relay, so that it is let in although its sender may be nobody.
    pub(crate) async fn awaits_refusal(&self, message: &Message, from: &Did) -> Result<bool, StoreError> {
        Ok(self.left_for(message).await?.is_some_and(|(_, to, _)| to == *from))
    }

    /// The record of the call that a notice refuses for good: its key, whom the call went to, what it stands for.
    async fn left_for(&self, notice: &Message) -> Result<Option<(String, Did, Left)>, StoreError> {
        let (status, asked) = (notice.meta("status"), notice.meta("replyTo"));
        let is_refusal = status.and_then(Value::as_str) == Some(REFUSED);
        let Some(asked) = asked.and_then(Value::as_str).filter(|_| is_refusal) else { return Ok(None) };
        if PASSING.iter().any(|passing| Some(passing.number()) == code_of(notice)) {
            return Ok(None);
        }
        let key = format!("{KEY}{asked}");
        let record = self.store().setting(&key).await?;
        Ok(record.as_deref().and_then(read).map(|(to, left, _)| (key, to, left)))
    }

    /// The peer trusts this agent already, and this agent's owner asked for it.
    async fn connected_by_letter(&self, request: i64, peer: &Did) -> Result<(), StoreError> {
        let Some(row) = self.store().request(request, now()).await? else { return Ok(()) };
        let who = Introduce {
            did: peer.clone(),
            peer_name: row.peer_name,
            own_name: Some(self.name().to_owned()),
            coordinates: row.coordinates,
            source: CoordinateSource::Peer,
            allow_private: false,
            now: now(),
        };
        self.store().connected_by_answer(request, &who).await?;
        Ok(())
    }

    /// Forgets what nobody answers any more.
    async fn forget_left(&self) -> Result<(), StoreError> {
        for (message_id, record) in self.store().settings_under(KEY).await? {
            if read(&record).is_none_or(|(_, _, made)| now().0.saturating_sub(made.0) > LIFE_SECS) {
                self.store().set_setting(&format!("{KEY}{message_id}"), None).await?;
            }
        }
        Ok(())
    }
}

fn code_of(notice: &Message) -> Option<i64> {
    notice.meta("code").and_then(Value::as_i64)
}

fn read(record: &str) -> Option<(Did, Left, UnixSeconds)> {
    let record = json::parse(record.as_bytes()).ok()?;
    let did = record.member("did").and_then(Value::as_str)?.parse().ok()?;
    let left = match (record.member("request"), record.member("proposal"), record.member("accept")) {
        (Some(id), ..) => Left::Request(id.as_i64()?),
        (_, Some(id), _) => Left::Proposal(id.as_str()?.to_owned()),
        (.., Some(id)) => Left::Accept(id.as_i64()?),
        (None, None, None) => return None,
    };
    Some((did, left, UnixSeconds(record.member("made")?.as_i64()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{agent, key};

    #[tokio::test]
    async fn a_record_comes_back_as_it_was_and_goes_when_nobody_answers_any_more() {
        let north = agent("north").await;
        let kept = || async { north.agent.store().settings_under(KEY).await.unwrap() };
        let proposal = Left::Proposal("urn:uuid:1".to_owned());
        for (id, left) in [("m1", Left::Request(7)), ("m2", proposal), ("m3", Left::Accept(8))] {
            north.agent.note_left(id, key(2).did(), &left).await.unwrap();
            let record = kept().await.into_iter().find(|(found, _)| found == id).unwrap().1;
            let (did, found, _) = read(&record).unwrap();
            assert_eq!((&did, found), (key(2).did(), left));
        }
        let old = format!(r#"{{"did":"{}","request":1,"made":{}}}"#, key(2).did(), now().0 - LIFE_SECS - 1);
        for (id, record) in [("old", old.as_str()), ("damaged", "{"), ("empty", "{}")] {
            north.agent.store().set_setting(&format!("{KEY}{id}"), Some(record)).await.unwrap();
        }
        north.agent.forget_left().await.unwrap();
        assert_eq!(kept().await.len(), 3);
    }
}
