//! Why a message was not delivered, or its reply not believed.
use std::time::Duration;

use muretai_protocol::{json::Value, limits::MAX_TEXT_BYTES, message::ReplyError, rpc::Code};
use muretai_store::StoreError;
use muretai_transports::{TransportError, TransportName};

use crate::{
    Fault,
    send::{
        backoff,
        delivery::is_passing,
        outbox::MAX_ID_BYTES,
        peer::{CardFetchError, status_fault, transport_fault, transport_hint},
        target::TargetError,
    },
};

/// Why a message was not delivered, or its reply not believed. What a peer said in it is safe to show on one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The target is none.
    #[error("the target cannot be read")]
    Target(#[from] TargetError),
    /// A name that no contact has.
    #[error("there is no contact named {0:?}")]
    NoSuchContact(String),
    /// An invite link, which is claimed and not written to.
    #[error("the target is an invite link")]
    InviteNotClaimed,
    /// The target is this agent.
    #[error("this is yourself")]
    Yourself,
    /// What was to be sent again was never sent from here.
    #[error("this agent sent no message with the id {0:?}")]
    NoSuchMessage(String),
    /// What was to be sent again needs, or takes, no further attempt.
    #[error("the message {message_id} is not sent again: {why}")]
    NotResendable {
        /// Its id.
        message_id: String,
        /// Why, in words.
        why: &'static str,
    },
    /// No text.
    #[error("the text is empty")]
    EmptyText,
    /// A NUL in the text, which many peers cannot store.
    #[error("the text has a NUL character at byte {at}")]
    NulInText {
        /// Where.
        at: usize,
    },
    /// More text than any receiver takes.
    #[error("the text is {bytes} bytes, the limit is {MAX_TEXT_BYTES}")]
    TextTooLong {
        /// Its size in UTF-8.
        bytes: usize,
    },
    /// A context or message id that is blank or too long.
    #[error("the {what} is {bytes} bytes or blank; it has 1 to {MAX_ID_BYTES} bytes")]
    BadId {
        /// Which.
        what: &'static str,
        /// Its size.
        bytes: usize,
    },
    /// No address is known.
    #[error("no address is known for {who}")]
    NoAddress {
        /// The contact's name, or the DID.
        who: String,
        /// A contact, which has said nothing of where it is.
        is_contact: bool,
    },
    /// The one way that the owner allows leads nowhere.
    #[error("{}", way_unknown(.who, *.via))]
    WayUnknown {
        /// The contact's name, or the DID.
        who: String,
        /// Which.
        via: TransportName,
    },
    /// Every way was tried, and none led to the peer.
    #[error("{}", no_way(.who, .ways, *.after))]
    NoWay {
        /// The contact's name, or the DID.
        who: String,
        /// What became of each, in the order in which they were tried.
        ways: Vec<(TransportName, SendError)>,
        /// How long all of it took.
        after: Duration,
        /// The message that was to be sent.
        message_id: String,
    },
    /// An earlier message did not reach the same peer, so this one was not tried.
    #[error("{who} was not reached by the message before this one")]
    NotTried {
        /// The contact's name, or the DID.
        who: String,
        /// The message that was not sent.
        message_id: String,
    },
    /// A failure of a message that is not tried again by itself: it is not in the outbox.
    #[error(transparent)]
    NotKept(Box<SendError>),
    /// No address is known, and relays that may know one could not be asked.
    #[error("no address is known for {who}, and {} could not be asked", .silent.join(", "))]
    NotListed {
        /// The contact's name, or the DID.
        who: String,
        /// Base URLs of the relays.
        silent: Vec<String>,
    },
    /// The peer's card is not usable; nothing was sent.
    #[error("the peer's card cannot be used")]
    Card(#[from] CardFetchError),
    /// An A2A agent without a DID, and the owner did not say that it may be spoken to.
    #[error("{url} is an agent without a DID: its replies cannot be verified")]
    Foreign {
        /// Its card.
        url: String,
    },
    /// A foreign card without an address for JSON-RPC.
    #[error("the card at {url} names no JSON-RPC interface")]
    ForeignNoInterface {
        /// The card.
        url: String,
    },
    /// A foreign agent's answer has nothing to show.
    #[error("{url} answered without any text")]
    ForeignNoText {
        /// What was called.
        url: String,
        /// The message that was sent.
        message_id: String,
    },
    /// The request did not get through, or its answer did not get back.
    #[error("{}", not_through(.url, *.attempts, .source))]
    Transport {
        /// What was dialled.
        url: String,
        /// How often.
        attempts: u32,
        /// The message that was to be sent.
        message_id: String,
        /// The last failure.
        #[source]
        source: TransportError,
    },
    /// The time for everything together is over.
    #[error("{url} gave no answer within {} s", .after.as_secs_f32())]
    TimedOut {
        /// What was dialled.
        url: String,
        /// The limit.
        after: Duration,
        /// The message that was to be sent.
        message_id: String,
    },
    /// An HTTP status instead of an answer.
    #[error("{url} answered with HTTP status {status}")]
    HttpStatus {
        /// What was dialled.
        url: String,
        /// The status.
        status: u16,
        /// How long the peer asks to wait.
        retry_after: Option<Duration>,
        /// The message that was to be sent.
        message_id: String,
    },
    /// Something answered, and it is no agent.
    #[error("what {url} answered is {what}")]
    NotAnAnswer {
        /// What was dialled.
        url: String,
        /// What it was, in words.
        what: &'static str,
        /// The message that was to be sent.
        message_id: String,
    },
    /// The peer refused: its code and message, and data's detail, as it said them.
    #[error("the peer refused: {code} {message}")]
    Refused {
        /// Code.
        code: i64,
        /// Message, made safe.
        message: String,
        /// `data.detail`, made safe.
        detail: Option<String>,
        /// The whole `data`.
        data: Option<Value>,
        /// The message that it refused.
        message_id: String,
    },
    /// The reply is not proven to be the peer's answer to this message.
    #[error("the reply of {url} does not verify; the message may have been delivered")]
    ReplyNotVerified {
        /// What was dialled.
        url: String,
        /// The message that was sent.
        message_id: String,
        /// Which check failed.
        #[source]
        source: Box<ReplyError>,
    },
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl SendError {
    /// Whose fault.
    pub fn fault(&self) -> Fault {
        match self {
            SendError::Target(error) => error.fault(),
            SendError::Card(error) => error.fault(),
            SendError::Transport { source, .. } => transport_fault(source),
            SendError::HttpStatus { status, .. } => status_fault(*status),
            SendError::NoAddress { .. }
            | SendError::NotListed { .. }
            | SendError::WayUnknown { .. }
            | SendError::NoWay { .. }
            | SendError::NotTried { .. }
            | SendError::TimedOut { .. } => Fault::Unreachable,
            SendError::NotKept(error) => error.fault(),
            SendError::Refused { .. } => Fault::PeerRefused,
            SendError::ReplyNotVerified { .. } => Fault::Unverified,
            SendError::BadId { .. } => Fault::Usage,
            _ => Fault::Failed,
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            SendError::Target(error) => return error.hint(),
            SendError::Card(error) => return error.hint(),
            SendError::Transport { source: source @ TransportError::Refused { .. }, .. } => {
                return transport_hint(source);
            }
            SendError::Transport { source: TransportError::RelayRefused { status: 413, .. }, .. } => {
                "the relay takes nothing so large, and the message was given up; send it in parts"
            }
            SendError::Transport { source, message_id, .. } => {
                let why = transport_hint(source).map(|hint| format!("; {hint}")).unwrap_or_default();
                return Some(format!("{}{why}", kept(message_id)));
            }
            SendError::NoWay { message_id, .. } | SendError::NotTried { message_id, .. } => {
                return Some(kept(message_id));
            }
            SendError::WayUnknown { via: TransportName::Relay, .. } => {
                "its card, or an invite that it makes now, tells its relay; without `--via` another way may do"
            }
            SendError::WayUnknown { .. } => {
                "no relay of this agent has a fresh card that names its address; without `--via` another way may do"
            }
            SendError::NotKept(error) => return error.hint_unkept(),
            SendError::Yourself => "give another agent's name, DID or address (`muretai contacts list`)",
            SendError::NoSuchMessage(_) => "`muretai inbox --sent --json` shows the ids of what was sent",
            SendError::NotResendable { .. } => return None,
            SendError::NoSuchContact(_) => "`muretai contacts list` shows whom this agent knows",
            SendError::InviteNotClaimed => "redeem it first with `muretai claim LINK`, then send to the new contact",
            SendError::EmptyText => "give the text as an argument, or `-` to read it from stdin",
            SendError::NulInText { .. } => "remove it; messages are text",
            SendError::TextTooLong { .. } => "send it in several messages",
            SendError::NoAddress { is_contact: true, who } => {
                return Some(format!(
                    "{who} has to `muretai serve`; then its URL, or an invite that it makes now, tells where it is"
                ));
            }
            SendError::NoAddress { .. } => {
                "give its card URL or domain instead of the DID, or claim an invite of it; relays that may have its card are \
                 named in config.toml: `relay = \"https://relay.example\"`"
            }
            SendError::NotListed { .. } => "try again when the relay is there, or give the card URL instead",
            SendError::Foreign { .. } => "add `--unverified` to speak to it all the same",
            SendError::HttpStatus { retry_after: Some(wait), message_id, .. } => {
                let secs = wait.as_secs().max(1);
                return Some(format!("it is busy for {secs} s; {}", kept(message_id)));
            }
            SendError::TimedOut { message_id, .. } => {
                return Some(format!("{}; more `--timeout` may help", kept(message_id)));
            }
            SendError::HttpStatus { status, message_id, .. } if *status >= 429 => {
                return Some(kept(message_id));
            }
            SendError::HttpStatus { .. } | SendError::NotAnAnswer { .. } => {
                "`muretai card TARGET` shows what is served there"
            }
            SendError::Refused { code, data, message_id, .. } if *code == Code::RateLimited.number() => {
                let when = retry_after(data.as_ref()).map_or_else(|| "later".to_owned(), |wait| format!("in {wait}"));
                return Some(format!("try {when}; {}", kept(message_id)));
            }
            SendError::Refused { code, message_id, .. } if *code == Code::Internal.number() => {
                return Some(format!("the peer has a fault of its own; {}", kept(message_id)));
            }
            SendError::Refused { code, .. } => return refusal_hint(*code).map(str::to_owned),
            SendError::ReplyNotVerified { .. } => "nothing of the reply was kept; ask the peer's owner",
            SendError::ForeignNoInterface { .. } | SendError::ForeignNoText { .. } => return None,
            SendError::Store(StoreError::OutboxFull { .. }) => {
                "`muretai outbox list` shows them, `muretai outbox drop` gives one up"
            }
            SendError::BadId { .. } | SendError::Store(_) => return None,
        };
        Some(hint.to_owned())
    }

    /// The id of the message that is in the store, when the failure came after it was written there.
    pub fn message_id(&self) -> Option<&str> {
        match self {
            SendError::ForeignNoText { message_id, .. }
            | SendError::NoWay { message_id, .. }
            | SendError::NotTried { message_id, .. }
            | SendError::Transport { message_id, .. }
            | SendError::TimedOut { message_id, .. }
            | SendError::HttpStatus { message_id, .. }
            | SendError::NotAnAnswer { message_id, .. }
            | SendError::Refused { message_id, .. }
            | SendError::ReplyNotVerified { message_id, .. } => Some(message_id),
            SendError::NotKept(error) => error.message_id(),
            _ => None,
        }
    }

    /// Whether the message is in the outbox, to be tried again by itself: nobody has refused it for good. Says nothing of
    /// calls other than messages.
    pub fn is_kept(&self) -> bool {
        match self {
            SendError::Transport {
                source: TransportError::RelayRefused { status: 413, .. } | TransportError::Refused { .. },
                ..
            } => false,
            SendError::NoWay { .. }
            | SendError::NotTried { .. }
            | SendError::Transport { .. }
            | SendError::TimedOut { .. }
            | SendError::HttpStatus { .. }
            | SendError::NotAnAnswer { .. }
            | SendError::ReplyNotVerified { .. } => true,
            SendError::Refused { code, .. } => is_passing(*code),
            _ => false,
        }
    }

    /// How long the peer, or the relay, asked to wait before the next attempt.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            SendError::Transport { source, .. } => source.retry_after(),
            SendError::HttpStatus { retry_after, .. } => *retry_after,
            SendError::Refused { data, .. } => {
                let secs = data.as_ref()?.member("retryAfter")?.as_i64()?;
                u64::try_from(secs).ok().map(Duration::from_secs)
            }
            SendError::NoWay { ways, .. } => ways.iter().filter_map(|(_, error)| error.retry_after()).min(),
            SendError::NotKept(error) => error.retry_after(),
            _ => None,
        }
    }

    /// What to do about a message that is tried again by nobody else.
    fn hint_unkept(&self) -> Option<String> {
        let hint = self.hint()?;
        Some(hint.replace(TRIED_AGAIN, "the message is kept"))
    }
}

