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
};
use muretai_store::{
    contacts::{CoordinateSource, Introduce},
    invites::ClaimOutcome,
};

use crate::{
    Agent,
    receive::{
        ladder::Passed,
        methods::params::ClaimParams,
        refusals::{self as say, plain},
        return_address::ReturnAddress,
    },
};

/// What the signed text of a claim must be.
const METHOD: &str = "onboard/claim";

/// What was signed must be a claim: any other message of the same sender would otherwise serve as one.
pub(crate) fn check_text(passed: &Passed) -> Result<(), Refusal> {
    if passed.verified.message().text == METHOD {
        return Ok(());
    }
    Err(plain(Code::InvalidParams, say::CLAIM_TEXT))
}

/// Redeems the nonce of a claim that [`check_text`] let pass, in one transaction with the contact and the handled id,
/// and writes the result.
pub(crate) async fn redeem(
    agent: &Agent,
    url: &str,
    passed: Passed,
    params: ClaimParams,
    now: UnixSeconds,
) -> Result<Value, Refusal> {
    let handling = passed.handling();
    let Passed { verified, digest, claim, .. } = passed;
    if verified.from() == agent.did() {
        return Err(plain(Code::IntroductionInvalid, say::INVITE_INVALID));
    }
    let introduce = Introduce {
        did: verified.from().clone(),
        peer_name: params.peer.name,
        own_name: Some(agent.name().to_owned()),
        coordinates: params.peer.coordinates,
        source: CoordinateSource::Peer,
        allow_private: false,
        now,
    };
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

/// The same for a claim that came as a letter: nobody waits for the result, so a notice tells the claimer.
pub(crate) async fn redeem_letter(
    agent: &Agent,
    url: &str,
    passed: Passed,
    params: ClaimParams,
    back: ReturnAddress,
    now: UnixSeconds,
) -> Result<Value, Refusal> {
    let _ = back;
    redeem(agent, url, passed, params, now).await
}

/// The result (5.2): who we are, and where.
pub(crate) fn welcome(agent: &Agent, url: &str) -> Value {
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
