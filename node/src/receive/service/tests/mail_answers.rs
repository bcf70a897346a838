//! Answers that come as letters, and answers to letters.
use std::{collections::VecDeque, sync::Arc};

use async_trait::async_trait;
use muretai_plugins::{ContactState, Response, SkillInfo, Skills};
use muretai_protocol::{
    MessageId, UnixSeconds, json,
    json::Value,
    message::{self, Draft, Role, Verified},
    sign::SigningKey,
};
use muretai_store::{messages::OutStatus, outbox::OutboxRow};
use muretai_transports::Service;

use super::super::{Receiver, ReceiverOptions};
use crate::{Agent, agent::now, receive::testing::*};

/// Answers everything.
struct Talker;

#[async_trait]
impl Skills for Talker {
    fn list(&self) -> Vec<SkillInfo> {
        Vec::new()
    }

    async fn respond(&self, message: &Verified, _: ContactState) -> Option<Response> {
        Some(Response::answer(format!("you say {}", message.message().text)))
    }
}

async fn talkative() -> World {
    world(|options| options.skills = Some(Arc::new(Talker))).await
}

#[tokio::test]
async fn a_reply_is_threaded_to_what_it_answers_and_nobody_answers_it() {
    let world = talkative().await;
    world.befriend(&key(1)).await;
    world.sent_to(&key(1), "asked").await;
    let reply = json!({"replyTo": "asked"});
    assert_eq!(code(&world.mail_with(&key(1), ("r1", "the answer"), Role::Agent, reply).await), 0);
    assert_eq!(world.status_of("asked").await, (OutStatus::Delivered, None));
    let answer = world.agent.store().answer_to("asked").await.unwrap().unwrap();
    assert_eq!((answer.text.as_str(), answer.message_id.as_str(), answer.is_unread), ("the answer", "r1", true));
    assert_eq!(world.outbox().await, [], "neither the message nor an answer to its answer");
}

#[tokio::test]
async fn the_first_word_about_an_unanswered_message_is_its_answer_whatever_its_role() {
    let world = talkative().await;
    world.befriend(&key(1)).await;
    world.sent_to(&key(1), "asked").await;
    for (id, replies) in [("r1", 0), ("r2", 1)] {
        world.mail_with(&key(1), (id, "words"), Role::User, json!({"replyTo": "asked"})).await;
        assert_eq!(world.outbox().await.len(), replies, "what comes later is conversation");
    }
    assert_eq!(world.agent.store().answer_to("asked").await.unwrap().unwrap().message_id, "r1");
}

#[tokio::test]
async fn an_answer_of_somebody_else_settles_nothing() {
    let world = talkative().await;
    world.befriend(&key(1)).await;
    world.befriend(&key(2)).await;
    world.sent_to(&key(1), "asked").await;
    for (n, role) in [("1", Role::Agent), ("2", Role::User)] {
        world.mail_with(&key(2), (n, "words"), role, json!({"replyTo": "asked"})).await;
    }
    let refused = json!({"replyTo": "asked", "auto": true, "status": "refused", "code": (-32010)});
    world.mail_with(&key(2), ("3", "refused"), Role::User, refused).await;
    assert_eq!(world.status_of("asked").await, (OutStatus::AtRelay, None));
    assert_eq!(world.agent.store().answer_to("asked").await.unwrap(), None);
}

#[tokio::test]
async fn whom_we_wrote_to_may_answer_without_being_a_contact_once() {
    let world = talkative().await;
    world.sent_to(&key(1), "asked").await;
    let accepted = json!({"replyTo": "asked", "auto": true, "status": "accepted"});
    assert_eq!(code(&world.mail_with(&key(1), ("n1", ""), Role::Agent, accepted.clone()).await), 0);
    assert_eq!(world.status_of("asked").await, (OutStatus::Delivered, None));
    assert_eq!(code(&world.mail_with(&key(1), ("n2", ""), Role::Agent, accepted).await), -32010, "it has said so");
    let answer = json!({"replyTo": "asked"});
    assert_eq!(code(&world.mail_with(&key(1), ("r1", "yes"), Role::Agent, answer.clone()).await), 0);
    assert_eq!(code(&world.mail_with(&key(1), ("r2", "more"), Role::Agent, answer.clone()).await), -32010);
    world.sent_to(&key(2), "to-blocked").await;
    world.block(&key(2)).await;
    let answer = json!({"replyTo": "to-blocked"});
    assert_eq!(code(&world.mail_with(&key(2), ("r1", "yes"), Role::Agent, answer).await), -32010);
}

