//! Messages on their way: taken by one at a time, settled by whatever is said about them.
#![allow(clippy::unwrap_used)]
mod common;

use common::*;
use muretai_protocol::UnixSeconds;
use muretai_store::{
    Store, StoreError,
    messages::{Answered, Committed, OutStatus, Outgoing, Query, Received, ReplyBy, Settles},
    outbox::{Keep, OutboxRow, RejectedLetter},
};

const WEEK: i64 = 7 * 86_400;
const RELAY: &str = "https://relay.example";

fn keep() -> Keep {
    Keep {
        expires: after(WEEK),
        via: None,
        allow_private: false,
        extra: Some("{\"a\":1}".to_owned()),
        relay: None,
        enc_pub: None,
        lease: None,
    }
}

fn outgoing(to: u32, id: &str) -> Outgoing {
    Outgoing {
        peer: did(to).to_string(),
        message_id: id.to_owned(),
        context_id: Some("talk".to_owned()),
        reply_to: None,
        text: "hello".to_owned(),
        timestamp: NOW,
        sig: None,
        target: Some("south.example".to_owned()),
        is_auto: false,
        keep: Some(keep()),
    }
}

async fn queue(store: &Store, to: u32, id: &str) -> i64 {
    store.queue_outgoing(&outgoing(to, id)).await.unwrap()
}

async fn status(store: &Store, id: &str) -> (Option<OutStatus>, Option<i64>) {
    let row = store.outgoing(id).await.unwrap().unwrap();
    (row.status, row.code)
}

async fn taken(store: &Store, now: UnixSeconds) -> Vec<String> {
    let rows = store.take_outbox(now, UnixSeconds(now.0 + 60), 100).await.unwrap();
    rows.into_iter().map(|row| row.message_id).collect()
}

async fn outbox(store: &Store) -> Vec<OutboxRow> {
    store.outbox(true).await.unwrap()
}

/// A letter of `from` that says something about a message of ours.
fn about(from: u32, id: &str, asked: &str, status: OutStatus, is_answer: bool) -> Received {
    let code = (status == OutStatus::Refused).then_some(-32010);
    let settles = Some(Settles { asked: asked.to_owned(), status, code, is_answer });
    Received { reply: None, settles, is_auto: !is_answer, ..received(&did(from), id) }
}

#[tokio::test]
async fn a_message_is_due_until_somebody_takes_it() {
    let (_folder, store) = fresh().await;
    connect(&store, &did(1), "south").await;
    let seq = queue(&store, 1, "a").await;
    let row = outbox(&store).await.remove(0);
    assert_eq!((row.seq, row.peer.as_str(), row.name.as_deref()), (seq, did(1).as_str(), Some("south")));
    assert_eq!((row.status, row.attempts, row.created, row.due), (OutStatus::Queued, 0, NOW, NOW));
    assert_eq!((&row.keep, row.is_reply, row.is_auto, row.at_relay), (&keep(), false, false, None));
    assert_eq!((row.text.as_str(), row.context_id.as_deref()), ("hello", Some("talk")));

    assert_eq!(taken(&store, NOW).await, ["a"]);
    assert!(taken(&store, after(59)).await.is_empty(), "it is somebody's");
    // Whoever took it is gone.
    assert_eq!(taken(&store, after(60)).await, ["a"]);
}

#[tokio::test]
async fn whoever_writes_a_message_sends_it_first() {
    let (_folder, store) = fresh().await;
    let kept = Keep { lease: Some(after(50)), ..keep() };
    let seq = store.queue_outgoing(&Outgoing { keep: Some(kept), ..outgoing(1, "a") }).await.unwrap();
    assert!(taken(&store, after(49)).await.is_empty());
    assert!(store.take_queued(seq, after(49), after(90)).await.unwrap().is_none());
    assert!(!store.hasten_outgoing(did(1).as_str(), after(1)).await.unwrap(), "it is on its way");
    assert_eq!(taken(&store, after(50)).await, ["a"]);
    // By name its owner takes it from whoever has it.
    let row = store.take_outgoing("a", after(200)).await.unwrap().unwrap();
    assert_eq!((row.seq, row.due), (seq, after(200)));
    assert!(store.take_outgoing("b", after(200)).await.unwrap().is_none());
}

