//! The HTTP transport over loopback: the server row by row, the client against friendly and hostile peers.
#![allow(clippy::unwrap_used)]
mod client;
mod common;
mod framing;
mod server;
mod site;
