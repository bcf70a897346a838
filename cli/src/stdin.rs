//! Standard input: read once, bounded, and told in our own words when it is not what a command takes.

use std::{
    io::{self, Read, StdinLock},
    sync::OnceLock,
};

use crate::failure::Failure;

/// Bytes of a single value: an invite token holds a whole card.
const MAX_VALUE_BYTES: usize = 65_536;

/// Who reads standard input.
static TAKEN: OnceLock<&'static str> = OnceLock::new();

/// Takes standard input for one purpose (`the text`, `the passphrase`). It cannot hold two things at once.
pub(crate) fn take(purpose: &'static str) -> Result<StdinLock<'static>, Failure> {
    let first = *TAKEN.get_or_init(|| purpose);
    if first != purpose {
        return Err(Failure::usage(format!("standard input cannot hold both {first} and {purpose}"))
            .hint("give one of them another way, such as in a file or as an argument"));
    }
    Ok(io::stdin().lock())
}

/// Reads at most `limit` bytes of UTF-8, as they are.
pub(crate) fn text(source: impl Read, limit: usize, attempt: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    source.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(|error| Failure::io(attempt, &error))?;
    if bytes.len() > limit {
        return Err(Failure::failed(format!("{attempt}: it is longer than {limit} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::failed(format!("{attempt}: it is not UTF-8 text (byte {at})"))
    })
}

/// Reads the one value that a command takes: exactly one line that is not blank, without the blanks around it.
pub(crate) fn value(source: impl Read, what: &str) -> Result<String, Failure> {
    let attempt = format!("cannot read {what} from standard input");
    let text = text(source, MAX_VALUE_BYTES, &attempt)?;
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).filter(|line| !line.is_empty());
    match (lines.next(), lines.count()) {
        (Some(line), 0) => Ok(line.to_owned()),
        (Some(_), more) => {
            let message = format!("{attempt}: it has {} lines, and one is taken", more + 1);
            Err(Failure::usage(message).hint("call the command once for each line"))
        }
        (None, _) => Err(Failure::failed(format!("{attempt}: it is empty"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn a_value_is_one_line() {
        let read = |text: &str| value(text.as_bytes(), "a link");
        assert_eq!(read("\u{feff} agent://invite?d=x \r\n\n").unwrap(), "agent://invite?d=x");
        assert_eq!(read(" \n").unwrap_err().exit, Exit::Failed);
        assert_eq!(read("one\ntwo\n").unwrap_err().exit, Exit::Usage);
        assert!(value(&vec![b'a'; MAX_VALUE_BYTES + 1][..], "a link").is_err());
    }

    #[test]
    fn what_is_no_text_is_told_in_plain_words() {
        let failure = text(&[b'a', 0xff, 0xfe][..], 9, "cannot send").unwrap_err();
        assert_eq!(failure.message, "cannot send: it is not UTF-8 text (byte 1)");
    }
}
