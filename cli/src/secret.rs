//! Secrets come from a file, a descriptor, stdin or a hidden prompt, never from a flag, and are wiped after use.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

use crate::{failure::Failure, output::Output, stdin};

/// Bytes of a passphrase: enough for any, too few to hold a file that was named by mistake.
const MAX_PASSPHRASE_BYTES: usize = 1_024;
/// Bytes of a phrase on stdin: 24 words of at most 8 letters, with room for generous white space.
const MAX_PHRASE_BYTES: usize = 4_096;

/// Where the passphrase of a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PassphraseSource {
    /// `--passphrase-file`, or the variable.
    File(PathBuf),
    /// `--passphrase-fd`.
    Descriptor(u32),
    /// `--passphrase-file -`, or descriptor 0.
    Stdin,
}

impl PassphraseSource {
    /// What `--passphrase-file` and its variable name.
    pub(crate) fn file(path: PathBuf) -> PassphraseSource {
        if path.as_os_str() == "-" { PassphraseSource::Stdin } else { PassphraseSource::File(path) }
    }
    /// What `--passphrase-fd` names.
    pub(crate) fn descriptor(number: u32) -> PassphraseSource {
        if number == 0 { PassphraseSource::Stdin } else { PassphraseSource::Descriptor(number) }
    }
    /// Reads the passphrase: all of it but one line end. Empty is an error.
    pub(crate) fn read(&self) -> Result<Zeroizing<String>, Failure> {
        self.read_as("the passphrase")
    }
    /// The same for another secret, which errors call `what`.
    pub(crate) fn read_as(&self, what: &'static str) -> Result<Zeroizing<String>, Failure> {
        let (source, name): (Box<dyn Read>, String) = match self {
            PassphraseSource::Stdin => (Box::new(stdin::take(what)?), "standard input".to_owned()),
            PassphraseSource::File(path) => open(path, what)?,
            PassphraseSource::Descriptor(number) => open(&Path::new("/dev/fd").join(number.to_string()), what)?,
        };
        let attempt = attempt(what, &name);
        let text = read_text(source, MAX_PASSPHRASE_BYTES).map_err(|error| Failure::io(attempt.as_str(), &error))?;
        let text = Zeroizing::new(without_line_end(&text).to_owned());
        if let PassphraseSource::Descriptor(number) = self {
            close(*number);
        }
        if text.is_empty() { Err(Failure::failed(format!("{attempt}: it is empty"))) } else { Ok(text) }
    }
}

/// Closes the descriptor that the passphrase came on: commands that we start would inherit it, and a regular file could
/// be read through it again. The three standard ones stay.
#[cfg(unix)]
fn close(number: u32) {
    if let Some(number) = i32::try_from(number).ok().filter(|number| *number > 2) {
        // It was inherited for this one purpose. That it is closed already is no fault.
        let _ = nix::unistd::close(number);
    }
}

#[cfg(not(unix))]
fn close(_: u32) {}

fn attempt(what: &str, name: &str) -> String {
    format!("cannot read {what} from {name}")
}

fn open(path: &Path, what: &str) -> Result<(Box<dyn Read>, String), Failure> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| Failure::io(attempt(what, &name), &error))?;
    Ok((Box::new(file), name))
}

/// Asks for a new passphrase, twice.
pub(crate) fn ask_new_passphrase(out: &Output) -> Result<Zeroizing<String>, Failure> {
    if !out.can_ask() {
        return Err(Failure::usage("cannot ask for a passphrase: there is no terminal")
            .hint("pass --passphrase-file FILE or --passphrase-fd N"));
    }
    let first = prompt("New passphrase: ")?;
    if first.is_empty() {
        return Err(Failure::failed("the passphrase is empty: nothing was written"));
    }
    let second = prompt("Again, to be sure: ")?;
    if *first != *second {
        return Err(Failure::failed("the two passphrases differ: nothing was written"));
    }
    Ok(first)
}

