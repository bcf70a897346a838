//! `--reply-with CMD`: the owner's command answers. It gets the message on stdin and in `MURETAI_*` variables, never
//! in its arguments; what it writes to stdout is the reply. It runs in a process group of its own, which is killed as a
//! whole when the command has ended, when time is up, when too much is said, or when nobody waits for the answer any
//! more. Only when `serve` itself is killed the hard way nobody is left to do that.
//!
//! Of our own environment it inherits no `MURETAI_*` but `MURETAI_HOME`: the others say where secrets are.
//!
//! A variable is left out when its value cannot be one: with a NUL in it, or longer than [`MAX_VARIABLE_BYTES`]. The
//! JSON form of stdin has every value whole.
use std::{
    ffi::OsStr,
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use muretai_plugins::{ContactState, Response};
use muretai_protocol::{
    json::{Object, Value},
    limits::MAX_TEXT_BYTES,
    message::Verified,
    text,
};
use muretai_store::{Store, contacts::Contact};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::Command,
    sync::Semaphore,
    task::JoinHandle,
};

use super::{CommandSpec, ReplyInput};

mod group;

use group::Group;

/// Longest value of an environment variable; the system's limit is about 128 KiB for one string.
const MAX_VARIABLE_BYTES: usize = 4_096;
/// Longest line of stderr that reaches our log, and how many of them.
const MAX_LOG_LINE: usize = 1_000;
const MAX_LOG_LINES: usize = 100;
/// How long stderr may stay open after the command has ended.
const LOG_PATIENCE: Duration = Duration::from_millis(100);

/// Asks a command of the owner's.
pub(crate) struct CommandResponder {
    spec: CommandSpec,
    agent_name: String,
    store: Store,
    places: Semaphore,
    /// Strangers have half of the places at most, so that contacts never wait behind many of them.
    strangers: Semaphore,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("the command could not be started")]
    Start(#[source] io::Error),
    #[error("the command's output could not be read")]
    Read(#[source] io::Error),
    #[error("the command ended with {0}")]
    Status(ExitStatus),
    #[error("the command wrote more than {MAX_TEXT_BYTES} bytes")]
    TooLong,
    #[error("the command wrote something that is not UTF-8")]
    NotUtf8,
}

impl CommandError {
    /// What the sender hears of it.
    fn reason(&self) -> &'static str {
        match self {
            CommandError::Start(_) | CommandError::Read(_) | CommandError::Status(_) => "the agent's responder failed",
            CommandError::TooLong => "the agent's answer was too long",
            CommandError::NotUtf8 => "the agent's answer was not text",
        }
    }
}

impl CommandResponder {
    /// A responder for the agent of this name, who looks senders up in this store.
    pub(crate) fn new(spec: CommandSpec, agent_name: &str, store: Store) -> CommandResponder {
        let running = spec.max_running.clamp(1, Semaphore::MAX_PERMITS);
        let (places, strangers) = (Semaphore::new(running), Semaphore::new((running / 2).max(1)));
        CommandResponder { spec, agent_name: agent_name.to_owned(), store, places, strangers }
    }

