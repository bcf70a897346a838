//! Skills answer first, then the command, then the acknowledgement; and policies hold.
use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use muretai_plugins::{
    Applicant, Command, ContactState, Decision as PolicyDecision, Response, SkillInfo, Skills, TrustPolicy,
};
use muretai_protocol::{json, json::Value, message::Verified};
use muretai_store::requests::{Decision, RequestKind};
use muretai_transports::Service;

use crate::receive::{
    responder::{CommandSpec, ReplyInput},
    testing::*,
};

/// Answers what begins with `convert`.
struct Convert;

#[async_trait]
impl Skills for Convert {
    fn list(&self) -> Vec<SkillInfo> {
        let text = |text: &str| text.to_owned();
        vec![SkillInfo {
            id: text("convert"),
            name: text("Converter"),
            description: text("Converts units"),
            tags: vec![text("units")],
            examples: vec![text("3 km to m")],
        }]
    }

    async fn respond(&self, message: &Verified, contact: ContactState) -> Option<Response> {
        let rest = message.message().text.strip_prefix("convert ")?;
        let command = |keyword: &str, params: Option<&str>| Command {
            keyword: keyword.to_owned(),
            label: "Again".to_owned(),
            params: params.map(str::to_owned),
        };
        let commands =
            vec![command("convert", Some("what to what")), command("", None), command(&"x".repeat(300), None)];
        Some(Response { commands, ..Response::answer(format!("{rest} for {contact:?}")) })
    }
}

fn command() -> Option<CommandSpec> {
    let timeout = Duration::from_secs(60);
    Some(CommandSpec { command: "printf command".to_owned(), input: ReplyInput::Text, timeout, max_running: 2 })
}

fn text(answer: &Value) -> String {
    let parts = answer.member("result").unwrap().member("parts").unwrap().as_array().unwrap();
    parts.iter().filter_map(|part| part.member("text")?.as_str()).collect()
}

#[tokio::test]
async fn a_skill_comes_before_the_command_and_both_before_the_acknowledgement() {
    for (with_command, other) in [(true, "command"), (false, "")] {
        let world = world(|options| {
            options.skills = Some(Arc::new(Convert));
            options.reply_with = if with_command { command() } else { None };
        })
        .await;
        world.befriend(&key(1)).await;
        let answer = world.send(&key(1), "1", "convert 3 km").await;
        assert_eq!(text(&answer), "3 km for Direct");
        let expected = json!([{"keyword": "convert", "label": "Again", "params": "what to what"}]);
        assert_eq!(metadata(&answer, "commands"), Some(&expected), "what nobody could show is left out");
        let answer = world.send(&key(1), "2", "hello").await;
        assert_eq!((text(&answer).as_str(), metadata(&answer, "commands")), (other, None));
        assert_eq!(metadata(&answer, "auto").is_some(), !with_command);
        // Machines do not answer each other's notices.
        let notice = json!({"auto": true, "status": "accepted"});
        let answer = world.send_with(&key(1), "3", "convert 3 km", notice).await;
        assert_eq!(text(&answer), "");
        assert_eq!(world.stored().await.len(), 2, "and a notice is hidden");
    }
}

#[tokio::test]
async fn the_card_lists_skills_and_follows_policies() {
    let world = world(|options| options.skills = Some(Arc::new(Convert))).await;
    let fetch = async |path: &str| world.receiver.document(path).await.unwrap().body;
    let card = json::parse(&fetch(".well-known/agent-card.json").await).unwrap();
    let skills = card.member("skills").unwrap().as_array().unwrap();
    let expected = json!({"id": "convert", "name": "Converter", "description": "Converts units", "tags": ["units"],
        "examples": ["3 km to m"]});
    assert_eq!(skills.last(), Some(&expected));
    let block = |card: &Value, key: &str| card.member("muretai").unwrap().member(key).unwrap().clone();
    assert_eq!((block(&card, "connect"), block(&card, "trustQuery")), ("filtered".into(), "self".into()));
    assert_eq!(block(&card, "wot"), true.into());
    world.policy("connect", "closed").await;
    world.policy("trust-query", "public").await;
    let card = json::parse(&fetch(".well-known/agent.json").await).unwrap();
    assert_eq!((block(&card, "connect"), block(&card, "trustQuery")), ("closed".into(), "public".into()));
    let envelope = json::parse(&fetch(".well-known/agent-card.sig.json").await).unwrap();
    assert_eq!(envelope.member("card"), Some(&card), "the envelope is of the same card");
}

/// Says one thing of whoever is no contact, and of one method.
struct Fixed(PolicyDecision, &'static str);

#[async_trait]
impl TrustPolicy for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }
    async fn decide(&self, applicant: &Applicant) -> PolicyDecision {
        let is_meant = applicant.method == self.1 && applicant.contact != ContactState::Direct;
        if is_meant { self.0.clone() } else { PolicyDecision::Pass }
    }
}

async fn with_policy(decision: PolicyDecision, method: &'static str) -> World {
    world(|options| options.policies = vec![Arc::new(Fixed(decision, method))]).await
}

#[tokio::test]
async fn a_policy_may_put_a_message_before_the_owner() {
    let world = with_policy(PolicyDecision::Hold, "message/send").await;
    let answer = world.send(&key(1), "1", "hello").await;
    assert_eq!(metadata(&answer, "status").and_then(Value::as_str), Some("held"));
    let row = world.requests().await.pop().unwrap();
    assert_eq!((row.kind, row.held_text.as_deref()), (RequestKind::Message, Some("hello")));
    let second = world.send(&key(1), "2", "hello").await;
    assert_eq!((code(&second), detail(&second)), (-32014, crate::receive::refusals::AWAITING_DECISION));
    let status = world.ask(("trust/status", "trust/status"), &key(1), "3", &[]).await;
    let relation = |answer: &Value| answer.member("result")?.member("relation").cloned();
    assert_eq!(relation(&status), Some("pending".into()), "{}", status.to_json());
    world.decide(Decision::Accept).await;
    assert_eq!(world.stored().await.len(), 1);
    // The next one waits as well: the policy says so, not the contact.
    assert_eq!(metadata(&world.send(&key(1), "2", "hello").await, "status").and_then(Value::as_str), Some("held"));
}

#[tokio::test]
async fn a_policy_may_refuse_a_request_and_cannot_grant_one() {
    let refusal = crate::receive::refusals::no_trust_layer();
    let connect = ("connect/request", "connect/request");
    let world = with_policy(PolicyDecision::Refuse(refusal), "connect/request").await;
    assert_eq!(code(&world.ask(connect, &key(1), "1", &[]).await), -32016);
    let world = with_policy(PolicyDecision::Admit, "connect/request").await;
    assert_eq!(status(&world.ask(connect, &key(1), "1", &[]).await), "pending");
    let world = with_policy(PolicyDecision::Hold, "connect/request").await;
    world.policy("connect", "open").await;
    assert_eq!(status(&world.ask(connect, &key(1), "1", &[]).await), "pending");
    let world = with_policy(PolicyDecision::Admit, "message/send").await;
    let answer = world.ask(("trust/status", "trust/status"), &key(1), "1", &[]).await;
    assert_eq!(answer.member("result").unwrap().member("trusted"), Some(&true.into()), "what would happen is told");
}