#[tokio::test]
async fn what_machines_say_settles_the_state_and_gets_nothing_back() {
    let world = talkative().await;
    world.befriend(&key(1)).await;
    for (id, status, expected) in [
        ("a", "accepted", (OutStatus::Delivered, None)),
        ("b", "held", (OutStatus::Delivered, None)),
        ("c", "refused", (OutStatus::Refused, Some(-32010))),
    ] {
        world.sent_to(&key(1), id).await;
        let notice = json!({"replyTo": id, "auto": true, "status": status, "code": (-32010)});
        world.mail_with(&key(1), (status, "words"), Role::User, notice).await;
        assert_eq!(world.status_of(id).await, expected, "{status}");
        assert_eq!(world.agent.store().answer_to(id).await.unwrap(), None);
    }
    let late = json!({"replyTo": "a", "auto": true, "status": "refused", "code": (-32010)});
    world.mail_with(&key(1), ("late", "words"), Role::User, late).await;
    assert_eq!(world.status_of("a").await, (OutStatus::Delivered, None), "what was delivered stays so");
    assert_eq!(world.outbox().await, []);
}

#[tokio::test]
async fn a_machine_is_answered_in_words_and_not_by_an_acknowledgement() {
    let auto = || json!({"auto": true});
    let silent = world(|_| {}).await;
    silent.befriend(&key(1)).await;
    silent.mail_with(&key(1), ("1", "hello"), Role::User, auto()).await;
    assert_eq!(silent.outbox().await, []);
    let world = talkative().await;
    world.befriend(&key(1)).await;
    world.mail_with(&key(1), ("1", "hello"), Role::User, auto()).await;
    assert_eq!(world.outbox().await[0].text, "you say hello");
}

#[tokio::test]
async fn a_held_letter_is_told_to_wait_in_the_transaction_that_holds_it() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let vc = json!({"vc": (world.vc(&key(1), &key(2), 1))});
    assert_eq!(code(&world.mail_with(&key(2), ("1", "hello"), Role::User, vc.clone()).await), 0);
    let outbox = world.outbox().await;
    assert_eq!(outbox.len(), 1);
    assert_eq!((outbox[0].peer.as_str(), outbox[0].reply_to.as_deref()), (key(2).did().as_str(), Some("1")));
    assert!(outbox[0].keep.extra.as_ref().unwrap().contains(r#""status":"held""#));
    assert!(is_duplicate(&world.mail_with(&key(2), ("1", "hello"), Role::User, vc).await));
    assert_eq!(world.outbox().await.len(), 1);
}

#[tokio::test]
async fn a_reply_that_nobody_heard_goes_out_as_a_letter() {
    let world = talkative().await;
    world.befriend(&key(1)).await;
    let answer = world.send(&key(1), "1", "hello").await;
    let mark = postmark(&key(1), "1");
    for _ in 0..2 {
        assert!(world.receiver.unheard(&mark, answer.to_json().into_bytes().into()).await);
    }
    let outbox = world.outbox().await;
    let [row] = &outbox[..] else { panic!("{outbox:?}") };
    assert_eq!((row.text.as_str(), row.is_reply, row.keep.relay.as_deref()), ("you say hello", true, Some(RELAY)));
    assert_eq!(row.message_id, answer.member("result").unwrap().member("messageId").unwrap().as_str().unwrap());
    let refused = world.send(&key(2), "1", "hello").await;
    assert!(!world.receiver.unheard(&mark, refused.to_json().into_bytes().into()).await, "judged anew as a letter");
    let notice = world.send_with(&key(1), "2", "x", json!({"auto": true, "status": "x"})).await;
    assert!(world.receiver.unheard(&mark, notice.to_json().into_bytes().into()).await);
    let status = world.ask(("trust/status", "trust/status"), &key(1), "3", &[]).await;
    assert!(world.receiver.unheard(&mark, status.to_json().into_bytes().into()).await);
    assert_eq!(world.outbox().await.len(), 1);
}

#[tokio::test]
async fn what_was_refused_to_somebody_who_waited_is_shown_to_the_owner_all_the_same() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let call = async |from: u8, id: &str, secs_ago: i64| {
        let message = message_to(world.agent.did(), &key(from), id, "hello", UnixSeconds(now().0 - secs_ago));
        let request = request("message/send", message);
        let answer = world.call(&request).await;
        let bytes = |value: &Value| value.to_json().into_bytes().into();
        world.receiver.heard(&postmark(&key(7), "deposit"), &bytes(&request), &bytes(&answer)).await;
        answer
    };
    assert_eq!(code(&call(1, "1", 0).await), 0);
    assert!(is_duplicate(&call(1, "1", 0).await));
    assert_eq!(world.rejected().await, [], "what was taken, and what was taken before");
    let old = call(1, "2", 3_600).await;
    let stranger = call(2, "3", 0).await;
    let letters = world.agent.store().rejected(10).await.unwrap();
    let told: Vec<_> = letters.iter().map(|letter| (letter.from.as_str(), letter.id.as_str(), letter.code)).collect();
    let (north, other) = (key(1).did().clone(), key(2).did().clone());
    assert_eq!(
        told,
        [(north.as_str(), "2", Some(code(&old))), (other.as_str(), "3", Some(code(&stranger)))],
        "with the sender that signed, whoever deposited it"
    );
    assert!(letters.iter().all(|letter| !letter.reason.is_empty() && letter.relay == RELAY), "{letters:?}");
    assert_eq!(world.outbox().await, [], "who asked has the answer");
}

