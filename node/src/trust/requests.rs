//! The owner's decisions about what waits.
//!
//! A decision and the errands that tell of it are one transaction; then the peers are told at once, as far as they are
//! reached. What they say can undo an acceptance (somebody who no longer wants to connect), and is a note, not an error:
//! the owner has decided.
use std::time::Duration;

use muretai_protocol::{Did, text::one_line};
use muretai_store::{
    contacts::Contact,
    errands::NewErrand,
    messages::Direction,
    requests::{Decided, Decision, RequestKind, RequestRow, RequestStatus},
};

use super::{
    TrustError,
    errands::{Carried, Errand},
};
use crate::{
    Agent,
    agent::now,
    send::{
        SendError,
        target::{self, Target},
    },
};

mod vouch;

/// What `requests accept` and `reject` are told.
#[derive(Debug, Clone)]
pub struct DecideRequest {
    /// The number of the row.
    pub id: i64,
    /// Yes or no.
    pub decision: Decision,
    /// A local name for whom it lets in.
    pub name: Option<String>,
    /// For a referral: which contacts to name; empty takes those whose tags fit.
    pub refer: Vec<String>,
    /// For telling the peer.
    pub timeout: Duration,
}

/// What it did.
#[derive(Debug, Clone)]
pub struct DecidedRequest {
    /// The row as it is now.
    pub row: RequestRow,
    /// Nothing changed: it was decided so before.
    pub was_decided: bool,
    /// Who is trusted now.
    pub contact: Option<Contact>,
    /// Messages that moved to the inbox.
    pub delivered: u32,
    /// Everybody who must know was told now. Otherwise `serve` goes on trying.
    pub is_told: bool,
    /// What did not go as wished and does not matter much, one sentence each.
    pub notes: Vec<String>,
}

impl Agent {
    /// What waits, newest last; with `all` also what was decided.
    pub async fn requests(&self, all: bool) -> Result<Vec<RequestRow>, TrustError> {
        Ok(self.store().requests(all, now()).await?)
    }

    /// Carries out the owner's decision and tells the peers.
    ///
    /// Accepting a question to us as an introducer writes the introductions first: none is proposed or handed over
    /// before the decision stands.
    pub async fn decide(&self, request: &DecideRequest) -> Result<DecidedRequest, TrustError> {
        let row = self.store().request(request.id, now()).await?;
        let row = row.ok_or(TrustError::NoSuchRequest { id: request.id })?;
        if row.direction == Direction::Out {
            return Err(TrustError::OwnRequest { id: row.id });
        }
        self.check_decision(request, &row).await?;
        let mut notes = Vec::new();
        // A no can be taken back.
        let is_open = matches!(row.status, RequestStatus::Pending | RequestStatus::Rejected);
        let written = match (row.kind, request.decision) {
            (RequestKind::IntroduceMe, Decision::Accept) if is_open => self.vouch_for_asker(&row).await?,
            (RequestKind::Referral, Decision::Accept) if is_open => {
                self.vouch_to_asker(&row, &request.refer, &mut notes).await?
            }
            _ => Vec::new(),
        };
        let errands = match written.is_empty() {
            true => self.answers(&row, request.decision),
            false => written.iter().map(|written| written.errand.clone()).collect(),
        };
        let (name, own) = (request.name.as_deref(), self.name());
        let decided = self.store().decide(row.id, request.decision, name, own, errands.clone(), now()).await;
        if !matches!(decided, Ok(Decided::Done { .. })) {
            // Somebody else was quicker, or the store failed: what was written leads nowhere.
            self.drop_written(&written).await;
        }
        match decided? {
            Decided::Done { row, contact, delivered } => {
                let told = self.tell(&errands, request.timeout).await?;
                self.decided(*row, contact.map(|contact| *contact), delivered, &errands, told, notes).await
            }
            Decided::Unchanged(row) => self.decided_before(*row, request, notes).await,
            Decided::NotOpen(row) => Err(TrustError::NotOpen { id: row.id, status: row.status }),
            Decided::NoSuch => Err(TrustError::NoSuchRequest { id: request.id }),
        }
    }

    /// Takes back a request of ours. Nobody is told: an acceptance that comes later finds none, and makes no trust.
    pub async fn withdraw(&self, id: i64) -> Result<RequestRow, TrustError> {
        match self.store().withdraw_request(id, now()).await? {
            Decided::Done { row, .. } | Decided::Unchanged(row) => Ok(*row),
            Decided::NotOpen(row) if row.direction == Direction::In => Err(TrustError::NotOwnRequest { id }),
            Decided::NotOpen(row) => Err(TrustError::NotOpen { id, status: row.status }),
            Decided::NoSuch => Err(TrustError::NoSuchRequest { id }),
        }
    }

