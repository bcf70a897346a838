//! `muretai man`: the manual pages.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use serde::Serialize;

use crate::{args::Cli, context::Context, exit::Exit, failure::Failure};

/// Print the manual page, or write the pages of all commands into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai man | man -l -\n\
\x20 muretai man --out ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Folder for muretai.1, muretai-send.1 and so on; it is made when it is not there. `-` prints muretai.1
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct Written {
    files: Vec<String>,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    match args.out.as_deref().filter(|folder| folder.as_os_str() != "-") {
        None => context.out.bytes(&page(&mut program)?)?,
        Some(folder) => {
            fs::create_dir_all(folder).map_err(|error| Failure::io(attempt(folder), &error))?;
            let mut files = Vec::new();
            write(folder, &mut program, &mut files)?;
            if context.out.is_json {
                context.out.json(&Written { files })?;
            } else {
                context.out.note(&format!("wrote the manual pages to {}", folder.display()));
            }
        }
    }
    Ok(Exit::Done)
}

fn attempt(folder: &Path) -> String {
    format!("cannot write manual pages to {}", folder.display())
}

/// Writes the page of a command, then those of its subcommands.
fn write(folder: &Path, command: &mut Command, files: &mut Vec<String>) -> Result<(), Failure> {
    let name = command.get_bin_name().unwrap_or("muretai").replace(' ', "-");
    let path = folder.join(format!("{name}.1"));
    fs::write(&path, page(command)?).map_err(|error| Failure::io(attempt(folder), &error))?;
    files.push(path.display().to_string());
    command.get_subcommands_mut().try_for_each(|subcommand| write(folder, subcommand, files))
}

/// One page. Its synopsis is the usage line of `--help`, which shows what each option takes.
fn page(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let name = command.get_bin_name().unwrap_or("muretai").to_owned();
    let usage = command.render_usage().to_string();
    let synopsis = usage.trim_start_matches("Usage:").trim().to_owned();
    let mut bytes = Vec::new();
    let page = Man::new(command.clone().override_usage(synopsis))
        .title(name.replace(' ', "-"))
        .source(format!("muretai {}", env!("CARGO_PKG_VERSION")));
    page.render(&mut bytes).map_err(|error| Failure::io("cannot write the manual page", &error))?;
    Ok(bytes)
}
