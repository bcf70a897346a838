//! What a failed command tells: what was attempted, what stood in the way, what to do next.

use std::{error::Error, io};

use muretai_node::{
    Fault,
    home::HomeError,
    invites::{ClaimError, InviteError},
    keyfile::KeyFileError,
    mail::MailError,
    send::{SendError, peer::CardFetchError},
    serve::ServeError,
    trust::{TrustError, domain::DomainVerifyError},
};
use muretai_plugins::{engine::PluginFault, manifest::ManifestError, new::NewError, set::LoadError};
use muretai_protocol::{json::Value, urls::BaseUrlError};
use muretai_relay::RelayError;
use muretai_store::{StoreError, mailboxes::MailboxError};
use muretai_transports::TransportError;

use crate::{exit::Exit, shell};

/// A command that did not do what was asked. Printed by [`crate::output::Output::failure`] alone.
#[derive(Debug)]
pub(crate) struct Failure {
    /// How the process ends.
    pub(crate) exit: Exit,
    /// What was attempted, and what stood in the way.
    pub(crate) message: String,
    /// The causes behind it, outermost first.
    pub(crate) causes: Vec<String>,
    /// What to do next.
    pub(crate) hint: Option<String>,
    /// What the peer said, when it refused.
    pub(crate) refusal: Option<Box<PeerRefusal>>,
    /// The message that is kept, when there is one.
    pub(crate) message_id: Option<String>,
    /// Nothing is printed: whoever read our output has gone.
    pub(crate) is_silent: bool,
}

/// A peer's refusal, as it said it.
#[derive(Debug, Clone)]
pub(crate) struct PeerRefusal {
    /// The JSON-RPC code.
    pub(crate) code: i64,
    /// The message.
    pub(crate) message: String,
    /// `data`, whole.
    pub(crate) data: Option<Value>,
}

impl PeerRefusal {
    /// What the peer says beyond its code: `data.detail`.
    pub(crate) fn detail(&self) -> Option<&str> {
        self.data.as_ref()?.member("detail")?.as_str()
    }
}

/// What the errors of the lower crates say beyond their text.
pub(crate) trait Explain: Error + 'static {
    /// Whose fault it is.
    fn fault(&self) -> Fault {
        Fault::Failed
    }
    /// What to do next.
    fn hint(&self) -> Option<String> {
        None
    }
    /// What the peer said, when it refused.
    fn refusal(&self) -> Option<PeerRefusal> {
        None
    }
    /// The message that is kept, when there is one.
    fn message_id(&self) -> Option<&str> {
        None
    }
}

impl Failure {
    /// A failure of this exit code with nothing but a message.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure {
            exit,
            message: message.into(),
            causes: Vec::new(),
            hint: None,
            refusal: None,
            message_id: None,
            is_silent: false,
        }
    }
    /// The caller's input or state, or this machine.
    pub(crate) fn failed(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, message)
    }
    /// The command line.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }
    /// Whoever read stdout has gone: end quietly, as if everything had been printed.
    pub(crate) fn reader_gone() -> Failure {
        Failure { is_silent: true, ..Failure::new(Exit::Done, "") }
    }
    /// An attempt that an error of a lower crate ended.
    pub(crate) fn of(attempt: impl Into<String>, error: &impl Explain) -> Failure {
        Failure {
            exit: error.fault().into(),
            hint: error.hint().or_else(|| disk_hint(error)),
            refusal: error.refusal().map(Box::new),
            message_id: error.message_id().map(str::to_owned),
            ..Failure::io(attempt, error)
        }
    }
    /// An attempt that an error without further explanation ended.
    pub(crate) fn io(attempt: impl Into<String>, error: &(dyn Error + 'static)) -> Failure {
        let mut causes = Vec::new();
        let mut next = error.source();
        let message = format!("{}: {error}", attempt.into());
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        let hint = disk_hint(error);
        Failure { causes, hint, ..Failure::failed(message) }
    }
    /// The same failure, whose hint names whom to look for: `muretai doctor south`.
    pub(crate) fn about(mut self, target: &str) -> Failure {
        let doctor = format!("`muretai doctor {}`", shell::quoted(target));
        self.hint = self.hint.map(|hint| hint.replace("`muretai doctor`", &doctor));
        self
    }
    /// The same failure with something to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }
}

