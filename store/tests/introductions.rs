//! Introductions: issued, received, held; what lets somebody in, and what ends it.
#![allow(clippy::unwrap_used)]
mod common;
use common::*;
use muretai_protocol::UnixSeconds;
use muretai_store::{
    Store, StoreError,
    contacts::Relation,
    errands::NewErrand,
    introductions::{
        IntroductionRow,
        IntroductionStatus::{self, Accepted, Ended, Pending, Rejected, Revoked},
        Kept, Role, Settled,
    },
    requests::Decision,
};

// Who is who: this agent is ME, WEST introduces NORTH.
const ME: u32 = 100;
const WEST: u32 = 1;
const NORTH: u32 = 2;
const EAST: u32 = 3;

const STRANGER: Option<Relation> = Some(Relation::None);

/// West gives us an introduction to north.
fn held(id: &str) -> IntroductionRow {
    introduction(Role::Held, id, WEST, ME, NORTH)
}

fn errand(kind: &str, peer: u32, id: &str) -> NewErrand {
    NewErrand {
        kind: kind.to_owned(),
        peer: did(peer),
        payload: format!("{{\"introduction\":\"{id}\"}}"),
        created: NOW,
        expires: after(1_000),
    }
}

async fn kinds(store: &Store) -> Vec<String> {
    store.errands().await.unwrap().into_iter().map(|errand| errand.errand.kind).collect()
}

async fn with_west() -> (tempfile::TempDir, Store) {
    let (folder, store) = fresh().await;
    connect(&store, &did(WEST), "west").await;
    (folder, store)
}

async fn keep(store: &Store, row: &IntroductionRow) -> Kept {
    store.keep_held(row, &introduce(&row.target, "north")).await.unwrap()
}

async fn relation(store: &Store, n: u32) -> Option<Relation> {
    store.contact(&did(n)).await.unwrap().map(|contact| contact.relation)
}

async fn status(store: &Store, role: Role, id: &str) -> IntroductionStatus {
    let rows = store.introductions(Some(role)).await.unwrap();
    rows.into_iter().find(|row| row.id == id).unwrap().status
}

