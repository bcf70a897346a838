//! Bare domains, and the documents by which they name their DIDs.
use std::sync::LazyLock;

use muretai_protocol::{
    UnixSeconds,
    json::parse,
    linkage::{self, Domain},
    sign::{Seed, SigningKey},
    urls,
};

const NOW: UnixSeconds = UnixSeconds(1_785_000_000);
static NORTH: LazyLock<SigningKey> = LazyLock::new(|| SigningKey::from_seed(&Seed::from_bytes([1; 32])));

/// Judges the data as a document, a token and a domain.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let north: Domain = "north.example".parse().expect("it is a domain");
    if let Ok(document) = parse(data) {
        let _ = linkage::verify(&document, NORTH.did(), &north, NOW);
        let _ = linkage::card_lists(&document, &north);
    }
    let _ = linkage::verify(&linkage::document(&[text.clone().into_owned()]), NORTH.did(), &north, NOW);
    let Ok(domain) = text.trim().parse::<Domain>() else { return };
    assert!(!urls::origin(&domain.url("/")).is_empty(), "a domain can be called");
    let token = linkage::mint(&NORTH, &domain, NOW, NOW);
    let linked = linkage::verify(&linkage::document(&[token]), NORTH.did(), &domain, NOW);
    assert!(linked.is_ok_and(|linked| linked.domain == domain));
}