/// What becomes of a message that could not be sent.
const TRIED_AGAIN: &str = "the message is kept, and tried again while `muretai serve` runs";

/// The same, and the command that makes the next attempt.
fn kept(message_id: &str) -> String {
    format!("{TRIED_AGAIN}; `muretai send --resend {message_id}` sends it now")
}

fn way_unknown(who: &str, via: TransportName) -> String {
    match via {
        TransportName::Relay => format!("{who} has no mailbox that is known here"),
        via => format!("no address of {who} for {via} is known"),
    }
}

fn no_way(who: &str, ways: &[(TransportName, SendError)], after: Duration) -> String {
    let tried: Vec<_> = ways.iter().map(|(name, error)| format!("by {name}, {}", backoff::words(error))).collect();
    format!("{who} was not reached in {:.1} s: {}", after.as_secs_f32(), tried.join("; "))
}

/// How long a peer that has no room wants us to wait, in words.
pub(crate) fn retry_after(data: Option<&Value>) -> Option<String> {
    let wait = data?.member("retryAfter")?.as_i64()?;
    (wait > 0).then(|| span(wait))
}

/// A time to wait in words, for a person.
fn span(secs: i64) -> String {
    match secs {
        ..120 => format!("{secs} s"),
        120..7_200 => format!("{} minutes", secs / 60),
        7_200..172_800 => format!("{} hours", secs / 3_600),
        _ => format!("{} days", secs / 86_400),
    }
}

