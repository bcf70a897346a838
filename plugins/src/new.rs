//! Skeletons for authors of plugins.
