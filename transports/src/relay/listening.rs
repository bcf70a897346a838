//! The source of a listener: a stream, or long polls where the relay has none; connects again after whatever ends it.
use std::{error::Error, sync::Arc, time::Duration};

use muretai_protocol::{
    json,
    relay::{BadItem, Item, MAX_WAIT_SECS},
    text,
};
use tokio::time::Instant;

use super::{
    ListenEvent, RelayTimes, Watcher,
    backoff::Backoff,
    mailbox::{Listening, Mailbox},
    random_u32,
    session::Feed,
    sleep::slept,
    sse::{Event, Parser},
};
use crate::{TransportError, http::Opened};

/// A stream on which nothing comes for so long is dead; relays send a sign of life every 30 s.
const SILENCE: Duration = Duration::from_secs(75);
/// An answer to a long poll that brings nothing new sooner than this is no long poll; the next one waits for a while.
const EARLY: Duration = Duration::from_secs(2);
/// A connection that lasted so many of the shortest pauses was one, even if no letter came.
const LASTING: u32 = 5;
/// Longest pause before a connection that ended as it should is made again.
const MAX_JITTER: Duration = Duration::from_millis(250);
/// Characters of the reason of a loss.
const MAX_WHY_CHARS: usize = 300;

/// How a connection ended.
enum End {
    /// A newer listener has the mailbox.
    Superseded,
    /// It broke, or was never made.
    Lost(TransportError),
    /// The relay wants to be asked anew.
    Bye,
    /// The machine slept; what was connected is not any more.
    Slept,
}

impl From<TransportError> for End {
    fn from(error: TransportError) -> End {
        match error {
            TransportError::Superseded { .. } => End::Superseded,
            error => End::Lost(error),
        }
    }
}

/// See the module.
pub(super) struct Listener {
    mailbox: Arc<Mailbox>,
    watcher: Option<Watcher>,
    times: RelayTimes,
    feed: Feed,
    backoff: Backoff,
    /// Letters came on this connection that were not in hand.
    has_news: bool,
    /// The owner knows that the relay sends what is larger than any letter; a relay could fill a log with it.
    has_warned: bool,
}

impl Listener {
    pub(super) fn new(mailbox: Arc<Mailbox>, times: RelayTimes, watcher: Option<Watcher>, feed: Feed) -> Listener {
        let backoff = Backoff::new(times.min_pause, times.max_pause);
        Listener { mailbox, watcher, times, feed, backoff, has_news: false, has_warned: false }
    }

    /// Fetches until dropped.
    ///
    /// # Errors
    /// [`TransportError::Superseded`]; nothing else ends it.
    pub(super) async fn run(mut self) -> Result<(), TransportError> {
        loop {
            self.has_news = false;
            let began = Instant::now();
            let end = tokio::select! {
                end = self.connect() => end,
                () = slept() => End::Slept,
            };
            if self.has_news || began.elapsed() >= self.times.min_pause * LASTING {
                self.backoff.reset();
            }
            let pause = match end {
                End::Superseded => {
                    return Err(TransportError::Superseded { relay: self.mailbox.relay().to_owned() });
                }
                End::Slept => continue,
                End::Bye => self.pause_after_bye(),
                End::Lost(error) => self.pause_after(&error),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = slept() => {}
            }
        }
    }

    /// At once, and not all listeners at the same moment; but a relay that does nothing but say goodbye is waited for.
    fn pause_after_bye(&mut self) -> Duration {
        if self.backoff.failures() == 0 {
            // One goodbye on a connection that did not last is no failure, the second is.
            let _ = self.backoff.pause(0, None);
            let longest = self.times.min_pause.min(MAX_JITTER);
            return longest.mul_f64(f64::from(random_u32()) / f64::from(u32::MAX));
        }
        self.backoff.pause(random_u32(), None)
    }

    fn pause_after(&mut self, error: &TransportError) -> Duration {
        let retry_in = self.backoff.pause(random_u32(), error.retry_after());
        let why = words(error);
        tracing::debug!(relay = self.mailbox.relay(), why, ?retry_in, "the mailbox is out of reach");
        self.tell(&ListenEvent::Lost { why, retry_in });
        retry_in
    }

    async fn connect(&mut self) -> End {
        let is_told = match self.mailbox.place.poll_only {
            true => false,
            false => match self.mailbox.stream().await {
                Ok(Listening::Stream(stream)) => {
                    self.tell(&ListenEvent::Connected);
                    return self.read_stream(stream).await;
                }
                Ok(Listening::Batch(batch)) => {
                    self.tell(&ListenEvent::Connected);
                    self.give(batch.items).await;
                    true
                }
                Ok(Listening::Unknown) => false,
                Err(error) => return error.into(),
            },
        };
        match self.poll_on(is_told).await {
            Ok(never) => match never {},
            Err(error) => error.into(),
        }
    }

    async fn read_stream(&mut self, mut stream: Opened) -> End {
        let mut parser = Parser::new();
        loop {
            match stream.chunk(SILENCE).await {
                Ok(Some(piece)) => parser.feed(piece),
                Ok(None) => {
                    let (url, source) = (self.mailbox.relay().to_owned(), "the stream ended".into());
                    return End::Lost(TransportError::Closed { url, source });
                }
                Err(error) => return End::Lost(error),
            }
            let (letters, end) = self.read_events(&mut parser);
            if !letters.is_empty() {
                self.give(letters).await;
            }
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// The letters of a piece of the stream, and whether it ends there.
    fn read_events(&mut self, parser: &mut Parser) -> (Vec<Result<Item, BadItem>>, Option<End>) {
        let mut letters = Vec::new();
        while let Some(event) = parser.event() {
            let Event::Message { name, data } = event else {
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(relay = self.mailbox.relay(), "the relay sends what is larger than any letter");
                }
                continue;
            };
            match name.as_str() {
                "letter" => letters.push(read_letter(&data)),
                "superseded" => return (letters, Some(End::Superseded)),
                "bye" => return (letters, Some(End::Bye)),
                // Something newer than this program.
                _ => {}
            }
        }
        (letters, None)
    }

    /// Polls for ever. The first poll does not wait, so that it is known soon whether the relay is there.
    async fn poll_on(&mut self, mut is_told: bool) -> Result<std::convert::Infallible, TransportError> {
        let mut early = Backoff::new(self.times.min_pause, self.times.max_pause);
        loop {
            let wait = if is_told { Duration::from_secs(MAX_WAIT_SECS) } else { Duration::ZERO };
            let began = Instant::now();
            self.feed.mark();
            let batch = self.mailbox.poll(wait).await?;
            if !is_told {
                self.tell(&ListenEvent::Connected);
            }
            let is_new = self.give(batch.items).await > 0;
            if is_new || began.elapsed() >= EARLY {
                early.reset();
            } else if is_told {
                let pause = early.pause(random_u32(), None);
                tokio::select! {
                    true = self.feed.progressed() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
            is_told = true;
        }
    }

    async fn give(&mut self, letters: Vec<Result<Item, BadItem>>) -> usize {
        let new = self.feed.give(letters).await;
        self.has_news |= new > 0;
        new
    }

    fn tell(&self, event: &ListenEvent) {
        if let Some(watcher) = &self.watcher {
            watcher(event);
        }
    }
}

fn read_letter(data: &[u8]) -> Result<Item, BadItem> {
    let value = json::parse(data).map_err(|_| BadItem { qid: None, why: "the item is not JSON" })?;
    Item::from_value(&value)
}

/// An error with its causes on one line.
fn words(error: &TransportError) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    text::one_line(&words, MAX_WHY_CHARS)
}
