//! `muretai relay serve`: be a relay.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use muretai_relay::{Bounds, MetricsAccess, Relay, RelayOptions};
use muretai_store::mailboxes::Quotas;
use muretai_transports::{Stop, http::ServerLimits};
use serde::Serialize;

use super::store::Place;
use crate::{
    commands::serve as agent_serve,
    context::Context,
    env,
    exit::Exit,
    failure::Failure,
    parse::{self, Bound, PerMinute},
    signals::Signals,
};

/// How long threads may take to end once nothing is awaited any more.
const LAST_MOMENT: Duration = Duration::from_millis(500);
/// Connections, unless a flag says otherwise.
const MAX_CONNECTIONS: u32 = 32_768;
/// Open files beside connections.
const OTHER_FILES: u64 = 64;
/// Batches of a poll: as the specification has them.
const BATCH_LETTERS: u32 = 100;

/// Be a relay: keep sealed letters until their recipients fetch them
///
/// The first line on standard output is the relay's URL (with --json an object with `url`, `listen` and `store`). Log
/// lines go to standard error. It listens on this machine alone unless --listen says otherwise; put a TLS proxy in
/// front of it, and say with --url under which address others reach it: tokens are taken for those addresses alone.
/// SIGINT and SIGTERM let it finish what is under way; a second one ends it at once.
///
/// Letters are kept in a SQLite file in the home. With --store postgres://… several relay processes share them. The
/// password of the database comes from PGPASSWORD or from --store-password-file, and is never printed or logged.
///
/// Sizes are bytes, or have a unit: KiB, MiB, GiB. Times have one: s, m, h, d. What the bounds are is shown by `muretai
/// relay stats`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai relay serve --listen 127.0.0.1:0\n\
\x20 muretai relay serve --url https://relay.example --store postgres://relay@db.example/relay")]
pub(crate) struct Args {
    /// Address and port to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8421", value_parser = agent_serve::listen)]
    listen: SocketAddr,
    /// Address under which agents reach this relay; repeat it for further names. The first one is in links
    /// [default: the bound one]
    #[arg(long, value_name = "URL")]
    url: Vec<String>,
    /// File or PostgreSQL database that keeps the letters [env: MURETAI_RELAY_STORE]
    /// [default: relay/relay.db in the home]
    #[arg(long, value_name = "PATH|postgres://…", value_parser = parse::not_blank)]
    store: Option<String>,
    /// File that holds the password of the database, `-` for standard input
    #[arg(long, value_name = "FILE")]
    store_password_file: Option<PathBuf>,
    /// Who may read /metrics: this machine, everybody, nobody
    #[arg(long, value_name = "WHO", default_value = "loopback")]
    metrics: Metrics,
    /// Threads that work [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    workers: Option<u32>,
    #[command(flatten)]
    quotas: QuotaArgs,
    #[command(flatten)]
    bounds: BoundArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Mailboxes")]
struct QuotaArgs {
    /// Letters in one mailbox
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = parse::at_least_one)]
    mailbox_letters: u32,
    /// Bytes of letters in one mailbox
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse::size)]
    mailbox_bytes: u64,
    /// Letters of one sender in one mailbox
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = parse::at_least_one)]
    sender_letters: u32,
    /// How long letters are kept
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse::duration)]
    retention: Duration,
    /// Bytes of all letters together, or `off`
    #[arg(long, value_name = "SIZE", default_value = "off", value_parser = parse::bound)]
    total_bytes: Bound,
    /// Invites of one agent that can be claimed
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse::at_least_one)]
    invites: u32,
    /// Published cards, or `off`; beyond it the one that was not renewed for longest goes
    #[arg(long, value_name = "N", default_value = "100000", value_parser = parse::bound)]
    cards: Bound,
    /// Bytes of published cards together, or `off`; the same goes
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse::bound)]
    card_bytes: Bound,
    /// Bytes of invites together, or `off`; beyond it the one that was left first goes
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse::bound)]
    invite_bytes: Bound,
    /// Mailboxes that are remembered, or `off`; beyond it empty ones are forgotten
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = parse::bound)]
    mailboxes: Bound,
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Requests")]
struct BoundArgs {
    /// Deposits of one sender in a minute, in all mailboxes together, or `off`
    #[arg(long, value_name = "N", default_value = "600", value_parser = parse::per_minute)]
    deposits_per_minute: PerMinute,
    /// Bytes of a deposit
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse::size)]
    max_deposit: u64,
    /// Longest wait of a long poll
    #[arg(long, value_name = "TIME", default_value = "25s", value_parser = parse::duration)]
    max_wait: Duration,
    /// How long a call waits for the answer of an agent that listens
    #[arg(long, value_name = "TIME", default_value = "25s", value_parser = parse::duration)]
    rpc_wait: Duration,
    /// Calls that wait at once
    #[arg(long, value_name = "N", default_value_t = 4_096, value_parser = parse::at_least_one)]
    max_rpc: u32,
    /// Letters in one answer
    #[arg(long, value_name = "N", default_value_t = BATCH_LETTERS, value_parser = parse::at_least_one)]
    batch_letters: u32,
    /// Bytes of letters in one answer
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse::size)]
    batch_bytes: u64,
    /// How long a letter that was handed out may stay unacknowledged before it is handed out again
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse::duration)]
    redeliver_after: Duration,
    /// Time between two signs of life on a stream
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse::duration)]
    heartbeat: Duration,
    /// How long a stream may last before its listener has to prove itself again
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse::duration)]
    stream_life: Duration,
    /// How often what is too old is deleted
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse::duration)]
    sweep_every: Duration,
}

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connections")]
struct LimitArgs {
    /// Connections at once; each listener is one [default: 32768, or as many as this process may open files]
    #[arg(long, value_name = "N", value_parser = parse::at_least_one)]
    max_connections: Option<u32>,
    /// How long the head of a request may take
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse::duration)]
    head_timeout: Duration,
    /// How long a whole request may take to arrive
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse::duration)]
    request_timeout: Duration,
    /// How long an idle connection is kept
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse::duration)]
    keep_alive: Duration,
    /// How long the other side may take to accept an answer
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse::duration)]
    write_timeout: Duration,
    /// How long what is under way may take at the end
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse::duration)]
    stop_timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Metrics {
    Loopback,
    Public,
    Off,
}