async fn standing(store: &Store, n: u32, now: UnixSeconds) -> Vec<String> {
    let rows = store.standing_introductions(&did(n), now).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn what_was_written_is_read_after_a_restart() {
    let (folder, store) = fresh().await;
    let rows = [
        IntroductionRow { trust_level_bp: None, ..introduction(Role::Issued, "a", ME, NORTH, WEST) },
        IntroductionRow {
            expertise: vec!["ż \"q\"".to_owned(), String::new()],
            issuer_endpoint: Some("https://me.example".to_owned()),
            is_requested: true,
            created: after(1),
            changed: after(2),
            ..introduction(Role::Issued, "b", ME, EAST, WEST)
        },
    ];
    for row in &rows {
        store.add_issued(row, Some(errand("propose", WEST, &row.id))).await.unwrap();
    }
    assert!(matches!(store.add_issued(&rows[0], None).await, Err(StoreError::Sql(_))));
    store.close().await;
    let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
    assert_eq!(store.introductions(None).await.unwrap(), [rows[1].clone(), rows[0].clone()]);
    assert!(store.introductions(Some(Role::Held)).await.unwrap().is_empty());
    assert_eq!(store.introduction(Role::Issued, &did(ME), "a").await.unwrap().unwrap(), rows[0]);
    assert_eq!(store.introduction(Role::Received, &did(ME), "a").await.unwrap(), None);
    assert_eq!(store.introduction(Role::Issued, &did(WEST), "a").await.unwrap(), None);
    assert_eq!(kinds(&store).await, ["propose", "propose"]);
}

#[tokio::test]
async fn a_targets_answer_is_recorded_once_and_may_change() {
    let (_folder, store) = with_west().await;
    let row = introduction(Role::Issued, "a", ME, NORTH, WEST);
    store.add_issued(&row, Some(errand("propose", WEST, "a"))).await.unwrap();
    let answer = async |from: u32, id: &str, decision, message: &str, now| {
        let errand = (decision == Decision::Accept).then(|| errand("hand-over", NORTH, id));
        store.settle_issued(id, &did(from), decision, errand, &handling(&did(from), message), now).await.unwrap()
    };
    assert_eq!(answer(NORTH, "a", Decision::Accept, "m1", NOW).await, Settled::NoSuch, "not the target");
    assert_eq!(answer(WEST, "x", Decision::Accept, "m2", NOW).await, Settled::NoSuch);
    assert_eq!(answer(WEST, "a", Decision::Accept, "m3", row.valid_until).await, Settled::NoSuch, "expired");
    // A contact's id counts as handled; a stranger cannot fill the disk.
    assert_eq!(answer(WEST, "a", Decision::Accept, "m2", NOW).await, Settled::Duplicate { same_content: true });
    assert!(store.standing(did(NORTH).as_str(), "m1").await.unwrap().handled.is_none());
    let Settled::Recorded(recorded) = answer(WEST, "a", Decision::Accept, "m4", after(1)).await else { panic!("good") };
    assert_eq!((recorded.status, recorded.changed), (Accepted, after(1)));
    assert_eq!(kinds(&store).await, ["hand-over"], "the proposal has arrived");
    let other = muretai_store::messages::Handling { digest: [9; 32], ..handling(&did(WEST), "m4") };
    let reused = store.settle_issued("a", &did(WEST), Decision::Reject, None, &other, NOW).await.unwrap();
    assert_eq!(reused, Settled::Duplicate { same_content: false });
    // A lost answer is given again.
    assert!(matches!(answer(WEST, "a", Decision::Accept, "m5", after(2)).await, Settled::Recorded(_)));
    assert_eq!(kinds(&store).await, ["hand-over"]);
    assert!(matches!(answer(WEST, "a", Decision::Reject, "m6", after(3)).await, Settled::Recorded(_)));
    assert_eq!((status(&store, Role::Issued, "a").await, kinds(&store).await.len()), (Ended, 0));
    // A yes after that would owe the subject its introduction again, and again.
    assert_eq!(answer(WEST, "a", Decision::Accept, "m7", after(3)).await, Settled::NoSuch);
    assert!(kinds(&store).await.is_empty());
    store.add_issued(&introduction(Role::Issued, "b", ME, NORTH, WEST), None).await.unwrap();
    for (decision, message, owed) in [(Decision::Reject, "b1", 0), (Decision::Accept, "b2", 1)] {
        assert!(matches!(answer(WEST, "b", decision, message, after(3)).await, Settled::Recorded(_)));
        assert_eq!(kinds(&store).await.len(), owed);
    }
    assert!(matches!(answer(WEST, "b", Decision::Reject, "b3", after(3)).await, Settled::Recorded(_)));
    store.revoke_issued("a", after(4), Some(errand("revoked", WEST, "list"))).await.unwrap().unwrap();
    assert_eq!(kinds(&store).await, ["revoked"]);
    assert_eq!(answer(WEST, "a", Decision::Accept, "m8", after(5)).await, Settled::NoSuch);
}

#[tokio::test]
async fn an_introduction_is_taken_back_once() {
    let (_folder, store) = with_west().await;
    for id in ["b", "a", "c"] {
        store.add_issued(&introduction(Role::Issued, id, ME, NORTH, WEST), None).await.unwrap();
    }
    assert_eq!(store.revoke_issued("x", NOW, Some(errand("revoked", WEST, ""))).await.unwrap(), None);
    for (id, now) in [("b", after(1)), ("a", after(2)), ("b", after(3))] {
        let row = store.revoke_issued(id, now, Some(errand("revoked", WEST, ""))).await.unwrap().unwrap();
        assert_eq!((row.status, row.changed), (Revoked, if id == "b" { after(1) } else { after(2) }));
    }
    assert_eq!(kinds(&store).await.len(), 2);
    assert_eq!(store.revoked_ids(NOW).await.unwrap(), ["a", "b"]);
    let end = introduction(Role::Issued, "a", ME, NORTH, WEST).valid_until;
    assert!(store.revoked_ids(end).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_given_introduction_makes_an_address_that_may_be_written_to() {
    let (_folder, store) = with_west().await;
    let Kept::Stored(contact) = keep(&store, &held("a")).await else { panic!("good") };
    assert_eq!((contact.name.as_str(), contact.relation), ("north", Relation::Offered));
    assert_eq!(contact.coordinates.url.as_deref(), Some("https://north.example"));
    let standing = store.standing(did(NORTH).as_str(), "m").await.unwrap();
    assert!(!standing.is_direct && !standing.is_introduced);
    assert_eq!(keep(&store, &held("a")).await, Kept::Stored(contact), "the same again");
    assert_eq!(keep(&store, &IntroductionRow { vc: "other".to_owned(), ..held("a") }).await, Kept::Refused);
    assert_eq!(store.introductions(Some(Role::Held)).await.unwrap().len(), 1);
    // Nobody else's word counts.
    assert_eq!(keep(&store, &introduction(Role::Held, "b", EAST, ME, NORTH)).await, Kept::Refused);
    assert_eq!(keep(&store, &IntroductionRow { valid_until: NOW, ..held("c") }).await, Kept::Refused);
    store.set_blocked(&did(WEST), true, NOW).await.unwrap();
    assert_eq!(keep(&store, &held("d")).await, Kept::Refused);
    store.set_blocked(&did(WEST), false, NOW).await.unwrap();
    store.set_blocked(&did(NORTH), true, NOW).await.unwrap();
    assert_eq!(keep(&store, &held("d")).await, Kept::Refused);
    store.set_blocked(&did(NORTH), false, NOW).await.unwrap();
    let direct = connect(&store, &did(NORTH), "north").await;
    assert_eq!(keep(&store, &held("d")).await, Kept::NotNeeded(direct));
}

#[tokio::test]
async fn the_best_introduction_is_presented() {
    let (_folder, store) = with_west().await;
    connect(&store, &did(EAST), "east").await;
    let row = |id, issuer, level| IntroductionRow {
        trust_level_bp: level,
        ..introduction(Role::Held, id, issuer, ME, NORTH)
    };
    for row in [row("none", WEST, None), row("low", WEST, Some(100)), row("high", EAST, Some(900))] {
        assert!(matches!(keep(&store, &row).await, Kept::Stored(_)));
    }
    let best = async |now| store.held_for(&did(NORTH), now).await.unwrap().map(|row| row.id);
    assert_eq!(best(NOW).await.as_deref(), Some("high"));
    assert_eq!(best(held("x").valid_until).await, None);
    assert_eq!(store.held_for(&did(EAST), NOW).await.unwrap(), None);
    store.record_presented(&did(EAST), "high", Rejected, NOW).await.unwrap();
    assert_eq!(best(NOW).await.as_deref(), Some("low"));
    store.record_presented(&did(WEST), "none", Accepted, NOW).await.unwrap();
    assert_eq!(best(NOW).await.as_deref(), Some("none"), "it has worked");
    assert_eq!(relation(&store, NORTH).await, Some(Relation::Introduced));
    assert_eq!(standing(&store, NORTH, NOW).await, ["none"], "an answer may come the same way");
    store.remove_contact(&did(WEST)).await.unwrap();
    assert_eq!(best(NOW).await, None);
}

#[tokio::test]
async fn what_a_voucher_takes_back_is_over_for_good() {
    let (folder, store) = with_west().await;
    keep(&store, &held("a")).await;
    keep(&store, &introduction(Role::Held, "b", WEST, ME, EAST)).await;
    store.record_presented(&did(WEST), "a", Accepted, NOW).await.unwrap();
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
    assert_eq!(store.mark_revoked(&did(EAST), &ids(&["a"]), NOW).await.unwrap(), 0, "not its issuer");
    assert_eq!(store.mark_revoked(&did(WEST), &ids(&["x", "", "'"]), NOW).await.unwrap(), 0);
    assert_eq!(store.mark_revoked(&did(WEST), &ids(&["a", "x", "a"]), after(1)).await.unwrap(), 1);
    assert_eq!(store.mark_revoked(&did(WEST), &ids(&["a"]), after(2)).await.unwrap(), 0);
    assert_eq!((relation(&store, NORTH).await, relation(&store, EAST).await), (STRANGER, Some(Relation::Offered)));
    let north = store.contact(&did(NORTH)).await.unwrap().unwrap();
    assert_eq!((north.name.as_str(), north.peer_name.as_deref()), ("north", Some("north")), "the owner still finds it");
    store.record_presented(&did(WEST), "a", Accepted, NOW).await.unwrap();
    assert_eq!(keep(&store, &held("a")).await, Kept::Refused);
    store.close().await;
    let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
    assert_eq!(status(&store, Role::Held, "a").await, Revoked);
    assert!(store.held_for(&did(NORTH), NOW).await.unwrap().is_none());
}

#[tokio::test]
async fn removing_a_voucher_ends_what_nothing_else_holds_up() {
    let (_folder, store) = with_west().await;
    connect(&store, &did(EAST), "east").await;
    keep(&store, &held("a")).await;
    keep(&store, &introduction(Role::Held, "b", EAST, ME, NORTH)).await;
    keep(&store, &introduction(Role::Held, "c", WEST, ME, 7)).await;
    keep(&store, &introduction(Role::Held, "d", WEST, ME, 8)).await;
    store.record_presented(&did(WEST), "a", Accepted, NOW).await.unwrap();
    store.set_blocked(&did(8), true, NOW).await.unwrap();
    assert!(store.remove_contact(&did(WEST)).await.unwrap());
    assert_eq!(relation(&store, NORTH).await, Some(Relation::Offered), "east's word stands, unused");
    assert_eq!((relation(&store, 7).await, relation(&store, 8).await), (STRANGER, STRANGER));
    assert_eq!(status(&store, Role::Held, "a").await, Ended);
    assert_eq!(status(&store, Role::Held, "b").await, Pending);
    // It comes never back to life.
    connect(&store, &did(WEST), "west").await;
    assert!(standing(&store, NORTH, NOW).await.is_empty());
    assert_eq!(keep(&store, &held("a")).await, Kept::Refused);
    assert_eq!(store.held_for(&did(NORTH), NOW).await.unwrap().unwrap().id, "b");
    // Removing whom it led to ends it, too.
    assert!(store.remove_contact(&did(NORTH)).await.unwrap());
    assert_eq!(status(&store, Role::Held, "b").await, Ended);
}

#[tokio::test]
async fn blocking_a_voucher_suspends_what_it_vouched_for() {
    let (_folder, store) = with_west().await;
    keep(&store, &held("a")).await;
    store.record_presented(&did(WEST), "a", Accepted, NOW).await.unwrap();
    store.set_blocked(&did(WEST), true, NOW).await.unwrap();
    assert!(standing(&store, NORTH, NOW).await.is_empty());
    assert_eq!(relation(&store, NORTH).await, Some(Relation::Introduced));
    store.set_blocked(&did(WEST), false, NOW).await.unwrap();
    assert_eq!(standing(&store, NORTH, NOW).await, ["a"]);
    assert!(standing(&store, NORTH, held("a").valid_until).await.is_empty());
}

#[tokio::test]
async fn one_issuer_cannot_give_without_end() {
    let (_folder, store) = with_west().await;
    let row = |n: u32, end| IntroductionRow {
        valid_until: after(end),
        ..introduction(Role::Held, &format!("id-{n}"), WEST, ME, 1_000 + n)
    };
    for n in 0..256 {
        assert!(matches!(keep(&store, &row(n, 10)).await, Kept::Stored(_)));
    }
    assert_eq!(keep(&store, &row(256, 10)).await, Kept::Refused);
    // A new life every ten seconds: what is dead is kept for a while, and its unused contacts go with it.
    let keep_later = async |n: u32, now: i64| {
        let mut target = introduce(&did(1_000 + n), "x");
        target.now = after(now);
        store.keep_held(&row(n, now + 10), &target).await.unwrap()
    };
    for n in 256..520 {
        assert!(matches!(keep_later(n, 10 * i64::from(n)).await, Kept::Stored(_)), "{n}");
    }
    assert_eq!(store.introductions(None).await.unwrap().len(), 256);
    assert_eq!(store.contacts().await.unwrap().len(), 257);
}

#[tokio::test]
async fn an_introduction_that_its_target_will_not_have_is_over() {
    let (_folder, store) = with_west().await;
    for id in ["a", "b"] {
        store
            .add_issued(&introduction(Role::Issued, id, ME, NORTH, WEST), Some(errand("propose", WEST, id)))
            .await
            .unwrap();
    }
    assert!(store.reject_issued("a", after(1)).await.unwrap());
    assert_eq!((status(&store, Role::Issued, "a").await, kinds(&store).await.len()), (Rejected, 1));
    assert!(!store.reject_issued("a", after(2)).await.unwrap(), "it is over");
    store.revoke_issued("b", after(1), None).await.unwrap();
    for id in ["b", "x"] {
        assert!(!store.reject_issued(id, after(2)).await.unwrap(), "{id}");
    }
    assert_eq!(status(&store, Role::Issued, "b").await, Revoked);
}

#[tokio::test]
async fn a_stranger_from_before_is_the_owners_to_forget() {
    let (_folder, store) = with_west().await;
    keep(&store, &held("a")).await;
    keep(&store, &introduction(Role::Held, "b", WEST, ME, EAST)).await;
    assert_eq!(store.mark_revoked(&did(WEST), &["a".to_owned(), "b".to_owned()], NOW).await.unwrap(), 2);
    // A block comes and goes.
    for blocked in [true, false] {
        store.set_blocked(&did(NORTH), blocked, NOW).await.unwrap();
        let north = store.contact(&did(NORTH)).await.unwrap().unwrap();
        assert_eq!((north.relation, north.is_blocked, north.name.as_str()), (Relation::None, blocked, "north"));
    }
    assert!(!store.standing(did(NORTH).as_str(), "x").await.unwrap().is_direct);
    assert!(store.remove_contact(&did(NORTH)).await.unwrap());
    assert!(!store.remove_contact(&did(NORTH)).await.unwrap());
    assert_eq!(relation(&store, NORTH).await, None);
    // What was removed while it was blocked goes with the block.
    store.set_blocked(&did(EAST), true, NOW).await.unwrap();
    assert!(!store.remove_contact(&did(EAST)).await.unwrap(), "it stays blocked");
    assert_eq!(relation(&store, EAST).await, STRANGER);
    store.set_blocked(&did(EAST), false, NOW).await.unwrap();
    assert_eq!(relation(&store, EAST).await, None);
    // Trust makes it what it was.
    keep(&store, &introduction(Role::Held, "c", WEST, ME, NORTH)).await;
    store.mark_revoked(&did(WEST), &["c".to_owned()], NOW).await.unwrap();
    assert_eq!(connect(&store, &did(NORTH), "north").await.name, "north");
    assert_eq!(relation(&store, NORTH).await, Some(Relation::Direct));
}

#[tokio::test]
async fn whoever_gives_and_takes_back_does_not_fill_the_list_of_contacts() {
    let (_folder, store) = with_west().await;
    for n in 0..600 {
        let id = format!("id-{n}");
        let row = introduction(Role::Held, &id, WEST, ME, 1_000 + n);
        assert!(matches!(keep(&store, &row).await, Kept::Stored(_)), "{n}");
        store.mark_revoked(&did(WEST), &[id], NOW).await.unwrap();
    }
    assert!(store.contacts().await.unwrap().len() <= 258);
}
