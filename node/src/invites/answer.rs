//! The inviter's answer to a claim that lay at a relay: a notice that says `claimed` or `claim-refused`.
//!
//! It counts when it comes from the DID that the claim went to and names the claim's message. Taking it twice changes
//! nothing. A refusal takes back the trust that the claims of this invite made, once none of them is open any more; trust
//! from before, or made another way since, stays.
use muretai_protocol::{
    Did,
    invite::Invite,
    json::{Object, Value},
    message::{Message, Verified},
    rpc::Code,
};
use muretai_store::{
    StoreError,
    contacts::{Contact, CoordinateSource, Coordinates, Introduce, Relation},
};

use super::{
    claim::GREETING,
    pending::{Ended, Pending},
};
use crate::{
    Agent,
    agent::now,
    receive::methods::{params::PeerFacts, send::is_notice},
    send::notice::Notice,
};

/// The status of a notice that accepts a claim.
pub(crate) const CLAIMED: &str = "claimed";
/// The status of a notice that refuses one.
pub(crate) const CLAIM_REFUSED: &str = "claim-refused";

/// What a message was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// No answer to a claim of this agent.
    Not,
    /// Its acceptance.
    Claimed,
    /// Its refusal; the owner wants to see that.
    Refused,
}

/// Whether a message is the answer to a claim that is open, so that it is let in although its sender may be nobody.
pub(crate) async fn awaits(agent: &Agent, message: &Message, from: &Did) -> Result<bool, StoreError> {
    let Some((asked, _)) = read(message, from) else { return Ok(false) };
    let pending = Pending::load(agent.store(), asked).await?;
    Ok(pending.is_some_and(|pending| pending.did == *from))
}

/// Takes the answer to a claim. Anything else is left alone.
pub(crate) async fn settle(agent: &Agent, message: &Verified) -> Result<Settled, StoreError> {
    let (message, from) = (message.message(), message.from());
    let Some((asked, ended)) = read(message, from) else { return Ok(Settled::Not) };
    let Some(pending) = Pending::load(agent.store(), asked).await? else { return Ok(Settled::Not) };
    if pending.did != *from {
        tracing::warn!(from = crate::mail::tail(from), "somebody else than the inviter answers a claim");
        return Ok(Settled::Not);
    }
    match (pending.ended, ended) {
        (None, Ended::Claimed) => agent.confirm(pending, message).await,
        (None, Ended::Refused(_)) => agent.take_back(pending, ended).await,
        // It was taken before, and the program was stopped before the message was stored.
        (Some(Ended::Claimed), Ended::Claimed) => Ok(Settled::Claimed),
        (Some(Ended::Refused(_)), Ended::Refused(_)) => Ok(Settled::Refused),
        _ => Ok(Settled::Not),
    }
}

/// The claim that a notice is about, and what it says.
fn read<'m>(message: &'m Message, from: &Did) -> Option<(&'m str, Ended)> {
    if !is_notice(message) {
        return None;
    }
    let ended = match message.meta("status").and_then(Value::as_str)? {
        CLAIMED => {
            let about = message.meta("claim");
            let named = about.and_then(|about| about.member("did"));
            let is_ok = about.and_then(|about| about.member("ok")).is_none_or(|ok| ok.as_bool() == Some(true));
            let is_own = named.is_none_or(|did| did.as_str() == Some(from.as_str()));
            (is_ok && is_own).then_some(Ended::Claimed)?
        }
        CLAIM_REFUSED => {
            let code = message.meta("code").and_then(Value::as_i64);
            Ended::Refused(code.unwrap_or(Code::IntroductionInvalid.number()))
        }
        _ => return None,
    };
    Some((message.meta("replyTo").and_then(Value::as_str)?, ended))
}

