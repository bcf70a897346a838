//! A peer's card, fetched and verified: first path, then the second; signed envelope beside it; scope match.
//!
//! Sections 6.1, 6.6 and 12.5. A card with an envelope is judged by the envelope alone: when that fails, the card is
//! unusable. A card without one is an unproven claim; it is still good for dialling, because the signed reply proves
//! the DID behind it. Such a card may name no address, or one that can be bound and not dialled (`0.0.0.0`): then the
//! origin that served it is dialled (D4). A signed card that names such an address is refused: an empty or wildcard
//! scope matches nothing (12.5), and a proven statement is not to be mended by the reader.
use muretai_protocol::{
    Did, UnixSeconds,
    card::{self, Card, CardError, EnvelopeError, Expect},
    json::{self, ParseError, Value},
    limits::MAX_RESPONSE_BYTES,
    text::one_line,
    urls::{self, BaseUrlError},
};
use muretai_store::StoreError;
use muretai_transports::{
    TransportError,
    guard::{self, GuardError, Policy},
    http::{FetchOptions, Fetched},
};
use std::time::Duration;

use crate::{Agent, Fault, agent::now};

/// How long a card may take, with all the places that are looked at; no computation stands behind it.
const CARD_TIMEOUT: Duration = Duration::from_secs(10);
/// Redirects that a card fetch follows (12.1); the envelope's fetch follows none.
const CARD_REDIRECTS: u8 = 5;
/// Characters of a peer's URL that an error repeats.
const SHOWN_URL_CHARS: usize = 200;

/// A peer as its card shows it.
#[derive(Debug, Clone)]
pub struct PeerCard {
    /// The card.
    pub card: Card,
    /// The envelope beside it verified. `false`: there was none, the card is an unproven claim.
    pub is_signed: bool,
    /// Where it was fetched.
    pub fetched_from: String,
    /// The canonical base to dial: the card's own, or the origin that served a card which names none. Empty for a copy
    /// that names none.
    pub base: String,
    /// It is the copy that a relay keeps (9.6), signed at this time.
    pub copy_signed: Option<UnixSeconds>,
    /// What may be dialled for it.
    pub(crate) policy: Policy,
}

/// A fetched card of either kind.
#[derive(Debug, Clone)]
pub enum FetchedCard {
    /// One of ours.
    Peer(Box<PeerCard>),
    /// An A2A agent without a DID.
    Foreign {
        /// The card.
        card: Box<Value>,
        /// Where it was fetched.
        url: String,
    },
}

