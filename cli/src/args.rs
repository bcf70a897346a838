//! The command line: global flags and the list of commands. Each command's own flags are in its file.

use std::{ffi::OsString, path::PathBuf};

use anstream::ColorChoice;
use clap::{CommandFactory, Parser, Subcommand};

use crate::{
    commands::{
        card, claim, completions, connect, contacts, doctor, domain, identity, inbox, introduce, invite, keygen, man,
        outbox, plugin, policy, referral, relay, requests, send, serve, tour, trust_status,
    },
    output::Output,
    parse,
};

const AFTER_HELP: &str = "\
Examples:
  muretai tour                                    see it work, with real output
  muretai keygen north                            make an identity
  muretai serve                                   be reachable
  muretai send south 'hello'                      send, and print the signed reply

Exit codes: 0 done, 1 failed, 2 usage, 3 the peer refused, 4 nobody could be reached,
5 something did not verify, 6 at a relay only (with --require-delivery).";

/// An address for an agent, or for you, on a network of agents that belong to different people
///
/// An identity is its own key (a did:key). Messages are signed and checked on both sides, and only peers that you
/// trust get through. Results go to stdout, everything else to stderr.
#[derive(Debug, Parser)]
#[command(name = "muretai", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes, before or after its name.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// Folder that holds the agents [env: MURETAI_HOME] [default: the platform's data folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Agent that acts; with one agent none is needed [env: MURETAI_AS]
    #[arg(long = "as", global = true, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Print one JSON object per result; errors, warnings and logs are JSON lines on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no notes, warnings, progress and logs
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// When to colour: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_parser = color)]
    pub(crate) color: ColorChoice,
    /// Log to stderr; -vv and -vvv log more. Never logs secrets or message bodies
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// File that holds the passphrase of the key, `-` for standard input; `keygen` encrypts the new key with it
    /// [env: MURETAI_PASSPHRASE_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Open file descriptor to read the passphrase from, 0 or 3 and above; `keygen` encrypts the new key with it
    #[arg(long, global = true, value_name = "N", conflicts_with = "passphrase_file", value_parser = parse::descriptor)]
    pub(crate) passphrase_fd: Option<u32>,
}

/// The commands, in the order of a first day.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Tour(tour::Args),
    Keygen(keygen::Args),
    Identity(identity::Args),
    Card(card::Args),
    Serve(serve::Args),
    Invite(invite::Args),
    Claim(claim::Args),
    Send(send::Args),
    Inbox(inbox::Args),
    Outbox(outbox::Args),
    Contacts(contacts::Args),
    Connect(connect::Args),
    #[command(visible_alias = "request")]
    Requests(requests::Args),
    Introduce(introduce::Args),
    Referral(referral::Args),
    TrustStatus(trust_status::Args),
    Policy(policy::Args),
    Plugin(plugin::Args),
    Relay(relay::Args),
    Domain(domain::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Reads `--color`.
pub(crate) fn color(text: &str) -> Result<ColorChoice, String> {
    match text {
        "auto" => Ok(ColorChoice::Auto),
        "always" => Ok(ColorChoice::Always),
        "never" => Ok(ColorChoice::Never),
        _ => Err("write auto, always or never".to_owned()),
    }
}

/// How to speak about a command line that does not parse: what its raw words ask for, and which command they name.
pub(crate) fn speech(words: &[OsString]) -> (Output, String) {
    let mut output = Output { is_json: false, is_quiet: false, color: ColorChoice::Auto };
    let mut command = Cli::command();
    let mut path = command.get_name().to_owned();
    let mut words = words.iter().skip(1).filter_map(|word| word.to_str()).take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let choice = match word {
            "--json" => {
                output.is_json = true;
                continue;
            }
            "--color" => words.next(),
            "--home" | "--as" | "--passphrase-file" | "--passphrase-fd" => {
                words.next();
                continue;
            }
            _ => word.strip_prefix("--color="),
        };
        output.color = choice.and_then(|choice| color(choice).ok()).unwrap_or(output.color);
        if let Some(named) = command.find_subcommand(word).cloned() {
            path.push_str(&format!(" {word}"));
            command = named;
        }
    }
    (output, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_broken_command_line_is_still_answered_as_it_asked() {
        let speech = |line: &str| speech(&line.split(' ').map(Into::into).collect::<Vec<OsString>>());
        assert!(speech("muretai send --json").0.is_json);
        assert!(!speech("muretai send south -- --json").0.is_json);
        assert_eq!(speech("muretai --color never x").0.color, ColorChoice::Never);
        assert_eq!(speech("muretai x --color=always").0.color, ColorChoice::Always);
        assert_eq!(speech("muretai x --color").0.color, ColorChoice::Auto);
    }

    #[test]
    fn a_broken_command_line_is_answered_for_its_command() {
        let path = |line: &str| speech(&line.split(' ').map(Into::into).collect::<Vec<OsString>>()).1;
        assert_eq!(path("muretai --as send contacts --json show"), "muretai contacts show");
        assert_eq!(path("muretai sned south"), "muretai");
    }
}
