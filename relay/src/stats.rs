//! What a running relay says about itself: its `/metrics`, read for `muretai relay stats`.
use muretai_protocol::{
    json::{Object, Value},
    urls,
};
use muretai_transports::{
    TransportError,
    guard::Policy,
    http::{FetchOptions, HttpTransport},
};

use crate::metrics::PREFIX;

/// Most bytes of an answer.
const MAX_BYTES: usize = 1_048_576;
/// Lines that are read; ours has about a hundred.
const MAX_LINES: usize = 10_000;

/// What a relay counts, and its limits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stats {
    /// The version of the relay.
    pub version: Option<String>,
    /// Counters and gauges, in the relay's order.
    pub metrics: Vec<Metric>,
    /// Every limit.
    pub limits: Vec<Limit>,
}

/// One number.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name without `muretai_relay_`.
    pub name: String,
    /// What tells it from others of its name, like `outcome="stored"`; often empty.
    pub labels: String,
    /// What it is.
    pub help: String,
    /// The number.
    pub value: f64,
}

/// One limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Its name, as refusals have it in `data.bound`.
    pub name: String,
    /// The number; 0 is no limit where one may be off. Times are in seconds.
    pub value: f64,
}

/// Why nothing can be said about a relay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatsError {
    /// It was not reached.
    #[error("the relay at {url} was not reached")]
    Transport {
        /// Its base.
        url: String,
        /// Why.
        #[source]
        source: TransportError,
    },
    /// It does not tell: only loopback may ask, or nobody.
    #[error("the relay at {url} does not tell its numbers here (HTTP status {status})")]
    NotTold {
        /// Its base.
        url: String,
        /// The status.
        status: u16,
    },
    /// It is no relay of this kind.
    #[error("{url} does not answer as a relay of this program does")]
    NotARelay {
        /// Its base.
        url: String,
    },
}

/// Reads `<url>/metrics` of a relay that the owner named.
///
/// # Errors
/// See [`StatsError`]. Dropping the future abandons the call.
pub async fn fetch_stats(http: &HttpTransport, url: &str) -> Result<Stats, StatsError> {
    let options = FetchOptions { policy: Policy::Owner, max_bytes: MAX_BYTES, redirects: 0 };
    let fetched = http.fetch(&urls::join(url, "metrics"), &options).await;
    let fetched = fetched.map_err(|source| StatsError::Transport { url: url.to_owned(), source })?;
    if fetched.status != 200 {
        return Err(StatsError::NotTold { url: url.to_owned(), status: fetched.status });
    }
    let text = std::str::from_utf8(&fetched.body).ok();
    text.and_then(Stats::read).ok_or_else(|| StatsError::NotARelay { url: url.to_owned() })
}

impl Stats {
    /// Reads the text format of Prometheus as far as our relays write it; `None` when nothing in it is ours.
    pub fn read(text: &str) -> Option<Stats> {
        let mut stats = Stats::default();
        let mut help = (String::new(), String::new());
        for line in text.lines().take(MAX_LINES) {
            if let Some(words) = line.strip_prefix("# HELP ").and_then(|line| line.strip_prefix(PREFIX)) {
                let (name, words) = words.split_once(' ').unwrap_or((words, ""));
                help = (plain(name), plain(words));
            } else if let Some((name, labels, value)) = line.strip_prefix(PREFIX).and_then(sample) {
                stats.add(name, labels, value, &help);
            }
        }
        (!stats.limits.is_empty()).then_some(stats)
    }

    fn add(&mut self, name: &str, labels: &str, value: f64, help: &(String, String)) {
        let label = |key: &str| {
            let value = labels.strip_prefix(key)?.strip_prefix("=\"")?.strip_suffix('"')?;
            Some(plain(value))
        };
        match name {
            "build_info" => self.version = label("version"),
            "limit" => self.limits.extend(label("name").map(|name| Limit { name, value })),
            _ => {
                let help = if name.starts_with(help.0.as_str()) { help.1.clone() } else { String::new() };
                self.metrics.push(Metric { name: plain(name), labels: plain(labels), help, value });
            }
        }
    }

    /// As one JSON object: `{version, metrics: [{name, labels, value, help}], limits: {name: value}}`.
    pub fn to_value(&self) -> Value {
        let metrics = self.metrics.iter().map(|metric| {
            let mut members = Object::new();
            members.insert("name".to_owned(), metric.name.as_str().into());
            members.insert("labels".to_owned(), metric.labels.as_str().into());
            members.insert("value".to_owned(), number(metric.value));
            members.insert("help".to_owned(), metric.help.as_str().into());
            members.into()
        });
        let metrics: Vec<Value> = metrics.collect();
        let mut limits = Object::new();
        for limit in &self.limits {
            limits.insert(limit.name.clone(), number(limit.value));
        }
        let mut stats = Object::new();
        stats.insert("version".to_owned(), self.version.as_deref().into());
        stats.insert("metrics".to_owned(), Value::Array(metrics));
        stats.insert("limits".to_owned(), limits.into());
        stats.into()
    }
}

/// `name{labels} value` or `name value`.
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let (name, rest) = line.split_at(line.find(['{', ' '])?);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => rest.rsplit_once("} ")?,
        None => ("", rest.strip_prefix(' ')?),
    };
    let value: f64 = value.trim().parse().ok()?;
    value.is_finite().then_some((name, labels, value))
}

/// What a relay says may be shown; it may be anything.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(200).collect()
}

fn number(value: f64) -> Value {
    let is_whole = value.fract() == 0.0 && value.abs() < 9e15;
    if is_whole { (value as i64).into() } else { value.to_string().into() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::{Metrics, Moment, Op};

    #[test]
    fn reads_what_a_relay_writes() {
        let metrics = Metrics::default();
        metrics.took(Op::Fetch, Duration::from_millis(2));
        let limits = [("mailboxLetters", 1_000), ("totalBytes", 0)];
        let text = metrics.text(&Moment { polls: 3, streams: 4, calls: 0, kept: None, limits: &limits });
        let stats = Stats::read(&text).unwrap();
        assert_eq!(stats.version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(stats.limits[0], Limit { name: "mailboxLetters".to_owned(), value: 1_000.0 });
        let streams = stats.metrics.iter().find(|metric| metric.name == "streams_waiting").unwrap();
        assert_eq!((streams.value, streams.help.as_str()), (4.0, "Streams that are open at this process"));
        let sum = stats.metrics.iter().find(|m| m.name == "store_seconds_sum" && m.labels == "op=\"fetch\"").unwrap();
        assert_eq!((sum.value, sum.help.is_empty()), (0.002, false));
        let json = stats.to_value();
        assert_eq!(json.member("limits").unwrap().to_json(), r#"{"mailboxLetters":1000,"totalBytes":0}"#);
    }

    #[test]
    fn what_is_no_relay_is_not_taken_for_one() {
        for text in ["", "go_goroutines 7", "muretai_relay_limit{name=\"x\"} NaN", "muretai_relay_limit{name 1"] {
            assert_eq!(Stats::read(text), None, "{text:?}");
        }
        let odd =
            Stats::read("muretai_relay_limit{name=\"a\u{1b}b\"} 1\nmuretai_relay_{ 1\nmuretai_relay_x 1e3").unwrap();
        assert_eq!((odd.limits[0].name.as_str(), odd.metrics[0].value), ("ab", 1_000.0));
    }
}
