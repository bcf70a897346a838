//! An agent in a temporary folder, and requests to it, for the tests of this folder.
use muretai_protocol::{
    Did, MessageId, UnixSeconds,
    introduction::{self, IntroductionSpec},
    json::{self, Object, Value},
    message::{self, Draft, Role},
    sign::{Seed, SigningKey},
};
use muretai_store::{
    contacts::{CoordinateSource, Coordinates, Introduce},
    messages::{OutStatus, Outgoing},
    outbox::Keep,
};
use muretai_transports::{ClientTimeouts, Incoming, Postmark, Service, Way, http::HttpTransport};
use std::time::Duration;

use super::{
    refusals,
    service::{Receiver, ReceiverOptions},
};
use crate::{Agent, home::AgentDir};

/// A receiver whose folder lives as long as it does.
pub(crate) struct World {
    pub(crate) agent: Agent,
    pub(crate) receiver: Receiver,
    _folder: tempfile::TempDir,
}

pub(crate) fn key(n: u8) -> SigningKey {
    SigningKey::from_seed(&Seed::from_bytes([n; 32]))
}

pub(crate) async fn agent_in(folder: &std::path::Path) -> Agent {
    agent_of(folder, 200).await
}

/// The agent whose key is [`key`] of this number.
pub(crate) async fn agent_of(folder: &std::path::Path, n: u8) -> Agent {
    let dir = AgentDir { name: "south".to_owned(), path: folder.to_owned() };
    let second = Duration::from_secs(1);
    let http = HttpTransport::client(ClientTimeouts { connect: second, total: second });
    Agent::open(dir, &Seed::from_bytes([n; 32]), http).await.unwrap()
}

pub(crate) async fn world(change: impl FnOnce(&mut ReceiverOptions)) -> World {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent_in(folder.path()).await;
    let url = "http://127.0.0.1:9000".to_owned();
    let mut options = ReceiverOptions { url, ..ReceiverOptions::default() };
    change(&mut options);
    World { receiver: Receiver::new(&agent, &options), agent, _folder: folder }
}

