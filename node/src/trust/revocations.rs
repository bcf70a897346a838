//! What issuers took back (8.4): asked where the introduction says, remembered for a while, and for good in the store.
//!
//! Only direct contacts are asked, and only about introductions whose proof verified, so a stranger makes nobody dial
//! anything. One question to each issuer is under way at a time; whoever else needs its answer waits for it.
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use muretai_protocol::{
    Did, UnixSeconds, json,
    revocations::{self, MAX_REVOCATIONS_BYTES, Revocations},
};
use muretai_store::{
    StoreError,
    contacts::{Contact, CoordinateSource, Relation},
    introductions::IntroductionRow,
};
use muretai_transports::{TransportError, guard::Policy, http::FetchOptions};
use sha2::{Digest, Sha256};
use tokio::{
    sync::OnceCell,
    time::{Instant, timeout_at},
};

use super::policies::RevocationPolicy;
use crate::{Agent, mail::tail};

/// For one question, connecting and all addresses together.
const BUDGET: Duration = Duration::from_secs(2);
/// How long an answer counts.
const ANSWER_LIFE: Duration = Duration::from_secs(300);
/// How long no answer counts: soon enough to notice that the issuer is back, late enough not to hammer at it.
const SILENCE_LIFE: Duration = Duration::from_secs(30);
/// Ids of one issuer that are in memory: as many as the largest list holds of the shortest ids.
const MAX_IDS: usize = MAX_REVOCATIONS_BYTES / 4;
/// Issuers whose answers are in memory.
const MAX_ISSUERS: usize = 256;
/// Introductions of one peer that are asked about for one message.
const MAX_ASKED: usize = 8;

/// What is known of one introduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A verified list does not name it.
    Stands,
    /// A verified list names it.
    Revoked,
    /// The list is there and too large to read: refused whatever the policy.
    TooLarge,
    /// Nobody answered, or with what is no list of the issuer's.
    Undecided,
}

impl Verdict {
    /// Whether the introduction counts, under the owner's policy.
    pub(crate) fn passes(self, policy: RevocationPolicy) -> bool {
        match self {
            Verdict::Stands => true,
            Verdict::Revoked | Verdict::TooLarge => false,
            Verdict::Undecided => policy == RevocationPolicy::Pass,
        }
    }
}

/// The accepted introductions of a peer that stand now.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The best first.
    pub(crate) rows: Vec<IntroductionRow>,
    /// One does not count because of what its issuer said, or did not say.
    pub(crate) has_failed: bool,
}

/// An id in constant space, however long it is.
type IdHash = [u8; 16];

fn hash(id: &str) -> IdHash {
    let digest: [u8; 32] = Sha256::digest(id.as_bytes()).into();
    let mut short = [0; 16];
    short.copy_from_slice(&digest[..16]);
    short
}

/// For looking up; no more than anybody's list holds.
fn sorted(ids: impl Iterator<Item = IdHash>) -> Box<[IdHash]> {
    let mut ids: Vec<IdHash> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    ids.truncate(MAX_IDS);
    ids.into()
}

/// What an issuer said last.
#[derive(Debug)]
enum Said {
    List { ids: Box<[IdHash]>, ts: UnixSeconds },
    TooLarge,
    Nothing,
}

#[derive(Debug)]
struct Answer {
    at: Instant,
    said: Said,
}

impl Answer {
    fn now(said: Said) -> Answer {
        Answer { at: Instant::now(), said }
    }

    fn of(list: &Revocations) -> Answer {
        Answer::now(Said::List { ids: sorted(list.revoked.iter().map(|id| hash(id))), ts: list.ts })
    }

    fn is_fresh(&self) -> bool {
        let life = if matches!(self.said, Said::Nothing) { SILENCE_LIFE } else { ANSWER_LIFE };
        self.at.elapsed() < life
    }

