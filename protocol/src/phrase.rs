//! The recovery phrase (section 2.3): 24 words that are the seed.
use zeroize::Zeroizing;

use crate::sign::Seed;

/// Why words are not a phrase. Messages name positions, never the phrase.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PhraseError {
    /// Not 24 words.
    #[error("a recovery phrase has 24 words, this has {count}")]
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

/// The 24 words of a seed.
pub fn encode(_seed: &Seed) -> Zeroizing<String> {
    todo!()
}
/// Reads words: NFKD, any case, any white space.
pub fn decode(_text: &str) -> Result<Seed, PhraseError> {
    todo!()
}
