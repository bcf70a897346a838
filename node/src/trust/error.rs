//! Why an act of trust failed.
use muretai_store::StoreError;

use crate::{Fault, send::SendError};

/// Why an act of trust failed. Nothing is half done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The peer is unknown, was not reached, or its answer was none.
    #[error(transparent)]
    Send(#[from] SendError),
    /// There is no setting of this name.
    #[error("there is no policy `{name}`")]
    NoSuchPolicy {
        /// As given, one line.
        name: String,
    },
    /// The setting has other values.
    #[error("`{value}` is no value of `{name}`; it takes {values}")]
    BadValue {
        /// The setting.
        name: &'static str,
        /// As given, one line.
        value: String,
        /// What it takes.
        values: &'static str,
    },
}

impl TrustError {
    /// Says whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            TrustError::Send(error) => error.fault(),
            TrustError::Store(_) => Fault::Failed,
            _ => Fault::Usage,
        }
    }

    /// Says what to do next.
    pub fn hint(&self) -> Option<String> {
        None
    }
}