    fn verdict(&self, id: &str) -> Verdict {
        match &self.said {
            Said::List { ids, .. } if ids.binary_search(&hash(id)).is_ok() => Verdict::Revoked,
            Said::List { .. } => Verdict::Stands,
            Said::TooLarge => Verdict::TooLarge,
            Said::Nothing => Verdict::Undecided,
        }
    }
}

/// One issuer. The cell is empty while it is asked.
#[derive(Debug, Default)]
struct Slot {
    answer: OnceCell<Answer>,
    /// The date of the newest list before this one: an older one that turns up again says nothing.
    not_before: Option<UnixSeconds>,
}

/// The answers of lately. Bounded; whoever fills it pushes the oldest answer out, which costs a question.
#[derive(Debug, Default)]
pub(crate) struct RevocationCache(Mutex<HashMap<Box<str>, Arc<Slot>>>);

impl RevocationCache {
    /// The place of an issuer's answer; `None` when there is no room because all are being asked.
    fn slot(&self, issuer: &Did) -> Option<Arc<Slot>> {
        let mut slots = self.lock();
        let known = slots.get(issuer.as_str());
        if let Some(slot) = known.filter(|slot| slot.answer.get().is_none_or(Answer::is_fresh)) {
            return Some(Arc::clone(slot));
        }
        let not_before = known.and_then(|slot| slot.newest());
        if known.is_none() && !make_room(&mut slots) {
            return None;
        }
        let slot = Arc::new(Slot { answer: OnceCell::new(), not_before });
        slots.insert(issuer.as_str().into(), Arc::clone(&slot));
        Some(slot)
    }

    /// Adds what a list names that the issuer brought itself to what it said when it was asked. The list may be made
    /// for this agent alone and say nothing of others, so it takes no answer's place.
    fn learn(&self, list: &Revocations) {
        let mut slots = self.lock();
        let Some(slot) = slots.get_mut(list.issuer.as_str()) else { return };
        let Some(Answer { at, said: Said::List { ids, ts } }) = slot.answer.get() else { return };
        let ids = ids.iter().copied().chain(list.revoked.iter().map(|id| hash(id)));
        let answer = Answer { at: *at, said: Said::List { ids: sorted(ids), ts: *ts } };
        *slot = Arc::new(Slot { answer: OnceCell::new_with(Some(answer)), not_before: slot.not_before });
    }

    /// Nothing in here panics half-way, so a poisoned lock holds whole entries.
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Slot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes room for one more, at the cost of the oldest answer.
fn make_room(slots: &mut HashMap<Box<str>, Arc<Slot>>) -> bool {
    if slots.len() < MAX_ISSUERS {
        return true;
    }
    let answered = slots.iter().filter_map(|(did, slot)| Some((slot.answer.get()?.at, did)));
    let oldest = answered.min_by_key(|(at, _)| *at).map(|(_, did)| did.clone());
    oldest.is_some_and(|did| slots.remove(&did).is_some())
}

impl Slot {
    fn newest(&self) -> Option<UnixSeconds> {
        match self.answer.get().map(|answer| &answer.said) {
            Some(Said::List { ts, .. }) => Some(*ts),
            _ => self.not_before,
        }
    }
}

impl Agent {
    /// Says whether an issuer, who must be a direct contact, took an introduction back. Takes at most two seconds.
    /// Cancelling leaves the question to whoever else waits for its answer.
    pub(crate) async fn revocation(&self, issuer: &Contact, endpoint: Option<&str>, id: &str) -> Verdict {
        let Some(slot) = self.inner.revocations.slot(&issuer.did) else { return Verdict::Undecided };
        let ask = || self.ask_revocations(issuer, endpoint, slot.not_before);
        slot.answer.get_or_init(ask).await.verdict(id)
    }

    /// The accepted introductions of a peer that its issuers did not take back, as far as the policy wants to know.
    pub(crate) async fn standing_introductions(
        &self,
        subject: &Did,
        policy: RevocationPolicy,
        now: UnixSeconds,
    ) -> Result<Standing, StoreError> {
        let mut standing = Standing::default();
        for row in self.store().standing_introductions(subject, now).await?.into_iter().take(MAX_ASKED) {
            let Some(issuer) = self.trusted_issuer(&row.issuer).await? else { continue };
            let verdict = self.revocation(&issuer, row.issuer_endpoint.as_deref(), &row.id).await;
            if verdict.passes(policy) {
                standing.rows.push(row);
            } else {
                standing.has_failed = true;
            }
        }
        Ok(standing)
    }

