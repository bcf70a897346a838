//! Domains that belong to a DID (11.4): both directions checked, and the verdict kept for the gate, which never fetches.
//!
//! The domain serves the agent's signed card, which lists the domain, and a DID configuration, which names the DID. All
//! is evidence: https, public addresses only, no redirects, 64 KiB a document.
use std::{future::Future, time::Duration};

use muretai_protocol::{
    Did, UnixSeconds,
    card::{self, Card, EnvelopeError, Expect},
    json::{self, ParseError, Value},
    linkage::{self, DID_CONFIGURATION_PATH, Domain, DomainError, LinkageError, MAX_DOCUMENT_BYTES},
    text::one_line,
    urls::{CARD_PATH, SIGNED_CARD_PATH},
};
use muretai_store::{StoreError, domains::DomainRow};
use muretai_transports::{
    TransportError,
    guard::Policy,
    http::{FetchOptions, Fetched},
};

use super::policies::DOMAIN_LIFE_SECS;
use crate::{
    Agent, Fault,
    agent::now,
    send::peer::{status_fault, transport_fault, transport_hint},
};

/// Characters of a peer's text that an error repeats.
const SHOWN_CHARS: usize = 200;

/// Why a domain has no verdict. What a peer said in it is safe to show on one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DomainVerifyError {
    /// The text is no bare domain.
    #[error("{text:?} is no bare domain")]
    NotADomain {
        /// As given, one line.
        text: String,
        /// Why.
        #[source]
        source: DomainError,
    },
    /// Nothing came back, or nothing may be asked there.
    #[error("{url} could not be fetched")]
    Transport {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: TransportError,
    },
    /// It is somewhere else; evidence is not.
    #[error("{url} redirects to {target:?}, and evidence follows no redirects")]
    Redirect {
        /// Where.
        url: String,
        /// Where it points, one line.
        target: String,
    },
    /// The document is not there.
    #[error("the domain serves no {what} at {url}")]
    Missing {
        /// Which.
        what: &'static str,
        /// Where.
        url: String,
    },
    /// An answer that is no document.
    #[error("{url} answered with HTTP status {status}")]
    Status {
        /// Where.
        url: String,
        /// The status.
        status: u16,
    },
    /// The document is no JSON.
    #[error("{url} is not JSON")]
    NotJson {
        /// Where.
        url: String,
        /// Why.
        #[source]
        source: ParseError,
    },
    /// The signed card does not verify.
    #[error("the signed card of {domain} does not verify")]
    Envelope {
        /// Whose.
        domain: Domain,
        /// Which check failed.
        #[source]
        source: Box<EnvelopeError>,
    },
    /// The card does not say that the domain is its own.
    #[error("the card of {did} does not list {domain}")]
    NotListed {
        /// Whose card.
        did: Did,
        /// The domain.
        domain: Domain,
    },
    /// The domain does not say that the DID is its own.
    #[error("{domain} does not vouch for {did}")]
    NotLinked {
        /// The domain.
        domain: Domain,
        /// Whose card it serves.
        did: Did,
        /// Which check failed.
        #[source]
        source: LinkageError,
    },
    /// Nobody to forget.
    #[error("there is no verdict about {domain}")]
    Unknown {
        /// The domain.
        domain: Domain,
    },
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl DomainVerifyError {
    /// Says whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            DomainVerifyError::NotADomain { .. } => Fault::Usage,
            DomainVerifyError::Transport { source, .. } => transport_fault(source),
            DomainVerifyError::Status { status, .. } => status_fault(*status),
            DomainVerifyError::Store(_) | DomainVerifyError::Unknown { .. } => Fault::Failed,
            _ => Fault::Unverified,
        }
    }

    /// Says what to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            DomainVerifyError::NotADomain { .. } => {
                "write it as agents.example.com, in lower case and without https://"
            }
            DomainVerifyError::Transport { source: TransportError::Refused { .. }, .. } => {
                "a domain counts when its name leads to public addresses only"
            }
            DomainVerifyError::Transport { source, .. } => return transport_hint(source),
            DomainVerifyError::Missing { .. } | DomainVerifyError::Redirect { .. } => {
                "its owner has to serve the signed card and the DID configuration at the domain itself"
            }
            DomainVerifyError::NotListed { .. } => "its owner has to name the domain in the card's `domains`",
            DomainVerifyError::NotLinked { .. } => {
                "its owner has to publish a token for this DID in /.well-known/did-configuration.json"
            }
            DomainVerifyError::Envelope { .. } | DomainVerifyError::NotJson { .. } => {
                "its owner has to mend what the domain serves"
            }
            DomainVerifyError::Unknown { .. } => "`muretai domain list` shows them",
            DomainVerifyError::Status { .. } | DomainVerifyError::Store(_) => return None,
        };
        Some(hint.to_owned())
    }

    /// Whether this is the domain's own answer, after which an earlier verdict no longer stands.
    fn is_answer(&self) -> bool {
        !matches!(self, DomainVerifyError::Store(_)) && self.fault() == Fault::Unverified
    }
}

/// Reads a bare domain as a person types it: capitals and blanks around it are forgiven.
///
/// # Errors
/// [`DomainVerifyError::NotADomain`].
pub fn parse_domain(text: &str) -> Result<Domain, DomainVerifyError> {
    let spelled = text.trim().to_ascii_lowercase();
    spelled.parse().map_err(|source| DomainVerifyError::NotADomain { text: one_line(text, SHOWN_CHARS), source })
}

