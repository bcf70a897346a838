//! `connect/request` and `connect/respond` (5.2): trust without an invite, when both sides want it.
use muretai_protocol::{
    Did,
    json::{Object, Value},
    rpc::{Code, Refusal},
};
use muretai_store::{
    contacts::{CoordinateSource, Introduce},
    requests::{Answered, Decision, Filed, NewRequest, RequestKind},
};
use sha2::{Digest, Sha256};

use super::{
    Desk,
    claim::welcome,
    internal, note,
    params::{ConnectAnswer, ConnectParams, PeerFacts},
};
use crate::{
    Agent,
    mail::tail,
    receive::{
        gate::fresh_introduction,
        ladder::Passed,
        refusals::{self as say, plain},
    },
    trust::policies::ConnectPolicy,
};

const REQUEST: &str = "connect/request";
const RESPOND: &str = "connect/respond";

/// Files a request, or grants it.
pub(crate) async fn request(desk: &Desk<'_>, passed: Passed, params: ConnectParams) -> Result<Value, Refusal> {
    let note = note(&passed, REQUEST, params.note.as_deref())?;
    let from = passed.verified.from();
    if from == desk.agent.did() {
        return Err(connected());
    }
    if passed.is_from_contact() {
        // A contact that was not served when it connected says where it is now; a stronger word stands (7.4).
        let (store, peer) = (desk.agent.store(), CoordinateSource::Peer);
        store.update_coordinates(from, &params.peer.coordinates, peer).await.map_err(internal)?;
        return Err(connected());
    }
    let sender = desk.sender(&passed, REQUEST, params.vc.as_ref());
    let facts = match desk.policies.connect {
        ConnectPolicy::Closed => None,
        _ => fresh_introduction(desk.agent, &sender, &desk.policies).await.map_err(internal)?,
    };
    let must_wait = desk.ask_gate(&passed, REQUEST, facts.as_ref()).await?;
    if desk.policies.connect == ConnectPolicy::Closed {
        return Err(closed());
    }
    let is_open = desk.policies.connect == ConnectPolicy::Open && !must_wait;
    let request_id = request_id(desk.agent, from);
    let request = NewRequest {
        kind: RequestKind::Connect,
        peer: from.clone(),
        via: facts.as_ref().map(|facts| facts.issuer.clone()),
        about: None,
        wire_id: Some(request_id.clone()),
        peer_name: params.peer.name,
        note,
        coordinates: params.peer.coordinates,
        record: None,
        is_vouched: facts.is_some(),
        created: desk.now,
        expires: desk.request_expires(),
    };
    let (handling, own_name) = (passed.handling(), desk.agent.name());
    let filed = desk.agent.store().file_connect(&request, is_open, own_name, desk.limits(), &handling).await;
    let status = match filed.map_err(internal)? {
        // Somebody who is blocked hears what a stranger would.
        Filed::Pending(_) if is_open => "accepted",
        Filed::Pending(_) => "pending",
        Filed::Connected(contact) => {
            tracing::info!(from = tail(&contact.did), name = contact.name, "a connection was made");
            "accepted"
        }
        Filed::AlreadyConnected(_) => return Err(connected()),
        Filed::Rejected => return Err(closed()),
        Filed::Full { retry_after_secs } => return Err(say::full(retry_after_secs)),
        Filed::Duplicate { same_content } => return Err(passed.duplicate(same_content)),
    };
    passed.done();
    filed_result(desk, status, request_id).await
}

/// Takes the answer to a request of ours. Without one, nobody's yes makes trust.
pub(crate) async fn respond(desk: &Desk<'_>, passed: Passed, params: ConnectAnswer) -> Result<Value, Refusal> {
    note(&passed, RESPOND, None)?;
    if passed.standing.is_blocked {
        return Err(say::no_such_request());
    }
    let ConnectAnswer { decision, peer } = params;
    let who = who(desk, passed.verified.from(), peer);
    let answered = desk.agent.store().settle_connect(&who, decision, &passed.handling()).await;
    let status = match answered.map_err(internal)? {
        Answered::Connected(contact) => {
            tracing::info!(from = tail(&contact.did), name = contact.name, "a request to connect was accepted");
            "connected"
        }
        Answered::Rejected => "rejected",
        Answered::NoSuch => return Err(say::no_such_request()),
        Answered::Duplicate { same_content } => return Err(passed.duplicate(same_content)),
    };
    passed.done();
    let is_connected = decision == Decision::Accept;
    let mut result = if is_connected { about_us(desk).await? } else { Object::new() };
    result.insert("status".to_owned(), status.into());
    Ok(result.into())
}

fn who(desk: &Desk<'_>, did: &Did, peer: PeerFacts) -> Introduce {
    Introduce {
        did: did.clone(),
        peer_name: peer.name,
        own_name: Some(desk.agent.name().to_owned()),
        coordinates: peer.coordinates,
        source: CoordinateSource::Peer,
        allow_private: false,
        now: desk.now,
    }
}

async fn filed_result(desk: &Desk<'_>, status: &str, request_id: String) -> Result<Value, Refusal> {
    let mut result = if status == "accepted" { about_us(desk).await? } else { Object::new() };
    result.insert("status".to_owned(), status.into());
    result.insert("requestId".to_owned(), request_id.into());
    Ok(result.into())
}

/// Name and coordinates, for somebody who is connected now; additive.
async fn about_us(desk: &Desk<'_>) -> Result<Object, Refusal> {
    let welcome = welcome(desk.agent, desk.url).await.map_err(internal)?;
    let Value::Object(mut members) = welcome else { return Ok(Object::new()) };
    members.remove("ok");
    Ok(members)
}

/// The wire's name of a request: the same for whoever asks, known, unknown or blocked, and told by nobody else.
///
/// The signature is the keyed hash; what is signed is no JSON, and so no message.
fn request_id(agent: &Agent, peer: &Did) -> String {
    let secret = agent.key().sign(format!("muretai request id, version 1\n{}", peer.as_str()).as_bytes());
    let hash: [u8; 32] = Sha256::digest(secret).into();
    hash[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn connected() -> Refusal {
    plain(Code::AlreadyConnected, say::CONNECTED)
}

fn closed() -> Refusal {
    plain(Code::ConnectNotAccepted, say::CONNECT_CLOSED)
}
