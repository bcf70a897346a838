//! `referral/request` (5.2): "who of your contacts knows X?". Direct contacts alone may ask; the owner answers, or lets
//! the tags of contacts answer. Each name comes with an introduction of the asker to it.
use std::collections::HashSet;

use muretai_protocol::{
    Did, UnixSeconds,
    introduction::{self, INTRODUCE_ME_TO, Introduction, IntroductionSpec, Parties, RequestRecord},
    json::{self, Object, Value},
    rpc::{Code, Refusal},
};
use muretai_store::{
    StoreError,
    contacts::{Contact, Relation},
    introductions::{IntroductionStatus, Role},
    requests::{NewRequest, Queued, RequestKind},
};
use sha2::{Digest, Sha256};

use super::{
    Desk, internal,
    introduce::introduction_row,
    params::{MAX_NOTE_BYTES, ReferralParams},
    question::asked,
};
use crate::{
    receive::{
        ladder::Passed,
        refusals::{self as say, plain},
    },
    trust::policies::ReferralPolicy,
};

const METHOD: &str = "referral/request";
/// What is said of somebody of whom the owner said nothing: the middle.
const TRUST_LEVEL_BP: u16 = 500;
/// How long an introduction stands that no owner limited.
const LIFE_SECS: i64 = 30 * 86_400;
/// Introductions of one asker that stand at a time.
const MAX_LIVE: usize = 256;
/// What an asker is told to wait when it has that many.
const MAX_LIVE_RETRY_SECS: u64 = 86_400;

/// Answers, or files the question.
pub(crate) async fn answer(desk: &Desk<'_>, passed: Passed, params: ReferralParams) -> Result<Value, Refusal> {
    let need = passed.verified.message().text.trim();
    if need.is_empty() || need.len() > MAX_NOTE_BYTES || need.starts_with(INTRODUCE_ME_TO) {
        return Err(plain(Code::InvalidParams, say::REFERRAL_TEXT));
    }
    desk.refuse_at_open_door()?;
    let must_wait = desk.ask_gate(&passed, METHOD, None).await?;
    if !passed.is_from_contact() || desk.policies.referral == ReferralPolicy::Closed {
        return Err(say::query_not_permitted());
    }
    if desk.policies.referral == ReferralPolicy::Answer && !must_wait {
        let referrals = refer(desk, &passed, &params).await?;
        return Ok(result(referrals, "ok"));
    }
    let note = Some(topic(need, &params.expertise));
    let request = NewRequest { note, ..asked(desk, &passed, RequestKind::Referral) };
    let queued = desk.agent.store().file_question(&request, desk.limits(), &passed.handling()).await;
    match queued.map_err(internal)? {
        Queued::Pending(_) | Queued::Decided(_) => {}
        Queued::Full { retry_after_secs } => return Err(say::full(retry_after_secs)),
        Queued::Duplicate { same_content } => return Err(passed.duplicate(same_content)),
    }
    passed.done();
    Ok(result(Vec::new(), "queued"))
}

/// What the owner reads: the need, and what is looked for beside it.
fn topic(need: &str, expertise: &[String]) -> String {
    if expertise.is_empty() { need.to_owned() } else { format!("{need}\n{}", expertise.join(", ")) }
}

/// Names contacts whose tags fit, each with an introduction. The same request again finds the introductions that it was
/// given, so it need not be remembered.
async fn refer(desk: &Desk<'_>, passed: &Passed, params: &ReferralParams) -> Result<Vec<Value>, Refusal> {
    let asker = passed.verified.from();
    let contacts = desk.agent.store().contacts().await.map_err(internal)?;
    let words = words(&passed.verified.message().text, &params.expertise);
    let expertise = contacts.iter().find(|contact| contact.did == *asker);
    let expertise = expertise.map(|asker| asker.expertise.clone()).unwrap_or_default();
    let chosen = choose(&contacts, asker, &words, params.limit);
    if !chosen.is_empty() && live_introductions(desk, asker).await.map_err(internal)? >= MAX_LIVE {
        return Err(say::full(MAX_LIVE_RETRY_SECS));
    }
    let mut referrals = Vec::with_capacity(chosen.len());
    for contact in chosen {
        if let Some(vc) = introduce(desk, passed, &contact.did, &expertise).await? {
            referrals.push(referral(contact, vc));
        }
    }
    Ok(referrals)
}

async fn live_introductions(desk: &Desk<'_>, asker: &Did) -> Result<usize, StoreError> {
    let issued = desk.agent.store().introductions(Some(Role::Issued)).await?;
    Ok(issued.iter().filter(|row| row.subject == *asker && row.valid_until > desk.now).count())
}

