//! Letters out by long poll, `GET /listen`, and what listeners are done with, `POST /ack` (9.3).
use std::time::Duration;

use bytes::Bytes;
use muretai_protocol::json::{self, Value};
use muretai_store::mailboxes::{EpochClaim, Fetched, Qid};
use muretai_transports::http::site::Answer;
use tokio::time::Instant;

use crate::{
    answer::{Handled, Refusal, json_answer},
    budget::Share,
    deposit::read_qid,
    hub::{Flags, Kind, NoSeat, Sitting},
    letters,
    metrics::{Count, Op},
    proof::Proof,
    shared::{Shared, tail},
};

/// Letters that one `POST /ack` may name.
const MAX_ACKS: usize = 1_000;

/// `GET /listen` that is no stream.
pub(crate) async fn listen(shared: &Shared, query: &str) -> Handled {
    let (proof, wait) = Proof::from_query(query)?;
    proof.check(shared)?;
    let most = shared.bounds.max_wait;
    let wait = wait.map_or(most, |secs| Duration::from_secs(secs).min(most));
    let until = Instant::now() + wait;
    let kind = if wait.is_zero() { Kind::Drain } else { Kind::Poll };
    let sitting = match take_seat(shared, &proof, kind).await {
        Ok(sitting) => sitting,
        Err(NoListen::Stopping) => return Ok(empty()),
        Err(NoListen::Refused(refusal)) => return Err(refusal),
    };
    loop {
        let hand = sitting.in_hand();
        let (max_letters, max_bytes) = shared.bounds.max_batch;
        let (fetched, share) = letters::fetch(shared, &sitting, &hand, max_letters, max_bytes).await?;
        if sitting.signal().is_up(Flags::SUPERSEDED) {
            return Err(superseded(shared, &sitting));
        }
        if !fetched.letters.is_empty() {
            return Ok(items(shared, &sitting, &fetched, share));
        }
        let wake_at = hand.next_due.map_or(until, |due| due.min(until));
        let flags = tokio::time::timeout_at(wake_at, sitting.signal().wait()).await.ok();
        match flags {
            Some(flags) if flags.has(Flags::SUPERSEDED) => return Err(superseded(shared, &sitting)),
            Some(flags) if flags.has(Flags::STOP.or(Flags::REPLACED)) => return Ok(empty()),
            Some(flags) if flags.has(Flags::RESYNC) => reclaim(shared, &sitting).await?,
            Some(_) => {}
            None if Instant::now() >= until => return Ok(empty()),
            None => {}
        }
    }
}

/// Why nobody listens.
pub(crate) enum NoListen {
    Refused(Refusal),
    Stopping,
}

/// Sits down first and claims the epoch then, so that news of a greater one cannot slip in between.
pub(crate) async fn take_seat<'s>(shared: &'s Shared, proof: &Proof, kind: Kind) -> Result<Sitting<'s>, NoListen> {
    let sitting = match shared.hub.sit(&proof.did, &proof.epoch, kind) {
        Ok(sitting) => sitting,
        Err(NoSeat::Stopping) => return Err(NoListen::Stopping),
        Err(NoSeat::Superseded) => {
            shared.metrics.add(Count::Superseded, 1);
            tracing::info!(did = tail(&proof.did), "listener refused: a newer one has the mailbox");
            return Err(NoListen::Refused(Refusal::superseded()));
        }
    };
    reclaim(shared, &sitting).await.map_err(NoListen::Refused)?;
    shared.metrics.add(Count::Listens, 1);
    tracing::debug!(did = tail(&proof.did), ?kind, "listening");
    Ok(sitting)
}

/// Claims the mailbox in the store, which knows of listeners at other processes.
pub(crate) async fn reclaim(shared: &Shared, sitting: &Sitting<'_>) -> Result<(), Refusal> {
    let listener = sitting.listener();
    let claim = shared.store.claim(&listener.did, listener.epoch.as_str(), shared.now());
    match shared.ask(Op::Claim, claim).await? {
        EpochClaim::Current => Ok(()),
        EpochClaim::Superseded => Err(superseded(shared, sitting)),
    }
}

fn superseded(shared: &Shared, sitting: &Sitting<'_>) -> Refusal {
    shared.metrics.add(Count::Superseded, 1);
    tracing::info!(did = tail(&sitting.listener().did), "listener superseded");
    Refusal::superseded()
}

fn empty() -> Answer {
    json_answer(r#"{"items":[],"more":false}"#)
}

fn items(shared: &Shared, sitting: &Sitting<'_>, fetched: &Fetched, share: Share) -> Answer {
    letters::hand_out(shared, sitting, &fetched.letters);
    let now = shared.now();
    let mut text = String::from(r#"{"items":["#);
    for (n, letter) in fetched.letters.iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        letters::write_item(&mut text, letter, now);
    }
    text.push_str(if fetched.has_more { r#"],"more":true}"# } else { r#"],"more":false}"# });
    tracing::debug!(did = tail(&sitting.listener().did), letters = fetched.letters.len(), "letters handed out");
    json_answer(match share {
        None => Bytes::from(text),
        share => Bytes::from_owner(HeldBody { text, _share: share }),
    })
}

/// A body that holds its share of the budget until it is written.
struct HeldBody {
    text: String,
    _share: Share,
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// Refuses a listener that is not the newest.
pub(crate) async fn check_current(shared: &Shared, proof: &Proof) -> Result<(), Refusal> {
    let is_current = match shared.hub.is_current(&proof.did, &proof.epoch) {
        Some(is_current) => is_current,
        None => {
            let claim = shared.store.claim(&proof.did, proof.epoch.as_str(), shared.now());
            shared.ask(Op::Claim, claim).await? == EpochClaim::Current
        }
    };
    if is_current { Ok(()) } else { Err(Refusal::superseded()) }
}

/// `POST /ack`.
pub(crate) async fn ack(shared: &Shared, body: &Bytes) -> Handled {
    let body = json::parse(body).map_err(|_| Refusal::shape("the body is not JSON"))?;
    let proof = Proof::from_json(&body)?;
    let qids =
        body.member("qids").and_then(Value::as_array).ok_or_else(|| Refusal::shape("`qids` must be an array"))?;
    if qids.len() > MAX_ACKS {
        return Err(Refusal::shape(format!("`qids` may name {MAX_ACKS} letters at a time")));
    }
    let qids: Option<Vec<Option<Qid>>> = qids.iter().map(read_qid).collect();
    let qids = qids.ok_or_else(|| Refusal::shape("`qids` must hold strings"))?;
    let qids: Vec<Qid> = qids.into_iter().flatten().collect();
    proof.check(shared)?;
    let (did, epoch) = (&proof.did, &proof.epoch);
    // Out of the hand only once they are gone: until then they must not be fetched again.
    let tell = !shared.hub.has_in_hand(did, epoch, &qids);
    let Some(acked) = shared.ask(Op::Ack, shared.store.ack(did, epoch.as_str(), &qids, tell)).await? else {
        shared.metrics.add(Count::Superseded, 1);
        return Err(Refusal::superseded());
    };
    shared.hub.acked(did, &qids);
    shared.metrics.add(Count::Acked, acked);
    tracing::debug!(did = tail(did), acked, "letters acknowledged");
    Ok(json_answer(format!(r#"{{"acked":{acked}}}"#)))
}