#[tokio::test]
async fn failures_put_a_message_off_and_say_why() {
    let (_folder, store) = fresh().await;
    let seq = queue(&store, 1, "a").await;
    taken(&store, NOW).await;
    let why = "é".repeat(1_000);
    store.postpone_outgoing(seq, after(30), &why).await.unwrap();
    let row = outbox(&store).await.remove(0);
    assert_eq!((row.attempts, row.due), (1, after(30)));
    assert_eq!(row.last_error.unwrap(), "é".repeat(512));
    assert!(taken(&store, after(29)).await.is_empty());
    assert_eq!(taken(&store, after(30)).await, ["a"]);
    store.postpone_outgoing(seq, after(2 * WEEK), "no").await.unwrap();
    assert_eq!(outbox(&store).await[0].due, after(WEEK), "never later than it expires");
    assert_eq!(store.outbox_due().await.unwrap(), Some(after(WEEK)));
}

#[tokio::test]
async fn what_is_over_is_expired_queued_or_at_a_relay() {
    let (_folder, store) = fresh().await;
    queue(&store, 1, "queued").await;
    let seq = queue(&store, 1, "kept").await;
    store.record_at_relay(seq, RELAY, after(100), after(100 + WEEK)).await.unwrap();
    assert_eq!(status(&store, "kept").await, (Some(OutStatus::AtRelay), None));
    let row = outbox(&store).await.remove(1);
    assert_eq!((row.status, row.due), (OutStatus::AtRelay, after(100 + WEEK)));
    assert_eq!(row.at_relay, Some((RELAY.to_owned(), after(100))));

    assert!(taken(&store, after(WEEK)).await.is_empty());
    assert_eq!(status(&store, "queued").await, (Some(OutStatus::Expired), None));
    assert_eq!(status(&store, "kept").await, (Some(OutStatus::AtRelay), None));
    assert!(taken(&store, after(WEEK + 100)).await.is_empty());
    assert_eq!(status(&store, "kept").await, (Some(OutStatus::Expired), None));
    assert!(outbox(&store).await.is_empty());
    assert_eq!(store.outbox_due().await.unwrap(), None);
    // Who sends it again has to know where to.
    assert!(store.target_of("queued").await.unwrap().is_some());
}

#[tokio::test]
async fn an_outcome_takes_a_message_out_of_the_outbox() {
    let (_folder, store) = fresh().await;
    for (n, (outcome, code)) in
        [(OutStatus::Delivered, None), (OutStatus::Refused, Some(-32010)), (OutStatus::Failed, None)]
            .into_iter()
            .enumerate()
    {
        let id = format!("m{n}");
        let seq = queue(&store, 1, &id).await;
        match code {
            Some(code) => store.record_refused(seq, code).await.unwrap(),
            None => store.record_outcome(seq, outcome, None).await.unwrap(),
        }
        assert_eq!(status(&store, &id).await, (Some(outcome), code));
        assert!(outbox(&store).await.is_empty(), "{outcome:?}");
        assert_eq!(store.target_of(&id).await.unwrap().is_none(), outcome != OutStatus::Failed);
    }
}

#[tokio::test]
async fn a_letter_settles_what_lies_at_a_relay() {
    for (said, code) in [(OutStatus::Delivered, None), (OutStatus::Refused, Some(-32010))] {
        let (_folder, store) = fresh().await;
        let seq = queue(&store, 1, "a").await;
        store.record_at_relay(seq, RELAY, NOW, after(WEEK)).await.unwrap();
        store.commit_received(about(1, "word", "a", said, false)).await.unwrap();
        assert_eq!(status(&store, "a").await, (Some(said), code));
        assert!(outbox(&store).await.is_empty());
        assert_eq!(store.answer_to("a").await.unwrap(), None, "word of it is no answer");
        // The relay's receipt was slower than the peer.
        store.record_at_relay(seq, RELAY, NOW, after(WEEK)).await.unwrap();
        assert_eq!(status(&store, "a").await, (Some(said), code));
    }
}

