//! What travels between agents and a relay (section 9): deposits, tokens and epochs of listeners, letters. No clock and
//! no sockets; nothing that a relay says is believed for having this shape.
mod deposit;
mod items;
mod token;

pub use deposit::{Deposit, DepositError, MAX_DEPOSIT_ID_BYTES, asked_wait_secs, deposit_id, deposit_payload};
pub use items::{BadItem, Batch, Item, ReadBatchError};
pub use token::{Epoch, MINUTE_TOLERANCE, listen_payload, listen_token, minute_of, verify_token};

/// Longest wait of a poll and of a synchronous call, in seconds (9.2, 9.3).
pub const MAX_WAIT_SECS: u64 = 25;
/// How long a relay keeps a letter, in seconds: 7 days (9.2).
pub const MAILBOX_RETENTION_SECS: i64 = 7 * 86_400;

/// What the sender of a letter is told that could not be opened (9.5), as a whole sentence.
pub const DID_NOT_OPEN: &str = "local listener could not open the sealed mailbox item (key-state or node-version split). \
The relay is blind and did not decrypt.";
