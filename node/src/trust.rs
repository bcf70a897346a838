//! Who may write to this agent, and how that changes: policies of the owner, introductions, connect requests, what peers
//! are told about each other.
//!
//! [`policies`] are the owner's settings. The acts of the owner are methods of [`crate::Agent`]: [`connect`],
//! [`introduce`], [`requests`], [`referral`], [`status`], [`domain`]. They speak to peers through [`call`], and what could
//! not be said at once waits as an errand ([`errands`]). What peers ask is in `receive/methods`.
pub mod call;
pub mod connect;
pub mod domain;
pub mod errands;
pub mod error;
pub mod introduce;
pub(crate) mod left;
pub mod policies;
pub mod referral;
pub mod requests;
pub(crate) mod revocations;
pub mod status;
mod tags;
mod whom;

pub use error::TrustError;
pub use policies::{Policies, Policy};

#[cfg(test)]
mod tests;
