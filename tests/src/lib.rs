//! The harness of the end-to-end tests: real processes of the built binary, raw sockets, hand-made requests.
//!
//! Nothing here knows the inside of the node: a test sees what a user, a peer or an attacker sees. Nothing waits by
//! sleeping a guessed time: [`wait::until`] polls a condition up to a deadline that only a broken program reaches.
#![forbid(unsafe_code)]
// A harness reports by failing the test, and prints which part of a test a machine cannot run.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

pub mod balancer;
pub mod binary;
pub mod home;
pub mod http;
pub mod load;
pub mod mail;
pub mod peer;
pub mod postgres;
pub mod random;
pub mod relay;
pub mod resident;
pub mod rpc;
pub mod serve;
pub mod trust;
pub mod unprivileged;
pub mod vouch;
pub mod wait;

pub use home::{Done, Home};
pub use http::{Connection, Response};
pub use relay::RelayProcess;
pub use rpc::Key;
pub use serve::Serve;
