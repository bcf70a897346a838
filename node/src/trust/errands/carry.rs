//! What each errand says to its peer, and what the peer's answer means.
use std::time::Duration;

use muretai_protocol::{
    Did, MessageId,
    json::{self, Object, Value},
    revocations,
    rpc::Code,
    text::one_line,
};
use muretai_store::{
    StoreError,
    contacts::{Contact, Coordinates, Relation},
    introductions::{IntroductionRow, IntroductionStatus, Role},
    requests::Decision,
};
use muretai_transports::guard::Policy;

use super::{Carried, Errand, word};
use crate::{
    Agent,
    agent::now,
    send::{ResolvedPeer, SendError, SendRequest, outbox::OwedNotice},
    trust::{TrustError, call::Call, left::Left},
};

/// Characters of a name in a notice to a peer.
const MAX_NAME_CHARS: usize = 64;

impl Agent {
    /// Makes one attempt. What the answer undoes is undone; the errand itself is the caller's to settle.
    pub(super) async fn carry(
        &self,
        errand: &Errand,
        peer: &Did,
        message_id: MessageId,
        timeout: Duration,
    ) -> Result<Carried, StoreError> {
        match errand {
            Errand::ConnectRespond { request, request_id, decision } => {
                self.carry_connect(*request, request_id.as_deref(), *decision, peer, message_id, timeout).await
            }
            Errand::IntroduceRespond { introduction_id, decision } => {
                let params = Object::from([
                    ("introductionId".to_owned(), introduction_id.into()),
                    ("decision".to_owned(), word(*decision).into()),
                ]);
                let carried = self.carry_call("introduce/respond", peer, None, params, message_id, timeout).await?;
                // The introducer took it back, or has our answer already.
                Ok(expected(carried, &[Code::NoSuchPendingRequest]))
            }
            Errand::Propose { introduction_id, note } => {
                self.carry_proposal(introduction_id, note.as_deref(), peer, message_id, timeout).await
            }
            Errand::HandOver { introduction_id } => {
                self.carry_introduction(introduction_id, peer, message_id, timeout).await
            }
            Errand::Revoked => self.carry_revocations(peer, message_id, timeout).await,
        }
    }

    async fn carry_connect(
        &self,
        request: i64,
        request_id: Option<&str>,
        decision: Decision,
        peer: &Did,
        message_id: MessageId,
        timeout: Duration,
    ) -> Result<Carried, StoreError> {
        let contact = self.store().contact(peer).await?;
        let is_trusted = |contact: &Contact| contact.relation == Relation::Direct && !contact.is_blocked;
        // The owner may have changed its mind about the peer since.
        let is_outdated = match decision {
            Decision::Accept => !contact.as_ref().is_some_and(is_trusted),
            Decision::Reject => contact.as_ref().is_some_and(|contact| contact.is_blocked || is_trusted(contact)),
        };
        if is_outdated {
            return Ok(Carried::Done);
        }
        let mut params = match decision {
            Decision::Accept => self.about_us().await?,
            Decision::Reject => Object::new(),
        };
        params.insert("decision".to_owned(), word(decision).into());
        if let Some(request_id) = request_id {
            params.insert("requestId".to_owned(), request_id.into());
        }
        let told = self.store().request(request, now()).await?.map(|row| row.coordinates);
        if decision == Decision::Accept {
            // It may come to lie at a relay, and be refused by letter.
            self.note_left(message_id.as_str(), peer, &Left::Accept(request)).await?;
        }
        let carried = self.carry_call("connect/respond", peer, told.as_ref(), params, message_id, timeout).await?;
        let is_unwanted = matches!(&carried, Carried::Refused(error) if error.is_refusal(Code::NoSuchPendingRequest));
        match decision {
            Decision::Accept if is_unwanted => {
                self.store().undo_accept(request, now()).await?;
                Ok(carried)
            }
            Decision::Accept => Ok(expected(carried, &[Code::AlreadyConnected])),
            Decision::Reject => Ok(expected(carried, &[Code::AlreadyConnected, Code::NoSuchPendingRequest])),
        }
    }

