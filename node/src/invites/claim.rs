//! Redeeming a link (7.4).
//!
//! Trust is stored after the inviter accepted, not before as the section lists it: a refusal then leaves nothing to
//! take back, whenever we are stopped. What must not be lost between the two is the invite itself, because a short
//! link leads nowhere once it is spent; so the card is kept before the claim is sent. Whoever is stopped in between
//! claims the same link again, and the inviter gives the same DID the same success.
//!
//! An inviter that is off gets the claim through its relay ([`relayed`](super::relayed)), and is trusted from then on:
//! that trust waits for its answer, which confirms it or takes it back ([`answer`](super::answer)).
use std::time::Duration;

use muretai_protocol::{
    MessageId,
    invite::{self, Invite, Link},
    json::{self, Object, Value},
    limits::MAX_RESPONSE_BYTES,
    message::{self, Draft, Role},
    rpc,
    text::one_line,
    urls,
};
use muretai_store::{
    StoreError,
    contacts::{Contact, CoordinateSource, Coordinates, Introduce, Relation},
};
use muretai_transports::{
    MailboxAddress,
    guard::{self, Policy},
    http::FetchOptions,
};
use tokio::time::{Instant, timeout_at};

use super::{ClaimError, ClaimRequest, Claimed, pending::Pending};
use crate::{
    Agent, Fault,
    agent::{now, random},
    send::{
        SendRequest,
        access::{Network, network_of},
        answer::Response,
        peer::status_fault,
        target::{self, host_of},
    },
    trust::call::{NoAnswer, Place, before_relay},
};

const METHOD: &str = "onboard/claim";
/// The status of the notice that follows a claim.
pub(super) const GREETING: &str = "greeting";
/// Redirects that the fetch of an invite follows (12.1).
const INVITE_REDIRECTS: u8 = 5;
/// How long one request of a claim may take: there is nothing behind it that thinks.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// An invite, and how its inviter is reached.
pub(super) struct Errand {
    pub(super) invite: Invite,
    /// Where it is dialled.
    pub(super) base: Option<String>,
    /// The owner lets us dial its local addresses.
    pub(super) allow_private: bool,
    /// Where it gets its mail.
    pub(super) mailbox: Option<MailboxAddress>,
    /// The relay that the owner wants the answer at.
    pub(super) home: Option<String>,
    /// There was trust before.
    pub(super) was_known: bool,
}

/// What became of a claim that got through.
pub(super) enum Presented {
    /// The inviter accepted it.
    Accepted,
    /// It lies at the inviter's relay.
    Left(Box<Pending>),
}

impl Agent {
    /// Redeems a link: fetch and verify the invite, `onboard/claim`, store the contact, greeting. A claim that fails
    /// leaves no contact behind. Claiming again is a success that changes nothing: a contact keeps its name, and gets
    /// no second greeting. A claim that lies at a relay is pending; whoever claims meanwhile asks once more.
    ///
    /// # Errors
    /// A claim whose relay gave no answer may still be accepted; the inviter is a contact then.
    pub async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, ClaimError> {
        let deadline = Instant::now() + request.timeout;
        let link = invite::parse_link(&request.link)?;
        let (link_url, kept) = match &link {
            Link::Fetch(url) => (Some(url.clone()), Some(format!("claim:{url}"))),
            Link::Token(_) => (None, None),
        };
        let home = request.relay.as_deref().map(home).transpose()?;
        let invite = self.invite_of(link, kept.as_deref(), request, deadline).await?;
        let known = self.store().contact(&invite.did).await?;
        self.check_wishes(request, &invite, known.as_ref()).await?;
        let errand = self.errand(invite, known.as_ref(), link_url.as_deref(), home, request).await?;
        let presented = self.present(&errand, request, deadline).await;
        let purpose = errand.invite.purpose.clone();
        match presented {
            Err(error) => {
                if error.is_spent() {
                    if let Some(key) = &kept {
                        self.store().set_setting(key, None).await?;
                    }
                    self.give_up(&errand.invite).await?;
                }
                Err(error)
            }
            Ok(Presented::Accepted) => {
                let was_known = errand.was_known;
                let (contact, notes) = self.accepted(errand, request, deadline).await?;
                Ok(Claimed { contact, was_known, is_pending: false, at_relay: None, purpose, notes })
            }
            Ok(Presented::Left(pending)) => {
                let claimed = self.await_inviter(*pending, &errand, request).await?;
                Ok(Claimed { purpose, ..claimed })
            }
        }
    }

