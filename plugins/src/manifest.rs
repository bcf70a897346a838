//! `plugins.toml`: which plugins the owner named, and how they are pinned.
