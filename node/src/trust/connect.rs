//! Asking to connect without an invite (5.2), of the peer itself or of somebody who can introduce us.
//!
//! The request is in the store before it leaves, because an acceptance counts only when it answers one. Results of these
//! methods are not signed, so a peer that is named by its address has to prove its DID with a signed card first.
use std::time::Duration;

use muretai_protocol::{
    Did, MessageId, UnixSeconds,
    introduction::INTRODUCE_ME_TO,
    json::{self, Object, Value},
    rpc::Code,
    text,
};
use muretai_store::{
    StoreError,
    contacts::{Contact, Introduce, Relation},
    requests::{NewRequest, RequestKind, RequestRow, RequestStatus},
};
use tokio::time::Instant;

use super::{
    TrustError,
    call::Call,
    whom::{Until, Whom},
};
use crate::{
    Agent,
    agent::{now, random},
    receive::service::ReceiverOptions,
    send::{ResolvedPeer, SendError, target, target::Target},
    trust::left::Left,
};

mod wait;

/// The method.
const METHOD: &str = "connect/request";
/// Seconds that a request of ours stands; the peer keeps it as long.
const LIFE_SECS: i64 = 30 * 86_400;
/// Bytes of a note; a person reads it.
pub(super) const MAX_NOTE_BYTES: usize = 1_000;

/// What `connect` is told.
#[derive(Clone)]
pub struct ConnectRequest {
    /// Whom, as the owner typed it: name, DID, card URL, bare domain.
    pub target: String,
    /// What is said with it; the owner of the peer reads it.
    pub note: Option<String>,
    /// How long to wait for the peer's owner to decide.
    pub wait: Option<Duration>,
    /// Ask this contact to introduce us, instead of asking the target.
    pub ask: Option<String>,
    /// For each request to a peer.
    pub timeout: Duration,
    /// Dial loopback and private addresses that the peer names.
    pub allow_private: bool,
    /// How mail that comes while waiting is received.
    pub receiver: ReceiverOptions,
}

/// What came of it.
#[derive(Debug, Clone)]
pub enum Connected {
    /// There is trust both ways, now or since before.
    Connected {
        /// With whom.
        contact: Contact,
        /// There was before.
        was_known: bool,
    },
    /// The peer's owner has to decide.
    Pending {
        /// The number of our row.
        request: i64,
        /// Who was asked.
        did: Did,
        /// Nobody can tell us: no `serve` of this agent runs, and it has no mailbox.
        is_offline: bool,
    },
    /// The peer's owner said no, while we waited.
    Rejected {
        /// Who was asked.
        did: Did,
    },
    /// The introducer was asked; `status` is its answer: `queued`, `proposed` or `declined`.
    Asked {
        /// The number of our row.
        request: i64,
        /// The introducer.
        introducer: Did,
        /// To whom.
        target: Did,
        /// Its answer.
        status: String,
    },
}

/// What the peer says to a connect request.
#[derive(Debug)]
enum Said {
    /// There is trust now.
    Connected(Box<Contact>),
    /// Its owner decides.
    Pending,
}

impl Agent {
    /// Asks, and waits when told to. Asking again while a request is pending repeats it. Cancelling leaves the request
    /// pending, as it would be without waiting.
    ///
    /// # Errors
    /// A refusal closes our request, unless it is one that passes (too many, a fault of the peer).
    pub async fn ask_to_connect(&self, request: &ConnectRequest) -> Result<Connected, TrustError> {
        check_note(request.note.as_deref())?;
        if let Some(introducer) = &request.ask {
            return self.ask_for_introduction(request, introducer).await;
        }
        let until = Until::after(request.timeout);
        let was_known = |contact: &Contact| Connected::Connected { contact: contact.clone(), was_known: true };
        // Whoever is served asks all the same: it is how the peer learns a new address.
        let is_served = self.served_url().is_some();
        let known = self.known(&request.target).await?;
        if let Some(contact) = known.as_ref().and_then(is_direct).filter(|_| !is_served) {
            return Ok(was_known(contact));
        }
        let whom = match (self.whom(&request.target, request.allow_private, until).await, &known) {
            (Err(_), Some(contact)) if is_direct(contact).is_some() => return Ok(was_known(contact)),
            (whom, _) => whom?,
        };
        let known = self.refuse_blocked(&whom.peer.did).await?;
        let known = known.as_ref().and_then(is_direct);
        if let Some(contact) = known.filter(|_| !is_served) {
            return Ok(was_known(contact));
        }
        let (row, is_new) = self.open_connect(&whom, request.note.as_deref()).await?;
        match self.request_connection(&row, &whom, request).await {
            Ok(Said::Connected(contact)) => Ok(Connected::Connected { contact: *contact, was_known: known.is_some() }),
            Ok(Said::Pending) => match request.wait {
                Some(time) => self.wait_for_owner(&row, &whom, request, Instant::now() + time).await,
                None => self.pending(&row).await,
            },
            Err(error) => {
                self.after_failure(&row, &error, is_new).await?;
                match known {
                    Some(contact) if error.code().is_none() => Ok(was_known(contact)),
                    _ => Err(error),
                }
            }
        }
    }

