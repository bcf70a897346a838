//! Why an act of trust failed.
use muretai_protocol::{introduction::MintError, rpc::Code};
use muretai_store::{StoreError, requests::RequestStatus};

use crate::{
    Fault,
    mail::MailError,
    send::{
        SendError,
        error::{refusal_hint, retry_after},
        peer::{status_fault, transport_fault, transport_hint},
    },
};

/// Why an act of trust failed. Nothing is half done. What a peer said in it is safe to show on one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The store failed.
    #[error("the store failed")]
    Store(#[source] StoreError),
    /// The peer is unknown, was not reached, refused, or its answer was none.
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
    /// A value that is out of its bounds.
    #[error("the {what} is {found}, it has to be {limits}")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// As given, one line.
        found: String,
        /// What it may be.
        limits: &'static str,
    },
    /// An agent without a DID knows nothing of trust.
    #[error("{url} is an agent without a DID")]
    Foreign {
        /// Its card.
        url: String,
    },
    /// An unproven card: anybody could claim to be that DID.
    #[error("the card at {url} is not signed, so it proves nobody's DID")]
    CardNotSigned {
        /// Where it was fetched.
        url: String,
    },
    /// The owner blocked the peer.
    #[error("{who} is blocked here")]
    Blocked {
        /// Its name, or its DID.
        who: String,
    },
    /// There is no trust both ways.
    #[error("{who} is no direct contact")]
    NotDirect {
        /// Its name, or its DID.
        who: String,
    },
    /// There is trust both ways already.
    #[error("{who} is a direct contact already")]
    AlreadyDirect {
        /// Its name.
        who: String,
    },
    /// An introduction is between three.
    #[error("{0}")]
    NotThree(&'static str),
    /// The peer does not know the method.
    #[error("the peer does not know `{method}`{}", .build.as_ref().map(|it| format!(" ({it})")).unwrap_or_default())]
    NoSuchMethod {
        /// What was called.
        method: &'static str,
        /// What it says that it is, made safe.
        build: Option<String>,
    },
    /// An earlier copy of the call arrived, and its answer did not come back.
    #[error("{url} has the `{method}`, and its answer was lost")]
    AnswerLost {
        /// What was called.
        url: String,
        /// The method.
        method: &'static str,
    },
    /// The peer's relay has the call. The peer was not listening, so its answer, if any, comes by itself.
    #[error("the peer is not listening right now; the relay {relay} keeps the `{method}` for it")]
    AtRelay {
        /// Base URL of the relay.
        relay: String,
        /// The method.
        method: &'static str,
        /// The id of its message, which a later answer names.
        message_id: String,
    },
    /// Mail was not fetched.
    #[error(transparent)]
    Mail(#[from] MailError),
    /// A result that cannot be used.
    #[error("what the peer answers to `{method}` is {what}")]
    BadAnswer {
        /// The method.
        method: &'static str,
        /// What it is, in words.
        what: &'static str,
    },
    /// The introduction was not written.
    #[error("the introduction cannot be written")]
    Mint(#[from] MintError),
    /// No introduction of ours has this id.
    #[error("this agent issued no introduction `{id}`")]
    NoSuchIntroduction {
        /// As given, one line.
        id: String,
    },
    /// Several introductions of ours have this in their id.
    #[error("`{id}` fits {found} introductions")]
    Ambiguous {
        /// As given, one line.
        id: String,
        /// How many.
        found: usize,
    },
    /// No row has this number.
    #[error("there is no request {id}")]
    NoSuchRequest {
        /// The number.
        id: i64,
    },
    /// The row is this agent's own request.
    #[error("request {id} is one of this agent's own")]
    OwnRequest {
        /// The number.
        id: i64,
    },
    /// The row is a peer's request.
    #[error("request {id} is not one of this agent's own")]
    NotOwnRequest {
        /// The number.
        id: i64,
    },
    /// Nobody can decide about it any more, or not so.
    #[error("request {id} {}", closed(*.status))]
    NotOpen {
        /// The number.
        id: i64,
        /// How it ended.
        status: RequestStatus,
    },
    /// Nobody whom the referral could name.
    #[error("no direct contact fits the request")]
    NobodyFits,
    /// The wished name is another contact's.
    #[error("there is another contact named `{0}`")]
    NameTaken(String),
    /// The wished name would be read as something else than a name.
    #[error("`{name}` cannot be a contact's name: {reason}")]
    BadName {
        /// The name, made safe.
        name: String,
        /// Why, in words.
        reason: &'static str,
    },
}

impl From<StoreError> for TrustError {
    fn from(error: StoreError) -> TrustError {
        match error {
            StoreError::NameTaken(name) => TrustError::NameTaken(name),
            error => TrustError::Store(error),
        }
    }
}

fn closed(status: RequestStatus) -> &'static str {
    match status {
        RequestStatus::Accepted => "was accepted",
        RequestStatus::Rejected => "was rejected",
        RequestStatus::Withdrawn => "was withdrawn",
        RequestStatus::Expired => "has expired",
        RequestStatus::Pending | RequestStatus::Hidden => "is not open",
    }
}

impl TrustError {
    /// Says whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            TrustError::Send(SendError::Transport { source, .. }) => transport_fault(source),
            TrustError::Send(SendError::HttpStatus { status, .. }) => status_fault(*status),
            TrustError::Send(error) => error.fault(),
            TrustError::NoSuchPolicy { .. }
            | TrustError::BadValue { .. }
            | TrustError::OutOfRange { .. }
            | TrustError::NotThree(_)
            | TrustError::BadName { .. } => Fault::Usage,
            TrustError::CardNotSigned { .. } => Fault::Unverified,
            TrustError::NoSuchMethod { .. } => Fault::PeerRefused,
            TrustError::AnswerLost { .. } | TrustError::AtRelay { .. } => Fault::Unreachable,
            _ => Fault::Failed,
        }
    }

    /// Says what to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            TrustError::Send(error) => return send_hint(error),
            TrustError::NoSuchPolicy { .. } => "`muretai policy show` lists them",
            TrustError::BadValue { .. } | TrustError::OutOfRange { .. } | TrustError::Store(_) => return None,
            TrustError::Foreign { .. } => {
                "only an agent with a DID can be trusted; `muretai send --unverified` writes to it"
            }
            TrustError::CardNotSigned { .. } => "ask its owner for an invite and redeem it with `muretai claim`",
            TrustError::Blocked { .. } => "`muretai contacts unblock` lets it in again",
            TrustError::NotDirect { .. } => {
                "`muretai connect PEER` asks for trust both ways; `muretai contacts list` shows who has it"
            }
            TrustError::AlreadyDirect { .. } => "write to it with `muretai send`",
            TrustError::NotThree(_) => "name three different agents: this one, who is introduced, and to whom",
            TrustError::NoSuchMethod { .. } => "its owner has to update it, or to run it with its trust layer",
            TrustError::AnswerLost { .. } => "run the command again",
            TrustError::AtRelay { .. } => "ask again when the peer is there",
            TrustError::Mail(_) => "`muretai inbox --sync` fetches it",
            TrustError::BadAnswer { .. } => "nothing of the answer was kept; ask the peer's owner",
            TrustError::Mint(MintError::Record(_)) => {
                "the question that it leans on is damaged or of another peer; introduce without it"
            }
            TrustError::Mint(_) => return None,
            TrustError::NoSuchIntroduction { .. } => "`muretai introduce list` shows them",
            TrustError::Ambiguous { .. } => "give more of the id; `muretai introduce list` shows them",
            TrustError::NoSuchRequest { .. } => "`muretai requests --all` shows them",
            TrustError::OwnRequest { .. } => {
                "the peer's owner decides about it; `muretai requests withdraw` takes it back"
            }
            TrustError::NotOwnRequest { .. } => "`muretai requests accept` or `reject` decides about it",
            TrustError::NotOpen { status, .. } => return closed_hint(*status),
            TrustError::NobodyFits => {
                "name them with `--refer NAME`, or give contacts tags with `muretai contacts tag`"
            }
            TrustError::NameTaken(_) => "choose another name, or rename the other contact",
            TrustError::BadName { .. } => "choose another name",
        };
        Some(hint.to_owned())
    }

    /// An earlier copy of the call arrived and was handled.
    pub(crate) fn is_answer_lost(&self) -> bool {
        matches!(self, TrustError::AnswerLost { .. })
    }

    /// The call was left at the peer's relay.
    pub(crate) fn is_at_relay(&self) -> bool {
        matches!(self, TrustError::AtRelay { .. })
    }

    /// The code of a peer's refusal.
    pub(crate) fn code(&self) -> Option<i64> {
        match self {
            TrustError::Send(SendError::Refused { code, .. }) => Some(*code),
            _ => None,
        }
    }

    /// The peer refused with this code.
    pub(crate) fn is_refusal(&self, code: Code) -> bool {
        self.code() == Some(code.number())
    }

    /// Trying later may bring another outcome.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            TrustError::Send(SendError::Refused { code, .. }) => {
                [Code::RateLimited, Code::Internal, Code::ReplayOrStale].iter().any(|passing| passing.number() == *code)
            }
            TrustError::Send(
                SendError::NoWay { .. }
                | SendError::NotTried { .. }
                | SendError::Transport { .. }
                | SendError::TimedOut { .. }
                | SendError::HttpStatus { .. }
                | SendError::NotAnAnswer { .. }
                | SendError::Card(_)
                | SendError::Store(_),
            )
            | TrustError::Store(_)
            | TrustError::AtRelay { .. }
            | TrustError::BadAnswer { .. } => true,
            _ => false,
        }
    }
}

