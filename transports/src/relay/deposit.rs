//! Letters out (9.2): sealed, signed, deposited; and the answer of whoever listens right now.
use std::time::Duration;

use bytes::Bytes;
use muretai_protocol::{
    Did,
    json::{self, Value},
    relay::{Deposit, MAX_WAIT_SECS, deposit_id},
    rpc, urls,
};

use super::{
    RelayTransport, random,
    refusal::{refusal, useless},
};
use crate::{Delivery, MailboxAddress, Receipt, TransportError, guard::Policy, http::Fetched};

/// How long a relay may take to answer: it may be syncing a disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// How much longer a relay may take to say that no answer came.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// Bytes of an answer: a sealed reply of 1 MiB with what stands around it.
const MAX_ANSWER_BYTES: usize = 1_572_864;

/// The id of the deposit that brings this request to this recipient: made of the message id in it, so that it is the same
/// in every attempt. `None` for a request without a message; its deposit gets a random id.
pub fn deposit_id_of(request: &[u8], to: &Did) -> Option<String> {
    let request = rpc::parse_request(request).ok()?;
    let id = request.params.as_ref()?.member("message")?.member("messageId")?.as_str()?;
    (!id.is_empty()).then(|| deposit_id(id, to))
}

/// Seals, deposits and reads what the relay says.
pub(super) async fn deliver(
    transport: &RelayTransport,
    to: &Did,
    mailbox: &MailboxAddress,
    request: &[u8],
) -> Result<Delivery, TransportError> {
    let keys = &transport.keyring;
    let blob = seal(transport, mailbox, request)?;
    let id = deposit_id_of(request, to).unwrap_or_else(random_id);
    let deposit = Deposit::sign(keys.signing(), to, &keys.sealing().enc_pub(), &id, blob);
    if let Some(delivery) = call(transport, mailbox, &deposit).await? {
        return Ok(delivery);
    }
    let answer = post(transport, mailbox, "send", deposit.to_json(), ANSWER_TIMEOUT).await?;
    let answer = read_answer(mailbox, &answer)?;
    if !is_queued(&answer) {
        return Err(useless(&mailbox.relay, "it does not say that it queued the letter"));
    }
    Ok(queued(mailbox, &deposit.id))
}

/// Deposits and waits for an answer. `None`: nobody was to wait, or a relay did not keep to the time, and does or does not
/// have the letter; the same deposit by `/send` makes sure of it and makes no second copy.
async fn call(
    transport: &RelayTransport,
    mailbox: &MailboxAddress,
    deposit: &Deposit,
) -> Result<Option<Delivery>, TransportError> {
    let wait_secs = transport.times.answer_wait.as_millis().div_ceil(1_000).min(u128::from(MAX_WAIT_SECS)) as u64;
    if wait_secs == 0 {
        return Ok(None);
    }
    let in_all = transport.times.answer_limit;
    let limit = in_all.min(Duration::from_secs(wait_secs) + GRACE);
    let posted = post(transport, mailbox, "rpc", deposit.to_json_waiting(wait_secs), limit);
    // Whoever answers in time and then drips the body must not use up the time of the deposit either.
    let answer = match tokio::time::timeout(in_all, posted).await {
        Err(_) | Ok(Err(TransportError::Timeout { .. } | TransportError::Closed { .. })) => return Ok(None),
        Ok(answer) => answer?,
    };
    let answer = match read_answer(mailbox, &answer) {
        // A relay without synchronous calls.
        Err(TransportError::RelayRefused { status: 404 | 405, .. }) => return Ok(None),
        answer => answer?,
    };
    let reply = answer.member("reply").and_then(Value::as_str);
    if let Some(opened) = reply.and_then(|reply| transport.keyring.sealing().open(&mailbox.enc_pub, reply, b"").ok()) {
        return Ok(Some(Delivery::Answered(Bytes::from(opened))));
    }
    // A reply that does not open proves nothing, not even that somebody read the letter; but the relay has it.
    if reply.is_none() && !is_queued(&answer) {
        return Err(useless(&mailbox.relay, "it does not say that it queued the letter"));
    }
    Ok(Some(queued(mailbox, &deposit.id)))
}

async fn post(
    transport: &RelayTransport,
    mailbox: &MailboxAddress,
    path: &str,
    body: String,
    limit: Duration,
) -> Result<Fetched, TransportError> {
    let policy = if mailbox.allow_private { Policy::Owner } else { Policy::Peer };
    let url = urls::join(&mailbox.relay, path);
    let body = Bytes::from(body);
    let send = || transport.http.post_patiently(&url, body.clone(), policy, MAX_ANSWER_BYTES, limit);
    match send().await {
        // A connection that was kept from before may close while it is used. A repeated deposit makes no second copy.
        Err(TransportError::Closed { .. }) => send().await,
        answer => answer,
    }
}

/// v2 when the peer's ML-KEM key is known and is one, v1 otherwise (9.4).
fn seal(transport: &RelayTransport, to: &MailboxAddress, request: &[u8]) -> Result<String, TransportError> {
    let ours = transport.keyring.sealing();
    let hybrid = to.enc_pub_pq.as_ref().and_then(|theirs| {
        let sealed = ours.seal_hybrid(&to.enc_pub, theirs, request, b"", random(), random());
        sealed.inspect_err(|error| tracing::debug!(%error, "sealed without the peer's post-quantum key")).ok()
    });
    match hybrid {
        Some(blob) => Ok(blob),
        None => ours.seal(&to.enc_pub, request, b"", random()).map_err(|_| TransportError::BadSealingKey),
    }
}

/// The object that a relay answers a deposit with.
fn read_answer(mailbox: &MailboxAddress, answer: &Fetched) -> Result<Value, TransportError> {
    if answer.status != 200 {
        return Err(refusal(&mailbox.relay, answer));
    }
    let answer = json::parse(&answer.body).ok().filter(|answer| answer.as_object().is_some());
    answer.ok_or_else(|| useless(&mailbox.relay, "its answer to a letter is no JSON object"))
}

fn is_queued(answer: &Value) -> bool {
    answer.member("queued").and_then(Value::as_bool) == Some(true)
}

fn queued(mailbox: &MailboxAddress, deposit_id: &str) -> Delivery {
    Delivery::Queued(Receipt { relay: mailbox.relay.clone(), deposit_id: deposit_id.to_owned() })
}

fn random_id() -> String {
    random::<16>().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use muretai_protocol::sign::{Seed, SigningKey};

    use super::*;

    #[test]
    fn a_deposit_is_named_after_its_message() {
        let to = SigningKey::from_seed(&Seed::from_bytes([2; 32])).did().clone();
        let request = |text: &str| deposit_id_of(text.as_bytes(), &to);
        let first =
            request(r#"{"jsonrpc":"2.0","id":"1","method":"message/send","params":{"message":{"messageId":"m"}}}"#);
        let again =
            request(r#"{"jsonrpc":"2.0","id":"2","method":"message/send","params":{"message":{"messageId":"m"}}}"#);
        assert_eq!(first, Some(deposit_id("m", &to)));
        assert_eq!(first, again);
        for without in [
            "",
            "[]",
            "{}",
            r#"{"params":[]}"#,
            r#"{"params":{"message":{"messageId":7}}}"#,
            r#"{"params":{"message":{"messageId":""}}}"#,
        ] {
            assert_eq!(request(without), None, "{without}");
        }
        assert_eq!(random_id().len(), 32);
    }
}
