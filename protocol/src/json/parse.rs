//! The tokenizer: bytes to a value, or a named refusal (1.2).
use super::{Number, Object, Value, write::plain_prefix_len};
use crate::limits::{MAX_DEPTH, MAX_SAFE_INT};

/// Why bytes are not a JSON document that may be signed or verified. Offsets count bytes from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// A UTF-8, UTF-16 or UTF-32 mark in front.
    #[error("the document begins with a byte order mark")]
    ByteOrderMark,
    /// A NUL among the first four bytes: UTF-16 or UTF-32.
    #[error("the document is not UTF-8 but UTF-16 or UTF-32")]
    WrongEncoding,
    /// Truncated, overlong, stray or surrogate bytes.
    #[error("invalid UTF-8 at byte {at}")]
    InvalidUtf8 {
        /// Where the bad sequence begins.
        at: usize,
    },
    /// An escape that leaves half of a surrogate pair, in a value or in a key.
    #[error("an unpaired surrogate at byte {at}")]
    LoneSurrogate {
        /// Where the escape begins.
        at: usize,
    },
    /// An escape that JSON does not have.
    #[error("an invalid escape at byte {at}")]
    InvalidEscape {
        /// Where the escape begins.
        at: usize,
    },
    /// A control character inside a string that ought to be escaped.
    #[error("a raw control character in a string at byte {at}")]
    ControlCharacter {
        /// Where it is.
        at: usize,
    },
    /// A number that JSON does not spell so: `01`, `1.`, `+1`, `.5`.
    #[error("an invalid number at byte {at}")]
    InvalidNumber {
        /// Where the number begins.
        at: usize,
    },
    /// A number that no double holds, such as `1e400`: others would read infinity, which JSON does not have.
    #[error("a number that is not finite at byte {at}")]
    NotFinite {
        /// Where the number begins.
        at: usize,
    },
    /// More than [`MAX_DEPTH`] arrays and objects inside each other.
    #[error("nested deeper than {MAX_DEPTH} levels at byte {at}")]
    TooDeep {
        /// Where the level too many begins.
        at: usize,
    },
    /// The document ends in the middle of a value.
    #[error("the document ends too early, after {at} bytes")]
    UnexpectedEnd {
        /// The document's length.
        at: usize,
    },
    /// A byte that cannot stand where it stands, `NaN` and `Infinity` included.
    #[error("not JSON at byte {at}")]
    UnexpectedByte {
        /// Where it is.
        at: usize,
    },
    /// Something follows the document.
    #[error("something follows the document at byte {at}")]
    TrailingBytes {
        /// Where it begins.
        at: usize,
    },
}

/// Reads one document under the rules of 1.2; nothing is repaired, of duplicate keys the last one wins.
///
/// Takes time and memory in proportion to the length of `bytes`, which the caller bounds.
pub fn parse(bytes: &[u8]) -> Result<Value, ParseError> {
    if [&b"\xef\xbb\xbf"[..], b"\xfe\xff", b"\xff\xfe"].iter().any(|mark| bytes.starts_with(mark)) {
        return Err(ParseError::ByteOrderMark);
    }
    if bytes.iter().take(4).any(|&byte| byte == 0) {
        return Err(ParseError::WrongEncoding);
    }
    let text = str::from_utf8(bytes).map_err(|e| ParseError::InvalidUtf8 { at: e.valid_up_to() })?;
    let mut parser = Parser { text, at: 0, depth: 0 };
    parser.skip_whitespace();
    let value = parser.value()?;
    parser.skip_whitespace();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(ParseError::TrailingBytes { at: parser.at }),
    }
}