/// The last second in which a verdict counts.
pub fn counts_until(row: &DomainRow) -> UnixSeconds {
    UnixSeconds(row.verified.0.saturating_add(DOMAIN_LIFE_SECS))
}

/// Where evidence comes from: the domain itself, or a test.
pub(crate) trait Evidence: Sync {
    /// One GET that follows no redirects.
    fn get(&self, url: &str) -> impl Future<Output = Result<Fetched, TransportError>> + Send;
}

/// The public web.
struct Web<'a>(&'a Agent);

impl Evidence for Web<'_> {
    async fn get(&self, url: &str) -> Result<Fetched, TransportError> {
        let options = FetchOptions { policy: Policy::Public, max_bytes: MAX_DOCUMENT_BYTES, redirects: 0 };
        self.0.inner.http.fetch(url, &options).await
    }
}

impl Agent {
    /// Checks both directions between a domain and the DID whose card it serves, and keeps the verdict.
    ///
    /// `timeout` is for everything together, at most three requests. When the domain itself says otherwise, what was
    /// known about it before is forgotten; when it cannot be asked, that stands for as long as it would have.
    pub async fn verify_domain(&self, domain: &Domain, timeout: Duration) -> Result<DomainRow, DomainVerifyError> {
        self.verify_domain_with(&Web(self), domain, timeout).await
    }

    async fn verify_domain_with(
        &self,
        evidence: &impl Evidence,
        domain: &Domain,
        timeout: Duration,
    ) -> Result<DomainRow, DomainVerifyError> {
        let outcome = tokio::time::timeout(timeout, check(evidence, domain)).await.unwrap_or_else(|_| {
            let url = domain.url("");
            let source = TransportError::Timeout { url: url.clone(), limit: timeout };
            Err(DomainVerifyError::Transport { url, source })
        });
        match outcome {
            Ok(did) => {
                let row = DomainRow { did, domain: domain.to_string(), verified: now() };
                self.store().record_domain(&row).await?;
                Ok(row)
            }
            Err(error) => {
                if error.is_answer() {
                    self.forget(domain).await?;
                }
                Err(error)
            }
        }
    }

    /// Forgets the verdict about a domain, and gives it back.
    ///
    /// # Errors
    /// [`DomainVerifyError::Unknown`] when there is none.
    pub async fn forget_domain(&self, domain: &Domain) -> Result<DomainRow, DomainVerifyError> {
        self.forget(domain).await?.ok_or_else(|| DomainVerifyError::Unknown { domain: domain.clone() })
    }

    async fn forget(&self, domain: &Domain) -> Result<Option<DomainRow>, StoreError> {
        let rows = self.store().domains().await?;
        let Some(row) = rows.into_iter().find(|row| row.domain == domain.as_str()) else { return Ok(None) };
        Ok(self.store().forget_domain(&row.did, &row.domain).await?.then_some(row))
    }
}

/// Checks both directions: the card first, because it says whose DID to look for.
async fn check(evidence: &impl Evidence, domain: &Domain) -> Result<Did, DomainVerifyError> {
    let card = signed_card(evidence, domain, now()).await?;
    if !linkage::card_lists(&card.raw, domain) {
        return Err(DomainVerifyError::NotListed { did: card.did, domain: domain.clone() });
    }
    let document = document(evidence, "DID configuration", domain.url(DID_CONFIGURATION_PATH)).await?;
    match linkage::verify(&document, &card.did, domain, now()) {
        Ok(_) => Ok(card.did),
        Err(source) => Err(DomainVerifyError::NotLinked { domain: domain.clone(), did: card.did, source }),
    }
}

/// The card that the domain itself serves, for this address and no other, with its envelope (6.6).
async fn signed_card(evidence: &impl Evidence, domain: &Domain, now: UnixSeconds) -> Result<Card, DomainVerifyError> {
    let envelope = document(evidence, "signed card", domain.url(SIGNED_CARD_PATH)).await?;
    let plain = document(evidence, "card", domain.url(CARD_PATH)).await?;
    let origin = domain.origin();
    let expect = Expect { did: None, plain_card: Some(&plain), dialled: Some(&origin), now };
    card::verify_envelope(&envelope, &expect)
        .map_err(|source| DomainVerifyError::Envelope { domain: domain.clone(), source: source.into() })
}

/// Fetches one document.
async fn document(evidence: &impl Evidence, what: &'static str, url: String) -> Result<Value, DomainVerifyError> {
    let fetched = match evidence.get(&url).await {
        Ok(fetched) => fetched,
        Err(source) => return Err(DomainVerifyError::Transport { url, source }),
    };
    match fetched.status {
        200 => json::parse(&fetched.body).map_err(|source| DomainVerifyError::NotJson { url, source }),
        300..=399 => {
            let target = one_line(fetched.location.as_deref().unwrap_or_default(), SHOWN_CHARS);
            Err(DomainVerifyError::Redirect { url, target })
        }
        401 | 403 | 404 | 405 | 410 => Err(DomainVerifyError::Missing { what, url }),
        status => Err(DomainVerifyError::Status { url, status }),
    }
}

#[cfg(test)]
mod tests;