impl World {
    /// Makes a key a direct contact.
    pub(crate) async fn befriend(&self, key: &SigningKey) {
        self.befriend_at(key, None).await;
    }
    /// Makes a key a direct contact that is served somewhere.
    pub(crate) async fn befriend_at(&self, key: &SigningKey, url: Option<&str>) {
        let who = Introduce {
            did: key.did().clone(),
            peer_name: Some("north".to_owned()),
            own_name: None,
            coordinates: Coordinates { url: url.map(str::to_owned), ..Coordinates::default() },
            source: CoordinateSource::Owner,
            allow_private: false,
            now: crate::agent::now(),
        };
        self.agent.store().connect(&who).await.unwrap();
    }
    pub(crate) async fn block(&self, key: &SigningKey) {
        self.agent.store().set_blocked(key.did(), true, crate::agent::now()).await.unwrap();
    }
    /// Sets a policy, and lets the second pass after which it counts.
    pub(crate) async fn policy(&self, name: &str, value: &str) {
        self.agent.set_policy(name, value).await.unwrap();
        self.receiver.forget_policies();
    }
    /// Calls a method whose signed text is this.
    pub(crate) async fn ask(
        &self,
        (method, text): (&str, &str),
        from: &SigningKey,
        id: &str,
        more: &[(&'static str, Value)],
    ) -> Value {
        let mut params = vec![("message", self.message(from, id, text))];
        params.extend(more.iter().cloned());
        self.call(&frame(method, object(params))).await
    }
    /// Sends a message with unsigned metadata.
    pub(crate) async fn send_with(&self, from: &SigningKey, id: &str, text: &str, extra: Value) -> Value {
        let Value::Object(extra) = extra else { panic!("not an object") };
        let message_id = MessageId::new(id).unwrap();
        let draft = Draft {
            role: Role::User,
            to: self.agent.did().as_str(),
            message_id: &message_id,
            context_id: Some("c1"),
            text,
            timestamp: crate::agent::now(),
            extra,
        };
        self.call(&request("message/send", message::sign(from, &draft))).await
    }
    /// An introduction to this agent.
    pub(crate) fn vc(&self, issuer: &SigningKey, subject: &SigningKey, id: u8) -> Value {
        vc(issuer, subject.did(), self.agent.did(), id)
    }
    pub(crate) async fn requests(&self) -> Vec<muretai_store::requests::RequestRow> {
        self.agent.store().requests(true, crate::agent::now()).await.unwrap()
    }
    /// Decides the newest request.
    pub(crate) async fn decide(&self, decision: muretai_store::requests::Decision) {
        let row = self.requests().await.pop().unwrap();
        let now = crate::agent::now();
        self.agent.store().decide(row.id, decision, None, "south", Vec::new(), now).await.unwrap();
    }
    pub(crate) async fn raw(&self, body: impl Into<Vec<u8>>, version: Option<&str>) -> (u16, Value) {
        let body = body.into().into();
        let request = Incoming { body, a2a_version: version.map(str::to_owned), remote: None, way: Default::default() };
        let outcome = self.receiver.call(request).await;
        (outcome.status, json::parse(&outcome.body).unwrap())
    }
    /// Calls and gives the answer; the status must be 200.
    pub(crate) async fn call(&self, body: &Value) -> Value {
        let (status, answer) = self.raw(body.to_json(), None).await;
        assert_eq!(status, 200);
        answer
    }
    /// A signed message to this agent.
    pub(crate) fn message(&self, from: &SigningKey, id: &str, text: &str) -> Value {
        message_to(self.agent.did(), from, id, text, crate::agent::now())
    }
    pub(crate) async fn send(&self, from: &SigningKey, id: &str, text: &str) -> Value {
        self.call(&request("message/send", self.message(from, id, text))).await
    }
    pub(crate) async fn stored(&self) -> Vec<muretai_store::messages::MessageRow> {
        self.agent.store().messages(&Default::default()).await.unwrap()
    }
}

/// An introduction for a minute.
pub(crate) fn vc(issuer: &SigningKey, subject: &Did, target: &Did, id: u8) -> Value {
    vc_at(issuer, subject, target, id, None)
}

/// The same with the address where its issuer is asked about it.
pub(crate) fn vc_at(issuer: &SigningKey, subject: &Did, target: &Did, id: u8, endpoint: Option<&str>) -> Value {
    let now = crate::agent::now();
    let spec = IntroductionSpec {
        id: [id; 16],
        subject,
        target,
        expertise: &["bread".to_owned()],
        trust_level_bp: 850,
        issued: now,
        valid_until: UnixSeconds(now.0 + 60),
        request: None,
        issuer_endpoint: endpoint,
    };
    introduction::mint(issuer, &spec).unwrap()
}

/// The id that [`vc`] gives.
pub(crate) fn vc_id(id: u8) -> String {
    format!("urn:uuid:{}", format!("{id:02x}").repeat(16))
}

/// The metadata of a reply.
pub(crate) fn metadata<'a>(answer: &'a Value, key: &str) -> Option<&'a Value> {
    answer.member("result")?.member("metadata")?.member(key)
}

pub(crate) fn status(answer: &Value) -> &str {
    let result = answer.member("result").unwrap_or_else(|| panic!("{}", answer.to_json()));
    result.member("status").and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn message_to(to: &Did, from: &SigningKey, id: &str, text: &str, timestamp: UnixSeconds) -> Value {
    let message_id = MessageId::new(id).unwrap();
    message::sign(
        from,
        &Draft {
            role: Role::User,
            to: to.as_str(),
            message_id: &message_id,
            context_id: Some("c1"),
            text,
            timestamp,
            extra: Object::new(),
        },
    )
}

pub(crate) fn object(members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

pub(crate) fn frame(method: &str, params: Value) -> Value {
    object([("jsonrpc", "2.0".into()), ("id", "r1".into()), ("method", method.into()), ("params", params)])
}

pub(crate) fn request(method: &str, message: Value) -> Value {
    frame(method, object([("message", message)]))
}

/// Walks to a member, for changing it.
pub(crate) fn at<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Object {
    let mut here = value;
    for key in path {
        here = match here {
            Value::Object(members) => members.get_mut(key).unwrap(),
            _ => panic!("no member {key}"),
        };
    }
    match here {
        Value::Object(members) => members,
        _ => panic!("not an object"),
    }
}

/// The code of an error, or 0 for a result.
pub(crate) fn code(answer: &Value) -> i64 {
    answer.member("error").map_or(0, |error| error.member("code").unwrap().as_i64().unwrap())
}

pub(crate) fn data<'a>(answer: &'a Value, key: &str) -> Option<&'a Value> {
    answer.member("error")?.member("data")?.member(key)
}

