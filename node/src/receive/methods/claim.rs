//! `onboard/claim` (section 7.4): redeems an invite for mutual trust. The gate is skipped; the nonce guards.
//!
//! Everything that can be wrong with the request is found before the nonce is looked at, so a bad request never
//! spends an invite. A claim that was accepted is stored with its message id: the same request again is answered
//! `-32002` with `duplicate:true` like every handled message (4.5), while a *new* request of the same DID with the same
//! nonce gets the same success, so that a lost answer strands nobody.
//!
//! A claim that lay in a mailbox is answered by a notice (9.6).
use muretai_protocol::{
    Did, MessageId, UnixSeconds,
    json::{Object, Value},
    rpc::{Code, Refusal},
};
use muretai_store::{
    StoreError,
    contacts::{Contact, CoordinateSource, Introduce, Relation},
    invites::ClaimOutcome,
    messages::Outgoing,
};
use muretai_transports::Postmark;
use sha2::{Digest, Sha256};

use crate::{
    Agent,
    invites::{CLAIM_REFUSED, CLAIMED},
    mail::tail,
    receive::{
        ladder::Passed,
        methods::{internal, params::ClaimParams},
        refusals::{self as say, plain},
        return_address::ReturnAddress,
    },
    send::notice::{Notice, outgoing_notice},
};

/// What a notice says to the owner of whoever claimed.
const ACCEPTED: &str = "I have accepted your claim of my invite.";
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
    redeem_and_tell(agent, url, passed, params, None, now).await
}

/// The same, with a notice that is put into the outbox in that transaction.
async fn redeem_and_tell(
    agent: &Agent,
    url: &str,
    passed: Passed,
    params: ClaimParams,
    notice: Option<&Outgoing>,
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
    let store = agent.store();
    let outcome = match notice {
        Some(notice) => store.claim_invite_by_mail(&params.nonce, &introduce, &handling, notice).await,
        None => store.claim_invite(&params.nonce, &introduce, &handling).await,
    };
    match outcome {
        Ok(ClaimOutcome::Accepted(contact)) => {
            tracing::info!(from = tail(&contact.did), name = contact.name, "an invite was claimed");
        }
        Ok(ClaimOutcome::Repeated(_)) => {}
        Ok(ClaimOutcome::Refused(reason)) => {
            // The reason is for the owner: on the wire all of them are one answer.
            tracing::info!(from = tail(verified.from()), ?reason, "a claim was refused");
            return Err(plain(Code::IntroductionInvalid, say::INVITE_INVALID));
        }
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a claim could not be stored");
            return Err(say::internal());
        }
    }
    claim.confirm(digest);
    welcome(agent, url).await.map_err(internal)
}

/// The same for a claim that came as a letter: nobody waits for the result, so a notice tells the claimer, whoever it is.
/// It is told once about each claim, and what cannot be told is not done.
pub(crate) async fn redeem_letter(
    agent: &Agent,
    url: &str,
    passed: Passed,
    params: ClaimParams,
    back: ReturnAddress,
    now: UnixSeconds,
) -> Result<Value, Refusal> {
    let claimer = Claimer::of(&passed, &params, back);
    let result = welcome(agent, url).await.map_err(internal)?;
    let extra = Object::from([("claim".to_owned(), result)]);
    let accepted = claimer.notice(CLAIMED, ACCEPTED.to_owned(), extra);
    let outcome = redeem_and_tell(agent, url, passed, params, Some(&accepted), now).await;
    match &outcome {
        Ok(_) => agent.outbox_written().notify_one(),
        // Ours is the fault, and the letter is brought again.
        Err(refusal) if refusal.code == Code::Internal => {}
        Err(refusal) => {
            let code = refusal.code.number();
            let extra = Object::from([("code".to_owned(), code.into())]);
            let text = format!("I did not accept your claim of an invite: {}.", say_why(refusal));
            let refused = claimer.notice(CLAIM_REFUSED, text, extra);
            agent.store().queue_once(&refused).await.map_err(internal)?;
            agent.outbox_written().notify_one();
        }
    }
    outcome
}

/// For the claimer's owner.
fn say_why(refusal: &Refusal) -> &str {
    match refusal.code {
        Code::IntroductionInvalid => "it is unknown, used, expired or revoked",
        _ => refusal.code.message(),
    }
}

/// Tells a claimer who did not wait for the answer that it was accepted; says whether `answer` was that.
pub(crate) async fn accepted_unheard(
    agent: &Agent,
    postmark: &Postmark,
    (id, result): (&Value, &Value),
) -> Result<bool, StoreError> {
    let is_welcome = result.member("ok").and_then(Value::as_bool) == Some(true)
        && result.member("did").and_then(Value::as_str) == Some(agent.did().as_str());
    let (Some(asked), Ok(did)) = (id.as_str().and_then(MessageId::new), postmark.from.parse::<Did>()) else {
        return Ok(false);
    };
    let contact = agent.store().contact(&did).await?;
    let is_direct = |contact: &Contact| contact.relation == Relation::Direct && !contact.is_blocked;
    if !is_welcome || !contact.as_ref().is_some_and(is_direct) {
        return Ok(false);
    }
    let to = ReturnAddress::of_postmark(postmark).fallback();
    let claimer = Claimer { did, message_id: asked, to };
    let extra = Object::from([("claim".to_owned(), result.clone())]);
    agent.store().queue_once(&claimer.notice(CLAIMED, ACCEPTED.to_owned(), extra)).await?;
    Ok(true)
}

/// Whoever claims by a letter, and where the answer goes.
struct Claimer {
    did: Did,
    message_id: MessageId,
    to: Option<(String, String)>,
}

impl Claimer {
    /// A claim says where its answer is waited for; the letter says so of claims that do not.
    fn of(passed: &Passed, params: &ClaimParams, back: ReturnAddress) -> Claimer {
        let told = &params.peer.coordinates;
        let to = told.relay.clone().zip(told.enc_pub.clone()).or_else(|| back.fallback());
        let message_id = passed.verified.message().message_id.clone();
        Claimer { did: passed.verified.from().clone(), message_id, to }
    }

    /// The same notice whenever the same claim is answered so.
    fn notice(&self, status: &'static str, text: String, extra: Object) -> Outgoing {
        let asked = self.message_id.as_str();
        let digest: [u8; 32] = Sha256::digest(format!("{status}|{}|{asked}", self.did)).into();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        let notice = Notice {
            to: self.did.clone(),
            status,
            text,
            reply_to: Some(asked.to_owned()),
            context_id: None,
            extra,
            fallback: self.to.clone(),
        };
        outgoing_notice(&MessageId::from_random(id), notice)
    }
}

/// The result (5.2): who we are, and where.
pub(crate) async fn welcome(agent: &Agent, url: &str) -> Result<Value, StoreError> {
    let relay = agent.mailboxes().await?.into_iter().next();
    let mut result = Object::new();
    result.insert("ok".to_owned(), true.into());
    result.insert("did".to_owned(), agent.did().as_str().into());
    result.insert("name".to_owned(), agent.name().into());
    result.insert("enc_pub".to_owned(), agent.enc_pub().into());
    if !url.is_empty() {
        result.insert("url".to_owned(), url.into());
    }
    if let Some(relay) = relay {
        result.insert("relay".to_owned(), relay.into());
    }
    Ok(result.into())
}
