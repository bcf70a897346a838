//! The listener's end of a mailbox (9.3): requests that prove whose it is, and the answers to them.
use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use muretai_protocol::{
    json::{self, Object, Value},
    relay::{Batch, MAX_WAIT_SECS, listen_token},
    urls,
};
use url::form_urlencoded::Serializer;

use super::{
    Keyring, Place,
    clock::RelayClock,
    refusal::{refusal, time_of, useless},
};
use crate::{
    TransportError,
    http::{Fetched, HttpTransport, Opened},
};

/// How long a relay may take until an answer begins, beside the time that it was told to wait.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a batch of letters may be on the way.
const BATCH_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an answer to a poll: 1 MiB of letters, the one that goes beyond, and what stands around them.
const MAX_BATCH_BYTES: usize = 4 * 1_048_576;
/// Bytes of every other answer.
const MAX_ANSWER_BYTES: usize = 65_536;

/// What a relay answers to whoever wants a stream.
#[derive(Debug)]
pub(super) enum Listening {
    /// A stream.
    Stream(Opened),
    /// Letters at once: it knows polls only.
    Batch(Batch),
    /// It knows nothing of the kind.
    Unknown,
}

/// One agent's mailbox at one relay, for one listener.
pub(super) struct Mailbox {
    pub(super) keyring: Arc<dyn Keyring>,
    pub(super) place: Place,
    http: Arc<HttpTransport>,
    origin: String,
    clock: RelayClock,
}

impl Mailbox {
    pub(super) fn new(keyring: Arc<dyn Keyring>, http: Arc<HttpTransport>, place: Place) -> Mailbox {
        let origin = urls::origin(&place.relay);
        Mailbox { keyring, place, http, origin, clock: RelayClock::default() }
    }

    pub(super) fn relay(&self) -> &str {
        &self.place.relay
    }

    /// Letters, waited for as long as the relay allows and no longer than asked.
    pub(super) async fn poll(&self, wait: Duration) -> Result<Batch, TransportError> {
        // Rounded up: the last second of a wait is worth a request, not a busy loop.
        let wait_secs = wait.as_millis().div_ceil(1_000).min(u128::from(MAX_WAIT_SECS)) as u64;
        let opened = self.get("application/json", wait_secs).await?;
        self.batch(opened).await
    }

    /// Asks for a stream.
    pub(super) async fn stream(&self) -> Result<Listening, TransportError> {
        let opened = match self.get("text/event-stream", 0).await {
            Ok(opened) => opened,
            Err(TransportError::RelayRefused { status: 404..=406, .. }) => return Ok(Listening::Unknown),
            Err(error) => return Err(error),
        };
        match opened.is_of_type("text/event-stream") {
            true => Ok(Listening::Stream(opened)),
            false => Ok(Listening::Batch(self.batch(opened).await?)),
        }
    }

    /// Tells the relay that these letters are on disk here. It has heard when it says how many it knew; those that it did
    /// not know are gone, too.
    pub(super) async fn ack(&self, qids: &[String]) -> Result<(), TransportError> {
        let qids: Vec<Value> = qids.iter().map(|qid| qid.as_str().into()).collect();
        let answer = self.post("ack", [("qids", Value::Array(qids))]).await?;
        let acked = json::parse(&answer.body).ok().and_then(|answer| answer.member("acked")?.as_i64());
        match acked {
            Some(0..) => Ok(()),
            _ => Err(useless(self.relay(), "it does not say how many letters were acknowledged")),
        }
    }

    /// Answers whoever waits for the answer to a letter. `false`: nobody does any more.
    pub(super) async fn reply(&self, qid: &str, blob: String) -> Result<bool, TransportError> {
        let answer = self.post("reply", [("qid", qid.into()), ("blob", blob.into())]).await?;
        let answer = json::parse(&answer.body).ok();
        Ok(answer.and_then(|answer| answer.member("delivered")?.as_bool()).unwrap_or(false))
    }

    /// GETs `/listen`; once more when the relay refuses the token for its minute. The status is 200.
    async fn get(&self, accept: &str, wait_secs: u64) -> Result<Opened, TransportError> {
        let limit = HEAD_TIMEOUT + Duration::from_secs(wait_secs);
        let mut is_corrected = false;
        loop {
            let (minute, token) = self.token();
            let url = self.listen_url(minute, &token, wait_secs);
            let headers = [("accept", accept.to_owned())];
            let opened = self.http.open(&url, &headers, self.place.policy, limit).await?;
            if opened.status() == 200 {
                return Ok(opened);
            }
            let answer = opened.read(MAX_ANSWER_BYTES, HEAD_TIMEOUT).await?;
            self.judge(&answer, minute, &mut is_corrected)?;
        }
    }

    /// POSTs with the members that prove whose mailbox it is; once more when the relay refuses the token for its minute.
    async fn post<const N: usize>(
        &self,
        path: &str,
        members: [(&'static str, Value); N],
    ) -> Result<Fetched, TransportError> {
        let url = urls::join(self.relay(), path);
        let mut is_corrected = false;
        loop {
            let (minute, token) = self.token();
            let body = Bytes::from(self.body(minute, token, &members));
            let sent = self.http.post_patiently(&url, body, self.place.policy, MAX_ANSWER_BYTES, HEAD_TIMEOUT);
            let answer = sent.await?;
            if answer.status == 200 {
                return Ok(answer);
            }
            self.judge(&answer, minute, &mut is_corrected)?;
        }
    }

    /// Turns a refusal into an error, unless the clock was put right by it and another attempt makes sense.
    fn judge(&self, answer: &Fetched, minute: i64, is_corrected: &mut bool) -> Result<(), TransportError> {
        match answer.status {
            409 => Err(TransportError::Superseded { relay: self.relay().to_owned() }),
            401 if !*is_corrected
                && time_of(answer).is_some_and(|now| self.clock.correct(self.relay(), now, minute)) =>
            {
                *is_corrected = true;
                Ok(())
            }
            _ => Err(refusal(self.relay(), answer)),
        }
    }

    fn token(&self) -> (i64, String) {
        let minute = self.clock.minute();
        (minute, listen_token(self.keyring.signing(), minute, &self.origin))
    }

    fn listen_url(&self, minute: i64, token: &str, wait_secs: u64) -> String {
        let query = Serializer::new(String::new())
            .append_pair("did", self.keyring.signing().did().as_str())
            .append_pair("minute", &minute.to_string())
            .append_pair("epoch", self.place.epoch.as_str())
            .append_pair("token", token)
            .append_pair("wait", &wait_secs.to_string())
            .finish();
        format!("{}?{query}", urls::join(self.relay(), "listen"))
    }

    fn body(&self, minute: i64, token: String, members: &[(&'static str, Value)]) -> String {
        let mut body = Object::new();
        let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
        put("did", self.keyring.signing().did().as_str().into());
        put("minute", minute.into());
        put("epoch", self.place.epoch.as_str().into());
        put("token", token.into());
        members.iter().for_each(|(name, value)| drop(put(name, value.clone())));
        Value::from(body).to_json()
    }

    async fn batch(&self, opened: Opened) -> Result<Batch, TransportError> {
        let answer = opened.read(MAX_BATCH_BYTES, BATCH_TIMEOUT).await?;
        Batch::read(&answer.body).map_err(|_| useless(self.relay(), "its answer to a listener does not list letters"))
    }
}
