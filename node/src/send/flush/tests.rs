use std::sync::Mutex;

use muretai_protocol::message::Role;
use muretai_store::messages::{Outgoing, Query, Received, Reply, ReplyBy};

use super::*;
use crate::{
    send::{
        SentStatus,
        delivery::tests::{mailbox, move_to, request},
        notice::Notice,
    },
    testing::{
        Act, Fake, Owned, agent, befriend, key,
        relay::{letter, queued, relay_refusal, sealing},
        reply_to, result,
    },
};

fn flush(message_id: Option<&str>) -> FlushRequest {
    let message_id = message_id.map(str::to_owned);
    FlushRequest { message_id, timeout: Duration::from_secs(20), allow_private: false }
}

async fn outbox(owned: &Owned) -> Vec<OutboxRow> {
    owned.agent.store().outbox(true).await.unwrap()
}

/// A letter that came from `from`, and whose reply nobody waits for.
async fn came(owned: &Owned, from: u8, id: &str, by: ReplyBy) {
    let letter = Received {
        from: key(from).did().clone(),
        message_id: id.to_owned(),
        context_id: Some("talk".to_owned()),
        reply_to: None,
        text: "hello".to_owned(),
        timestamp: now(),
        received: now(),
        digest: [1; 32],
        sig: "c2ln".to_owned(),
        extra: None,
        is_auto: false,
        reply: Some(Reply {
            message_id: format!("re-{id}"),
            text: format!("re {id}"),
            timestamp: now(),
            sig: "c2ln".to_owned(),
            is_auto: false,
        }),
        reply_by: Some(by),
        settles: None,
    };
    owned.agent.store().commit_received(letter).await.unwrap();
}

#[tokio::test]
async fn replies_go_to_where_the_contact_is_in_the_order_of_their_letters() {
    let (north, relay) = mailbox(None, |_, _| queued()).await;
    for n in 0..30 {
        came(&north, 2, &format!("m{n}"), ReplyBy::default()).await;
    }
    assert_eq!(north.agent.run_outbox().await, 30);
    let seen = relay.seen();
    let ids: Vec<_> = seen.iter().map(|seen| letter(seen, 2).request.message_id()).collect();
    assert_eq!(ids, (0..30).map(|n| format!("re-m{n}")).collect::<Vec<_>>());
    assert!(seen.iter().all(|seen| seen.path == "/send"), "nobody waits");
    let message = letter(&seen[7], 2).request.message();
    let member = |value: &Value, key: &str| value.member(key).and_then(Value::as_str).map(str::to_owned);
    assert_eq!(member(&message, "role").as_deref(), Some(Role::Agent.as_str()));
    assert_eq!(member(&message, "contextId").as_deref(), Some("talk"));
    assert_eq!(member(message.member("metadata").unwrap(), "replyTo").as_deref(), Some("m7"));
    assert!(outbox(&north).await.is_empty());
}