/// Asks for the passphrase of a key that is there.
pub(crate) fn ask_passphrase(out: &Output, agent: &str) -> Result<Zeroizing<String>, Failure> {
    if !out.can_ask() {
        return Err(Failure::failed(format!(
            "cannot unlock the key of `{agent}`: it is encrypted, and there is no terminal to ask on"
        ))
        .hint("pass --passphrase-file FILE or --passphrase-fd N"));
    }
    prompt(&format!("Passphrase of {agent}: "))
}

/// Takes the 24 words from stdin, or from a hidden prompt when a person sits there.
pub(crate) fn read_phrase(out: &Output) -> Result<Zeroizing<String>, Failure> {
    let is_asked = out.can_ask();
    let text = if is_asked {
        prompt("Recovery phrase (24 words, hidden): ")?
    } else {
        read_text(stdin::take("the recovery phrase")?, MAX_PHRASE_BYTES)
            .map_err(|error| Failure::io("cannot read the recovery phrase from standard input", &error))?
    };
    let words = Zeroizing::new(bare_words(&text));
    match (words.is_empty(), is_asked) {
        (false, _) => Ok(words),
        (true, true) => Err(Failure::failed("cannot restore: no word was typed, nothing was written")
            .hint("type the 24 words in their order, with blanks between them")),
        (true, false) => {
            Err(Failure::failed("cannot read the recovery phrase: standard input is empty, nothing was written")
                .hint("pipe the 24 words in, or run this in a terminal to be asked for them"))
        }
    }
}

/// The words without what a written list has beside them: numbers, commas, a byte order mark.
fn bare_words(text: &str) -> String {
    let is_number = |word: &&str| word.trim_end_matches(['.', ')', ':']).bytes().all(|byte| byte.is_ascii_digit());
    let mut words = String::with_capacity(text.len());
    let parts = text.split(|c: char| c.is_whitespace() || c == ',' || c == '\u{feff}');
    for word in parts.filter(|word| !is_number(word)) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    words
}

fn prompt(question: &str) -> Result<Zeroizing<String>, Failure> {
    match rpassword::prompt_password(question) {
        Ok(text) => Ok(Zeroizing::new(text)),
        Err(error) => Err(Failure::io("cannot ask on the terminal", &error)),
    }
}

/// Reads at most `limit` bytes of UTF-8. The buffer never grows, so no unwiped copy of it stays behind.
fn read_text(source: impl Read, limit: usize) -> io::Result<Zeroizing<String>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(limit + 2));
    source.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Err(io::Error::other(format!("it is longer than {limit} bytes")));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err(io::Error::other("it is not UTF-8 text")),
    }
}

fn without_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_descriptor_of_a_passphrase_is_closed_once_it_is_read() {
        use std::os::fd::IntoRawFd;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passphrase");
        std::fs::write(&path, "secret\n").unwrap();
        let number = File::open(&path).unwrap().into_raw_fd();
        let source = PassphraseSource::descriptor(number.unsigned_abs());
        assert_eq!(*source.read().unwrap(), "secret");
        // Another test may have been given the number meanwhile, but not for this file.
        let leads_to = std::fs::read_link(format!("/proc/self/fd/{number}"));
        assert_ne!(leads_to.ok(), Some(path.canonicalize().unwrap()));
    }

    #[test]
    fn strips_one_line_end_and_no_blank() {
        assert_eq!(without_line_end(" a b \r\n"), " a b ");
        assert_eq!(without_line_end("a\n\n"), "a\n");
        assert_eq!(without_line_end("a"), "a");
    }

    #[test]
    fn a_numbered_list_is_its_words() {
        assert_eq!(bare_words("\u{feff}1. abandon, 2) art\n 3: zoo\r\n"), "abandon art zoo");
        assert_eq!(bare_words(" \n1.\n"), "");
    }

    #[test]
    fn refuses_what_is_too_long_or_not_text() {
        assert_eq!(*read_text(&b"four"[..], 4).unwrap(), "four");
        assert!(read_text(&b"fives"[..], 4).unwrap_err().to_string().contains("4 bytes"));
        assert!(read_text(&[0xff, 0xfe][..], 4).unwrap_err().to_string().contains("UTF-8"));
    }
}
