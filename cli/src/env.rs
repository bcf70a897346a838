//! Every environment variable that the program reads, in one place. A flag beats its variable.
//!
//! Some more are read by libraries: `NO_COLOR` (any value: no colour, unless `--color always` is given), `TZ` (the zone
//! in which people are shown times), `COLUMNS` (the width of help texts) and those of PostgreSQL (`PGPASSWORD` and its
//! like, for what the URL of `relay serve --store` does not say). The variables that a `--reply-with`
//! command gets are set by the node.

use std::{ffi::OsString, path::PathBuf};

/// Folder that holds the agents, in place of the platform's data folder. Beaten by `--home`.
pub(crate) const MURETAI_HOME: &str = "MURETAI_HOME";
/// Name of the agent that acts. Beaten by `--as`.
pub(crate) const MURETAI_AS: &str = "MURETAI_AS";
/// File that holds the passphrase of the key. Beaten by `--passphrase-file` and `--passphrase-fd`.
pub(crate) const MURETAI_PASSPHRASE_FILE: &str = "MURETAI_PASSPHRASE_FILE";
/// Where a relay keeps its letters: a file, or the URL of a database. Beaten by `relay serve --store`.
pub(crate) const MURETAI_RELAY_STORE: &str = "MURETAI_RELAY_STORE";
/// For crash tests: the point of receiving letters at which the process ends as if it were killed.
pub(crate) const MURETAI_FAULT: &str = "MURETAI_FAULT";
/// The platform's data folder (XDG), where the home lies unless it is named.
pub(crate) const XDG_DATA_HOME: &str = "XDG_DATA_HOME";
/// The user's folder, `~`.
pub(crate) const HOME: &str = "HOME";
/// Where the shell finds programs.
pub(crate) const PATH: &str = "PATH";
/// `dumb`: a terminal that knows neither colour nor cursor.
pub(crate) const TERM: &str = "TERM";

/// The value of a variable; an empty one counts as absent.
pub(crate) fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The value of a variable as a path; an empty one counts as absent.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    value(name).map(PathBuf::from)
}
