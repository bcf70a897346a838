//! Nothing but the child process that holds a native plugin, for tests and benches of this crate: the program itself has
//! it as `muretai plugin host`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    muretai_plugins::child::run()
}