    /// Which ways lead to the inviter, and what may be dialled on them.
    async fn errand(
        &self,
        invite: Invite,
        known: Option<&Contact>,
        link_url: Option<&str>,
        home: Option<String>,
        request: &ClaimRequest,
    ) -> Result<Errand, ClaimError> {
        let is_direct = known.is_some_and(|known| known.relation == Relation::Direct);
        let was_known = is_direct && !self.store().is_provisional(&invite.did).await?;
        let typed = link_url.map_or(Network::Other, network_of);
        let base = urls::canonical_base(&invite.url).ok().filter(|base| !urls::is_wildcard(base));
        // The owner saw the link: when its host is local, an inviter on that same network is what was meant.
        let is_meant = |url: &str| typed != Network::Other && network_of(url) == typed;
        let relay = invite.relay.clone().or_else(|| relay_beside(&invite, link_url));
        let is_meant_any = [&base, &relay].into_iter().flatten().any(|url| is_meant(url));
        let allow_private = request.allow_private || is_meant_any;
        let told = Coordinates { relay, enc_pub: invite.enc_pub.clone(), ..Coordinates::default() };
        let is_near = |relay: &str| {
            let is_home = home.as_deref().is_some_and(|home| urls::same_scope(home, relay));
            is_home || self.policy_for_named(relay, request.allow_private || is_meant(relay)) == Policy::Owner
        };
        let mailbox = self.mailbox_at(&told, is_near).await?;
        if base.is_none() && mailbox.is_none() {
            return Err(ClaimError::NoAddress);
        }
        Ok(Errand { invite, base, allow_private, mailbox, home, was_known })
    }

    /// Sends the claim: directly, and where nobody is there through the relay.
    async fn present(
        &self,
        errand: &Errand,
        request: &ClaimRequest,
        deadline: Instant,
    ) -> Result<Presented, ClaimError> {
        let Some(base) = &errand.base else { return self.present_by_relay(errand, request, deadline).await };
        if errand.mailbox.is_none() {
            return self.present_directly(errand, base, request, deadline).await;
        }
        match self.present_directly(errand, base, request, before_relay(deadline)).await {
            Err(error) if error.is_nobody() => {
                tracing::info!(error = &error as &dyn std::error::Error, "the inviter is not there; trying its relay");
                self.present_by_relay(errand, request, deadline).await
            }
            result => result,
        }
    }

    /// The inviter accepted: there is trust both ways now, or still.
    pub(super) async fn accepted(
        &self,
        errand: Errand,
        request: &ClaimRequest,
        deadline: Instant,
    ) -> Result<(Contact, Vec<String>), ClaimError> {
        self.settle_twins(&errand.invite.did).await?;
        let contact = self.store().connect(&self.inviter(&errand)).await?;
        if errand.was_known {
            let notes = already_known(&contact, request);
            return Ok((contact, notes));
        }
        let (contact, mut notes) = self.named(contact, request).await?;
        if let Some(home) = &errand.home {
            self.remember_mailbox(home).await?;
        }
        if !request.no_greeting {
            notes.extend(self.greet(&contact, deadline).await);
        }
        Ok((contact, notes))
    }

    /// The verified invite behind a link. What a short link led to is kept under `key`, for the day when the link is
    /// spent by ourselves and leads nowhere.
    async fn invite_of(
        &self,
        link: Link,
        key: Option<&str>,
        request: &ClaimRequest,
        deadline: Instant,
    ) -> Result<Invite, ClaimError> {
        let verify = |card| {
            let invite = invite::verify(card, Some(self.did()), now());
            let invite = invite.map_err(|error| ClaimError::of_invite(error, self.did()))?;
            check_places(&invite)?;
            Ok(invite)
        };
        let (url, key) = match (link, key) {
            (Link::Token(card), _) => return verify(card),
            (Link::Fetch(url), None) => return verify(self.fetch_invite(&url, request, deadline).await?),
            (Link::Fetch(url), Some(key)) => (url, key),
        };
        match self.fetch_invite(&url, request, deadline).await {
            Ok(card) => {
                let invite = verify(card)?;
                self.store().set_setting(key, Some(&invite.raw.to_json())).await?;
                Ok(invite)
            }
            Err(error @ ClaimError::NotValid { .. }) => {
                let kept = self.store().setting(key).await?.and_then(|card| json::parse(card.as_bytes()).ok());
                kept.map_or(Err(error), verify)
            }
            Err(error) => Err(error),
        }
    }

