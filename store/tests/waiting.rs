//! What else waits for the owner: introductions, questions, held messages; and what a block hides.
#![allow(clippy::unwrap_used)]
mod common;
use common::{asks::*, *};
use muretai_store::{
    Store,
    contacts::Relation,
    introductions::{IntroductionRow, IntroductionStatus, Role},
    messages::{Query, Received},
    requests::{
        Answered, Decided,
        Decision::{Accept, Reject},
        Filed, NewRequest, Queued, RequestKind, RequestStatus,
    },
};

#[tokio::test]
async fn an_introduction_waits_and_lets_in() {
    let (folder, store) = with_west().await;
    let vc = received_vc("a", NORTH);
    let row = waiting(propose(&store, &vc, "p1", None).await);
    assert_eq!((row.kind, &row.peer, row.via.as_ref()), (RequestKind::Introduction, &did(NORTH), Some(&did(WEST))));
    assert_eq!((row.wire_id.as_deref(), row.expires), (Some("a"), vc.valid_until), "no longer than the introduction");
    assert_eq!(waiting(propose(&store, &vc, "p2", None).await), row, "the same again");
    assert_eq!(propose(&store, &vc, "p1", None).await, Queued::Duplicate { same_content: true });
    let swapped = IntroductionRow { vc: "other".to_owned(), ..vc.clone() };
    assert!(matches!(propose(&store, &swapped, "p3", None).await, Queued::Full { .. }), "one id, one introduction");
    assert!(matches!(propose(&store, &received_vc("a", 9), "p3", None).await, Queued::Full { .. }));
    assert!(store.standing_introductions(&did(NORTH), NOW).await.unwrap().is_empty());
    let held = waiting(hold(&store, NORTH, "m1", Some(&vc)).await);
    assert_eq!((held.id, held.held_text.as_deref()), (row.id, Some("text of m1")));
    assert!(matches!(hold(&store, NORTH, "m2", Some(&vc)).await, Queued::Full { .. }), "one message waits");
    assert_eq!(hold(&store, NORTH, "m1", Some(&vc)).await, Queued::Duplicate { same_content: true });
    assert!(is_handled(&store, NORTH, "m1").await && !is_handled(&store, NORTH, "m2").await);
    store.close().await;
    let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
    assert!(inbox(&store).await.is_empty());
    let decided = store.decide(row.id, Accept, Some("n"), "me", vec![errand("accept", WEST)], after(50)).await.unwrap();
    let (row, contact, delivered) = done(decided);
    assert_eq!((row.status, row.held_text, delivered), (RequestStatus::Accepted, None, 1));
    let contact = contact.unwrap();
    assert_eq!((contact.name.as_str(), contact.relation), ("n", Relation::Introduced));
    let message = store.messages(&Query { unread_only: true, ..Query::default() }).await.unwrap().remove(0);
    assert_eq!((message.message_id.as_str(), message.name.as_deref()), ("m1", Some("n")));
    assert_eq!((message.timestamp, message.received, message.is_verified), (NOW, NOW, true));
    let standing = store.standing_introductions(&did(NORTH), NOW).await.unwrap();
    assert_eq!((standing.len(), standing[0].status), (1, IntroductionStatus::Accepted));
    assert!(store.standing(did(NORTH).as_str(), "m9").await.unwrap().is_introduced);
    assert!(
        matches!(hold(&store, NORTH, "m3", Some(&vc)).await, Queued::Decided(row) if row.status == RequestStatus::Accepted)
    );
    assert!(matches!(propose(&store, &vc, "p4", None).await, Queued::Decided(_)));
}

#[tokio::test]
async fn a_rejected_introduction_drops_what_is_held_and_can_be_undone() {
    let (_folder, store) = with_west().await;
    let vc = received_vc("a", NORTH);
    let row = waiting(hold(&store, NORTH, "m1", Some(&vc)).await);
    assert_eq!(row.kind, RequestKind::Introduction);
    let (rejected, contact, delivered) = done(decide(&store, row.id, Reject).await);
    assert_eq!((rejected.held_text, contact, delivered), (None, None, 0));
    let Queued::Decided(again) = hold(&store, NORTH, "m2", Some(&vc)).await else { panic!("decided") };
    assert_eq!(again.status, RequestStatus::Rejected);
    assert!(matches!(decide(&store, row.id, Reject).await, Decided::Unchanged(_)));
    assert!(store.standing_introductions(&did(NORTH), NOW).await.unwrap().is_empty());
    assert_eq!(done(decide(&store, row.id, Accept).await).2, 0);
    assert_eq!(store.standing_introductions(&did(NORTH), NOW).await.unwrap().len(), 1);
    assert!(inbox(&store).await.is_empty());
}

