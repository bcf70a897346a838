//! The direct way: HTTP to the peer's own address.
use bytes::Bytes;
use muretai_protocol::{json::Object, rpc};
use muretai_transports::{TransportError, TransportName, http::Fetched};
use tokio::time::Instant;

use super::{Delivery, RELAY_RESERVE, SIGNATURE_LIFE_SECS, Setback, Way, ways, wording};
use crate::{
    agent::now,
    send::{
        SendError, Sent, answer,
        outbox::VERSION_HEADER,
        peer::{CardFetchError, FetchedCard},
        resolve::ResolvedPeer,
    },
};

impl Delivery<'_> {
    /// Posts it until somebody says something about it, or nothing helps here.
    pub(super) async fn go_directly(&mut self) -> Result<Sent, SendError> {
        self.way = self.direct_way();
        let mut retries_left = self.request.retries;
        let mut may_refetch = self.peer.is_stored;
        loop {
            let setback = match self.attempt().await {
                Ok(sent) => return Ok(sent),
                Err(setback) => setback,
            };
            match setback {
                Setback::OtherMethod(_) if self.version == wording::FIRST_VERSION => {
                    self.version = self.version.other()
                }
                Setback::NotOurs(_) if std::mem::take(&mut may_refetch) && self.has_moved().await? => {}
                Setback::TryAgain(error) if retries_left > 0 => {
                    retries_left -= 1;
                    if !self.pause().await {
                        return Err(error);
                    }
                }
                setback => return Err(setback.into_error()),
            }
        }
    }

    /// A peer that says nothing must not use up the time of the relay behind it.
    fn direct_way(&self) -> Way {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let limit = match ways(&self.peer, self.request.via).contains(&TransportName::Relay) {
            true => left.saturating_sub(RELAY_RESERVE).max(left / 2),
            false => self.request.timeout,
        };
        Way { name: TransportName::Http, deadline: self.deadline.min(Instant::now() + limit), limit }
    }

    /// One POST, and what its answer means.
    async fn attempt(&mut self) -> Result<Sent, Setback> {
        self.attempts += 1;
        let response = self.post().await?;
        self.judge(answer::sort(&response, self.message_id.as_str())).await
    }

    async fn post(&mut self) -> Result<Fetched, Setback> {
        let body = self.body();
        let headers: Vec<_> = self.version.header().map(|v| (VERSION_HEADER, v.to_owned())).into_iter().collect();
        let url = self.url();
        let call = self.agent.inner.http.post(&url, body, &headers, self.peer.policy);
        match tokio::time::timeout_at(self.way.deadline, call).await {
            Ok(Ok(fetched)) => {
                self.cannot_have_arrived = false;
                Ok(fetched)
            }
            Ok(Err(source)) => Err(self.not_through(source)),
            Err(_) => {
                self.cannot_have_arrived = false;
                let after = self.way.limit;
                Err(Setback::GiveUp(SendError::TimedOut { url, after, message_id: self.id() }))
            }
        }
    }

    /// The JSON-RPC request, under a signature that is fresh enough.
    pub(super) fn body(&mut self) -> Bytes {
        if now().0 - self.signed_at.0 > SIGNATURE_LIFE_SECS {
            self.sign_anew();
        }
        let message = match self.version == wording::FIRST_VERSION {
            true => self.signed.clone(),
            false => wording::to_v1(&self.signed),
        };
        let mut params = Object::new();
        params.insert("message".to_owned(), message);
        Bytes::from(rpc::request(self.message_id.as_str(), self.version.send_method(), &params.into()))
    }

    pub(super) fn not_through(&mut self, source: TransportError) -> Setback {
        self.cannot_have_arrived &= source.is_unreachable();
        let may_pass = matches!(
            source,
            TransportError::Unresolvable { .. }
                | TransportError::Connect { .. }
                | TransportError::ConnectTimeout { .. }
                | TransportError::Closed { .. }
        );
        let is_elsewhere = matches!(source, TransportError::RedirectRefused { .. } | TransportError::NotHttp { .. });
        let error = SendError::Transport { url: self.url(), attempts: self.attempts, message_id: self.id(), source };
        match (may_pass, is_elsewhere) {
            (true, _) => Setback::TryAgain(error),
            (_, true) => Setback::NotOurs(error),
            _ => Setback::GiveUp(error),
        }
    }

    /// Fetches the card again from where the peer was; says whether it now names another address.
    async fn has_moved(&mut self) -> Result<bool, SendError> {
        let fetch = self.agent.fetch_card_under(&self.peer.url, Some(&self.peer.did), self.peer.policy);
        match tokio::time::timeout_at(self.way.deadline, fetch).await {
            Ok(Ok(FetchedCard::Peer(card))) => {
                let fresh = self.agent.met(*card).await?;
                let has_moved = fresh.url != self.peer.url;
                let (name, mailbox) = (self.peer.name.take(), fresh.mailbox.or(self.peer.mailbox.take()));
                self.peer = ResolvedPeer { name, is_blocked: self.peer.is_blocked, mailbox, ..fresh };
                Ok(has_moved)
            }
            // That somebody else lives there now says more than the answer that made us look.
            Ok(Err(error @ CardFetchError::OtherDid { .. })) => Err(error.into()),
            _ => Ok(false),
        }
    }
}
