//! End to end: the built binary in real processes on loopback.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod acceptance;
mod bodies;
mod card;
mod cli;
mod connect;
mod delivery;
mod errands;
mod floods;
mod gate;
mod hostile;
mod identity;
mod introducing;
mod introductions;
mod invites;
mod ladder;
mod readme;
mod relay;
mod relay_letters;
mod relay_refusals;
mod revocations;
mod secrets;
mod standing;
mod storage;
