//! Who answers: the built-in acknowledgement, or a command of the owner's.
use std::time::Duration;

use async_trait::async_trait;
use muretai_plugins::{Responder, Response};
use muretai_protocol::message::Verified;

mod command;

pub(crate) use command::CommandResponder;

/// How a command is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyInput {
    /// The text on stdin.
    Text,
    /// The whole message as JSON on stdin.
    Json,
}

/// What `--reply-with` runs, and how.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// Run by `sh -c`.
    pub command: String,
    /// What stdin carries.
    pub input: ReplyInput,
    /// Killed after this long, with its process group. Waiting for a free place counts.
    pub timeout: Duration,
    /// At most this many at once; others wait.
    pub max_running: usize,
}

/// Says that the message has arrived and nothing else (section 3.5).
pub(crate) struct Acknowledge;

#[async_trait]
impl Responder for Acknowledge {
    async fn respond(&self, _: &Verified) -> Response {
        Response::accepted()
    }
}
