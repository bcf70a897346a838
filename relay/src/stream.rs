//! Letters out by stream, `GET /listen` with `Accept: text/event-stream` (9.3). Idle streams are what a relay has most
//! of, so one that waits is a socket, a seat and a small future: it owns no buffer, and no timer but the one for letters
//! that it has in hand. Signs of life come from the shared [`wheel`]. Decision 0008.
use std::{io, time::Duration};

use muretai_store::mailboxes::StoredLetter;
use muretai_transports::http::site::{Answer, TakenOver};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::Instant};

use crate::{
    answer::Refusal,
    hub::{Flags, InHand, Kind, Sitting},
    jitter, letters,
    metrics::Count,
    poll::{NoListen, reclaim, take_seat},
    proof::Proof,
    shared::{Shared, tail},
};

pub(crate) mod wheel;

/// What a stream begins with. It ends when the connection does.
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\n\
x-accel-buffering: no\r\nconnection: close\r\naccess-control-allow-origin: *\r\n\
access-control-allow-methods: GET, OPTIONS\r\naccess-control-allow-headers: Content-Type\r\n\
access-control-max-age: 600\r\n\r\n: ok\n\n";
/// A sign of life.
const BEAT: &[u8] = b":\n\n";
/// What the listener has to come back after, as it is.
const BYE: &[u8] = b"event: bye\ndata: {}\n\n";
/// Most bytes of letters that are fetched for a stream at once; a letter that is larger comes alone.
const FETCH_BYTES: u64 = 262_144;
/// Bytes that a listener may send into its stream, which nobody reads.
const MAX_CHATTER: usize = 4_096;
/// Signs of life in a row that a peer may leave in the system's buffer.
const MAX_MISSED: u8 = 4;
/// How long to leave a store alone that failed, at least and at most: all streams find it failing at the same time.
const STORE_PAUSE: Duration = Duration::from_secs(2);
const STORE_PAUSE_MORE: Duration = Duration::from_secs(3);

/// Why a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The peer closed, or the network did.
    Gone,
    /// The peer does not read.
    Slow,
    Superseded,
    /// The same listener came back.
    Replaced,
    /// It has lived long enough.
    Old,
    Stopping,
}

/// Serves one stream to its end.
pub(crate) async fn serve(shared: &Shared, connection: TakenOver) {
    let TakenOver { head, mut stream, .. } = connection;
    let query = head.query.unwrap_or_default();
    // What opening and delivering need is on the heap only while they last.
    let Some(sitting) = Box::pin(open(shared, query, &mut stream)).await else { return };
    let end = Live {
        shared,
        sitting: &sitting,
        stream: &mut stream,
        old_at: Instant::now() + jitter::shortened(shared.bounds.stream_life),
        missed: 0,
        chatter: 0,
        must_claim: false,
    }
    .run()
    .await;
    tracing::info!(did = tail(&sitting.listener().did), ?end, "stream ended");
}

/// Takes the seat and begins the stream, or says why not.
async fn open<'s>(shared: &'s Shared, query: String, stream: &mut TcpStream) -> Option<Sitting<'s>> {
    let opened = async {
        let (proof, _) = Proof::from_query(&query).map_err(NoListen::Refused)?;
        proof.check(shared).map_err(NoListen::Refused)?;
        take_seat(shared, &proof, Kind::Stream).await
    };
    let sitting = match opened.await {
        Ok(sitting) => sitting,
        Err(NoListen::Refused(refusal)) => {
            refuse(shared, stream, &refusal).await;
            return None;
        }
        Err(NoListen::Stopping) => {
            refuse(shared, stream, &Refusal::failing("the relay is stopping", 1)).await;
            return None;
        }
    };
    limit_silence(shared, stream);
    write(shared, stream, HEAD.as_bytes()).await.ok()?;
    shared.wheel.enroll(sitting.listener());
    tracing::info!(did = tail(&sitting.listener().did), "stream began");
    Some(sitting)
}

/// A peer that vanished without a word is found by the signs of life that it does not acknowledge.
fn limit_silence(shared: &Shared, stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    {
        let limit = shared.bounds.heartbeat + shared.limits.write_timeout;
        let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, millis) {
            tracing::debug!(%error, "no limit for unacknowledged data");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (shared, stream);
}

/// A stream that has begun.
struct Live<'a> {
    shared: &'a Shared,
    sitting: &'a Sitting<'a>,
    stream: &'a mut TcpStream,
    old_at: Instant,
    /// Signs of life in a row that did not fit into the system's buffer.
    missed: u8,
    /// Bytes that the peer sent.
    chatter: usize,
    /// News may have been lost; the epoch has to be claimed again before letters go out.
    must_claim: bool,
}