impl Agent {
    async fn confirm(&self, pending: Pending, message: &Message) -> Result<Settled, StoreError> {
        let contact = self.store().contact(&pending.did).await?;
        let is_direct = |contact: &Contact| contact.relation == Relation::Direct && !contact.is_blocked;
        let is_wanted = !pending.is_trusted || contact.as_ref().is_some_and(is_direct);
        if is_wanted && let Some(invite) = pending.invite() {
            self.trust_inviter(&pending, invite, message).await?;
        }
        let ended = Pending { ended: Some(Ended::Claimed), ..pending.clone() };
        if !ended.replace(self.store(), &pending).await? {
            // Another program took the same answer.
            return Ok(Settled::Claimed);
        }
        tracing::info!(to = crate::mail::tail(&pending.did), "a claim was accepted");
        self.settle_twins(&pending.did).await?;
        if pending.greet && is_wanted {
            self.leave_greeting(&pending.did).await?;
        }
        Ok(Settled::Claimed)
    }

    async fn trust_inviter(&self, pending: &Pending, invite: Invite, message: &Message) -> Result<(), StoreError> {
        let told = |url: &str| Some(url.to_owned()).filter(|url| !url.is_empty());
        let introduce = Introduce {
            did: invite.did,
            peer_name: Some(invite.name).filter(|name| !name.is_empty()),
            own_name: Some(self.name().to_owned()),
            coordinates: Coordinates {
                url: told(&pending.base),
                relay: told(&pending.relay),
                enc_pub: invite.enc_pub,
                enc_pub_pq: None,
            },
            source: CoordinateSource::Invite,
            allow_private: pending.allow_private,
            now: now(),
        };
        self.store().connect(&introduce).await?;
        if let Some(name) = pending.name.as_ref().filter(|_| !pending.is_trusted) {
            match self.store().rename_contact(&pending.did, name).await {
                Ok(_) | Err(StoreError::NameTaken(_)) => {}
                Err(error) => return Err(error),
            }
        }
        // What the invite did not say yet; it is the same agent's word.
        let claim = message.meta("claim");
        let facts = PeerFacts::lenient(["name", "url", "relay", "enc_pub"], |key| claim.and_then(|it| it.member(key)));
        self.store().fill_coordinates(&pending.did, &facts.coordinates).await?;
        Ok(())
    }

    /// A claim that was made by mail says hello by mail.
    async fn leave_greeting(&self, to: &Did) -> Result<(), StoreError> {
        let notice = Notice {
            to: to.clone(),
            status: GREETING,
            text: self.greeting(),
            reply_to: None,
            context_id: None,
            extra: Object::new(),
            fallback: None,
        };
        self.leave_notice(notice).await?;
        Ok(())
    }

    async fn take_back(&self, pending: Pending, ended: Ended) -> Result<Settled, StoreError> {
        let all = Pending::all(self.store(), now()).await?;
        let is_open = |other: &Pending| {
            other.did == pending.did && other.message_id != pending.message_id && other.ended.is_none()
        };
        let is_last = !all.iter().any(is_open);
        let is_taken = is_last && self.store().take_back(&pending.did).await?;
        let record = Pending { ended: Some(ended), ..pending.clone() };
        record.replace(self.store(), &pending).await?;
        tracing::info!(to = crate::mail::tail(&pending.did), is_taken, "a claim was refused");
        Ok(Settled::Refused)
    }

    /// The inviter accepted one claim, so it accepted all.
    pub(super) async fn settle_twins(&self, did: &Did) -> Result<(), StoreError> {
        for open in Pending::all(self.store(), now()).await? {
            if open.did == *did && open.ended.is_none() {
                Pending { ended: Some(Ended::Claimed), ..open.clone() }.replace(self.store(), &open).await?;
            }
        }
        Ok(())
    }

    /// The inviter says now that the invite is none (any more), so no earlier claim of it will be accepted.
    pub(super) async fn give_up(&self, invite: &Invite) -> Result<(), StoreError> {
        let ended = Some(Ended::Refused(Code::IntroductionInvalid.number()));
        let mut had_any = false;
        for open in Pending::all(self.store(), now()).await? {
            if open.did == invite.did && open.nonce() == Some(invite.nonce.as_str()) && open.ended.is_none() {
                had_any = true;
                Pending { ended, ..open.clone() }.replace(self.store(), &open).await?;
            }
        }
        let is_open = |other: &Pending| other.did == invite.did && other.ended.is_none();
        if had_any && !Pending::all(self.store(), now()).await?.iter().any(is_open) {
            self.store().take_back(&invite.did).await?;
        }
        Ok(())
    }
}
