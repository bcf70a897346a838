//! For tests: a store in memory that fails or pauses when told to, and a relay around it.
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use muretai_protocol::{
    Did, UnixSeconds,
    json::{self, Value},
    relay::{Deposit, listen_token, minute_of},
    sign::{Seed, SigningKey},
};
use muretai_store::mailboxes::*;
use muretai_transports::{
    Stop,
    http::{
        ServerLimits,
        site::{Answer, Head, Request, Site},
    },
};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
};

use crate::{
    Bounds, MetricsAccess,
    shared::{Parts, Shared},
    site::RelaySite,
    upkeep,
};

pub(crate) const ORIGIN: &str = "https://relay.example";
pub(crate) const NOW: i64 = 1_785_000_000;

pub(crate) fn key(n: u8) -> SigningKey {
    SigningKey::from_seed(&Seed::from_bytes([n; 32]))
}

/// What a store in memory holds, and how it misbehaves. Cheap to clone; clones are the same store.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Inner>);

#[derive(Default)]
struct Inner {
    quotas: Quotas,
    state: Mutex<State>,
    is_failing: AtomicBool,
    /// Writes fail for want of room.
    pub is_full: AtomicBool,
    /// When there is one, each call takes a permit for good before it does anything.
    gate: Mutex<Option<Arc<Semaphore>>>,
    pub online_writes: AtomicUsize,
    pub fetches: AtomicUsize,
    pub answered_from_store: AtomicUsize,
}

#[derive(Default)]
struct State {
    next: Qid,
    letters: BTreeMap<Qid, (Did, StoredLetter)>,
    epochs: HashMap<Did, String>,
    online: HashMap<Did, (bool, UnixSeconds)>,
    answers: HashMap<Qid, String>,
    cards: HashMap<Did, (i64, String)>,
    invites: HashMap<String, (Did, String, UnixSeconds)>,
    events: Vec<mpsc::Sender<Event>>,
}

impl State {
    fn tell(&self, event: &Event) {
        for events in &self.events {
            events.try_send(event.clone()).unwrap();
        }
    }
}

impl Memory {
    pub(crate) fn new(quotas: Quotas) -> Memory {
        Memory(Arc::new(Inner { quotas, ..Inner::default() }))
    }

    pub(crate) fn fail(&self, is_failing: bool) {
        self.0.is_failing.store(is_failing, Ordering::SeqCst);
    }

    pub(crate) fn fill_disk(&self, is_full: bool) {
        self.0.is_full.store(is_full, Ordering::SeqCst);
    }

    /// From now on calls wait for permits.
    pub(crate) fn pause(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.0.gate.lock().unwrap() = Some(Arc::clone(&gate));
        gate
    }

    pub(crate) fn tell(&self, event: &Event) {
        self.0.state.lock().unwrap().tell(event);
    }

    /// What another process would do to the shared database, without telling.
    pub(crate) fn claim_silently(&self, did: &Did, epoch: &str) {
        self.0.state.lock().unwrap().epochs.insert(did.clone(), epoch.to_owned());
    }

    pub(crate) fn letters(&self) -> usize {
        self.0.state.lock().unwrap().letters.len()
    }

    pub(crate) fn is_awaited(&self, qid: Qid) -> bool {
        self.0.state.lock().unwrap().letters[&qid].1.awaited_until.is_some()
    }

    pub(crate) fn online_writes(&self) -> usize {
        self.0.online_writes.load(Ordering::SeqCst)
    }

    pub(crate) fn is_online(&self, did: &Did) -> Option<bool> {
        self.0.state.lock().unwrap().online.get(did).map(|(is_on, _)| *is_on)
    }

    pub(crate) fn fetches(&self) -> usize {
        self.0.fetches.load(Ordering::SeqCst)
    }

    async fn enter(&self, is_write: bool) -> Result<(), MailboxError> {
        let gate = self.0.gate.lock().unwrap().clone();
        if let Some(gate) = gate {
            gate.acquire().await.unwrap().forget();
        }
        if self.0.is_failing.load(Ordering::SeqCst) {
            return Err(MailboxError::Closed);
        }
        if is_write && self.0.is_full.load(Ordering::SeqCst) {
            return Err(MailboxError::DiskFull);
        }
        // Real stores give way here.
        tokio::task::yield_now().await;
        Ok(())
    }
}