    /// What would make the decision fail, found before anything is written.
    async fn check_decision(&self, request: &DecideRequest, row: &RequestRow) -> Result<(), TrustError> {
        let is_yes = request.decision == Decision::Accept;
        let may_refer = is_yes && row.kind == RequestKind::Referral;
        if !(request.refer.is_empty() || may_refer) {
            return Err(TrustError::OutOfRange {
                what: "list of contacts to name",
                found: "given".to_owned(),
                limits: "for accepting a question about who knows something",
            });
        }
        let Some(name) = &request.name else { return Ok(()) };
        if !(is_yes && matches!(row.kind, RequestKind::Connect | RequestKind::Introduction)) {
            return Err(TrustError::OutOfRange {
                what: "name",
                found: "given".to_owned(),
                limits: "for accepting somebody as a contact",
            });
        }
        target::check_name(name, self.name())
            .map_err(|reason| TrustError::BadName { name: one_line(name, 100), reason })?;
        match self.store().contact_named(name).await? {
            Some(other) if other.did != row.peer => Err(TrustError::NameTaken(name.clone())),
            _ => Ok(()),
        }
    }

    /// Who has to know of a decision about what a peer asked for itself.
    fn answers(&self, row: &RequestRow, decision: Decision) -> Vec<NewErrand> {
        let errand = match (row.kind, &row.via, &row.wire_id) {
            (RequestKind::Connect, ..) => {
                let request_id = row.wire_id.clone();
                Errand::ConnectRespond { request: row.id, request_id, decision }.to_store(&row.peer, now())
            }
            (RequestKind::Introduction, Some(introducer), Some(id)) => {
                Errand::IntroduceRespond { introduction_id: id.clone(), decision }.to_store(introducer, now())
            }
            _ => return Vec::new(),
        };
        vec![errand]
    }

    async fn decided(
        &self,
        row: RequestRow,
        contact: Option<Contact>,
        delivered: u32,
        errands: &[NewErrand],
        told: Vec<Carried>,
        mut notes: Vec<String>,
    ) -> Result<DecidedRequest, TrustError> {
        let is_told = told.iter().all(|carried| matches!(carried, Carried::Done | Carried::Refused(_)));
        let mut is_undone = false;
        for (errand, carried) in errands.iter().zip(&told) {
            let who = self.shown(&errand.peer).await?;
            match carried {
                Carried::Refused(error) if row.kind == RequestKind::Connect && contact.is_some() => {
                    is_undone = self.store().contact(&row.peer).await? != contact;
                    let what = if is_undone { "nothing was kept" } else { "the contact stays" };
                    notes.push(format!("{who} no longer wants it, {what}: {error}"));
                }
                Carried::Refused(error) => notes.push(format!("{who} will not have it: {error}")),
                Carried::NoAddress => notes.push(format!("no address of {who} is known: it learns when it asks")),
                Carried::Postponed(error) => notes.push(format!("{who} is not told yet: {error}")),
                Carried::Done | Carried::Elsewhere => {}
            }
        }
        let row = match is_undone {
            true => self.store().request(row.id, now()).await?.unwrap_or(row),
            false => row,
        };
        let contact = contact.filter(|_| !is_undone);
        Ok(DecidedRequest { row, was_decided: false, contact, delivered, is_told, notes })
    }

    async fn decided_before(
        &self,
        row: RequestRow,
        request: &DecideRequest,
        mut notes: Vec<String>,
    ) -> Result<DecidedRequest, TrustError> {
        let contact = match request.decision {
            Decision::Accept => self.store().contact(&row.peer).await?,
            Decision::Reject => None,
        };
        if let (Some(name), Some(contact)) = (&request.name, &contact)
            && *name != contact.name
        {
            notes.push(format!("it keeps the name {}; `muretai contacts rename` changes it", contact.name));
        }
        let owed = self.store().errands().await?;
        let to = row.via.as_ref().unwrap_or(&row.peer);
        let is_told = !owed.iter().any(|owed| owed.errand.peer == *to);
        Ok(DecidedRequest { row, was_decided: true, contact, delivered: 0, is_told, notes })
    }

    /// A contact's name, or the DID.
    async fn shown(&self, did: &Did) -> Result<String, TrustError> {
        Ok(self.store().contact(did).await?.map_or_else(|| did.to_string(), |contact| contact.name))
    }

    /// The direct contact that an owner names for a referral.
    async fn named_contact(&self, text: &str) -> Result<Contact, TrustError> {
        match target::parse(text).map_err(SendError::from)? {
            Target::Name(_) | Target::Did(_) => self.direct_contact(text).await,
            _ => Err(TrustError::NotDirect { who: one_line(text.trim(), 200) }),
        }
    }
}
