//! The only place that touches the streams: stdout is data, everything else goes to stderr.

use std::{
    borrow::Cow,
    io::{self, BufRead, IsTerminal, Read, Write},
};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use muretai_protocol::text;
use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;

mod errors;

pub(crate) use errors::in_one_line;

/// What failed.
pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
/// What may be wrong.
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// What is as it should be.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
const HINT: Style = AnsiColor::Cyan.on_default().bold();
/// Emphasis in what a person reads, such as a name.
pub(crate) const STRONG: Style = Style::new().bold();
/// What a person may skip.
pub(crate) const DIM: Style = Style::new().dimmed();

/// Characters of one line of an error that a terminal shows.
const MAX_ERROR_CHARS: usize = 2_000;
/// Bytes of an answer that are looked at.
const MAX_ANSWER_BYTES: u64 = 64;

/// How a command speaks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// One JSON object per result, for programs.
    pub(crate) is_json: bool,
    /// No notes and no progress.
    pub(crate) is_quiet: bool,
    /// When to colour.
    pub(crate) color: ColorChoice,
}

/// Paints text in a style; the stream strips it where it does not belong.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

impl Output {
    /// Prints text to stdout, with a line feed at its end, and flushes. The text may hold styles.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let mut stream = AutoStream::new(io::stdout().lock(), self.color);
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        written(write!(stream, "{text}{newline}").and_then(|()| stream.flush()))
    }
    /// Prints one JSON object on one line to stdout, and flushes.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let line = serde_json::to_string(value).expect("our own structs have string keys");
        self.bytes(format!("{}\n", escape_invisible(&line)).as_bytes())
    }
    /// Prints bytes to stdout as they are, and flushes.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stream = io::stdout().lock();
        written(stream.write_all(bytes).and_then(|()| stream.flush()))
    }
    /// Prints the JSON form or the text form, as the caller asked.
    pub(crate) fn either(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.is_json { self.json(value) } else { self.text(&text()) }
    }
    /// Tells a person something beside the result: on stderr, never with `--quiet` or `--json`.
    pub(crate) fn note(&self, text: &str) {
        if !self.is_quiet && !self.is_json {
            self.stderr(text);
        }
    }
    /// Warns on stderr: one JSON line with `--json`, nothing with `--quiet`.
    pub(crate) fn warn(&self, text: &str) {
        if self.is_quiet {
            return;
        }
        if self.is_json {
            self.json_line(&json!({ "warning": text }).to_string());
        } else {
            self.stderr(&format!("{} {}", paint(WARNING, "warning:"), text::one_line(text, MAX_ERROR_CHARS)));
        }
    }
    /// Asks before something that cannot be undone. Only a typed `y` or `yes` is consent; the end of input is not.
    pub(crate) fn confirm(&self, question: &str, is_given: bool) -> Result<(), Failure> {
        if is_given {
            return Ok(());
        }
        if self.is_json || !self.can_ask() {
            let why = if self.is_json { "with --json" } else { "on this input, which is no terminal" };
            let message = format!("cannot ask {why}: {question}");
            return Err(Failure::usage(message).hint("pass --yes to do it without a question"));
        }
        let mut stream = AutoStream::new(io::stderr().lock(), self.color);
        // A question that cannot be shown gets no answer worth having; reading the answer decides.
        let _ = write!(stream, "{question} [y/N] ").and_then(|()| stream.flush());
        let mut answer = String::new();
        let read = io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut answer);
        if !answer.ends_with('\n') {
            self.stderr("");
        }
        match read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            true => Ok(()),
            false => Err(Failure::failed("not confirmed: nothing was done")),
        }
    }
    /// Prints what went wrong: for people in up to four kinds of lines, with `--json` in one JSON line.
    pub(crate) fn failure(&self, failure: &Failure) {
        if failure.is_silent {
            return;
        }
        if self.is_json {
            self.json_line(&errors::json(failure).to_string());
        } else {
            self.stderr(&errors::text(failure));
        }
    }
    /// Prints to stderr what clap says about a command line, or to stdout its help. `command` is the one that was
    /// named, such as `muretai send`.
    pub(crate) fn usage(&self, error: &clap::Error, command: &str) -> Result<(), Failure> {
        if self.is_json && error.kind() == clap::error::ErrorKind::DisplayVersion {
            return self.json(&json!({ "version": env!("CARGO_PKG_VERSION") }));
        }
        if !error.use_stderr() {
            return self.text(&error.render().ansi().to_string());
        }
        if self.is_json {
            self.failure(&errors::usage(error, command));
        } else {
            let mut stream = AutoStream::new(io::stderr().lock(), self.color);
            let _ = write!(stream, "{}", error.render().ansi());
        }
        Ok(())
    }
    /// Whether a person sits at both ends: only then may anything be asked.
    pub(crate) fn can_ask(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }
    /// Whether progress may be shown.
    pub(crate) fn can_animate(&self) -> bool {
        let is_dumb = crate::env::value(crate::env::TERM).is_some_and(|term| term == "dumb");
        !self.is_quiet && !self.is_json && !is_dumb && io::stderr().is_terminal()
    }
    /// Whether stderr shows colours.
    pub(crate) fn has_color(&self) -> bool {
        AutoStream::new(io::stderr(), self.color).current_choice() != ColorChoice::Never
    }

    /// Prints one line of JSON to stderr.
    pub(crate) fn json_line(&self, line: &str) {
        self.stderr(&escape_invisible(line));
    }
    fn stderr(&self, line: &str) {
        let mut stream = AutoStream::new(io::stderr().lock(), self.color);
        // Nobody is left to tell when stderr is gone.
        let _ = writeln!(stream, "{line}");
    }
}

/// Whether whoever reads stdout has gone away, as far as the system tells without writing.
pub(crate) fn is_reader_gone() -> bool {
    #[cfg(unix)]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let stdout = io::stdout();
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&now)), Ok(1)) && fds[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
    }
    #[cfg(not(unix))]
    {
        false
    }
}

/// Escapes what a terminal would obey or hide. In JSON such characters stand inside strings alone, so the value stays.
fn escape_invisible(json: &str) -> Cow<'_, str> {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
    };
    if !json.contains(is_hidden) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if is_hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

fn written(result: io::Result<()>) -> Result<(), Failure> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::reader_gone(),
        _ => Failure::io("cannot write to standard output", &error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_escapes_what_a_terminal_would_obey_and_keeps_the_value() {
        let text = "a\u{9b}2K\u{202e}b\u{e0100}\u{7f}ü😀";
        let line = serde_json::to_string(text).unwrap();
        let escaped = escape_invisible(&line);
        assert_eq!(escaped, r#""a\u009b2K\u202eb\udb40\udd00\u007fü😀""#);
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
    }
}
