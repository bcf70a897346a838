//! Deposits, polls, acknowledgements.
use std::time::Duration;

use super::*;
use crate::testing::listening;

const NONE: [&str; 0] = [];

fn with(deposit: &Deposit, member: &str, value: Value) -> String {
    let mut body = json::parse(deposit.to_json().as_bytes()).unwrap().as_object().unwrap().clone();
    body.insert(member.to_owned(), value);
    Value::from(body).to_json()
}

#[tokio::test]
async fn a_letter_waits_until_it_is_acknowledged() {
    let rig = Rig::new();
    rig.send(1, 2, "a").await;
    rig.send(3, 2, "b").await;
    rig.send(1, 3, "c").await;
    let polled = rig.listen(2, "1", 0).await;
    assert_eq!(ids(&polled), ["a", "b"]);
    let item = &muretai_protocol::relay::Batch::read(&polled.body).unwrap().items[0];
    let item = item.as_ref().unwrap();
    assert_eq!((item.from.as_str(), item.ts, item.waits), (key(1).did().as_str(), NOW, false));
    assert_eq!(item.from_enc.as_deref(), Some("ab".repeat(32).as_str()));
    assert_eq!(text(&rig.ack(2, "1", &["1", "3", "77", "none of ours"]).await), r#"{"acked":1}"#, "c is another's");
    assert_eq!(text(&rig.ack(2, "1", &["2"]).await), r#"{"acked":1}"#);
    assert_eq!(text(&rig.ack(2, "1", &[]).await), r#"{"acked":0}"#);
    assert_eq!(ids(&rig.listen(2, "1", 0).await), NONE);
    assert_eq!(rig.store.letters(), 1);
}

#[tokio::test]
async fn deposits_of_a_wrong_shape_are_refused_with_words() {
    let rig = Rig::new();
    let good = deposit(1, 2, "a");
    for (body, words) in [
        ("{".to_owned(), "not JSON"),
        ("[]".to_owned(), "`to`"),
        (with(&good, "id", "a|b".into()), "`|`"),
        (with(&good, "id", "".into()), "`id`"),
        (with(&good, "to", "did:key:z6Mk|x".into()), "`to`"),
        (with(&good, "from", 7.into()), "`from`"),
        (with(&good, "blob", "".into()), "not empty"),
        (with(&good, "blob", "AAA".into()), "base64"),
        (with(&good, "blob", "AA==\n".into()), "base64"),
        (with(&good, "from_enc", "abc".into()), "hex"),
        (with(&good, "sig", Value::Null), "`sig`"),
    ] {
        for path in ["/send", "/rpc"] {
            let answer = rig.post(path, body.clone()).await;
            assert_eq!(refusal(&answer), (400, -32_602, String::new()), "{body}");
            assert!(text(&answer).contains(words), "{body}: {}", text(&answer));
        }
    }
    assert_eq!(rig.store.letters(), 0);
}

#[tokio::test]
async fn deposits_that_another_key_signed_are_refused() {
    let rig = Rig::new();
    let good = deposit(1, 2, "a");
    let other = deposit(3, 2, "a");
    for body in [
        with(&good, "sig", other.sig.as_str().into()),
        with(&good, "from", other.from.as_str().into()),
        with(&good, "to", key(4).did().as_str().into()),
        with(&good, "blob", "AAAB".into()),
        with(&good, "id", "b".into()),
        with(&good, "sig", "".into()),
    ] {
        assert_eq!(refusal(&rig.post("/send", body).await), (403, -32_001, String::new()));
    }
    assert_eq!(rig.store.letters(), 0);
    let hint = with(&good, "from_enc", "cd".repeat(32).into());
    assert_eq!(rig.post("/send", hint).await.status, 200, "the hint is not signed");
}

#[tokio::test]
async fn the_same_deposit_is_kept_once() {
    let rig = Rig::new();
    for _ in 0..3 {
        rig.send(1, 2, "a").await;
    }
    rig.send(3, 2, "a").await;
    assert_eq!(rig.store.letters(), 2, "the ids of two senders are two");
}

#[tokio::test]
async fn bounds_are_named_and_harm_nobody_else() {
    let quotas = Quotas { sender_letters: 2, mailbox_letters: 3, mailbox_bytes: 16, ..Quotas::default() };
    let rig = Rig::with(Bounds { deposits_per_minute: Some(9), ..Bounds::default() }, quotas);
    let over = async |from, to, id: &str, data: &str| {
        let answer = rig.post("/send", deposit(from, to, id).to_json()).await;
        assert_eq!(refusal(&answer), (429, -32_004, data.to_owned()));
        assert!(answer.retry_after.is_some_and(|secs| secs > 0));
    };
    rig.send(1, 2, "a").await;
    rig.send(1, 2, "b").await;
    over(1, 2, "c", r#"{"bound":"senderLetters","limit":2}"#).await;
    rig.send(1, 3, "c").await;
    rig.send(4, 2, "a").await;
    over(5, 2, "a", r#"{"bound":"mailboxLetters","limit":3}"#).await;
    let large = Deposit::sign(&key(5), key(6).did(), &"ab".repeat(32), "l", "AAAA".repeat(5));
    let answer = rig.post("/send", large.to_json()).await;
    assert_eq!(refusal(&answer).2, r#"{"bound":"mailboxBytes","limit":16}"#);
    for n in 0..5 {
        rig.send(1, 10 + n, "x").await;
    }
    over(1, 20, "y", r#"{"bound":"senderRate","limit":9}"#).await;
    rig.send(6, 20, "y").await;
    rig.clock.fetch_add(60, Ordering::SeqCst);
    rig.send(1, 20, "y").await;
}

#[tokio::test]
async fn a_full_relay_says_so() {
    let rig = Rig::with(Bounds::default(), Quotas { total_bytes: 6, ..Quotas::default() });
    rig.send(1, 2, "a").await;
    let answer = rig.post("/send", deposit(3, 4, "a").to_json()).await;
    assert_eq!(refusal(&answer).2, r#"{"bound":"totalBytes","limit":6}"#);
}

#[tokio::test]
async fn a_token_is_for_one_did_one_time_and_our_origins() {
    let rig = Rig::new();
    let (did, south) = (key(2).did().clone(), key(2));
    let target =
        |minute: i64, token: &str| format!("/listen?did={did}&minute={minute}&epoch=1&token={}&wait=0", escaped(token));
    let signed = |minute, origin| muretai_protocol::relay::listen_token(&south, minute, origin);
    let (minute, good) = token(2);
    let goods = [(minute, ORIGIN), (minute - 5, ORIGIN), (minute + 5, ORIGIN), (minute, "http://127.0.0.1:8421")];
    for (minute, origin) in goods {
        assert_eq!(rig.get(&target(minute, &signed(minute, origin))).await.status, 200);
    }
    for (minute, token) in [
        (minute - 6, signed(minute - 6, ORIGIN)),
        (minute + 6, signed(minute + 6, ORIGIN)),
        (minute + 1, good.clone()),
        (minute, signed(minute, "https://other.example")),
        (minute, signed(minute, "")),
        (minute, token(3).1),
        (minute, String::new()),
        (minute, good.replace('=', "")),
        (i64::MAX, signed(i64::MAX, ORIGIN)),
        (i64::MIN, signed(i64::MIN, ORIGIN)),
    ] {
        let answer = rig.get(&target(minute, &token)).await;
        assert_eq!(refusal(&answer), (401, -32_001, format!(r#"{{"now":{NOW}}}"#)));
    }
    for path in ["/ack", "/reply"] {
        let mut body = proof(2, "1");
        body[3].1 = "AAAA".into();
        body.extend([("qids", Value::Array(Vec::new())), ("qid", "1".into()), ("blob", "AAAA".into())]);
        assert_eq!(rig.post(path, object(body)).await.status, 401);
    }
}

#[tokio::test]
async fn listens_of_a_wrong_shape_are_refused() {
    let rig = Rig::new();
    let good = listen_target(2, "1", 0);
    for target in [
        "/listen".to_owned(),
        good.replace("did=", "dad="),
        good.replace("did:key:z", "did:web:z"),
        good.replace("minute=", "minute=x"),
        good.replace("epoch=1", "epoch="),
        good.replace("epoch=1", "epoch=a%20b"),
        good.replace("epoch=1", &format!("epoch={}", "9".repeat(65))),
        good.replace("wait=0", "wait=soon"),
        good.replace("wait=0", "wait=-1"),
        good.replace("wait=0", "wait=%zz"),
        format!("{good}&did=x"),
    ] {
        assert_eq!(refusal(&rig.get(&target).await), (400, -32_602, String::new()), "{target}");
    }
    let plus = good.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
    assert_eq!(rig.get(&plus).await.status, 200, "not escaped, and read all the same");
}

#[tokio::test]
async fn acks_of_a_wrong_shape_are_refused() {
    let rig = Rig::new();
    let with = |qids: Value| {
        let mut body = proof(2, "1");
        body.push(("qids", qids));
        object(body)
    };
    for body in [
        "nonsense".to_owned(),
        object(proof(2, "1")),
        with("1".into()),
        with(Value::Array(vec![Value::Null])),
        with(Value::Array(vec!["1".into(); 1_001])),
    ] {
        assert_eq!(rig.post("/ack", body).await.status, 400);
    }
    assert_eq!(rig.post("/ack", with(Value::Array(vec![7.into()]))).await.status, 200, "numbers are read");
}

#[tokio::test(start_paused = true)]
async fn a_letter_wakes_one_who_waits() {
    let rig = Rig::new();
    let started = tokio::time::Instant::now();
    let (polled, ()) = tokio::join!(rig.listen(2, "1", 25), async {
        listening(&rig, 2).await;
        rig.send(1, 2, "a").await;
    });
    assert_eq!(ids(&polled), ["a"]);
    assert!(started.elapsed().is_zero());
    assert_eq!(ids(&rig.listen(2, "1", 99).await), NONE, "it is in hand");
    assert_eq!(started.elapsed().as_secs(), 25, "nobody waits longer than the relay lets");
    let nothing = rig.listen(3, "1", 7).await;
    assert_eq!((text(&nothing).as_str(), started.elapsed().as_secs()), (r#"{"items":[],"more":false}"#, 32));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_acknowledged_comes_again_after_a_minute() {
    let rig = Rig::new();
    rig.send(1, 2, "a").await;
    let started = tokio::time::Instant::now();
    assert_eq!(ids(&rig.listen(2, "1", 0).await), ["a"]);
    assert_eq!(ids(&rig.listen(2, "1", 25).await), NONE);
    assert_eq!(ids(&rig.listen(2, "1", 25).await), NONE);
    assert_eq!(ids(&rig.listen(2, "1", 25).await), ["a"], "the same poll wakes for it");
    assert_eq!(started.elapsed().as_secs(), 60);
    assert_eq!(ids(&rig.listen(2, "2", 0).await), ["a"], "another listener has nothing in hand");
}

#[tokio::test]
async fn batches_are_bounded() {
    let bounds = Bounds { max_batch: (2, 10), ..Bounds::default() };
    let rig = Rig::with(bounds, Quotas::default());
    for id in ["a", "b", "c"] {
        rig.send(1, 2, id).await;
    }
    let first = rig.listen(2, "1", 0).await;
    assert_eq!(ids(&first), ["a", "b"]);
    assert!(text(&first).ends_with(r#""more":true}"#));
    let second = rig.listen(2, "1", 0).await;
    assert_eq!(ids(&second), ["c"]);
    assert!(text(&second).ends_with(r#""more":false}"#));
}

#[tokio::test(start_paused = true)]
async fn the_newest_listener_wins_and_the_others_hear_of_it() {
    let rig = Rig::new();
    let (old, new) = tokio::join!(rig.listen(2, "1", 25), async {
        listening(&rig, 2).await;
        rig.listen(2, "2", 0).await
    });
    assert_eq!(refusal(&old), (409, -32_030, String::new()));
    assert_eq!(new.status, 200);
    rig.send(1, 2, "a").await;
    assert_eq!(refusal(&rig.listen(2, "1", 25).await).0, 409);
    assert_eq!(refusal(&rig.ack(2, "1", &["1"]).await), (409, -32_030, String::new()));
    assert_eq!(refusal(&rig.reply(2, "1", "1", "AAAA").await).0, 409);
    assert_eq!(rig.store.letters(), 1);
    assert_eq!(rig.listen(3, "1", 0).await.status, 200, "epochs are each DID's own");
}

#[tokio::test(start_paused = true)]
async fn a_newer_listener_at_another_process_wins_too() {
    let store = Memory::new(Quotas::default());
    let (here, there) = (Rig::on(store.clone(), Bounds::default()), Rig::on(store.clone(), Bounds::default()));
    let (old, new) = tokio::join!(here.listen(2, "1", 25), async {
        listening(&here, 2).await;
        there.listen(2, "2", 0).await
    });
    assert_eq!((old.status, new.status), (409, 200));
    assert_eq!(here.listen(2, "1", 0).await.status, 409);
    let (woken, ()) = tokio::join!(here.listen(2, "3", 25), there.send(1, 2, "a"));
    assert_eq!(ids(&woken), ["a"], "a letter that was left there wakes one who waits here");
}

#[tokio::test(start_paused = true)]
async fn news_that_was_lost_is_asked_for_again() {
    let rig = Rig::new();
    let (old, ()) = tokio::join!(rig.listen(2, "1", 25), async {
        listening(&rig, 2).await;
        rig.store.claim_silently(key(2).did(), "2");
        rig.store.tell(&Event::Resync);
    });
    assert_eq!(old.status, 409);
}

#[tokio::test(start_paused = true)]
async fn a_second_poll_of_one_listener_ends_the_first() {
    let rig = Rig::new();
    let started = tokio::time::Instant::now();
    let (first, second) = tokio::join!(rig.listen(2, "1", 25), async {
        listening(&rig, 2).await;
        rig.listen(2, "1", 0).await
    });
    assert_eq!((ids(&first).len(), ids(&second).len()), (0, 0));
    assert!(started.elapsed().is_zero());
}

#[tokio::test(start_paused = true)]
async fn the_end_sends_those_who_wait_away_with_nothing() {
    let rig = Rig::new();
    let started = tokio::time::Instant::now();
    let (polled, ()) = tokio::join!(rig.listen(2, "1", 25), async {
        listening(&rig, 2).await;
        rig.stop.stop();
    });
    assert_eq!(ids(&polled), NONE);
    assert_eq!(ids(&rig.listen(3, "1", 25).await), NONE);
    assert!(started.elapsed().is_zero());
    crate::upkeep::end(&rig.shared).await;
    assert_eq!(rig.store.is_online(key(2).did()), Some(false));
}

#[tokio::test(start_paused = true)]
async fn polling_writes_nothing_while_nothing_changes() {
    let rig = Rig::new();
    for _ in 0..20 {
        rig.listen(2, "1", 5).await;
    }
    assert_eq!(rig.store.online_writes(), 1);
    tokio::time::advance(Duration::from_secs(70)).await;
    while rig.store.is_online(key(2).did()) == Some(true) {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.store.online_writes(), 2);
}