#[async_trait]
impl Mailboxes for Memory {
    async fn deposit(&self, letter: NewLetter) -> Result<Deposited, MailboxError> {
        self.enter(true).await?;
        let quotas = &self.0.quotas;
        let mut state = self.0.state.lock().unwrap();
        let from = letter.from.as_str();
        let mailbox = || state.letters.iter().filter(|(_, (to, _))| *to == letter.to);
        if let Some((qid, _)) = mailbox().find(|(_, (_, held))| held.from == from && held.id == letter.id) {
            let qid = *qid;
            if letter.awaited_until.is_some() {
                state.letters.get_mut(&qid).unwrap().1.awaited_until = letter.awaited_until;
            }
            return Ok(Deposited::Again(qid));
        }
        if mailbox().filter(|(_, (_, held))| held.from == from).count() >= quotas.sender_letters as usize {
            return Ok(Deposited::Full(Bound::SenderLetters));
        }
        if mailbox().count() >= quotas.mailbox_letters as usize {
            return Ok(Deposited::Full(Bound::MailboxLetters));
        }
        let bytes: usize = mailbox().map(|(_, (_, held))| held.blob.len()).sum();
        if (bytes + letter.blob.len()) as u64 > quotas.mailbox_bytes {
            return Ok(Deposited::Full(Bound::MailboxBytes));
        }
        let all: usize = state.letters.values().map(|(_, held)| held.blob.len()).sum();
        if quotas.total_bytes > 0 && (all + letter.blob.len()) as u64 > quotas.total_bytes {
            return Ok(Deposited::Full(Bound::TotalBytes));
        }
        state.next += 1;
        let qid = state.next;
        let stored = StoredLetter {
            qid,
            id: letter.id,
            from: letter.from.as_str().to_owned(),
            from_enc: letter.from_enc,
            blob: letter.blob,
            ts: letter.ts,
            awaited_until: letter.awaited_until,
        };
        state.letters.insert(qid, (letter.to.clone(), stored));
        state.tell(&Event::Letter(letter.to));
        Ok(Deposited::Stored(qid))
    }

    async fn fetch(&self, did: &Did, in_hand: &[Qid], most: u32, max_bytes: u64) -> Result<Fetched, MailboxError> {
        self.0.fetches.fetch_add(1, Ordering::SeqCst);
        self.enter(false).await?;
        let state = self.0.state.lock().unwrap();
        let open = state.letters.values().filter(|(to, held)| to == did && !in_hand.contains(&held.qid));
        let mut fetched = Fetched::default();
        let mut bytes = 0;
        for (_, letter) in open {
            bytes += letter.blob.len() as u64;
            let is_first = fetched.letters.is_empty();
            if fetched.letters.len() >= most as usize || (bytes > max_bytes && !is_first) {
                fetched.has_more = true;
                break;
            }
            fetched.letters.push(letter.clone());
        }
        Ok(fetched)
    }

    async fn ack(&self, did: &Did, epoch: &str, qids: &[Qid], tell: bool) -> Result<Option<u64>, MailboxError> {
        self.enter(true).await?;
        let mut state = self.0.state.lock().unwrap();
        if state.epochs.get(did).is_some_and(|newest| newest.as_str() > epoch) {
            return Ok(None);
        }
        let before = state.letters.len();
        state.letters.retain(|qid, (to, _)| to != did || !qids.contains(qid));
        if tell {
            state.tell(&Event::Acked(did.clone(), qids.to_vec()));
        }
        Ok(Some((before - state.letters.len()) as u64))
    }

    async fn claim(&self, did: &Did, epoch: &str, _now: UnixSeconds) -> Result<EpochClaim, MailboxError> {
        self.enter(false).await?;
        let mut state = self.0.state.lock().unwrap();
        let newest = state.epochs.entry(did.clone()).or_default();
        match newest.as_str().cmp(epoch) {
            std::cmp::Ordering::Greater => return Ok(EpochClaim::Superseded),
            std::cmp::Ordering::Equal => return Ok(EpochClaim::Current),
            std::cmp::Ordering::Less => *newest = epoch.to_owned(),
        }
        state.tell(&Event::Epoch(did.clone(), epoch.to_owned()));
        Ok(EpochClaim::Current)
    }

    async fn set_online(&self, changes: &[(Did, bool)], now: UnixSeconds) -> Result<(), MailboxError> {
        self.enter(false).await?;
        self.0.online_writes.fetch_add(1, Ordering::SeqCst);
        let mut state = self.0.state.lock().unwrap();
        state.online.extend(changes.iter().map(|(did, is_on)| (did.clone(), (*is_on, now))));
        Ok(())
    }

    async fn presence(&self, did: &Did, _now: UnixSeconds) -> Result<Presence, MailboxError> {
        self.enter(false).await?;
        let known = self.0.state.lock().unwrap().online.get(did).copied();
        Ok(Presence { is_online: known.is_some_and(|known| known.0), last_seen: known.map(|known| known.1) })
    }

