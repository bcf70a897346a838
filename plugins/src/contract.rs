//! The JSON that crosses between the host and its plugins.
