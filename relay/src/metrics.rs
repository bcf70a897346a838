//! What is counted, and how Prometheus reads it.
use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use muretai_store::mailboxes::Counts;

/// What became of a deposit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DepositOutcome {
    Stored,
    Again,
    Full,
    Shape,
    Signature,
    Rate,
    Failed,
}

const DEPOSIT_OUTCOMES: [&str; 7] = ["stored", "again", "full", "shape", "signature", "rate", "failed"];

/// Things that are counted one by one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Count {
    HandedOut,
    Acked,
    Expired,
    Superseded,
    Listens,
    BadTokens,
    CallsAnswered,
    CallsQueued,
    Cards,
    Invites,
    StoreFailures,
}

const COUNTS: [(&str, &str); 11] = [
    ("letters_handed_out_total", "Letters handed to listeners, again ones included"),
    ("letters_acked_total", "Letters that listeners acknowledged"),
    ("letters_expired_total", "Letters deleted for their age"),
    ("listeners_superseded_total", "Listeners refused or sent away for a newer one"),
    ("listens_total", "Polls and streams that began"),
    ("bad_tokens_total", "Requests whose token was no good"),
    ("calls_answered_total", "Synchronous calls that brought an answer"),
    ("calls_queued_total", "Synchronous calls that ended with the letter in the mailbox"),
    ("cards_published_total", "Cards that were published"),
    ("invites_minted_total", "Invites that were left"),
    ("store_failures_total", "Failed calls of the store"),
];

/// Calls of the store whose time is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Deposit,
    Fetch,
    Ack,
    Claim,
    Other,
}

const OPS: [&str; 5] = ["deposit", "fetch", "ack", "claim", "other"];

impl Op {
    /// Whether it writes: a full disk fails these and no others.
    pub(crate) fn is_write(self) -> bool {
        matches!(self, Op::Deposit | Op::Ack)
    }
}

/// Upper ends of the histogram's buckets, in microseconds.
const BUCKETS: [u64; 9] = [250, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_500_000];

#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

/// Counters of one process.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    deposits: [AtomicU64; DEPOSIT_OUTCOMES.len()],
    counts: [AtomicU64; COUNTS.len()],
    store: [Histogram; OPS.len()],
}

/// What is read at the moment of asking.
pub(crate) struct Moment<'a> {
    pub(crate) polls: usize,
    pub(crate) streams: usize,
    pub(crate) calls: usize,
    pub(crate) kept: Option<Counts>,
    pub(crate) limits: &'a [(&'static str, u64)],
}

impl Metrics {
    pub(crate) fn deposit(&self, outcome: DepositOutcome) {
        self.deposits[outcome as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn add(&self, what: Count, n: u64) {
        self.counts[what as usize].fetch_add(n, Relaxed);
    }

    pub(crate) fn took(&self, op: Op, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let histogram = &self.store[op as usize];
        for (bucket, _) in histogram.buckets.iter().zip(BUCKETS).filter(|(_, end)| micros <= *end) {
            bucket.fetch_add(1, Relaxed);
        }
        histogram.count.fetch_add(1, Relaxed);
        histogram.micros.fetch_add(micros, Relaxed);
    }

    /// Everything in the text format of Prometheus.
    pub(crate) fn text(&self, moment: &Moment<'_>) -> String {
        let mut text = String::with_capacity(8_192);
        head(&mut text, "build_info", "gauge", "The program that answers");
        line(&mut text, "build_info", concat!("version=\"", env!("CARGO_PKG_VERSION"), "\""), 1);
        head(&mut text, "deposits_total", "counter", "Deposits by what became of them");
        for (outcome, count) in DEPOSIT_OUTCOMES.iter().zip(&self.deposits) {
            line(&mut text, "deposits_total", &format!("outcome=\"{outcome}\""), count.load(Relaxed));
        }
        for ((name, help), count) in COUNTS.iter().zip(&self.counts) {
            head(&mut text, name, "counter", help);
            line(&mut text, name, "", count.load(Relaxed));
        }
        gauges(&mut text, moment);
        self.histogram(&mut text);
        text
    }

    fn histogram(&self, text: &mut String) {
        head(text, "store_seconds", "histogram", "How long calls of the store took");
        for (op, histogram) in OPS.iter().zip(&self.store) {
            for (bucket, end) in histogram.buckets.iter().zip(BUCKETS) {
                let labels = format!("op=\"{op}\",le=\"{}\"", seconds(end));
                line(text, "store_seconds_bucket", &labels, bucket.load(Relaxed));
            }
            let count = histogram.count.load(Relaxed);
            line(text, "store_seconds_bucket", &format!("op=\"{op}\",le=\"+Inf\""), count);
            line(text, "store_seconds_count", &format!("op=\"{op}\""), count);
            line(text, "store_seconds_sum", &format!("op=\"{op}\""), seconds(histogram.micros.load(Relaxed)));
        }
    }
}

fn gauges(text: &mut String, moment: &Moment<'_>) {
    let mut gauge = |name: &str, help: &str, value: u64| {
        head(text, name, "gauge", help);
        line(text, name, "", value);
    };
    gauge("polls_waiting", "Long polls that wait at this process", moment.polls as u64);
    gauge("streams_waiting", "Streams that are open at this process", moment.streams as u64);
    gauge("calls_waiting", "Synchronous calls that wait for an answer", moment.calls as u64);
    if let Some(kept) = moment.kept {
        gauge("letters", "Letters that are kept", kept.letters);
        gauge("letter_bytes", "Bytes of letters that are kept", kept.bytes);
        gauge("mailboxes", "Mailboxes that hold letters", kept.mailboxes);
        gauge("cards", "Published cards", kept.cards);
        gauge("invites", "Live invites", kept.invites);
        gauge("directory_bytes", "Bytes of published cards and of invites", kept.directory_bytes);
        gauge("remembered_mailboxes", "Mailboxes that are remembered, empty ones too", kept.remembered);
    }
    head(text, "limit", "gauge", "Limits as configured; 0 is no limit where one may be off");
    for (name, value) in moment.limits {
        line(text, "limit", &format!("name=\"{name}\""), *value);
    }
}

/// What every name begins with.
pub(crate) const PREFIX: &str = "muretai_relay_";

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = match labels {
        "" => writeln!(text, "{PREFIX}{name} {value}"),
        _ => writeln!(text, "{PREFIX}{name}{{{labels}}} {value}"),
    };
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_end_up_under_their_names() {
        let metrics = Metrics::default();
        metrics.deposit(DepositOutcome::Rate);
        metrics.add(Count::StoreFailures, 2);
        metrics.took(Op::Ack, Duration::from_millis(3));
        let limits = [("mailboxLetters", 1_000)];
        let text = metrics.text(&Moment { polls: 1, streams: 2, calls: 3, kept: None, limits: &limits });
        for line in [
            "muretai_relay_deposits_total{outcome=\"rate\"} 1",
            "muretai_relay_store_failures_total 2",
            "muretai_relay_streams_waiting 2",
            "muretai_relay_limit{name=\"mailboxLetters\"} 1000",
            "muretai_relay_store_seconds_bucket{op=\"ack\",le=\"0.002500\"} 0",
            "muretai_relay_store_seconds_bucket{op=\"ack\",le=\"0.005000\"} 1",
            "muretai_relay_store_seconds_sum{op=\"ack\"} 0.003000",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
