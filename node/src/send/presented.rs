//! The introduction that a message carries when its recipient is no direct contact (4.3, `metadata.vc`).
//!
//! What becomes of it is recorded beside the message: one that opened the gate is known to work, and one that its issuer
//! took back is not shown again. A store that fails here is no reason to call a delivery failed.
use muretai_protocol::{
    Did,
    json::{self, Object},
    rpc::Code,
};
use muretai_store::{StoreError, contacts::Relation, introductions::IntroductionStatus};

use crate::{Agent, agent::now, trust::revocations::Verdict};

/// The introduction of a message.
#[derive(Debug, Clone)]
pub(super) struct Presented {
    issuer: Did,
    id: String,
    issuer_endpoint: Option<String>,
}

/// Adds the best introduction to a peer, when there is one and it is needed.
pub(super) async fn attach(
    agent: &Agent,
    peer: &Did,
    mut extra: Object,
) -> Result<(Object, Option<Presented>), StoreError> {
    let contact = agent.store().contact(peer).await?;
    if contact.is_some_and(|contact| contact.relation == Relation::Direct) {
        return Ok((extra, None));
    }
    let Some(held) = agent.store().held_for(peer, now()).await? else { return Ok((extra, None)) };
    let Ok(vc) = json::parse(held.vc.as_bytes()) else { return Err(StoreError::Damaged) };
    extra.insert("vc".to_owned(), vc);
    let presented = Presented { issuer: held.issuer, id: held.id, issuer_endpoint: held.issuer_endpoint };
    Ok((extra, Some(presented)))
}

impl Presented {
    /// The peer took the message.
    pub(super) async fn worked(&self, agent: &Agent) {
        self.record(agent, IntroductionStatus::Accepted).await;
    }

    /// The peer refused the message. Of all its reasons only one is about the introduction itself: an issuer whom the
    /// peer does not trust, or an owner who has not decided, may change. And a peer also says so while it cannot ask
    /// the issuer (8.4, policy `strict`), so it is the issuer's own list that counts.
    pub(super) async fn refused(&self, agent: &Agent, code: i64) {
        if code != Code::IntroductionInvalid.number() {
            return;
        }
        let Ok(Some(issuer)) = agent.store().contact(&self.issuer).await else { return };
        let verdict = agent.revocation(&issuer, self.issuer_endpoint.as_deref(), &self.id).await;
        if verdict == Verdict::Revoked {
            self.record(agent, IntroductionStatus::Revoked).await;
        }
    }

    async fn record(&self, agent: &Agent, status: IntroductionStatus) {
        if let Err(error) = agent.store().record_presented(&self.issuer, &self.id, status, now()).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "what became of an introduction is not recorded");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muretai_protocol::{json::Value, revocations};
    use muretai_store::introductions::{IntroductionRow, Role};

    use super::*;
    use crate::{
        send::{SendError, SendRequest, SentStatus},
        testing::{Act, Fake, Owned, Seen, agent, befriend, introduction_row, key, offer, refusal, reply_to, result},
    };

    fn to(target: &str) -> SendRequest {
        SendRequest {
            target: target.to_owned(),
            text: "hello".to_owned(),
            context_id: None,
            reply_to: None,
            timeout: Duration::from_secs(10),
            retries: 0,
            unverified: false,
            allow_private: false,
            via: None,
        }
    }

    /// North with an introduction to south, who answers with `act`.
    async fn introduced(act: impl Fn(&Seen) -> Act + Send + Sync + 'static) -> (Owned, Fake, IntroductionRow) {
        let north = agent("north").await;
        let south = Fake::start(move |_, seen, _| act(seen)).await;
        let row = offer(&north.agent, &key(3), key(2).did(), &south.url).await;
        (north, south, row)
    }

    fn vc_of(seen: &Seen) -> Option<Value> {
        seen.message().member("metadata").unwrap().member("vc").cloned()
    }

    async fn kept(north: &Owned, row: &IntroductionRow) -> (IntroductionStatus, Relation) {
        let store = north.agent.store();
        let status = store.introduction(Role::Held, &row.issuer, &row.id).await.unwrap().unwrap().status;
        (status, store.contact(key(2).did()).await.unwrap().unwrap().relation)
    }

    #[tokio::test]
    async fn an_introduction_travels_with_a_message_until_there_is_trust() {
        let (north, south, row) = introduced(|seen| result(&reply_to(seen, "welcome").sign(&key(2)))).await;
        north.agent.send(&to(key(2).did().as_str())).await.unwrap();
        assert_eq!(vc_of(&south.posts()[0]).unwrap().to_json(), row.vc);
        assert_eq!(kept(&north, &row).await, (IntroductionStatus::Accepted, Relation::Introduced));
        north.agent.send(&to(key(2).did().as_str())).await.unwrap();
        assert!(vc_of(&south.posts()[1]).is_some(), "the peer may have forgotten it");
        befriend(&north.agent, key(2).did(), Some(&south.url)).await;
        north.agent.send(&to(key(2).did().as_str())).await.unwrap();
        assert!(vc_of(&south.posts()[2]).is_none(), "a direct contact needs none");
    }