#[tokio::test]
async fn an_introduction_is_accepted_at_once_when_the_owner_said_so() {
    let (_folder, store) = with_west().await;
    let vc = received_vc("a", NORTH);
    let accept = || Some(errand("accept", WEST));
    let Queued::Decided(row) = propose(&store, &vc, "p1", accept()).await else { panic!("decided") };
    assert_eq!((row.status, relation(&store, NORTH).await), (RequestStatus::Accepted, Some(Relation::Introduced)));
    assert!(matches!(propose(&store, &vc, "p2", accept()).await, Queued::Decided(_)));
    assert_eq!(store.errands().await.unwrap().len(), 1);
    // What was waiting before is accepted, too, with what is held on it.
    let vc = received_vc("b", SOUTH);
    hold(&store, SOUTH, "m1", Some(&vc)).await;
    assert!(matches!(propose(&store, &vc, "p3", accept()).await, Queued::Decided(_)));
    assert_eq!(inbox(&store).await, ["m1"]);
    // A direct contact stays one, and a blocked one out.
    connect(&store, &did(7), "seven").await;
    propose(&store, &received_vc("c", 7), "p4", accept()).await;
    assert_eq!(relation(&store, 7).await, Some(Relation::Direct));
    store.set_blocked(&did(8), true, NOW).await.unwrap();
    assert_eq!(waiting(propose(&store, &received_vc("d", 8), "p5", accept()).await).status, RequestStatus::Hidden);
    assert_eq!(relation(&store, 8).await, Some(Relation::None));
}

