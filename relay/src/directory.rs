//! What a relay keeps beside letters: signed cards, invites, and who is there (9.6). Everything is verified before it is
//! kept, and nobody has to believe it for coming from here.
use bytes::Bytes;
use muretai_protocol::{
    Did, UnixSeconds, base64, card,
    invite::{self, InviteError},
    json::{self, Number, Object, Value},
    urls,
};
use muretai_store::mailboxes::{PutCard, PutInvite};
use muretai_transports::http::site::Answer;

use crate::{
    answer::{Handled, Refusal, json_answer, not_found},
    deposit::check_rate,
    metrics::{Count, Op},
    query,
    shared::{Shared, tail},
};

/// Random bytes of a code, which is 12 characters then.
const CODE_BYTES: usize = 9;
/// Longest code that is looked up.
const MAX_CODE: usize = 64;
/// Codes that are tried before something must be wrong.
const CODE_TRIES: usize = 4;
/// No invite is kept for longer, whatever its card says.
const MAX_INVITE_SECS: i64 = 366 * 86_400;
/// When a DID that has too many invites may find that one has expired.
const INVITE_RETRY_SECS: u64 = 3_600;

/// `POST /card`.
pub(crate) async fn publish(shared: &Shared, body: &Bytes) -> Handled {
    let envelope = json::parse(body).map_err(|_| Refusal::shape("the body is not JSON"))?;
    let now = shared.now();
    let (did, ts) = verify_card(&envelope, now)?;
    check_rate(shared, &did)?;
    let kept = only_signed(&envelope).to_json();
    match shared.ask(Op::Other, shared.store.put_card(&did, ts, &kept)).await? {
        PutCard::Stored => {
            shared.metrics.add(Count::Cards, 1);
            tracing::info!(did = tail(&did), bytes = kept.len(), "card published");
            Ok(json_answer(r#"{"ok":true}"#))
        }
        PutCard::Held(ts) => Err(Refusal::held(ts)),
    }
}

/// Verifies an envelope under its own DID. It may be of any age: an agent that sleeps stays known. It may not be from
/// the future, where it could never be replaced.
fn verify_card(envelope: &Value, now: UnixSeconds) -> Result<(Did, i64), Refusal> {
    use card::EnvelopeError;
    let ts = match envelope.member("ts") {
        Some(Value::Number(number)) => whole_seconds(number),
        _ => None,
    };
    let ts = ts.ok_or_else(|| Refusal::shape("the card envelope's ts is missing or malformed"))?;
    // Judged at its own time, it is of no age; judged now, it may be too new.
    let at = UnixSeconds(now.0.min(ts));
    let expect = card::Expect { did: None, plain_card: None, dialled: None, now: at };
    match card::verify_envelope(envelope, &expect) {
        Ok(card) => Ok((card.did, ts)),
        Err(error @ (EnvelopeError::Shape(_) | EnvelopeError::OtherType | EnvelopeError::Card(_))) => {
            Err(Refusal::shape(error.to_string()))
        }
        Err(error @ EnvelopeError::FromFuture { .. }) => Err(Refusal::shape(error.to_string())),
        Err(error) => Err(Refusal::forged(error.to_string())),
    }
}

/// Old publishers wrote a float (6.6).
fn whole_seconds(ts: &Number) -> Option<i64> {
    let is_sane = |ts: &f64| (0.0..1e12).contains(ts);
    match ts {
        Number::Integer(ts) => Some(*ts),
        Number::Token(_) => ts.as_f64().filter(is_sane).map(|ts| ts.floor() as i64),
    }
}

/// The members that the signature is about; others are nobody's word.
fn only_signed(envelope: &Value) -> Value {
    let mut kept = Object::new();
    for member in ["v", "typ", "card", "ts", "sig"] {
        if let Some(value) = envelope.member(member) {
            kept.insert(member.to_owned(), value.clone());
        }
    }
    kept.into()
}

/// `GET /card/<did>`.
pub(crate) async fn card_of(shared: &Shared, segment: &str) -> Handled {
    let Some(did) = did_of(segment) else { return Ok(not_found()) };
    let card = shared.ask(Op::Other, shared.store.card(&did)).await?;
    Ok(card.map_or_else(not_found, json_answer))
}

/// `GET /presence/<did>`.
pub(crate) async fn presence(shared: &Shared, segment: &str) -> Handled {
    let did = did_of(segment).ok_or_else(|| Refusal::shape("the path must end with a did:key"))?;
    let now = shared.now();
    let mut body = Object::new();
    body.insert("did".to_owned(), did.as_str().into());
    let card = shared.ask(Op::Other, shared.store.card(&did)).await?;
    if card.is_some_and(|card| hides_presence(&card)) {
        body.insert("online".to_owned(), Value::Null);
        body.insert("lastSeen".to_owned(), Value::Null);
    } else if shared.hub.is_listening(&did) {
        body.insert("online".to_owned(), true.into());
        body.insert("lastSeen".to_owned(), now.0.into());
    } else {
        let presence = shared.ask(Op::Other, shared.store.presence(&did, now)).await?;
        body.insert("online".to_owned(), presence.is_online.into());
        body.insert("lastSeen".to_owned(), presence.last_seen.map(|at| at.0).into());
    }
    Ok(json_answer(Value::from(body).to_json()))
}

/// Whether a published card says `muretai.presence:false`.
fn hides_presence(envelope: &str) -> bool {
    // As we wrote it, so that the name has one spelling; most cards need not be parsed.
    envelope.contains("\"presence\"")
        && json::parse(envelope.as_bytes()).is_ok_and(|envelope| {
            let block = envelope.member("card").and_then(|card| card.member("muretai"));
            block.and_then(|block| block.member("presence")).and_then(Value::as_bool) == Some(false)
        })
}

/// `POST /i`.
pub(crate) async fn mint(shared: &Shared, body: &Bytes) -> Handled {
    let card = json::parse(body).map_err(|_| Refusal::shape("the body is not JSON"))?;
    let now = shared.now();
    let invite = invite::verify(card, None, now).map_err(|error| match error {
        InviteError::Forged | InviteError::Unverifiable(_) => Refusal::forged(error.to_string()),
        error => Refusal::shape(error.to_string()),
    })?;
    check_rate(shared, &invite.did)?;
    let card = invite.raw.to_json();
    let until = UnixSeconds(invite.exp.0.min(now.0.saturating_add(MAX_INVITE_SECS)));
    for _ in 0..CODE_TRIES {
        let code = new_code()?;
        let put = shared.store.put_invite(&invite.did, &code, &card, until, now);
        match shared.ask(Op::Other, put).await? {
            (PutInvite::Stored, code) => {
                shared.metrics.add(Count::Invites, 1);
                tracing::info!(did = tail(&invite.did), "invite left");
                return Ok(json_answer(minted(shared, &code)));
            }
            (PutInvite::TooMany, _) => {
                return Err(Refusal::bound("invites", shared.quotas.invites.into(), INVITE_RETRY_SECS));
            }
            (PutInvite::CodeTaken, _) => {}
        }
    }
    Err(Refusal::failing("no free code was found", 1))
}

fn new_code() -> Result<String, Refusal> {
    let mut random = [0; CODE_BYTES];
    getrandom::fill(&mut random).map_err(|_| Refusal::failing("the system has no random bytes", 1))?;
    Ok(base64::encode_url(&random))
}

fn minted(shared: &Shared, code: &str) -> String {
    let mut body = Object::new();
    body.insert("code".to_owned(), code.into());
    body.insert("link".to_owned(), urls::join(&shared.base, &format!("i/{code}")).into());
    Value::from(body).to_json()
}

/// `GET /i/<code>`.
pub(crate) async fn invite(shared: &Shared, code: &str) -> Handled {
    let is_code = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if code.is_empty() || code.len() > MAX_CODE || !code.bytes().all(is_code) {
        return Ok(not_found());
    }
    let card = shared.ask(Op::Other, shared.store.invite(code, shared.now())).await?;
    Ok(card.map_or_else(not_found, |card| Answer { ..json_answer(card) }))
}

fn did_of(segment: &str) -> Option<Did> {
    query::decode(segment)?.parse().ok()
}