#[tokio::test]
async fn an_answer_is_threaded_unread_and_comes_after_an_acknowledgement() {
    let (_folder, store) = fresh().await;
    queue(&store, 1, "a").await;
    let acknowledged = Answered {
        message_id: "ack".to_owned(),
        context_id: None,
        text: String::new(),
        timestamp: NOW,
        received: NOW,
        sig: None,
        is_verified: true,
        is_auto: true,
        digest: Some([4; 32]),
        extra: Some("{\"metadata\":{\"status\":\"accepted\"}}".to_owned()),
    };
    store.record_outcome(1, OutStatus::Delivered, Some(&acknowledged)).await.unwrap();
    assert_eq!(store.answer_to("a").await.unwrap(), None);
    let Committed::Stored { seq } =
        store.commit_received(about(1, "answer", "a", OutStatus::Delivered, true)).await.unwrap()
    else {
        panic!("new")
    };
    let answer = store.answer_to("a").await.unwrap().unwrap();
    assert_eq!((answer.seq, answer.is_unread, answer.text.as_str()), (seq, true, "text of answer"));
    // The first answer counts, whatever is said later.
    store.commit_received(about(1, "another", "a", OutStatus::Refused, true)).await.unwrap();
    assert_eq!(store.answer_to("a").await.unwrap().unwrap().seq, seq);
    assert_eq!(status(&store, "a").await, (Some(OutStatus::Delivered), None), "delivered is final");
}

#[tokio::test]
async fn nobody_settles_what_was_sent_to_somebody_else() {
    let (_folder, store) = fresh().await;
    queue(&store, 1, "a").await;
    for (n, is_answer) in [(0, true), (1, false)] {
        let forged = about(2, &format!("forged-{n}"), "a", OutStatus::Refused, is_answer);
        assert!(matches!(store.commit_received(forged).await.unwrap(), Committed::Stored { .. }));
    }
    assert_eq!(status(&store, "a").await, (Some(OutStatus::Queued), None));
    assert_eq!(store.answer_to("a").await.unwrap(), None);
    assert_eq!(outbox(&store).await.len(), 1);
    // Nor what was never sent, nor what arrived.
    for asked in ["unknown", "forged-0"] {
        let letter = about(2, &format!("about-{asked}"), asked, OutStatus::Delivered, true);
        assert!(matches!(store.commit_received(letter).await.unwrap(), Committed::Stored { .. }));
    }
}

#[tokio::test]
async fn a_reply_that_nobody_waits_for_is_written_with_its_message() {
    let (folder, store) = fresh().await;
    let by = ReplyBy { extra: None, relay: Some(RELAY.to_owned()), enc_pub: Some("ab".repeat(32)), expires: None };
    let letter = |n: u32| {
        let mut message = received(&did(n % 3), &format!("m{n}"));
        message.reply.as_mut().unwrap().is_auto = n.is_multiple_of(2);
        Received { reply_by: (n % 4 != 3).then(|| by.clone()), ..message }
    };
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let (store, message) = (store.clone(), letter(n));
            tokio::spawn(async move { store.commit_received(message).await.unwrap() })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(outbox(&store).await.len(), 150);
    assert_eq!(store.outbox(false).await.unwrap().len(), 50);
    // What is handled is handled with its reply, also for whoever opens the file next.
    store.close().await;
    let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
    let rows = outbox(&store).await;
    assert!(rows.is_sorted_by_key(|row| row.seq));
    let everything = Query { with_sent: true, with_auto: true, ..Query::default() };
    let messages = store.messages(&everything).await.unwrap();
    for row in &rows {
        let reply = messages.iter().find(|message| message.seq == row.seq).unwrap();
        assert_eq!((Some(&reply.message_id), reply.status), (Some(&row.message_id), None));
        assert_eq!(row.message_id, format!("re-{}", row.reply_to.as_deref().unwrap()));
        assert!(row.is_reply && row.keep.expires == after(WEEK) && row.status == OutStatus::Queued);
        assert_eq!(row.keep.relay.as_deref(), Some(RELAY));
    }
    // A copy makes no second reply.
    store.commit_received(letter(0)).await.unwrap();
    assert_eq!(outbox(&store).await.len(), 150);
}

