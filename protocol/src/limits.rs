//! The constants of section 0, one name per number.

/// The card's top-level `protocolVersion`.
pub const PROTOCOL_VERSION: &str = "0.2";
/// Seconds that a message may be older or newer than the receiver's clock, both ends inclusive.
pub const CLOCK_WINDOW_SECS: i64 = 300;
/// Seconds that a replay can look fresh for: twice the window.
pub const REPLAY_TTL_SECS: i64 = 600;
/// Bytes of joined UTF-8 text in one message.
pub const MAX_TEXT_BYTES: usize = 65_536;
/// Bytes of a request body.
pub const MAX_BODY_BYTES: usize = 1_048_576;
/// Bytes of a response body that a client reads.
pub const MAX_RESPONSE_BYTES: usize = 1_048_576;
/// Seconds after which the signature of a card envelope is too old.
pub const CARD_SIG_MAX_AGE_SECS: i64 = 21_600;
/// Seconds for which one signature over the own card is served again.
pub const CARD_SIG_REFRESH_SECS: i64 = 3_600;
/// Characters of a base58 string; longer ones are refused before the quadratic decoder runs.
pub const MAX_B58_LEN: usize = 512;
/// The largest integer that every JSON implementation holds exactly.
pub const MAX_SAFE_INT: i64 = 9_007_199_254_740_991;
/// Seconds that an invite lives, unless its maker says otherwise.
pub const INVITE_TTL_SECS: i64 = 604_800;
/// Bytes of an id that is kept: `messageId`, `contextId`, `replyTo`.
pub const MAX_ID_BYTES: usize = 1_024;
/// Bytes of compact JSON of the unsigned metadata and the parts that are no text that are kept with a message.
pub const MAX_EXTRA_BYTES: usize = 65_536;
/// Levels of nesting that the parse boundary accepts.
pub const MAX_DEPTH: usize = 128;
/// Entries of a known algorithm that `metadata.sigs` may have: each one costs a verification.
pub const MAX_EXTRA_SIGNATURES: usize = 8;
