//! The receiver as a whole, called as a transport calls it.
mod answers;
mod blocked;
mod bounds;
mod claims;
mod connecting;
mod copies;
mod floods;
mod frames;
mod introducing;
mod ladder;
mod letters;
mod mail_answers;
mod proposing;
mod questions;
mod revoking;
mod skills;
mod statuses;
