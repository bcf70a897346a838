//! `muretai completions`: scripts for shells.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{args::Cli, context::Context, exit::Exit, failure::Failure};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai completions bash > ~/.local/share/bash-completion/completions/muretai\n\
\x20 muretai completions zsh > \"${fpath[1]}/_muretai\"")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "muretai", &mut script);
    context.out.bytes(&script)?;
    Ok(Exit::Done)
}
