//! A relay as the network sees it: real sockets, real SQLite.
mod http {
    mod rig;

    mod end;
    mod requests;
    mod streams;
}
