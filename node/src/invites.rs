//! Making and claiming invites (section 7).
mod answer;
mod claim;
pub mod error;
mod pending;
mod relayed;

use std::time::Duration;

use muretai_protocol::{
    UnixSeconds, base64,
    invite::{self, InviteSpec, Link, LinkError},
    json::Value,
    limits::INVITE_TTL_SECS,
    text, urls,
};
use muretai_store::{contacts::Contact, invites::InviteRow};
use muretai_transports::{
    guard::{self, Policy},
    relay::directory::Relay,
};

use crate::{
    Agent,
    agent::{now, random},
    receive::service::ReceiverOptions,
    serve::URL_SETTING,
};

pub(crate) use answer::{CLAIM_REFUSED, CLAIMED, Settled, awaits, settle};
pub use error::{ClaimError, InviteError};

/// Seconds that an invite may live.
const TTL_SECS: std::ops::RangeInclusive<u64> = 60..=365 * 86_400;
/// Bytes of a note or a purpose; the purpose travels in the link.
const MAX_NOTE_BYTES: usize = 1_000;
/// Random bytes of a short link's code, 14 characters: too many to guess while an invite lives.
const CODE_BYTES: usize = 10;
/// Before a nonce: the setting that names the relay that keeps the invite.
const KEPT_AT: &str = "invite.relay:";
/// How long a relay may take to keep an invite.
const RELAY_TIMEOUT: Duration = Duration::from_secs(10);

/// What `invite create` is told.
#[derive(Debug, Clone, Default)]
pub struct InviteRequest {
    /// Base URL; `None` takes the one that `serve` recorded.
    pub url: Option<String>,
    /// How long it lives, 1 minute to 1 year; `None` is 7 days.
    pub ttl: Option<Duration>,
    /// For the owner's own list.
    pub note: Option<String>,
    /// Shown to whoever gets the link.
    pub purpose: Option<String>,
    /// The relay that keeps the invite and the claim of whoever gets it, so that both work while this agent is off.
    pub relay: Option<String>,
}

/// A new invite.
#[derive(Debug, Clone)]
pub struct NewInvite {
    /// `<url>/i/<code>`, or the same below the relay.
    pub link: String,
    /// `agent://invite?d=…`, needs no fetch.
    pub token_link: String,
    /// The one-time value.
    pub nonce: String,
    /// The code of the short link.
    pub code: String,
    /// The first second in which it is no longer valid.
    pub expires: UnixSeconds,
    /// Where the joiner will dial; empty when nothing but a relay is known.
    pub url: String,
    /// The relay that keeps the invite, and the claim while this agent is off.
    pub relay: Option<String>,
    /// No `serve` of this agent is running now.
    pub is_offline: bool,
}

/// What `claim` is told.
#[derive(Clone)]
pub struct ClaimRequest {
    /// The link as it was pasted.
    pub link: String,
    /// For everything together.
    pub timeout: Duration,
    /// Dial loopback and private addresses that the invite names, now and later.
    pub allow_private: bool,
    /// Local name for the new contact.
    pub name: Option<String>,
    /// No greeting message afterwards.
    pub no_greeting: bool,
    /// The relay where this agent gets the answer of an inviter that is off; `None`: its own, else the invite's.
    pub relay: Option<String>,
    /// How long to wait for that answer, beyond `timeout`.
    pub wait: Duration,
    /// How mail that comes meanwhile is received.
    pub receiver: ReceiverOptions,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The inviter.
    pub contact: Contact,
    /// We were connected already.
    pub was_known: bool,
    /// The claim lies at a relay; the inviter has not answered yet. It is trusted for now, until it refuses.
    pub is_pending: bool,
    /// The relay where a pending claim lies.
    pub at_relay: Option<String>,
    /// What the invite says that it is for: the inviter's words, unsafe to show raw.
    pub purpose: Option<String>,
    /// What did not go as wished and does not matter much, one sentence each.
    pub notes: Vec<String>,
}

