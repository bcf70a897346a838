use muretai_protocol::{json::Value, sign::SigningKey};
use muretai_store::messages::{Direction, MessageRow, OutStatus, Query};

use super::*;
use crate::{
    Fault,
    agent::now,
    testing::{
        Act, Fake, Owned, ReplyDraft, Seen, agent, befriend, documents, key, refusal, reply_to, result, seed_of,
    },
};

fn request(target: &str) -> SendRequest {
    SendRequest {
        target: target.to_owned(),
        text: "hello".to_owned(),
        context_id: None,
        reply_to: None,
        timeout: Duration::from_secs(20),
        retries: 2,
        unverified: false,
        allow_private: false,
        via: None,
    }
}

async fn stored(owned: &Owned) -> Vec<MessageRow> {
    owned.agent.store().messages(&Query { with_sent: true, with_auto: true, ..Query::default() }).await.unwrap()
}

async fn status(owned: &Owned) -> Option<OutStatus> {
    stored(owned).await.into_iter().find(|row| row.direction == Direction::Out).unwrap().status
}

/// North, who knows south, and south's server.
async fn pair(act: impl Fn(&str, &Seen, usize) -> Act + Send + Sync + 'static) -> (Owned, Fake) {
    let north = agent("north").await;
    let south = Fake::start(act).await;
    befriend(&north.agent, key(2).did(), Some(&south.url)).await;
    (north, south)
}

/// Answers every POST with a reply that `change` has spoiled.
async fn spoiled(signer: u8, change: impl Fn(&mut ReplyDraft) + Send + Sync + 'static) -> (Owned, Fake) {
    pair(move |_, seen, _| {
        let mut draft = reply_to(seen, "forged words");
        change(&mut draft);
        result(&draft.sign(&key(signer)))
    })
    .await
}

#[tokio::test]
async fn a_contact_is_sent_to_without_fetching_its_card() {
    let (north, south) = pair(|_, seen, _| result(&reply_to(seen, "HELLO").sign(&key(2)))).await;
    let mut message = request("south");
    message.context_id = Some("talk".to_owned());
    message.reply_to = Some("earlier".to_owned());
    let sent = north.agent.send(&message).await.unwrap();
    assert_eq!((sent.status, sent.attempts), (SentStatus::Answered, 1));
    assert_eq!(sent.to_name.as_deref(), Some("south"));
    let reply = sent.reply.unwrap();
    assert_eq!((reply.text.as_str(), reply.is_verified, reply.from.as_ref()), ("HELLO", true, Some(key(2).did())));
    let seen = south.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].method.as_str(), seen[0].path.as_str()), ("POST", "/"));
    let metadata = seen[0].message().member("metadata").unwrap().clone();
    assert_eq!(metadata.member("replyTo").and_then(Value::as_str), Some("earlier"));
    let rows = stored(&north).await;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].status, Some(OutStatus::Delivered));
    assert!(rows[1].is_verified && rows[1].text == "HELLO");
}

#[tokio::test]
async fn a_url_is_sent_to_after_its_card_is_verified() {
    let north = agent("north").await;
    let south = Fake::start(|base, seen, _| match seen.method.as_str() {
        "GET" => documents(&key(2), base, seen),
        _ => result(&reply_to(seen, "HELLO").sign(&key(2))),
    })
    .await;
    let sent = north.agent.send(&request(&south.url)).await.unwrap();
    assert_eq!(sent.reply.unwrap().text, "HELLO");
    let paths: Vec<_> = south.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/.well-known/agent-card.json", "/.well-known/agent-card.sig.json", "/"]);
    assert!(north.agent.store().contact(key(2).did()).await.unwrap().is_none(), "sending makes no contact");
}

#[tokio::test]
async fn an_acknowledgement_is_not_an_answer() {
    let (north, _south) = pair(|_, seen, _| {
        let mut draft = reply_to(seen, "");
        draft.extra.insert("auto".to_owned(), true.into());
        draft.extra.insert("status".to_owned(), "accepted".into());
        result(&draft.sign(&key(2)))
    })
    .await;
    let sent = north.agent.send(&request("south")).await.unwrap();
    assert_eq!(sent.status, SentStatus::Accepted);
    assert_eq!(sent.reply.unwrap().status.as_deref(), Some("accepted"));
}