/// Errors that say themselves whose fault they are and what to do next.
macro_rules! explains_itself {
    ($($error:ty),* $(,)?) => {$(
        impl Explain for $error {
            fn fault(&self) -> Fault {
                <$error>::fault(self)
            }
            fn hint(&self) -> Option<String> {
                <$error>::hint(self)
            }
        }
    )*};
}

explains_itself!(DomainVerifyError, HomeError, KeyFileError, InviteError, ServeError, CardFetchError);

/// Errors about plugins' files, which are of a crate that knows no exit codes.
macro_rules! pins_files {
    ($($error:ty),* $(,)?) => {$(
        impl Explain for $error {
            fn fault(&self) -> Fault {
                if self.is_unverified() { Fault::Unverified } else { Fault::Failed }
            }
            fn hint(&self) -> Option<String> {
                <$error>::hint(self)
            }
        }
    )*};
}

pins_files!(ManifestError, LoadError);

impl Explain for PluginFault {}

impl Explain for NewError {
    fn fault(&self) -> Fault {
        if matches!(self, NewError::BadName(_)) { Fault::Usage } else { Fault::Failed }
    }
}

impl Explain for SendError {
    fn message_id(&self) -> Option<&str> {
        SendError::message_id(self)
    }
    fn fault(&self) -> Fault {
        SendError::fault(self)
    }
    fn hint(&self) -> Option<String> {
        SendError::hint(self)
    }
    fn refusal(&self) -> Option<PeerRefusal> {
        match self {
            SendError::Refused { code, message, data, .. } => {
                Some(PeerRefusal { code: *code, message: message.clone(), data: data.clone() })
            }
            SendError::NotKept(error) => Explain::refusal(&**error),
            _ => None,
        }
    }
}

impl Explain for TrustError {
    fn message_id(&self) -> Option<&str> {
        match self {
            TrustError::Send(error) => error.message_id(),
            _ => None,
        }
    }
    fn fault(&self) -> Fault {
        TrustError::fault(self)
    }
    fn hint(&self) -> Option<String> {
        match self {
            TrustError::Send(error) => TrustError::hint(self).or_else(|| error.hint()),
            _ => TrustError::hint(self),
        }
    }
    fn refusal(&self) -> Option<PeerRefusal> {
        match self {
            TrustError::Send(error) => Explain::refusal(error),
            _ => None,
        }
    }
}

impl Explain for ClaimError {
    fn fault(&self) -> Fault {
        ClaimError::fault(self)
    }
    fn hint(&self) -> Option<String> {
        ClaimError::hint(self)
    }
    fn refusal(&self) -> Option<PeerRefusal> {
        match self {
            ClaimError::Refused { code, message, data, .. } => {
                Some(PeerRefusal { code: *code, message: message.clone(), data: data.clone() })
            }
            _ => None,
        }
    }
}

/// Whose fault it is that nothing came back from a server.
pub(crate) fn transport_fault(error: &TransportError) -> Fault {
    match error {
        TransportError::Refused { .. }
        | TransportError::Tls { .. }
        | TransportError::NotHttp { .. }
        | TransportError::TooLarge { .. }
        | TransportError::RedirectRefused { .. }
        | TransportError::TooManyRedirects { .. }
        | TransportError::NotARelay { .. }
        | TransportError::Superseded { .. }
        | TransportError::Client { .. } => Fault::Failed,
        TransportError::Status { status, .. } | TransportError::RelayRefused { status, .. } => {
            if matches!(status, 429 | 502..=504) { Fault::Unreachable } else { Fault::Failed }
        }
        _ => Fault::Unreachable,
    }
}

