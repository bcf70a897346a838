//! Who answers: the built-in acknowledgement, or a command of the owner's.
use std::time::Duration;

/// How a command is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyInput {
    /// The text on stdin.
    Text,
    /// The whole message as JSON on stdin.
    Json,
}

/// `--reply-with CMD`.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// Run by the shell.
    pub command: String,
    /// What stdin carries.
    pub input: ReplyInput,
    /// Killed after this long, with its process group.
    pub timeout: Duration,
    /// At most this many at once; others wait.
    pub max_running: usize,
}
