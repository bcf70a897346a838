//! The plugins of one agent, loaded.