    /// One `connect/request`, and what its answer means here.
    async fn request_connection(
        &self,
        row: &RequestRow,
        whom: &Whom,
        request: &ConnectRequest,
    ) -> Result<Said, TrustError> {
        let text = match &request.note {
            Some(note) => format!("{METHOD}\n{note}"),
            None => METHOD.to_owned(),
        };
        let mut params = self.about_us().await?;
        if let Some(note) = &request.note {
            params.insert("note".to_owned(), note.into());
        }
        // A good introduction keeps the request out of the room that strangers share.
        if let Some(held) = self.store().held_for(&whom.peer.did, now()).await? {
            let vc = json::parse(held.vc.as_bytes()).map_err(|_| StoreError::Damaged)?;
            params.insert("vc".to_owned(), vc);
        }
        let timeout = request.timeout;
        let message_id = Some(self.left_id(&whom.peer, row).await?);
        let call = Call { method: METHOD, text: &text, params, timeout, message_id, is_answered_later: true };
        match self.call(&whom.peer, call).await {
            Ok(result) => match result.member("status").and_then(Value::as_str) {
                Some("pending") => Ok(Said::Pending),
                Some("accepted" | "connected") => self.connected(row, whom).await,
                _ => Err(TrustError::BadAnswer { method: METHOD, what: "neither pending nor accepted" }),
            },
            Err(error) if error.is_refusal(Code::AlreadyConnected) => self.connected(row, whom).await,
            // It is filed there, with whatever answer; asking again would tell which. From a relay it will be.
            Err(error) if error.is_answer_lost() || error.is_at_relay() => Ok(Said::Pending),
            Err(error) => Err(error),
        }
    }

    /// The peer trusts this agent, and this agent's owner asked for it.
    async fn connected(&self, row: &RequestRow, whom: &Whom) -> Result<Said, TrustError> {
        let who = Introduce {
            did: whom.peer.did.clone(),
            peer_name: whom.peer_name.clone(),
            own_name: Some(self.name().to_owned()),
            coordinates: whom.coordinates.clone(),
            source: whom.source,
            allow_private: whom.allow_private,
            now: now(),
        };
        if let Some(contact) = self.store().connected_by_answer(row.id, &who).await? {
            return Ok(Said::Connected(contact.into()));
        }
        // It is no longer pending: decided by another way, or withdrawn meanwhile.
        match self.store().contact(&whom.peer.did).await?.as_ref().and_then(is_direct) {
            Some(contact) => Ok(Said::Connected(contact.clone().into())),
            None => Err(TrustError::NotOpen { id: row.id, status: RequestStatus::Withdrawn }),
        }
    }

    async fn open_connect(&self, whom: &Whom, note: Option<&str>) -> Result<(RequestRow, bool), TrustError> {
        let (now, peer) = (now(), whom.peer.did.clone());
        let newest = self.store().requests(true, now).await?.last().map_or(0, |row| row.id);
        let request = NewRequest {
            peer_name: whom.peer_name.clone(),
            note: note.map(str::to_owned),
            coordinates: whom.coordinates.clone(),
            ..own_request(RequestKind::Connect, peer, now)
        };
        let row = self.store().open_request(&request).await?;
        let is_new = row.id > newest;
        Ok((row, is_new))
    }

    /// The id for a call that asks what this row says. A peer with a mailbox may refuse it by letter, before this call
    /// even returns: so that is expected from before it leaves.
    async fn left_id(&self, peer: &ResolvedPeer, row: &RequestRow) -> Result<MessageId, StoreError> {
        let message_id = MessageId::from_random(random());
        if peer.mailbox.is_some() {
            self.note_left(message_id.as_str(), &row.peer, &Left::Request(row.id)).await?;
        }
        Ok(message_id)
    }

    /// Whether our row stands although the request failed: what was refused for good is closed, and so is a new one
    /// that never left.
    async fn after_failure(&self, row: &RequestRow, error: &TrustError, is_new: bool) -> Result<(), TrustError> {
        let status = match error {
            TrustError::NotOpen { .. } => return Ok(()),
            TrustError::Send(SendError::Transport { source, .. }) if is_new && source.is_unreachable() => {
                RequestStatus::Withdrawn
            }
            error if error.is_passing() => return Ok(()),
            _ => RequestStatus::Rejected,
        };
        self.store().close_request(row.id, status, now()).await?;
        Ok(())
    }