    async fn put_answer(&self, did: &Did, qid: Qid, blob: &str, now: UnixSeconds) -> Result<bool, MailboxError> {
        self.enter(false).await?;
        let mut state = self.0.state.lock().unwrap();
        let is_awaited = state
            .letters
            .get(&qid)
            .is_some_and(|(to, held)| to == did && held.awaited_until.is_some_and(|until| until > now));
        if is_awaited {
            state.answers.insert(qid, blob.to_owned());
            state.tell(&Event::Answered(qid));
        }
        Ok(is_awaited)
    }

    async fn stop_waiting(&self, _did: &Did, qid: Qid) -> Result<(), MailboxError> {
        self.enter(false).await?;
        let mut state = self.0.state.lock().unwrap();
        state.answers.remove(&qid);
        if let Some((_, letter)) = state.letters.get_mut(&qid) {
            letter.awaited_until = None;
        }
        Ok(())
    }

    async fn take_answer(&self, qid: Qid) -> Result<Option<String>, MailboxError> {
        self.enter(false).await?;
        let taken = self.0.state.lock().unwrap().answers.remove(&qid);
        self.0.answered_from_store.fetch_add(usize::from(taken.is_some()), Ordering::SeqCst);
        Ok(taken)
    }

    async fn put_card(&self, did: &Did, ts: i64, envelope: &str) -> Result<PutCard, MailboxError> {
        self.enter(true).await?;
        let mut state = self.0.state.lock().unwrap();
        match state.cards.get(did) {
            Some((held, _)) if *held >= ts => Ok(PutCard::Held(*held)),
            _ => {
                state.cards.insert(did.clone(), (ts, envelope.to_owned()));
                Ok(PutCard::Stored)
            }
        }
    }

    async fn card(&self, did: &Did) -> Result<Option<String>, MailboxError> {
        self.enter(false).await?;
        Ok(self.0.state.lock().unwrap().cards.get(did).map(|(_, card)| card.clone()))
    }

    async fn put_invite(
        &self,
        did: &Did,
        code: &str,
        card: &str,
        exp: UnixSeconds,
        now: UnixSeconds,
    ) -> Result<(PutInvite, String), MailboxError> {
        self.enter(true).await?;
        let mut state = self.0.state.lock().unwrap();
        if let Some((first, _)) = state.invites.iter().find(|(_, (_, held, _))| held == card) {
            return Ok((PutInvite::Stored, first.clone()));
        }
        let live = state.invites.values().filter(|(by, _, exp)| by == did && *exp > now).count();
        if live >= self.0.quotas.invites as usize {
            return Ok((PutInvite::TooMany, code.to_owned()));
        }
        state.invites.insert(code.to_owned(), (did.clone(), card.to_owned(), exp));
        Ok((PutInvite::Stored, code.to_owned()))
    }

    async fn invite(&self, code: &str, now: UnixSeconds) -> Result<Option<String>, MailboxError> {
        self.enter(false).await?;
        let state = self.0.state.lock().unwrap();
        Ok(state.invites.get(code).filter(|(_, _, exp)| *exp > now).map(|(_, card, _)| card.clone()))
    }

    async fn sweep(&self, _now: UnixSeconds) -> Result<Swept, MailboxError> {
        Ok(Swept::default())
    }

    async fn counts(&self) -> Result<Counts, MailboxError> {
        self.enter(false).await?;
        Ok(Counts { letters: self.letters() as u64, ..Counts::default() })
    }

    fn events(&self) -> mpsc::Receiver<Event> {
        let (sender, receiver) = mpsc::channel(65_536);
        self.0.state.lock().unwrap().events.push(sender);
        receiver
    }

    async fn close(&self) {}
}