/// The hints of sending speak of a message that is kept; a call is not.
fn send_hint(error: &SendError) -> Option<String> {
    match error {
        SendError::Transport { source, .. } => transport_hint(source),
        SendError::TimedOut { .. } => Some("run the command again; more `--timeout` may help".to_owned()),
        SendError::HttpStatus { retry_after: Some(wait), .. } => {
            Some(format!("it is busy; try again in {} s", wait.as_secs().max(1)))
        }
        SendError::HttpStatus { status, .. } if *status >= 429 => Some("try again later".to_owned()),
        SendError::Refused { code, data, .. } if *code == Code::RateLimited.number() => {
            Some(retry_after(data.as_ref()).map_or_else(
                || "try again later".to_owned(),
                |wait| format!("it has no room for requests now; try again in {wait}"),
            ))
        }
        SendError::Refused { code, .. } => refusal_hint(*code).map(str::to_owned),
        error => error.hint(),
    }
}

fn closed_hint(status: RequestStatus) -> Option<String> {
    let hint = match status {
        RequestStatus::Accepted => "`muretai contacts remove` or `block` ends the trust that it made",
        RequestStatus::Expired | RequestStatus::Withdrawn => "`muretai connect PEER` asks the other way round",
        _ => return None,
    };
    Some(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use muretai_protocol::json::{self, Value};

    fn refusal(code: Code, data: Option<Value>) -> TrustError {
        let (code, message, message_id) = (code.number(), code.message().to_owned(), "m1".to_owned());
        SendError::Refused { code, message, detail: None, data, message_id }.into()
    }

    #[test]
    fn what_to_do_about_a_call_says_nothing_of_a_message_that_is_kept() {
        let data = json::parse(br#"{"retryAfter":7200}"#).unwrap();
        let hint = refusal(Code::RateLimited, Some(data)).hint().unwrap();
        assert!(hint.contains("2 hours"), "{hint}");
        for hostile in ["-1", "1e99", "\"soon\"", "null"] {
            let data = json::parse(format!("{{\"retryAfter\":{hostile}}}").as_bytes()).unwrap();
            assert_eq!(refusal(Code::RateLimited, Some(data)).hint().unwrap(), "try again later");
        }
        for error in [
            SendError::TimedOut {
                url: "http://x".to_owned(),
                after: std::time::Duration::from_secs(1),
                message_id: "m1".to_owned(),
            },
            SendError::HttpStatus {
                url: "http://x".to_owned(),
                status: 503,
                retry_after: None,
                message_id: "m1".to_owned(),
            },
        ] {
            let hint = TrustError::from(error).hint().unwrap();
            assert!(!hint.contains("resend"), "{hint}");
        }
    }

    #[test]
    fn each_code_of_trust_has_something_to_do_next() {
        for code in [
            Code::IntroductionRequired,
            Code::IntroductionInvalid,
            Code::TrustQueryNotPermitted,
            Code::IssuerNotTrusted,
            Code::AwaitingApproval,
            Code::VerifiedDomainRequired,
            Code::NoTrustLayer,
            Code::ConnectNotAccepted,
            Code::NoSuchPendingRequest,
            Code::AlreadyConnected,
        ] {
            let error = refusal(code, None);
            assert!(error.hint().is_some(), "{code:?}");
            assert_eq!((error.fault(), error.is_passing()), (Fault::PeerRefused, false));
        }
        for code in [Code::RateLimited, Code::Internal, Code::ReplayOrStale] {
            assert!(refusal(code, None).is_passing());
        }
    }

    #[test]
    fn a_name_that_is_taken_is_no_fault_of_the_store() {
        let error = TrustError::from(StoreError::NameTaken("south".to_owned()));
        assert!(matches!(error, TrustError::NameTaken(name) if name == "south"));
    }
}
