//! `muretai relay stats`: what a relay holds, and its bounds.

use std::time::Duration;

use muretai_protocol::urls;
use muretai_transports::{
    ClientTimeouts,
    guard::Policy,
    http::{FetchOptions, HttpTransport},
};
use serde::Serialize;
use serde_json::{Map, Number, Value};

use crate::{
    context::{self, Context},
    exit::Exit,
    failure::{Failure, transport_fault},
    output::{self, DIM, paint},
    parse, people,
};

/// Where `relay serve` listens unless it is told otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:8421";
/// Bytes of the metrics that are read.
const MAX_BYTES: usize = 262_144;
/// Before the name of everything that a relay counts.
const PREFIX: &str = "muretai_relay_";
/// The name of every bound; a label says which.
const LIMIT: &str = "limit";
/// The program's version, as a label.
const BUILD: &str = "build_info";

/// Show what a relay holds, how busy it is, and all its bounds
///
/// Reads /metrics of the relay, which shows them to this machine alone unless it was started with --metrics public. A
/// program that collects metrics reads the same page.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai relay stats\n\
\x20 muretai relay stats http://127.0.0.1:8421 --json")]
pub(super) struct Args {
    /// The relay's address
    #[arg(default_value = DEFAULT_URL)]
    url: String,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse::duration)]
    timeout: Duration,
}

#[derive(Serialize)]
struct StatsJson<'a> {
    url: &'a str,
    version: Option<&'a str>,
    counts: Map<String, Value>,
    limits: Map<String, Value>,
}

/// One figure of the page.
#[derive(Debug, Clone, PartialEq)]
struct Figure {
    /// The name without what all of them begin with; of a bound, its own.
    name: String,
    /// The values of its labels.
    labels: Vec<String>,
    value: f64,
    is_limit: bool,
    help: Option<String>,
}

/// The flag of `relay serve` that sets a bound.
const FLAGS: [(&str, &str); 26] = [
    ("mailboxLetters", "--mailbox-letters"),
    ("mailboxBytes", "--mailbox-bytes"),
    ("senderLetters", "--sender-letters"),
    ("retentionSecs", "--retention"),
    ("invites", "--invites"),
    ("totalBytes", "--total-bytes"),
    ("cards", "--cards"),
    ("cardBytes", "--card-bytes"),
    ("inviteBytes", "--invite-bytes"),
    ("mailboxes", "--mailboxes"),
    ("depositBytes", "--max-deposit"),
    ("waitSecs", "--max-wait"),
    ("rpcWaitSecs", "--rpc-wait"),
    ("redeliverSecs", "--redeliver-after"),
    ("batchLetters", "--batch-letters"),
    ("batchBytes", "--batch-bytes"),
    ("heartbeatSecs", "--heartbeat"),
    ("streamLifeSecs", "--stream-life"),
    ("senderRate", "--deposits-per-minute"),
    ("rpcWaiting", "--max-rpc"),
    ("sweepSecs", "--sweep-every"),
    ("connections", "--max-connections"),
    ("headSecs", "--head-timeout"),
    ("requestSecs", "--request-timeout"),
    ("writeSecs", "--write-timeout"),
    ("keepAliveSecs", "--keep-alive"),
];

pub(super) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let base = urls::canonical_base(args.url.trim()).map_err(|error| {
        let failure = Failure::io(format!("cannot ask the relay at {}", people::shown(&args.url)), &error);
        Failure { exit: Exit::Usage, ..failure }.hint("write it as https://relay.example or http://127.0.0.1:8421")
    })?;
    let page = context::block_on(fetch(&base, args.timeout))?;
    let mut figures = figures(&page);
    if figures.is_empty() {
        return Err(Failure::failed(format!("{base} shows no metrics of a relay")).hint(IS_IT_ONE));
    }
    let build = figures.iter().position(|figure| figure.name == BUILD).map(|at| figures.remove(at));
    let json = StatsJson {
        url: &base,
        version: build.as_ref().and_then(|build| build.labels.first()).map(String::as_str),
        counts: members(&figures, false),
        limits: members(&figures, true),
    };
    context.out.either(&json, || text(&figures))?;
    Ok(Exit::Done)
}

const IS_IT_ONE: &str = "is it the address of a relay, and not of an agent?";

