//! Introductions that somebody asked for: their signed question is inside (8.2).
use muretai_protocol::{Did, introduction::RequestRecord, json};
use muretai_store::{
    StoreError, contacts::Contact, errands::NewErrand, introductions::IntroductionRow, requests::RequestRow,
};

use crate::{
    Agent,
    agent::now,
    receive::methods::referral::{choose, words},
    trust::{TrustError, errands::Errand, introduce::Vouch},
};

/// How far an introduction that was asked for says that its subject is trusted: there is nobody to ask for a number.
const ASKED_LEVEL_BP: u16 = 500;
/// Days that it stands.
const ASKED_DAYS: u32 = 30;
/// Contacts that one referral names.
const MAX_REFERRALS: usize = 20;

/// An introduction that is stored, and the errand that is not yet.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) row: IntroductionRow,
    pub(super) errand: NewErrand,
}

impl Agent {
    /// "Introduce me to T": one introduction, to be proposed to T.
    pub(super) async fn vouch_for_asker(&self, row: &RequestRow) -> Result<Vec<Written>, TrustError> {
        let about = row.about.as_ref().ok_or(StoreError::Damaged)?;
        let target = self.direct_contact(about.as_str()).await?;
        let tags = self.tags_of(&row.peer).await?;
        let introduction = self.write_asked(row, &target, &tags).await?;
        let errand = Errand::Propose { introduction_id: introduction.id.clone(), note: row.note.clone() };
        let errand = errand.to_store(&target.did, now());
        self.store().add_issued(&introduction, None).await?;
        Ok(vec![Written { row: introduction, errand }])
    }

    /// "Who knows X?": an introduction to each, to be handed to who asked.
    pub(super) async fn vouch_to_asker(
        &self,
        row: &RequestRow,
        refer: &[String],
        notes: &mut Vec<String>,
    ) -> Result<Vec<Written>, TrustError> {
        let mut chosen = Vec::new();
        match refer {
            [] => chosen = self.who_fits(row).await?,
            names => {
                for name in names {
                    let contact = self.named_contact(name).await?;
                    if contact.did == row.peer {
                        return Err(TrustError::NotThree("who asks cannot be named to itself"));
                    }
                    if !chosen.contains(&contact) {
                        chosen.push(contact);
                    }
                }
            }
        }
        if chosen.is_empty() {
            return Err(TrustError::NobodyFits);
        }
        if chosen.len() > MAX_REFERRALS {
            notes.push(format!("{} contacts fit; the first {MAX_REFERRALS} are named", chosen.len()));
            chosen.truncate(MAX_REFERRALS);
        }
        for contact in chosen.iter().filter(|contact| contact.coordinates.url.is_none()) {
            notes.push(format!("no address of {} is known: whoever asks cannot write to it yet", contact.name));
        }
        let tags = self.tags_of(&row.peer).await?;
        let mut written = Vec::with_capacity(chosen.len());
        for contact in &chosen {
            let introduction = self.write_asked(row, contact, &tags).await?;
            let errand = Errand::HandOver { introduction_id: introduction.id.clone() };
            written.push(Written { errand: errand.to_store(&row.peer, now()), row: introduction });
        }
        for Written { row, .. } in &written {
            self.store().add_issued(row, None).await?;
        }
        Ok(written)
    }

    /// Takes back what was written for a decision that was not made. What stays behind was never shown to anybody.
    pub(super) async fn drop_written(&self, written: &[Written]) {
        for Written { row, .. } in written {
            if let Err(error) = self.store().reject_issued(&row.id, now()).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "an introduction that leads nowhere stays");
            }
        }
    }

    /// The contacts whose tags fit best, as `referral` set to `answer` would name them.
    async fn who_fits(&self, row: &RequestRow) -> Result<Vec<Contact>, TrustError> {
        let words = words(row.note.as_deref().unwrap_or_default(), &[]);
        let contacts = self.store().contacts().await?;
        Ok(choose(&contacts, &row.peer, &words, MAX_REFERRALS).into_iter().cloned().collect())
    }

    /// What the owner says that the asker knows: an introduction is about its subject.
    async fn tags_of(&self, asker: &Did) -> Result<Vec<String>, TrustError> {
        Ok(self.refuse_blocked(asker).await?.map(|asker| asker.expertise).unwrap_or_default())
    }

    async fn write_asked(
        &self,
        row: &RequestRow,
        target: &Contact,
        expertise: &[String],
    ) -> Result<IntroductionRow, TrustError> {
        let record = row.record.as_ref().ok_or(StoreError::Damaged)?;
        let record = json::parse(record.as_bytes()).map_err(|_| StoreError::Damaged)?;
        let record = RequestRecord { raw: record };
        let vouch = Vouch {
            subject: &row.peer,
            target: &target.did,
            expertise,
            trust_level_bp: ASKED_LEVEL_BP,
            days: ASKED_DAYS,
            record: Some(&record),
        };
        self.write_introduction(&vouch).await
    }
}
