//! What PostgreSQL's errors mean here.
use std::{sync::Arc, time::Duration};

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::mailboxes::MailboxError;

/// Attempts at what lost against somebody else's transaction.
const MAX_TRIES: u32 = 8;

/// What can be done about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The transaction lost against another one; the same again may succeed.
    Lost,
    /// The connection is gone, or the server cannot serve now.
    Gone,
    /// No room.
    Full,
    /// One row may be at fault.
    Row,
    /// Anything else.
    Other,
}

pub(super) fn kind(error: &sqlx::Error) -> Kind {
    let sqlx::Error::Database(error) = error else {
        return match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::WorkerCrashed => Kind::Gone,
            _ => Kind::Other,
        };
    };
    // What ends the session, a refused connection too.
    let severity = error.try_downcast_ref::<PgDatabaseError>().map(PgDatabaseError::severity);
    if matches!(severity, Some(PgSeverity::Fatal | PgSeverity::Panic)) {
        return Kind::Gone;
    }
    let code = error.code().unwrap_or_default();
    match &*code {
        // Serialisation, deadlock.
        "40001" | "40P01" => Kind::Lost,
        "53100" => Kind::Full,
        // A statement that took too long; read-only after a failover.
        "57014" | "25006" => Kind::Gone,
        _ if code.starts_with("08") || code.starts_with("53") => Kind::Gone,
        _ if code.starts_with("22") || code.starts_with("23") => Kind::Row,
        _ => Kind::Other,
    }
}

impl From<sqlx::Error> for MailboxError {
    /// For PostgreSQL.
    fn from(error: sqlx::Error) -> MailboxError {
        match kind(&error) {
            _ if matches!(error, sqlx::Error::PoolClosed) => MailboxError::Closed,
            Kind::Gone | Kind::Lost => MailboxError::Unreachable(Arc::new(error)),
            Kind::Full => MailboxError::DiskFull,
            Kind::Row | Kind::Other => MailboxError::Database(Arc::new(error)),
        }
    }
}

/// An answer that did not come in time.
pub(super) fn too_late() -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::from(std::io::ErrorKind::TimedOut))
}

/// Counts attempts at something that can be done twice.
#[derive(Default)]
pub(super) struct Tries {
    done: u32,
}

impl Tries {
    /// Returns when it is worth another try.
    ///
    /// # Errors
    /// The error, when it is not.
    pub(super) async fn after(&mut self, error: sqlx::Error) -> Result<(), MailboxError> {
        self.done += 1;
        match kind(&error) {
            Kind::Lost if self.done < MAX_TRIES => {
                tokio::time::sleep(Duration::from_millis(u64::from(self.done) * 5)).await;
                Ok(())
            }
            // The connection was kept from before the server restarted; a new one is made.
            Kind::Gone if self.done < 2 && matches!(error, sqlx::Error::Io(_) | sqlx::Error::Database(_)) => Ok(()),
            _ => Err(error.into()),
        }
    }
}
