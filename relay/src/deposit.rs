//! Letters in: `POST /send`, `POST /rpc` and the answers to it, `POST /reply` (9.2). Cheap checks come first, the
//! signature before anything is kept, and what is answered `queued` is on disk.
use std::time::Duration;

use bytes::Bytes;
use muretai_protocol::{
    Did, UnixSeconds, base64,
    json::{self, Object, Value},
    relay::{Deposit, asked_wait_secs},
};
use muretai_store::mailboxes::{Bound, Deposited, NewLetter, Qid};
use tokio::time::Instant;

use crate::{
    answer::{Handled, Refusal, json_answer},
    calls::Waiting,
    metrics::{Count, DepositOutcome, Op},
    proof::Proof,
    shared::{Shared, tail},
};

/// When the sender of a letter that met a bound of a mailbox may try again: that mailbox's owner has to come first.
const MAILBOX_RETRY_SECS: u64 = 60;
/// The same where the whole relay is full.
const TOTAL_RETRY_SECS: u64 = 600;

/// `POST /send`.
pub(crate) async fn send(shared: &Shared, body: &Bytes) -> Handled {
    let deposit = accept(shared, body)?;
    let id = deposit.id.clone();
    keep(shared, deposit, None).await?;
    Ok(json_answer(queued(&id, None)))
}

/// `POST /rpc`: the same, and then a wait for the answer when somebody listens. A client that goes away meanwhile has
/// its letter kept.
pub(crate) async fn rpc(shared: &Shared, body: &Bytes) -> Handled {
    let deposit = accept(shared, body)?;
    let (id, to) = (deposit.id.clone(), deposit.to.clone());
    let place = match is_reachable(shared, &to).await {
        true => shared.calls.place(),
        false => None,
    };
    let Some(place) = place else {
        keep(shared, deposit, None).await?;
        shared.metrics.add(Count::CallsQueued, 1);
        return Ok(json_answer(queued(&id, None)));
    };
    let asked = asked_wait_secs(body).map_or(Duration::MAX, Duration::from_secs);
    let wait = shared.bounds.rpc_wait.min(asked);
    let until = Instant::now() + wait;
    let secs = i64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX);
    let awaited_until = UnixSeconds(shared.now().0.saturating_add(secs));
    let qid = keep(shared, deposit, Some(awaited_until)).await?;
    let reply = answer_of(shared, shared.calls.wait(place, &to, qid), qid, until).await;
    shared.metrics.add(if reply.is_some() { Count::CallsAnswered } else { Count::CallsQueued }, 1);
    Ok(json_answer(queued(&id, reply)))
}

/// Somebody listens for it, here or at another process. When the store cannot say, nobody does.
async fn is_reachable(shared: &Shared, to: &Did) -> bool {
    if let Some(is_here) = shared.hub.reaches(to) {
        return is_here;
    }
    let presence = shared.ask(Op::Other, shared.store.presence(to, shared.now())).await;
    presence.is_ok_and(|presence| presence.is_online)
}

async fn answer_of(shared: &Shared, mut waiting: Waiting<'_>, qid: Qid, until: Instant) -> Option<String> {
    loop {
        if let Some(blob) = waiting.take() {
            return Some(blob);
        }
        // The letter is kept whatever happens here; a store that fails now has no answer.
        if let Ok(Some(blob)) = shared.ask(Op::Other, shared.store.take_answer(qid)).await {
            return Some(blob);
        }
        if shared.calls.is_stopping() {
            return None;
        }
        if tokio::time::timeout_at(until, waiting.woken()).await.is_err() {
            waiting.ran_out();
            return waiting.take();
        }
    }
}

/// Shape, signature, rate.
fn accept(shared: &Shared, body: &[u8]) -> Result<Deposit, Refusal> {
    let mut deposit = Deposit::read(body).map_err(|error| {
        shared.metrics.deposit(DepositOutcome::Shape);
        tracing::info!(%error, "deposit refused");
        Refusal::shape(error.to_string())
    })?;
    deposit.from = shared.senders.known(deposit.from);
    if !deposit.is_signed() {
        shared.metrics.deposit(DepositOutcome::Signature);
        tracing::info!(to = tail(&deposit.to), from = tail(&deposit.from), "deposit refused: not signed by its sender");
        return Err(Refusal::forged("the signature is not `from`'s over to|from|id|blob"));
    }
    shared.senders.remember(&deposit.from);
    check_rate(shared, &deposit.from).inspect_err(|_| {
        shared.metrics.deposit(DepositOutcome::Rate);
        tracing::info!(from = tail(&deposit.from), "deposit refused: too many of this sender");
    })?;
    Ok(deposit)
}

