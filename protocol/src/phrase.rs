//! The recovery phrase (section 2.3): 24 words that are the seed.
//!
//! The words are the seed itself, as BIP-39 entropy with a checksum: no PBKDF2, no passphrase, English only. Reading
//! is generous with what keyboards and paper do to words, and derives the seed from the words that it recognised, never
//! from the text as typed.
use std::borrow::Cow;

use bip39::{Language, Mnemonic};
use zeroize::Zeroizing;

use crate::sign::Seed;

/// Words of a phrase.
const WORDS: usize = 24;
/// Letters of the longest word in the list.
const MAX_WORD_LEN: usize = 8;

/// Why words are not a phrase. Messages name positions, never the phrase.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PhraseError {
    /// Not 24 words.
    #[error("a recovery phrase has {WORDS} words, this has {count}")]
    WordCount {
        /// Words found.
        count: usize,
    },
    /// A word outside the English list.
    #[error("word {position} is not in the list")]
    UnknownWord {
        /// Counted from 1.
        position: usize,
    },
    /// All words are known, but they do not belong together.
    #[error("the checksum of the words is wrong: a word is mistyped or out of place")]
    Checksum,
}

/// The 24 words of a seed, lower case, with single spaces.
pub fn encode(seed: &Seed) -> Zeroizing<String> {
    let mnemonic = Mnemonic::from_entropy_in(Language::English, seed.expose()).expect("32 bytes make 24 words");
    let mut phrase = empty_phrase();
    for word in mnemonic.words() {
        push_word(&mut phrase, word.chars());
    }
    phrase
}

/// Reads words: NFKD, any case, any white space.
pub fn decode(text: &str) -> Result<Seed, PhraseError> {
    let mut normalized = Cow::Borrowed(text);
    Mnemonic::normalize_utf8_cow(&mut normalized);
    let normalized = Zeroizing::new(normalized.into_owned());
    // A text file may begin with a byte order mark, and web pages break words with zero-width spaces.
    let is_blank = |c: char| c.is_whitespace() || matches!(c, '\u{200b}' | '\u{feff}');
    let words = normalized.split(is_blank).filter(|word| !word.is_empty());
    match words.clone().count() {
        WORDS => {}
        count => return Err(PhraseError::WordCount { count }),
    }
    let mut phrase = empty_phrase();
    for (index, word) in words.enumerate() {
        let begin = push_word(&mut phrase, word.chars().take(MAX_WORD_LEN + 1).flat_map(char::to_lowercase));
        if Language::English.find_word(&phrase[begin..]).is_none() {
            return Err(PhraseError::UnknownWord { position: index + 1 });
        }
    }
    let mnemonic = Mnemonic::parse_in_normalized(Language::English, &phrase).map_err(|_| PhraseError::Checksum)?;
    let entropy = Zeroizing::new(mnemonic.to_entropy_array().0);
    let (seed, _) = entropy.split_first_chunk().expect("24 words hold 32 bytes");
    Ok(Seed::from_bytes(*seed))
}

/// A buffer that never grows, so that no copy of the words stays behind.
fn empty_phrase() -> Zeroizing<String> {
    Zeroizing::new(String::with_capacity((WORDS + 1) * 2 * (MAX_WORD_LEN + 2)))
}

/// Appends a word and returns where it begins.
fn push_word(phrase: &mut String, word: impl Iterator<Item = char>) -> usize {
    if !phrase.is_empty() {
        phrase.push(' ');
    }
    let begin = phrase.len();
    phrase.extend(word);
    begin
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ZEROS: &str = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon \
                         abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon art";

    fn error(text: &str) -> PhraseError {
        decode(text).unwrap_err()
    }

    #[test]
    fn what_keyboards_and_paper_do_changes_nothing() {
        for text in [
            ZEROS.to_owned(),
            ZEROS.to_uppercase(),
            ZEROS.replace("abandon a", "Abandon\u{a0}A"),
            format!("\u{feff}  {}\r\n", ZEROS.replace(' ', " \t\r\n")),
            ZEROS.replace(' ', "\u{3000}"),
            ZEROS.replace("art", "\u{ff41}\u{ff52}\u{ff54}"), // full width
        ] {
            assert_eq!(decode(&text).unwrap().expose(), &[0; 32], "{text:?}");
        }
    }

    #[test]
    fn each_failure_has_its_name_and_place() {
        assert_eq!(error(""), PhraseError::WordCount { count: 0 });
        assert_eq!(error(&ZEROS.replace(" art", "")), PhraseError::WordCount { count: 23 });
        assert_eq!(error(&format!("{ZEROS} art")), PhraseError::WordCount { count: 25 });
        assert_eq!(error(&ZEROS.replace("art", "arx")), PhraseError::UnknownWord { position: 24 });
        assert_eq!(error(&ZEROS.replacen("abandon", "abandonn", 1)), PhraseError::UnknownWord { position: 1 });
        assert_eq!(error(&ZEROS.replacen("abandon", "a\u{303}bandon", 1)), PhraseError::UnknownWord { position: 1 });
        assert_eq!(error(&ZEROS.replacen("abandon", &"ﷺ".repeat(900), 1)), PhraseError::WordCount { count: 2724 });
        let japanese = vec!["あいこくしん"; WORDS].join("\u{3000}");
        assert_eq!(error(&japanese), PhraseError::UnknownWord { position: 1 });
        assert_eq!(error(&ZEROS.replace("art", "abandon")), PhraseError::Checksum);
        assert_eq!(PhraseError::UnknownWord { position: 7 }.to_string(), "word 7 is not in the list");
    }

    proptest! {
        #[test]
        fn reading_gives_back_the_seed(bytes: [u8; 32]) {
            let phrase = encode(&Seed::from_bytes(bytes));
            prop_assert_eq!(phrase.split(' ').count(), WORDS);
            let seed = decode(&phrase).unwrap();
            prop_assert_eq!(seed.expose(), &bytes);
        }

        #[test]
        fn reading_never_panics(text: String, words in proptest::collection::vec("\\PC{1,20}", WORDS)) {
            let _ = decode(&text);
            let _ = decode(&words.join(" "));
        }
    }
}
