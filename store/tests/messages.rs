//! Messages in, out and listed.
#![allow(clippy::unwrap_used)]
mod common;
use common::*;
use muretai_protocol::UnixSeconds;
use muretai_store::{
    Store, StoreError,
    messages::{Answered, Committed, Direction, Handled, OutStatus, Outgoing, Query, Standing},
};

fn everything() -> Query {
    Query { with_sent: true, with_auto: true, ..Query::default() }
}

fn outgoing(peer: &str, id: &str) -> Outgoing {
    Outgoing {
        peer: peer.to_owned(),
        message_id: id.to_owned(),
        context_id: Some("talk".to_owned()),
        reply_to: None,
        text: "hello".to_owned(),
        timestamp: NOW,
        sig: Some("c2ln".to_owned()),
        target: None,
        is_auto: false,
        keep: None,
    }
}

fn answered(id: &str) -> Answered {
    Answered {
        message_id: id.to_owned(),
        context_id: Some("talk".to_owned()),
        text: "HELLO".to_owned(),
        timestamp: NOW,
        received: NOW,
        sig: Some("c2ln".to_owned()),
        is_verified: true,
        is_auto: false,
        digest: Some([3; 32]),
        extra: None,
    }
}

#[tokio::test]
async fn stores_a_message_with_its_reply() {
    let (_folder, store) = fresh().await;
    let north = did(1);
    let mut message = received(&north, "a");
    message.text = "nul \0, ü and 東京".to_owned();
    message.extra = Some("{\"parts\":[1]}".to_owned());
    message.context_id = Some("talk".to_owned());
    assert_eq!(store.commit_received(message.clone()).await.unwrap(), Committed::Stored { seq: 1 });

    let rows = store.messages(&everything()).await.unwrap();
    assert_eq!(rows.len(), 2);
    let (asked, reply) = (&rows[0], &rows[1]);
    assert_eq!((asked.seq, asked.direction, asked.is_unread, asked.is_verified), (1, Direction::In, true, true));
    assert_eq!((&asked.text, &asked.extra, &asked.context_id), (&message.text, &message.extra, &message.context_id));
    assert_eq!((asked.peer.as_str(), asked.message_id.as_str(), asked.status), (north.as_str(), "a", None));
    assert_eq!((reply.seq, reply.direction, reply.is_unread, reply.is_auto), (2, Direction::Out, false, true));
    assert_eq!((reply.reply_to.as_deref(), reply.message_id.as_str()), (Some("a"), "re-a"));
    assert_eq!(store.last_seq().await.unwrap(), 2);
}

#[tokio::test]
async fn the_same_id_is_stored_once() {
    let (_folder, store) = fresh().await;
    let north = did(1);
    store.commit_received(received(&north, "a")).await.unwrap();
    let again = store.commit_received(received(&north, "a")).await.unwrap();
    assert_eq!(again, Committed::Duplicate { same_content: true });
    let mut other = received(&north, "a");
    other.digest = [9; 32];
    assert_eq!(store.commit_received(other).await.unwrap(), Committed::Duplicate { same_content: false });
    // An id belongs to its sender.
    let stored = store.commit_received(received(&did(2), "a")).await.unwrap();
    assert!(matches!(stored, Committed::Stored { .. }));
    assert_eq!(store.messages(&everything()).await.unwrap().len(), 4);
}

#[tokio::test]
async fn duplicates_in_one_batch_do_not_harm_the_others() {
    let (_folder, store) = fresh().await;
    let calls = (0..200).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { store.commit_received(received(&did(n % 3), &format!("id-{}", n / 6))).await })
    });
    let mut stored = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap().unwrap() {
            Committed::Stored { seq } => stored.push(seq),
            Committed::Duplicate { same_content } => assert!(same_content),
        }
    }
    let rows = store.messages(&Query::default()).await.unwrap();
    stored.sort_unstable();
    // 200 messages of three senders, each id sent twice by each.
    assert_eq!(stored.len(), 101);
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), stored);
    for row in store.messages(&everything()).await.unwrap().chunks(2) {
        assert_eq!(row[1].reply_to.as_ref(), Some(&row[0].message_id));
        assert_eq!(row[0].peer, row[1].peer);
    }
}