    async fn fetch_invite(&self, url: &str, request: &ClaimRequest, deadline: Instant) -> Result<Value, ClaimError> {
        let policy = link_policy(url, request.allow_private);
        let options = FetchOptions { policy, max_bytes: MAX_RESPONSE_BYTES, redirects: INVITE_REDIRECTS };
        let (deadline, after) = call_deadline(deadline, request);
        let fetched = match timeout_at(deadline, self.inner.http.fetch(url, &options)).await {
            Ok(Ok(fetched)) => fetched,
            Ok(Err(source)) => return Err(ClaimError::Transport { url: url.to_owned(), source }),
            Err(_) => return Err(ClaimError::TimedOut { url: url.to_owned(), after }),
        };
        let url = url.to_owned();
        match fetched.status {
            200 => json::parse(&fetched.body).map_err(|_| ClaimError::NotAnInvite { url }),
            404 | 410 => Err(ClaimError::NotValid { url }),
            status => Err(ClaimError::NotAnAnswer { url, status, retry_after: fetched.retry_after }),
        }
    }

    /// What would make the claim useless, found before anybody is dialled.
    async fn check_wishes(
        &self,
        request: &ClaimRequest,
        invite: &Invite,
        known: Option<&Contact>,
    ) -> Result<(), ClaimError> {
        if let Some(contact) = known.filter(|contact| contact.is_blocked) {
            return Err(ClaimError::Blocked(contact.name.clone()));
        }
        let is_direct = known.is_some_and(|contact| contact.relation == Relation::Direct);
        let Some(name) = request.name.as_ref().filter(|_| !is_direct) else { return Ok(()) };
        target::check_name(name, self.name())
            .map_err(|reason| ClaimError::BadName { name: one_line(name, 100), reason })?;
        match self.store().contact_named(name).await? {
            Some(other) if other.did != invite.did => Err(ClaimError::NameTaken(name.clone())),
            _ => Ok(()),
        }
    }

    /// Sends the claim until somebody says something about it.
    async fn present_directly(
        &self,
        errand: &Errand,
        base: &str,
        request: &ClaimRequest,
        deadline: Instant,
    ) -> Result<Presented, ClaimError> {
        let url = urls::post_address(base);
        let policy = self.policy_for_named(base, errand.allow_private);
        let place = Place { url: &url, policy, deadline, each: request.timeout.min(CALL_TIMEOUT) };
        let mut about = self.about_us().await?;
        if let Some(home) = &errand.home {
            about.insert("relay".to_owned(), home.as_str().into());
        }
        // Signed anew each time: a repeated id would be answered as a duplicate, and not with the result.
        let fresh = || {
            let message_id = MessageId::from_random(random());
            let body = self.claim_body(&errand.invite, &message_id, about.clone());
            (message_id.as_str().to_owned(), body)
        };
        match self.exchange(&place, fresh).await {
            Ok(response) => accepted(response, &errand.invite, url).map(|()| Presented::Accepted),
            Err(NoAnswer::Transport { source, .. }) => Err(ClaimError::Transport { url, source }),
            Err(NoAnswer::TimedOut { after }) => Err(ClaimError::TimedOut { url, after }),
        }
    }

    /// The bytes of a claim with what the inviter needs to know of this agent.
    pub(super) fn claim_body(&self, invite: &Invite, message_id: &MessageId, about: Object) -> String {
        let draft = Draft {
            role: Role::User,
            to: invite.did.as_str(),
            message_id,
            context_id: None,
            text: METHOD,
            timestamp: now(),
            extra: Object::new(),
        };
        let mut params = about;
        params.insert("message".to_owned(), message::sign(self.key(), &draft));
        params.insert("nonce".to_owned(), invite.nonce.as_str().into());
        rpc::request(message_id.as_str(), METHOD, &params.into())
    }

    /// What the invite tells of the inviter.
    pub(super) fn inviter(&self, errand: &Errand) -> Introduce {
        let Invite { did, name, relay, enc_pub, .. } = errand.invite.clone();
        Introduce {
            did,
            peer_name: Some(name).filter(|name| !name.is_empty()),
            own_name: Some(self.name().to_owned()),
            coordinates: Coordinates {
                url: errand.base.clone(),
                relay: errand.mailbox.as_ref().map(|mailbox| mailbox.relay.clone()).or(relay),
                enc_pub,
                enc_pub_pq: None,
            },
            source: CoordinateSource::Invite,
            allow_private: errand.allow_private,
            now: now(),
        }
    }

