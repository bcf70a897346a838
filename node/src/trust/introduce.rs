//! Vouching: writing an introduction, proposing it to its target, taking it back (8).
//!
//! An introduction and the errand that proposes it are written together; the proposal is made at once, and a target that
//! will not have it ends it. What was taken back is on the list at `/revocations` from that moment on, whoever was told.
use std::time::Duration;

use muretai_protocol::{
    Did, UnixSeconds,
    introduction::{self, IntroductionSpec, MAX_EXPERTISE, MAX_EXPERTISE_BYTES, MAX_TRUST_LEVEL_BP, RequestRecord},
    json::Value,
    text::one_line,
};
use muretai_store::{
    StoreError,
    introductions::{IntroductionRow, IntroductionStatus, Role},
};

use super::{
    TrustError,
    connect::check_note,
    errands::{Carried, Errand},
    whom::Until,
};
use crate::{
    Agent,
    agent::{now, random},
    send::{SendError, target, target::Target},
    serve::URL_SETTING,
};

/// Days that an introduction may stand.
const DAYS: std::ops::RangeInclusive<u32> = 1..=365;
/// Characters of a part of an id that may stand for the whole.
const MIN_ID_PART: usize = 6;

/// What `introduce` is told.
#[derive(Debug, Clone)]
pub struct IntroduceRequest {
    /// Who is introduced: a contact's name or a DID.
    pub subject: String,
    /// To whom: a direct contact.
    pub target: String,
    /// What the subject knows; empty takes the contact's tags.
    pub expertise: Vec<String>,
    /// 0 to 1000.
    pub trust_level_bp: u16,
    /// How long it stands, 1 to 365 days.
    pub days: u32,
    /// What the target's owner reads beside it.
    pub note: Option<String>,
    /// For the proposal.
    pub timeout: Duration,
}

/// What came of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposed {
    /// The target has it; its owner decides.
    Pending,
    /// The target was not reached: tried again by `serve`.
    Queued,
}

/// A new introduction.
#[derive(Debug, Clone)]
pub struct Introduced {
    /// The introduction.
    pub introduction: IntroductionRow,
    /// How far it is.
    pub proposed: Proposed,
}

/// What came of taking one back.
#[derive(Debug, Clone)]
pub struct Revoked {
    /// The introduction.
    pub introduction: IntroductionRow,
    /// The target was told, now; otherwise `serve` goes on trying, and whoever asks `/revocations` learns it.
    pub is_told: bool,
}

/// What an introduction of ours says.
#[derive(Debug)]
pub(super) struct Vouch<'a> {
    pub(super) subject: &'a Did,
    pub(super) target: &'a Did,
    pub(super) expertise: &'a [String],
    pub(super) trust_level_bp: u16,
    pub(super) days: u32,
    /// The subject's own question.
    pub(super) record: Option<&'a RequestRecord>,
}

impl Agent {
    /// Introduces a contact to a contact. A refusal by the target takes the introduction back.
    ///
    /// The subject may be anybody whose DID the owner gives: what it is worth is the owner's word. The target has to be
    /// a direct contact, because nobody else takes our word.
    pub async fn introduce(&self, request: &IntroduceRequest) -> Result<Introduced, TrustError> {
        check(request)?;
        let target = self.direct_contact(&request.target).await?;
        let (subject, tags) = self.subject(&request.subject).await?;
        if subject == target.did {
            return Err(TrustError::NotThree("the subject and the target are the same"));
        }
        if self.contact_found(&target, false).await?.is_none() {
            return Err(SendError::NoAddress { who: target.name, is_contact: true }.into());
        }
        let expertise = if request.expertise.is_empty() { &tags } else { &request.expertise };
        let vouch = Vouch {
            subject: &subject,
            target: &target.did,
            expertise,
            trust_level_bp: request.trust_level_bp,
            days: request.days,
            record: None,
        };
        let row = self.write_introduction(&vouch).await?;
        let errand = Errand::Propose { introduction_id: row.id.clone(), note: request.note.clone() };
        let errand = errand.to_store(&target.did, now());
        self.store().add_issued(&row, Some(errand.clone())).await?;
        let proposed = match self.tell(&[errand], request.timeout).await?.pop() {
            Some(Carried::Refused(error)) => return Err(error),
            Some(Carried::Done) => Proposed::Pending,
            _ => Proposed::Queued,
        };
        // The target may have answered already.
        let introduction = self.store().introduction(Role::Issued, self.did(), &row.id).await?.unwrap_or(row);
        Ok(Introduced { introduction, proposed })
    }

