//! Bytes and rules of the muretai protocol.
//!
//! Pure: no I/O, no clock and no randomness of its own. Time ([`UnixSeconds`]) and random bytes come in as
//! arguments, so that every rule is tested by value. One module per artifact of the wire specification; section
//! numbers in the documentation are those of `docs/spec/wire.md`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod a2a;
pub mod base64;
pub mod binding;
pub mod card;
pub mod did;
mod hex;
pub mod introduction;
pub mod invite;
pub mod json;
pub mod keystate;
pub mod limits;
pub mod linkage;
pub mod message;
pub mod phrase;
pub mod relay;
pub mod revocations;
pub mod rpc;
pub mod sealed;
pub mod sign;
pub mod text;
pub mod time;
pub mod urls;

pub use did::Did;
pub use message::MessageId;
pub use time::UnixSeconds;