impl Agent {
    /// Mints and stores an invite. One with a relay is left there, and this agent has its mailbox there from then on.
    ///
    /// # Errors
    /// Nothing is stored when the request is out of bounds, no address is known, or the relay does not keep it.
    pub async fn create_invite(&self, request: &InviteRequest) -> Result<NewInvite, InviteError> {
        let ttl_secs = request.ttl.map_or(INVITE_TTL_SECS as u64, |ttl| ttl.as_secs());
        if !TTL_SECS.contains(&ttl_secs) {
            return Err(InviteError::TtlOutOfRange { secs: ttl_secs });
        }
        for (what, text) in [("note", &request.note), ("purpose", &request.purpose)] {
            if let Some(text) = text.as_ref().filter(|text| text.len() > MAX_NOTE_BYTES) {
                return Err(InviteError::TextTooLong { what, bytes: text.len() });
            }
        }
        let relay = request.relay.as_deref().map(relay_base).transpose()?;
        let url = match self.invite_base(request.url.as_deref()).await {
            // Whoever claims it writes to the relay.
            Err(InviteError::NoUrl) if relay.is_some() => String::new(),
            url => url?,
        };
        let created = now();
        let row = InviteRow {
            nonce: hex(&random::<16>()),
            code: base64::encode_url(&random::<CODE_BYTES>()),
            card: String::new(),
            note: request.note.clone(),
            created,
            expires: UnixSeconds(created.0 + ttl_secs as i64),
            revoked: None,
            used_by: None,
            used: None,
        };
        // Whoever claims it should reach this agent later, too, when nobody is at the address any more.
        let listens_at = self.served_by().and_then(|holder| holder.mailboxes.into_iter().next());
        let card = self.mint(&row, &url, request.purpose.as_deref(), relay.as_deref().or(listens_at.as_deref()));
        let mut row = InviteRow { card: card.to_json(), ..row };
        if let Some(relay) = &relay {
            row.code = self.leave_invite(relay, &card).await?;
            // Before the invite is there: one of a relay never shows as another.
            self.store().set_setting(&format!("{KEPT_AT}{}", row.nonce), Some(relay)).await?;
        }
        self.store().add_invite(&row).await?;
        if let Some(relay) = &relay {
            self.remember_mailbox(relay).await?;
        }
        Ok(NewInvite {
            link: invite::short_link(relay.as_deref().unwrap_or(&url), &row.code),
            token_link: invite::token_link(&card),
            nonce: row.nonce,
            code: row.code,
            expires: row.expires,
            url,
            relay,
            is_offline: self.served_by().is_none(),
        })
    }

    /// All invites, newest first.
    pub async fn invites(&self) -> Result<Vec<InviteRow>, InviteError> {
        Ok(self.store().invites().await?)
    }

    /// The relay that keeps an invite, beside what this agent keeps of it: what is revoked here can be fetched there
    /// until it expires, and is refused when it is claimed. A card names a relay also where its link leads to its agent.
    pub async fn relay_of(&self, invite: &InviteRow) -> Result<Option<String>, InviteError> {
        Ok(self.store().setting(&format!("{KEPT_AT}{}", invite.nonce)).await?)
    }

    /// Revokes by link in either form, nonce or code. `None` when there is no such invite.
    pub async fn revoke_invite(&self, what: &str) -> Result<Option<InviteRow>, InviteError> {
        let key = match invite::parse_link(what) {
            Ok(Link::Token(card)) => {
                let nonce = card.member("nonce").and_then(Value::as_str);
                nonce.ok_or(InviteError::Link(LinkError::Damaged))?.to_owned()
            }
            Ok(Link::Fetch(url)) => url.rsplit("/i/").next().unwrap_or_default().trim_end_matches('/').to_owned(),
            Err(LinkError::NotALink) => what.trim().to_owned(),
            Err(error) => return Err(error.into()),
        };
        Ok(self.store().revoke_invite(&key, now()).await?)
    }

    /// Leaves an invite at a relay; gives its code there. What the relay says of a link is not taken: the owner hands on
    /// one that leads to the relay that was named.
    async fn leave_invite(&self, relay: &str, card: &Value) -> Result<String, InviteError> {
        let place = Relay { base: relay, policy: Policy::Owner, timeout: RELAY_TIMEOUT };
        let minted = place.mint_invite(&self.inner.http, card).await;
        let code = minted.map_err(|source| InviteError::Relay { relay: relay.to_owned(), source })?.code;
        match self.store().invites().await?.iter().any(|invite| invite.code == code) {
            true => Err(InviteError::CodeTaken { relay: relay.to_owned() }),
            false => Ok(code),
        }
    }

    fn mint(&self, row: &InviteRow, url: &str, purpose: Option<&str>, relay: Option<&str>) -> Value {
        let spec = InviteSpec {
            name: self.name(),
            url,
            specialty: None,
            nonce: &row.nonce,
            exp: row.expires,
            purpose,
            relay,
            enc_pub: Some(&self.enc_pub()),
        };
        invite::mint(self.key(), &spec)
    }

    /// The address that an invite names: the owner's word, or where `serve` is or was.
    async fn invite_base(&self, url: Option<&str>) -> Result<String, InviteError> {
        let url = match url {
            Some(url) => url.trim().to_owned(),
            None => {
                let served = self.store().setting(URL_SETTING).await?;
                served.filter(|url| !url.is_empty()).ok_or(InviteError::NoUrl)?
            }
        };
        match urls::canonical_base(&url) {
            Ok(base) if urls::is_wildcard(&base) => Err(InviteError::Wildcard(base)),
            Ok(base) => Ok(base),
            Err(source) => Err(InviteError::BadUrl { url, source }),
        }
    }
}

/// The address of a relay as the owner gave it, without a slash at its end.
fn relay_base(relay: &str) -> Result<String, InviteError> {
    let url = relay.trim().trim_end_matches('/');
    let is_dialled = urls::is_plain_url(url) && guard::check_url(url, Policy::Owner).is_ok();
    if is_dialled { Ok(url.to_owned()) } else { Err(InviteError::BadRelay { url: text::one_line(relay, 200) }) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