/// A relay process around a store in memory. Several may share one.
pub(crate) struct Rig {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Memory,
    pub(crate) stop: Stop,
    pub(crate) clock: Arc<AtomicI64>,
    site: RelaySite,
    _tasks: JoinSet<()>,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        Rig::with(Bounds::default(), Quotas::default())
    }

    pub(crate) fn with(bounds: Bounds, quotas: Quotas) -> Rig {
        Rig::on(Memory::new(quotas), bounds)
    }

    /// One more process on this store.
    pub(crate) fn on(store: Memory, bounds: Bounds) -> Rig {
        let clock = Arc::new(AtomicI64::new(NOW));
        let now = Arc::clone(&clock);
        let shared = Arc::new(Shared::new(Parts {
            quotas: store.0.quotas.clone(),
            store: Box::new(store.clone()),
            base: format!("{ORIGIN}/mail"),
            origins: vec![ORIGIN.to_owned(), "http://127.0.0.1:8421".to_owned()],
            bounds,
            limits: ServerLimits { write_timeout: Duration::from_secs(1), ..ServerLimits::default() },
            access: MetricsAccess::Loopback,
            clock: Box::new(move || UnixSeconds(now.load(Ordering::SeqCst))),
        }));
        let stop = Stop::new();
        let tasks = upkeep::begin(&shared, &stop);
        let site = RelaySite(Arc::clone(&shared));
        Rig { shared, store, stop, clock, site, _tasks: tasks }
    }

    pub(crate) async fn call(&self, method: Method, target: &str, body: impl Into<Bytes>) -> Answer {
        let head = head(method, target);
        let body = body.into();
        assert!(body.len() <= self.site.max_body_bytes(&head), "the server answers 413");
        self.site.answer(Request { head, body }).await
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.call(Method::GET, target, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        self.call(Method::POST, path, body).await
    }

    /// Deposits a letter and wants it to be taken.
    pub(crate) async fn send(&self, from: u8, to: u8, id: &str) {
        let answer = self.post("/send", deposit(from, to, id).to_json()).await;
        assert_eq!((answer.status, text(&answer)), (200, format!(r#"{{"id":"{id}","queued":true}}"#)));
    }

    pub(crate) async fn listen(&self, of: u8, epoch: &str, wait: u64) -> Answer {
        self.get(&listen_target(of, epoch, wait)).await
    }

    pub(crate) async fn ack(&self, of: u8, epoch: &str, qids: &[&str]) -> Answer {
        let mut body = proof(of, epoch);
        let qids: Vec<Value> = qids.iter().map(|qid| Value::from(*qid)).collect();
        body.push(("qids", Value::Array(qids)));
        self.post("/ack", object(body)).await
    }

    pub(crate) async fn reply(&self, of: u8, epoch: &str, qid: &str, blob: &str) -> Answer {
        let mut body = proof(of, epoch);
        body.extend([("qid", qid.into()), ("blob", blob.into())]);
        self.post("/reply", object(body)).await
    }
}

pub(crate) fn head(method: Method, target: &str) -> Head {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (target, None),
    };
    Head {
        method,
        path: path.to_owned(),
        query,
        accepts_events: false,
        is_forwarded: false,
        remote: "127.0.0.1:1".parse().unwrap(),
    }
}

pub(crate) fn deposit(from: u8, to: u8, id: &str) -> Deposit {
    Deposit::sign(&key(from), key(to).did(), &"ab".repeat(32), id, "AAAA".to_owned())
}

pub(crate) fn token(of: u8) -> (i64, String) {
    let minute = minute_of(UnixSeconds(NOW));
    (minute, listen_token(&key(of), minute, ORIGIN))
}

pub(crate) fn listen_target(of: u8, epoch: &str, wait: u64) -> String {
    let (minute, token) = token(of);
    format!("/listen?did={}&minute={minute}&epoch={epoch}&token={}&wait={wait}", key(of).did(), escaped(&token))
}

pub(crate) fn escaped(token: &str) -> String {
    token.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
}

pub(crate) fn proof(of: u8, epoch: &str) -> Vec<(&'static str, Value)> {
    let (minute, token) = token(of);
    vec![
        ("did", key(of).did().as_str().into()),
        ("minute", minute.into()),
        ("epoch", epoch.into()),
        ("token", token.into()),
    ]
}

pub(crate) fn object(members: Vec<(&'static str, Value)>) -> String {
    let mut object = json::Object::new();
    for (name, value) in members {
        object.insert(name.to_owned(), value);
    }
    Value::from(object).to_json()
}

pub(crate) fn text(answer: &Answer) -> String {
    String::from_utf8(answer.body.to_vec()).unwrap()
}

/// The ids in an answer to a poll.
pub(crate) fn ids(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", text(answer));
    let batch = muretai_protocol::relay::Batch::read(&answer.body).unwrap();
    batch.items.into_iter().map(|item| item.unwrap().id).collect()
}

/// The code of a refusal, and its data as JSON.
pub(crate) fn refusal(answer: &Answer) -> (u16, i64, String) {
    let body = json::parse(&answer.body).unwrap();
    let error = body.member("error").unwrap();
    let code = error.member("code").and_then(Value::as_i64).unwrap();
    (answer.status, code, error.member("data").map(Value::to_json).unwrap_or_default())
}

/// Waits until a DID is listened for, and its listener has looked for letters.
pub(crate) async fn listening(rig: &Rig, of: u8) {
    let fetches = rig.store.fetches();
    while !rig.shared.hub.is_listening(key(of).did()) || rig.store.fetches() == fetches {
        tokio::task::yield_now().await;
    }
}
