//! `muretai man`: the manual pages.

use std::{fs, path::PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;

use crate::{args::Cli, context::Context, exit::Exit, failure::Failure};

/// Print the manual page, or write the pages of all commands into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai man | man -l -\n\
\x20 muretai man --out ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Folder for muretai.1, muretai-send.1 and so on; it is made when it is not there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    match &args.out {
        None => {
            let mut page = Vec::new();
            let rendered = Man::new(Cli::command()).render(&mut page);
            rendered.map_err(|error| Failure::io("cannot write the manual page", &error))?;
            context.out.bytes(&page)?;
        }
        Some(folder) => {
            let attempt = format!("cannot write manual pages to {}", folder.display());
            fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
                .map_err(|error| Failure::io(attempt, &error))?;
            context.out.note(&format!("wrote the manual pages to {}", folder.display()));
        }
    }
    Ok(Exit::Done)
}
