//! The replay: one signed request, put on the wire twice, byte for byte.

use std::time::Duration;

use bytes::Bytes;
use muretai_node::{Home, agent, keyfile};
use muretai_protocol::{
    Did, MessageId, card, json,
    json::Object,
    message::{self, Asked, Draft, Role},
    rpc::{self, Answer},
    sign::SigningKey,
};
use muretai_transports::{
    ClientTimeouts,
    guard::Policy,
    http::{Fetched, HttpTransport},
};

use super::stage::{Stage, Told};
use crate::{failure::Failure, people};

const TIMEOUTS: ClientTimeouts = ClientTimeouts { connect: Duration::from_secs(5), total: Duration::from_secs(20) };

/// Signs a message of north's, posts it, posts it again, and expects an answer and a refusal.
pub(super) async fn play(stage: &Stage, home: &Home, url: &str, south: &str) -> Result<(), Failure> {
    let key = north(home)?;
    let south: Did = south.parse().map_err(|error| Failure::io("the tour broke: south has no DID", &error))?;
    let id = MessageId::from_random(agent::random());
    let draft = Draft {
        role: Role::User,
        to: south.as_str(),
        message_id: &id,
        context_id: None,
        text: "pay the bill",
        timestamp: agent::now(),
        extra: Object::new(),
    };
    let signed = message::sign(&key, &draft);
    let request = Bytes::from(rpc::request(id.as_str(), "message/send", &json!({ "message": signed })));
    let asked = Asked { addressed: &south, me: key.did(), message_id: &id, context_id: None };

    let first = post(stage, url, &request, &asked).await?;
    first.expect_answer("a signed reply", |told| told.stdout.contains("PAY THE BILL"))?;
    let second = post(stage, url, &request, &asked).await?;
    second.expect_answer("the refusal -32002", |told| told.stdout.contains("-32002"))
}

fn north(home: &Home) -> Result<SigningKey, Failure> {
    let attempt = "the tour cannot read north's key";
    let dir = home.dir_for("north").map_err(|error| Failure::of(attempt, &error))?;
    let seed = keyfile::read(&dir, None).map_err(|error| Failure::of(attempt, &error))?;
    Ok(SigningKey::from_seed(&seed))
}

async fn post(stage: &Stage, url: &str, request: &Bytes, asked: &Asked<'_>) -> Result<Told, Failure> {
    let address = card::post_address(url);
    let sent = format!("The signed request, {} bytes, goes to {address}:", request.len());
    stage.say(&sent)?;
    let answer = HttpTransport::client(TIMEOUTS).post(&address, request.clone(), &[], Policy::Owner).await;
    let answer = answer.map_err(|error| Failure::io("the tour cannot post a request", &error))?;
    let told = Told::of_request(format!("POST {address}"), judged(&answer, asked));
    stage.show(&told)?;
    Ok(told)
}

/// What `send` would say about this answer: the verified text, or the refusal.
fn judged(answer: &Fetched, asked: &Asked<'_>) -> String {
    match rpc::parse_answer(&answer.body, asked.message_id.as_str()) {
        Ok(Answer::Result(reply)) => match message::verify_reply(reply, asked, agent::now()) {
            Ok(reply) => format!("signed reply, verified: {}\n", people::shown(&reply.message().text)),
            Err(error) => format!("{error}\n"),
        },
        Ok(Answer::Error { code, message, data }) => {
            let data = data.map(|data| data.to_json()).unwrap_or_default();
            format!("refused: {code} {} {}\n", people::shown(&message), people::shown(&data))
        }
        Err(error) => format!("HTTP {}: {error}\n", answer.status),
    }
}
