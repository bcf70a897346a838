//! `muretai serve`: be reachable.

use std::{net::SocketAddr, time::Duration};

use muretai_node::{
    Agent,
    receive::responder::{CommandSpec, ReplyInput},
    serve::{ServeOptions, Serving},
};
use muretai_transports::{Stop, http::ServerLimits};
use serde::Serialize;

use crate::{
    commands::plugin,
    context::Context,
    exit::Exit,
    failure::Failure,
    mail,
    parse::{self, Rate},
    signals::Signals,
};

mod digest;

/// Threads that answer. More than this many would wait for the same disk.
const MAX_WORKERS: usize = 4;

/// How long threads may take to end once nothing is awaited any more.
const LAST_MOMENT: Duration = Duration::from_millis(500);

/// Be reachable: serve the card, receive messages, answer them
///
/// The first line on standard output is the address (with --json an object with `url`). Log lines go to standard
/// error, one per message, without its text. It listens on this machine alone unless --listen says otherwise. SIGINT
/// and SIGTERM let it finish what is under way; a second one ends it at once.
///
/// With --relay it also listens for letters at relays, which keep them while it is off. Nobody has to dial it then, and
/// with --no-http nobody can. The card names the first relay while it is connected. Only the newest listener of an
/// identity gets its letters: an older one stops and says so. What is in the outbox is sent again as long as it runs.
///
/// Messages from trusted contacts are stored before they are answered. Strangers are refused, unless --open-door.
///
/// Who answers, in this order: a skill of a plugin, when the first word is its id or it is the default skill; what
/// --reply-with prints: the command is run by the shell with the text on standard input and with MURETAI_* variables
/// that name the sender and the message; else an acknowledgement. Plugins are those of `muretai plugin list`; one that
/// cannot be started keeps the agent from being served.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai serve --listen 127.0.0.1:0 --reply-with 'tr a-z A-Z'\n\
\x20 muretai serve --no-http --relay https://relay.example")]
pub(crate) struct Args {
    /// Address and port to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8420", value_parser = listen)]
    listen: SocketAddr,
    /// Address under which others reach this agent, for the card [default: the bound one]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Relay where letters are fetched; repeat it for more [default: those of `relay` in config.toml]
    #[arg(long, value_name = "URL", value_parser = parse::relay, help_heading = "Relays")]
    relay: Vec<String>,
    /// Fetch no letters, whatever config.toml says
    #[arg(long, conflicts_with_all = ["relay", "no_http"], help_heading = "Relays")]
    no_relay: bool,
    /// Bind no address: be reached through relays alone
    #[arg(long, conflicts_with_all = ["listen", "url"], help_heading = "Relays")]
    no_http: bool,
    /// Answer strangers too
    #[arg(long)]
    open_door: bool,
    /// Replies per minute, for one account and in total, or `off`
    #[arg(long, value_name = "N[/TOTAL]", default_value = "60/600", value_parser = parse::rate)]
    rate_limit: Rate,
    /// Command that answers: text on stdin, reply on stdout
    #[arg(long, value_name = "CMD", value_parser = parse::not_blank, help_heading = "Answers")]
    reply_with: Option<String>,
    /// What the command gets on stdin: the text, or the whole message as JSON
    #[arg(long, requires = "reply_with", value_name = "FORM", default_value = "text", help_heading = "Answers")]
    reply_input: InputForm,
    /// How long the command may take
    #[arg(long, requires = "reply_with", value_name = "TIME", default_value = "15s", value_parser = parse::duration)]
    #[arg(help_heading = "Answers")]
    reply_timeout: Duration,
    /// How many commands may run at once; more messages wait
    #[arg(long, requires = "reply_with", value_name = "N", default_value_t = 4, value_parser = parse::at_least_one)]
    #[arg(help_heading = "Answers")]
    reply_max: u32,
    /// Bytes of a request
    #[arg(long, value_name = "BYTES", default_value_t = 1_048_576, value_parser = parse::at_least_one)]
    #[arg(help_heading = "Limits")]
    max_body: u32,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = parse::at_least_one, help_heading = "Limits")]
    max_connections: u32,
    /// How long the head of a request may take
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse::duration, help_heading = "Limits")]
    head_timeout: Duration,
    /// How long a whole request may take to arrive
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse::duration, help_heading = "Limits")]
    request_timeout: Duration,
    /// How long an idle connection is kept
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse::duration, help_heading = "Limits")]
    keep_alive: Duration,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum InputForm {
    Text,
    Json,
}

#[derive(Serialize)]
struct Bound<'a> {
    /// `null` with `--no-http`.
    url: Option<&'a str>,
    did: &'a str,
    name: &'a str,
    listen: Option<SocketAddr>,
    relays: &'a [String],
}

