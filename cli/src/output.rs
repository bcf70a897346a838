//! The only place that touches the streams: stdout is data, everything else goes to stderr.

use std::{
    borrow::Cow,
    io::{self, BufRead, IsTerminal, Read, Write},
};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use muretai_protocol::text;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::failure::Failure;

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
            self.stderr(&json!({ "warning": text }).to_string());
        } else {
            self.stderr(&format!("{} {}", paint(WARNING, "warning:"), text::one_line(text, MAX_ERROR_CHARS)));
        }
    }
    /// Asks before something that cannot be undone. Only a typed `y` or `yes` is consent; the end of input is not.
    pub(crate) fn confirm(&self, question: &str, is_given: bool) -> Result<(), Failure> {
        if is_given {
            return Ok(());
        }
        if !self.can_ask() {
            let message = format!("cannot ask on this input, which is no terminal: {question}");
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
        let shown = if self.is_json {
            escape_invisible(&failure_json(failure).to_string()).into_owned()
        } else {
            failure_text(failure)
        };
        self.stderr(&shown);
    }
    /// Prints to stderr what clap says about a command line, or to stdout its help. Gives the exit code.
    pub(crate) fn usage(&self, error: &clap::Error) -> Result<(), Failure> {
        if !error.use_stderr() {
            return self.text(&error.render().ansi().to_string());
        }
        if self.is_json {
            let failure = Failure::usage(usage_line(error)).hint("`muretai --help` lists the commands and flags");
            self.failure(&failure);
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

/// clap's first paragraph on one line, without its `error:`.
fn usage_line(error: &clap::Error) -> String {
    let shown = error.render().to_string();
    let first = shown.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let line = words.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

fn failure_text(failure: &Failure) -> String {
    let line = |text: &str| text::one_line(text, MAX_ERROR_CHARS);
    let mut shown = format!("{} {}", paint(ERROR, "error:"), line(&failure.message));
    if let Some(refusal) = &failure.refusal {
        if !failure.message.contains(&refusal.code.to_string()) {
            shown.push_str(&format!("\n  caused by: the peer refused: {} {}", refusal.code, line(&refusal.message)));
        }
        if let Some(detail) = refusal.detail() {
            shown.push_str(&format!("\n  caused by: {}", line(detail)));
        }
    }
    for cause in &failure.causes {
        shown.push_str(&format!("\n  caused by: {}", line(cause)));
    }
    if let Some(hint) = &failure.hint {
        shown.push_str(&format!("\n{} {}", paint(HINT, "hint:"), line(hint)));
    }
    shown
}

fn failure_json(failure: &Failure) -> Value {
    let mut object = Map::new();
    object.insert("error".to_owned(), failure.message.as_str().into());
    if !failure.causes.is_empty() {
        object.insert("causes".to_owned(), failure.causes.clone().into());
    }
    if let Some(hint) = &failure.hint {
        object.insert("hint".to_owned(), hint.as_str().into());
    }
    if let Some(refusal) = &failure.refusal {
        object.insert("code".to_owned(), refusal.code.into());
        object.insert("message".to_owned(), refusal.message.as_str().into());
        if let Some(data) = refusal.data.as_ref().and_then(|data| serde_json::from_str(&data.to_json()).ok()) {
            object.insert("data".to_owned(), data);
        }
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{exit::Exit, failure::PeerRefusal};

    fn refused() -> Failure {
        Failure {
            causes: vec!["a\u{1b}[2Kcause".to_owned()],
            refusal: Some(Box::new(PeerRefusal {
                code: -32010,
                message: "introduction required".to_owned(),
                data: None,
            })),
            ..Failure::new(Exit::PeerRefused, "cannot send to `south`").hint("`muretai claim LINK` first")
        }
    }

    #[test]
    fn a_failure_shows_no_control_characters_to_a_terminal() {
        let shown = failure_text(&refused());
        let plain = anstream::adapter::strip_str(&shown).to_string();
        assert!(!plain.contains('\u{1b}'), "{plain:?}");
        assert!(plain.starts_with("error: cannot send to `south`\n  caused by: "), "{plain}");
        assert!(plain.ends_with("\nhint: `muretai claim LINK` first"), "{plain}");
    }

    #[test]
    fn json_escapes_what_a_terminal_would_obey_and_keeps_the_value() {
        let text = "a\u{9b}2K\u{202e}b\u{e0100}\u{7f}ü😀";
        let line = serde_json::to_string(text).unwrap();
        let escaped = escape_invisible(&line);
        assert_eq!(escaped, r#""a\u009b2K\u202eb\udb40\udd00\u007fü😀""#);
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
    }

    #[test]
    fn a_json_failure_carries_the_refusal_on_one_line() {
        let line = failure_json(&refused()).to_string();
        assert!(!line.contains('\n'));
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["code"], -32010);
        assert_eq!(value["message"], "introduction required");
        assert_eq!(value["error"], "cannot send to `south`");
    }
}