    #[tokio::test]
    async fn a_second_introducer_does_not_get_what_is_written_to_an_offered_contact() {
        use muretai_store::contacts::{CoordinateSource, Coordinates, Introduce};
        let north = agent("north").await;
        let south = Fake::start(|_, seen, _| result(&reply_to(seen, "welcome").sign(&key(2)))).await;
        let elsewhere = Fake::start(|_, _, _| refusal(-32010, "no", "null")).await;
        for (introducer, url) in [(key(3), &south.url), (key(4), &elsewhere.url)] {
            befriend(&north.agent, introducer.did(), None).await;
            let row = introduction_row(&introducer, Role::Held, north.agent.did(), key(2).did());
            let target = Introduce {
                did: key(2).did().clone(),
                peer_name: Some("south".to_owned()),
                own_name: None,
                coordinates: Coordinates { url: Some(url.clone()), ..Coordinates::default() },
                source: CoordinateSource::Introducer,
                allow_private: false,
                now: crate::agent::now(),
            };
            north.agent.store().keep_held(&row, &target).await.unwrap();
        }
        north.agent.send(&SendRequest { allow_private: true, ..to(key(2).did().as_str()) }).await.unwrap();
        assert_eq!((south.posts().len(), elsewhere.seen().len()), (1, 0));
    }

    #[tokio::test]
    async fn a_message_that_is_held_says_so_and_proves_nothing_yet() {
        let (north, _south, row) = introduced(|seen| {
            let mut draft = reply_to(seen, "");
            draft.extra.insert("auto".to_owned(), true.into());
            draft.extra.insert("status".to_owned(), "held".into());
            result(&draft.sign(&key(2)))
        })
        .await;
        let sent = north.agent.send(&to(key(2).did().as_str())).await.unwrap();
        assert_eq!(sent.status, SentStatus::Held);
        assert_eq!(kept(&north, &row).await, (IntroductionStatus::Pending, Relation::Offered));
    }

    #[tokio::test]
    async fn a_refusal_leaves_an_introduction_that_its_issuer_stands_by() {
        for code in [-32010, -32011, -32013, -32014, -32015] {
            let (north, _south, row) = introduced(move |_| refusal(code, "no", "null")).await;
            let error = north.agent.send(&to(key(2).did().as_str())).await.unwrap_err();
            assert!(matches!(&error, SendError::Refused { code: found, .. } if *found == code), "{error:?}");
            assert!(error.hint().is_some(), "{code}");
            assert_eq!(kept(&north, &row).await, (IntroductionStatus::Pending, Relation::Offered), "{code}");
        }
    }

    #[tokio::test]
    async fn an_introduction_that_was_taken_back_is_not_shown_again() {
        for (is_named, left) in [(true, IntroductionStatus::Revoked), (false, IntroductionStatus::Pending)] {
            let (north, south, row) = introduced(|_| refusal(-32011, "no", "null")).await;
            let ids = if is_named { vec![row.id.clone()] } else { Vec::new() };
            let list = revocations::mint(&key(3), ids, now());
            let west = Fake::start(move |_, _, _| Act::json(&list)).await;
            befriend(&north.agent, key(3).did(), Some(&west.url)).await;
            north.agent.send(&to(key(2).did().as_str())).await.unwrap_err();
            let store = north.agent.store();
            let status = store.introduction(Role::Held, &row.issuer, &row.id).await.unwrap().unwrap().status;
            assert_eq!(status, left);
            north.agent.send(&to(key(2).did().as_str())).await.unwrap_err();
            // Whom it led to stays known, and is written to as a stranger would.
            let shows = |seen: &Seen| seen.message().member("metadata").and_then(|meta| meta.member("vc")).is_some();
            assert_eq!(south.posts().iter().map(shows).collect::<Vec<_>>(), [true, !is_named]);
        }
    }

    #[tokio::test]
    async fn a_resent_message_carries_it_too() {
        use crate::send::ResendRequest;
        let (north, south, _row) = introduced(|seen| match seen.message().member("metadata").unwrap().member("sig") {
            Some(_) => refusal(-32004, "Rate limited", "null"),
            None => Act::Drop,
        })
        .await;
        let error = north.agent.send(&to(key(2).did().as_str())).await.unwrap_err();
        let message_id = error.message_id().unwrap().to_owned();
        let again = ResendRequest { message_id, timeout: Duration::from_secs(10), retries: 0, allow_private: false };
        north.agent.resend(&again).await.unwrap_err();
        assert!(south.posts().iter().all(|seen| vc_of(seen).is_some()));
        assert_eq!(south.posts().len(), 2);
    }
}
