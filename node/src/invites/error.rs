//! Why an invite was not made, or not redeemed.
use std::time::Duration;

use muretai_protocol::{
    Did, UnixSeconds,
    invite::{self, LinkError},
    json::Value,
    rpc::Code,
    urls::BaseUrlError,
};
use muretai_store::StoreError;
use muretai_transports::{TransportError, guard::GuardError};

use crate::{
    Fault,
    send::{
        error::{not_through, refusal_hint},
        peer::{status_fault, transport_fault, transport_hint},
    },
};

/// Why an invite was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InviteError {
    /// No base URL.
    #[error("this agent has no address that an invite could name")]
    NoUrl,
    /// Not an address.
    #[error("{url:?} cannot be the address in an invite")]
    BadUrl {
        /// As given.
        url: String,
        /// Why.
        #[source]
        source: BaseUrlError,
    },
    /// An address that can be bound and not dialled.
    #[error("{0} is a wildcard that nobody can dial")]
    Wildcard(String),
    /// No relay's address.
    #[error("{url:?} cannot be a relay's address")]
    BadRelay {
        /// As given.
        url: String,
    },
    /// The relay does not keep the invite.
    #[error("the relay {relay} does not keep the invite")]
    Relay {
        /// Which.
        relay: String,
        /// Why.
        #[source]
        source: TransportError,
    },
    /// The relay gave a code that is in use.
    #[error("the relay {relay} gave the code of another invite")]
    CodeTaken {
        /// Which.
        relay: String,
    },
    /// Too short or too long a life.
    #[error("an invite lives 60 to 31536000 seconds, not {secs}")]
    TtlOutOfRange {
        /// What was asked for.
        secs: u64,
    },
    /// Too long a note or purpose.
    #[error("the {what} is {bytes} bytes, the limit is 1000")]
    TextTooLong {
        /// Which.
        what: &'static str,
        /// Its size.
        bytes: usize,
    },
    /// What was to be revoked looks like a link and is a damaged one.
    #[error("the invite link cannot be read")]
    Link(#[from] LinkError),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl InviteError {
    /// Whose fault.
    pub fn fault(&self) -> Fault {
        match self {
            InviteError::NoUrl | InviteError::Store(_) | InviteError::CodeTaken { .. } => Fault::Failed,
            InviteError::Relay { source: TransportError::RelayRefused { status, .. }, .. } => match status {
                429 | 503 => Fault::Failed,
                _ => Fault::PeerRefused,
            },
            InviteError::Relay { source, .. } => transport_fault(source),
            _ => Fault::Usage,
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            InviteError::NoUrl => {
                "start `muretai serve` first, say where the agent will be with `--url`, or let a relay keep the invite \
                 with `--relay`"
            }
            InviteError::BadRelay { .. } => "write it like https://relay.example, without `?` and `#`",
            InviteError::Relay { source: TransportError::RelayRefused { status: 429, .. }, .. } => {
                "nothing was stored; a relay keeps few invites of one agent, and each until it expires: try again then, \
                 make them with a shorter `--ttl`, or without `--relay`"
            }
            InviteError::Relay { .. } => "nothing was stored; check the relay's address, or make it without `--relay`",
            InviteError::CodeTaken { .. } => "nothing was stored; try again, or use another relay",
            InviteError::Wildcard(_) => "give `--url` with the address that others dial",
            InviteError::BadUrl { .. } => "write it like https://agent.example or http://192.168.1.5:8080",
            InviteError::Link(_) => "give the nonce or the code instead (`muretai invite list`)",
            InviteError::TtlOutOfRange { .. } | InviteError::TextTooLong { .. } | InviteError::Store(_) => return None,
        };
        Some(hint.to_owned())
    }
}