/// Reads an address and a port.
pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    let spelled = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    spelled.parse().map_err(|_| "write an address and a port, such as 127.0.0.1:8420 or [::1]:0".to_owned())
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("serve")
        .enable_all()
        .build()
        .map_err(|error| Failure::io("cannot start", &error))?;
    let ended = runtime.block_on(serve(context, args));
    // After a second signal only what ends at once is waited for; dropped tasks kill the commands that they run.
    runtime.shutdown_timeout(LAST_MOMENT);
    ended
}

async fn serve(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let mut signals = Signals::catch()?;
    let agent = context.open(context.timeout(None)?).await?;
    let attempt = format!("cannot serve `{}`", agent.name());
    let plugins = tokio::select! {
        plugins = plugin::start(context, agent.name(), &attempt) => plugins?,
        () = signals.next() => return Err(Failure::failed(format!("{attempt}: stopped while its plugins started"))),
    };
    let relays = relays(context, args)?;
    let options = ServeOptions {
        skills: plugins.skills(),
        policies: plugins.policies(),
        relays,
        relay_times: mail::relay_times()?,
        ..options(args)
    };
    let serving = agent.serve(&options).await.map_err(|error| Failure::of(attempt.as_str(), &error))?;
    announce(context, &serving, &agent, &options)?;
    let stop = Stop::new();
    let running = serving.run(stop.clone());
    let mut running = std::pin::pin!(running);
    let ended = tokio::select! {
        ended = &mut running => ended,
        never = digest::watch(context, &agent) => match never {},
        () = signals.next() => {
            stop.stop();
            context.out.note("stopping: finishing what is under way; once more to stop at once");
            tokio::select! {
                ended = &mut running => ended,
                () = signals.next() => {
                    let message = format!("stopped at once while serving `{}`", agent.name());
                    return Err(Failure::failed(message).hint("what was not finished was not acknowledged"));
                }
            }
        }
    };
    plugins.close().await;
    agent.close().await;
    ended.map(|()| Exit::Done).map_err(|error| Failure::of(attempt, &error))
}

/// Says where: the first line, printed when connections are already accepted.
fn announce(context: &Context, serving: &Serving, agent: &Agent, options: &ServeOptions) -> Result<(), Failure> {
    let (did, name, relays) = (agent.did().as_str(), agent.name(), options.relays.as_slice());
    let url = Some(serving.url()).filter(|_| !options.no_http);
    let bound = Bound { url, did, name, listen: serving.local_addr(), relays };
    let first = url.or(relays.first().map(String::as_str)).unwrap_or_default();
    context.out.either(&bound, || first.to_owned())?;
    for warning in serving.warnings() {
        context.out.warn(warning);
    }
    context.out.note(&format!("{name} is {did}; Ctrl-C stops it"));
    Ok(())
}

/// Where letters are fetched: the flags, else the file.
fn relays(context: &Context, args: &Args) -> Result<Vec<String>, Failure> {
    let relays = match args.relay.as_slice() {
        _ if args.no_relay => Vec::new(),
        [] => context.config()?.relay.clone(),
        relays => relays.to_vec(),
    };
    if args.no_http && relays.is_empty() {
        return Err(Failure::usage("--no-http leaves no way to be reached").hint("name a relay with --relay URL"));
    }
    Ok(relays)
}

fn options(args: &Args) -> ServeOptions {
    ServeOptions {
        listen: args.listen,
        url: args.url.clone(),
        open_door: args.open_door,
        rate: args.rate_limit.0,
        reply_with: args.reply_with.as_ref().map(|command| CommandSpec {
            command: command.clone(),
            input: match args.reply_input {
                InputForm::Text => ReplyInput::Text,
                InputForm::Json => ReplyInput::Json,
            },
            timeout: args.reply_timeout,
            max_running: args.reply_max as usize,
        }),
        skills: None,
        policies: Vec::new(),
        limits: ServerLimits {
            max_body_bytes: args.max_body as usize,
            max_connections: args.max_connections as usize,
            head_timeout: args.head_timeout,
            request_timeout: args.request_timeout,
            keep_alive: args.keep_alive,
            ..ServerLimits::default()
        },
        relays: Vec::new(),
        no_http: args.no_http,
        relay_times: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use muretai_node::receive::rate::RateLimit;

    use super::*;

    #[test]
    fn addresses_read_with_brackets_and_as_localhost() {
        assert_eq!(listen("localhost:0"), Ok(SocketAddr::from(([127, 0, 0, 1], 0))));
        assert_eq!(listen("[::1]:8420").map(|address| address.to_string()), Ok("[::1]:8420".to_owned()));
        for text in ["", "8420", "::1:8420", "[not-ipv6]:80", "127.0.0.1", "127.0.0.1:65536", "south.example:80"] {
            assert!(listen(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_default_rate_is_that_of_the_specification() {
        assert_eq!(parse::rate("60/600"), Ok(Rate(Some(RateLimit::default()))));
    }
}
