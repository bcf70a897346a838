//! The documents that are served to whoever asks: card, signed card, notice, invites.
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use muretai_protocol::{UnixSeconds, card, json::Value, limits::CARD_SIG_REFRESH_SECS, sign::SigningKey, text};
use muretai_store::Store;
use muretai_transports::Document;

use crate::Agent;

const JSON: &str = "application/json; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const CARD_PATH: &str = ".well-known/agent-card.json";
/// Longest invite code that is looked up.
const MAX_CODE_BYTES: usize = 64;

/// What is served without asking the store. Serialised once; every answer shares the same buffers.
pub(super) struct Documents {
    card: Value,
    card_bytes: Bytes,
    notice: Bytes,
    link: String,
    /// The last signed envelope and when it was signed.
    envelope: Mutex<Option<(UnixSeconds, Bytes)>>,
}

impl Documents {
    pub(super) fn new(agent: &Agent, url: &str, open_door: bool) -> Documents {
        let card = agent.card(url, open_door);
        let card_bytes = Bytes::from(card.to_json());
        let mount = crate::serve::mount_of(url);
        let link = format!(
            "<{mount}/{CARD_PATH}>; rel=\"service-desc\", <{mount}/{CARD_PATH}>; rel=\"https://muretai.net/rel/agent-entry\""
        );
        let notice = format!(
            "{} is an agent on the muretai network.\n\nDID:  {}\nCard: {url}/{CARD_PATH}\n\nThe card says how to sign a message to it.\n",
            text::one_line(agent.name(), 64),
            agent.did(),
        );
        Documents { card, card_bytes, notice: Bytes::from(notice), link, envelope: Mutex::default() }
    }

    /// The document at a path below the mount.
    pub(super) fn at(&self, path: &str, key: &SigningKey) -> Option<Document> {
        let json = |body| Document { content_type: JSON, body, link: None };
        match path {
            "" => Some(Document { content_type: PLAIN, body: self.notice.clone(), link: Some(self.link.clone()) }),
            CARD_PATH | ".well-known/agent.json" => Some(json(self.card_bytes.clone())),
            ".well-known/agent-card.sig.json" => self.envelope(key, crate::agent::now()).map(json),
            _ => None,
        }
    }

    /// Signs at most once an hour (6.6), and again when the clock was set back, because an envelope from the future is
    /// refused everywhere.
    fn envelope(&self, key: &SigningKey, now: UnixSeconds) -> Option<Bytes> {
        let mut cached = self.envelope.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((signed, bytes)) = &*cached
            && (0..CARD_SIG_REFRESH_SECS).contains(&now.0.saturating_sub(signed.0))
        {
            return Some(bytes.clone());
        }
        let envelope = card::sign_envelope(key, &self.card, now).inspect_err(|error| {
            tracing::error!(error = error as &dyn std::error::Error, "the own card cannot be signed");
        });
        let bytes = Bytes::from(envelope.ok()?.to_json());
        *cached = Some((now, bytes.clone()));
        Some(bytes)
    }
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
        let documents = Documents {
            card: muretai_protocol::json!({"did": (key.did().as_str())}),
            card_bytes: Bytes::new(),
            notice: Bytes::new(),
            link: String::new(),
            envelope: Mutex::default(),
        };
        let at = |secs| documents.envelope(&key, UnixSeconds(secs)).unwrap();
        let first = at(1_000_000);
        assert_eq!(first.as_ptr(), at(1_003_599).as_ptr(), "the same buffer");
        let second = at(1_003_600);
        assert_ne!(first, second);
        assert_ne!(at(1_003_599), second, "the clock was set back");
    }
}
