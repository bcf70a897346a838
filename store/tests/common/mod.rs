//! What every test of the store needs.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file is a crate that uses its part")]
pub mod asks;

use muretai_protocol::{Did, UnixSeconds, did::PublicKey};
use muretai_store::{
    Store,
    contacts::{Contact, CoordinateSource, Coordinates, Introduce},
    introductions::{IntroductionRow, IntroductionStatus, Role},
    invites::InviteRow,
    messages::{Handling, Received, Reply},
};

/// The fixed clock of the tests.
pub const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

/// So many seconds later.
pub fn after(secs: i64) -> UnixSeconds {
    UnixSeconds(NOW.0 + secs)
}

/// The DID of the `n`th example agent. The store does not judge points, so any bytes will do.
pub fn did(n: u32) -> Did {
    let mut key = [7; 32];
    key[..4].copy_from_slice(&n.to_be_bytes());
    Did::from_key(&PublicKey::Ed25519(key))
}

/// A fresh store in a folder that lives as long as the guard.
pub async fn fresh() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
    (folder, store)
}

/// A message with its acknowledgement.
pub fn received(from: &Did, id: &str) -> Received {
    Received {
        from: from.clone(),
        message_id: id.to_owned(),
        context_id: None,
        reply_to: None,
        text: format!("text of {id}"),
        timestamp: NOW,
        received: NOW,
        digest: [1; 32],
        sig: "c2ln".to_owned(),
        extra: None,
        is_auto: false,
        reply: Some(Reply {
            message_id: format!("re-{id}"),
            text: "received".to_owned(),
            timestamp: NOW,
            sig: "c2ln".to_owned(),
            is_auto: true,
        }),
        reply_by: None,
        settles: None,
    }
}

/// Somebody who introduces itself in a claim.
pub fn introduce(did: &Did, name: &str) -> Introduce {
    Introduce {
        did: did.clone(),
        peer_name: Some(name.to_owned()),
        own_name: None,
        coordinates: Coordinates { url: Some(format!("https://{name}.example")), ..Coordinates::default() },
        source: CoordinateSource::Peer,
        allow_private: false,
        now: NOW,
    }
}

/// An invite that is good for an hour.
pub fn invite(nonce: &str) -> InviteRow {
    InviteRow {
        nonce: nonce.to_owned(),
        code: format!("code-{nonce}"),
        card: format!("{{\"nonce\":\"{nonce}\"}}"),
        note: None,
        created: NOW,
        expires: UnixSeconds(NOW.0 + 3600),
        revoked: None,
        used_by: None,
        used: None,
    }
}

/// An introduction that is good for an hour.
pub fn introduction(role: Role, id: &str, issuer: u32, subject: u32, target: u32) -> IntroductionRow {
    IntroductionRow {
        id: id.to_owned(),
        role,
        issuer: did(issuer),
        subject: did(subject),
        target: did(target),
        status: IntroductionStatus::Pending,
        trust_level_bp: Some(800),
        expertise: vec!["rust".to_owned()],
        issued: NOW,
        valid_until: after(3_600),
        issuer_endpoint: None,
        is_requested: false,
        vc: format!("{{\"id\":\"{id}\"}}"),
        created: NOW,
        changed: NOW,
    }
}

/// A request of `from`.
pub fn handling(from: &Did, id: &str) -> Handling {
    Handling { from: from.clone(), message_id: id.to_owned(), digest: [2; 32] }
}

/// Connects and gives the contact.
pub async fn connect(store: &Store, did: &Did, name: &str) -> Contact {
    store.connect(&introduce(did, name)).await.unwrap()
}