#[tokio::test]
async fn only_a_direct_contact_vouches() {
    let (_folder, store) = with_west().await;
    let by_stranger = introduction(Role::Received, "a", SOUTH, NORTH, ME);
    assert!(matches!(propose(&store, &by_stranger, "p1", None).await, Queued::Full { .. }));
    let vc = received_vc("a", NORTH);
    assert!(matches!(hold(&store, SOUTH, "m1", Some(&vc)).await, Queued::Full { .. }), "another's introduction");
    let expired = IntroductionRow { valid_until: NOW, ..vc };
    assert!(matches!(propose(&store, &expired, "p2", None).await, Queued::Full { .. }));
    assert!(store.requests(true, NOW).await.unwrap().is_empty());
    assert!(store.introductions(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn an_introduction_that_nobody_decided_may_be_proposed_again() {
    let (_folder, store) = with_west().await;
    let vc = IntroductionRow { valid_until: after(9 * MONTH), ..received_vc("a", NORTH) };
    let first = waiting(propose(&store, &vc, "p1", None).await);
    let later = NewRequest { created: after(MONTH), expires: after(2 * MONTH), ..connect_request(NORTH) };
    let handling = handling(&did(WEST), "p2");
    let again = waiting(store.file_introduction(&vc, &later, None, "me", LIMITS, &handling).await.unwrap());
    assert_ne!(first.id, again.id);
    assert_eq!(store.introductions(None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_waits_goes_with_its_voucher() {
    let (_folder, store) = with_west().await;
    let row = waiting(hold(&store, NORTH, "m1", Some(&received_vc("a", NORTH))).await);
    propose(&store, &received_vc("b", SOUTH), "p1", Some(errand("accept", WEST))).await;
    let question = NewRequest { about: Some(did(SOUTH)), ..request(RequestKind::IntroduceMe, WEST, NOW) };
    let asked = store.file_question(&question, LIMITS, &handling(&did(WEST), "q1")).await.unwrap();
    store.mark_revoked(&did(WEST), &["a".to_owned()], NOW).await.unwrap();
    let revoked = store.request(row.id, NOW).await.unwrap().unwrap();
    assert_eq!((revoked.status, revoked.held_text), (RequestStatus::Withdrawn, None));
    assert!(matches!(decide(&store, row.id, Accept).await, Decided::NotOpen(_)));
    assert!(matches!(hold(&store, NORTH, "m2", Some(&received_vc("a", NORTH))).await, Queued::Decided(_)));
    store.remove_contact(&did(WEST)).await.unwrap();
    assert_eq!(relation(&store, SOUTH).await, Some(Relation::None));
    assert!(store.standing_introductions(&did(SOUTH), NOW).await.unwrap().is_empty());
    assert_eq!(store.request(waiting(asked).id, NOW).await.unwrap().unwrap().status, RequestStatus::Withdrawn);
    // Back again, it finds nothing to build on.
    connect(&store, &did(WEST), "west").await;
    let again = propose(&store, &received_vc("b", SOUTH), "p2", None).await;
    assert!(matches!(again, Queued::Decided(_)));
    assert!(store.standing_introductions(&did(SOUTH), NOW).await.unwrap().is_empty());
}

#[tokio::test]
async fn questions_to_an_introducer_wait() {
    let (_folder, store) = with_west().await;
    let ask = async |request: &NewRequest, id: &str| {
        store.file_question(request, LIMITS, &handling(&request.peer, id)).await.unwrap()
    };
    let to_south = NewRequest { about: Some(did(SOUTH)), ..request(RequestKind::IntroduceMe, WEST, NOW) };
    let first = waiting(ask(&to_south, "q1").await);
    assert_eq!((first.kind, first.about.as_ref()), (RequestKind::IntroduceMe, Some(&did(SOUTH))));
    let record = NewRequest { record: Some("{\"n\":2}".to_owned()), ..to_south.clone() };
    let refreshed = waiting(ask(&record, "q2").await);
    assert_eq!((refreshed.id, refreshed.record), (first.id, record.record));
    assert_eq!(ask(&to_south, "q1").await, Queued::Duplicate { same_content: true });
    let to_north = NewRequest { about: Some(did(NORTH)), ..to_south.clone() };
    assert_ne!(waiting(ask(&to_north, "q3").await).id, first.id);
    let referral = request(RequestKind::Referral, WEST, NOW);
    let topic = waiting(ask(&referral, "q4").await);
    let other = NewRequest { note: Some("other".to_owned()), ..referral.clone() };
    assert_ne!(waiting(ask(&other, "q5").await).id, topic.id);
    assert_eq!(waiting(ask(&referral, "q6").await).id, topic.id);
    assert_eq!(done(decide(&store, first.id, Accept).await).1, None);
    assert_ne!(waiting(ask(&to_south, "q7").await).id, first.id, "answered, and asked anew");
    decide(&store, topic.id, Reject).await;
    assert!(matches!(ask(&referral, "q8").await, Queued::Decided(row) if row.status == RequestStatus::Rejected));
}

#[tokio::test]
async fn a_message_that_a_policy_holds_is_the_owners_to_let_in() {
    let (_folder, store) = fresh().await;
    let row = waiting(hold(&store, NORTH, "m1", None).await);
    assert_eq!((row.kind, row.held_text.as_deref()), (RequestKind::Message, Some("text of m1")));
    assert!(matches!(hold(&store, NORTH, "m2", None).await, Queued::Full { .. }));
    let (row, contact, delivered) = done(decide(&store, row.id, Accept).await);
    assert_eq!((row.status, contact, delivered), (RequestStatus::Accepted, None, 1));
    assert_eq!(inbox(&store).await, ["m1"]);
    let row = waiting(hold(&store, NORTH, "m3", None).await);
    decide(&store, row.id, Reject).await;
    assert!(matches!(hold(&store, NORTH, "m4", None).await, Queued::Decided(_)));
    assert_eq!(inbox(&store).await, ["m1"]);
    let large = Received { text: "x".repeat(65_537), ..received(&did(7), "m5") };
    let extra = Received { extra: Some("x".repeat(65_537)), ..received(&did(7), "m6") };
    let fits = Received { text: "x".repeat(65_536), extra: Some("x".repeat(65_536)), ..received(&did(7), "m7") };
    for (message, is_held) in [(large, false), (extra, false), (fits, true)] {
        let held = store.hold_message(&message, None, &request(RequestKind::Message, 7, NOW), LIMITS).await.unwrap();
        assert_eq!(matches!(held, Queued::Pending(_)), is_held);
    }
}

#[tokio::test]
async fn the_blocked_learn_nothing_and_are_shown_to_nobody() {
    let (_folder, store) = with_west().await;
    connect(&store, &did(NORTH), "north").await;
    store.set_blocked(&did(NORTH), true, NOW).await.unwrap();
    // As a stranger, not as the contact that it was.
    let row = pending(file(&store, &connect_request(NORTH), "m1").await);
    assert_eq!(row.status, RequestStatus::Hidden);
    assert_eq!(pending(file(&store, &connect_request(NORTH), "m2").await).id, row.id);
    assert_eq!(file(&store, &connect_request(NORTH), "m1").await, Filed::Duplicate { same_content: true });
    assert!(store.requests(true, NOW).await.unwrap().is_empty());
    assert_eq!(store.request(row.id, NOW).await.unwrap(), None);
    assert_eq!(store.pending_with(&did(NORTH), NOW).await.unwrap(), None);
    assert_eq!(store.pending_count(NOW).await.unwrap(), 0);
    assert_eq!(decide(&store, row.id, Accept).await, Decided::NoSuch);
    assert_eq!(store.withdraw_request(row.id, NOW).await.unwrap(), Decided::NoSuch);
    assert!(matches!(hold(&store, NORTH, "m3", None).await, Queued::Full { .. }));
    // Nothing of ours is answered by it.
    store.open_request(&connect_request(NORTH)).await.unwrap();
    assert_eq!(pending(file(&store, &connect_request(NORTH), "m4").await).status, RequestStatus::Hidden);
    let who = introduce(&did(NORTH), "north");
    let answered = store.settle_connect(&who, Accept, &handling(&did(NORTH), "m5")).await.unwrap();
    assert_eq!(answered, Answered::NoSuch);
    // It takes room like others.
    store.set_blocked(&did(7), true, NOW).await.unwrap();
    for n in 10..14 {
        pending(file(&store, &connect_request(n), "m").await);
    }
    assert!(matches!(file(&store, &connect_request(14), "m").await, Filed::Full { retry_after_secs: 3_600 }));
    assert!(matches!(file(&store, &connect_request(7), "m").await, Filed::Full { retry_after_secs: 3_600 }));
    store.set_blocked(&did(NORTH), false, NOW).await.unwrap();
    assert_eq!(store.pending_count(NOW).await.unwrap(), 4, "who is trusted again need not be asked about");
}

#[tokio::test]
async fn blocking_hides_and_unblocking_shows() {
    let (_folder, store) = with_west().await;
    let theirs = pending(file(&store, &connect_request(NORTH), "m1").await);
    let introduced = waiting(hold(&store, NORTH, "m2", Some(&received_vc("a", NORTH))).await);
    let ours = store.open_request(&connect_request(NORTH)).await.unwrap();
    store.add_errand(&errand("reject", NORTH)).await.unwrap();
    store.set_blocked(&did(NORTH), true, after(1)).await.unwrap();
    assert_eq!(store.requests(true, NOW).await.unwrap().len(), 1);
    assert_eq!(store.request(ours.id, NOW).await.unwrap().unwrap().status, RequestStatus::Withdrawn);
    assert!(store.errands().await.unwrap().is_empty());
    store.set_blocked(&did(NORTH), true, NOW).await.unwrap();
    // The introduction needs both its parties.
    store.set_blocked(&did(WEST), true, NOW).await.unwrap();
    store.set_blocked(&did(NORTH), false, NOW).await.unwrap();
    let shown = store.requests(false, NOW).await.unwrap();
    assert_eq!(shown.iter().map(|row| row.id).collect::<Vec<_>>(), [theirs.id]);
    store.set_blocked(&did(WEST), false, NOW).await.unwrap();
    let shown = store.requests(false, NOW).await.unwrap();
    assert_eq!(shown.iter().map(|row| row.id).collect::<Vec<_>>(), [theirs.id, introduced.id]);
    assert_eq!(shown[1].held_text, None, "dropped");
    assert_eq!(done(decide(&store, introduced.id, Accept).await).2, 0);
}

#[tokio::test]
async fn what_another_process_does_to_an_introduction_counts_at_once() {
    let (folder, store) = with_west().await;
    let other = Store::open(&folder.path().join("agent.db")).await.unwrap();
    let count = async |now| {
        let first = store.standing_introductions(&did(NORTH), now).await.unwrap();
        assert_eq!(store.standing_introductions(&did(NORTH), now).await.unwrap(), first, "read, and remembered");
        first.len()
    };
    assert_eq!(count(NOW).await, 0);
    for (id, level) in [("a", 100), ("b", 900)] {
        let vc = IntroductionRow { trust_level_bp: Some(level), ..received_vc(id, NORTH) };
        propose(&other, &vc, id, Some(errand("accept", WEST))).await;
    }
    assert_eq!(count(NOW).await, 2);
    assert_eq!(store.standing_introductions(&did(NORTH), NOW).await.unwrap()[0].id, "b", "the best first");
    assert_eq!((count(after(3_600)).await, count(NOW).await), (0, 2));
    other.set_blocked(&did(WEST), true, NOW).await.unwrap();
    assert_eq!(count(NOW).await, 0);
    other.set_blocked(&did(WEST), false, NOW).await.unwrap();
    assert_eq!(count(NOW).await, 2);
    other.mark_revoked(&did(WEST), &["b".to_owned()], NOW).await.unwrap();
    assert_eq!(count(NOW).await, 1);
    other.remove_contact(&did(WEST)).await.unwrap();
    assert_eq!(count(NOW).await, 0);
}