#[tokio::test]
async fn a_reply_is_done_when_a_relay_has_it_and_says_when_it_ended_badly() {
    let (_folder, store) = fresh().await;
    for id in ["a", "b", "c", "d"] {
        let message = received(&did(1), id);
        store.commit_received(Received { reply_by: Some(ReplyBy::default()), ..message }).await.unwrap();
    }
    let seqs: Vec<i64> = outbox(&store).await.into_iter().map(|row| row.seq).collect();
    assert_eq!(store.take_outgoing("re-a", after(9)).await.unwrap().unwrap().seq, seqs[0]);
    store.record_at_relay(seqs[0], RELAY, NOW, after(WEEK)).await.unwrap();
    store.record_outcome(seqs[1], OutStatus::Delivered, None).await.unwrap();
    store.record_refused(seqs[2], -32003).await.unwrap();
    assert_eq!(store.drop_outgoing("re-d").await.unwrap().unwrap().seq, seqs[3]);
    assert!(outbox(&store).await.is_empty());
    assert!(store.outgoing("re-a").await.unwrap().is_none(), "a reply has no status while all is well");
    assert!(store.outgoing("re-b").await.unwrap().is_none());
    assert_eq!(status(&store, "re-c").await, (Some(OutStatus::Refused), Some(-32003)));
    assert_eq!(status(&store, "re-d").await, (Some(OutStatus::Failed), None));
}

#[tokio::test]
async fn a_notice_is_done_when_a_relay_has_it() {
    let (_folder, store) = fresh().await;
    let seq = store.queue_outgoing(&Outgoing { is_auto: true, ..outgoing(1, "n") }).await.unwrap();
    assert!(store.outbox(false).await.unwrap().is_empty());
    assert!(store.messages(&Query { with_sent: true, ..Query::default() }).await.unwrap().is_empty());
    store.record_at_relay(seq, RELAY, NOW, after(WEEK)).await.unwrap();
    assert!(outbox(&store).await.is_empty());
    assert_eq!(status(&store, "n").await, (Some(OutStatus::AtRelay), None));
}

#[tokio::test]
async fn what_is_dropped_has_failed_unless_a_relay_has_it() {
    let (_folder, store) = fresh().await;
    queue(&store, 1, "a").await;
    let seq = queue(&store, 1, "b").await;
    store.record_at_relay(seq, RELAY, NOW, after(WEEK)).await.unwrap();
    assert_eq!(store.take_outgoing("b", after(9)).await.unwrap(), None, "only what is queued is taken");
    assert_eq!(store.drop_outgoing("a").await.unwrap().unwrap().status, OutStatus::Queued);
    assert_eq!(store.drop_outgoing("b").await.unwrap().unwrap().status, OutStatus::AtRelay);
    assert_eq!(store.drop_outgoing("a").await.unwrap(), None);
    assert_eq!(status(&store, "a").await.0, Some(OutStatus::Failed));
    assert_eq!(status(&store, "b").await.0, Some(OutStatus::AtRelay));
    // It may be delivered all the same.
    store.commit_received(about(1, "word", "b", OutStatus::Delivered, false)).await.unwrap();
    assert_eq!(status(&store, "b").await.0, Some(OutStatus::Delivered));
}

