//! What a relay keeps beside letters: signed cards, short invite links, presence (9.6).
use std::time::Duration;

use bytes::Bytes;
use muretai_protocol::{
    Did, UnixSeconds,
    json::{self, Value},
    urls,
};

use super::refusal::{refusal, useless};
use crate::{
    TransportError,
    guard::{self, Policy},
    http::{FetchOptions, Fetched, HttpTransport},
};

/// Bytes of a record, going there and coming back.
const MAX_RECORD_BYTES: usize = 65_536;
/// Characters of an invite's code that are taken; ours have 8 to 12.
const CODE_CHARS: std::ops::RangeInclusive<usize> = 4..=64;

/// A relay to ask.
#[derive(Debug, Clone)]
pub struct Relay<'a> {
    /// Base URL.
    pub base: &'a str,
    /// What may be dialled for it.
    pub policy: Policy,
    /// For one request.
    pub timeout: Duration,
}

/// An invite that a relay keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minted {
    /// Its code.
    pub code: String,
    /// The link, as the relay builds it; below the relay's base where the relay's own spelling cannot be used.
    pub link: String,
}

/// What a relay says about a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presence {
    /// Somebody listens there; `None` when its owner does not tell.
    pub is_online: Option<bool>,
    /// When somebody did last.
    pub last_seen: Option<UnixSeconds>,
}

impl Relay<'_> {
    /// Publishes a signed card envelope. `false`: the relay holds one that is as new or newer.
    ///
    /// # Errors
    /// [`TransportError::RelayRefused`], with 413 for an envelope of more than 64 KiB, [`TransportError::NotARelay`] when
    /// what comes says nothing of the kind, and whatever ends a call.
    pub async fn publish_card(&self, http: &HttpTransport, envelope: &Value) -> Result<bool, TransportError> {
        let answer = self.post(http, "card", envelope).await?;
        match answer.status {
            200 => {
                let what = "it does not say that it took a card";
                let said = self.object(&answer, what)?;
                let is_refused =
                    said.member("error").is_some() || said.member("ok").and_then(Value::as_bool) == Some(false);
                if is_refused { Err(useless(self.base, what)) } else { Ok(true) }
            }
            409 => self.object(&answer, "it does not say why it did not take a card").map(|_| false),
            _ => Err(refusal(self.base, &answer)),
        }
    }

    /// The envelope that the relay has of a DID, unverified; `None` when it has none.
    ///
    /// # Errors
    /// [`TransportError::NotARelay`] when what comes is no object, and whatever ends a call.
    pub async fn card(&self, http: &HttpTransport, did: &Did) -> Result<Option<Value>, TransportError> {
        let answer = self.get(http, &format!("card/{did}")).await?;
        match answer.status {
            200 => self.object(&answer, "a card is a JSON object").map(Some),
            404 => Ok(None),
            _ => Err(refusal(self.base, &answer)),
        }
    }

    /// Leaves a signed invite card there.
    ///
    /// # Errors
    /// [`TransportError::RelayRefused`], [`TransportError::NotARelay`] when the code is none, and whatever ends a call.
    pub async fn mint_invite(&self, http: &HttpTransport, card: &Value) -> Result<Minted, TransportError> {
        let answer = self.post(http, "i", card).await?;
        if answer.status != 200 {
            return Err(refusal(self.base, &answer));
        }
        let answer = self.object(&answer, "the answer to an invite is a JSON object")?;
        let code = answer.member("code").and_then(Value::as_str).filter(|code| is_code(code));
        let code = code.ok_or_else(|| useless(self.base, "it gave an invite no code"))?;
        let link = answer.member("link").and_then(Value::as_str);
        let link = link.filter(|link| urls::is_plain_url(link) && link.ends_with(&format!("/i/{code}")));
        let link = link.map_or_else(|| urls::join(self.base, &format!("i/{code}")), str::to_owned);
        Ok(Minted { code: code.to_owned(), link })
    }

    /// Whether somebody listens for a DID.
    ///
    /// # Errors
    /// [`TransportError::NotARelay`] when what comes is of another shape or about another DID, and whatever ends a call.
    pub async fn presence(&self, http: &HttpTransport, did: &Did) -> Result<Presence, TransportError> {
        let answer = self.get(http, &format!("presence/{did}")).await?;
        if answer.status != 200 {
            return Err(refusal(self.base, &answer));
        }
        let what = "it does not say who is present";
        let answer = self.object(&answer, what)?;
        read_presence(&answer, did).ok_or_else(|| useless(self.base, what))
    }

    async fn get(&self, http: &HttpTransport, path: &str) -> Result<Fetched, TransportError> {
        let options = FetchOptions { policy: self.policy, max_bytes: MAX_RECORD_BYTES, redirects: 0 };
        let url = urls::join(self.base, path);
        self.within(&url, http.fetch(&url, &options)).await
    }

    async fn post(&self, http: &HttpTransport, path: &str, record: &Value) -> Result<Fetched, TransportError> {
        let body = record.to_json();
        if body.len() > MAX_RECORD_BYTES {
            return Err(TransportError::RelayRefused {
                relay: self.base.into(),
                status: 413,
                reason: format!("{} bytes, and it takes {MAX_RECORD_BYTES}", body.len()).into(),
                retry_after: None,
            });
        }
        let url = urls::join(self.base, path);
        let sent = http.post_patiently(&url, Bytes::from(body), self.policy, MAX_RECORD_BYTES, self.timeout);
        self.within(&url, sent).await
    }

    async fn within<T>(
        &self,
        url: &str,
        call: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<T, TransportError> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(result) => result,
            Err(_) => Err(TransportError::Timeout { url: guard::printable(url), limit: self.timeout }),
        }
    }

    fn object(&self, answer: &Fetched, what: &'static str) -> Result<Value, TransportError> {
        let value = json::parse(&answer.body).ok().filter(|value| value.as_object().is_some());
        value.ok_or_else(|| useless(self.base, what))
    }
}

