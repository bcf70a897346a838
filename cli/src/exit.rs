//! Exit codes: what a script learns without reading a word.

use std::process::ExitCode;

use muretai_node::Fault;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Failed: the caller's input or state, or this machine.
    Failed = 1,
    /// The command line was wrong.
    Usage = 2,
    /// The peer refused; its code and message were printed.
    PeerRefused = 3,
    /// Nobody could be reached.
    Unreachable = 4,
    /// Something did not verify.
    Unverified = 5,
    /// It lies at a relay, and delivery was required (`--require-delivery`).
    AtRelay = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl From<Fault> for Exit {
    fn from(fault: Fault) -> Exit {
        match fault {
            Fault::Failed => Exit::Failed,
            Fault::Usage => Exit::Usage,
            Fault::PeerRefused => Exit::PeerRefused,
            Fault::Unreachable => Exit::Unreachable,
            Fault::Unverified => Exit::Unverified,
        }
    }
}
