//! Connect requests: filed, decided, answered, crossing.
#![allow(clippy::unwrap_used)]
mod common;
use common::{asks::*, *};
use muretai_store::{
    Store, StoreError,
    contacts::{Coordinates, Relation},
    messages::{Direction, Handling, Received},
    requests::{
        Answered, Decided,
        Decision::{Accept, Reject},
        Filed, NewRequest, RequestKind, RequestStatus,
    },
};

#[tokio::test]
async fn a_request_waits_is_refreshed_and_survives_a_restart() {
    let (folder, store) = fresh().await;
    let asked = NewRequest { wire_id: Some("r1".to_owned()), record: Some("{}".to_owned()), ..connect_request(NORTH) };
    let row = pending(file(&store, &asked, "m1").await);
    assert_eq!((row.kind, row.direction, row.status), (RequestKind::Connect, Direction::In, RequestStatus::Pending));
    assert_eq!((&row.peer, &row.wire_id, &row.record), (&asked.peer, &asked.wire_id, &asked.record));
    assert_eq!((&row.peer_name, &row.note, &row.coordinates), (&asked.peer_name, &asked.note, &asked.coordinates));
    let again = NewRequest {
        note: Some("please".to_owned()),
        coordinates: Coordinates::default(),
        created: after(9),
        expires: after(99),
        ..asked.clone()
    };
    let refreshed = pending(file(&store, &again, "m2").await);
    assert_eq!((refreshed.id, refreshed.note.as_deref()), (row.id, Some("please")));
    assert_eq!((refreshed.created, refreshed.expires), (row.created, row.expires), "no longer than it was to be");
    assert_eq!(refreshed.coordinates, Coordinates::default());
    assert_eq!(file(&store, &asked, "m1").await, Filed::Duplicate { same_content: true });
    let reused = Handling { digest: [9; 32], ..handling(&did(NORTH), "m1") };
    let reused = store.file_connect(&asked, false, "me", LIMITS, &reused).await.unwrap();
    assert_eq!(reused, Filed::Duplicate { same_content: false });
    assert_eq!(store.pending_count(NOW).await.unwrap(), 1);
    assert_eq!(relation(&store, NORTH).await, None, "a request grants nothing");
    store.close().await;
    let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
    assert_eq!(store.requests(false, NOW).await.unwrap(), std::slice::from_ref(&refreshed));
    assert_eq!(store.request(row.id, NOW).await.unwrap(), Some(refreshed.clone()));
    assert_eq!(store.pending_with(&did(NORTH), NOW).await.unwrap(), Some(refreshed));
    assert_eq!(file(&store, &asked, "m1").await, Filed::Duplicate { same_content: true });
}

#[tokio::test]
async fn ids_that_came_with_messages_are_no_requests() {
    let (_folder, store) = fresh().await;
    store.commit_received(received(&did(NORTH), "m1")).await.unwrap();
    assert_eq!(file(&store, &connect_request(NORTH), "m1").await, Filed::Duplicate { same_content: false });
    let other = Store::open(&_folder.path().join("agent.db")).await.unwrap();
    assert_eq!(file(&other, &connect_request(NORTH), "m1").await, Filed::Duplicate { same_content: false });
    pending(file(&other, &connect_request(NORTH), "m2").await);
    let message = Received { digest: [2; 32], ..received(&did(NORTH), "m2") };
    let committed = store.commit_received(message).await.unwrap();
    assert_eq!(committed, muretai_store::messages::Committed::Duplicate { same_content: true });
}

#[tokio::test]
async fn an_open_policy_connects_at_once() {
    let (_folder, store) = fresh().await;
    pending(file(&store, &connect_request(NORTH), "m1").await);
    let Filed::Connected(contact) = file_as(&store, &connect_request(NORTH), "m2", true).await else { panic!("open") };
    assert_eq!((contact.relation, contact.name.as_str()), (Relation::Direct, "agent2"));
    assert_eq!(store.requests(true, NOW).await.unwrap()[0].status, RequestStatus::Accepted);
    let again = file_as(&store, &connect_request(NORTH), "m3", true).await;
    assert_eq!(again, Filed::AlreadyConnected(contact));
    assert!(!is_handled(&store, NORTH, "m3").await);
    assert!(matches!(file_as(&store, &connect_request(9), "m4", true).await, Filed::Connected(_)));
}