#[tokio::test]
async fn many_senders_at_once() {
    let (_folder, store) = fresh().await;
    let calls = (0..700).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut message = received(&did(n), "same-id");
            if n % 5 == 0 {
                message.reply = None;
            }
            let Committed::Stored { seq } = store.commit_received(message).await.unwrap() else { panic!("new") };
            (seq, did(n))
        })
    });
    let mut seqs = std::collections::HashMap::new();
    for call in calls.collect::<Vec<_>>() {
        let (seq, did) = call.await.unwrap();
        seqs.insert(seq, did);
    }
    let rows = store.messages(&Query::default()).await.unwrap();
    assert_eq!(rows.len(), 700);
    for row in rows {
        assert_eq!(seqs[&row.seq].as_str(), row.peer);
    }
    assert_eq!(store.last_seq().await.unwrap(), 700 + 560);
}

#[tokio::test]
async fn standing_tells_handled_ids_and_trust() {
    let (_folder, store) = fresh().await;
    let (north, east) = (did(1), did(2));
    assert_eq!(store.standing(north.as_str(), "a").await.unwrap(), Standing::default());
    store.commit_received(received(&north, "a")).await.unwrap();
    connect(&store, &north, "north").await;
    store.set_blocked(&east, true, NOW).await.unwrap();

    let expected = Standing {
        handled: Some(Handled { digest: [1; 32] }),
        is_direct: true,
        is_introduced: false,
        is_blocked: false,
    };
    assert_eq!(store.standing(north.as_str(), "a").await.unwrap(), expected);
    assert_eq!(store.standing(north.as_str(), "b").await.unwrap(), Standing { handled: None, ..expected });
    let blocked = store.standing(east.as_str(), "a").await.unwrap();
    assert_eq!(blocked, Standing { handled: None, is_direct: false, is_introduced: false, is_blocked: true });
    store.set_blocked(&north, true, NOW).await.unwrap();
    assert!(store.standing(north.as_str(), "b").await.unwrap().is_blocked);
}

#[tokio::test]
async fn many_look_ups_share_one_statement_and_do_not_mix() {
    let (_folder, store) = fresh().await;
    for n in (0..100).step_by(3) {
        store.commit_received(received(&did(n), &format!("m{n}"))).await.unwrap();
        connect(&store, &did(n), "north").await;
    }
    let calls = (0..100).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { store.standing(did(n).as_str(), &format!("m{n}")).await })
    });
    for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
        let standing = call.await.unwrap().unwrap();
        assert_eq!((standing.handled.is_some(), standing.is_direct), (n % 3 == 0, n % 3 == 0), "{n}");
    }
}

#[tokio::test]
async fn a_conversation_is_listed_in_order_of_arrival() {
    let (_folder, store) = fresh().await;
    let north = did(1);
    connect(&store, &north, "north").await;
    let mut early = received(&north, "from-the-future");
    early.timestamp = UnixSeconds(NOW.0 + 300_000_000);
    store.commit_received(early).await.unwrap();
    store.commit_received(received(&did(2), "b")).await.unwrap();
    store.commit_received(received(&north, "c")).await.unwrap();

    let ids =
        |rows: Vec<muretai_store::messages::MessageRow>| rows.into_iter().map(|row| row.message_id).collect::<Vec<_>>();
    let of = async |query: Query| ids(store.messages(&query).await.unwrap());
    assert_eq!(of(Query::default()).await, ["from-the-future", "b", "c"]);
    assert_eq!(of(Query { limit: Some(2), ..Query::default() }).await, ["b", "c"]);
    assert_eq!(of(Query { after_seq: Some(0), limit: Some(2), ..Query::default() }).await, ["from-the-future", "b"]);
    assert_eq!(of(Query { after_seq: Some(3), ..Query::default() }).await, ["c"]);
    let norths = Query { peer: Some(north.as_str().to_owned()), ..Query::default() };
    assert_eq!(of(norths).await, ["from-the-future", "c"]);
    let names: Vec<_> = store.messages(&Query::default()).await.unwrap().into_iter().map(|row| row.name).collect();
    assert_eq!(names, [Some("north".to_owned()), None, Some("north".to_owned())]);
}