    async fn pending(&self, row: &RequestRow) -> Result<Connected, TrustError> {
        let is_offline = self.served_by().is_none() && self.mailboxes().await?.is_empty();
        Ok(Connected::Pending { request: row.id, did: row.peer.clone(), is_offline })
    }

    /// `introduction/request`: the text alone says to whom, because the introducer embeds it as our signed question.
    async fn ask_for_introduction(&self, request: &ConnectRequest, ask: &str) -> Result<Connected, TrustError> {
        if request.note.is_some() {
            return Err(TrustError::OutOfRange {
                what: "note",
                found: "given".to_owned(),
                limits: "left out when a contact is asked to introduce you, because that question has fixed words",
            });
        }
        let until = Until::after(request.timeout);
        let introducer = self.direct_contact(ask).await?;
        let target = self.did_of(&request.target, request.allow_private, until).await?;
        if target == introducer.did {
            return Err(TrustError::NotThree("the introducer and the target are the same"));
        }
        if let Some(contact) = self.refuse_blocked(&target).await?.as_ref().and_then(is_direct) {
            return Ok(Connected::Connected { contact: contact.clone(), was_known: true });
        }
        let Some(peer) = self.contact_found(&introducer, request.allow_private).await? else {
            return Err(SendError::NoAddress { who: introducer.name, is_contact: true }.into());
        };
        let new = NewRequest {
            about: Some(target.clone()),
            ..own_request(RequestKind::IntroduceMe, introducer.did.clone(), now())
        };
        let row = self.store().open_request(&new).await?;
        let text = format!("{INTRODUCE_ME_TO}{target}");
        let method = "introduction/request";
        let (params, timeout) = (Object::new(), request.timeout);
        let message_id = Some(self.left_id(&peer, &row).await?);
        let call = Call { method, text: &text, params, timeout, message_id, is_answered_later: false };
        let status = match self.call(&peer, call).await {
            Ok(result) => match result.member("status").and_then(Value::as_str) {
                Some(status @ ("queued" | "proposed" | "declined")) => status.to_owned(),
                _ => return Err(TrustError::BadAnswer { method, what: "neither queued nor proposed nor declined" }),
            },
            Err(error) if error.is_answer_lost() || error.is_at_relay() => "queued".to_owned(),
            Err(error) => {
                self.after_failure(&row, &error, false).await?;
                return Err(error);
            }
        };
        if status == "declined" {
            self.store().close_request(row.id, RequestStatus::Rejected, now()).await?;
        }
        Ok(Connected::Asked { request: row.id, introducer: introducer.did, target, status })
    }

    /// The contact that the owner's words name, when they name one without a request.
    async fn known(&self, text: &str) -> Result<Option<Contact>, TrustError> {
        self.refuse_self(text).await?;
        let contact = match target::parse(text).map_err(SendError::from)? {
            Target::Name(name) => self.store().contact_named(&name).await?,
            Target::Did(did) => self.store().contact(&did).await?,
            _ => None,
        };
        match contact {
            Some(contact) if contact.is_blocked => Err(TrustError::Blocked { who: contact.name }),
            contact => Ok(contact),
        }
    }
}

/// A request of ours with nothing but its kind and its addressee.
pub(super) fn own_request(kind: RequestKind, peer: Did, now: UnixSeconds) -> NewRequest {
    NewRequest {
        kind,
        peer,
        via: None,
        about: None,
        wire_id: None,
        peer_name: None,
        note: None,
        coordinates: Default::default(),
        record: None,
        is_vouched: false,
        created: now,
        expires: UnixSeconds(now.0 + LIFE_SECS),
    }
}

/// The contact, when there is trust both ways.
fn is_direct(contact: &Contact) -> Option<&Contact> {
    (contact.relation == Relation::Direct).then_some(contact)
}

/// A note is for a person: bounded, and text.
pub(super) fn check_note(note: Option<&str>) -> Result<(), TrustError> {
    let found = match note {
        Some(note) if note.trim().is_empty() => "empty".to_owned(),
        Some(note) if note.contains('\0') => "text with a NUL".to_owned(),
        Some(note) if note.len() > MAX_NOTE_BYTES => format!("{} bytes", note.len()),
        _ => return Ok(()),
    };
    let found = text::one_line(&found, 100);
    Err(TrustError::OutOfRange { what: "note", found, limits: "1 to 1000 bytes of text" })
}

#[cfg(test)]
mod tests;
