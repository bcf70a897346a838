//! Asking a contact who knows something (5.2, `referral/request`).
//!
//! What comes back is not signed as a whole, and need not be: each introduction is, by whom we asked, and of us. What
//! does not verify so is counted and forgotten.
use std::time::Duration;

use muretai_protocol::{
    Did, UnixSeconds,
    introduction::{
        self, INTRODUCE_ME_TO, Introduction, MAX_EXPERTISE, MAX_EXPERTISE_BYTES, MAX_TRUST_LEVEL_BP, Parties,
    },
    json::{Object, Value},
    text::one_line,
};
use muretai_store::{
    contacts::{Contact, CoordinateSource, Introduce},
    introductions::{Kept, Role},
    requests::{NewRequest, RequestKind},
};

use super::{TrustError, call::Call, connect::own_request};
use crate::{
    Agent,
    agent::now,
    receive::methods::{introduce::introduction_row, params::PeerFacts},
    send::SendError,
};

const METHOD: &str = "referral/request";
/// Bytes of a topic; a person reads it.
const MAX_TOPIC_BYTES: usize = 1_000;
/// Referrals that one question may bring.
const LIMITS: std::ops::RangeInclusive<u32> = 1..=20;

/// What `referral` is told.
#[derive(Debug, Clone)]
pub struct ReferralRequest {
    /// The need, in words.
    pub topic: String,
    /// Whom to ask: a contact's name or a DID.
    pub ask: String,
    /// At most so many, 1 to 20.
    pub limit: u32,
    /// For the request.
    pub timeout: Duration,
}

/// Somebody whom the contact names; the introduction verified and is kept for the first message.
#[derive(Debug, Clone)]
pub struct Referral {
    /// Who.
    pub did: Did,
    /// The local name that it got.
    pub name: String,
    /// What it is said to know; unsafe to show raw.
    pub expertise: Vec<String>,
    /// 0 to 1000.
    pub trust_level_bp: Option<u16>,
    /// Until when the introduction stands.
    pub valid_until: UnixSeconds,
}

/// The contact's answer.
#[derive(Debug, Clone)]
pub struct Referred {
    /// Whom it named.
    pub referrals: Vec<Referral>,
    /// Its owner decides first; what is named then arrives as messages.
    pub is_queued: bool,
    /// How many of its answers did not verify and were dropped.
    pub dropped: u32,
}

impl Agent {
    /// Asks. Only a direct contact is asked: nobody else's introductions are kept.
    pub async fn referral(&self, request: &ReferralRequest) -> Result<Referred, TrustError> {
        let topic = request.topic.trim();
        check(topic, request.limit)?;
        let introducer = self.direct_contact(&request.ask).await?;
        let Some(peer) = self.contact_found(&introducer, false).await? else {
            return Err(SendError::NoAddress { who: introducer.name, is_contact: true }.into());
        };
        let params = Object::from([("limit".to_owned(), i64::from(request.limit).into())]);
        let timeout = request.timeout;
        let call = Call { method: METHOD, text: topic, params, timeout, message_id: None, is_answered_later: false };
        let result = match self.call(&peer, call).await {
            Ok(result) => result,
            // It has the question; what it names arrives as messages, or the owner asks again.
            Err(error) if error.is_answer_lost() => Object::from([("status".to_owned(), "queued".into())]).into(),
            Err(error) => return Err(error),
        };
        let is_queued = match result.member("status").and_then(Value::as_str) {
            Some("ok") => false,
            Some("queued") => true,
            _ => return Err(TrustError::BadAnswer { method: METHOD, what: "neither names nor queued" }),
        };
        if is_queued {
            let new = NewRequest {
                note: Some(topic.to_owned()),
                ..own_request(RequestKind::Referral, introducer.did.clone(), now())
            };
            self.store().open_request(&new).await?;
        }
        let named = result.member("referrals").and_then(Value::as_array).unwrap_or_default();
        let (mut referrals, mut dropped) = (Vec::new(), 0_u32);
        for (number, value) in named.iter().enumerate() {
            let kept = match number < request.limit as usize {
                true => self.keep(&introducer.did, value).await?,
                false => None,
            };
            match kept {
                Some(referral) => referrals.push(referral),
                None => dropped = dropped.saturating_add(1),
            }
        }
        Ok(Referred { referrals, is_queued, dropped })
    }

    /// Keeps one that verifies: by whom we asked, of us, to whom the answer says.
    async fn keep(&self, introducer: &Did, value: &Value) -> Result<Option<Referral>, TrustError> {
        let Some(vc) = value.member("vc") else { return Ok(None) };
        let Ok(introduction) = introduction::verify(vc, &Parties { subject: self.did(), target: None }, now()) else {
            return Ok(None);
        };
        let named = value.member("did").and_then(Value::as_str);
        let is_meant = introduction.issuer == *introducer
            && introduction.target != *self.did()
            && named.is_none_or(|did| did == introduction.target.as_str());
        if !is_meant {
            return Ok(None);
        }
        // Coordinates of a bad shape are no reason to forget whom they are of.
        let facts = value.as_object().cloned().map(|mut members| PeerFacts::read(&mut members));
        let facts = facts.and_then(Result::ok).unwrap_or_default();
        let target = Introduce {
            did: introduction.target.clone(),
            peer_name: facts.name,
            own_name: Some(self.name().to_owned()),
            coordinates: facts.coordinates,
            source: CoordinateSource::Introducer,
            allow_private: false,
            now: now(),
        };
        match self.store().keep_held(&introduction_row(&introduction, Role::Held, now()), &target).await? {
            Kept::Stored(contact) | Kept::NotNeeded(contact) => Ok(Some(referral(introduction, contact, value))),
            Kept::Refused => Ok(None),
        }
    }
}

/// What is known of somebody who was named. The introduction is about us; what is said of the named one is beside it,
/// and no more than the word of whoever we asked.
fn referral(introduction: Introduction, contact: Contact, value: &Value) -> Referral {
    let words = value.member("expertise").and_then(Value::as_array).unwrap_or_default();
    let words = words.iter().take(MAX_EXPERTISE).filter_map(Value::as_str);
    let level = value.member("trustLevelBp").and_then(Value::as_i64);
    Referral {
        did: introduction.target,
        name: contact.name,
        expertise: words.map(|word| one_line(word, MAX_EXPERTISE_BYTES)).filter(|word| !word.is_empty()).collect(),
        trust_level_bp: level.and_then(|level| u16::try_from(level).ok()).filter(|level| *level <= MAX_TRUST_LEVEL_BP),
        valid_until: introduction.valid_until,
    }
}

/// Everything about a question that can be wrong by itself.
fn check(topic: &str, limit: u32) -> Result<(), TrustError> {
    let out = |what, found: String, limits| Err(TrustError::OutOfRange { what, found, limits });
    if !LIMITS.contains(&limit) {
        return out("limit", limit.to_string(), "1 to 20");
    }
    if topic.is_empty() || topic.len() > MAX_TOPIC_BYTES || topic.contains('\0') {
        return out("topic", format!("{} bytes", topic.len()), "1 to 1000 bytes of text");
    }
    if topic.starts_with(INTRODUCE_ME_TO) {
        return out("topic", format!("{:?}", one_line(topic, 60)), "a need in words");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
