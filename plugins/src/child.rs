//! The child process that holds one native plugin.
use std::process::ExitCode;

/// Serves one native plugin over standard input and output until its parent closes them.
pub fn run() -> ExitCode {
    ExitCode::FAILURE
}
