//! `muretai relay`: a place where sealed letters wait for agents that sleep.

use crate::{context::Context, exit::Exit, failure::Failure};

pub(crate) mod serve;
mod stats;
mod store;

/// Run a relay: a place where sealed letters wait for agents that sleep
///
/// A relay keeps letters until their recipients fetch them, and learns nothing of what they say. It needs no identity
/// and no agent. Several relay processes behind one address share their mailboxes in PostgreSQL.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai relay serve --listen 127.0.0.1:8421 --url https://relay.example\n\
\x20 muretai relay stats")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Serve(Box<serve::Args>),
    Stats(stats::Args),
}

impl Args {
    /// Whether it logs without being asked: it works for a long time, and nobody sits before it.
    pub(crate) fn is_service(&self) -> bool {
        matches!(self.command, Command::Serve(_))
    }
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::Serve(args) => serve::run(context, args),
        Command::Stats(args) => stats::run(context, args),
    }
}