async fn fetch(base: &str, timeout: Duration) -> Result<String, Failure> {
    let attempt = format!("cannot ask the relay at {base}");
    let http = HttpTransport::client(ClientTimeouts { connect: timeout, total: timeout });
    let options = FetchOptions { policy: Policy::Owner, max_bytes: MAX_BYTES, redirects: 0 };
    let fetched = http.fetch(&urls::join(base, "metrics"), &options).await;
    let fetched = fetched.map_err(|error| {
        let failure = Failure { exit: transport_fault(&error).into(), ..Failure::io(attempt.as_str(), &error) };
        failure.hint("does `muretai relay serve` run there?")
    })?;
    match fetched.status {
        200 => String::from_utf8(fetched.body.to_vec())
            .map_err(|_| Failure::failed(format!("{attempt}: what it shows is not text"))),
        401 | 403 | 404 => Err(Failure::new(Exit::PeerRefused, format!("{attempt}: it shows no metrics here"))
            .hint("ask on its own machine, where it listens and not by a proxy, or start it with --metrics public")),
        status @ (429 | 502..=504) => {
            Err(Failure::new(Exit::Unreachable, format!("{attempt}: it answered with HTTP status {status}"))
                .hint("try again later"))
        }
        status => Err(Failure::failed(format!("{attempt}: it answered with HTTP status {status}")).hint(IS_IT_ONE)),
    }
}

/// The figures of a page in the text format of Prometheus. What is none of a relay, and buckets, are left out.
fn figures(page: &str) -> Vec<Figure> {
    let mut helps: Vec<(&str, &str)> = Vec::new();
    let mut found = Vec::new();
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            helps.push((name, help));
        } else if let Some((full, labels, value)) = sample(line) {
            let Some(name) = full.strip_prefix(PREFIX).filter(|name| !name.ends_with("_bucket")) else { continue };
            let help = helps.iter().find(|(named, _)| *named == full).map(|(_, help)| (*help).to_owned());
            let figure = Figure { name: name.to_owned(), labels, value, is_limit: name == LIMIT, help };
            found.push(bound_of(figure));
        }
    }
    found
}

/// A bound under its own name, with the flag that sets it in place of what all bounds are.
fn bound_of(mut figure: Figure) -> Figure {
    if figure.is_limit
        && let Some(name) = figure.labels.pop()
    {
        figure.help = FLAGS.iter().find(|(known, _)| *known == name).map(|(_, flag)| (*flag).to_owned());
        figure.name = name;
    }
    figure
}

/// Name, values of labels, and value of one line. Label values with quotes or braces in them are not ours.
fn sample(line: &str) -> Option<(&str, Vec<String>, f64)> {
    let (series, value) = line.trim().rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    let value: f64 = value.parse().ok().filter(|value: &f64| value.is_finite())?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (series, ""),
    };
    let values = labels.split(',').filter_map(|label| label.split_once('=')).map(|(_, value)| value.trim_matches('"'));
    Some((name, values.map(str::to_owned).collect(), value))
}

/// The figures as members: `deposits_total{outcome="stored"}` is `depositsStored`.
fn members(figures: &[Figure], limits: bool) -> Map<String, Value> {
    let figures = figures.iter().filter(|figure| figure.is_limit == limits);
    figures.map(|figure| (member(figure), number(figure.value))).collect()
}

fn member(figure: &Figure) -> String {
    let name = figure.name.strip_suffix("_total").unwrap_or(&figure.name);
    let parts = [name].into_iter().chain(figure.labels.iter().map(String::as_str));
    let mut words =
        parts.flat_map(|part| part.split(|c: char| !c.is_ascii_alphanumeric())).filter(|word| !word.is_empty());
    let mut member = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        member.push_str(&first.to_ascii_uppercase());
        member.push_str(rest);
    }
    member
}

/// A whole number where it is one.
fn number(value: f64) -> Value {
    // Exact up to 2^53, and no relay holds as many bytes.
    let whole = value as i64;
    if whole as f64 == value { whole.into() } else { Number::from_f64(value).map_or(Value::Null, Value::Number) }
}

fn text(figures: &[Figure]) -> String {
    let mut lines = Vec::new();
    for (title, is_limit) in [("now", false), ("bounds", true)] {
        lines.push(paint(output::STRONG, title));
        let figures = figures.iter().filter(|figure| figure.is_limit == is_limit);
        let shown: Vec<_> = figures.map(|figure| (words(figure), with_unit(figure), figure)).collect();
        let names = shown.iter().map(|(name, _, _)| name.chars().count()).max().unwrap_or_default();
        let values = shown.iter().map(|(_, value, _)| value.chars().count()).max().unwrap_or_default();
        for (name, value, figure) in &shown {
            let help = figure.help.as_deref().map(|help| paint(DIM, &format!("  {}", people::shown(help))));
            lines.push(format!("  {name:names$}  {value:>values$}{}", help.unwrap_or_default()));
        }
    }
    lines.join("\n")
}

