//! Synchronous calls and their answers.
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::testing::listening;

/// Polls, answers what waits, and acknowledges it.
async fn answers(rig: &Rig, blob: &str) -> Answer {
    let polled = rig.listen(2, "1", 25).await;
    let batch = muretai_protocol::relay::Batch::read(&polled.body).unwrap();
    let item = batch.items[0].as_ref().unwrap();
    assert!(item.waits);
    let replied = rig.reply(2, "1", &item.qid, blob).await;
    assert_eq!(rig.ack(2, "1", &[&item.qid]).await.status, 200);
    replied
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_one_who_does_not_listen() {
    let rig = Rig::new();
    let started = Instant::now();
    let answer = rig.post("/rpc", deposit(1, 2, "a").to_json()).await;
    assert_eq!(text(&answer), r#"{"id":"a","queued":true}"#);
    assert!(started.elapsed().is_zero());
    assert!(!rig.store.is_awaited(1));
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_back_at_once() {
    let rig = Rig::new();
    let (replied, called) = tokio::join!(answers(&rig, "QUJD"), async {
        listening(&rig, 2).await;
        rig.post("/rpc", deposit(1, 2, "a").to_json()).await
    });
    assert_eq!(text(&called), r#"{"id":"a","queued":true,"reply":"QUJD"}"#);
    assert_eq!(text(&replied), r#"{"delivered":true}"#);
    assert_eq!(rig.shared.calls.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_finds_its_way_to_another_process() {
    let store = Memory::new(Quotas::default());
    let (here, there) = (Rig::on(store.clone(), Bounds::default()), Rig::on(store, Bounds::default()));
    let (replied, called) = tokio::join!(answers(&here, "QUJD"), async {
        listening(&here, 2).await;
        here.store.set_online(&[(key(2).did().clone(), true)], UnixSeconds(NOW)).await.unwrap();
        there.post("/rpc", deposit(1, 2, "a").to_json()).await
    });
    assert_eq!(text(&called), r#"{"id":"a","queued":true,"reply":"QUJD"}"#);
    assert_eq!(text(&replied), r#"{"delivered":true}"#);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_with_the_letter_kept() {
    let rig = Rig::new();
    let started = Instant::now();
    let (polled, called) = tokio::join!(rig.listen(2, "1", 25), async {
        listening(&rig, 2).await;
        rig.post("/rpc", deposit(1, 2, "a").to_json()).await
    });
    assert_eq!(ids(&polled), ["a"]);
    assert_eq!(text(&called), r#"{"id":"a","queued":true}"#);
    assert_eq!(started.elapsed().as_secs(), 25);
    rig.clock.fetch_add(25, Ordering::SeqCst);
    assert_eq!(text(&rig.reply(2, "1", "1", "QUJD").await), r#"{"delivered":false}"#, "too late");
    assert_eq!(rig.store.letters(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_who_goes_away_loses_nothing_and_is_not_answered() {
    let rig = Rig::new();
    let (polled, ()) = tokio::join!(rig.listen(2, "1", 25), async {
        listening(&rig, 2).await;
        let call = rig.post("/rpc", deposit(1, 2, "a").to_json());
        tokio::time::timeout(Duration::from_secs(1), call).await.unwrap_err();
    });
    assert_eq!(ids(&polled), ["a"]);
    assert_eq!(rig.shared.calls.count(), 0);
    while rig.store.is_awaited(1) {
        tokio::task::yield_now().await;
    }
    assert_eq!(text(&rig.reply(2, "1", "1", "QUJD").await), r#"{"delivered":false}"#);
}

#[tokio::test(start_paused = true)]
async fn only_the_owner_of_the_mailbox_answers() {
    let rig = Rig::new();
    let call = async {
        listening(&rig, 2).await;
        rig.post("/rpc", deposit(1, 2, "a").to_json()).await
    };
    let answers = async {
        assert_eq!(ids(&rig.listen(2, "1", 25).await), ["a"]);
        assert_eq!(text(&rig.reply(3, "1", "1", "QUJD").await), r#"{"delivered":false}"#);
        assert_eq!(text(&rig.reply(2, "1", "9", "QUJD").await), r#"{"delivered":false}"#);
        assert_eq!(text(&rig.reply(2, "1", "what?", "QUJD").await), r#"{"delivered":false}"#);
        for blob in ["", "AAA", "A A="] {
            assert_eq!(rig.reply(2, "1", "1", blob).await.status, 400);
        }
        assert_eq!(text(&rig.reply(2, "1", "1", "WFla").await), r#"{"delivered":true}"#);
    };
    let (called, ()) = tokio::join!(call, answers);
    assert!(text(&called).contains("WFla"));
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_are_bounded_and_end_with_the_relay() {
    let rig = Rig::with(Bounds { max_rpc_waiting: 1, ..Bounds::default() }, Quotas::default());
    let started = Instant::now();
    let first = async {
        listening(&rig, 2).await;
        rig.post("/rpc", deposit(1, 2, "a").to_json()).await
    };
    let second = async {
        while rig.shared.calls.count() == 0 {
            tokio::task::yield_now().await;
        }
        let second = rig.post("/rpc", deposit(1, 2, "b").to_json()).await;
        rig.stop.stop();
        second
    };
    let (_, first, second) = tokio::join!(rig.listen(2, "1", 25), first, second);
    assert!(started.elapsed().is_zero(), "the second is over at once, the first with the relay");
    assert_eq!(text(&second), r#"{"id":"b","queued":true}"#);
    assert_eq!(text(&first), r#"{"id":"a","queued":true}"#);
}
