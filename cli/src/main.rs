//! `muretai`: parse, call one thing in a lower crate, print.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod args;
mod clock;
mod commands;
mod config;
mod context;
mod env;
mod exit;
mod failure;
mod logging;
mod mail;
mod output;
mod parse;
mod people;
mod progress;
#[cfg(test)]
mod reference;
mod secret;
mod shell;
mod signals;
mod stdin;
mod wire;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    args::{Cli, Command},
    context::Context,
    exit::Exit,
    failure::Failure,
    output::Output,
};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if commands::plugin::is_host(&words) {
        // Does not come back where a host has started it.
        let _ = muretai_plugins::child::run();
    }
    let (out, ended) = match Cli::try_parse_from(&words) {
        Err(error) => {
            let (out, command) = args::speech(&words);
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            (out, out.usage(&error, &command).map(|()| exit))
        }
        Ok(cli) => {
            let globals = &cli.globals;
            let out = Output { is_json: globals.json, is_quiet: globals.quiet, color: globals.color };
            (out, run(out, cli))
        }
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => {
            out.failure(&failure);
            failure.exit.into()
        }
    }
}

/// Whether a command logs without being asked.
fn is_service(command: &Command) -> bool {
    match command {
        Command::Serve(_) => true,
        Command::Relay(args) => args.is_service(),
        _ => false,
    }
}

fn run(out: Output, cli: Cli) -> Result<Exit, Failure> {
    logging::start(&out, cli.globals.verbose, is_service(&cli.command));
    let context = Context::new(out, cli.globals);
    let ended = match cli.command {
        Command::Tour(args) => commands::tour::run(&context, &args),
        Command::Keygen(args) => commands::keygen::run(&context, &args),
        Command::Identity(args) => commands::identity::run(&context, &args),
        Command::Card(args) => commands::card::run(&context, &args),
        Command::Serve(args) => commands::serve::run(&context, &args),
        Command::Invite(args) => commands::invite::run(&context, &args),
        Command::Claim(args) => commands::claim::run(&context, &args),
        Command::Send(args) => commands::send::run(&context, &args),
        Command::Inbox(args) => commands::inbox::run(&context, &args),
        Command::Outbox(args) => commands::outbox::run(&context, &args),
        Command::Contacts(args) => commands::contacts::run(&context, &args),
        Command::Connect(args) => commands::connect::run(&context, &args),
        Command::Requests(args) => commands::requests::run(&context, &args),
        Command::Introduce(args) => commands::introduce::run(&context, &args),
        Command::Referral(args) => commands::referral::run(&context, &args),
        Command::TrustStatus(args) => commands::trust_status::run(&context, &args),
        Command::Plugin(args) => commands::plugin::run(&context, &args),
        Command::Policy(args) => commands::policy::run(&context, &args),
        Command::Relay(args) => commands::relay::run(&context, &args),
        Command::Domain(args) => commands::domain::run(&context, &args),
        Command::Doctor(args) => commands::doctor::run(&context, &args),
        Command::Completions(args) => commands::completions::run(&context, &args),
        Command::Man(args) => commands::man::run(&context, &args),
    };
    ended.map_err(|failure| Failure { hint: failure.hint.as_deref().map(|hint| context.typed(hint)), ..failure })
}