    /// The contact, when it is a direct one and not blocked: whose word counts.
    pub(crate) async fn trusted_issuer(&self, did: &Did) -> Result<Option<Contact>, StoreError> {
        let contact = self.store().contact(did).await?;
        Ok(contact.filter(|contact| contact.relation == Relation::Direct && !contact.is_blocked))
    }

    /// Takes a verified list, wherever it came from: what it names is revoked for good.
    pub(crate) async fn learn_revocations(&self, list: &Revocations, now: UnixSeconds) -> Result<u64, StoreError> {
        self.inner.revocations.learn(list);
        self.store().mark_revoked(&list.issuer, &list.revoked, now).await
    }

    async fn ask_revocations(
        &self,
        issuer: &Contact,
        endpoint: Option<&str>,
        not_before: Option<UnixSeconds>,
    ) -> Answer {
        let deadline = Instant::now() + BUDGET;
        let own = issuer.coordinates.url.as_deref();
        // The introduction may name an address that is no more.
        for url in endpoint.into_iter().chain(own.filter(|own| Some(*own) != endpoint)) {
            let policy = self.policy_for_issuer(issuer, url);
            let list = match timeout_at(deadline, self.fetch_revocations(issuer, url, policy)).await {
                Ok(Ok(Some(list))) => list,
                Ok(Err(TooLarge)) => return Answer::now(Said::TooLarge),
                Ok(Ok(None)) => continue,
                Err(_) => break,
            };
            if not_before.is_some_and(|newest| list.ts < newest) {
                tracing::debug!(issuer = tail(&issuer.did), "a revocation list is older than one that was seen");
                continue;
            }
            if let Err(error) = self.store().mark_revoked(&issuer.did, &list.revoked, crate::agent::now()).await {
                tracing::error!(error = &error as &dyn std::error::Error, "revocations could not be stored");
            }
            return Answer::of(&list);
        }
        Answer::now(Said::Nothing)
    }

    /// The policy of the contact; the owner's own word for it covers no other address.
    fn policy_for_issuer(&self, issuer: &Contact, url: &str) -> Policy {
        if issuer.coordinates.url.as_deref() == Some(url) || issuer.source != CoordinateSource::Owner {
            return self.policy_for_contact(issuer, url, false);
        }
        let by_peer = Contact { source: CoordinateSource::Peer, ..issuer.clone() };
        self.policy_for_contact(&by_peer, url, false)
    }

    async fn fetch_revocations(
        &self,
        issuer: &Contact,
        url: &str,
        policy: Policy,
    ) -> Result<Option<Revocations>, TooLarge> {
        let options = FetchOptions { policy, max_bytes: MAX_REVOCATIONS_BYTES, redirects: 0 };
        let url = format!("{}/revocations", url.trim_end_matches('/'));
        let fetched = match self.inner.http.fetch(&url, &options).await {
            Ok(fetched) => fetched,
            Err(TransportError::TooLarge { .. }) => return Err(TooLarge),
            Err(error) => {
                tracing::debug!(
                    issuer = tail(&issuer.did),
                    error = &error as &dyn std::error::Error,
                    "no revocation list"
                );
                return Ok(None);
            }
        };
        let list = (fetched.status == 200).then(|| json::parse(&fetched.body).ok()).flatten();
        let list = list.and_then(|list| revocations::verify(&list, &issuer.did, crate::agent::now()).ok());
        if list.is_none() {
            tracing::debug!(
                issuer = tail(&issuer.did),
                status = fetched.status,
                "what was served is no revocation list"
            );
        }
        Ok(list)
    }
}

/// The list is larger than anybody reads.
struct TooLarge;
