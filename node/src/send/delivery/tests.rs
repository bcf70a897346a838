use muretai_protocol::{json::Value, relay::deposit_id};
use muretai_store::{
    contacts::{CoordinateSource, Coordinates},
    messages::{Query, Received, Settles},
};

use super::*;
use crate::{
    Fault,
    send::{ResendRequest, Word},
    testing::{
        Act, Fake, Owned, Seen, agent, befriend, key, refusal,
        relay::{Letter, answered, letter, queued, relay_refusal, sealing},
        reply_to, result,
    },
};

pub(crate) fn request(target: &str) -> SendRequest {
    SendRequest {
        target: target.to_owned(),
        text: "hello".to_owned(),
        context_id: Some("talk".to_owned()),
        reply_to: None,
        timeout: Duration::from_secs(20),
        retries: 0,
        unverified: false,
        allow_private: false,
        via: None,
    }
}

/// North, who knows south's mailbox at a relay that does what `act` says, and south's address when there is one.
pub(in crate::send) async fn mailbox(
    url: Option<&str>,
    act: impl Fn(&Seen, usize) -> Act + Send + Sync + 'static,
) -> (Owned, Fake) {
    let north = agent("north").await;
    let relay = Fake::start(move |_, seen, number| act(seen, number)).await;
    befriend(&north.agent, key(2).did(), url).await;
    move_to(&north, Some(&relay.url)).await;
    (north, relay)
}

/// South says where its mailbox is.
pub(in crate::send) async fn move_to(north: &Owned, relay: Option<&str>) {
    let coordinates =
        Coordinates { relay: relay.map(str::to_owned), enc_pub: Some(sealing(2).enc_pub()), ..Coordinates::default() };
    north.agent.store().update_coordinates(key(2).did(), &coordinates, CoordinateSource::Invite).await.unwrap();
}

/// An address where nobody is.
async fn nobody() -> String {
    Fake::start(|_, _, _| Act::Drop).await.url.clone()
}

async fn status(owned: &Owned, message_id: &str) -> Option<OutStatus> {
    owned.agent.store().outgoing(message_id).await.unwrap().unwrap().status
}

fn paths(fake: &Fake) -> Vec<String> {
    fake.seen().into_iter().map(|seen| seen.path).collect()
}

#[tokio::test]
async fn a_peer_that_sleeps_gets_its_letter_at_the_relay() {
    let (north, relay) = mailbox(Some(&nobody().await), |_, _| queued()).await;
    let sent = north.agent.send(&request("south")).await.unwrap();
    assert_eq!((sent.status, sent.via, &sent.url), (SentStatus::AtRelay, TransportName::Relay, &relay.url));
    assert_eq!((sent.attempts, sent.to_name.as_deref()), (2, Some("south")));
    assert_eq!(paths(&relay), ["/rpc"], "whoever sends waits for the answer");
    let Letter { deposit, request } = letter(&relay.seen()[0], 2);
    assert_eq!((&deposit.to, &deposit.from), (key(2).did(), north.agent.did()));
    assert_eq!(deposit.id, deposit_id(&sent.message_id, key(2).did()));
    assert_eq!(request.message_id(), sent.message_id);
    assert_eq!(request.message().member("contextId").and_then(Value::as_str), Some("talk"));

    assert_eq!(status(&north, &sent.message_id).await, Some(OutStatus::AtRelay));
    let row = north.agent.store().outbox(false).await.unwrap().remove(0);
    assert_eq!(row.at_relay.unwrap().0, relay.url);
    assert_eq!(north.agent.mailboxes().await.unwrap(), [relay.url.as_str()], "the reply will lie there");
    assert_eq!(row.due.0 - row.created.0, backoff::LIFE_SECS);
    // Nothing is due before that.
    assert_eq!(north.agent.run_outbox().await, 0);
    assert_eq!(relay.seen().len(), 1);
}