    /// The new contact under the name that the owner wants.
    pub(super) async fn named(
        &self,
        mut contact: Contact,
        request: &ClaimRequest,
    ) -> Result<(Contact, Vec<String>), ClaimError> {
        let mut notes = Vec::new();
        if let Some(name) = request.name.as_ref().filter(|name| **name != contact.name) {
            match self.store().rename_contact(&contact.did, name).await {
                Ok(_) => contact.name.clone_from(name),
                Err(StoreError::NameTaken(_)) => {
                    notes.push(format!("the name {name} was taken meanwhile, the contact is {}", contact.name));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok((contact, notes))
    }

    /// A short message, so that the inviter's owner sees who came. Trust does not depend on it.
    async fn greet(&self, contact: &Contact, deadline: Instant) -> Option<String> {
        let request = SendRequest {
            target: contact.did.to_string(),
            text: self.greeting(),
            context_id: None,
            reply_to: None,
            timeout: deadline.saturating_duration_since(Instant::now()).min(CALL_TIMEOUT),
            retries: 0,
            unverified: false,
            allow_private: false,
            via: None,
        };
        let error = self.send_notice(&request, GREETING).await.err()?;
        Some(format!("the greeting was not delivered: {error}"))
    }

    /// What the inviter's owner reads of whoever accepted an invite.
    pub(super) fn greeting(&self) -> String {
        format!("Hello, this is {}. I have accepted your invite.", self.name())
    }
}

/// The relay that the owner named for answers.
fn home(relay: &str) -> Result<String, ClaimError> {
    super::relay_base(relay).map_err(|_| ClaimError::BadRelay { url: one_line(relay, 200) })
}

/// Where a card that names no relay was fetched from is its relay (7.2), unless that is the inviter itself.
fn relay_beside(invite: &Invite, link_url: Option<&str>) -> Option<String> {
    let (base, _) = link_url?.rsplit_once("/i/")?;
    (urls::is_plain_url(base) && !urls::same_scope(&invite.url, base)).then(|| base.to_owned())
}

impl ClaimError {
    /// Nobody said anything about the claim, so that another way is worth a try.
    fn is_nobody(&self) -> bool {
        match self {
            ClaimError::Transport { .. } | ClaimError::TimedOut { .. } => true,
            ClaimError::NotAnAnswer { status, .. } => status_fault(*status) == Fault::Unreachable,
            _ => false,
        }
    }
}

/// What a repeated claim leaves undone.
fn already_known(contact: &Contact, request: &ClaimRequest) -> Vec<String> {
    let mut notes = Vec::new();
    if request.name.as_ref().is_some_and(|name| *name != contact.name) {
        notes.push(format!("it keeps the name {}; `muretai contacts rename` changes it", contact.name));
    }
    if !request.no_greeting {
        notes.push("no second greeting was sent".to_owned());
    }
    notes
}

/// When one request of a claim has to be over, and after how long that is.
fn call_deadline(deadline: Instant, request: &ClaimRequest) -> (Instant, Duration) {
    (deadline.min(Instant::now() + CALL_TIMEOUT), request.timeout.min(CALL_TIMEOUT))
}

/// The host of a link is the sender's choice, and the owner saw it. A local address in plain sight is what the owner
/// means; a name must not lead to one, nor into the overlay, unless the owner says so.
fn link_policy(url: &str, allow_private: bool) -> Policy {
    if allow_private || network_of(url) != Network::Other {
        return Policy::Owner;
    }
    let host = host_of(url.split_once("://").map_or(url, |(_, rest)| rest));
    if host.parse::<std::net::IpAddr>().is_ok() { Policy::Peer } else { Policy::Public }
}

/// Refuses an invite with an address that nobody ever dials: link-local, unspecified, multicast, in any spelling.
fn check_places(invite: &Invite) -> Result<(), ClaimError> {
    let url = (!invite.url.is_empty()).then_some(&invite.url);
    for (what, place) in [("address", url), ("relay", invite.relay.as_ref())] {
        let Some(place) = place else { continue };
        guard::check_url(place, Policy::Owner).map_err(|source| ClaimError::BadPlace {
            what,
            url: one_line(place, 200),
            source,
        })?;
    }
    Ok(())
}

/// Reads the inviter's answer. Its result is not signed, so it must at least say what 5.2 has it say: `ok`, and the
/// inviter's DID. Another DID is a wrong address; anything else is no acceptance.
pub(super) fn accepted(response: Response, invite: &Invite, url: String) -> Result<(), ClaimError> {
    match response {
        Response::Result(result) => match result.member("did").and_then(Value::as_str) {
            Some(found) if found != invite.did.as_str() => {
                Err(ClaimError::OtherDid { url, found: one_line(found, 200) })
            }
            Some(_) if result.member("ok").and_then(Value::as_bool) == Some(true) => Ok(()),
            _ => Err(ClaimError::NotAccepted { url }),
        },
        Response::Refusal(refusal) => Err(ClaimError::Refused {
            code: refusal.code,
            message: refusal.message,
            detail: refusal.detail,
            data: refusal.data,
        }),
        Response::Status { status, retry_after } => Err(ClaimError::NotAnAnswer { url, status, retry_after }),
        Response::NotAnAnswer(_) => Err(ClaimError::NotAnAnswer { url, status: 200, retry_after: None }),
    }
}