    async fn carry_proposal(
        &self,
        id: &str,
        note: Option<&str>,
        peer: &Did,
        message_id: MessageId,
        timeout: Duration,
    ) -> Result<Carried, StoreError> {
        let Some(row) = self.issued(id).await?.filter(|row| row.status == IntroductionStatus::Pending) else {
            return Ok(Carried::Done);
        };
        let vc = json::parse(row.vc.as_bytes()).map_err(|_| StoreError::Damaged)?;
        let subject = self.store().contact(&row.subject).await?;
        let mut params = Object::from([("vc".to_owned(), vc), ("subject".to_owned(), about(&row.subject, subject))]);
        if let Some(note) = note {
            params.insert("note".to_owned(), note.into());
        }
        self.note_left(message_id.as_str(), peer, &Left::Proposal(id.to_owned())).await?;
        let carried = self.carry_call("introduce/propose", peer, None, params, message_id, timeout).await?;
        if matches!(carried, Carried::Refused(_)) {
            self.store().reject_issued(id, now()).await?;
        }
        Ok(carried)
    }

    /// Gives the subject what we issued, with where its target is.
    async fn carry_introduction(
        &self,
        id: &str,
        peer: &Did,
        message_id: MessageId,
        timeout: Duration,
    ) -> Result<Carried, StoreError> {
        let stands = |row: &IntroductionRow| {
            matches!(row.status, IntroductionStatus::Pending | IntroductionStatus::Accepted) && row.subject == *peer
        };
        let Some(row) = self.issued(id).await?.filter(stands) else { return Ok(Carried::Done) };
        let Some(target) = self.store().contact(&row.target).await? else { return Ok(Carried::Done) };
        let vc = json::parse(row.vc.as_bytes()).map_err(|_| StoreError::Damaged)?;
        let text = introduction_text(&row, &target);
        let Coordinates { url, relay, enc_pub, .. } = target.coordinates;
        let mut extra = Object::from([("held_vc".to_owned(), vc)]);
        let facts = [
            ("held_vc_name", target.peer_name),
            ("held_vc_url", url),
            ("held_vc_relay", relay),
            ("held_vc_enc_pub", enc_pub),
        ];
        for (key, value) in facts {
            if let Some(value) = value {
                extra.insert(key.to_owned(), value.into());
            }
        }
        let notice = OwedNotice { message_id, status: "introduction", extra };
        let carried = self.carry_notice(peer, notice, text, timeout).await?;
        // Without its introduction the subject has nothing; it may be served again before the errand's time is over.
        Ok(match carried {
            Carried::NoAddress => {
                let who = peer.to_string();
                Carried::Postponed(SendError::NoAddress { who, is_contact: true }.into())
            }
            carried => carried,
        })
    }

    /// A list for this peer alone: what else was taken back is none of its business.
    async fn carry_revocations(
        &self,
        peer: &Did,
        message_id: MessageId,
        timeout: Duration,
    ) -> Result<Carried, StoreError> {
        let rows = self.store().introductions(Some(Role::Issued)).await?;
        let is_meant = |row: &IntroductionRow| {
            row.target == *peer && row.status == IntroductionStatus::Revoked && row.valid_until > now()
        };
        let ids: Vec<String> = rows.into_iter().filter(is_meant).map(|row| row.id).collect();
        if ids.is_empty() {
            return Ok(Carried::Done);
        }
        let list = revocations::mint(self.key(), ids, now());
        let extra = Object::from([("revocations".to_owned(), list)]);
        let notice = OwedNotice { message_id, status: "revocation", extra };
        let text = "I have taken back an introduction to you.".to_owned();
        self.carry_notice(peer, notice, text, timeout).await
    }

    async fn carry_call(
        &self,
        method: &'static str,
        peer: &Did,
        told: Option<&Coordinates>,
        params: Object,
        message_id: MessageId,
        timeout: Duration,
    ) -> Result<Carried, StoreError> {
        let Some(peer) = self.address_of(peer, told).await? else { return Ok(Carried::NoAddress) };
        let call =
            Call { method, text: method, params, timeout, message_id: Some(message_id), is_answered_later: false };
        Ok(match self.call(&peer, call).await {
            Ok(_) => Carried::Done,
            Err(error) => judged(error),
        })
    }

    async fn carry_notice(
        &self,
        peer: &Did,
        notice: OwedNotice,
        text: String,
        timeout: Duration,
    ) -> Result<Carried, StoreError> {
        let Some(resolved) = self.address_of(peer, None).await? else { return Ok(Carried::NoAddress) };
        let request = SendRequest {
            target: peer.to_string(),
            text,
            context_id: None,
            reply_to: None,
            timeout,
            retries: 1,
            unverified: false,
            allow_private: false,
            via: None,
        };
        Ok(match self.send_owed(resolved, &request, notice).await {
            Ok(()) => Carried::Done,
            Err(error) => judged(error.into()),
        })
    }

