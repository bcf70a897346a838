//! Whose fault an error is; the choice picks the exit code.

/// The class of an error. Every error family of this crate has a `fault()` that gives one, and a `hint()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The caller's input or state: exit 1.
    Failed,
    /// The command line: exit 2.
    Usage,
    /// The peer refused: exit 3.
    PeerRefused,
    /// Nobody could be reached: exit 4.
    Unreachable,
    /// Something did not verify: exit 5.
    Unverified,
}
