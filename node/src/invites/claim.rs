//! Redeeming a link (7.4).
//!
//! Trust is stored after the inviter accepted, not before as the section lists it: a refusal then leaves nothing to
//! take back, whenever we are stopped. What must not be lost between the two is the invite itself, because a short
//! link leads nowhere once it is spent; so the card is kept before the claim is sent. Whoever is stopped in between
//! claims the same link again, and the inviter gives the same DID the same success.
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
    guard::{self, Policy},
    http::FetchOptions,
};
use tokio::time::{Instant, timeout_at};

use super::{ClaimError, ClaimRequest, Claimed};
use crate::{
    Agent,
    agent::{now, random},
    send::{
        SendRequest,
        access::{Network, network_of},
        answer::Response,
        target::{self, host_of},
    },
    trust::call::{NoAnswer, Place},
};

const METHOD: &str = "onboard/claim";
/// Redirects that the fetch of an invite follows (12.1).
const INVITE_REDIRECTS: u8 = 5;
/// How long one request of a claim may take: there is nothing behind it that thinks.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

impl Agent {
    /// Redeems a link: fetch and verify the invite, `onboard/claim`, store the contact, greeting. A claim that fails
    /// leaves no contact behind. Claiming again is a success that changes nothing: a contact keeps its name, and gets
    /// no second greeting.
    pub async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, ClaimError> {
        let deadline = Instant::now() + request.timeout;
        let link = invite::parse_link(&request.link)?;
        let (typed, kept) = match &link {
            Link::Fetch(url) => (network_of(url), Some(format!("claim:{url}"))),
            Link::Token(_) => (Network::Other, None),
        };
        let invite = self.invite_of(link, kept.as_deref(), request, deadline).await?;
        let known = self.store().contact(&invite.did).await?;
        let was_known = known.as_ref().is_some_and(|known| known.relation == Relation::Direct);
        self.check_wishes(request, &invite, known.as_ref()).await?;
        let base = urls::canonical_base(&invite.url).ok().filter(|base| !urls::is_wildcard(base));
        let base = base.ok_or(ClaimError::NoAddress)?;
        // The owner saw the link: when its host is local, an inviter on that same network is what was meant.
        let allow_private = request.allow_private || (typed != Network::Other && network_of(&base) == typed);
        let policy = self.policy_for_named(&base, allow_private);
        if let Err(error) = self.present(&invite, &base, policy, request, deadline).await {
            if let (true, Some(key)) = (error.is_spent(), &kept) {
                self.store().set_setting(key, None).await?;
            }
            return Err(error);
        }
        let purpose = invite.purpose.clone();
        let (contact, notes) = if was_known {
            let contact = self.store_inviter(invite, base, allow_private).await?;
            let notes = already_known(&contact, request);
            (contact, notes)
        } else {
            let (contact, mut notes) = self.connect(request, invite, base, allow_private).await?;
            if !request.no_greeting {
                notes.extend(self.greet(&contact, deadline).await);
            }
            (contact, notes)
        };
        Ok(Claimed { contact, was_known, is_pending: false, purpose, notes })
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
    async fn present(
        &self,
        invite: &Invite,
        base: &str,
        policy: Policy,
        request: &ClaimRequest,
        deadline: Instant,
    ) -> Result<(), ClaimError> {
        let url = urls::post_address(base);
        let place = Place { url: &url, policy, deadline, each: request.timeout.min(CALL_TIMEOUT) };
        // Signed anew each time: a repeated id would be answered as a duplicate, and not with the result.
        match self.exchange(&place, || self.claim_body(invite)).await {
            Ok(response) => accepted(response, invite, url),
            Err(NoAnswer::Transport { source, .. }) => Err(ClaimError::Transport { url, source }),
            Err(NoAnswer::TimedOut { after }) => Err(ClaimError::TimedOut { url, after }),
        }
    }

    /// The id of a fresh request, and its bytes.
    fn claim_body(&self, invite: &Invite) -> (String, String) {
        let message_id = MessageId::from_random(random());
        let draft = Draft {
            role: Role::User,
            to: invite.did.as_str(),
            message_id: &message_id,
            context_id: None,
            text: METHOD,
            timestamp: now(),
            extra: Object::new(),
        };
        let mut params = Object::new();
        params.insert("message".to_owned(), message::sign(self.key(), &draft));
        params.insert("nonce".to_owned(), invite.nonce.as_str().into());
        params.insert("name".to_owned(), self.name().into());
        params.insert("enc_pub".to_owned(), self.enc_pub().into());
        if let Some(url) = self.served_url() {
            params.insert("url".to_owned(), url.into());
        }
        let id = message_id.as_str().to_owned();
        let body = rpc::request(&id, METHOD, &params.into());
        (id, body)
    }

    async fn store_inviter(&self, invite: Invite, base: String, allow_private: bool) -> Result<Contact, StoreError> {
        let introduce = Introduce {
            did: invite.did,
            peer_name: Some(invite.name).filter(|name| !name.is_empty()),
            own_name: Some(self.name().to_owned()),
            coordinates: Coordinates {
                url: Some(base),
                relay: invite.relay,
                enc_pub: invite.enc_pub,
                enc_pub_pq: None,
            },
            source: CoordinateSource::Invite,
            allow_private,
            now: now(),
        };
        self.store().connect(&introduce).await
    }

    async fn connect(
        &self,
        request: &ClaimRequest,
        invite: Invite,
        base: String,
        allow_private: bool,
    ) -> Result<(Contact, Vec<String>), ClaimError> {
        let did = invite.did.clone();
        let mut contact = self.store_inviter(invite, base, allow_private).await?;
        let mut notes = Vec::new();
        if let Some(name) = request.name.as_ref().filter(|name| **name != contact.name) {
            match self.store().rename_contact(&did, name).await {
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
            text: format!("Hello, this is {}. I have accepted your invite.", self.name()),
            context_id: None,
            reply_to: None,
            timeout: deadline.saturating_duration_since(Instant::now()).min(CALL_TIMEOUT),
            retries: 0,
            unverified: false,
            allow_private: false,
            via: None,
        };
        let error = self.send_notice(&request, "greeting").await.err()?;
        Some(format!("the greeting was not delivered: {error}"))
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
fn accepted(response: Response, invite: &Invite, url: String) -> Result<(), ClaimError> {
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