#[tokio::test]
async fn reading_marks_only_what_was_named() {
    let (_folder, store) = fresh().await;
    for id in ["a", "b", "c"] {
        store.commit_received(received(&did(1), id)).await.unwrap();
    }
    store.mark_read(&[1, 2, 99]).await.unwrap();
    store.mark_read(&[]).await.unwrap();
    let unread = store.messages(&Query { unread_only: true, with_sent: true, ..Query::default() }).await.unwrap();
    assert_eq!(
        unread.iter().map(|row| row.message_id.as_str()).collect::<Vec<_>>(),
        ["b", "c"].as_slice()[..].to_vec()
    );
}

#[tokio::test]
async fn an_outgoing_message_is_queued_then_settled_once() {
    let (_folder, store) = fresh().await;
    let south = did(3);
    let seq = store.queue_outgoing(&outgoing(south.as_str(), "out-1")).await.unwrap();
    let status = async || {
        let rows = store.messages(&everything()).await.unwrap();
        rows.iter().find(|row| row.seq == seq).unwrap().status
    };
    assert_eq!(status().await, Some(OutStatus::Queued));
    store.record_outcome(seq, OutStatus::Failed, None).await.unwrap();
    assert_eq!(status().await, Some(OutStatus::Failed));
    for _ in 0..2 {
        store.record_outcome(seq, OutStatus::Delivered, Some(&answered("re-1"))).await.unwrap();
    }
    store.record_outcome(seq, OutStatus::Failed, None).await.unwrap();
    assert_eq!(status().await, Some(OutStatus::Delivered));

    let rows = store.messages(&everything()).await.unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[1].text.as_str(), rows[1].reply_to.as_deref()), ("HELLO", Some("out-1")));
    assert_eq!((rows[1].direction, rows[1].is_unread, rows[1].is_verified), (Direction::In, false, true));
    // A captured reply cannot come back as a message.
    assert!(store.standing(south.as_str(), "re-1").await.unwrap().handled.is_some());
    let replayed = store.commit_received(received(&south, "re-1")).await.unwrap();
    assert!(matches!(replayed, Committed::Duplicate { .. }));
}

#[tokio::test]
async fn a_foreign_reply_is_kept_unverified_and_once() {
    let (_folder, store) = fresh().await;
    let peer = "https://foreign.example/.well-known/agent-card.json";
    let seq = store.queue_outgoing(&outgoing(peer, "out-1")).await.unwrap();
    let reply = Answered { is_verified: false, digest: None, sig: None, ..answered("x") };
    store.record_outcome(seq, OutStatus::Delivered, Some(&reply)).await.unwrap();
    store.record_outcome(seq, OutStatus::Delivered, Some(&reply)).await.unwrap();
    let rows = store.messages(&everything()).await.unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[1].peer.as_str(), rows[1].is_verified), (peer, false));
    assert!(store.standing(peer, "x").await.unwrap().handled.is_none());
}

#[tokio::test]
async fn settling_something_else_changes_nothing() {
    let (_folder, store) = fresh().await;
    store.commit_received(received(&did(1), "a")).await.unwrap();
    let before = store.messages(&everything()).await.unwrap();
    store.record_outcome(1, OutStatus::Delivered, Some(&answered("re-1"))).await.unwrap();
    store.record_outcome(77, OutStatus::Delivered, Some(&answered("re-1"))).await.unwrap();
    assert_eq!(store.messages(&everything()).await.unwrap(), before);
}

