//! How processes tell each other what happened: payloads of NOTIFY, who sends them and who hears them.
//!
//! They are sent after the commit, by a connection of their own: PostgreSQL lets one transaction that notifies commit at a
//! time, so a deposit that notified would wait for everybody else's disk. What is lost when a process dies in between is
//! made good by [`Event::Resync`], which whoever finds it dead sends.
use std::{
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muretai_protocol::Did;
use sqlx::{PgConnection, postgres::PgListener, query};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use crate::mailboxes::{
    Event,
    events::Events,
    postgres::{failure::too_late, link::Link},
};

const CHANNEL: &str = "muretai_relay";
/// PostgreSQL takes less than 8,000 bytes.
const MAX_PAYLOAD_BYTES: usize = 7_900;
/// Numbers of letters in one item.
const MAX_QIDS: usize = 300;
/// Commits whose events wait to be sent.
const QUEUE_LEN: usize = 1_024;
/// A notice without content, by which a listener knows that its connection lives.
const BEAT_EVERY: Duration = Duration::from_secs(10);
/// Without any notice for so long, a connection is given up.
const SILENCE: Duration = Duration::from_secs(35);
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(5);
const DID_PREFIX: &str = "did:key:";

/// Hands events over to the sending task; never waits.
pub(super) struct Notices {
    /// `None` once it is closed.
    queue: Mutex<Option<mpsc::Sender<Vec<Event>>>>,
    has_lost: Arc<AtomicBool>,
}

impl Notices {
    /// And the task that sends, until this is dropped.
    pub(super) fn new(link: Link, process: i64) -> (Notices, impl Future<Output = ()> + Send) {
        let (queue, events) = mpsc::channel(QUEUE_LEN);
        let has_lost = Arc::new(AtomicBool::new(false));
        let sender = Sender { link, process, conn: None, has_lost: has_lost.clone() };
        (Notices { queue: Mutex::new(Some(queue)), has_lost }, sender.run(events))
    }

    pub(super) fn tell(&self, events: Vec<Event>) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = &*queue
            && !events.is_empty()
            && queue.try_send(events).is_err()
        {
            self.has_lost.store(true, Ordering::Release);
        }
    }

    /// Nothing more will be told; the task ends when it has sent what waits.
    pub(super) fn close(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

struct Sender {
    link: Link,
    process: i64,
    conn: Option<PgConnection>,
    /// The others have to look at everything again.
    has_lost: Arc<AtomicBool>,
}

impl Sender {
    async fn run(mut self, mut queue: mpsc::Receiver<Vec<Event>>) {
        let mut beat = interval(BEAT_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut waiting = Vec::new();
        let mut retry = FIRST_RETRY;
        loop {
            tokio::select! {
                taken = queue.recv_many(&mut waiting, QUEUE_LEN) => if taken == 0 { break },
                _ = beat.tick() => {}
            }
            let mut events: Vec<Event> = waiting.drain(..).flatten().collect();
            if self.has_lost.swap(false, Ordering::AcqRel) {
                events = vec![Event::Resync];
            }
            match timeout(SEND_TIMEOUT, self.send(&events)).await.unwrap_or_else(|_| Err(too_late())) {
                Ok(()) => retry = FIRST_RETRY,
                Err(error) => {
                    tracing::debug!(%error, "the other processes could not be told");
                    self.conn = None;
                    self.has_lost.store(true, Ordering::Release);
                    sleep(retry).await;
                    retry = (retry * 2).min(LAST_RETRY);
                    beat.reset_immediately();
                }
            }
        }
    }

    async fn send(&mut self, events: &[Event]) -> Result<(), sqlx::Error> {
        if self.conn.is_none() {
            self.conn = Some(self.link.volatile().await?);
        }
        let Some(conn) = &mut self.conn else { return Ok(()) };
        query("SELECT pg_notify($1, payload) FROM unnest($2::text[]) payload")
            .bind(CHANNEL)
            .bind(encode(self.process, events))
            .execute(conn)
            .await
            .map(drop)
    }
}

/// Hears what the other processes tell, until it is aborted.
pub(super) async fn listen(link: Link, process: i64, events: Arc<Events>, first: PgListener) {
    let mut listener = Some(first);
    let mut retry = FIRST_RETRY;
    loop {
        if let Some(listener) = listener.take() {
            hear(listener, process, &events).await;
        }
        match connect(&link).await {
            Ok(connected) => {
                listener = Some(connected);
                retry = FIRST_RETRY;
                // What was told meanwhile was not heard.
                events.tell([Event::Resync]);
            }
            Err(error) => {
                tracing::debug!(%error, "the other processes cannot be heard");
                sleep(retry).await;
                retry = (retry * 2).min(LAST_RETRY);
            }
        }
    }
}

pub(super) async fn connect(link: &Link) -> Result<PgListener, sqlx::Error> {
    let connecting = async {
        let mut listener = PgListener::connect_with(&link.pool_of_one()).await?;
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok(listener)
    };
    timeout(SEND_TIMEOUT, connecting).await.unwrap_or_else(|_| Err(too_late()))
}

/// Until the connection is lost, or silent for too long.
async fn hear(mut listener: PgListener, process: i64, events: &Events) {
    while let Ok(Ok(Some(notice))) = timeout(SILENCE, listener.try_recv()).await {
        let (from, told) = decode(notice.payload());
        if from != Some(process) {
            events.tell(told);
        }
    }
}

/// The process, then items with a space before each: `L` a letter, `E` an epoch, `A` an answer, `K` acknowledged ones,
/// `R` look again.
fn encode(process: i64, events: &[Event]) -> Vec<String> {
    let mut payloads = vec![process.to_string()];
    for event in events {
        for mut item in items(event) {
            if item.len() > MAX_PAYLOAD_BYTES - 24 {
                item = "R".to_owned();
            }
            let last = payloads.last_mut().filter(|payload| payload.len() + 1 + item.len() <= MAX_PAYLOAD_BYTES);
            match last {
                Some(payload) => write!(payload, " {item}").unwrap_or_default(),
                None => payloads.push(format!("{process} {item}")),
            }
        }
    }
    payloads
}

fn items(event: &Event) -> Vec<String> {
    let short = |did: &Did| did.as_str().strip_prefix(DID_PREFIX).unwrap_or_default().to_owned();
    match event {
        Event::Letter(did) => vec![format!("L{}", short(did))],
        Event::Epoch(did, epoch) => vec![format!("E{},{}", short(did), escape(epoch))],
        Event::Answered(qid) => vec![format!("A{qid}")],
        Event::Acked(did, qids) => {
            let listed = |qids: &[i64]| qids.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
            qids.chunks(MAX_QIDS).map(|qids| format!("K{},{}", short(did), listed(qids))).collect()
        }
        Event::Resync => vec!["R".to_owned()],
    }
}

/// Whose it is and what it tells. What cannot be read means: look again.
fn decode(payload: &str) -> (Option<i64>, Vec<Event>) {
    let mut words = payload.split(' ');
    let process = words.next().and_then(|word| word.parse().ok());
    (process, words.map(|word| read(word).unwrap_or(Event::Resync)).collect())
}

fn read(word: &str) -> Option<Event> {
    let did = |text: &str| format!("{DID_PREFIX}{text}").parse::<Did>().ok();
    let rest = word.get(1..)?;
    match word.as_bytes().first()? {
        b'L' => Some(Event::Letter(did(rest)?)),
        b'E' => {
            let (whose, epoch) = rest.split_once(',')?;
            Some(Event::Epoch(did(whose)?, unescape(epoch)?))
        }
        b'A' => Some(Event::Answered(rest.parse().ok()?)),
        b'K' => {
            let (whose, qids) = rest.split_once(',')?;
            Some(Event::Acked(did(whose)?, qids.split(',').map(|qid| qid.parse().ok()).collect::<Option<_>>()?))
        }
        _ => None,
    }
}

fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02x}").unwrap_or_default();
        }
        escaped
    })
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muretai_protocol::did::PublicKey;
    use proptest::prelude::*;

    fn did() -> impl Strategy<Value = Did> {
        any::<[u8; 32]>().prop_map(|key| Did::from_key(&PublicKey::Ed25519(key)))
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            did().prop_map(Event::Letter),
            (did(), ".{0,40}").prop_map(|(did, epoch)| Event::Epoch(did, epoch)),
            any::<i64>().prop_map(Event::Answered),
            (did(), prop::collection::vec(any::<i64>(), 1..MAX_QIDS)).prop_map(|(did, qids)| Event::Acked(did, qids)),
            Just(Event::Resync),
        ]
    }

    proptest! {
        #[test]
        fn events_come_back_in_payloads_that_fit(process: i64, events in prop::collection::vec(event(), 0..200)) {
            let payloads = encode(process, &events);
            prop_assert!(payloads.iter().all(|payload| payload.len() <= MAX_PAYLOAD_BYTES));
            let mut seen = Vec::new();
            for payload in payloads {
                let (from, told) = decode(&payload);
                prop_assert_eq!(from, Some(process));
                seen.extend(told);
            }
            prop_assert_eq!(seen, events);
        }

        #[test]
        fn any_payload_is_read(payload in ".{0,200}") {
            decode(&payload);
        }
    }

    #[test]
    fn what_is_too_long_or_unknown_means_look_again() {
        let did = Did::from_key(&PublicKey::Ed25519([7; 32]));
        let (_, told) = decode(&encode(5, &[Event::Epoch(did.clone(), "x".repeat(9_000))])[0]);
        assert_eq!(told, [Event::Resync]);
        assert_eq!(decode("5 Z Lxyz K E, A1x").1, vec![Event::Resync; 5]);
        let many = Event::Acked(did.clone(), (0..700).collect());
        let told: Vec<Event> = encode(5, &[many]).iter().flat_map(|payload| decode(payload).1).collect();
        assert_eq!(told.len(), 3);
    }
}