/// The contacts that fit best. Never the asker, never whom the owner blocked.
pub(crate) fn choose<'c>(
    contacts: &'c [Contact],
    asker: &Did,
    words: &HashSet<String>,
    limit: usize,
) -> Vec<&'c Contact> {
    let is_eligible =
        |contact: &&Contact| contact.relation == Relation::Direct && !contact.is_blocked && contact.did != *asker;
    let score = |contact: &Contact| contact.expertise.iter().filter(|tag| fits(tag, words)).count();
    let mut found: Vec<_> = contacts.iter().filter(is_eligible).map(|contact| (score(contact), contact)).collect();
    found.retain(|(score, _)| *score > 0);
    found.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.name.cmp(&second.name)));
    found.into_iter().take(limit).map(|(_, contact)| contact).collect()
}

/// Words in lower case.
pub(crate) fn words(need: &str, expertise: &[String]) -> HashSet<String> {
    let texts = std::iter::once(need).chain(expertise.iter().map(String::as_str));
    texts.flat_map(words_of).collect()
}

fn words_of(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// A tag of several words wants all of them.
fn fits(tag: &str, words: &HashSet<String>) -> bool {
    let mut parts = words_of(tag).peekable();
    parts.peek().is_some() && parts.all(|part| words.contains(&part))
}

/// The introduction of the asker to a contact: the one that this request was given before, or a new one.
async fn introduce(
    desk: &Desk<'_>,
    passed: &Passed,
    target: &Did,
    expertise: &[String],
) -> Result<Option<Value>, Refusal> {
    let (agent, id) = (desk.agent, introduction_id(desk, passed, target));
    let Some(introduction) = mint(desk, passed, target, expertise, id) else { return Ok(None) };
    let known = agent.store().introduction(Role::Issued, agent.did(), &introduction.id).await.map_err(internal)?;
    if let Some(known) = known {
        let is_live = matches!(known.status, IntroductionStatus::Pending | IntroductionStatus::Accepted);
        return Ok(if is_live { json::parse(known.vc.as_bytes()).ok() } else { None });
    }
    let row = introduction_row(&introduction, Role::Issued, desk.now);
    agent.store().add_issued(&row, None).await.map_err(internal)?;
    Ok(Some(introduction.raw))
}

/// Signs it, and reads it as its target will. `None` is a fault of ours, which costs this one name.
fn mint(desk: &Desk<'_>, passed: &Passed, target: &Did, expertise: &[String], id: [u8; 16]) -> Option<Introduction> {
    let subject = passed.verified.from();
    let record = RequestRecord::of(&passed.verified);
    let spec = IntroductionSpec {
        id,
        subject,
        target,
        expertise,
        trust_level_bp: TRUST_LEVEL_BP,
        issued: desk.now,
        valid_until: UnixSeconds(desk.now.0.saturating_add(LIFE_SECS)),
        request: Some(&record),
        issuer_endpoint: Some(desk.url).filter(|url| !url.is_empty()),
    };
    let vc = introduction::mint(desk.agent.key(), &spec).inspect_err(|error| {
        tracing::error!(error = error as &dyn std::error::Error, "an introduction could not be written");
    });
    let parties = Parties { subject, target: Some(target) };
    let verified = introduction::verify(&vc.ok()?, &parties, desk.now).inspect_err(|error| {
        tracing::error!(error = error as &dyn std::error::Error, "an introduction of our own does not verify");
    });
    verified.ok()
}

/// The same for the same request and contact, and known to nobody else before it is given.
fn introduction_id(desk: &Desk<'_>, passed: &Passed, target: &Did) -> [u8; 16] {
    let (asker, message) = (passed.verified.from().as_str(), passed.verified.message().message_id.as_str());
    let target = target.as_str();
    let named = format!("muretai referral id, version 1\n{asker}\n{target}\n{message}");
    let hash: [u8; 32] = Sha256::digest(desk.agent.key().sign(named.as_bytes())).into();
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    id
}

fn referral(contact: &Contact, vc: Value) -> Value {
    let mut referral = Object::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            referral.insert(key.to_owned(), value);
        }
    };
    put("did", Some(contact.did.as_str().into()));
    put("name", Some(contact.peer_name.as_ref().unwrap_or(&contact.name).into()));
    put("expertise", Some(contact.expertise.iter().map(Value::from).collect::<Vec<_>>().into()));
    put("trustLevelBp", Some(i64::from(TRUST_LEVEL_BP).into()));
    put("vc", Some(vc));
    put("url", contact.coordinates.url.as_ref().map(Value::from));
    put("relay", contact.coordinates.relay.as_ref().map(Value::from));
    put("enc_pub", contact.coordinates.enc_pub.as_ref().map(Value::from));
    referral.into()
}

fn result(referrals: Vec<Value>, status: &str) -> Value {
    let mut result = Object::new();
    result.insert("referrals".to_owned(), referrals.into());
    result.insert("status".to_owned(), status.into());
    result.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_fits_when_the_need_says_all_its_words() {
        let words = words("Who repairs old French-horns?", &["Tuning".to_owned()]);
        for tag in ["repairs", "french horns", "FRENCH", "tuning", "old-french"] {
            assert!(fits(tag, &words), "{tag}");
        }
        for tag in ["horn", "french bread", "", "--", "?"] {
            assert!(!fits(tag, &words), "{tag}");
        }
    }
}