#[tokio::test]
async fn a_message_goes_back_into_the_outbox_when_it_is_sent_again() {
    let (_folder, store) = fresh().await;
    let seq = queue(&store, 1, "a").await;
    store.drop_outgoing("a").await.unwrap();
    let kept = Keep { lease: Some(after(900)), expires: after(2 * WEEK), ..keep() };
    assert!(store.requeue_outgoing(seq, after(800), None, Some(&kept)).await.unwrap());
    let row = outbox(&store).await.remove(0);
    assert_eq!((row.keep.expires, row.due, row.attempts), (after(2 * WEEK), after(900), 0));
    // A row that is there stays as it is.
    store.postpone_outgoing(seq, after(900), "no").await.unwrap();
    let other = Keep { extra: None, via: Some("http".to_owned()), ..kept.clone() };
    assert!(store.requeue_outgoing(seq, after(801), None, Some(&other)).await.unwrap());
    let row = outbox(&store).await.remove(0);
    assert_eq!((row.keep.extra.as_deref(), row.keep.via, row.attempts), (Some("{\"a\":1}"), None, 1));
    // What lies at a relay still does.
    store.record_at_relay(seq, RELAY, NOW, after(WEEK)).await.unwrap();
    assert!(store.requeue_outgoing(seq, after(802), None, Some(&other)).await.unwrap());
    assert_eq!(status(&store, "a").await.0, Some(OutStatus::AtRelay));
    store.postpone_outgoing(seq, after(803), "no").await.unwrap();
    assert_eq!(outbox(&store).await[0].due, after(WEEK));
    store.record_refused(seq, -1).await.unwrap();
    assert!(!store.requeue_outgoing(seq, after(803), None, Some(&other)).await.unwrap());
}

#[tokio::test]
async fn others_for_a_peer_wait_behind_one_that_did_not_get_through() {
    let (_folder, store) = fresh().await;
    let mut seqs = Vec::new();
    for id in ["a", "b", "c"] {
        seqs.push(queue(&store, 1, id).await);
    }
    queue(&store, 2, "other").await;
    assert_eq!(taken(&store, NOW).await, ["a", "b", "c", "other"]);
    let late = queue(&store, 1, "d").await;
    store.postpone_outgoing(seqs[0], after(30), "no").await.unwrap();
    store.put_off_behind(seqs[0], did(1).as_str(), &seqs[1..], NOW).await.unwrap();
    assert!(taken(&store, after(29)).await.is_empty());
    assert_eq!(taken(&store, after(30)).await, ["a", "b", "c", "d"]);
    assert_eq!(taken(&store, after(60)).await, ["other"], "what is somebody's is left alone");
    // It was not their failure.
    assert!(outbox(&store).await.iter().all(|row| row.attempts == u32::from(row.message_id == "a")));
    // The peer is there: those that wait are due.
    store.postpone_outgoing(late, after(3_600), "no").await.unwrap();
    assert!(store.hasten_outgoing(did(1).as_str(), after(70)).await.unwrap());
    assert_eq!(taken(&store, after(70)).await, ["d"]);
    // Without its leader the rest waits a little.
    let seq = queue(&store, 3, "gone").await;
    store.drop_outgoing("gone").await.unwrap();
    queue(&store, 3, "behind").await;
    store.put_off_behind(seq, did(3).as_str(), &[], after(100)).await.unwrap();
    let row = store.outbox_row("behind").await.unwrap().unwrap();
    assert_eq!((row.due, store.is_queued(row.seq).await.unwrap()), (after(130), true));
}