/// Why a claim failed; distinct for expired, forged, own, refused (unknown, used or revoked), unreachable. No contact
/// was made. What a peer said in it is safe to show on one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// Not a link, or damaged.
    #[error("this is no invite link that can be used")]
    Link(#[from] LinkError),
    /// The own invite.
    #[error("this invite is your own: {0}")]
    Own(Did),
    /// Over.
    #[error("the invite expired at {}", .at.to_iso())]
    Expired {
        /// When.
        at: UnixSeconds,
    },
    /// Its signature does not verify.
    #[error("the invite is forged or was changed on the way")]
    Forged(#[source] invite::InviteError),
    /// Signed, and not what an invite is.
    #[error("the invite cannot be used")]
    Malformed(#[source] invite::InviteError),
    /// What the link leads to is no invite.
    #[error("{url} does not serve an invite")]
    NotAnInvite {
        /// The link.
        url: String,
    },
    /// The invite names a place that is never dialled, whoever asks for it.
    #[error("the invite's {what} {url:?} is never dialled")]
    BadPlace {
        /// Which.
        what: &'static str,
        /// The URL, made safe.
        url: String,
        /// Why.
        #[source]
        source: GuardError,
    },
    /// The invite names nothing that can be dialled.
    #[error("the invite names no address that can be dialled")]
    NoAddress,
    /// Whoever serves the link does not know the invite (any more).
    #[error("the invite is unknown, used, expired or revoked")]
    NotValid {
        /// What was dialled.
        url: String,
    },
    /// The inviter refused: its code and message, and data's detail, as it said them. `-32011` is for an invite that is
    /// unknown, used, expired or revoked.
    #[error("the inviter refused: {code} {message}")]
    Refused {
        /// Code.
        code: i64,
        /// Message, made safe.
        message: String,
        /// `data.detail`, made safe.
        detail: Option<String>,
        /// The whole `data`.
        data: Option<Value>,
    },
    /// Another agent than the inviter accepted.
    #[error("{url} is not the inviter: it answers as {found}")]
    OtherDid {
        /// What was dialled.
        url: String,
        /// Who it says it is, made safe.
        found: String,
    },
    /// An answer that is neither a refusal nor the acceptance of a claim.
    #[error("{url} does not say that the invite was accepted")]
    NotAccepted {
        /// What was dialled.
        url: String,
    },
    /// The owner blocked the inviter.
    #[error("{0} is blocked here")]
    Blocked(String),
    /// The wished name is another contact's.
    #[error("there is another contact named {0:?}")]
    NameTaken(String),
    /// The wished name would be read as something else than a name.
    #[error("{name:?} cannot be a contact's name: {reason}")]
    BadName {
        /// The name, made safe.
        name: String,
        /// Why, in words.
        reason: &'static str,
    },
    /// No relay's address.
    #[error("{url:?} cannot be a relay's address")]
    BadRelay {
        /// As given.
        url: String,
    },
    /// Nothing came back.
    #[error("{}", not_through(.url, 1, .source))]
    Transport {
        /// What was dialled.
        url: String,
        /// Why.
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
    },
    /// Something answered, and it is no agent.
    #[error("{url} answered with HTTP status {status}, which is no answer of an agent")]
    NotAnAnswer {
        /// What was dialled.
        url: String,
        /// The status.
        status: u16,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl ClaimError {
    /// Whose fault.
    pub fn fault(&self) -> Fault {
        match self {
            ClaimError::Link(_) | ClaimError::BadName { .. } | ClaimError::BadRelay { .. } => Fault::Usage,
            ClaimError::Forged(_) | ClaimError::OtherDid { .. } => Fault::Unverified,
            ClaimError::NotValid { .. } | ClaimError::Refused { .. } => Fault::PeerRefused,
            ClaimError::Transport { source, .. } => transport_fault(source),
            ClaimError::NotAnAnswer { status, .. } => status_fault(*status),
            ClaimError::TimedOut { .. } | ClaimError::NoAddress => Fault::Unreachable,
            _ => Fault::Failed,
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            ClaimError::Link(LinkError::Several) => "claim them one by one",
            ClaimError::Link(LinkError::Damaged) | ClaimError::Forged(_) => {
                "copy the whole link again, or ask for a new one"
            }
            ClaimError::Link(_) => "an invite link looks like https://host/i/CODE or agent://invite?d=TOKEN",
            ClaimError::Own(_) => "send it to somebody else",
            ClaimError::Expired { .. } | ClaimError::Malformed(_) => "ask for a new one",
            ClaimError::NotValid { .. } | ClaimError::NotAnInvite { .. } => "an invite works once; ask for a new one",
            error if error.is_spent() => {
                "the invite is unknown, used, expired or revoked; an invite works once, so ask for a new one"
            }
            ClaimError::BadPlace { .. } => "ask for a new one with an address that others can dial",
            ClaimError::NoAddress => "ask for a new one that is made while the inviter's agent is served",
            ClaimError::Refused { code, .. } => return refusal_hint(*code).map(str::to_owned),
            ClaimError::NotAccepted { .. } => "nothing was kept; ask the inviter what its agent says",
            ClaimError::OtherDid { .. } => "nothing was kept; ask the inviter which address is right",
            ClaimError::BadRelay { .. } => "write it like https://relay.example, without `?` and `#`",
            ClaimError::Blocked(_) => "`muretai contacts unblock NAME` lets it in again",
            ClaimError::NameTaken(_) => "choose another name, or rename the other contact",
            ClaimError::BadName { .. } => "choose another name",
            ClaimError::Transport { source: source @ TransportError::Refused { .. }, .. } => {
                return transport_hint(source);
            }
            ClaimError::Transport { .. } | ClaimError::TimedOut { .. } | ClaimError::NotAnAnswer { .. } => {
                "the invite is not used up; claim it again when the inviter's agent is there"
            }
            ClaimError::Store(_) => return None,
        };
        Some(hint.to_owned())
    }

    /// Nobody will ever accept this invite again.
    pub(super) fn is_spent(&self) -> bool {
        match self {
            ClaimError::NotValid { .. } => true,
            ClaimError::Refused { code, .. } => *code == Code::IntroductionInvalid.number(),
            _ => false,
        }
    }

    /// Sorts what the verification of an invite says.
    pub(super) fn of_invite(error: invite::InviteError, me: &Did) -> ClaimError {
        match error {
            invite::InviteError::Own => ClaimError::Own(me.clone()),
            invite::InviteError::Expired { exp } => ClaimError::Expired { at: exp },
            error @ (invite::InviteError::Forged | invite::InviteError::Unverifiable(_)) => ClaimError::Forged(error),
            error => ClaimError::Malformed(error),
        }
    }
}