#[tokio::test]
async fn every_attempt_deposits_the_same_letter() {
    let (north, relay) = mailbox(None, |_, number| match number {
        0 => relay_refusal(503, "", "no room"),
        1 => Act::Drop,
        _ => queued(),
    })
    .await;
    let error = north.agent.send(&request("south")).await.unwrap_err();
    let message_id = error.message_id().unwrap().to_owned();
    let again = ResendRequest {
        message_id: message_id.clone(),
        timeout: Duration::from_secs(20),
        retries: 1,
        allow_private: false,
    };
    for _ in 0..2 {
        assert_eq!(north.agent.resend(&again).await.unwrap().status, SentStatus::AtRelay);
        assert_eq!(status(&north, &message_id).await, Some(OutStatus::AtRelay));
    }
    let seen = relay.seen();
    assert_eq!(seen.len(), 4);
    for seen in &seen {
        let letter = letter(seen, 2);
        assert_eq!(letter.deposit.id, deposit_id(&message_id, key(2).did()));
        assert_eq!(letter.request.message_id(), message_id);
    }
}

#[tokio::test]
async fn a_peer_that_listens_at_the_relay_answers_at_once() {
    let (north, relay) = mailbox(None, |seen, _| {
        let letter = letter(seen, 2);
        answered(&letter, 2, &result(&reply_to(&letter.request, "HELLO").sign(&key(2))))
    })
    .await;
    let sent = north.agent.send(&request("south")).await.unwrap();
    assert_eq!((sent.status, sent.via), (SentStatus::Answered, TransportName::Relay));
    assert_eq!(sent.reply.unwrap().text, "HELLO");
    assert_eq!(status(&north, &sent.message_id).await, Some(OutStatus::Delivered));
    assert!(north.agent.store().outbox(true).await.unwrap().is_empty());
    assert_eq!(relay.seen().len(), 1);
}

#[tokio::test]
async fn an_answer_through_a_relay_is_checked_like_any_other() {
    // South's key sealed it, and somebody else signed it.
    let (north, _relay) = mailbox(None, |seen, _| {
        let letter = letter(seen, 2);
        answered(&letter, 2, &result(&reply_to(&letter.request, "forged").sign(&key(3))))
    })
    .await;
    let error = north.agent.send(&request("south")).await.unwrap_err();
    assert!(matches!(error, SendError::ReplyNotVerified { .. }), "{error:?}");
    assert_eq!((error.fault(), error.is_kept()), (Fault::Unverified, true));
    assert_eq!(status(&north, error.message_id().unwrap()).await, Some(OutStatus::Queued));

    // The relay itself cannot answer in south's name.
    let (north, _relay) = mailbox(None, |seen, _| {
        let letter = letter(seen, 2);
        answered(&letter, 9, &result(&reply_to(&letter.request, "forged").sign(&key(2))))
    })
    .await;
    assert_eq!(north.agent.send(&request("south")).await.unwrap().status, SentStatus::AtRelay);
    let all = Query { with_auto: true, ..Query::default() };
    assert!(north.agent.store().messages(&all).await.unwrap().is_empty());
}

