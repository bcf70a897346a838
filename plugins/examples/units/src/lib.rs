//! An example skill for muretai: a unit converter.
