//! What the methods do with a message that passed the ladder: one module each.
pub mod claim;
pub mod send;