#[tokio::test]
async fn refusals_through_a_relay_are_recorded_by_their_code() {
    for (code, outcome) in [(-32010, OutStatus::Refused), (-32004, OutStatus::Queued), (-32603, OutStatus::Queued)] {
        let (north, relay) = mailbox(None, move |seen, _| {
            let letter = letter(seen, 2);
            answered(&letter, 2, &refusal(code, "no", r#"{"retryAfter":600}"#))
        })
        .await;
        let error = north.agent.send(&request("south")).await.unwrap_err();
        assert!(matches!(&error, SendError::Refused { code: found, .. } if *found == code), "{error:?}");
        assert_eq!((error.fault(), error.is_kept()), (Fault::PeerRefused, outcome == OutStatus::Queued));
        let row = north.agent.store().outgoing(error.message_id().unwrap()).await.unwrap().unwrap();
        assert_eq!((row.status, row.code), (Some(outcome), (outcome == OutStatus::Refused).then_some(code)));
        let kept = north.agent.store().outbox(false).await.unwrap();
        assert_eq!(kept.len(), usize::from(outcome == OutStatus::Queued));
        for row in kept {
            assert!(row.due.0 - row.created.0 >= 600, "the peer is not asked again before it wants to be");
        }
        assert_eq!(relay.seen().len(), 1);
    }
}

#[tokio::test]
async fn what_a_relay_says_about_room_is_kept_for_the_owner() {
    for (status_code, head) in [(429, "Retry-After: 700\r\n"), (403, ""), (503, "Retry-After: 700\r\n")] {
        let (north, _relay) = mailbox(None, move |_, _| relay_refusal(status_code, head, "no room for south")).await;
        let error = north.agent.send(&request("south")).await.unwrap_err();
        assert_eq!((error.fault(), error.is_kept()), (Fault::Unreachable, true), "{error:?}");
        let row = north.agent.store().outbox(false).await.unwrap().remove(0);
        assert_eq!((row.status, row.attempts), (OutStatus::Queued, 1));
        assert!(row.last_error.as_ref().unwrap().contains("no room for south"), "{:?}", row.last_error);
        assert_eq!(row.due.0 - row.created.0 >= 700, !head.is_empty(), "{status_code}");
    }
    let (north, _relay) = mailbox(None, |_, _| relay_refusal(413, "", "too large")).await;
    let error = north.agent.send(&request("south")).await.unwrap_err();
    assert!(!error.is_kept(), "{error:?}");
    assert!(!error.hint().unwrap().contains("kept") && error.hint().unwrap().contains("in parts"), "{error:?}");
    assert_eq!(status(&north, error.message_id().unwrap()).await, Some(OutStatus::Failed));
    assert!(north.agent.store().outbox(false).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_peer_that_takes_the_connection_and_stays_silent_does_not_use_up_the_relays_time() {
    let silent = Fake::start(|_, _, _| Act::Silence).await;
    let (north, relay) = mailbox(Some(&silent.url), |_, _| queued()).await;
    let message = SendRequest { timeout: Duration::from_secs(2), ..request("south") };
    let sent = north.agent.send(&message).await.unwrap();
    assert_eq!((sent.status, sent.via), (SentStatus::AtRelay, TransportName::Relay));
    assert_eq!((silent.seen().len(), relay.seen().len()), (1, 1));
    assert_eq!(silent.seen()[0].message_id(), letter(&relay.seen()[0], 2).request.message_id());
}

#[tokio::test]
async fn a_relay_that_never_answers_a_call_gets_the_letter_in_time_all_the_same() {
    let (north, relay) = mailbox(None, |seen, _| match seen.path.as_str() {
        "/rpc" => Act::Silence,
        _ => queued(),
    })
    .await;
    let message = SendRequest { timeout: Duration::from_secs(2), ..request("south") };
    let sent = north.agent.send(&message).await.unwrap();
    assert_eq!((sent.status, sent.via), (SentStatus::AtRelay, TransportName::Relay));
    assert_eq!(paths(&relay), ["/rpc", "/send"]);
    let [called, sent] = [0, 1].map(|n| letter(&relay.seen()[n], 2));
    assert_eq!((called.deposit.id, called.deposit.blob), (sent.deposit.id, sent.deposit.blob));
}

#[tokio::test]
async fn an_answer_of_the_peer_ends_it_and_anything_else_goes_on_to_the_relay() {
    type Answer = fn(&Seen) -> Act;
    let cases: [(Answer, bool); 7] = [
        (|seen| result(&reply_to(seen, "HELLO").sign(&key(2))), false),
        (|_| refusal(-32010, "Introduction required", "null"), false),
        (|seen| result(&reply_to(seen, "forged").sign(&key(3))), false),
        (|_| refusal(-32003, "Message not addressed to me", "null"), true),
        (|_| Act::Answer(503, "Retry-After: 7\r\n", String::new()), true),
        (|_| Act::html(), true),
        (|_| Act::Drop, true),
    ];
    for (n, (answer, goes_on)) in cases.into_iter().enumerate() {
        let south = Fake::start(move |_, seen, _| match seen.method.as_str() {
            "POST" => answer(seen),
            _ => Act::status(404),
        })
        .await;
        let (north, relay) = mailbox(Some(&south.url), |_, _| queued()).await;
        let sent = north.agent.send(&request("south")).await;
        assert_eq!(relay.seen().len(), usize::from(goes_on), "{n}: {sent:?}");
        let is_at_relay = sent.as_ref().is_ok_and(|sent| sent.status == SentStatus::AtRelay);
        assert_eq!(is_at_relay, goes_on, "{n}: {sent:?}");
    }
}

#[tokio::test]
async fn when_no_way_leads_there_each_is_named() {
    let gone = nobody().await;
    let (north, relay) = mailbox(Some(&gone), |_, _| relay_refusal(429, "Retry-After: 90\r\n", "mailbox full")).await;
    let error = north.agent.send(&request("south")).await.unwrap_err();
    assert_eq!((error.fault(), error.is_kept()), (Fault::Unreachable, true));
    let words = error.to_string();
    for expected in ["south was not reached in ", " s: by http, ", &gone, "; by relay, ", &relay.url, "mailbox full"] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    let message_id = error.message_id().unwrap().to_owned();
    assert!(error.hint().unwrap().contains(&format!("--resend {message_id}")), "{:?}", error.hint());
    assert_eq!(status(&north, &message_id).await, Some(OutStatus::Queued));
    let row = north.agent.store().outbox(false).await.unwrap().remove(0);
    assert_eq!(row.last_error, Some(words));
    assert!(row.due.0 - row.created.0 >= 90);
}

#[tokio::test]
async fn one_way_can_be_forced() {
    let south = Fake::start(|_, seen, _| result(&reply_to(seen, "HELLO").sign(&key(2)))).await;
    let (north, relay) = mailbox(Some(&south.url), |_, _| queued()).await;
    let by = |via| SendRequest { via: Some(via), ..request("south") };
    let sent = north.agent.send(&by(TransportName::Relay)).await.unwrap();
    assert_eq!((sent.via, south.seen().len()), (TransportName::Relay, 0));
    assert_eq!(north.agent.send(&by(TransportName::Http)).await.unwrap().via, TransportName::Http);
    assert_eq!(relay.seen().len(), 1);

    // It stays forced in later attempts.
    let (north, relay) = mailbox(Some(&nobody().await), |_, _| queued()).await;
    let error = north.agent.send(&by(TransportName::Http)).await.unwrap_err();
    assert!(matches!(error, SendError::Transport { .. }), "{error:?}");
    let row = north.agent.store().outbox(false).await.unwrap().remove(0);
    assert_eq!(row.keep.via.as_deref(), Some("http"));
    let again = ResendRequest {
        message_id: row.message_id,
        timeout: Duration::from_secs(20),
        retries: 0,
        allow_private: false,
    };
    north.agent.resend(&again).await.unwrap_err();
    assert!(relay.seen().is_empty());
}

#[tokio::test]
async fn a_way_that_is_not_known_is_an_error_before_anything_is_stored() {
    let north = agent("north").await;
    befriend(&north.agent, key(2).did(), Some("http://127.0.0.1:1")).await;
    let error = north.agent.send(&SendRequest { via: Some(TransportName::Relay), ..request("south") }).await;
    assert!(matches!(error, Err(SendError::WayUnknown { via: TransportName::Relay, .. })), "{error:?}");
    let (north, relay) = mailbox(None, |_, _| queued()).await;
    let error =
        north.agent.send(&SendRequest { via: Some(TransportName::Http), ..request("south") }).await.unwrap_err();
    assert!(matches!(error, SendError::WayUnknown { via: TransportName::Http, .. }), "{error:?}");
    assert_eq!((error.fault(), error.is_kept(), error.message_id()), (Fault::Unreachable, false, None));
    assert!(north.agent.store().outbox(true).await.unwrap().is_empty() && relay.seen().is_empty());
}

#[tokio::test]
async fn a_letter_that_comes_later_says_what_became_of_it() {
    let say = |id: &str, asked: &str, status, code, is_answer: bool| Received {
        from: key(2).did().clone(),
        message_id: id.to_owned(),
        context_id: None,
        reply_to: Some(asked.to_owned()),
        text: "by and by".to_owned(),
        timestamp: now(),
        received: now(),
        digest: [1; 32],
        sig: "c2ln".to_owned(),
        extra: None,
        is_auto: !is_answer,
        reply: None,
        reply_by: None,
        settles: Some(Settles { asked: asked.to_owned(), status, code, is_answer }),
    };
    let (north, _relay) = mailbox(None, |_, _| queued()).await;
    let store = north.agent.store();
    let sent = north.agent.send(&request("south")).await.unwrap().message_id;
    assert_eq!(north.agent.answer_of(&sent).await.unwrap(), None);
    store.commit_received(say("ack", &sent, OutStatus::Delivered, None, false)).await.unwrap();
    assert_eq!(status(&north, &sent).await, Some(OutStatus::Delivered));
    assert_eq!(north.agent.answer_of(&sent).await.unwrap(), None, "it may still answer");
    store.commit_received(say("answer", &sent, OutStatus::Delivered, None, true)).await.unwrap();
    let Some(Word::Answered(answer)) = north.agent.answer_of(&sent).await.unwrap() else { panic!("an answer") };
    assert_eq!((answer.text.as_str(), answer.is_unread), ("by and by", true));

    let sent = north.agent.send(&request("south")).await.unwrap().message_id;
    store.commit_received(say("no", &sent, OutStatus::Refused, Some(-32010), false)).await.unwrap();
    assert_eq!(north.agent.answer_of(&sent).await.unwrap(), Some(Word::Refused(Some(-32010))));

    let sent = north.agent.send(&request("south")).await.unwrap().message_id;
    let over = UnixSeconds(now().0 + backoff::LIFE_SECS + 1);
    assert!(store.take_outbox(over, over, 9).await.unwrap().is_empty());
    assert_eq!(north.agent.answer_of(&sent).await.unwrap(), Some(Word::Expired));
    assert_eq!(north.agent.answer_of("unknown").await.unwrap(), None);
}

#[tokio::test]
async fn letters_are_sealed_for_the_post_quantum_key_of_a_signed_card() {
    let (north, relay) = mailbox(None, |_, _| queued()).await;
    let coordinates = Coordinates {
        relay: Some(relay.url.clone()),
        enc_pub: Some(sealing(2).enc_pub()),
        enc_pub_pq: Some(sealing(2).enc_pub_pq()),
        ..Coordinates::default()
    };
    let store = north.agent.store();
    store.update_coordinates(key(2).did(), &coordinates, CoordinateSource::Invite).await.unwrap();
    north.agent.send(&request("south")).await.unwrap();
    store.update_coordinates(key(2).did(), &coordinates, CoordinateSource::Card).await.unwrap();
    north.agent.send(&request("south")).await.unwrap();
    let posted = relay.seen().into_iter().filter(|seen| seen.method == "POST");
    let letters: Vec<_> = posted.map(|seen| letter(&seen, 2)).collect();
    let is_hybrid = |letter: &Letter| letter.deposit.blob.starts_with("YTJiM");
    assert_eq!(letters.iter().map(is_hybrid).collect::<Vec<_>>(), [false, true]);
}