#[tokio::test]
async fn a_reply_to_a_stranger_goes_back_through_the_relay_of_its_letter() {
    let north = agent("north").await;
    let relay = Fake::start(|_, _, _| queued()).await;
    north.agent.configure_relays(vec![relay.url.clone()]);
    let by = ReplyBy {
        extra: Some(r#"{"auto":true,"status":"accepted"}"#.to_owned()),
        relay: Some(relay.url.clone()),
        enc_pub: Some(sealing(5).enc_pub()),
        expires: None,
    };
    came(&north, 5, "m", by).await;
    assert_eq!(north.agent.run_outbox().await, 1);
    let metadata = letter(&relay.seen()[0], 5).request.message().member("metadata").unwrap().clone();
    assert_eq!(metadata.member("auto").and_then(Value::as_bool), Some(true));
    assert_eq!(metadata.member("status").and_then(Value::as_str), Some("accepted"));
}

#[tokio::test]
async fn a_reply_that_is_taken_directly_leaves_nothing_behind() {
    let north = agent("north").await;
    let south = Fake::start(|_, seen, _| result(&reply_to(seen, "").sign(&key(2)))).await;
    befriend(&north.agent, key(2).did(), Some(&south.url)).await;
    came(&north, 2, "m", ReplyBy::default()).await;
    assert_eq!(north.agent.run_outbox().await, 1);
    assert_eq!(south.posts()[0].message_id(), "re-m");
    let all = Query { with_sent: true, with_auto: true, ..Query::default() };
    assert_eq!(north.agent.store().messages(&all).await.unwrap().len(), 2, "no reply to the reply");
    assert!(outbox(&north).await.is_empty());
}

#[tokio::test]
async fn a_peer_that_is_not_there_is_asked_once_and_harms_nobody_else() {
    let (north, relay) = mailbox(None, |_, _| relay_refusal(429, "", "full")).await;
    let west = Fake::start(|_, _, _| queued()).await;
    north.agent.configure_relays(vec![west.url.clone()]);
    let by = ReplyBy { relay: Some(west.url.clone()), enc_pub: Some(sealing(5).enc_pub()), ..ReplyBy::default() };
    for n in 0..5 {
        came(&north, 2, &format!("m{n}"), ReplyBy::default()).await;
        came(&north, 5, &format!("w{n}"), by.clone()).await;
    }
    assert_eq!(north.agent.run_outbox().await, 5);
    assert_eq!((relay.seen().len(), west.seen().len()), (1, 5));
    let rows = outbox(&north).await;
    assert_eq!(rows.len(), 5);
    assert!(rows.iter().all(|row| row.due == rows[0].due && row.due > now()), "they wait together");
    assert_eq!(rows.iter().map(|row| row.attempts).collect::<Vec<_>>(), [1, 0, 0, 0, 0]);
    assert!(rows[0].last_error.as_ref().unwrap().contains("full"));
    assert_eq!(north.agent.run_outbox().await, 0);
    assert_eq!(relay.seen().len(), 1);
}

#[tokio::test]
async fn flushing_tries_what_is_not_due_and_tells_each_outcome() {
    let (north, relay) = mailbox(None, |_, number| match number {
        0..=2 => relay_refusal(503, "", "later"),
        _ => queued(),
    })
    .await;
    for _ in 0..3 {
        north.agent.send(&request("south")).await.unwrap_err();
    }
    assert_eq!(north.agent.run_outbox().await, 0, "nothing is due yet");
    let told = Mutex::new(Vec::new());
    let tell = |outcome: &FlushOutcome| told.lock().unwrap().push(outcome.row.seq);
    let outcomes = north.agent.flush_outbox(&flush(None), &tell).await.unwrap();
    assert_eq!((outcomes.len(), told.lock().unwrap().len(), relay.seen().len()), (3, 3, 6));
    for outcome in &outcomes {
        assert_eq!(outcome.result.as_ref().unwrap().status, SentStatus::AtRelay);
        assert!(!outcome.is_kept);
    }
    assert!(outcomes.is_sorted_by_key(|outcome| outcome.row.seq));
    // What lies at a relay is not flushed.
    assert!(north.agent.flush_outbox(&flush(None), &|_| ()).await.unwrap().is_empty());
    let id = outcomes[0].row.message_id.as_str();
    let error = north.agent.flush_outbox(&flush(Some(id)), &|_| ()).await.unwrap_err();
    assert!(matches!(error, SendError::NotResendable { why: "it lies at a relay", .. }), "{error:?}");
    let error = north.agent.flush_outbox(&flush(Some("unknown")), &|_| ()).await.unwrap_err();
    assert!(matches!(error, SendError::NoSuchMessage(_)), "{error:?}");
}

#[tokio::test]
async fn flushing_stops_at_a_peer_that_is_not_there() {
    let (north, relay) = mailbox(None, |_, _| relay_refusal(503, "", "later")).await;
    for _ in 0..3 {
        north.agent.send(&request("south")).await.unwrap_err();
    }
    let outcomes = north.agent.flush_outbox(&flush(None), &|_| ()).await.unwrap();
    assert_eq!((outcomes.len(), relay.seen().len()), (3, 3 + 1), "one is tried");
    assert!(outcomes.iter().all(|outcome| outcome.is_kept));
    assert!(matches!(outcomes[0].result, Err(SendError::Transport { .. })), "{:?}", outcomes[0].result);
    assert!(matches!(outcomes[2].result, Err(SendError::NotTried { .. })), "{:?}", outcomes[2].result);
}

#[tokio::test]
async fn a_message_that_gets_through_brings_those_that_wait_with_it() {
    let (north, relay) = mailbox(None, |_, number| match number {
        0 => relay_refusal(503, "", "later"),
        _ => queued(),
    })
    .await;
    let first = north.agent.send(&request("south")).await.unwrap_err().message_id().unwrap().to_owned();
    north.agent.send(&request("south")).await.unwrap();
    assert_eq!(north.agent.run_outbox().await, 1);
    assert_eq!(letter(&relay.seen()[2], 2).request.message_id(), first);
}

#[tokio::test]
async fn what_is_dropped_is_not_sent() {
    let (north, relay) = mailbox(None, |_, _| Act::Drop).await;
    let id = north.agent.send(&request("south")).await.unwrap_err().message_id().unwrap().to_owned();
    assert_eq!(north.agent.drop_outgoing(&format!(" {id}\n")).await.unwrap().message_id, id);
    assert!(matches!(north.agent.drop_outgoing(&id).await, Err(SendError::NoSuchMessage(_))));
    let seen = relay.seen().len();
    assert!(north.agent.flush_outbox(&flush(None), &|_| ()).await.unwrap().is_empty());
    assert_eq!(relay.seen().len(), seen);
    assert_eq!(north.agent.store().outgoing(&id).await.unwrap().unwrap().status, Some(OutStatus::Failed));
}

#[tokio::test]
async fn a_contact_without_an_address_keeps_its_messages_and_is_not_asked_again_and_again() {
    let (north, relay) = mailbox(None, |_, _| relay_refusal(503, "", "later")).await;
    let id = north.agent.send(&request("south")).await.unwrap_err().message_id().unwrap().to_owned();
    north.agent.store().remove_contact(key(2).did()).await.unwrap();
    let outcomes = north.agent.flush_outbox(&flush(Some(&id)), &|_| ()).await.unwrap();
    assert!(matches!(outcomes[0].result, Err(SendError::NoAddress { .. })), "{:?}", outcomes[0].result);
    let row = outbox(&north).await.remove(0);
    assert!(row.last_error.unwrap().contains("no address is known"));
    assert!(row.due > now() && outcomes[0].is_kept);
    assert_eq!((north.agent.run_outbox().await, relay.seen().len()), (0, 1));
    // It is a contact again.
    let relay = Fake::start(|_, _, _| queued()).await;
    befriend(&north.agent, key(2).did(), None).await;
    move_to(&north, Some(&relay.url)).await;
    let outcomes = north.agent.flush_outbox(&flush(None), &|_| ()).await.unwrap();
    assert_eq!(outcomes[0].result.as_ref().unwrap().status, SentStatus::AtRelay);
}

#[tokio::test]
async fn a_notice_is_left_for_whoever_sends_the_outbox() {
    let (north, relay) = mailbox(None, |_, _| queued()).await;
    let notice = Notice {
        to: key(2).did().clone(),
        status: "refused",
        text: "refused -32010: no".to_owned(),
        reply_to: Some("m".to_owned()),
        context_id: None,
        extra: Object::from([("code".to_owned(), (-32010).into())]),
        fallback: None,
    };
    let id = north.agent.leave_notice(notice).await.unwrap();
    north.agent.outbox_written().notified().await;
    assert_eq!(north.agent.run_outbox().await, 1);
    let request = letter(&relay.seen()[0], 2).request;
    assert_eq!((relay.seen()[0].path.as_str(), request.message_id()), ("/send", id));
    let metadata = request.message().member("metadata").unwrap().clone();
    assert_eq!(metadata.member("auto").and_then(Value::as_bool), Some(true));
    assert_eq!(metadata.member("status").and_then(Value::as_str), Some("refused"));
    assert_eq!(metadata.member("replyTo").and_then(Value::as_str), Some("m"));
    assert_eq!(metadata.member("code").and_then(Value::as_i64), Some(-32010));
    assert!(outbox(&north).await.is_empty());
}

#[tokio::test]
async fn what_is_over_is_not_sent() {
    let (north, relay) = mailbox(None, |_, _| queued()).await;
    let long_ago = UnixSeconds(now().0 - 2 * backoff::LIFE_SECS);
    let outgoing = Outgoing {
        peer: key(2).did().to_string(),
        message_id: "m".to_owned(),
        context_id: None,
        reply_to: None,
        text: "hello".to_owned(),
        timestamp: long_ago,
        sig: None,
        target: None,
        is_auto: false,
        keep: Some(muretai_store::outbox::Keep {
            expires: UnixSeconds(long_ago.0 + backoff::LIFE_SECS),
            via: None,
            allow_private: false,
            extra: None,
            relay: None,
            enc_pub: None,
            lease: None,
        }),
    };
    north.agent.store().queue_outgoing(&outgoing).await.unwrap();
    assert_eq!((north.agent.run_outbox().await, relay.seen().len()), (0, 0));
    assert_eq!(north.agent.store().outgoing("m").await.unwrap().unwrap().status, Some(OutStatus::Expired));
    // Its owner may still say otherwise.
    let again = crate::send::ResendRequest {
        message_id: "m".to_owned(),
        timeout: Duration::from_secs(20),
        retries: 0,
        allow_private: false,
    };
    assert_eq!(north.agent.resend(&again).await.unwrap().status, SentStatus::AtRelay);
}

#[tokio::test]
async fn whoever_flushes_sees_each_row_as_it_is_then() {
    let (north, _relay) = mailbox(None, |seen, number| match number {
        0 | 1 => relay_refusal(503, "Retry-After: 700\r\n", "no room"),
        2 => queued(),
        _ => panic!("{}", seen.path),
    })
    .await;
    let id = north.agent.send(&request("south")).await.unwrap_err().message_id().unwrap().to_owned();
    let before = outbox(&north).await.remove(0);
    assert_eq!((before.attempts, before.due.0 - now().0 > 600), (1, true));
    let kept = north.agent.flush_outbox(&flush(None), &|_| ()).await.unwrap().remove(0);
    assert!(kept.is_kept);
    assert_eq!((&kept.row, kept.row.attempts), (&outbox(&north).await[0], 2));
    assert!(kept.row.last_error.as_ref().unwrap().contains("no room"));
    let left = north.agent.flush_outbox(&flush(Some(&id)), &|_| ()).await.unwrap().remove(0);
    assert_eq!((left.row.status, left.row.attempts), (OutStatus::AtRelay, 3));
    assert_eq!(outbox(&north).await, [left.row]);
}

#[tokio::test]
async fn a_notice_is_done_once_a_relay_has_it() {
    let (north, _relay) = mailbox(None, |_, _| queued()).await;
    let sent = north.agent.send_notice(&request("south"), "greeting").await.unwrap();
    assert_eq!(sent.status, SentStatus::AtRelay);
    assert!(outbox(&north).await.is_empty(), "nobody says anything about it");
    assert!(north.agent.mailboxes().await.unwrap().is_empty(), "so no reply is waited for either");
    assert!(north.agent.store().messages(&Query::default()).await.unwrap().is_empty(), "it is no conversation");
    let (north, _relay) = mailbox(None, |_, _| relay_refusal(503, "", "no room")).await;
    north.agent.send_notice(&request("south"), "greeting").await.unwrap_err();
    let row = outbox(&north).await.remove(0);
    assert!(row.is_auto && north.agent.store().outbox(false).await.unwrap().is_empty());
    let extra = extra_of(&row);
    assert_eq!(extra.get("status").and_then(Value::as_str), Some("greeting"), "kept for the next attempt");
}