#[tokio::test]
async fn whoever_is_blocked_gets_nothing_more() {
    let (_folder, store) = fresh().await;
    connect(&store, &did(1), "south").await;
    let seq = queue(&store, 1, "at relay").await;
    store.record_at_relay(seq, RELAY, NOW, after(WEEK)).await.unwrap();
    queue(&store, 1, "queued").await;
    queue(&store, 2, "to another").await;
    store.set_blocked(&did(1), true, NOW).await.unwrap();
    assert_eq!(status(&store, "queued").await.0, Some(OutStatus::Failed));
    assert_eq!(status(&store, "at relay").await.0, Some(OutStatus::AtRelay));
    assert_eq!(taken(&store, NOW).await, ["to another"]);
    // The owner may still write to it, and a removed contact's messages are kept.
    queue(&store, 1, "all the same").await;
    store.remove_contact(&did(1)).await.unwrap();
    assert_eq!(taken(&store, after(1)).await, ["all the same"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_never_have_one_message_at_the_same_time() {
    let (folder, store) = fresh().await;
    let other = Store::open(&folder.path().join("agent.db")).await.unwrap();
    for n in 0..120 {
        queue(&store, n % 7, &format!("m{n}")).await;
    }
    let take = |store: Store| async move {
        let mut seqs = Vec::new();
        loop {
            let rows = store.take_outbox(NOW, after(60), 5).await.unwrap();
            if rows.is_empty() {
                return seqs;
            }
            assert!(rows.is_sorted_by_key(|row| row.seq));
            seqs.extend(rows.into_iter().map(|row| row.seq));
        }
    };
    let (mine, theirs) = tokio::join!(tokio::spawn(take(store.clone())), tokio::spawn(take(other)));
    let mut all = [mine.unwrap(), theirs.unwrap()].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 120);
}

#[tokio::test]
async fn refused_letters_are_kept_and_bounded() {
    let (_folder, store) = fresh().await;
    let letter = |n: u64| RejectedLetter {
        received: NOW,
        relay: RELAY.to_owned(),
        from: did(1).to_string(),
        id: format!("d{n}"),
        reason: if n == 2 { "é".repeat(9_000) } else { "does not open".to_owned() },
        code: (n == 1).then_some(-32001),
        bytes: n,
    };
    for n in 0..505 {
        store.add_rejected(&letter(n)).await.unwrap();
        if n == 2 {
            let kept = store.rejected(2).await.unwrap();
            assert_eq!(kept, [letter(1), RejectedLetter { reason: "é".repeat(512), ..letter(2) }]);
        }
    }
    let kept = store.rejected(u32::MAX).await.unwrap();
    assert_eq!((kept.len(), kept[0].id.as_str(), kept[499].id.as_str()), (500, "d5", "d504"));
    assert_eq!(store.rejected(1).await.unwrap()[0].id, "d504");
}

#[tokio::test]
async fn what_strangers_have_refused_pushes_out_nothing_of_contacts() {
    let (_folder, store) = fresh().await;
    connect(&store, &did(1), "north").await;
    let letter = |from: String, n: u64| RejectedLetter {
        received: NOW,
        relay: RELAY.to_owned(),
        from,
        id: format!("d{n}"),
        reason: "does not open".to_owned(),
        code: None,
        bytes: n,
    };
    for n in 0..3 {
        store.add_rejected(&letter(did(1).to_string(), n)).await.unwrap();
    }
    for n in 3..600 {
        store.add_rejected(&letter(format!("stranger {n}"), n)).await.unwrap();
    }
    let ids = async || -> Vec<String> {
        store.rejected(u32::MAX).await.unwrap().into_iter().map(|letter| letter.id).collect()
    };
    let kept = ids().await;
    assert_eq!((kept.len(), &kept[..4]), (503, &["d0", "d1", "d2", "d100"].map(str::to_owned)[..]));
    for n in 600..1_200 {
        store.add_rejected(&letter(did(1).to_string(), n)).await.unwrap();
    }
    let kept = ids().await;
    assert_eq!((kept.len(), kept[0].as_str(), kept[499].as_str(), kept[500].as_str()), (1_000, "d100", "d599", "d700"));
}

#[tokio::test]
async fn a_message_that_is_not_kept_is_not_in_the_outbox() {
    let (_folder, store) = fresh().await;
    let seq = store.queue_outgoing(&Outgoing { keep: None, ..outgoing(1, "a") }).await.unwrap();
    assert!(outbox(&store).await.is_empty());
    store.record_at_relay(seq, RELAY, NOW, after(WEEK)).await.unwrap();
    assert_eq!(status(&store, "a").await.0, Some(OutStatus::AtRelay));
    assert!(outbox(&store).await.is_empty());
    assert!(matches!(store.drop_outgoing("a").await, Ok(None)));
    store.close().await;
    assert!(matches!(store.outbox(true).await, Err(StoreError::Closed)));
}
