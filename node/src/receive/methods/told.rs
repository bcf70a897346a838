//! What a notice brings beside its text: an introduction for this agent to use (5.2), a list of revocations (8.4).
//!
//! It is taken before the message is stored, so that an owner who reads of it finds it done. Taking it twice changes
//! nothing, and a fault with it never costs the message, unless the message is nothing else.
use muretai_plugins::ContactState;
use muretai_protocol::{
    UnixSeconds,
    introduction::{self, Parties},
    json::Value,
    message::Message,
    relay::DID_NOT_OPEN,
    revocations,
    rpc::Refusal,
};
use muretai_store::{
    StoreError,
    contacts::{CoordinateSource, Introduce},
    introductions::{Kept, Role},
};

use super::{about::REFUSED, internal, introduce::introduction_row, params::PeerFacts, send::is_notice};
use crate::{
    Agent,
    invites::{self, CLAIM_REFUSED, CLAIMED, Settled},
    mail::tail,
    receive::ladder::Passed,
};

/// The status of a notice that brings an introduction.
const INTRODUCTION: &str = "introduction";
/// The status of a notice that brings a list of revocations.
const REVOCATION: &str = "revocation";

/// Takes what the message brings; gives whether the owner wants to see it like a message.
pub(crate) async fn take(
    agent: &Agent,
    passed: &Passed,
    state: ContactState,
    now: UnixSeconds,
) -> Result<bool, Refusal> {
    let message = passed.verified.message();
    if !is_notice(message) {
        return Ok(false);
    }
    let taken = match message.meta("status").and_then(Value::as_str) {
        Some(INTRODUCTION) if state == ContactState::Direct => take_introduction(agent, passed, now).await,
        Some(REVOCATION) => take_revocations(agent, passed, now).await,
        // An answer to a claim is nothing but what it brings.
        Some(CLAIMED | CLAIM_REFUSED) => {
            return Ok(invites::settle(agent, &passed.verified).await.map_err(internal)? == Settled::Refused);
        }
        // The refusal of a call that lay at a relay.
        Some(REFUSED) => agent.settle_left(&passed.verified).await,
        _ => return Ok(false),
    };
    if let Err(error) = taken {
        tracing::error!(error = &error as &dyn std::error::Error, "what a notice brought could not be stored");
    }
    Ok(false)
}

/// Whether a peer says that a letter of ours did not open (9.5). The words are the same everywhere; `auto` keeps whoever
/// quotes them from being taken at them.
pub(crate) fn did_not_open(message: &Message) -> bool {
    let is_auto = message.meta("auto").and_then(Value::as_bool) == Some(true);
    is_auto && message.text.contains(DID_NOT_OPEN)
}

async fn take_introduction(agent: &Agent, passed: &Passed, now: UnixSeconds) -> Result<(), StoreError> {
    let (message, from) = (passed.verified.message(), passed.verified.from());
    let Some(vc) = message.meta("held_vc") else { return Ok(()) };
    let parties = Parties { subject: agent.did(), target: None };
    let introduction = match introduction::verify(vc, &parties, now) {
        Ok(introduction) if introduction.issuer == *from => introduction,
        Ok(_) => {
            tracing::info!(from = tail(from), "an introduction of another issuer was not kept");
            return Ok(());
        }
        Err(error) => {
            tracing::info!(from = tail(from), error = &error as &dyn std::error::Error, "an introduction was not kept");
            return Ok(());
        }
    };
    let peer = target_facts(message);
    let target = Introduce {
        did: introduction.target.clone(),
        peer_name: peer.name,
        own_name: Some(agent.name().to_owned()),
        coordinates: peer.coordinates,
        source: CoordinateSource::Introducer,
        allow_private: false,
        now,
    };
    match agent.store().keep_held(&introduction_row(&introduction, Role::Held, now), &target).await? {
        Kept::Stored(contact) => tracing::info!(from = tail(from), to = contact.name, "an introduction arrived"),
        Kept::NotNeeded(_) => {}
        Kept::Refused => tracing::info!(from = tail(from), "an introduction was not kept: blocked, or too many"),
    }
    Ok(())
}

/// Where the target is, by the introducer's word.
fn target_facts(message: &Message) -> PeerFacts {
    let named = ["held_vc_name", "held_vc_url", "held_vc_relay", "held_vc_enc_pub"];
    PeerFacts::lenient(named, |name| message.meta(name))
}

async fn take_revocations(agent: &Agent, passed: &Passed, now: UnixSeconds) -> Result<(), StoreError> {
    let from = passed.verified.from();
    let Some(list) = passed.verified.message().meta("revocations") else { return Ok(()) };
    match revocations::verify(list, from, now) {
        Ok(list) => {
            let changed = agent.learn_revocations(&list, now).await?;
            tracing::info!(from = tail(from), changed, "a list of revocations arrived");
        }
        Err(error) => {
            tracing::info!(
                from = tail(from),
                error = &error as &dyn std::error::Error,
                "a list of revocations was not taken"
            );
        }
    }
    Ok(())
}