/// What a name says of a unit that its value is shown with.
const UNITS: [&str; 2] = ["_seconds", "Secs"];

/// `deposits_total{outcome="stored"}` is `deposits stored`, safe for a terminal.
fn words(figure: &Figure) -> String {
    let name = figure.name.strip_suffix("_total").unwrap_or(&figure.name);
    let bare = UNITS.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
    let mut words = String::new();
    for c in [bare].into_iter().chain(figure.labels.iter().map(String::as_str)).collect::<Vec<_>>().join(" ").chars() {
        match c {
            '_' => words.push(' '),
            c if c.is_ascii_uppercase() => words.extend([' ', c.to_ascii_lowercase()]),
            c => words.push(c),
        }
    }
    people::shown(&words)
}

fn with_unit(figure: &Figure) -> String {
    let (name, value) = (figure.name.strip_suffix("_total").unwrap_or(&figure.name), figure.value);
    match value {
        0.0 if figure.is_limit => "off".to_owned(),
        _ if name.ends_with("bytes") || name.ends_with("Bytes") => bytes(value),
        _ if name.contains("seconds_sum") || name.ends_with("Secs") => span(value),
        _ => number(value).to_string(),
    }
}

fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut shown = value;
    let mut unit = 0;
    while shown >= 1_024.0 && unit + 1 < units.len() {
        shown /= 1_024.0;
        unit += 1;
    }
    let decimals = if shown.fract() == 0.0 || unit == 0 { 0 } else { 1 };
    format!("{shown:.decimals$} {}", units[unit])
}

fn span(secs: f64) -> String {
    let is_whole = |unit: f64| secs >= unit && secs % unit == 0.0;
    match secs {
        secs if secs > 0.0 && secs < 1.0 => format!("{:.0} ms", secs * 1_000.0),
        secs if is_whole(86_400.0) && secs > 86_400.0 => format!("{} days", secs / 86_400.0),
        secs if is_whole(3_600.0) => format!("{} h", secs / 3_600.0),
        secs if is_whole(60.0) && secs > 60.0 => format!("{} min", secs / 60.0),
        secs if secs.fract() == 0.0 => format!("{secs} s"),
        secs => format!("{secs:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# HELP muretai_relay_letters Letters that wait.
# TYPE muretai_relay_letters gauge
muretai_relay_letters 12
muretai_relay_deposits_total{outcome=\"stored\"} 7
# HELP muretai_relay_limit Limits as configured
muretai_relay_limit{name=\"mailboxBytes\"} 16777216
muretai_relay_limit{name=\"retentionSecs\"} 604800
muretai_relay_limit{name=\"totalBytes\"} 0
muretai_relay_commit_seconds_bucket{le=\"0.1\"} 3
process_open_fds 9
muretai_relay_load 0.5
muretai_relay_broken NaN
";

    #[test]
    fn a_page_becomes_members_with_names_of_ours() {
        let figures = figures(PAGE);
        let json = serde_json::to_value((members(&figures, false), members(&figures, true))).unwrap();
        assert_eq!(json[0], serde_json::json!({ "letters": 12, "depositsStored": 7, "load": 0.5 }));
        assert_eq!(
            json[1],
            serde_json::json!({ "mailboxBytes": 16_777_216, "retentionSecs": 604_800, "totalBytes": 0 })
        );
    }

    #[test]
    fn people_read_units_and_what_it_means() {
        let shown = anstream::adapter::strip_str(&text(&figures(PAGE))).to_string();
        assert!(shown.contains("  letters           12  Letters that wait."), "{shown}");
        assert!(shown.contains("  mailbox bytes  16 MiB  --mailbox-bytes"), "{shown}");
        assert!(shown.contains("  retention      7 days  --retention"), "{shown}");
        assert!(shown.contains("  total bytes       off  --total-bytes"), "{shown}");
        assert_eq!([bytes(0.0), bytes(1_536.0), span(25.0), span(3_600.0)], ["0 B", "1.5 KiB", "25 s", "1 h"]);
    }

    #[test]
    fn a_page_of_something_else_has_no_figures() {
        for page in ["", "<html>", "muretai_relay_letters", "muretai_relay_x{a=\"b\" 3", "go_threads 7"] {
            assert!(figures(page).is_empty(), "{page}");
        }
    }
}
