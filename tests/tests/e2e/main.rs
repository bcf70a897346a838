//! End to end: the built binary in real processes on loopback.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod acceptance;
mod bodies;
mod card;
mod cli;
mod delivery;
mod gate;
mod hostile;
mod identity;
mod invites;
mod ladder;
mod secrets;
mod storage;
