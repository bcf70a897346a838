//! Text from strangers, made safe to show.
//!
//! A peer's text may move the cursor, reverse the reading direction, hide characters or forge lines. Everything of a
//! peer's that a person sees passes through here: in a terminal, in a log, in a question for approval. What is unsafe
//! appears as `\u{202e}`.
use std::fmt::Write as _;

/// Blanks in a row that one line shows as they are; padding must not push what follows out of sight.
const MAX_BLANKS: usize = 2;

/// Shows a peer's text on one line: control, format and bidi characters escaped, at most `max_chars` characters.
///
/// Text that does not fit ends in `… (N characters)`, where N is the length of the whole, or in `…` alone where
/// `max_chars` has no room for more.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let mut shown = Shown::default();
    let mut blanks = 0;
    for c in text.chars() {
        blanks = if c.is_whitespace() { blanks + 1 } else { 0 };
        shown.push(c, is_unsafe(c) || blanks > MAX_BLANKS);
        if shown.chars > max_chars {
            return cut(shown, text.chars().count(), max_chars);
        }
    }
    shown.out
}

/// Shows a message body: line feeds and tabs kept, every other control, format and bidi character escaped.
///
/// A carriage return before a line feed is dropped.
pub fn body(text: &str) -> String {
    let mut shown = Shown::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\r', Some('\n')) => {}
            _ => shown.push(c, is_unsafe(c) && !matches!(c, '\n' | '\t')),
        }
    }
    shown.out
}

/// A name out of a peer's mouth: control and format characters stripped, cut to 32 characters (6.4).
///
/// Blanks in a row become one; what remains may be empty.
pub fn peer_name(text: &str) -> String {
    const MAX_CHARS: usize = 32;
    let mut name = String::new();
    let safe = text.chars().filter(|&c| c == '\n' || c == '\t' || !is_unsafe(c));
    for c in safe.map(|c| if c.is_whitespace() { ' ' } else { c }) {
        if c != ' ' || !(name.is_empty() || name.ends_with(' ')) {
            name.push(c);
        }
    }
    let end = name.char_indices().nth(MAX_CHARS).map_or(name.len(), |(at, _)| at);
    name.truncate(end);
    name.truncate(name.trim_end().len());
    name
}

/// Text as it will be shown, and how many characters it has.
#[derive(Default)]
struct Shown {
    out: String,
    chars: usize,
    /// Where each character or escape of the original begins in `out`, in characters and in bytes.
    begins: Vec<(usize, usize)>,
}

impl Shown {
    fn push(&mut self, c: char, escaped: bool) {
        let begin = self.out.len();
        self.begins.push((self.chars, begin));
        if !escaped {
            self.out.push(c);
            self.chars += 1;
            return;
        }
        write!(self.out, "{}", c.escape_unicode()).expect("a String takes every write");
        self.chars += self.out.len() - begin;
    }
}

/// Cuts at the last beginning that leaves room for the note.
fn cut(mut shown: Shown, total: usize, max_chars: usize) -> String {
    let notes = [format!("… ({total} characters)"), "…".to_owned()];
    // The note is for lines that have room for text beside it.
    let note = notes.into_iter().find(|note| note.chars().count() * 2 <= max_chars || note == "…").unwrap_or_default();
    let Some(room) = max_chars.checked_sub(note.chars().count()) else { return String::new() };
    let fits = shown.begins.iter().rev().find(|(chars, _)| *chars <= room);
    shown.out.truncate(fits.map_or(0, |&(_, at)| at));
    shown.out + &note
}

/// Whether a character is invisible, or acts on the text around it instead of being seen.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' // soft hyphen
            | '\u{34f}' // combining grapheme joiner
            | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}'
            | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' // Hangul fillers
            | '\u{17b4}' | '\u{17b5}' // invisible Khmer vowels
            | '\u{180b}'..='\u{180f}' // Mongolian selectors
            | '\u{200b}'..='\u{200f}' // zero width, left-to-right and right-to-left marks
            | '\u{2028}'..='\u{202e}' // line and paragraph separators, bidi embeddings and overrides
            | '\u{2060}'..='\u{206f}' // joiners, invisible operators, bidi isolates
            | '\u{2800}' // blank Braille
            | '\u{fe00}'..='\u{fe0e}' // variation selectors; U+FE0F stays, emoji are full of it
            | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' // musical format characters
            | '\u{e0000}'..='\u{e0fff}' // tags and the supplementary variation selectors
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_what_hides_or_forges() {
        for (text, shown) in [
            ("hello, Welt, привет, 你好, ❤\u{fe0f}", "hello, Welt, привет, 你好, ❤\u{fe0f}"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\u{200b}b", "a\\u{200b}b"),
            ("a\u{e0100}b", "a\\u{e0100}b"),
            ("\u{1b}[2Kgone", "\\u{1b}[2Kgone"),
            ("a\rb", "a\\u{d}b"),
            ("a\n#14 send to", "a\\u{a}#14 send to"),
            ("a\u{2028}b\u{85}c", "a\\u{2028}b\\u{85}c"),
            ("a\tb", "a\\u{9}b"),
            ("a  b", "a  b"),
            ("a    b", "a  \\u{20}\\u{20}b"),
        ] {
            assert_eq!(one_line(text, 100), shown);
        }
    }

    #[test]
    fn a_long_line_is_cut_and_says_how_long_it_was() {
        assert_eq!(one_line("0123456789", 10), "0123456789");
        assert_eq!(one_line("0123456789a", 10), "012345678…");
        assert_eq!(one_line(&"x".repeat(5000), 40), format!("{}… (5000 characters)", "x".repeat(21)));
        assert_eq!(one_line(&format!("1234{}", "\u{202e}".repeat(9)), 10), "1234…", "an escape is never cut");
        assert_eq!(one_line("ab", 1), "…");
        assert_eq!(one_line("ab", 0), "");
        let padded = one_line(&format!("north{}trusted", " ".repeat(5000)), 60);
        assert!(padded.starts_with("north  \\u{20}\\u{20}") && padded.ends_with("… (5012 characters)"), "{padded}");
    }

    #[test]
    fn a_body_keeps_its_lines() {
        assert_eq!(body("a\n\tb\r\nc\rd\u{1b}[0m"), "a\n\tb\nc\\u{d}d\\u{1b}[0m");
        assert_eq!(body("    indented"), "    indented");
    }

    #[test]
    fn a_name_is_stripped_and_short() {
        assert_eq!(peer_name("  No\u{202e}rth\u{200b}\r\n of\t\tHere \u{7}"), "North of Here");
        assert_eq!(peer_name(&"é".repeat(40)), "é".repeat(32));
        assert_eq!(peer_name("\u{200b}\u{3164}"), "");
        assert_eq!(peer_name(&format!("{} x", "a".repeat(31))), "a".repeat(31));
    }

    proptest! {
        #[test]
        fn nothing_unsafe_is_shown(text: String, max_chars in 0usize..60) {
            let line = one_line(&text, max_chars);
            prop_assert!(line.chars().count() <= max_chars);
            prop_assert!(!line.chars().any(is_unsafe));
            prop_assert!(!body(&text).chars().any(|c| is_unsafe(c) && c != '\n' && c != '\t'));
            let name = peer_name(&text);
            prop_assert!(name.chars().count() <= 32 && !name.chars().any(is_unsafe));
            prop_assert_eq!(peer_name(&name), name);
        }
    }
}
