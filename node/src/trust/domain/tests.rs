use std::{collections::HashMap, sync::Mutex};

use muretai_protocol::{json::Object, sign::SigningKey};

use super::*;
use crate::testing::{Owned, agent, card_of, key};

const TIMEOUT: Duration = Duration::from_secs(5);

/// What a domain serves, by URL, and what it was asked.
#[derive(Default)]
struct Site {
    documents: HashMap<String, (u16, String)>,
    asked: Mutex<Vec<String>>,
}

impl Evidence for Site {
    async fn get(&self, url: &str) -> Result<Fetched, TransportError> {
        self.asked.lock().unwrap().push(url.to_owned());
        let Some((status, body)) = self.documents.get(url) else {
            let source = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            return Err(TransportError::Connect { url: url.to_owned(), source });
        };
        let (status, location) = (*status, (*status == 302).then(|| body.clone()));
        let body = body.clone().into_bytes().into();
        Ok(Fetched { status, body, url: url.to_owned(), content_type: None, retry_after: None, location })
    }
}

impl Site {
    fn serve(&mut self, path: &str, status: u16, body: impl Into<String>) {
        self.documents.insert(domain().url(path), (status, body.into()));
    }

    /// A site that serves a card with these domains for an address, and a token by the same key.
    fn of(key: &SigningKey, url: &str, domains: &[&str]) -> Site {
        let Value::Object(mut card) = card_of(key, url) else { unreachable!() };
        let domains = domains.iter().map(|domain| Value::from(*domain)).collect();
        card.insert("domains".to_owned(), Value::Array(domains));
        let card = Value::from(card);
        let mut site = Site::default();
        site.serve(CARD_PATH, 200, card.to_json());
        site.serve(SIGNED_CARD_PATH, 200, card::sign_envelope(key, &card, now()).unwrap().to_json());
        site.serve(DID_CONFIGURATION_PATH, 200, configuration(key).to_json());
        site
    }
}

fn domain() -> Domain {
    "south.example".parse().unwrap()
}

fn configuration(key: &SigningKey) -> Value {
    let (from, to) = (UnixSeconds(now().0 - 60), UnixSeconds(now().0 + 86_400));
    linkage::document(&[linkage::mint(key, &domain(), from, to)])
}

fn honest() -> Site {
    Site::of(&key(2), "https://south.example", &["a.example", "south.example"])
}

async fn verdict(north: &Owned, site: &Site) -> Result<DomainRow, DomainVerifyError> {
    north.agent.verify_domain_with(site, &domain(), TIMEOUT).await
}

async fn known(north: &Owned) -> Option<DomainRow> {
    north.agent.store().domain_of(key(2).did(), UnixSeconds(0)).await.unwrap()
}

#[tokio::test]
async fn a_domain_whose_two_directions_hold_is_remembered() {
    let north = agent("north").await;
    let site = honest();
    let row = verdict(&north, &site).await.unwrap();
    assert_eq!((&row.did, row.domain.as_str()), (key(2).did(), "south.example"));
    assert_eq!(known(&north).await, Some(row.clone()));
    let asked = [SIGNED_CARD_PATH, CARD_PATH, DID_CONFIGURATION_PATH].map(|path| domain().url(path));
    assert_eq!(*site.asked.lock().unwrap(), asked, "https, and three requests");
    assert_eq!(north.agent.forget_domain(&domain()).await.unwrap(), row);
    let again = north.agent.forget_domain(&domain()).await.unwrap_err();
    assert!(matches!(again, DomainVerifyError::Unknown { .. }) && again.fault() == Fault::Failed);
    assert_eq!(known(&north).await, None);
}