/// The reply must not be believed: exit 5, the message stays queued, and nothing of the reply is kept.
async fn assert_not_believed(north: Owned, _south: Fake, why: &str) {
    let error = north.agent.send(&request("south")).await.unwrap_err();
    assert!(matches!(error, SendError::ReplyNotVerified { .. }), "{why}: {error:?}");
    assert_eq!(error.fault(), Fault::Unverified, "{why}");
    assert!(error.message_id().is_some(), "{why}");
    assert_eq!(status(&north).await, Some(OutStatus::Queued), "{why}");
    assert_eq!(stored(&north).await.len(), 1, "{why}: nothing of the reply is kept");
}

#[tokio::test]
async fn replies_that_prove_nothing_are_not_believed() {
    let (north, south) = spoiled(2, |draft| draft.to = key(9).did().to_string()).await;
    assert_not_believed(north, south, "to somebody else").await;
    let (north, south) = spoiled(2, |draft| draft.context_id = Some("other".to_owned())).await;
    assert_not_believed(north, south, "in another conversation").await;
    let (north, south) = spoiled(2, |draft| drop(draft.extra.insert("replyTo".to_owned(), "other".into()))).await;
    assert_not_believed(north, south, "to another message").await;
    let (north, south) = spoiled(2, |draft| draft.timestamp.0 -= 301).await;
    assert_not_believed(north, south, "too old").await;
    let (north, south) = spoiled(2, |draft| draft.timestamp.0 += 310).await;
    assert_not_believed(north, south, "from the future").await;
    let (north, south) = spoiled(3, |_| {}).await;
    assert_not_believed(north, south, "from another DID").await;
}

