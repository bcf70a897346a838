//! The cost of a call.
fn main() {}
