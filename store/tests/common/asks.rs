//! Requests, as peers file them.
#![allow(clippy::unwrap_used, reason = "for tests alone")]
use muretai_protocol::UnixSeconds;
use muretai_store::{
    Store,
    contacts::{Contact, Coordinates, Relation},
    errands::NewErrand,
    introductions::{IntroductionRow, Role},
    messages::Query,
    requests::{Decided, Decision, Filed, NewRequest, PendingLimits, Queued, RequestKind, RequestRow},
};

use super::*;

// This agent is ME; WEST and SOUTH are contacts where a test makes them so.
pub const ME: u32 = 100;
pub const WEST: u32 = 1;
pub const NORTH: u32 = 2;
pub const SOUTH: u32 = 4;
pub const MONTH: i64 = 30 * 86_400;
pub const LIMITS: PendingLimits = PendingLimits { total: 100, strangers_per_hour: 5 };

pub fn request(kind: RequestKind, from: u32, now: UnixSeconds) -> NewRequest {
    NewRequest {
        kind,
        peer: did(from),
        via: None,
        about: None,
        wire_id: None,
        peer_name: Some(format!("agent{from}")),
        note: Some("hello".to_owned()),
        coordinates: Coordinates { url: Some(format!("https://{from}.example")), ..Coordinates::default() },
        record: None,
        is_vouched: false,
        created: now,
        expires: UnixSeconds(now.0 + MONTH),
    }
}

pub fn connect_request(from: u32) -> NewRequest {
    request(RequestKind::Connect, from, NOW)
}

pub fn vouched(from: u32) -> NewRequest {
    NewRequest { is_vouched: true, ..connect_request(from) }
}

pub fn errand(kind: &str, peer: u32) -> NewErrand {
    NewErrand { kind: kind.to_owned(), peer: did(peer), payload: "{}".to_owned(), created: NOW, expires: after(MONTH) }
}

pub async fn file_as(store: &Store, request: &NewRequest, id: &str, accept: bool) -> Filed {
    store.file_connect(request, accept, "me", LIMITS, &handling(&request.peer, id)).await.unwrap()
}

pub async fn file(store: &Store, request: &NewRequest, id: &str) -> Filed {
    file_as(store, request, id, false).await
}

#[track_caller]
pub fn pending(filed: Filed) -> RequestRow {
    match filed {
        Filed::Pending(row) => *row,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn waiting(queued: Queued) -> RequestRow {
    match queued {
        Queued::Pending(row) => *row,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn done(decided: Decided) -> (RequestRow, Option<Contact>, u32) {
    match decided {
        Decided::Done { row, contact, delivered } => (*row, contact.map(|contact| *contact), delivered),
        other => panic!("{other:?}"),
    }
}

pub async fn decide(store: &Store, id: i64, decision: Decision) -> Decided {
    store.decide(id, decision, None, "me", Vec::new(), NOW).await.unwrap()
}

pub async fn relation(store: &Store, n: u32) -> Option<Relation> {
    store.contact(&did(n)).await.unwrap().map(|contact| contact.relation)
}

pub async fn is_handled(store: &Store, n: u32, id: &str) -> bool {
    store.standing(did(n).as_str(), id).await.unwrap().handled.is_some()
}

/// West introduces somebody to us.
pub fn received_vc(id: &str, subject: u32) -> IntroductionRow {
    introduction(Role::Received, id, WEST, subject, ME)
}

pub async fn propose(store: &Store, row: &IntroductionRow, message: &str, accept: Option<NewErrand>) -> Queued {
    let request = NewRequest { peer: row.subject.clone(), ..request(RequestKind::Introduction, NORTH, NOW) };
    let handling = handling(&row.issuer, message);
    store.file_introduction(row, &request, accept, "me", LIMITS, &handling).await.unwrap()
}

pub async fn hold(store: &Store, from: u32, id: &str, introduction: Option<&IntroductionRow>) -> Queued {
    let kind = if introduction.is_some() { RequestKind::Introduction } else { RequestKind::Message };
    store.hold_message(&received(&did(from), id), introduction, &request(kind, from, NOW), LIMITS).await.unwrap()
}

pub async fn with_west() -> (tempfile::TempDir, Store) {
    let (folder, store) = fresh().await;
    connect(&store, &did(WEST), "west").await;
    (folder, store)
}

pub async fn inbox(store: &Store) -> Vec<String> {
    store.messages(&Query::default()).await.unwrap().into_iter().map(|row| row.message_id).collect()
}