/// Counts one act of a proven sender.
pub(crate) fn check_rate(shared: &Shared, sender: &Did) -> Result<(), Refusal> {
    let counted = shared.rates.count(sender, shared.now());
    counted.map_err(|(limit, retry_after)| Refusal::bound("senderRate", limit.into(), retry_after))
}

async fn keep(shared: &Shared, deposit: Deposit, awaited_until: Option<UnixSeconds>) -> Result<Qid, Refusal> {
    let (to, from, bytes) = (deposit.to.clone(), deposit.from.clone(), deposit.blob.len());
    let letter = NewLetter {
        to: deposit.to,
        from: deposit.from,
        id: deposit.id,
        from_enc: deposit.from_enc,
        blob: deposit.blob,
        ts: shared.now(),
        awaited_until,
    };
    let stored = shared.ask(Op::Deposit, shared.store.deposit(letter)).await.inspect_err(|_| {
        shared.metrics.deposit(DepositOutcome::Failed);
    })?;
    let (to, from) = (tail(&to), tail(&from));
    match stored {
        Deposited::Stored(qid) => {
            shared.metrics.deposit(DepositOutcome::Stored);
            tracing::info!(to, from, qid, bytes, "deposit");
            Ok(qid)
        }
        Deposited::Again(qid) => {
            shared.metrics.deposit(DepositOutcome::Again);
            tracing::info!(to, from, qid, "deposit that is there already");
            Ok(qid)
        }
        Deposited::Full(bound) => {
            shared.metrics.deposit(DepositOutcome::Full);
            let refusal = full(shared, bound);
            tracing::info!(to, from, bound = refusal.bound_name(), "deposit refused: full");
            Err(refusal)
        }
    }
}

fn full(shared: &Shared, bound: Bound) -> Refusal {
    let quotas = &shared.quotas;
    let (name, limit, retry_after) = match bound {
        Bound::MailboxLetters => ("mailboxLetters", quotas.mailbox_letters.into(), MAILBOX_RETRY_SECS),
        Bound::MailboxBytes => ("mailboxBytes", quotas.mailbox_bytes, MAILBOX_RETRY_SECS),
        Bound::SenderLetters => ("senderLetters", quotas.sender_letters.into(), MAILBOX_RETRY_SECS),
        Bound::TotalBytes => ("totalBytes", quotas.total_bytes, TOTAL_RETRY_SECS),
    };
    Refusal::bound(name, limit, retry_after)
}

fn queued(id: &str, reply: Option<String>) -> String {
    let mut body = Object::new();
    if let Some(blob) = reply {
        body.insert("reply".to_owned(), blob.into());
    }
    body.insert("queued".to_owned(), true.into());
    body.insert("id".to_owned(), id.into());
    Value::from(body).to_json()
}

/// `POST /reply`: a listener answers one who waits. What it answers to is acknowledged as always.
pub(crate) async fn reply(shared: &Shared, body: &Bytes) -> Handled {
    let body = json::parse(body).map_err(|_| Refusal::shape("the body is not JSON"))?;
    let proof = Proof::from_json(&body)?;
    let qid = body.member("qid").and_then(read_qid).ok_or_else(|| Refusal::shape("`qid` must be a qid"))?;
    let blob = match body.member("blob") {
        Some(Value::String(blob)) if !blob.is_empty() && base64::is_strict(blob) => blob.clone(),
        _ => return Err(Refusal::shape("`blob` must be base64 and not empty")),
    };
    proof.check(shared)?;
    crate::poll::check_current(shared, &proof).await?;
    let is_delivered = match qid {
        Some(qid) => deliver_answer(shared, &proof.did, qid, blob).await?,
        None => false,
    };
    tracing::info!(did = tail(&proof.did), is_delivered, "answer to a call");
    Ok(json_answer(format!(r#"{{"delivered":{is_delivered}}}"#)))
}

async fn deliver_answer(shared: &Shared, did: &Did, qid: Qid, blob: String) -> Result<bool, Refusal> {
    let Err(blob) = shared.calls.answer(did, qid, blob) else { return Ok(true) };
    // Whoever waits is at another process, or was not ready to be told a moment ago.
    let is_left = shared.ask(Op::Other, shared.store.put_answer(did, qid, &blob, shared.now())).await?;
    if is_left {
        shared.calls.wake(qid);
    }
    Ok(is_left)
}

/// A qid as clients send it: `Some(None)` is one of a shape that is none of ours, which names no letter.
pub(crate) fn read_qid(value: &Value) -> Option<Option<Qid>> {
    match value {
        Value::String(text) => Some(text.parse().ok()),
        Value::Number(_) => Some(value.as_i64()),
        _ => None,
    }
}
