//! The two ways in which somebody asks a long-running command to stop.

use crate::failure::Failure;

/// SIGINT and SIGTERM, from now on.
pub(crate) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Catches both signals from here on: neither ends the process by itself any more.
    pub(crate) fn catch() -> Result<Signals, Failure> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let catch = |kind| signal(kind).map_err(|error| Failure::io("cannot wait for signals", &error));
            Ok(Signals { terminate: catch(SignalKind::terminate())?, interrupt: catch(SignalKind::interrupt())? })
        }
        #[cfg(not(unix))]
        Ok(Signals {})
    }
    /// Waits for the next one. Dropping the future loses none.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
