//! `onboard/claim` (section 7.4): redeems an invite for mutual trust. The gate is skipped; the nonce guards.
//!
//! Everything that can be wrong with the request is found before the nonce is looked at, so a bad request never
//! spends an invite. A claim that was accepted is stored with its message id: the same request again is answered
//! `-32002` with `duplicate:true` like every handled message (4.5), while a *new* request of the same DID with the same
//! nonce gets the same success, so that a lost answer strands nobody.
use muretai_protocol::{
    UnixSeconds,
    json::{Object, Value},
    rpc::{Code, Refusal},
    text, urls,
};
use muretai_store::{
    contacts::{CoordinateSource, Coordinates, Introduce},
    invites::ClaimOutcome,
    messages::Handling,
};

use muretai_transports::guard::{self, Policy};

use crate::{
    Agent,
    receive::{
        ladder::Passed,
        refusals::{self as say, plain},
    },
};

/// What the signed text of a claim must be.
const METHOD: &str = "onboard/claim";

/// The parameters beside the message, of the right types and shapes.
#[derive(Debug, PartialEq, Eq)]
pub struct ClaimParams {
    /// The invite's one-time value.
    pub nonce: String,
    /// What the claimer calls itself, safe to show.
    pub name: Option<String>,
    /// Where it says that it is.
    pub coordinates: Coordinates,
}

impl ClaimParams {
    /// Row e for this method: absent and `null` are the same; a coordinate of a bad shape is refused, not dropped,
    /// so that the claimer learns of it while its invite is unspent.
    pub(crate) fn read(params: &mut Object) -> Result<ClaimParams, Refusal> {
        let mut take = |key: &str, wrong: &'static str| match params.remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(plain(Code::InvalidParams, wrong)),
        };
        let nonce = take("nonce", say::NONCE_NOT_A_STRING)?
            .ok_or_else(|| plain(Code::InvalidParams, say::NONCE_NOT_A_STRING))?;
        let name = take("name", say::NAME_NOT_A_STRING)?;
        let url = take("url", say::BAD_URL)?.filter(|url| !url.is_empty());
        let relay = take("relay", say::BAD_RELAY)?.filter(|relay| !relay.is_empty());
        let enc_pub = take("enc_pub", say::BAD_ENC_PUB)?;
        check(&url, |url| urls::check_base(url).is_ok() && is_dialable(url), say::BAD_URL)?;
        check(&relay, |relay| urls::is_plain_url(relay) && is_dialable(relay), say::BAD_RELAY)?;
        check(&enc_pub, is_enc_pub, say::BAD_ENC_PUB)?;
        let name = name.map(|name| text::peer_name(&name)).filter(|name| !name.is_empty());
        Ok(ClaimParams { nonce, name, coordinates: Coordinates { url, relay, enc_pub } })
    }
}

/// Longest URL of a peer that is kept.
const MAX_URL_BYTES: usize = 2_048;

fn check(value: &Option<String>, is_right: impl Fn(&str) -> bool, wrong: &'static str) -> Result<(), Refusal> {
    match value {
        Some(value) if value.len() > MAX_URL_BYTES || !is_right(value) => Err(plain(Code::InvalidParams, wrong)),
        _ => Ok(()),
    }
}

/// Whether anybody could ever be there: no link-local, wildcard or multicast address, however it is spelled.
fn is_dialable(url: &str) -> bool {
    guard::check_url(url, Policy::Owner).is_ok()
}

fn is_enc_pub(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// What was signed must be a claim: any other message of the same sender would otherwise serve as one.
pub(crate) fn check_text(passed: &Passed) -> Result<(), Refusal> {
    if passed.verified.message().text == METHOD {
        return Ok(());
    }
    Err(plain(Code::InvalidParams, say::CLAIM_TEXT))
}

/// Redeems the nonce of a claim that [`check_text`] let pass, in one transaction with the contact and the handled id, and writes the result.
pub(crate) async fn redeem(
    agent: &Agent,
    url: &str,
    passed: Passed,
    params: ClaimParams,
    now: UnixSeconds,
) -> Result<Value, Refusal> {
    let Passed { verified, digest, claim, .. } = passed;
    let message = verified.message();
    if verified.from() == agent.did() {
        return Err(plain(Code::IntroductionInvalid, say::INVITE_INVALID));
    }
    let introduce = Introduce {
        did: verified.from().clone(),
        peer_name: params.name,
        own_name: Some(agent.name().to_owned()),
        coordinates: params.coordinates,
        source: CoordinateSource::Peer,
        allow_private: false,
        now,
    };
    let message_id = message.message_id.as_str().to_owned();
    let handling = Handling { from: verified.from().clone(), message_id, digest };
    let outcome = agent.store().claim_invite(&params.nonce, &introduce, &handling).await;
    match outcome {
        Ok(ClaimOutcome::Accepted(contact)) => {
            tracing::info!(from = %contact.did, name = contact.name, "an invite was claimed");
        }
        Ok(ClaimOutcome::Repeated(_)) => {}
        Ok(ClaimOutcome::Refused(reason)) => {
            // The reason is for the owner: on the wire all of them are one answer.
            tracing::info!(from = %verified.from(), ?reason, "a claim was refused");
            return Err(plain(Code::IntroductionInvalid, say::INVITE_INVALID));
        }
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a claim could not be stored");
            return Err(say::internal());
        }
    }
    claim.confirm(digest);
    Ok(welcome(agent, url))
}

/// The result (5.2): who we are, and where.
fn welcome(agent: &Agent, url: &str) -> Value {
    let mut result = Object::new();
    result.insert("ok".to_owned(), true.into());
    result.insert("did".to_owned(), agent.did().as_str().into());
    result.insert("name".to_owned(), agent.name().into());
    result.insert("enc_pub".to_owned(), agent.enc_pub().into());
    if !url.is_empty() {
        result.insert("url".to_owned(), url.into());
    }
    result.into()
}
