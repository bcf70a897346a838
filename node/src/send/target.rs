//! TARGET: a contact's name, a DID, a card URL, a bare domain or an invite link; this function decides which.
use muretai_protocol::Did;

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A local name.
    Name(String),
    /// A DID.
    Did(Did),
    /// A card URL or base URL, `http(s)://…`.
    Url(String),
    /// A bare domain (or host:port, or a bracketed IPv6 literal with a port): https, and http for loopback.
    Domain(String),
    /// An invite link: to be claimed first.
    Invite(String),
}
/// Why text is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// To be split.
    #[error("{0:?} is no contact, DID, URL or domain")]
    NotATarget(String),
}
/// Decides by shape alone. A name that a contact has is preferred by the caller over a domain of the same spelling.
pub fn parse(_text: &str) -> Result<Target, TargetError> {
    todo!()
}
