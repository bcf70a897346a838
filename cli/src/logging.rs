//! What `-v` shows, and what `serve` logs without it. Only our own crates are heard, so that no library can log a
//! message body or a secret.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::output::Output;

const CRATES: [&str; 6] =
    ["muretai", "muretai_node", "muretai_plugins", "muretai_protocol", "muretai_store", "muretai_transports"];

/// Sends log lines to stderr. Without `-v` only a service logs, and not with `--quiet`; nothing is set up otherwise.
pub(crate) fn start(out: &Output, verbosity: u8, is_service: bool) {
    let level = match (verbosity, is_service && !out.is_quiet) {
        (0, false) => return,
        (0, true) | (1, _) => LevelFilter::INFO,
        (2, _) => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let ours = CRATES.into_iter().fold(Targets::new(), |targets, name| targets.with_target(name, level));
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(out.has_color()).with_target(verbosity > 0);
    // A second subscriber in one process would be a mistake of ours that costs log lines, not work.
    let _ = tracing_subscriber::registry().with(ours).with(lines).try_init();
}
