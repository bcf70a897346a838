//! A muretai agent at work: what a message means, who is let in, what is answered, how messages leave.
//!
//! An [`Agent`] is a key, a store and transports, and is the same in a one-off command and in a resident service.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod agent;
pub mod card;
pub mod directory;
pub mod fault;
pub mod home;
pub mod invites;
pub mod keyfile;
pub mod mail;
pub mod receive;
pub mod send;
pub mod serve;
#[cfg(test)]
mod testing;
pub mod trust;

pub use agent::Agent;
pub use fault::Fault;
pub use home::Home;
