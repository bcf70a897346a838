//! The documents that are served to whoever asks: card, signed card, notice, invites, revocations.
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use muretai_plugins::SkillInfo;
use muretai_protocol::{
    UnixSeconds, card, json::Value, limits::CARD_SIG_REFRESH_SECS, revocations, sign::SigningKey, text,
};
use muretai_store::Store;
use muretai_transports::Document;

use crate::{Agent, card::CardFacts, receive::gate::Gate, trust::Policies};

const JSON: &str = "application/json; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const CARD_PATH: &str = ".well-known/agent-card.json";
/// Longest invite code that is looked up.
const MAX_CODE_BYTES: usize = 64;
/// How long a list of revocations is served without looking at the store again: a revocation is told at once, and whoever
/// asks without end costs little.
const LIST_LIFE: Duration = Duration::from_millis(100);

/// What is served. Serialised once; every answer shares the same buffers.
pub(super) struct Documents {
    url: String,
    open_door: bool,
    skills: Vec<SkillInfo>,
    notice: Bytes,
    link: String,
    /// The relay where this agent's mail is fetched now.
    mailbox: Mutex<Option<String>>,
    /// The card as policies and mailbox were when somebody asked last.
    card: Mutex<Option<Made>>,
    revocations: Mutex<Option<List>>,
}

/// The card, and what it was made for.
struct Made {
    policies: Policies,
    mailbox: Option<String>,
    card: Arc<Card>,
}

/// One state of the card.
pub(super) struct Card {
    value: Value,
    bytes: Bytes,
    /// The last signed envelope and when it was signed.
    envelope: Mutex<Option<(UnixSeconds, Bytes)>>,
}

/// The signed list of what this agent took back.
struct List {
    ids: Vec<String>,
    signed: UnixSeconds,
    /// When the store is looked at again.
    reread: Instant,
    bytes: Bytes,
}

impl Documents {
    pub(super) fn new(agent: &Agent, url: &str, open_door: bool, skills: Vec<SkillInfo>) -> Documents {
        let mount = crate::serve::mount_of(url);
        let link = format!(
            "<{mount}/{CARD_PATH}>; rel=\"service-desc\", <{mount}/{CARD_PATH}>; rel=\"https://muretai.net/rel/agent-entry\""
        );
        let notice = format!(
            "{} is an agent on the muretai network.\n\nDID:  {}\nCard: {url}/{CARD_PATH}\n\nThe card says how to sign a message to it.\n",
            text::one_line(agent.name(), 64),
            agent.did(),
        );
        Documents {
            url: url.to_owned(),
            open_door,
            skills,
            notice: Bytes::from(notice),
            link,
            mailbox: Mutex::default(),
            card: Mutex::default(),
            revocations: Mutex::default(),
        }
    }

    /// Says where this agent's mail is fetched from now on.
    pub(super) fn set_mailbox(&self, relay: Option<&str>) {
        *lock(&self.mailbox) = relay.map(str::to_owned);
    }

    /// The document at a path below the mount.
    pub(super) async fn at(&self, path: &str, agent: &Agent, gate: &Gate) -> Option<Document> {
        let json = |body| Document { content_type: JSON, body, link: None };
        match path {
            "" => Some(Document { content_type: PLAIN, body: self.notice.clone(), link: Some(self.link.clone()) }),
            CARD_PATH | ".well-known/agent.json" => Some(json(self.card(agent, gate).await?.bytes.clone())),
            ".well-known/agent-card.sig.json" => {
                self.card(agent, gate).await?.envelope(agent.key(), crate::agent::now()).map(json)
            }
            "revocations" => self.revocations(agent).await.map(json),
            _ => None,
        }
    }

    /// The card of now; made anew when a policy or the mailbox changed.
    pub(super) async fn card(&self, agent: &Agent, gate: &Gate) -> Option<Arc<Card>> {
        let policies = gate.policies().await.ok()?;
        let mut cached = lock(&self.card);
        let mailbox = lock(&self.mailbox).clone();
        if let Some(made) = &*cached
            && (made.policies, &made.mailbox) == (policies, &mailbox)
        {
            return Some(Arc::clone(&made.card));
        }
        let facts = CardFacts {
            url: &self.url,
            open_door: self.open_door,
            policies: &policies,
            skills: &self.skills,
            relay: mailbox.as_deref(),
        };
        let value = agent.card_with(&facts);
        let card = Arc::new(Card::new(value));
        *cached = Some(Made { policies, mailbox, card: Arc::clone(&card) });
        Some(card)
    }