#[tokio::test]
async fn a_contact_was_last_seen_when_it_last_wrote() {
    let (_folder, store) = fresh().await;
    let north = did(1);
    connect(&store, &north, "north").await;
    let seen = async |store: &Store| store.contact(&north).await.unwrap().unwrap().last_seen;
    assert_eq!(seen(&store).await, None);
    store.commit_received(received(&north, "a")).await.unwrap();
    assert_eq!(seen(&store).await, Some(NOW));
    let mut later = received(&north, "b");
    later.received = UnixSeconds(NOW.0 + 61);
    store.commit_received(later).await.unwrap();
    assert_eq!(seen(&store).await, Some(UnixSeconds(NOW.0 + 61)));
    // Refreshing the contact keeps it.
    connect(&store, &north, "north").await;
    assert_eq!(seen(&store).await, Some(UnixSeconds(NOW.0 + 61)));
}

#[tokio::test]
async fn a_closed_store_has_everything_and_refuses_more() {
    let (folder, store) = fresh().await;
    let calls = (0..50).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { store.commit_received(received(&did(n), "a")).await })
    });
    let calls: Vec<_> = calls.collect();
    tokio::task::yield_now().await;
    store.close().await;
    store.close().await;
    let mut stored = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => stored += 1,
            Err(StoreError::Closed) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(matches!(store.setting("x").await, Err(StoreError::Closed)));
    assert!(matches!(store.commit_received(received(&did(1), "z")).await, Err(StoreError::Closed)));
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["agent.db"]);
    let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
    assert_eq!(store.messages(&Query::default()).await.unwrap().len(), stored);
}

#[tokio::test]
async fn settings_are_set_and_forgotten() {
    let (_folder, store) = fresh().await;
    assert_eq!(store.setting("url").await.unwrap(), None);
    store.set_setting("url", Some("http://127.0.0.1:1")).await.unwrap();
    store.set_setting("url", Some("http://127.0.0.1:2")).await.unwrap();
    assert_eq!(store.setting("url").await.unwrap().as_deref(), Some("http://127.0.0.1:2"));
    store.set_setting("url", None).await.unwrap();
    assert_eq!(store.setting("url").await.unwrap(), None);
}

#[tokio::test]
async fn a_verified_reply_shows_that_a_contact_is_there() {
    let (_folder, store) = fresh().await;
    let south = did(1);
    connect(&store, &south, "south").await;
    for (n, is_verified, seen) in [(0, false, None), (1, true, Some(NOW)), (2, true, Some(NOW))] {
        let seq = store.queue_outgoing(&outgoing(south.as_str(), &format!("m{n}"))).await.unwrap();
        let received = UnixSeconds(NOW.0 - i64::from(n > 1));
        let reply = Answered { is_verified, received, digest: Some([n; 32]), ..answered(&format!("r{n}")) };
        store.record_outcome(seq, OutStatus::Delivered, Some(&reply)).await.unwrap();
        assert_eq!(store.contact(&south).await.unwrap().unwrap().last_seen, seen, "{n}");
    }
}

#[tokio::test]
async fn what_was_not_delivered_can_be_queued_again() {
    let (_folder, store) = fresh().await;
    let seq = store.queue_outgoing(&outgoing(did(1).as_str(), "m")).await.unwrap();
    store.record_outcome(seq, OutStatus::Failed, None).await.unwrap();
    let later = UnixSeconds(NOW.0 + 900);
    assert!(store.requeue_outgoing(seq, later, Some("bmV3"), None).await.unwrap());
    let row = store.outgoing("m").await.unwrap().unwrap();
    assert_eq!((row.seq, row.status, row.timestamp), (seq, Some(OutStatus::Queued), later));
    for status in [OutStatus::Refused, OutStatus::Delivered] {
        store.record_outcome(seq, status, Some(&answered("r"))).await.unwrap();
        assert!(!store.requeue_outgoing(seq, later, None, None).await.unwrap());
    }
    assert_eq!(store.outgoing("r").await.unwrap(), None, "a reply is nothing to send again");
    assert_eq!(store.outgoing("unknown").await.unwrap(), None);
}
