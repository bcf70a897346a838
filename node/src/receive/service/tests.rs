//! The receiver as a whole, called as a transport calls it.
mod answers;
mod bounds;
mod claims;
mod copies;
mod frames;
mod ladder;