#[tokio::test]
async fn an_answer_that_proves_nothing_ends_what_was_known() {
    use DomainVerifyError as E;
    type Change = fn(&mut Site);
    type Fits = fn(&E) -> bool;
    let cases: [(&str, Change, Fits); 12] = [
        ("unsigned", |s| s.serve(SIGNED_CARD_PATH, 404, ""), |e| matches!(e, E::Missing { what: "signed card", .. })),
        ("no card", |s| s.serve(CARD_PATH, 410, ""), |e| matches!(e, E::Missing { what: "card", .. })),
        ("no token", |s| s.serve(DID_CONFIGURATION_PATH, 404, ""), |e| matches!(e, E::Missing { .. })),
        ("other card", |s| s.serve(CARD_PATH, 200, "{}"), |e| matches!(e, E::Envelope { .. })),
        ("other signer", |s| s.serve(SIGNED_CARD_PATH, 200, "{}"), |e| matches!(e, E::Envelope { .. })),
        ("a page", |s| s.serve(DID_CONFIGURATION_PATH, 200, "<html>"), |e| matches!(e, E::NotJson { .. })),
        ("elsewhere", |s| s.serve(CARD_PATH, 302, "https://east.example/"), |e| matches!(e, E::Redirect { .. })),
        (
            "elsewhere too",
            |s| s.serve(DID_CONFIGURATION_PATH, 302, "https://east.example/"),
            |e| matches!(e, E::Redirect { target, .. } if target == "https://east.example/"),
        ),
        (
            "not listed",
            |s| *s = Site::of(&key(2), "https://south.example", &["a.example"]),
            |e| matches!(e, E::NotListed { did, .. } if did == key(2).did()),
        ),
        (
            "for another address",
            |s| *s = Site::of(&key(2), "https://east.example", &["south.example"]),
            |e| matches!(e, E::Envelope { source, .. } if matches!(**source, EnvelopeError::OtherScope { .. })),
        ),
        (
            "of another",
            |s| s.serve(DID_CONFIGURATION_PATH, 200, configuration(&key(9)).to_json()),
            |e| matches!(e, E::NotLinked { source: LinkageError::NotNamed, .. }),
        ),
        (
            "no list",
            |s| s.serve(DID_CONFIGURATION_PATH, 200, Value::from(Object::new()).to_json()),
            |e| matches!(e, E::NotLinked { source: LinkageError::Malformed, .. }),
        ),
    ];
    let north = agent("north").await;
    for (name, change, fits) in cases {
        verdict(&north, &honest()).await.unwrap();
        let mut site = honest();
        change(&mut site);
        let error = verdict(&north, &site).await.unwrap_err();
        assert!(fits(&error), "{name}: {error:?}");
        assert_eq!(error.fault(), Fault::Unverified, "{name}");
        assert!(error.hint().is_some(), "{name}");
        assert_eq!(known(&north).await, None, "{name}");
    }
}

#[tokio::test]
async fn a_domain_that_cannot_be_asked_keeps_its_verdict() {
    let north = agent("north").await;
    let row = verdict(&north, &honest()).await.unwrap();
    let error = verdict(&north, &Site::default()).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Unreachable);
    let mut busy = honest();
    busy.serve(DID_CONFIGURATION_PATH, 503, "");
    let error = verdict(&north, &busy).await.unwrap_err();
    assert!(matches!(error, DomainVerifyError::Status { status: 503, .. }) && error.fault() == Fault::Unreachable);
    assert_eq!(known(&north).await, Some(row));
}

#[tokio::test]
async fn a_domain_that_changed_hands_is_the_new_owners() {
    let north = agent("north").await;
    verdict(&north, &honest()).await.unwrap();
    let row = verdict(&north, &Site::of(&key(3), "https://south.example", &["south.example"])).await.unwrap();
    assert_eq!(&row.did, key(3).did());
    assert_eq!(known(&north).await, None);
}

#[tokio::test]
async fn evidence_is_never_fetched_from_private_addresses() {
    let north = agent("north").await;
    let local: Domain = "127.0.0.1:9".parse().unwrap();
    let error = north.agent.verify_domain(&local, TIMEOUT).await.unwrap_err();
    let refused = matches!(&error, DomainVerifyError::Transport { source: TransportError::Refused { .. }, .. });
    assert!(refused, "{error:?}");
    assert_eq!(error.hint().as_deref(), Some("a domain counts when its name leads to public addresses only"));
}

#[test]
fn a_typed_domain_is_forgiven_its_capitals() {
    assert_eq!(parse_domain(" South.Example ").unwrap(), domain());
    let error = parse_domain("https://south.example").unwrap_err();
    assert_eq!((error.fault(), error.hint().is_some()), (Fault::Usage, true));
}
