//! A relay as the network sees it: real sockets, real SQLite.
#![allow(clippy::unwrap_used)]
mod http {
    mod rig;

    mod end;
    mod requests;
    mod streams;
    mod transport;
}