impl Explain for MailError {
    fn fault(&self) -> Fault {
        match self {
            MailError::BadRelay { .. } => Fault::Usage,
            MailError::Transport { source, .. } => transport_fault(source),
            _ => Fault::Failed,
        }
    }
    fn hint(&self) -> Option<String> {
        let hint = match self {
            MailError::NoRelay => "`muretai inbox --sync --relay URL` or `muretai serve --relay URL` makes one",
            MailError::BadRelay { .. } => "write it as https://relay.example",
            MailError::Transport { source: TransportError::Superseded { .. }, .. } => {
                "only the newest listener of an identity gets its letters; stop the other one first"
            }
            MailError::Transport { source: TransportError::NotARelay { .. }, .. } => {
                "is it the address of a relay, and not of an agent? does this network ask to log in first?"
            }
            MailError::Transport { .. } => "`muretai doctor` shows which relays can be reached; letters stay there",
            MailError::Store(error) => return Explain::hint(error),
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl Explain for MailboxError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            MailboxError::Newer { .. } => {
                "nothing was changed; use the version of muretai that made it, or a later one"
            }
            MailboxError::Foreign => "nothing was changed; --store names another file or database",
            MailboxError::InUse => {
                "one relay process has one file; --store postgres://… is for several that share their mailboxes"
            }
            MailboxError::DiskFull => "free some space; what could not be stored was not acknowledged",
            MailboxError::Unreachable(_) => {
                "check that the database runs there, and that it lets this user in (PGPASSWORD, --store-password-file)"
            }
            MailboxError::Io(error) => return io_hint(error.kind()).map(str::to_owned),
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl Explain for RelayError {
    fn fault(&self) -> Fault {
        if matches!(self, RelayError::BadUrl { .. }) { Fault::Usage } else { Fault::Failed }
    }
    fn hint(&self) -> Option<String> {
        match self {
            RelayError::BadUrl { source: BaseUrlError::NotCanonical { corrected }, .. } => {
                Some(format!("write it as --url {corrected}"))
            }
            RelayError::BadUrl { .. } => {
                Some("give a base such as https://relay.example or https://example.com/relay".to_owned())
            }
            RelayError::Listen { .. } => Some("--listen 127.0.0.1:0 picks a free port".to_owned()),
            RelayError::Store(error) => Explain::hint(error),
            _ => None,
        }
    }
}

/// What a full, read-only or foreign disk asks for, wherever in the chain of causes it shows.
fn disk_hint(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(cause) = next {
        let hint = match (cause.downcast_ref::<StoreError>(), cause.downcast_ref::<io::Error>()) {
            (Some(store), _) => Explain::hint(store),
            (_, Some(io)) => io_hint(io.kind()).map(str::to_owned),
            _ => None,
        };
        if hint.is_some() {
            return hint;
        }
        next = cause.source();
    }
    None
}

fn io_hint(kind: io::ErrorKind) -> Option<&'static str> {
    Some(match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space; nothing was changed",
        io::ErrorKind::ReadOnlyFilesystem => "that disk cannot be written; --home or MURETAI_HOME names another place",
        io::ErrorKind::PermissionDenied => "check who owns it, and its mode",
        _ => return None,
    })
}

impl Explain for StoreError {
    fn fault(&self) -> Fault {
        match self {
            StoreError::OtherAgent { .. } => Fault::Unverified,
            _ => Fault::Failed,
        }
    }
    fn hint(&self) -> Option<String> {
        let hint = match self {
            StoreError::Newer { .. } => "use the version of muretai that made it, or a later one",
            StoreError::OtherAgent { .. } => {
                "nothing was changed; put the right key back: `muretai keygen NAME --restore` makes it from its 24 words"
            }
            StoreError::Full => "free some space; nothing was changed",
            StoreError::ReadOnly | StoreError::CannotOpen(_) => "the folder and its files have to be yours to write",
            StoreError::Busy => "try again; `muretai doctor` says which process serves this agent",
            StoreError::Damaged => "it was left as it is; bring back a copy, or move it away to start without messages",
            StoreError::NameTaken(_) => "`muretai contacts list` shows the names",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use muretai_node::invites::InviteError;

    use super::*;

    #[test]
    fn a_disk_that_does_not_take_more_gets_a_hint_wherever_it_shows() {
        let full = InviteError::Store(StoreError::Full);
        assert!(Failure::of("cannot make an invite", &full).hint.unwrap().contains("free some space"));
        let source = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        let read_only = KeyFileError::Unwritable { path: "key.pem".into(), source };
        assert!(Failure::of("cannot make the identity", &read_only).hint.unwrap().contains("--home"));
        assert!(Failure::io("cannot write", &io::Error::other("no")).hint.is_none());
    }

    #[test]
    fn a_hint_at_the_doctor_names_the_target() {
        let failure = Failure::failed("no").hint("`muretai doctor` shows which ways reach this peer");
        assert!(failure.about("a b").hint.unwrap().starts_with("`muretai doctor 'a b'` "));
    }
}
