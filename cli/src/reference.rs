//! The command reference, `docs/commands.md`, made from the same text as `--help`.

use std::{fmt::Write, fs, path::Path};

use clap::{Command, CommandFactory};

use crate::args::Cli;

/// Set to any value, `cargo test -p muretai reference` writes the file instead of comparing it.
const UPDATE: &str = "MURETAI_UPDATE_DOCS";

const HEAD: &str = "\
# Commands

Made from the help texts by `MURETAI_UPDATE_DOCS=1 cargo test -p muretai reference`; a test compares it with them.
";

fn reference() -> String {
    let mut command = Cli::command().term_width(100).color(clap::ColorChoice::Never);
    command.build();
    let mut page = HEAD.to_owned();
    section(&mut page, &mut command, true);
    page
}

/// One command, then its subcommands. The global options are written once, at the top.
fn section(page: &mut String, command: &mut Command, is_top: bool) {
    let name = command.get_bin_name().unwrap_or("muretai").to_owned();
    let is_hidden = |arg: &clap::Arg| !is_top && (arg.is_global_set() || arg.get_id() == "help");
    let mut shown = command.clone().mut_args(|arg| if is_hidden(&arg) { arg.hide(true) } else { arg });
    // The usage line stays what `--help` shows, as if the hidden options were there.
    let usage = |command: &mut Command| command.render_usage().to_string();
    let help = shown.render_long_help().to_string().replacen(&usage(&mut shown), &usage(command), 1);
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    writeln!(page, "\n## {name}\n\n```text\n{}\n```", lines.join("\n").trim_end()).unwrap();
    for subcommand in command.get_subcommands_mut().filter(|subcommand| subcommand.get_name() != "help") {
        section(page, subcommand, false);
    }
}

#[test]
fn the_committed_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/commands.md");
    let expected = reference();
    if crate::env::value(UPDATE).is_some() {
        fs::write(&path, expected).unwrap();
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(committed == expected, "docs/commands.md is out of date: {UPDATE}=1 cargo test -p muretai reference");
}