fn is_code(code: &str) -> bool {
    CODE_CHARS.contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn read_presence(answer: &Value, did: &Did) -> Option<Presence> {
    (answer.member("did")?.as_str()? == did.as_str()).then_some(())?;
    let is_online = match answer.member("online") {
        None | Some(Value::Null) => None,
        Some(online) => Some(online.as_bool()?),
    };
    let last_seen = match answer.member("lastSeen") {
        None | Some(Value::Null) => None,
        Some(at) => Some(UnixSeconds(at.as_i64().filter(|at| *at >= 0)?)),
    };
    Some(Presence { is_online, last_seen })
}

#[cfg(test)]
mod tests {
    use muretai_protocol::sign::{Seed, SigningKey};

    use super::*;

    #[test]
    fn codes_fit_into_links() {
        for code in ["Ab3-_x9Z", "abcd", &"a".repeat(64)] {
            assert!(is_code(code), "{code}");
        }
        for code in ["", "abc", "../../x", "a b c d", "abcé", "abcd?", &"a".repeat(65)] {
            assert!(!is_code(code), "{code}");
        }
    }

    #[test]
    fn presence_is_of_the_did_that_was_asked_for() {
        let did = SigningKey::from_seed(&Seed::from_bytes([2; 32])).did().clone();
        let read = |text: String| read_presence(&json::parse(text.as_bytes()).unwrap(), &did);
        let says = |rest: &str| read(format!(r#"{{"did":"{did}"{rest}}}"#));
        let seen = Presence { is_online: Some(true), last_seen: Some(UnixSeconds(7)) };
        assert_eq!(says(r#","online":true,"lastSeen":7"#), Some(seen));
        let silent = Some(Presence { is_online: None, last_seen: None });
        assert_eq!(says(r#","online":null,"lastSeen":null"#), silent);
        assert_eq!(says(""), silent);
        assert_eq!(read(r#"{"did":"did:key:z6Mk","online":true}"#.to_owned()), None);
        for bad in [r#","online":"yes""#, r#","lastSeen":-1"#, r#","lastSeen":"now""#] {
            assert_eq!(says(bad), None, "{bad}");
        }
    }
}