/// A place in a text that is valid UTF-8.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    fn peek(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn unexpected(&self) -> ParseError {
        match self.peek() {
            Some(_) => ParseError::UnexpectedByte { at: self.at },
            None => ParseError::UnexpectedEnd { at: self.at },
        }
    }

    /// Takes `byte` if it stands here.
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), ParseError> {
        match self.eat(byte) {
            true => Ok(()),
            false => Err(self.unexpected()),
        }
    }

    fn value(&mut self) -> Result<Value, ParseError> {
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'-' | b'0'..=b'9') => Ok(Value::Number(self.number()?)),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            _ => Err(self.unexpected()),
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, ParseError> {
        for byte in word.bytes() {
            self.expect(byte)?;
        }
        Ok(value)
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, ParseError>) -> Result<Value, ParseError> {
        if self.depth == MAX_DEPTH {
            return Err(ParseError::TooDeep { at: self.at });
        }
        self.depth += 1;
        self.at += 1;
        self.skip_whitespace();
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Value, ParseError> {
        let mut items = Vec::new();
        if self.eat(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_whitespace();
            if self.eat(b']') {
                items.shrink_to_fit();
                return Ok(Value::Array(items));
            }
            self.expect(b',')?;
            self.skip_whitespace();
        }
    }

    fn object(&mut self) -> Result<Value, ParseError> {
        let mut members = Vec::new();
        if self.eat(b'}') {
            return Ok(Value::Object(Object::new()));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let key = self.string()?;
            self.skip_whitespace();
            self.expect(b':')?;
            self.skip_whitespace();
            members.push((key, self.value()?));
            self.skip_whitespace();
            if self.eat(b'}') {
                // A vector begins with room for four: a body of tiny objects would cost four times its due.
                members.shrink_to_fit();
                return Ok(Value::Object(Object::from_unsorted(members)));
            }
            self.expect(b',')?;
            self.skip_whitespace();
        }
    }

    /// Reads a string from its opening quote on. One without escapes is copied in one go.
    fn string(&mut self) -> Result<String, ParseError> {
        self.at += 1;
        let first = self.plain_run();
        if self.eat(b'"') {
            return Ok(first.to_owned());
        }
        let mut string = first.to_owned();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escape()?),
                Some(_) => return Err(ParseError::ControlCharacter { at: self.at }),
                None => return Err(self.unexpected()),
            }
            string.push_str(self.plain_run());
        }
    }

    /// Takes the characters up to the next quote, backslash or control character.
    fn plain_run(&mut self) -> &'a str {
        let begin = self.at;
        self.at += plain_prefix_len(&self.bytes()[begin..]);
        &self.text[begin..self.at]
    }

    /// Reads an escape from its backslash on.
    fn escape(&mut self) -> Result<char, ParseError> {
        let begin = self.at;
        self.at += 1;
        let Some(letter) = self.peek() else { return Err(self.unexpected()) };
        self.at += 1;
        Ok(match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(begin),
            _ => return Err(ParseError::InvalidEscape { at: begin }),
        })
    }

    /// Reads the digits of a `\u` escape that began at `begin`, and the second half of a pair.
    fn unicode_escape(&mut self, begin: usize) -> Result<char, ParseError> {
        let high = self.hex4(begin)?;
        if !(0xd800..=0xdfff).contains(&high) {
            return char::from_u32(high).ok_or(ParseError::LoneSurrogate { at: begin });
        }
        let lone = ParseError::LoneSurrogate { at: begin };
        if high >= 0xdc00 || !self.bytes()[self.at..].starts_with(b"\\u") {
            return Err(lone);
        }
        let second = self.at;
        self.at += 2;
        let low = self.hex4(second)?;
        if !(0xdc00..=0xdfff).contains(&low) {
            return Err(lone);
        }
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)).ok_or(lone)
    }

    fn hex4(&mut self, begin: usize) -> Result<u32, ParseError> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(byte) = self.peek() else { return Err(self.unexpected()) };
            let digit = char::from(byte).to_digit(16).ok_or(ParseError::InvalidEscape { at: begin })?;
            code = code << 4 | digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<Number, ParseError> {
        let begin = self.at;
        let invalid = ParseError::InvalidNumber { at: begin };
        self.eat(b'-');
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits(begin)?,
        }
        if matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(invalid);
        }
        let mut is_integer = true;
        if self.eat(b'.') {
            is_integer = false;
            self.digits(begin)?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_integer = false;
            self.at += 1;
            let _sign = self.eat(b'+') || self.eat(b'-');
            self.digits(begin)?;
        }
        let token = &self.text[begin..self.at];
        match token.parse::<i64>() {
            Ok(n) if is_integer && (-MAX_SAFE_INT..=MAX_SAFE_INT).contains(&n) => Ok(Number::Integer(n)),
            _ if token.parse::<f64>().is_ok_and(f64::is_finite) => Ok(Number::Token(token.into())),
            _ => Err(ParseError::NotFinite { at: begin }),
        }
    }

    /// Takes one digit or more.
    fn digits(&mut self, number: usize) -> Result<(), ParseError> {
        let count = self.bytes()[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        match (count, self.peek()) {
            (1.., _) => Ok(()),
            (0, None) => Err(self.unexpected()),
            (0, Some(_)) => Err(ParseError::InvalidNumber { at: number }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::{canonical, canonical_as_received};

    fn error(document: impl AsRef<[u8]>) -> ParseError {
        parse(document.as_ref()).unwrap_err()
    }

    #[test]
    fn refuses_other_encodings() {
        for mark in [&b"\xef\xbb\xbf{}"[..], b"\xff\xfe{\0}\0", b"\xfe\xff\0{\0}", b"\xff\xfe\0\0{\0\0\0"] {
            assert_eq!(error(mark), ParseError::ByteOrderMark);
        }
        for unmarked in [&b"{\0}\0"[..], b"\0{\0}", b"{\0\0\0", b"\0\0\0{", b"\0\0\xfe\xff\0\0\0{", b"1\0", b"\0"] {
            assert_eq!(error(unmarked), ParseError::WrongEncoding);
        }
        for (bytes, at) in
            [(&b"{\"s\":\"\xe6\x97\"}"[..], 6), (b"\"\xc0\xaf\"", 1), (b"\"\xed\xa0\x80\"", 1), (b"\"\x80\"", 1)]
        {
            assert_eq!(error(bytes), ParseError::InvalidUtf8 { at });
        }
    }

    #[test]
    fn refuses_half_a_surrogate_pair_in_values_and_keys() {
        for half in [r"\ud800", r"\udfff", r"\udc00\ud800", r"\ud800\ud800", r"\ud800x", r"\ud800\n", r"\uD800\u0041"] {
            assert_eq!(error(format!("\"{half}\"")), ParseError::LoneSurrogate { at: 1 }, "{half}");
            assert_eq!(error(format!("{{\"{half}\":1}}")), ParseError::LoneSurrogate { at: 2 }, "{half}");
        }
        assert_eq!(parse(br#""\ud83d\uDC26\u00e9\u0000""#), Ok(Value::from("🐦é\0")));
        assert_eq!(parse("\"\u{fffd}\"".as_bytes()), Ok(Value::from("\u{fffd}")));
    }

    #[test]
    fn names_the_place_of_what_is_not_json() {
        for (document, expected) in [
            ("", ParseError::UnexpectedEnd { at: 0 }),
            (" \n", ParseError::UnexpectedEnd { at: 2 }),
            ("{\"a\":1", ParseError::UnexpectedEnd { at: 6 }),
            ("[1,", ParseError::UnexpectedEnd { at: 3 }),
            ("\"a", ParseError::UnexpectedEnd { at: 2 }),
            ("\"\\u12", ParseError::UnexpectedEnd { at: 5 }),
            ("tru", ParseError::UnexpectedEnd { at: 3 }),
            ("-", ParseError::UnexpectedEnd { at: 1 }),
            ("NaN", ParseError::UnexpectedByte { at: 0 }),
            ("[Infinity]", ParseError::UnexpectedByte { at: 1 }),
            ("-Infinity", ParseError::InvalidNumber { at: 0 }),
            ("nul1", ParseError::UnexpectedByte { at: 3 }),
            ("True", ParseError::UnexpectedByte { at: 0 }),
            ("[1,]", ParseError::UnexpectedByte { at: 3 }),
            ("{\"a\":1,}", ParseError::UnexpectedByte { at: 7 }),
            ("{a:1}", ParseError::UnexpectedByte { at: 1 }),
            ("{'a':1}", ParseError::UnexpectedByte { at: 1 }),
            ("[1 2]", ParseError::UnexpectedByte { at: 3 }),
            ("\u{a0}1", ParseError::UnexpectedByte { at: 0 }),
            ("// c\n1", ParseError::UnexpectedByte { at: 0 }),
            ("+1", ParseError::UnexpectedByte { at: 0 }),
            (".5", ParseError::UnexpectedByte { at: 0 }),
            ("[01]", ParseError::InvalidNumber { at: 1 }),
            ("-01", ParseError::InvalidNumber { at: 0 }),
            ("1.]", ParseError::InvalidNumber { at: 0 }),
            ("1e+]", ParseError::InvalidNumber { at: 0 }),
            ("\"\\x41\"", ParseError::InvalidEscape { at: 1 }),
            ("\"\\u+123\"", ParseError::InvalidEscape { at: 1 }),
            ("\"\\u12g4\"", ParseError::InvalidEscape { at: 1 }),
            ("\"a\nb\"", ParseError::ControlCharacter { at: 2 }),
            ("\"0123456789012345678\u{1f}\"", ParseError::ControlCharacter { at: 20 }),
            ("{} {}", ParseError::TrailingBytes { at: 3 }),
            ("{}\0\0\0", ParseError::WrongEncoding),
            ("null\0", ParseError::TrailingBytes { at: 4 }),
            ("1 \u{b}", ParseError::TrailingBytes { at: 2 }),
        ] {
            assert_eq!(error(document), expected, "{document:?}");
        }
    }

    #[test]
    fn numbers_keep_their_spelling() {
        for (token, safe) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-1", Some(-1)),
            ("9007199254740991", Some(MAX_SAFE_INT)),
            ("-9007199254740991", Some(-MAX_SAFE_INT)),
            ("9007199254740992", None),
            ("-9007199254740993", None),
            ("123456789012345678901234567890", None),
            ("1.0", None),
            ("-0.0", None),
            ("1E5", None),
            ("1e308", None),
            ("1e-400", None),
        ] {
            let expected = safe.map_or_else(|| Number::Token(token.into()), Number::Integer);
            assert_eq!(parse(token.as_bytes()), Ok(Value::Number(expected)), "{token}");
        }
    }

    #[test]
    fn refuses_numbers_that_are_not_finite_wherever_they_stand() {
        for token in ["1e400", "-1e400", "1.8e308", "1e99999999999999999999", &"9".repeat(400)] {
            assert_eq!(error(token), ParseError::NotFinite { at: 0 }, "{token}");
            assert_eq!(error(format!("{{\"a\":[{token}]}}")), ParseError::NotFinite { at: 6 }, "{token}");
        }
        assert_eq!(error("1e400x"), ParseError::NotFinite { at: 0 });
    }

    #[test]
    fn nesting_ends_at_the_limit() {
        let nested = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(error(nested(MAX_DEPTH + 1)), ParseError::TooDeep { at: MAX_DEPTH });
        assert_eq!(error(vec![b'['; 1 << 20]), ParseError::TooDeep { at: MAX_DEPTH });
        assert_eq!(error("{\"\":".repeat(1 << 18)), ParseError::TooDeep { at: MAX_DEPTH * 4 });
        assert!(parse("[],".repeat(1000).as_bytes()).is_err());
    }

    #[test]
    fn the_last_of_duplicate_keys_wins_however_many_there_are() {
        assert_eq!(parse(br#"{"a":1,"\u0061":2}"#).unwrap().to_json(), r#"{"a":2}"#);
        let members: Vec<_> = (0..100_000).map(|n| format!("\"k{}\":{n}", n % 2)).collect();
        let document = format!("{{{}}}", members.join(","));
        assert_eq!(parse(document.as_bytes()).unwrap().to_json(), r#"{"k0":99998,"k1":99999}"#);
    }

    /// Any value, with floats and large integers.
    fn value() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("JSON has no NaN", |x| x.is_finite()).prop_map(float),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            number,
            any::<String>().prop_map(Value::from)
        ];
        leaf.prop_recursive(6, 40, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                proptest::collection::vec((any::<String>(), inner), 0..8)
                    .prop_map(|members| Value::from(members.into_iter().collect::<Object>())),
            ]
        })
    }

    fn float(x: f64) -> Value {
        Value::Number(Number::Token(format!("{x:?}").into()))
    }

    fn integers_only() -> impl Strategy<Value = Value> {
        value().prop_filter("signers write integers", |value| canonical(value).is_ok())
    }

    proptest! {
        #[test]
        fn reading_gives_back_what_was_written(value in value()) {
            prop_assert_eq!(parse(value.to_json().as_bytes()), Ok(value));
        }

        #[test]
        fn refuses_every_truncation(value in value()) {
            let document = Value::Array(vec![value]).to_json();
            for len in 0..document.len() {
                prop_assert!(parse(&document.as_bytes()[..len]).is_err());
            }
        }

        #[test]
        fn reading_never_panics(bytes: Vec<u8>, text in "[\\[\\]{}:,\"\\\\u0-9a-f.eE+ -]{0,60}") {
            let _ = parse(&bytes);
            if let Ok(value) = parse(text.as_bytes()) {
                prop_assert_eq!(parse(value.to_json().as_bytes()), Ok(value));
            }
        }

        #[test]
        fn accepts_what_an_independent_reader_accepts(text in "[\\[\\]{}:,\"\\\\nu0-9a-e.E+ -]{0,24}") {
            let other = serde_json::from_str::<serde_json::Value>(&text);
            prop_assert_eq!(parse(text.as_bytes()).is_ok(), other.is_ok(), "{}", text);
        }

        #[test]
        fn canonical_form_agrees_with_an_independent_writer(value in integers_only()) {
            let written = canonical(&value).unwrap();
            let mut other: serde_json::Value = serde_json::from_str(&written).unwrap();
            other.sort_all_objects();
            prop_assert_eq!(&written, &other.to_string());
            prop_assert_eq!(canonical_as_received(&value), Ok(written));
        }
    }
}