pub(crate) fn detail(answer: &Value) -> &str {
    data(answer, "detail").and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn is_duplicate(answer: &Value) -> bool {
    code(answer) == -32002
        && detail(answer) == refusals::REPEATED
        && data(answer, "duplicate").and_then(Value::as_bool) == Some(true)
}

/// What a relay says about a letter of a key, by this number.
pub(crate) fn postmark(from: &SigningKey, qid: &str) -> Postmark {
    Postmark {
        relay: RELAY.to_owned(),
        qid: qid.to_owned(),
        id: format!("deposit-{qid}"),
        from: from.did().to_string(),
        enc_pub: Some(enc_pub(1)),
        ts: crate::agent::now().0,
    }
}

/// The relay that letters come from.
pub(crate) const RELAY: &str = "https://relay.example";

/// A sealing key in hex.
pub(crate) fn enc_pub(n: u8) -> String {
    format!("{n:02x}").repeat(32)
}

impl World {
    /// Hands over a letter; gives the status and the answer that nobody hears.
    pub(crate) async fn letter(&self, postmark: Postmark, body: &Value) -> (u16, Value) {
        deliver(&self.receiver, postmark, body).await
    }

    /// A letter with a signed message; the status must be 200.
    pub(crate) async fn mail(&self, from: &SigningKey, id: &str, text: &str) -> Value {
        let body = request("message/send", self.message(from, id, text));
        let (status, answer) = self.letter(postmark(from, id), &body).await;
        assert_eq!(status, 200);
        answer
    }

    /// A letter with unsigned metadata and this role.
    pub(crate) async fn mail_with(
        &self,
        from: &SigningKey,
        (id, text): (&str, &str),
        role: Role,
        extra: Value,
    ) -> Value {
        let Value::Object(extra) = extra else { panic!("not an object") };
        let message_id = MessageId::new(id).unwrap();
        let (to, timestamp) = (self.agent.did().as_str(), crate::agent::now());
        let draft = Draft { role, to, message_id: &message_id, context_id: Some("c1"), text, timestamp, extra };
        let body = request("message/send", message::sign(from, &draft));
        let (status, answer) = self.letter(postmark(from, id), &body).await;
        assert_eq!(status, 200);
        answer
    }

    /// What is on its way out, notices too.
    pub(crate) async fn outbox(&self) -> Vec<muretai_store::outbox::OutboxRow> {
        self.agent.store().outbox(true).await.unwrap()
    }

    /// What was refused: code and reason.
    pub(crate) async fn rejected(&self) -> Vec<(Option<i64>, String)> {
        let rejected = self.agent.store().rejected(100).await.unwrap();
        rejected.into_iter().map(|letter| (letter.code, letter.reason)).collect()
    }

    /// Writes a message of ours to a key, as if it lay at a relay.
    pub(crate) async fn sent_to(&self, to: &SigningKey, id: &str) {
        let now = crate::agent::now();
        let outgoing = Outgoing {
            peer: to.did().to_string(),
            message_id: id.to_owned(),
            context_id: Some("c1".to_owned()),
            reply_to: None,
            text: "a question".to_owned(),
            timestamp: now,
            sig: None,
            target: None,
            is_auto: false,
            keep: Some(Keep {
                expires: UnixSeconds(now.0 + 600),
                via: None,
                allow_private: false,
                extra: None,
                relay: None,
                enc_pub: None,
                lease: None,
            }),
        };
        let seq = self.agent.store().queue_outgoing(&outgoing).await.unwrap();
        self.agent.store().record_at_relay(seq, RELAY, now, UnixSeconds(now.0 + 600)).await.unwrap();
    }

    /// What became of a message of ours.
    pub(crate) async fn status_of(&self, id: &str) -> (OutStatus, Option<i64>) {
        let row = self.agent.store().outgoing(id).await.unwrap().unwrap();
        (row.status.unwrap(), row.code)
    }
}

/// Hands a letter to a receiver.
pub(crate) async fn deliver(receiver: &Receiver, postmark: Postmark, body: &Value) -> (u16, Value) {
    let body = body.to_json().into_bytes().into();
    let request = Incoming { body, a2a_version: None, remote: None, way: Way::Mailbox(postmark) };
    let outcome = receiver.call(request).await;
    (outcome.status, json::parse(&outcome.body).unwrap())
}