#[derive(Serialize)]
struct Announced<'a> {
    url: &'a str,
    listen: SocketAddr,
    store: &'a str,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let workers = match args.workers {
        Some(workers) => workers as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("relay")
        .enable_all()
        .build()
        .map_err(|error| Failure::io("cannot start", &error))?;
    let ended = runtime.block_on(serve(context, args));
    runtime.shutdown_timeout(LAST_MOMENT);
    ended
}

async fn serve(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let mut signals = Signals::catch()?;
    let named = env::value(env::MURETAI_RELAY_STORE).map(|value| value.to_string_lossy().into_owned());
    let named = args.store.clone().or(named);
    let place = Place::read(named.as_deref(), context.home()?.root())?;
    let place = place.with_password_of(args.store_password_file.as_deref())?;
    let options = options(args);
    let opened = tokio::select! {
        opened = place.open(options.quotas.clone()) => opened?,
        () = signals.next() => return Err(Failure::failed("stopped before the store was open")),
    };
    let attempt = "cannot serve the relay";
    let relay = Relay::bind(options, opened).await.map_err(|error| Failure::of(attempt, &error))?;
    announce(context, &relay, &place.shown())?;
    let stop = Stop::new();
    let mut running = std::pin::pin!(relay.run(stop.clone()));
    let ended = tokio::select! {
        ended = &mut running => ended,
        () = signals.next() => {
            stop.stop();
            context.out.note("stopping: finishing what is under way; once more to stop at once");
            tokio::select! {
                ended = &mut running => ended,
                () = signals.next() => {
                    return Err(Failure::failed("stopped at once while serving the relay")
                        .hint("what was not finished was not acknowledged"));
                }
            }
        }
    };
    ended.map(|()| Exit::Done).map_err(|error| Failure::of(attempt, &error))
}

