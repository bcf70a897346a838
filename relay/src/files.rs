//! Open files: each connection is one.

/// Files beside connections: the store, the log, the listener.
#[cfg(unix)]
const OTHERS: u64 = 64;

/// Raises the soft limit of open files to the hard one. Says so when it is too small all the same.
#[cfg(unix)]
pub(crate) fn raise_limit(max_connections: usize) -> Option<String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of open files stays as it is");
            limit.current
        }
    };
    let needed = (max_connections as u64).saturating_add(OTHERS);
    let current = current.filter(|current| *current < needed)?;
    Some(format!(
        "{max_connections} connections are allowed, and this process may open {current} files only: `ulimit -n` sets that"
    ))
}

#[cfg(not(unix))]
pub(crate) fn raise_limit(_max_connections: usize) -> Option<String> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn too_many_connections_are_told() {
        assert_eq!(raise_limit(1), None);
        let Some(hard) = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum else { return };
        assert!(raise_limit(usize::try_from(hard).unwrap_or(usize::MAX)).unwrap().contains("ulimit"));
    }
}