impl Live<'_> {
    async fn run(&mut self) -> End {
        let mut flags = Flags::LETTERS;
        loop {
            let due = match self.act(flags).await {
                Ok(due) => due,
                Err(end) => return end,
            };
            flags = match self.wait(due).await {
                Ok(flags) => flags,
                Err(end) => return end,
            };
        }
    }

    /// Does what the flags ask for; gives back when to look again without being asked.
    async fn act(&mut self, flags: Flags) -> Result<Option<Instant>, End> {
        if flags.has(Flags::SUPERSEDED) {
            return Err(Box::pin(self.tell_superseded()).await);
        }
        if flags.has(Flags::REPLACED) {
            return Err(End::Replaced);
        }
        let is_old = flags.has(Flags::BEAT) && Instant::now() >= self.old_at;
        if is_old || flags.has(Flags::STOP) {
            let end = if is_old { End::Old } else { End::Stopping };
            return Err(Box::pin(self.say(BYE)).await.err().unwrap_or(end));
        }
        if flags.has(Flags::BEAT) {
            self.beat().await?;
        }
        self.must_claim |= flags.has(Flags::RESYNC);
        if flags.has(Flags::LETTERS.or(Flags::RESYNC)) {
            return Box::pin(self.deliver()).await;
        }
        Ok(self.sitting.in_hand().next_due)
    }

    async fn beat(&mut self) -> Result<(), End> {
        match self.stream.try_write(BEAT) {
            Ok(n) => {
                self.missed = 0;
                if n == BEAT.len() { Ok(()) } else { Box::pin(self.say(&BEAT[n..])).await }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.missed += 1;
                if self.missed < MAX_MISSED { Ok(()) } else { Err(End::Slow) }
            }
            Err(_) => Err(End::Gone),
        }
    }

    /// Waits for something to do, for the peer to go, or for letters in hand to become due again.
    async fn wait(&mut self, due: Option<Instant>) -> Result<Flags, End> {
        let is_due = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            flags = self.sitting.signal().wait() => Ok(flags),
            end = gone(self.stream, &mut self.chatter) => Err(end),
            () = is_due => Ok(Flags::LETTERS),
        }
    }

    /// Hands out what there is, as far as the listener's hand has room.
    async fn deliver(&mut self) -> Result<Option<Instant>, End> {
        if self.must_claim {
            match reclaim(self.shared, self.sitting).await {
                Ok(()) => self.must_claim = false,
                Err(refusal) if refusal.is_ours() => return Ok(Some(after_a_pause())),
                Err(_) => return Err(self.tell_superseded().await),
            }
        }
        let (max_letters, max_bytes) = self.shared.bounds.max_batch;
        loop {
            let hand = self.sitting.in_hand();
            let letters = max_letters.saturating_sub(u32::try_from(hand.qids.len()).unwrap_or(u32::MAX));
            let bytes = max_bytes.saturating_sub(hand.bytes);
            if letters == 0 || bytes == 0 {
                return Ok(hand.next_due);
            }
            let fetched = letters::fetch(self.shared, self.sitting, &hand, letters, bytes.min(FETCH_BYTES)).await;
            let Ok((fetched, share)) = fetched else { return Ok(Some(after_a_pause())) };
            let given = fitting(fetched.letters, &hand, bytes);
            if given.is_empty() || self.sitting.signal().is_up(Flags::SUPERSEDED) {
                return Ok(hand.next_due);
            }
            letters::hand_out(self.shared, self.sitting, &given);
            let events = self.events(&given);
            drop(given);
            self.say(events.as_bytes()).await?;
            drop(share);
        }
    }

    fn events(&self, letters: &[StoredLetter]) -> String {
        let now = self.shared.now();
        let mut text = String::new();
        for letter in letters {
            text.push_str("event: letter\ndata: ");
            letters::write_item(&mut text, letter, now);
            text.push_str("\n\n");
        }
        tracing::debug!(did = tail(&self.sitting.listener().did), letters = letters.len(), "letters handed out");
        text
    }

    async fn tell_superseded(&mut self) -> End {
        self.shared.metrics.add(Count::Superseded, 1);
        let event = format!("event: superseded\ndata: {}\n\n", Refusal::superseded().to_json());
        self.say(event.as_bytes()).await.err().unwrap_or(End::Superseded)
    }

    async fn say(&mut self, bytes: &[u8]) -> Result<(), End> {
        write(self.shared, self.stream, bytes).await
    }
}

/// When to ask a store again that failed.
fn after_a_pause() -> Instant {
    Instant::now() + STORE_PAUSE + jitter::up_to(STORE_PAUSE_MORE)
}

/// The letters that do not make the hand too full. One that is too large for any hand comes into an empty one.
fn fitting(mut letters: Vec<StoredLetter>, hand: &InHand, room: u64) -> Vec<StoredLetter> {
    let mut bytes = 0;
    let is_empty = hand.qids.is_empty();
    let fits = letters.iter().enumerate().take_while(|(n, letter)| {
        bytes += letters::weight(letter);
        bytes <= room || (*n == 0 && is_empty)
    });
    let count = fits.count();
    letters.truncate(count);
    letters
}

/// Reads away what the peer should not send, until it closes.
async fn gone(stream: &TcpStream, chatter: &mut usize) -> End {
    loop {
        if stream.readable().await.is_err() {
            return End::Gone;
        }
        let mut scratch = [0; 256];
        match stream.try_read(&mut scratch) {
            Ok(0) => return End::Gone,
            Ok(n) => {
                *chatter += n;
                if *chatter > MAX_CHATTER {
                    return End::Gone;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return End::Gone,
        }
    }
}

async fn write(shared: &Shared, stream: &mut TcpStream, bytes: &[u8]) -> Result<(), End> {
    match tokio::time::timeout(shared.limits.write_timeout, stream.write_all(bytes)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Gone),
        Err(_) => Err(End::Slow),
    }
}

/// Answers in plain HTTP, before any stream began.
async fn refuse(shared: &Shared, stream: &mut TcpStream, refusal: &Refusal) {
    let Answer { status, content_type, body, retry_after, .. } = refusal.answer();
    let reason = http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let retry = retry_after.map(|secs| format!("retry-after: {secs}\r\n")).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status} {}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n{retry}\
         access-control-allow-origin: *\r\naccess-control-allow-methods: GET, OPTIONS\r\n\
         access-control-allow-headers: Content-Type\r\naccess-control-max-age: 600\r\n\r\n",
        reason.unwrap_or_default(),
        body.len(),
    );
    let answer = [head.as_bytes(), &body].concat();
    if write(shared, stream, &answer).await.is_ok() {
        let _ = stream.shutdown().await;
    }
}

#[cfg(test)]
mod tests;