/// One of two agents that answer everything.
struct Bot {
    agent: Agent,
    key: SigningKey,
    receiver: Receiver,
    _folder: tempfile::TempDir,
}

async fn bot(n: u8) -> Bot {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent_of(folder.path(), n).await;
    let options = ReceiverOptions { skills: Some(Arc::new(Talker)), open_door: true, ..ReceiverOptions::default() };
    Bot { receiver: Receiver::new(&agent, &options), key: key(n), agent, _folder: folder }
}

impl Bot {
    /// What it has to send, as requests; they count as sent.
    async fn letters(&self) -> Vec<Value> {
        let rows = self.agent.store().outbox(true).await.unwrap();
        for row in &rows {
            let at = crate::agent::now();
            self.agent.store().record_at_relay(row.seq, RELAY, at, at).await.unwrap();
        }
        rows.iter().filter(|row| row.at_relay.is_none()).map(|row| self.sign(row)).collect()
    }

    fn sign(&self, row: &OutboxRow) -> Value {
        let extra = row.keep.extra.as_ref().map(|extra| json::parse(extra.as_bytes()).unwrap());
        let Some(Value::Object(extra)) = extra.or_else(|| Some(json!({}))) else { panic!("not an object") };
        let message_id = MessageId::new(&row.message_id).unwrap();
        let draft = Draft {
            role: if row.is_reply { Role::Agent } else { Role::User },
            to: &row.peer,
            message_id: &message_id,
            context_id: row.context_id.as_deref(),
            text: &row.text,
            timestamp: crate::agent::now(),
            extra,
        };
        request("message/send", message::sign(&self.key, &draft))
    }
}

#[tokio::test]
async fn two_machines_that_answer_everything_come_to_an_end() {
    let bots = [bot(1).await, bot(2).await];
    let first =
        request("message/send", message_to(bots[1].agent.did(), &bots[0].key, "m", "hello", crate::agent::now()));
    let notice = json!({"auto": true, "status": "x", "replyTo": "m"});
    let Value::Object(extra) = notice else { unreachable!() };
    let message_id = MessageId::new("n").unwrap();
    let draft = Draft {
        role: Role::User,
        to: bots[0].agent.did().as_str(),
        message_id: &message_id,
        context_id: None,
        text: "notice",
        timestamp: crate::agent::now(),
        extra,
    };
    let second = request("message/send", message::sign(&bots[1].key, &draft));
    let mut post = VecDeque::from([(1, first), (0, second)]);
    let mut delivered = 0;
    while let Some((to, letter)) = post.pop_front() {
        delivered += 1;
        assert!(delivered < 20, "they never stop");
        let from = &bots[1 - to].key;
        assert_eq!(deliver(&bots[to].receiver, postmark(from, &delivered.to_string()), &letter).await.0, 200);
        for (number, bot) in bots.iter().enumerate() {
            post.extend(bot.letters().await.into_iter().map(|letter| (1 - number, letter)));
        }
    }
    assert_eq!(delivered, 3, "a message, its reply, and a notice");
}
