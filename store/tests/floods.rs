//! Bounds: for strangers as a whole, for each contact, for several processes, for time.
#![allow(clippy::unwrap_used)]
mod common;
use common::{asks::*, *};
use muretai_protocol::UnixSeconds;
use muretai_store::{
    Store,
    introductions::{IntroductionRow, Role},
    requests::{
        Answered, Decided,
        Decision::{Accept, Reject},
        Filed, NewRequest, PendingLimits, Queued, RequestKind,
    },
};

#[tokio::test]
async fn repeating_for_ever_leaves_no_trace_for_ever() {
    let (_folder, store) = fresh().await;
    for n in 0..20 {
        let note = NewRequest { note: Some(n.to_string()), ..connect_request(NORTH) };
        pending(file(&store, &note, &format!("m{n}")).await);
    }
    assert_eq!(store.requests(true, NOW).await.unwrap()[0].note.as_deref(), Some("10"));
    assert!(is_handled(&store, NORTH, "m10").await);
    assert!(!is_handled(&store, NORTH, "m11").await);
}

#[tokio::test]
async fn strangers_share_one_room_and_contacts_another() {
    let (_folder, store) = with_west().await;
    connect(&store, &did(SOUTH), "south").await;
    let limits = PendingLimits { total: 8, strangers_per_hour: 100 };
    let ask = async |n: u32, now: UnixSeconds| {
        let request = request(RequestKind::Connect, n, now);
        store.file_connect(&request, false, "me", limits, &handling(&did(n), &format!("c{n}"))).await.unwrap()
    };
    for n in 1_000..1_008 {
        pending(ask(n, after(i64::from(n) - 1_000)).await);
    }
    assert!(matches!(ask(1_008, after(9)).await, Filed::Full { retry_after_secs: 3_600 }));
    assert!(matches!(ask(1_008, after(MONTH - 9)).await, Filed::Full { retry_after_secs: 9 }));
    let held = received(&did(1_009), "h");
    let queued = store.hold_message(&held, None, &request(RequestKind::Message, 1_009, NOW), limits).await.unwrap();
    assert!(matches!(queued, Queued::Full { .. }));
    // A contact has a quarter of the other room.
    for (issuer, subject, is_full) in [
        (WEST, 20, false),
        (WEST, 21, false),
        (WEST, 22, true),
        (SOUTH, 23, false),
        (SOUTH, 24, false),
        (SOUTH, 25, true),
    ] {
        let vc = introduction(Role::Received, &subject.to_string(), issuer, subject, ME);
        let request = request(RequestKind::Introduction, subject, NOW);
        let handling = handling(&did(issuer), &subject.to_string());
        let queued = store.file_introduction(&vc, &request, None, "me", limits, &handling).await.unwrap();
        assert_eq!(matches!(queued, Queued::Full { .. }), is_full, "{subject}");
    }
    let question = request(RequestKind::Referral, WEST, NOW);
    let queued = store.file_question(&question, limits, &handling(&did(WEST), "q")).await.unwrap();
    assert!(matches!(queued, Queued::Full { .. }), "its quarter is taken");
    // What is decided or has expired makes room at once.
    let row = &store.requests(false, NOW).await.unwrap()[0];
    decide(&store, row.id, Reject).await;
    pending(ask(1_008, NOW).await);
    assert!(matches!(ask(1_010, NOW).await, Filed::Full { .. }));
    pending(ask(1_010, after(MONTH + 1)).await);
}

#[tokio::test]
async fn strangers_without_an_introduction_are_few_an_hour() {
    let (_folder, store) = fresh().await;
    for n in 10..13 {
        pending(file(&store, &connect_request(n), "m").await);
    }
    waiting(hold(&store, 13, "m", None).await);
    let row = pending(file(&store, &connect_request(14), "m").await);
    decide(&store, row.id, Reject).await;
    let ask = async |n: u32, now: i64| file(&store, &request(RequestKind::Connect, n, after(now)), "m").await;
    assert_eq!(ask(15, 100).await, Filed::Full { retry_after_secs: 3_500 });
    assert!(matches!(hold(&store, 15, "h", None).await, Queued::Full { .. }));
    assert_eq!(relation(&store, 15).await, None);
    pending(file(&store, &vouched(16), "m").await);
    pending(file(&store, &connect_request(10), "again").await);
    pending(ask(20, 3_600).await);
    for n in 21..25 {
        pending(ask(n, 3_700).await);
    }
    assert_eq!(ask(25, 3_800).await, Filed::Full { retry_after_secs: 3_400 });
}