    /// Takes back an introduction, by its id or an unambiguous part of it (6 characters or more).
    ///
    /// Taking it back twice changes nothing.
    pub async fn revoke_introduction(&self, id: &str, timeout: Duration) -> Result<Revoked, TrustError> {
        let row = self.issued_like(id).await?;
        let errand = Errand::Revoked.to_store(&row.target, now());
        if row.status == IntroductionStatus::Revoked {
            let owed = self.store().errands().await?;
            let is_told = !owed.iter().any(|owed| owed.errand.peer == row.target && owed.errand.kind == errand.kind);
            return Ok(Revoked { introduction: row, is_told });
        }
        let revoked = self.store().revoke_issued(&row.id, now(), Some(errand.clone())).await?;
        let introduction = revoked.ok_or_else(|| TrustError::NoSuchIntroduction { id: row.id })?;
        let told = self.tell(&[errand], timeout).await?;
        Ok(Revoked { introduction, is_told: matches!(told.as_slice(), [Carried::Done]) })
    }

    /// Signs an introduction. It is not stored yet.
    pub(super) async fn write_introduction(&self, vouch: &Vouch<'_>) -> Result<IntroductionRow, TrustError> {
        let endpoint = self.revocations_at().await?;
        let issued = now();
        let spec = IntroductionSpec {
            id: random(),
            subject: vouch.subject,
            target: vouch.target,
            expertise: vouch.expertise,
            trust_level_bp: vouch.trust_level_bp,
            issued,
            valid_until: UnixSeconds(issued.0 + i64::from(vouch.days) * 86_400),
            request: vouch.record,
            issuer_endpoint: endpoint.as_deref(),
        };
        let vc = introduction::mint(self.key(), &spec)?;
        let id = vc.member("id").and_then(Value::as_str).ok_or(StoreError::Damaged)?.to_owned();
        Ok(IntroductionRow {
            id,
            role: Role::Issued,
            issuer: self.did().clone(),
            subject: vouch.subject.clone(),
            target: vouch.target.clone(),
            status: IntroductionStatus::Pending,
            trust_level_bp: Some(vouch.trust_level_bp),
            expertise: vouch.expertise.to_vec(),
            issued,
            valid_until: spec.valid_until,
            issuer_endpoint: endpoint,
            is_requested: vouch.record.is_some(),
            vc: vc.to_json(),
            created: issued,
            changed: issued,
        })
    }

    /// Where our revocations are asked: where `serve` is, or was last.
    async fn revocations_at(&self) -> Result<Option<String>, StoreError> {
        let url = match self.served_url() {
            Some(url) => Some(url),
            None => self.store().setting(URL_SETTING).await?,
        };
        Ok(url.map(|url| url.trim_end_matches('/').to_owned()).filter(|url| !url.is_empty()))
    }

    /// Who is introduced, and the owner's tags of it.
    async fn subject(&self, text: &str) -> Result<(Did, Vec<String>), TrustError> {
        if !matches!(target::parse(text).map_err(SendError::from)?, Target::Name(_) | Target::Did(_)) {
            return Err(SendError::NoSuchContact(one_line(text.trim(), 200)).into());
        }
        let did = self.did_of(text, false, Until::after(Duration::ZERO)).await?;
        let contact = self.refuse_blocked(&did).await?;
        Ok((did, contact.map(|contact| contact.expertise).unwrap_or_default()))
    }

    /// The introduction of ours that an id, or a part of one, means.
    async fn issued_like(&self, id: &str) -> Result<IntroductionRow, TrustError> {
        let wanted = id.trim();
        let mut rows = self.store().introductions(Some(Role::Issued)).await?;
        let shown = one_line(wanted, 100);
        if let Some(at) = rows.iter().position(|row| row.id == wanted) {
            return Ok(rows.swap_remove(at));
        }
        rows.retain(|row| wanted.len() >= MIN_ID_PART && row.id.trim_start_matches("urn:uuid:").contains(wanted));
        match rows.len() {
            0 => Err(TrustError::NoSuchIntroduction { id: shown }),
            1 => Ok(rows.remove(0)),
            found => Err(TrustError::Ambiguous { id: shown, found }),
        }
    }
}

/// Everything about a request that can be wrong by itself.
fn check(request: &IntroduceRequest) -> Result<(), TrustError> {
    check_note(request.note.as_deref())?;
    let out = |what, found: String, limits| Err(TrustError::OutOfRange { what, found, limits });
    if request.trust_level_bp > MAX_TRUST_LEVEL_BP {
        return out("trust level", format!("{} of 1000", request.trust_level_bp), "0 to 1000");
    }
    if !DAYS.contains(&request.days) {
        return out("time", format!("{} days", request.days), "1 to 365 days");
    }
    if request.expertise.len() > MAX_EXPERTISE {
        return out("expertise", format!("{} words", request.expertise.len()), "at most 16 words");
    }
    match request.expertise.iter().find(|word| !is_word(word)) {
        Some(word) => out("expertise", format!("{:?}", one_line(word, 100)), "words of 1 to 64 bytes on one line each"),
        None => Ok(()),
    }
}

/// A word about what somebody knows, as it may be shown to anybody.
pub(super) fn is_word(word: &str) -> bool {
    !word.trim().is_empty() && word.len() <= MAX_EXPERTISE_BYTES && one_line(word, MAX_EXPERTISE_BYTES) == word
}