/// Why no usable card was had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CardFetchError {
    /// The URL cannot be the base of an agent.
    #[error("{url:?} cannot be an agent's address")]
    BadUrl {
        /// As given.
        url: String,
        /// Why.
        #[source]
        source: BaseUrlError,
    },
    /// Nothing came back.
    #[error("the card at {url} could not be fetched")]
    Transport {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: TransportError,
    },
    /// An answer that is no document.
    #[error("{url} answered with HTTP status {status}")]
    Status {
        /// Where.
        url: String,
        /// The status.
        status: u16,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// HTML.
    #[error("{url} is a web page, not an agent card")]
    WebPage {
        /// Where.
        url: String,
    },
    /// Neither HTML nor JSON.
    #[error("the card at {url} is not JSON")]
    NotJson {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: ParseError,
    },
    /// JSON that is no usable card.
    #[error("what {url} serves is not a usable agent card")]
    NotACard {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: CardError,
    },
    /// The signed envelope beside the card fails, so the card is unusable.
    #[error("the signed card at {url} does not verify")]
    Envelope {
        /// Where the envelope is.
        url: String,
        /// Which check failed.
        #[source]
        source: Box<EnvelopeError>,
    },
    /// The envelope is no JSON.
    #[error("the signed card at {url} is not JSON")]
    EnvelopeNotJson {
        /// Where the envelope is.
        url: String,
        /// Why.
        #[source]
        source: ParseError,
    },
    /// Somebody else's card.
    #[error("the card at {url} is that of {found}, not of {expected}")]
    OtherDid {
        /// Where.
        url: String,
        /// Whose it is, in words.
        found: String,
        /// Whom the caller meant.
        expected: Did,
    },
    /// The card names another place than the one it was served at.
    #[error("the card at {url} belongs to {card_url}")]
    OtherScope {
        /// Where.
        url: String,
        /// What it says, made safe.
        card_url: String,
    },
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl CardFetchError {
    /// Whose fault.
    pub fn fault(&self) -> Fault {
        match self {
            CardFetchError::BadUrl { .. } => Fault::Usage,
            CardFetchError::Transport { source, .. } => transport_fault(source),
            CardFetchError::Status { status, .. } => status_fault(*status),
            CardFetchError::Envelope { .. }
            | CardFetchError::EnvelopeNotJson { .. }
            | CardFetchError::OtherDid { .. }
            | CardFetchError::OtherScope { .. } => Fault::Unverified,
            _ => Fault::Failed,
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            CardFetchError::Transport { source, .. } => return transport_hint(source),
            CardFetchError::Status { retry_after: Some(wait), .. } => {
                return Some(format!("try again in {} s", wait.as_secs().max(1)));
            }
            CardFetchError::Status { .. } | CardFetchError::WebPage { .. } | CardFetchError::NotACard { .. } => {
                "check the address; an agent serves its card at /.well-known/agent-card.json below it"
            }
            CardFetchError::Envelope { source, .. } if matches!(**source, EnvelopeError::OtherScope { .. }) => {
                return Some(other_scope_hint(source));
            }
            CardFetchError::Envelope { .. } | CardFetchError::EnvelopeNotJson { .. } => {
                "nothing was sent; the agent's owner has to mend its signed card"
            }
            CardFetchError::OtherDid { .. } => "nothing was sent; ask the agent's owner which address is right",
            CardFetchError::OtherScope { card_url, .. } => {
                return Some(format!("a copy proves nothing; if you trust it, dial {card_url} itself"));
            }
            CardFetchError::BadUrl { .. } | CardFetchError::NotJson { .. } | CardFetchError::Store(_) => return None,
        };
        Some(hint.to_owned())
    }
}

/// The same machine may have several names, and a card is good for one of them.
fn other_scope_hint(error: &EnvelopeError) -> String {
    let card_url = match error {
        EnvelopeError::OtherScope { card_url, .. } => one_line(card_url, SHOWN_URL_CHARS),
        _ => String::new(),
    };
    format!("nothing was sent; the card is for {card_url:?}: if you trust it, dial that address")
}

/// Whose fault it is that bytes did not travel. Unreachable means that nobody was there, or nothing came back: what the
/// guard refuses was never tried, and whatever came back was somebody's answer, if not one that can be used.
pub(crate) fn transport_fault(error: &TransportError) -> Fault {
    match error {
        TransportError::Refused { .. }
        | TransportError::Tls { .. }
        | TransportError::NotHttp { .. }
        | TransportError::TooLarge { .. }
        | TransportError::RedirectRefused { .. }
        | TransportError::TooManyRedirects { .. }
        | TransportError::Client { .. } => Fault::Failed,
        TransportError::Status { status, .. } => status_fault(*status),
        _ => Fault::Unreachable,
    }
}

/// The same for a status that is no answer. With these, a server says that nobody is there now.
pub(crate) fn status_fault(status: u16) -> Fault {
    if matches!(status, 429 | 502..=504) { Fault::Unreachable } else { Fault::Failed }
}

/// What to do about it.
pub(crate) fn transport_hint(error: &TransportError) -> Option<String> {
    match error {
        TransportError::Refused { source: GuardError::Address { address, .. }, .. } => Some(
            if guard::check_address(*address, Policy::Owner).is_ok() {
                "a peer named this address; if it is on your own network and you trust it, add `--allow-private`"
            } else {
                "addresses of this class are never dialled; check the URL"
            }
            .to_owned(),
        ),
        TransportError::Refused { .. } => Some("check the URL".to_owned()),
        TransportError::Tls { .. } => Some(
            "its certificate has to be valid for this host; if it speaks plain http, write http:// before it"
                .to_owned(),
        ),
        _ => Some("`muretai doctor` shows which ways reach this peer".to_owned()),
    }
}

impl Agent {
    /// Fetches and verifies the card at a URL that the owner typed, or that a contact has.
    ///
    /// With `expect`, the card of anybody else is an error. A contact's own URL is dialled under what that contact may
    /// name; every other URL counts as the owner's. At most six requests, bounded in size, and
    /// all together within ten seconds.
    pub async fn fetch_card(
        &self,
        url: &str,
        expect: Option<&Did>,
        allow_private: bool,
    ) -> Result<FetchedCard, CardFetchError> {
        let mut policy = Policy::Owner;
        if let Some(did) = expect
            && let Some(contact) = self.store().contact(did).await?
            && contact.coordinates.url.as_deref().is_some_and(|own| own == url || urls::same_scope(own, url))
        {
            policy = self.policy_for_contact(&contact, url, allow_private);
        }
        self.fetch_card_under(url, expect, policy).await
    }

    /// The same under a policy that the caller decided on.
    pub(crate) async fn fetch_card_under(
        &self,
        url: &str,
        expect: Option<&Did>,
        policy: Policy,
    ) -> Result<FetchedCard, CardFetchError> {
        tokio::time::timeout(CARD_TIMEOUT, self.fetch_card_untimed(url, expect, policy)).await.unwrap_or_else(|_| {
            let url = one_line(url, SHOWN_URL_CHARS);
            let source = TransportError::Timeout { url: url.clone(), limit: CARD_TIMEOUT };
            Err(CardFetchError::Transport { url, source })
        })
    }

    async fn fetch_card_untimed(
        &self,
        url: &str,
        expect: Option<&Did>,
        policy: Policy,
    ) -> Result<FetchedCard, CardFetchError> {
        let places = Places::of(url)?;
        let fetched = self.fetch_first(&places.cards, policy).await?;
        let plain = parse_card(&fetched)?;
        let card = match card::read(plain.clone()) {
            Ok(card) => card,
            Err(CardError::NoDid) => return foreign(plain, fetched.url, expect),
            Err(source) => return Err(CardFetchError::NotACard { url: fetched.url, source }),
        };
        if let Some(expected) = expect.filter(|did| **did != card.did) {
            let found = card.did.to_string();
            return Err(CardFetchError::OtherDid { url: fetched.url, found, expected: expected.clone() });
        }
        let served_at = places.base_of(&fetched.url);
        // Where a redirect led is no longer the owner's word.
        let policy = if urls::origin(&served_at) == dialled_origin(&places.base) { policy } else { stricter(policy) };
        let served = Served { fetched_from: fetched.url, base: served_at, policy };
        self.prove(plain, card, served, &places.base, expect).await.map(|peer| FetchedCard::Peer(Box::new(peer)))
    }

    /// The first document that is there; a later place is tried only when an earlier one has nothing.
    async fn fetch_first(&self, cards: &[String], policy: Policy) -> Result<Fetched, CardFetchError> {
        let mut missing = None;
        for url in cards {
            let fetched = self.fetch_document(url, policy, CARD_REDIRECTS).await?;
            match fetched.status {
                200 => return Ok(fetched),
                // Reported is the place that is tried first, which is the one to look at.
                404 | 405 | 410 | 403 => _ = missing.get_or_insert(status_error(fetched)),
                _ => return Err(status_error(fetched)),
            }
        }
        Err(missing.expect("there is at least one place for a card"))
    }

    async fn fetch_document(&self, url: &str, policy: Policy, redirects: u8) -> Result<Fetched, CardFetchError> {
        let options = FetchOptions { policy, max_bytes: MAX_RESPONSE_BYTES, redirects };
        let fetched = self.inner.http.fetch(url, &options).await;
        fetched.map_err(|source| CardFetchError::Transport { url: url.to_owned(), source })
    }

    /// Checks the envelope beside the card, or without one the scope alone.
    async fn prove(
        &self,
        plain: Value,
        card: Card,
        served: Served,
        dialled: &str,
        expect: Option<&Did>,
    ) -> Result<PeerCard, CardFetchError> {
        let address = urls::well_known(&served.base).signed;
        let envelope = self.fetch_document(&address, served.policy, 0).await?;
        // After a redirect, the place that served the card is as good as the one that was dialled.
        let scope = if urls::same_scope(&card.url, dialled) { dialled } else { served.base.as_str() };
        match envelope.status {
            200 => {
                let value = json::parse(&envelope.body)
                    .map_err(|source| CardFetchError::EnvelopeNotJson { url: address.clone(), source })?;
                let expect = Expect { did: expect, plain_card: Some(&plain), dialled: Some(scope), now: now() };
                let card = card::verify_envelope(&value, &expect)
                    .map_err(|source| CardFetchError::Envelope { url: address, source: source.into() })?;
                Ok(served.peer(card, true))
            }
            401 | 403 | 404 | 405 | 410 => {
                let names_nothing = card.url.is_empty() || urls::is_wildcard(&card.url);
                if !names_nothing && !urls::same_scope(&card.url, scope) {
                    let card_url = one_line(&card.url, SHOWN_URL_CHARS);
                    return Err(CardFetchError::OtherScope { url: served.fetched_from, card_url });
                }
                Ok(served.peer(card, false))
            }
            _ => Err(status_error(envelope)),
        }
    }
}

/// Where a card came from.
struct Served {
    fetched_from: String,
    base: String,
    policy: Policy,
}

impl Served {
    fn peer(self, card: Card, is_signed: bool) -> PeerCard {
        let base = match urls::canonical_base(&card.url) {
            Ok(base) if !urls::is_wildcard(&base) => base,
            _ => self.base,
        };
        let (fetched_from, policy) = (self.fetched_from, self.policy);
        PeerCard { card, is_signed, fetched_from, base, copy_signed: None, policy }
    }
}

/// Where a typed URL's card may be.
struct Places {
    /// The canonical base.
    base: String,
    /// In the order in which they are tried.
    cards: Vec<String>,
}

impl Places {
    fn of(url: &str) -> Result<Places, CardFetchError> {
        let url = url.trim();
        let canonical = |base: &str| {
            urls::canonical_base(base)
                .map_err(|source| CardFetchError::BadUrl { url: one_line(url, SHOWN_URL_CHARS), source })
        };
        let file = url.rsplit('/').next().unwrap_or_default();
        if urls::base_of_card_url(url).is_none() && file.ends_with(".json") && !url.ends_with(&format!("://{file}")) {
            // A card in a place of its own, as some foreign agents have it.
            let base = canonical(&url[..url.len() - file.len()])?;
            return Ok(Places { base, cards: vec![url.to_owned()] });
        }
        let base = canonical(urls::base_of_card_url(url).unwrap_or(url))?;
        let addresses = urls::well_known(&base);
        Ok(Places { base, cards: vec![addresses.card, addresses.legacy] })
    }

    /// The base of the place that a card was served at in the end.
    fn base_of(&self, fetched_from: &str) -> String {
        if self.cards.iter().any(|card| card == fetched_from) {
            return self.base.clone();
        }
        let folder = || fetched_from.rsplit_once('/').map_or(fetched_from, |(folder, _)| folder);
        let base = urls::base_of_card_url(fetched_from).unwrap_or_else(folder);
        urls::canonical_base(base).unwrap_or_else(|_| self.base.clone())
    }
}

/// The origin as it is dialled: `http://2130706433` is `http://127.0.0.1`, and no redirect led there.
fn dialled_origin(base: &str) -> String {
    guard::check_url(base, Policy::Owner).map_or_else(|_| urls::origin(base), |url| urls::origin(url.as_str()))
}

fn stricter(policy: Policy) -> Policy {
    if policy == Policy::Owner { Policy::Peer } else { policy }
}

fn foreign(card: Value, url: String, expect: Option<&Did>) -> Result<FetchedCard, CardFetchError> {
    match expect {
        None => Ok(FetchedCard::Foreign { card: Box::new(card), url }),
        Some(expected) => Err(CardFetchError::OtherDid {
            url,
            found: "an agent without a DID".to_owned(),
            expected: expected.clone(),
        }),
    }
}

fn status_error(fetched: Fetched) -> CardFetchError {
    CardFetchError::Status { url: fetched.url, status: fetched.status, retry_after: fetched.retry_after }
}

fn parse_card(fetched: &Fetched) -> Result<Value, CardFetchError> {
    json::parse(&fetched.body).map_err(|source| {
        let url = fetched.url.clone();
        if is_web_page(fetched) { CardFetchError::WebPage { url } } else { CardFetchError::NotJson { url, source } }
    })
}

/// Tells a page for people from data.
pub(crate) fn is_web_page(fetched: &Fetched) -> bool {
    let is_html = fetched.content_type.as_deref().is_some_and(|kind| kind.trim_start().starts_with("text/html"));
    is_html || fetched.body.trim_ascii_start().starts_with(b"<")
}

#[cfg(test)]
mod tests;
