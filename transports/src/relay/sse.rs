//! Reads an event stream (`text/event-stream`) piece by piece. Whatever comes, no more than one event is held, and of
//! that no more than a letter can have; what is larger is passed over, so that the letters behind it still arrive.
use bytes::{Buf as _, Bytes};

/// Bytes of a line, and of the data of one event: a letter of 1 MiB with what stands around it.
pub const MAX_EVENT_BYTES: usize = 1_572_864;
/// Bytes of an event's name that are looked at; ours are shorter.
const MAX_NAME_BYTES: usize = 64;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A whole event.
    Message {
        /// What kind it is; `message` unless it says otherwise.
        name: String,
        /// Its lines of data, joined.
        data: Vec<u8>,
    },
    /// An event that was larger than [`MAX_EVENT_BYTES`]; nothing of it was kept.
    Oversized,
}

/// A reader of one stream. Pieces go in, events come out; where the pieces were cut does not matter.
#[derive(Debug, Default)]
pub struct Parser {
    piece: Bytes,
    line: Vec<u8>,
    is_line_oversized: bool,
    /// The last line ended in CR: a LF that follows belongs to it.
    after_cr: bool,
    /// Lines were read: a byte order mark is none any more.
    has_begun: bool,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    is_oversized: bool,
}

impl Parser {
    /// Makes a reader that has seen nothing.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Takes the next piece of the stream. [`Parser::event`] must have given `None` before.
    pub fn feed(&mut self, piece: Bytes) {
        self.piece = piece;
    }

    /// The next event of what was fed; `None` when more is needed.
    pub fn event(&mut self) -> Option<Event> {
        while self.read_line() {
            let mut line = std::mem::take(&mut self.line);
            let is_oversized = std::mem::take(&mut self.is_line_oversized);
            if !self.has_begun && line.starts_with(b"\xef\xbb\xbf") {
                line.drain(..3);
            }
            self.has_begun = true;
            let event = self.take_line(&line, is_oversized);
            // The buffer is used again, unless a large letter made it large.
            if line.capacity() <= 65_536 {
                line.clear();
                self.line = line;
            }
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// Moves bytes into `line` up to the end of a line. `false`: the piece is used up before there was one.
    fn read_line(&mut self) -> bool {
        if self.piece.is_empty() {
            return false;
        }
        if std::mem::take(&mut self.after_cr) && self.piece[0] == b'\n' {
            self.piece.advance(1);
        }
        let end = self.piece.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let part = self.piece.split_to(end.unwrap_or(self.piece.len()));
        if self.is_line_oversized || self.line.len() + part.len() > MAX_EVENT_BYTES {
            self.is_line_oversized = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(&part);
        }
        if end.is_none() {
            return false;
        }
        self.after_cr = self.piece[0] == b'\r';
        self.piece.advance(1);
        true
    }

    fn take_line(&mut self, line: &[u8], is_oversized: bool) -> Option<Event> {
        if is_oversized {
            self.is_oversized = true;
            self.data = Vec::new();
            return None;
        }
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.name = value[..value.len().min(MAX_NAME_BYTES)].to_vec(),
            b"data" => self.take_data(value),
            // Comments, which have an empty field, and fields that mean nothing here.
            _ => {}
        }
        None
    }

    fn take_data(&mut self, value: &[u8]) {
        if self.is_oversized || self.data.len() + value.len() + 1 > MAX_EVENT_BYTES {
            self.is_oversized = true;
            self.data = Vec::new();
            return;
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
    }

    fn dispatch(&mut self) -> Option<Event> {
        let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        let has_data = std::mem::take(&mut self.has_data);
        if std::mem::take(&mut self.is_oversized) {
            return Some(Event::Oversized);
        }
        let name = if name.is_empty() { "message".to_owned() } else { String::from_utf8_lossy(&name).into_owned() };
        has_data.then_some(Event::Message { name, data })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All events of a stream that comes in pieces of this size.
    fn read(stream: &[u8], size: usize) -> Vec<Event> {
        let mut parser = Parser::new();
        let mut events = Vec::new();
        for piece in stream.chunks(size.max(1)) {
            parser.feed(Bytes::copy_from_slice(piece));
            events.extend(std::iter::from_fn(|| parser.event()));
        }
        events
    }

    fn message(name: &str, data: &str) -> Event {
        Event::Message { name: name.to_owned(), data: data.as_bytes().to_vec() }
    }

    #[test]
    fn reads_events_however_they_are_cut() {
        let stream = ": ok\n\nevent: letter\ndata: {\"a\":1}\n\n: still here\n\nevent:bye\r\ndata:{}\r\n\r\n";
        let expected = [message("letter", "{\"a\":1}"), message("bye", "{}")];
        for size in 1..=stream.len() {
            assert_eq!(read(stream.as_bytes(), size), expected, "pieces of {size}");
        }
    }

    #[test]
    fn reads_what_the_format_allows() {
        for (stream, expected) in [
            ("\u{feff}data: x\n\n", vec![message("message", "x")]),
            ("data: a\ndata:  b\ndata\n\n", vec![message("message", "a\n b\n")]),
            ("data:x\r\rdata:y\r\n\r\n", vec![message("message", "x"), message("message", "y")]),
            ("event: letter\n\ndata: x\n\n", vec![message("message", "x")]),
            ("id: 7\nretry: 1\nfoo\ndata: x\n\n", vec![message("message", "x")]),
            ("data: x\n", vec![]),
            ("\n\n\r\r\n", vec![]),
        ] {
            assert_eq!(read(stream.as_bytes(), 3), expected, "{stream:?}");
        }
    }

    #[test]
    fn what_is_too_large_is_passed_over_and_what_follows_is_read() {
        let half = "x".repeat(MAX_EVENT_BYTES / 2);
        for large in [format!("data: {half}{half}\n\n"), format!("data: {half}\ndata: {half}\ndata: y\n\n")] {
            let stream = format!("{large}event: letter\ndata: y\n\n");
            assert_eq!(read(stream.as_bytes(), 4_096), [Event::Oversized, message("letter", "y")]);
        }
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut parser = Parser::new();
        for _ in 0..100 {
            parser.feed(Bytes::from(vec![b'x'; 65_536]));
            assert_eq!(parser.event(), None);
        }
        assert!(parser.line.capacity() <= MAX_EVENT_BYTES && parser.data.is_empty());
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(stream in "(data|event|:| |\n|\r|x|\u{feff}){0,60}", size in 1_usize..20) {
            prop_assert_eq!(read(stream.as_bytes(), size), read(stream.as_bytes(), usize::MAX));
        }

        #[test]
        fn nothing_makes_it_panic(stream: Vec<u8>, size in 1_usize..50) {
            let _ = read(&stream, size);
        }
    }
}