    /// What this agent took back (8.4): signed at most hourly, and when it changes.
    async fn revocations(&self, agent: &Agent) -> Option<Bytes> {
        let now = crate::agent::now();
        if let Some(list) = &*lock(&self.revocations)
            && Instant::now() < list.reread
            && list.is_fresh(now)
        {
            return Some(list.bytes.clone());
        }
        let ids = agent.store().revoked_ids(now).await.inspect_err(|error| {
            tracing::error!(error = error as &dyn std::error::Error, "the own revocations could not be read");
        });
        let ids = ids.ok()?;
        let mut cached = lock(&self.revocations);
        if let Some(list) = cached.as_mut().filter(|list| list.ids == ids && list.is_fresh(now)) {
            list.reread = Instant::now() + LIST_LIFE;
            return Some(list.bytes.clone());
        }
        let bytes = Bytes::from(revocations::mint(agent.key(), ids.clone(), now).to_json());
        *cached = Some(List { ids, signed: now, reread: Instant::now() + LIST_LIFE, bytes: bytes.clone() });
        Some(bytes)
    }
}

#[cfg(test)]
impl Documents {
    /// Lets the second pass for which the own list is not read again.
    pub(super) fn forget(&self) {
        if let Some(list) = &mut *lock(&self.revocations) {
            list.reread = Instant::now();
        }
    }
}

impl List {
    /// Signed within the hour, and not in the future of a clock that was set back.
    fn is_fresh(&self, now: UnixSeconds) -> bool {
        is_recent(self.signed, now)
    }
}

impl Card {
    /// What the card says.
    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    fn new(value: Value) -> Card {
        Card { bytes: Bytes::from(value.to_json()), value, envelope: Mutex::default() }
    }

    /// Signs at most once an hour (6.6), and again when the clock was set back, because an envelope from the future is
    /// refused everywhere.
    fn envelope(&self, key: &SigningKey, now: UnixSeconds) -> Option<Bytes> {
        let mut cached = lock(&self.envelope);
        if let Some((signed, bytes)) = &*cached
            && is_recent(*signed, now)
        {
            return Some(bytes.clone());
        }
        let envelope = card::sign_envelope(key, &self.value, now).inspect_err(|error| {
            tracing::error!(error = error as &dyn std::error::Error, "the own card cannot be signed");
        });
        let bytes = Bytes::from(envelope.ok()?.to_json());
        *cached = Some((now, bytes.clone()));
        Some(bytes)
    }
}

fn is_recent(signed: UnixSeconds, now: UnixSeconds) -> bool {
    (0..CARD_SIG_REFRESH_SECS).contains(&now.0.saturating_sub(signed.0))
}

/// Nothing in here panics half-way, so a poisoned lock holds whole values.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The card of a live invite. A code that is unknown, spent, revoked or expired is simply not there.
pub(super) async fn invite(store: &Store, code: &str) -> Option<Document> {
    let is_code = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if code.is_empty() || code.len() > MAX_CODE_BYTES || !code.bytes().all(is_code) {
        return None;
    }
    match store.invite_card(code, crate::agent::now()).await {
        Ok(card) => card.map(|card| Document { content_type: JSON, body: Bytes::from(card), link: None }),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "an invite could not be looked up");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muretai_protocol::sign::Seed;

    #[test]
    fn the_envelope_is_signed_at_most_hourly_and_never_from_the_future() {
        let key = SigningKey::from_seed(&Seed::from_bytes([1; 32]));
        let card = Card::new(muretai_protocol::json!({"did": (key.did().as_str())}));
        let at = |secs| card.envelope(&key, UnixSeconds(secs)).unwrap();
        let first = at(1_000_000);
        assert_eq!(first.as_ptr(), at(1_003_599).as_ptr(), "the same buffer");
        let second = at(1_003_600);
        assert_ne!(first, second);
        assert_ne!(at(1_003_599), second, "the clock was set back");
    }
}