    /// Where a peer is: as a contact, or as it said itself when it asked something.
    async fn address_of(&self, peer: &Did, told: Option<&Coordinates>) -> Result<Option<ResolvedPeer>, StoreError> {
        let contact = self.store().contact(peer).await?;
        if let Some(contact) = &contact
            && let Some(peer) = self.contact_at(contact, false).await?
        {
            return Ok(Some(peer));
        }
        if let Some(peer) = self.told_address(peer, contact.as_ref(), told).await? {
            return Ok(Some(peer));
        }
        match &contact {
            Some(contact) => self.contact_found(contact, false).await,
            None => Ok(None),
        }
    }

    async fn told_address(
        &self,
        did: &Did,
        contact: Option<&Contact>,
        told: Option<&Coordinates>,
    ) -> Result<Option<ResolvedPeer>, StoreError> {
        let Some(told) = told else { return Ok(None) };
        let url = told.url.clone().unwrap_or_default();
        let mailbox = self.mailbox_at(told, |relay| self.policy_for_asker(relay) == Policy::Owner).await?;
        if url.is_empty() && mailbox.is_none() {
            return Ok(None);
        }
        let policy = self.policy_for_asker(&url);
        let (did, name) = (did.clone(), contact.map(|contact| contact.name.clone()));
        Ok(Some(ResolvedPeer { did, name, is_blocked: false, url, policy, mailbox, is_stored: true }))
    }

    async fn issued(&self, id: &str) -> Result<Option<IntroductionRow>, StoreError> {
        let row = self.store().introduction(Role::Issued, self.did(), id).await?;
        Ok(row.filter(|row| row.valid_until > now()))
    }

    /// What a peer needs to write to this agent (5.2): where it is served, and where its mailbox is.
    pub(crate) async fn about_us(&self) -> Result<Object, StoreError> {
        let relay = self.mailboxes().await?.into_iter().next();
        let mut params =
            Object::from([("name".to_owned(), self.name().into()), ("enc_pub".to_owned(), self.enc_pub().into())]);
        for (key, value) in [("url", self.served_url()), ("relay", relay)] {
            if let Some(value) = value {
                params.insert(key.to_owned(), value.into());
            }
        }
        Ok(params)
    }
}

/// A subject as its target is told of it: what it calls itself, never what its introducer calls it.
fn about(did: &Did, contact: Option<Contact>) -> Value {
    let mut subject = Object::from([("did".to_owned(), Value::from(did))]);
    if let Some(contact) = contact {
        let Coordinates { url, relay, enc_pub, .. } = contact.coordinates;
        for (key, value) in [("name", contact.peer_name), ("url", url), ("relay", relay), ("enc_pub", enc_pub)] {
            if let Some(value) = value {
                subject.insert(key.to_owned(), value.into());
            }
        }
    }
    subject.into()
}

fn introduction_text(row: &IntroductionRow, target: &Contact) -> String {
    let name = target.peer_name.as_deref().map(|name| one_line(name, MAX_NAME_CHARS)).unwrap_or_default();
    let name = if name.is_empty() { String::new() } else { format!("{name}, ") };
    let owner = match row.status {
        IntroductionStatus::Accepted => "its owner agreed",
        _ => "its owner decides when you write",
    };
    let until = row.valid_until.to_iso();
    format!("I have introduced you to {name}{}: {owner}. It stands until {until}.", row.target)
}

/// Sorts what went wrong.
fn judged(error: TrustError) -> Carried {
    match error {
        // What was left at a relay is done: an answer would change nothing here, and whatever was decided there stands.
        error if error.is_answer_lost() || error.is_at_relay() => Carried::Done,
        error if error.is_passing() => Carried::Postponed(error),
        error => Carried::Refused(error),
    }
}

/// Refusals with these codes say that there is nothing to tell any more.
fn expected(carried: Carried, codes: &[Code]) -> Carried {
    match carried {
        Carried::Refused(error) if codes.iter().any(|code| error.is_refusal(*code)) => Carried::Done,
        carried => carried,
    }
}