#[tokio::test]
async fn unsigned_and_tampered_replies_are_not_believed() {
    type Spoil = fn(&mut Object);
    let cases: [(&str, Spoil); 3] = [
        ("no envelope", |message| drop(message.remove("metadata"))),
        ("other text", |message| drop(message.insert("parts".to_owned(), muretai_protocol::json!([])))),
        ("other sender named", |message| {
            let Some(Value::Object(metadata)) = message.get_mut("metadata") else { return };
            metadata.insert("from".to_owned(), key(3).did().as_str().into());
        }),
    ];
    for (why, spoil) in cases {
        let (north, south) = pair(move |_, seen, _| {
            let Value::Object(mut message) = reply_to(seen, "words").sign(&key(2)) else { unreachable!() };
            spoil(&mut message);
            result(&message.into())
        })
        .await;
        assert_not_believed(north, south, why).await;
    }
    let (north, south) = pair(|_, _, _| result(&"just text".into())).await;
    assert_not_believed(north, south, "no message").await;
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_the_same_id_and_a_duplicate_counts_as_delivered() {
    let (north, south) = pair(|_, _, number| match number {
        0 => Act::Drop,
        _ => refusal(-32002, "Replay or stale message", r#"{"detail":"seen","duplicate":true}"#),
    })
    .await;
    let sent = north.agent.send(&request("south")).await.unwrap();
    assert_eq!((sent.status, sent.attempts), (SentStatus::Duplicate, 2));
    let ids: Vec<_> = south.seen().iter().map(Seen::message_id).collect();
    assert_eq!(ids, [sent.message_id.clone(), sent.message_id]);
    assert_eq!(status(&north).await, Some(OutStatus::Delivered));
}

#[tokio::test]
async fn a_peer_may_say_that_it_had_the_first_copy_already() {
    let (north, _south) =
        pair(|_, _, _| refusal(-32002, "Replay or stale message", r#"{"detail":"seen","duplicate":true}"#)).await;
    let sent = north.agent.send(&request("south")).await.unwrap();
    assert_eq!((sent.status, sent.attempts), (SentStatus::Duplicate, 1));
}

#[tokio::test]
async fn an_answer_to_another_request_is_none() {
    for id in ["\"another\"", "1", "null"] {
        let (north, _south) = pair(move |_, seen, _| {
            let reply = reply_to(seen, "HELLO").sign(&key(2)).to_json();
            Act::Answer(200, "", format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{reply}}}"#))
        })
        .await;
        let error = north.agent.send(&request("south")).await.unwrap_err();
        assert!(matches!(error, SendError::NotAnAnswer { .. }), "{id}: {error:?}");
        assert_eq!(stored(&north).await.len(), 1, "{id}");
    }
}

#[tokio::test]
async fn a_copy_that_is_still_being_answered_is_asked_for_again() {
    let (north, south) = pair(|_, seen, number| match number {
        0 => Act::Drop,
        1 => refusal(-32002, "Replay or stale message", r#"{"detail":"in hand"}"#),
        _ => result(&reply_to(seen, "HELLO").sign(&key(2))),
    })
    .await;
    let sent = north.agent.send(&request("south")).await.unwrap();
    assert_eq!((sent.status, sent.attempts), (SentStatus::Answered, 3));
    assert_eq!(south.seen().len(), 3);
}

#[tokio::test]
async fn retries_are_counted() {
    let (north, south) = pair(|_, _, _| Act::Drop).await;
    let error = north.agent.send(&SendRequest { retries: 1, ..request("south") }).await.unwrap_err();
    assert!(matches!(error, SendError::Transport { attempts: 2, .. }), "{error:?}");
    assert_eq!(error.fault(), Fault::Unreachable);
    assert_eq!(south.seen().len(), 2);
    assert_eq!(status(&north).await, Some(OutStatus::Queued), "it may have arrived");
}

#[tokio::test]
async fn nobody_listening_is_unreachable_and_the_message_has_failed() {
    let north = agent("north").await;
    let gone = Fake::start(|_, _, _| Act::Drop).await.url.clone();
    befriend(&north.agent, key(2).did(), Some(&gone)).await;
    let error = north.agent.send(&request("south")).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Unreachable);
    // Dropping a listener is not instant: the last attempts found nobody, whatever the first one met.
    assert!(matches!(error, SendError::Transport { attempts: 3, .. }), "{error:?}");
}

#[tokio::test]
async fn a_silent_peer_ends_with_the_timeout() {
    let (north, _south) = pair(|_, _, _| Act::Silence).await;
    let message = SendRequest { timeout: Duration::from_millis(300), ..request("south") };
    let error = north.agent.send(&message).await.unwrap_err();
    assert!(matches!(error, SendError::TimedOut { .. }), "{error:?}");
    assert_eq!(error.fault(), Fault::Unreachable);
    assert_eq!(status(&north).await, Some(OutStatus::Queued));
}

#[tokio::test]
async fn a_silent_server_at_a_url_ends_with_the_timeout_too() {
    let north = agent("north").await;
    let south = Fake::start(|_, _, _| Act::Silence).await;
    let message = SendRequest { timeout: Duration::from_millis(300), ..request(&south.url) };
    let error = north.agent.send(&message).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Unreachable, "{error:?}");
    assert!(stored(&north).await.is_empty());
}

#[tokio::test]
async fn what_is_no_agent_is_named() {
    let (north, _south) = pair(|_, _, _| Act::html()).await;
    let error = north.agent.send(&request("south")).await.unwrap_err();
    assert!(matches!(error, SendError::NotAnAnswer { what: "a web page", .. }), "{error:?}");
    let (north, _south) = pair(|_, _, _| Act::Answer(200, "", "{}".to_owned())).await;
    let error = north.agent.send(&request("south")).await.unwrap_err();
    assert!(matches!(error, SendError::NotAnAnswer { .. }), "{error:?}");
    for code in [404, 500] {
        let (north, _south) = pair(move |_, _, _| Act::status(code)).await;
        let error = north.agent.send(&request("south")).await.unwrap_err();
        assert!(matches!(error, SendError::HttpStatus { status, .. } if status == code), "{error:?}");
    }
}

#[tokio::test]
async fn a_busy_peer_says_when_to_come_back() {
    for code in [429, 503] {
        let (north, south) = pair(move |_, _, _| Act::Answer(code, "Retry-After: 7\r\n", "{}".to_owned())).await;
        let error = north.agent.send(&request("south")).await.unwrap_err();
        let wait = Some(Duration::from_secs(7));
        assert!(matches!(error, SendError::HttpStatus { retry_after, .. } if retry_after == wait), "{error:?}");
        assert!(error.hint().unwrap().contains("7 s"));
        assert_eq!(south.seen().len(), 1);
        assert_eq!(status(&north).await, Some(OutStatus::Queued));
    }
}

#[tokio::test]
async fn a_refusal_is_shown_once_made_safe_and_recorded() {
    let (north, south) =
        pair(|_, _, _| refusal(-32010, "Introduction\u{1b}[2K required", r#"{"detail":"ask\u202eowner","more":1}"#))
            .await;
    let error = north.agent.send(&request("south")).await.unwrap_err();
    assert_eq!((error.fault(), south.seen().len()), (Fault::PeerRefused, 1));
    let SendError::Refused { code, message, detail, data, .. } = error else { panic!("{error:?}") };
    assert_eq!(code, -32010);
    let shown = format!("{message}{}", detail.unwrap());
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    assert_eq!(data.unwrap().member("more").and_then(Value::as_i64), Some(1));
    assert_eq!(status(&north).await, Some(OutStatus::Refused));
}

#[tokio::test]
async fn refusals_that_pass_leave_the_message_queued() {
    for code in [-32603, -32004] {
        let (north, south) = pair(move |_, _, _| refusal(code, "later", "null")).await;
        let error = north.agent.send(&request("south")).await.unwrap_err();
        assert!(matches!(error, SendError::Refused { code: found, .. } if found == code));
        assert_eq!(south.seen().len(), 1);
        assert_eq!(status(&north).await, Some(OutStatus::Queued), "{code}");
    }
}

#[tokio::test]
async fn a_peer_that_knows_only_the_other_method_is_asked_with_it_once() {
    let (north, south) = pair(|_, seen, _| {
        let method = seen.rpc().member("method").and_then(Value::as_str).map(str::to_owned);
        if method.as_deref() != Some("SendMessage") {
            return refusal(-32601, "Method not found", "null");
        }
        let message = reply_to(seen, "HELLO").sign(&key(2));
        result(&muretai_protocol::a2a::result_to_v1(&message))
    })
    .await;
    let sent = north.agent.send(&request("south")).await.unwrap();
    assert_eq!(sent.reply.unwrap().text, "HELLO");
    let second = &south.seen()[1];
    assert!(second.head.to_ascii_lowercase().contains("a2a-version: 1.0"), "{}", second.head);
    let message = second.message();
    assert_eq!(message.member("role").and_then(Value::as_str), Some("ROLE_USER"));
    assert!(message.member("kind").is_none());
    assert_eq!(second.message_id(), south.seen()[0].message_id());

    let (north, south) = pair(|_, _, _| refusal(-32601, "Method not found", "null")).await;
    let error = north.agent.send(&request("south")).await.unwrap_err();
    assert!(matches!(error, SendError::Refused { code: -32601, .. }));
    assert_eq!(south.seen().len(), 2);
}

/// South has moved below a path; its old place answers the card's address with a redirect.
fn moved(signer: SigningKey) -> impl Fn(&str, &Seen, usize) -> Act {
    move |base, seen, _| match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", path) => match path.strip_prefix("/new") {
            Some(rest) => {
                let at_mount = Seen { path: rest.to_owned(), ..seen.clone() };
                documents(&signer, &format!("{base}/new"), &at_mount)
            }
            None => Act::Answer(302, "Location: /new/.well-known/agent-card.json\r\n", String::new()),
        },
        ("POST", "/new") => result(&reply_to(seen, "HELLO").sign(&signer)),
        _ => Act::status(404),
    }
}

#[tokio::test]
async fn a_peer_that_moved_is_found_by_its_card() {
    let (north, south) = pair(moved(key(2))).await;
    let sent = north.agent.send(&request("south")).await.unwrap();
    assert_eq!(sent.reply.unwrap().text, "HELLO");
    let contact = north.agent.store().contact(key(2).did()).await.unwrap().unwrap();
    assert_eq!(contact.coordinates.url, Some(format!("{}/new", south.url)));
}

#[tokio::test]
async fn somebody_else_at_the_peers_address_is_named() {
    let (north, south) = pair(moved(key(3))).await;
    let error = north.agent.send(&request("south")).await.unwrap_err();
    assert!(matches!(error, SendError::Card(CardFetchError::OtherDid { .. })), "{error:?}");
    assert_eq!(error.fault(), Fault::Unverified);
    assert_eq!(south.posts().len(), 1);
}

#[tokio::test]
async fn targets_that_lead_nowhere_fail_before_anything_is_stored() {
    let north = agent("north").await;
    befriend(&north.agent, key(2).did(), None).await;
    let stranger = key(7).did().to_string();
    type Check = fn(&SendError) -> bool;
    let cases: [(&str, Check); 5] = [
        (&stranger, |e| matches!(e, SendError::NoAddress { .. })),
        ("south", |e| matches!(e, SendError::NoAddress { .. })),
        ("nobody", |e| matches!(e, SendError::NoSuchContact(_))),
        ("https://south.example/i/Ab3-_xyz", |e| matches!(e, SendError::InviteNotClaimed)),
        ("did:key:zzz", |e| matches!(e, SendError::Target(_))),
    ];
    for (target, check) in cases {
        let error = north.agent.send(&request(target)).await.unwrap_err();
        assert!(check(&error), "{target}: {error:?}");
        assert!(error.hint().is_some(), "{target}");
    }
    assert!(stored(&north).await.is_empty());
}

#[tokio::test]
async fn texts_are_checked_before_anything_is_stored() {
    let (north, south) = pair(|_, seen, _| result(&reply_to(seen, "ok").sign(&key(2)))).await;
    type Check = fn(&SendError) -> bool;
    let cases: [(String, Check); 3] = [
        (String::new(), |e| matches!(e, SendError::EmptyText)),
        ("a\0b".to_owned(), |e| matches!(e, SendError::NulInText { at: 1 })),
        ("é".repeat(32_769), |e| matches!(e, SendError::TextTooLong { bytes: 65_538 })),
    ];
    for (text, check) in cases {
        let error = north.agent.send(&SendRequest { text, ..request("south") }).await.unwrap_err();
        assert!(check(&error), "{error:?}");
    }
    for id in ["", " ", &"x".repeat(2_000)] {
        let error = north.agent.send(&SendRequest { context_id: Some(id.to_owned()), ..request("south") }).await;
        assert!(matches!(error, Err(SendError::BadId { .. })), "{error:?}");
    }
    assert!(stored(&north).await.is_empty() && south.seen().is_empty());
    let longest = "é".repeat(32_768);
    assert!(north.agent.send(&SendRequest { text: longest, ..request("south") }).await.is_ok());
}

#[tokio::test]
async fn a_private_address_out_of_a_peers_mouth_is_not_dialled() {
    let north = agent("north").await;
    let south = Fake::start(|_, seen, _| result(&reply_to(seen, "ok").sign(&key(2)))).await;
    let introduce = muretai_store::contacts::Introduce {
        did: key(2).did().clone(),
        peer_name: Some("south".to_owned()),
        own_name: None,
        coordinates: muretai_store::contacts::Coordinates {
            url: Some(south.url.clone()),
            relay: None,
            enc_pub: None,
            enc_pub_pq: None,
        },
        source: muretai_store::contacts::CoordinateSource::Peer,
        allow_private: false,
        now: now(),
    };
    north.agent.store().connect(&introduce).await.unwrap();
    let error = north.agent.send(&request("south")).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Failed, "{error:?}");
    assert!(error.hint().unwrap().contains("--allow-private"));
    assert!(south.seen().is_empty());
    assert_eq!(status(&north).await, Some(OutStatus::Failed));
    assert!(north.agent.send(&SendRequest { allow_private: true, ..request("south") }).await.is_ok());
    // The owner's word was for that one call.
    assert!(north.agent.send(&request("south")).await.is_err());
}

#[tokio::test]
async fn nobody_writes_to_itself() {
    let north = agent("north").await;
    let own = SigningKey::from_seed(&seed_of("north"));
    assert_eq!(own.did(), north.agent.did());
    let place = Fake::start(move |base, seen, _| documents(&own, base, seen)).await;
    for target in ["north", north.agent.did().as_str(), &place.url] {
        let error = north.agent.send(&request(target)).await.unwrap_err();
        assert!(matches!(error, SendError::Yourself), "{target}: {error:?}");
    }
    assert!(stored(&north).await.is_empty() && place.posts().is_empty());
}

#[tokio::test]
async fn whoever_cancels_learns_whether_the_message_may_have_left() {
    let (north, _south) = pair(|_, _, _| Act::Silence).await;
    let silent = Fake::start(|_, _, _| Act::Silence).await;
    for (target, left) in [("south", true), (silent.url.as_str(), false)] {
        let id = OnceLock::new();
        let message = SendRequest { timeout: Duration::from_millis(200), ..request(target) };
        assert!(north.agent.send_watched(&message, &id).await.is_err());
        assert_eq!(id.get().is_some(), left, "{target}");
    }
}

#[tokio::test]
async fn a_blocked_contact_is_sent_to_and_told_about() {
    let (north, _south) = pair(|_, seen, _| result(&reply_to(seen, "HELLO").sign(&key(2)))).await;
    north.agent.store().set_blocked(key(2).did(), true, now()).await.unwrap();
    assert!(north.agent.send(&request("south")).await.unwrap().is_blocked);
}