#[tokio::test]
async fn an_owner_accepts_once() {
    let (_folder, store) = fresh().await;
    let row = pending(file(&store, &connect_request(NORTH), "m1").await);
    let errands = vec![errand("connect-respond", NORTH)];
    let decided = store.decide(row.id, Accept, Some("n"), "me", errands.clone(), after(5)).await.unwrap();
    let (row, contact, delivered) = done(decided);
    let contact = contact.unwrap();
    assert_eq!((row.status, row.decided, delivered), (RequestStatus::Accepted, Some(after(5)), 0));
    assert_eq!((contact.name.as_str(), contact.relation), ("n", Relation::Direct));
    assert_eq!(contact.coordinates.url.as_deref(), Some("https://2.example"));
    assert_eq!(store.contact_named("n").await.unwrap().unwrap(), contact);
    let again = store.decide(row.id, Accept, None, "me", errands, NOW).await.unwrap();
    assert_eq!(again, Decided::Unchanged(Box::new(row.clone())));
    assert_eq!(store.errands().await.unwrap().len(), 1);
    assert_eq!(decide(&store, row.id, Reject).await, Decided::NotOpen(Box::new(row)));
    assert_eq!(decide(&store, 99, Accept).await, Decided::NoSuch);
    assert!(store.requests(false, NOW).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_no_stands_for_a_month_and_can_be_undone() {
    let (_folder, store) = fresh().await;
    let row = pending(file(&store, &connect_request(NORTH), "m1").await);
    let rejected = store.decide(row.id, Reject, None, "me", vec![errand("reject", NORTH)], after(MONTH - 1)).await;
    assert_eq!(done(rejected.unwrap()).0.status, RequestStatus::Rejected);
    let ask = async |now: i64, id: &str| file(&store, &request(RequestKind::Connect, NORTH, after(now)), id).await;
    assert_eq!(ask(2 * MONTH - 2, "m2").await, Filed::Rejected);
    let open = request(RequestKind::Connect, NORTH, after(MONTH));
    assert_eq!(file_as(&store, &open, "m3", true).await, Filed::Rejected, "also when everybody else is let in");
    assert!(!is_handled(&store, NORTH, "m2").await);
    assert!(matches!(decide(&store, row.id, Reject).await, Decided::Unchanged(_)));
    // A changed mind replaces what was owed.
    let accepted = store.decide(row.id, Accept, None, "me", vec![errand("accept", NORTH)], after(MONTH)).await;
    assert_eq!(done(accepted.unwrap()).1.unwrap().relation, Relation::Direct);
    let owed: Vec<_> = store.errands().await.unwrap().into_iter().map(|errand| errand.errand.kind).collect();
    assert_eq!(owed, ["accept"]);
    // After its time a no is forgotten.
    let row = pending(file(&store, &connect_request(SOUTH), "s1").await);
    decide(&store, row.id, Reject).await;
    let again = pending(file(&store, &request(RequestKind::Connect, SOUTH, after(MONTH)), "s2").await);
    assert_ne!(again.id, row.id);
}

#[tokio::test]
async fn names_of_new_contacts_are_unique() {
    let (_folder, store) = with_west().await;
    let row =
        pending(file(&store, &NewRequest { peer_name: Some("Me".to_owned()), ..connect_request(NORTH) }, "m").await);
    let taken = store.decide(row.id, Accept, Some("west"), "me", vec![errand("accept", NORTH)], NOW).await;
    assert!(matches!(taken, Err(StoreError::NameTaken(name)) if name == "west"));
    assert_eq!(
        (relation(&store, NORTH).await, store.errands().await.unwrap().len()),
        (None, 0),
        "nothing is half done"
    );
    assert_eq!(store.request(row.id, NOW).await.unwrap().unwrap().status, RequestStatus::Pending);
    assert_eq!(done(decide(&store, row.id, Accept).await).1.unwrap().name, "me-2");
}

#[tokio::test]
async fn an_expired_request_is_no_longer_open() {
    let (_folder, store) = fresh().await;
    let row = pending(file(&store, &connect_request(NORTH), "m1").await);
    let late = after(MONTH);
    assert_eq!(store.request(row.id, late).await.unwrap().unwrap().status, RequestStatus::Expired);
    assert_eq!(store.pending_count(late).await.unwrap(), 0);
    assert_eq!(store.pending_with(&did(NORTH), late).await.unwrap(), None);
    assert!(store.requests(false, late).await.unwrap().is_empty());
    assert_eq!(store.requests(true, late).await.unwrap().len(), 1);
    let decided = store.decide(row.id, Accept, None, "me", Vec::new(), late).await.unwrap();
    assert!(matches!(decided, Decided::NotOpen(_)));
    assert_ne!(pending(file(&store, &request(RequestKind::Connect, NORTH, late), "m2").await).id, row.id);
}

#[tokio::test]
async fn an_answer_settles_our_own_request_once() {
    let (_folder, store) = fresh().await;
    let ours = store.open_request(&connect_request(NORTH)).await.unwrap();
    assert_eq!((ours.direction, ours.status), (Direction::Out, RequestStatus::Pending));
    assert_eq!(store.open_request(&connect_request(NORTH)).await.unwrap(), ours, "asked already");
    assert_eq!(store.pending_count(NOW).await.unwrap(), 0, "nothing for the owner to decide");
    assert_eq!(store.pending_with(&did(NORTH), NOW).await.unwrap().unwrap().id, ours.id);
    assert!(matches!(decide(&store, ours.id, Accept).await, Decided::NotOpen(_)));
    let answer = async |from: u32, decision, id: &str| {
        let handling = handling(&did(from), id);
        store.settle_connect(&introduce(&did(from), "north"), decision, &handling).await.unwrap()
    };
    assert_eq!(answer(SOUTH, Accept, "s1").await, Answered::NoSuch, "an unsolicited yes makes no trust");
    assert_eq!(relation(&store, SOUTH).await, None);
    assert!(!is_handled(&store, SOUTH, "s1").await);
    let Answered::Connected(contact) = answer(NORTH, Accept, "m1").await else { panic!("asked for") };
    assert_eq!(contact.relation, Relation::Direct);
    assert_eq!(answer(NORTH, Accept, "m1").await, Answered::Duplicate { same_content: true });
    assert_eq!(answer(NORTH, Accept, "m2").await, Answered::NoSuch, "consumed");
    assert_eq!(store.request(ours.id, NOW).await.unwrap().unwrap().status, RequestStatus::Accepted);
    // Its no is no answer to the next question.
    let ours = store.open_request(&connect_request(SOUTH)).await.unwrap();
    assert_eq!(answer(SOUTH, Reject, "s2").await, Answered::Rejected);
    assert_eq!(answer(SOUTH, Accept, "s3").await, Answered::NoSuch);
    assert_ne!(store.open_request(&connect_request(SOUTH)).await.unwrap().id, ours.id);
    let late = muretai_store::contacts::Introduce { now: after(MONTH), ..introduce(&did(SOUTH), "south") };
    let answered = store.settle_connect(&late, Accept, &handling(&did(SOUTH), "s4")).await.unwrap();
    assert_eq!(answered, Answered::NoSuch, "too late");
}

#[tokio::test]
async fn a_request_that_was_taken_back_is_not_accepted() {
    let (_folder, store) = fresh().await;
    let ours = store.open_request(&connect_request(NORTH)).await.unwrap();
    let (row, ..) = done(store.withdraw_request(ours.id, NOW).await.unwrap());
    assert_eq!(row.status, RequestStatus::Withdrawn);
    assert!(matches!(store.withdraw_request(ours.id, NOW).await.unwrap(), Decided::Unchanged(_)));
    assert_eq!(store.withdraw_request(99, NOW).await.unwrap(), Decided::NoSuch);
    let who = introduce(&did(NORTH), "north");
    let answered = store.settle_connect(&who, Accept, &handling(&did(NORTH), "m1")).await.unwrap();
    assert_eq!(answered, Answered::NoSuch);
    assert_eq!(store.connected_by_answer(ours.id, &who).await.unwrap(), None);
    assert_eq!(relation(&store, NORTH).await, None);
    let theirs = pending(file(&store, &connect_request(SOUTH), "m2").await);
    assert!(matches!(store.withdraw_request(theirs.id, NOW).await.unwrap(), Decided::NotOpen(_)));
}

#[tokio::test]
async fn an_answer_on_the_spot_connects() {
    let (_folder, store) = fresh().await;
    let ours = store.open_request(&connect_request(NORTH)).await.unwrap();
    let who = introduce(&did(NORTH), "north");
    assert_eq!(store.connected_by_answer(ours.id, &introduce(&did(SOUTH), "south")).await.unwrap(), None);
    let contact = store.connected_by_answer(ours.id, &who).await.unwrap();
    assert_eq!(contact.as_ref().unwrap().relation, Relation::Direct);
    assert_eq!(store.connected_by_answer(ours.id, &who).await.unwrap(), contact, "twice is once");
    let question = NewRequest { about: Some(did(7)), ..request(RequestKind::IntroduceMe, NORTH, NOW) };
    let asked = store.open_request(&question).await.unwrap();
    let other = NewRequest { about: Some(did(8)), ..question.clone() };
    assert_ne!(store.open_request(&other).await.unwrap().id, asked.id, "about another");
    let closed = store.close_request(asked.id, RequestStatus::Rejected, after(1)).await.unwrap().unwrap();
    assert_eq!((closed.status, closed.decided), (RequestStatus::Rejected, Some(after(1))));
    let again = store.close_request(asked.id, RequestStatus::Accepted, after(2)).await.unwrap().unwrap();
    assert_eq!(again, closed);
    let theirs = pending(file(&store, &connect_request(SOUTH), "m2").await);
    assert_eq!(store.close_request(theirs.id, RequestStatus::Accepted, NOW).await.unwrap(), None);
}

#[tokio::test]
async fn requests_that_cross_connect() {
    let (_folder, store) = fresh().await;
    let ours = store.open_request(&connect_request(NORTH)).await.unwrap();
    assert!(matches!(file(&store, &connect_request(NORTH), "m1").await, Filed::Connected(_)));
    assert_eq!(store.request(ours.id, NOW).await.unwrap().unwrap().status, RequestStatus::Accepted);
    // Whom the owner refused, the owner may ask.
    let row = pending(file(&store, &connect_request(SOUTH), "m2").await);
    decide(&store, row.id, Reject).await;
    store.open_request(&connect_request(SOUTH)).await.unwrap();
    assert!(matches!(file(&store, &connect_request(SOUTH), "m3").await, Filed::Connected(_)));
    // An expired question of ours crosses nothing.
    store.open_request(&NewRequest { expires: NOW, ..connect_request(9) }).await.unwrap();
    pending(file(&store, &connect_request(9), "m4").await);
}

#[tokio::test]
async fn trust_however_it_arises_closes_what_was_asked() {
    let (_folder, store) = fresh().await;
    store.add_invite(&invite("n1")).await.unwrap();
    let theirs = pending(file(&store, &connect_request(NORTH), "m1").await);
    store.claim_invite("n1", &introduce(&did(NORTH), "north"), &handling(&did(NORTH), "c1")).await.unwrap();
    let ours = store.open_request(&connect_request(SOUTH)).await.unwrap();
    connect(&store, &did(SOUTH), "south").await;
    for id in [theirs.id, ours.id] {
        assert_eq!(store.request(id, NOW).await.unwrap().unwrap().status, RequestStatus::Accepted);
    }
    assert!(store.requests(false, NOW).await.unwrap().is_empty());
    assert!(matches!(file(&store, &connect_request(NORTH), "m2").await, Filed::AlreadyConnected(_)));
}

#[tokio::test]
async fn an_acceptance_that_nobody_wants_any_more_is_undone() {
    let (_folder, store) = with_west().await;
    let accepted = async |n: u32, id: &str| {
        let row = pending(file(&store, &vouched(n), id).await);
        done(decide(&store, row.id, Accept).await).0.id
    };
    let id = accepted(NORTH, "m1").await;
    store.undo_accept(id, NOW).await.unwrap();
    assert_eq!(relation(&store, NORTH).await, None);
    assert_eq!(store.request(id, NOW).await.unwrap().unwrap().status, RequestStatus::Withdrawn);
    store.undo_accept(id, NOW).await.unwrap();
    // Trust that was made again stays.
    let id = accepted(SOUTH, "m2").await;
    connect(&store, &did(SOUTH), "south").await;
    store.undo_accept(id, NOW).await.unwrap();
    assert_eq!(relation(&store, SOUTH).await, Some(Relation::Direct));
    // Somebody who was introduced is so again.
    propose(&store, &received_vc("a", 7), "p1", Some(errand("accept", WEST))).await;
    let id = accepted(7, "m3").await;
    store.undo_accept(id, NOW).await.unwrap();
    assert_eq!(relation(&store, 7).await, Some(Relation::Introduced));
}