/// Says what happened to a request in words that hold: what the guard refuses was never tried.
pub(crate) fn not_through(url: &str, attempts: u32, source: &TransportError) -> String {
    match (source, attempts) {
        (TransportError::Refused { .. }, _) => format!("{url} is not dialled"),
        (TransportError::Tls { .. }, _) => format!("no secure connection to {url}"),
        (TransportError::RelayRefused { .. }, _) => format!("the relay {url} did not take the letter"),
        (TransportError::BadSealingKey, _) => format!("nothing can be sealed for {url}"),
        (error, 0 | 1) if error.is_unreachable() => format!("{url} could not be reached"),
        (error, n) if error.is_unreachable() => format!("{url} could not be reached, {n} attempts"),
        (TransportError::Closed { .. } | TransportError::Timeout { .. }, n) if n > 1 => {
            format!("{url} gave no answer, {n} attempts")
        }
        (TransportError::Closed { .. } | TransportError::Timeout { .. }, _) => format!("{url} gave no answer"),
        _ => format!("{url} gave no answer that can be used"),
    }
}

/// What a caller can do about a refusal; codes that are not known here speak for themselves.
pub(crate) fn refusal_hint(code: i64) -> Option<&'static str> {
    let hint = match code {
        c if c == Code::IntroductionRequired.number() => {
            "`muretai connect PEER` asks its owner; or a common contact can introduce you, or its owner can make an invite"
        }
        c if c == Code::IntroductionInvalid.number() => {
            "the introduction or invite has expired or was taken back; ask whoever gave it for a new one"
        }
        c if c == Code::TrustQueryNotPermitted.number() => {
            "its owner does not answer this question; everybody may ask about oneself"
        }
        c if c == Code::IssuerNotTrusted.number() => {
            "whoever introduces you is no direct contact of the peer; somebody who is has to do it, or `muretai connect PEER` asks its owner"
        }
        c if c == Code::AwaitingApproval.number() => {
            "the peer's owner decides about your introduction first; try again later"
        }
        c if c == Code::VerifiedDomainRequired.number() => {
            "the peer wants a verified domain of whoever is no contact; `muretai connect PEER` asks its owner"
        }
        c if c == Code::NoTrustLayer.number() => {
            "the peer takes no introductions or connect requests; write to it with `muretai send`"
        }
        c if c == Code::ConnectNotAccepted.number() => {
            "its owner takes no connect requests, or said no to yours; an introduction or an invite is another way"
        }
        c if c == Code::NoSuchPendingRequest.number() => "the peer took its request back, or it has expired",
        c if c == Code::AlreadyConnected.number() => "there is trust already; write to it with `muretai send`",
        c if c == Code::ReplayOrStale.number() => "check the clock of this machine",
        c if c == Code::RateLimited.number() => "try again later",
        c if c == Code::Internal.number() => "the peer has a fault of its own; try again later",
        c if c == Code::NotAddressedToMe.number() => "another agent lives at this address now; ask for its new one",
        _ => return None,
    };
    Some(hint)
}
