//! The relay transport over loopback, against a relay that is honest unless a test tells it what to say instead.
#![allow(clippy::unwrap_used)]
mod common;
mod deliver;
mod directory;
mod drain;
mod fake;
mod hostile;
mod listen;