#[tokio::test]
async fn a_flood_of_fresh_dids_leaves_a_bounded_file() {
    let (folder, store) = with_west().await;
    let size = async || {
        let path = folder.path().join("agent.db");
        let bytes = |name| std::fs::metadata(path.with_file_name(name)).map_or(0, |meta| meta.len());
        bytes("agent.db") + bytes("agent.db-wal")
    };
    let limits = PendingLimits { total: 100, strangers_per_hour: 1_000_000 };
    let flood = async |from: u32| {
        let mut filed = 0;
        for n in from..from + 1_000 {
            let request = NewRequest { note: Some("x".repeat(1_000)), ..connect_request(n) };
            let outcome = store.file_connect(&request, false, "me", limits, &handling(&did(n), "m")).await.unwrap();
            filed += usize::from(matches!(outcome, Filed::Pending(_)));
        }
        filed
    };
    assert_eq!(flood(1_000).await, 100);
    let before = size().await;
    assert_eq!(flood(10_000).await, 0);
    let one = connect_request(1_000);
    for n in 0..50 {
        let handling = handling(&did(1_000), &format!("again-{n}"));
        pending(store.file_connect(&one, false, "me", limits, &handling).await.unwrap());
    }
    assert!(size().await < before + 200_000, "{before} {}", size().await);
    assert_eq!(store.requests(true, NOW).await.unwrap().len(), 100);
    // A contact is not hurt.
    waiting(propose(&store, &received_vc("a", NORTH), "p1", None).await);
    assert!(matches!(
        store.commit_received(received(&did(WEST), "m")).await.unwrap(),
        muretai_store::messages::Committed::Stored { .. }
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_keep_one_bound_and_one_row_for_each_did() {
    let (folder, store) = fresh().await;
    let other = Store::open(&folder.path().join("agent.db")).await.unwrap();
    let limits = PendingLimits { total: 10, strangers_per_hour: 1_000 };
    let calls: Vec<_> = (0..120_u32)
        .map(|n| {
            let store = if n % 2 == 0 { store.clone() } else { other.clone() };
            let from = 1_000 + n / 4;
            tokio::spawn(async move {
                let handling = handling(&did(from), &format!("m{}", n % 4));
                store.file_connect(&connect_request(from), false, "me", limits, &handling).await.unwrap()
            })
        })
        .collect();
    for call in calls {
        assert!(matches!(call.await.unwrap(), Filed::Pending(_) | Filed::Full { .. }));
    }
    let rows = store.requests(true, NOW).await.unwrap();
    assert_eq!(rows.len(), 10);
    let mut peers: Vec<_> = rows.iter().map(|row| row.peer.to_string()).collect();
    peers.sort();
    peers.dedup();
    assert_eq!(peers.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_handle_one_request_once() {
    let (folder, store) = with_west().await;
    let other = Store::open(&folder.path().join("agent.db")).await.unwrap();
    let row = waiting(hold(&store, NORTH, "m1", Some(&received_vc("a", NORTH))).await);
    let both = |n: u32| if n.is_multiple_of(2) { store.clone() } else { other.clone() };
    // The same copy of a request.
    let calls: Vec<_> = (0..10)
        .map(|n| {
            let store = both(n);
            tokio::spawn(async move { file(&store, &connect_request(SOUTH), "same").await })
        })
        .collect();
    let mut filed = 0;
    for call in calls {
        match call.await.unwrap() {
            Filed::Pending(_) => filed += 1,
            Filed::Duplicate { same_content: true } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(filed, 1);
    // One decision.
    let calls: Vec<_> = (0..10)
        .map(|n| {
            let store = both(n);
            let id = row.id;
            tokio::spawn(async move {
                store.decide(id, Accept, None, "me", vec![errand("accept", WEST)], NOW).await.unwrap()
            })
        })
        .collect();
    let mut delivered = 0;
    for call in calls {
        match call.await.unwrap() {
            Decided::Done { delivered: count, .. } => delivered += count,
            Decided::Unchanged(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((delivered, inbox(&store).await.len(), store.errands().await.unwrap().len()), (1, 1, 1));
    // One answer to our question.
    store.open_request(&connect_request(9)).await.unwrap();
    let calls: Vec<_> = (0..10)
        .map(|n| {
            let store = both(n);
            tokio::spawn(async move {
                let handling = handling(&did(9), &format!("answer-{n}"));
                store.settle_connect(&introduce(&did(9), "nine"), Accept, &handling).await.unwrap()
            })
        })
        .collect();
    let mut connected = 0;
    for call in calls {
        match call.await.unwrap() {
            Answered::Connected(_) => connected += 1,
            Answered::NoSuch => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(connected, 1);
}

#[tokio::test]
async fn what_has_passed_is_swept_and_numbers_are_never_given_twice() {
    let (_folder, store) = with_west().await;
    let row = pending(file(&store, &connect_request(NORTH), "m1").await);
    let vc = IntroductionRow { valid_until: after(3 * MONTH), ..received_vc("a", SOUTH) };
    let held = waiting(hold(&store, SOUTH, "m2", Some(&vc)).await);
    store.add_errand(&errand("accept", WEST)).await.unwrap();
    assert_eq!(store.sweep_trust(NOW).await.unwrap(), 0);
    assert_eq!(store.sweep_trust(after(MONTH)).await.unwrap(), 2, "the errand and the held message");
    assert_eq!(store.request(held.id, NOW).await.unwrap().unwrap().held_text, None);
    assert_eq!(store.sweep_trust(after(2 * MONTH - 1)).await.unwrap(), 0);
    assert_eq!(store.sweep_trust(after(2 * MONTH)).await.unwrap(), 1);
    assert_eq!(store.request(row.id, NOW).await.unwrap(), None);
    // What was asked about an introduction is known as long as the introduction is.
    assert!(store.request(held.id, NOW).await.unwrap().is_some());
    assert_eq!(store.sweep_trust(after(4 * MONTH)).await.unwrap(), 2);
    assert!(store.introductions(None).await.unwrap().is_empty());
    let next = pending(file(&store, &connect_request(NORTH), "m3").await);
    assert!(next.id > held.id);
}