    /// Answers. Never fails: a fault is an honest response that says so. Dropping the future stops the command.
    pub(crate) async fn respond(&self, message: &Verified, state: ContactState) -> Response {
        match tokio::time::timeout(self.spec.timeout, self.run(message, state)).await {
            Ok(Ok(text)) => Response::answer(text),
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the responder gave no answer");
                Response::no_answer(error.reason())
            }
            Err(_) => {
                tracing::warn!(limit = ?self.spec.timeout, "the responder took too long");
                Response::no_answer("the agent's responder took too long")
            }
        }
    }

    async fn run(&self, message: &Verified, state: ContactState) -> Result<String, CommandError> {
        let contact = self.store.contact(message.from()).await.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, "the sender of a message could not be looked up");
            None
        });
        let _turn = match state {
            ContactState::Direct | ContactState::Introduced => None,
            ContactState::None => Some(self.strangers.acquire().await.expect("the semaphore is never closed")),
        };
        let _place = self.places.acquire().await.expect("the semaphore is never closed");
        let mut child = self.command(message, contact.as_ref()).spawn().map_err(CommandError::Start)?;
        // Declared after the child and so dropped before it: the group's id is not free for others until then.
        let mut group = Group::led_by(&child);
        let _log = child.stderr.take().map(|stderr| Log(tokio::spawn(pass_on(stderr))));
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let stdout = child.stdout.take().expect("stdout is piped");
        let input = self.input(message, contact.as_ref(), state);
        let feed = async move {
            // A command need not read what it is told; that it closes stdin early is no fault.
            let _ = stdin.write_all(input.as_bytes()).await;
            Ok(())
        };
        // What the command leaves behind would hold stdout open, and must not outlive the answer.
        let ending = async {
            group.ended().await.map_err(CommandError::Read)?;
            group.kill();
            Ok(())
        };
        let (output, (), ()) = tokio::try_join!(read_reply(stdout), feed, ending)?;
        let status = child.wait().await.map_err(CommandError::Read)?;
        if let Some(log) = _log {
            log.finish().await;
        }
        if !status.success() {
            return Err(CommandError::Status(status));
        }
        reply_text(output)
    }

    fn command(&self, message: &Verified, contact: Option<&Contact>) -> Command {
        let inner = message.message();
        let timestamp = message.timestamp().0.to_string();
        let variables = [
            ("MURETAI_AS", Some(self.agent_name.as_str())),
            ("MURETAI_FROM", Some(message.from().as_str())),
            ("MURETAI_FROM_NAME", contact.map(|contact| contact.name.as_str())),
            ("MURETAI_TO", Some(message.to())),
            ("MURETAI_MESSAGE_ID", Some(inner.message_id.as_str())),
            ("MURETAI_CONTEXT_ID", inner.context_id.as_deref()),
            ("MURETAI_TIMESTAMP", Some(timestamp.as_str())),
        ];
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.spec.command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        for name in std::env::vars_os().map(|(name, _)| name).filter(|name| is_ours(name)) {
            command.env_remove(name);
        }
        for (name, value) in variables {
            match value.filter(|value| value.len() <= MAX_VARIABLE_BYTES && !value.contains('\0')) {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// What stdin says.
    fn input(&self, message: &Verified, contact: Option<&Contact>, state: ContactState) -> String {
        let inner = message.message();
        if self.spec.input == ReplyInput::Text {
            return inner.text.clone();
        }
        let text_or_null = |value: Option<&str>| value.map_or(Value::Null, Value::from);
        let members = [
            ("v", Value::from(1)),
            ("agent", self.agent_name.as_str().into()),
            ("auto", inner.meta("auto").and_then(Value::as_bool).unwrap_or(false).into()),
            ("contextId", text_or_null(inner.context_id.as_deref())),
            ("from", message.from().as_str().into()),
            ("messageId", inner.message_id.as_str().into()),
            ("name", text_or_null(contact.map(|contact| contact.name.as_str()))),
            ("replyTo", text_or_null(inner.meta("replyTo").and_then(Value::as_str))),
            ("text", inner.text.as_str().into()),
            ("timestamp", message.timestamp().0.into()),
            ("to", message.to().into()),
            ("trust", trust(state).into()),
        ];
        let object: Object = members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Value::Object(object).to_json()
    }
}

/// What the JSON form calls a sender.
fn trust(state: ContactState) -> &'static str {
    match state {
        ContactState::Direct => "direct",
        ContactState::Introduced => "introduced",
        ContactState::None => "stranger",
    }
}

/// Whether a variable is for this program alone. The home is not: a command may call this program itself.
fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"MURETAI_") && name != "MURETAI_HOME"
}

/// Reads stdout to its end, or until it is longer than a reply with its last line feed can be.
async fn read_reply(stdout: impl AsyncRead + Unpin) -> Result<Vec<u8>, CommandError> {
    const LONGEST: usize = MAX_TEXT_BYTES + 1;
    let mut output = Vec::new();
    let mut limited = stdout.take(LONGEST as u64 + 1);
    limited.read_to_end(&mut output).await.map_err(CommandError::Read)?;
    if output.len() > LONGEST { Err(CommandError::TooLong) } else { Ok(output) }
}

/// One line feed at the end is the shell's, not the answer's.
fn reply_text(mut output: Vec<u8>) -> Result<String, CommandError> {
    if output.last() == Some(&b'\n') {
        output.pop();
    }
    if output.len() > MAX_TEXT_BYTES {
        return Err(CommandError::TooLong);
    }
    String::from_utf8(output).map_err(|_| CommandError::NotUtf8)
}

/// The task that passes stderr on; ends with the command, or shortly after it.
struct Log(JoinHandle<()>);

impl Log {
    async fn finish(mut self) {
        let _ = tokio::time::timeout(LOG_PATIENCE, &mut self.0).await;
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Passes stderr on to our log, line by line. What is too much is read and dropped, so that the command never blocks.
async fn pass_on(mut stderr: impl AsyncRead + Unpin) {
    let mut buffer = [0; 4_096];
    let mut line = Vec::new();
    let mut lines = 0;
    loop {
        let n = match stderr.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(n) => n,
        };
        for byte in &buffer[..n] {
            if *byte == b'\n' {
                log_line(&line, &mut lines);
                line.clear();
            } else if line.len() < MAX_LOG_LINE {
                line.push(*byte);
            }
        }
    }
    if !line.is_empty() {
        log_line(&line, &mut lines);
    }
}

fn log_line(line: &[u8], lines: &mut usize) {
    *lines += 1;
    match (*lines).cmp(&MAX_LOG_LINES) {
        std::cmp::Ordering::Less => {
            tracing::info!(target: "muretai::responder", "{}", text::one_line(&String::from_utf8_lossy(line), MAX_LOG_LINE));
        }
        std::cmp::Ordering::Equal => tracing::info!(target: "muretai::responder", "further lines are dropped"),
        std::cmp::Ordering::Greater => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_home_is_passed_on() {
        for name in ["MURETAI_PASSPHRASE_FILE", "MURETAI_AS", "MURETAI_", "MURETAI_HOME2"] {
            assert!(is_ours(OsStr::new(name)), "{name}");
        }
        for name in ["MURETAI_HOME", "HOME", "PATH", "XMURETAI_X"] {
            assert!(!is_ours(OsStr::new(name)), "{name}");
        }
    }
}