/// Says where: the first line, printed when connections are already accepted.
fn announce(context: &Context, relay: &Relay, store: &str) -> Result<(), Failure> {
    let bound = Announced { url: relay.url(), listen: relay.local_addr(), store };
    context.out.either(&bound, || relay.url().to_owned())?;
    for warning in relay.warnings() {
        context.out.warn(warning);
    }
    tracing::info!(url = relay.url(), listen = %relay.local_addr(), store, "the relay runs");
    context.out.note("Ctrl-C stops it");
    Ok(())
}

/// As many connections as open files allow, when nobody said how many.
fn default_connections() -> u32 {
    #[cfg(unix)]
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    #[cfg(not(unix))]
    let files: Option<u64> = None;
    let connections = files.map_or(MAX_CONNECTIONS.into(), |files| files.saturating_sub(OTHER_FILES));
    u32::try_from(connections).unwrap_or(MAX_CONNECTIONS).clamp(1, MAX_CONNECTIONS)
}

fn options(args: &Args) -> RelayOptions {
    let Args { quotas, bounds, limits, .. } = args;
    RelayOptions {
        listen: args.listen,
        urls: args.url.clone(),
        quotas: Quotas {
            mailbox_letters: quotas.mailbox_letters,
            mailbox_bytes: quotas.mailbox_bytes,
            sender_letters: quotas.sender_letters,
            retention: quotas.retention,
            invites: quotas.invites,
            total_bytes: quotas.total_bytes.0,
            cards: quotas.cards.0,
            card_bytes: quotas.card_bytes.0,
            invite_bytes: quotas.invite_bytes.0,
            mailboxes: quotas.mailboxes.0,
        },
        limits: ServerLimits {
            max_body_bytes: usize::try_from(bounds.max_deposit).unwrap_or(usize::MAX),
            max_connections: limits.max_connections.unwrap_or_else(default_connections) as usize,
            head_timeout: limits.head_timeout,
            request_timeout: limits.request_timeout,
            keep_alive: limits.keep_alive,
            write_timeout: limits.write_timeout,
            stop_timeout: limits.stop_timeout,
            ..ServerLimits::default()
        },
        bounds: Bounds {
            max_deposit_bytes: usize::try_from(bounds.max_deposit).unwrap_or(usize::MAX),
            max_wait: bounds.max_wait,
            rpc_wait: bounds.rpc_wait,
            redeliver_after: bounds.redeliver_after,
            max_batch: (bounds.batch_letters, bounds.batch_bytes),
            heartbeat: bounds.heartbeat,
            stream_life: bounds.stream_life,
            deposits_per_minute: bounds.deposits_per_minute.0,
            max_rpc_waiting: bounds.max_rpc as usize,
            sweep_every: bounds.sweep_every,
        },
        metrics: match args.metrics {
            Metrics::Loopback => MetricsAccess::Loopback,
            Metrics::Public => MetricsAccess::Public,
            Metrics::Off => MetricsAccess::Off,
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_defaults_of_the_flags_are_those_of_the_relay() {
        let options = options(&Line::parse_from(["serve"]).args);
        assert_eq!(options.quotas, Quotas::default());
        assert_eq!(format!("{:?}", options.bounds), format!("{:?}", Bounds::default()));
        assert_eq!(options.metrics, MetricsAccess::Loopback);
        assert!(options.urls.is_empty());
        assert!((1..=MAX_CONNECTIONS as usize).contains(&options.limits.max_connections));
    }

    #[test]
    fn bounds_are_set_and_taken_away() {
        let line = ["serve", "--total-bytes", "2GiB", "--cards", "off", "--deposits-per-minute", "off"];
        let options = options(&Line::parse_from(line).args);
        assert_eq!((options.quotas.total_bytes, options.quotas.cards), (2 << 30, 0));
        assert_eq!(options.bounds.deposits_per_minute, None);
        assert!(Line::try_parse_from(["serve", "--mailbox-letters", "0"]).is_err());
    }
}
