//! The child process that holds a native plugin, for tests and benches of this crate: the program itself has it as
//! `muretai plugin host`. With `rehearse LIBRARY CONFIG REQUEST…` it takes a library through its life in this process,
//! for memory checkers.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "what the rehearsal shows is its output")]

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [verb, library, config, requests @ ..] if verb == "rehearse" => rehearse(library, config, requests),
        _ => child(),
    }
}

#[cfg(unix)]
fn child() -> ExitCode {
    muretai_plugins::child::run()
}

#[cfg(unix)]
fn rehearse(library: &str, config: &str, requests: &[String]) -> ExitCode {
    let requests: Vec<&[u8]> = requests.iter().map(String::as_bytes).collect();
    let shown = std::fs::File::open(library)
        .map_err(|error| error.to_string())
        .and_then(|library| muretai_plugins::child::rehearse(library, config.as_bytes(), &requests));
    for line in shown.unwrap_or_else(|error| vec![error]) {
        println!("{line}");
    }
    ExitCode::SUCCESS
}

#[cfg(not(unix))]
fn child() -> ExitCode {
    ExitCode::FAILURE
}

#[cfg(not(unix))]
fn rehearse(_: &str, _: &str, _: &[String]) -> ExitCode {
    ExitCode::FAILURE
}
