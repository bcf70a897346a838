//! Every refusal that a receiver gives, and all that it may say. Details are constants: no caller text, no exception
//! text, no paths (section 4.4). What a refusal adds to its detail is a number or a word of ours.
use muretai_protocol::{
    UnixSeconds,
    message::Stale,
    rpc::{Code, Refusal},
};

pub(crate) const NOT_JSON: &str = "the body is not one JSON document in UTF-8";
pub(crate) const NOT_AN_OBJECT: &str = "the body is not a JSON object; batches are not taken";
pub(crate) const NOT_VERSION_2: &str = "jsonrpc must be \"2.0\"";
pub(crate) const NO_METHOD: &str = "method must be a string";
pub(crate) const UNKNOWN_METHOD: &str = "this method is not offered here";
pub(crate) const PARAMS_NOT_AN_OBJECT: &str = "params must be an object";
pub(crate) const MESSAGE_NOT_AN_OBJECT: &str = "params.message must be an object";
pub(crate) const NO_PARTS: &str = "params.message.parts must not be empty";
pub(crate) const NONCE_NOT_A_STRING: &str = "params.nonce must be a string";
pub(crate) const BAD_NAME: &str = "params.name must be a string";
pub(crate) const BAD_URL: &str = "params.url must be a canonical base URL";
pub(crate) const BAD_RELAY: &str = "params.relay must be a plain http or https URL";
pub(crate) const BAD_ENC_PUB: &str = "params.enc_pub must be 64 hex digits";
pub(crate) const BAD_NOTE: &str = "a note must be a string of at most 2000 bytes";
pub(crate) const OTHER_NOTE: &str = "params.note must be the note of the signed text, or absent";
pub(crate) const BAD_VC: &str = "params.vc must be an object of at most 16384 bytes of JSON";
pub(crate) const BAD_SUBJECT: &str = "params.subject must be an object whose did is a did:key";
pub(crate) const BAD_STATUS_SUBJECT: &str = "params.subject must be a did:key";
pub(crate) const BAD_REQUEST_ID: &str = "params.requestId must be a string of at most 256 bytes";
pub(crate) const BAD_INTRODUCTION_ID: &str = "params.introductionId must be a string of at most 256 bytes";
pub(crate) const BAD_DECISION: &str = "params.decision must be accept or reject";
pub(crate) const BAD_EXPERTISE: &str = "params.expertise must be at most 16 strings of at most 64 bytes";
pub(crate) const BAD_LIMIT: &str = "params.limit must be an integer of at least 1";
pub(crate) const METHOD_TEXT: &str =
    "the signed text must be the name of the method, alone or with a line feed and a note after it";
pub(crate) const INTRODUCE_TEXT: &str = "the signed text must be introduce-me-to: and a did:key";
pub(crate) const REFERRAL_TEXT: &str =
    "the signed text must say what is needed in at most 2000 bytes, and not begin with introduce-me-to:";
pub(crate) const CLAIM_TEXT: &str = "the signed text must be exactly the name of the method";
pub(crate) const NO_OFFERS: &str = "metadata.offer names an offer that this door does not have";
pub(crate) const TEXT_TOO_LARGE: &str = "the joined text parts are longer than 65536 bytes of UTF-8";
pub(crate) const ID_TOO_LONG: &str = "messageId, contextId and replyTo have at most 1024 bytes each";
pub(crate) const EXTRA_TOO_LARGE: &str =
    "metadata too large: unsigned metadata and parts that are not text have at most 65536 bytes of JSON";
pub(crate) const UNSIGNED: &str = "the message is not signed; accepts says how to sign it";
pub(crate) const INCOMPLETE: &str = "metadata must have from, to and sig";
pub(crate) const OTHER_RECIPIENT: &str = "metadata.to is not the DID of this agent";
pub(crate) const STALE: &str = "the timestamp is more than 300 seconds off";
pub(crate) const NO_TIME: &str = "metadata.timestamp must be an integer, seconds since 1970";
pub(crate) const TOO_OLD: &str = "the timestamp is more than 300 seconds behind this clock";
pub(crate) const TOO_NEW: &str = "the timestamp is more than 300 seconds ahead of this clock";
pub(crate) const OLDER_THAN_MAIL: &str = "the timestamp is older than relays keep letters";
pub(crate) const MILLISECONDS: &str = "the timestamp looks like milliseconds; it must be seconds";
pub(crate) const REPEATED: &str = "a message with this id was handled before";
pub(crate) const IN_HAND: &str = "a copy of this message is still being answered; send it again later";
pub(crate) const BAD_SIGNATURE: &str = "the signature does not verify under metadata.from";
pub(crate) use muretai_plugins::STRANGER_DETAIL as INTRODUCTION;
pub(crate) const INTRODUCTION_INVALID: &str =
    "the introduction is malformed, forged, expired or revoked, or leads elsewhere";
pub(crate) const ISSUER_NOT_TRUSTED: &str = "the introduction is not by a direct contact of this agent";
pub(crate) const AWAITING_APPROVAL: &str =
    "the introduction waits for the owner of this agent; the message was not kept";
pub(crate) const AWAITING_DECISION: &str =
    "the owner of this agent decides about this sender; the message was not kept";
pub(crate) const DOMAIN_REQUIRED: &str = "this agent answers senders whose domain was verified lately";
pub(crate) const NO_TRUST_LAYER: &str = "this agent answers strangers, and runs no trust layer";
pub(crate) const QUERY_NOT_PERMITTED: &str = "the owner of this agent does not permit this question";
pub(crate) const CONNECT_CLOSED: &str = "this agent takes no requests to connect";
pub(crate) const NO_SUCH_REQUEST: &str = "there is no such pending request";
pub(crate) const CONNECTED: &str = "there is a connection already";
pub(crate) const TOO_MANY: &str = "too many requests; send this one again later";
pub(crate) const TOO_FAST: &str = "too many messages; send this one again later";
pub(crate) const INVITE_INVALID: &str = "the invite is unknown, expired, revoked or used";
pub(crate) const INTERNAL: &str = "the message could not be handled; nothing was stored";

/// A refusal with `data:{detail}`.
pub(crate) fn plain(code: Code, detail: &str) -> Refusal {
    Refusal::new(code, detail)
}

/// Step 3 for everybody: says that the time is wrong, not by how much.
pub(crate) fn stale(stale: &Stale) -> Refusal {
    let detail = match stale {
        Stale::NotAnInteger | Stale::Missing => NO_TIME,
        Stale::OlderThanMail(_) => OLDER_THAN_MAIL,
        _ => STALE,
    };
    plain(Code::ReplayOrStale, detail)
}

/// Step 3 for a sender whose signature verified: measures the skew, so that a wrong clock can be set right (4.2).
pub(crate) fn stale_for_sender(stale: &Stale, timestamp: UnixSeconds, now: UnixSeconds) -> Refusal {
    if matches!(stale, Stale::Milliseconds) {
        return plain(Code::ReplayOrStale, MILLISECONDS);
    }
    let behind = now.0.saturating_sub(timestamp.0);
    let (detail, direction) = match stale {
        Stale::OlderThanMail(_) => (OLDER_THAN_MAIL, "behind"),
        _ if behind > 0 => (TOO_OLD, "behind"),
        _ => (TOO_NEW, "ahead"),
    };
    plain(Code::ReplayOrStale, detail).with("skewSeconds", behind.saturating_abs()).with("direction", direction)
}

/// A message that is stored already: the confirmation that 4.5 asks for.
pub(crate) fn duplicate() -> Refusal {
    plain(Code::ReplayOrStale, REPEATED).with("duplicate", true)
}

/// An id that was handled with another content, or whose sender is not proven: no confirmation.
pub(crate) fn repeated() -> Refusal {
    plain(Code::ReplayOrStale, REPEATED)
}

/// Another copy is being answered, and nobody knows yet how that ends.
pub(crate) fn in_hand() -> Refusal {
    plain(Code::ReplayOrStale, IN_HAND)
}

/// One text for strangers and for the blocked: a block must not show.
pub(crate) fn introduction_required() -> Refusal {
    plain(Code::IntroductionRequired, INTRODUCTION)
}

/// The introduction is good, and the message cannot wait on it.
pub(crate) fn awaiting_approval() -> Refusal {
    plain(Code::AwaitingApproval, AWAITING_APPROVAL)
}

/// The owner decides about the sender, and the message cannot wait for it.
pub(crate) fn awaiting_decision() -> Refusal {
    plain(Code::AwaitingApproval, AWAITING_DECISION)
}

/// Requests are for another kind of agent.
pub(crate) fn no_trust_layer() -> Refusal {
    plain(Code::NoTrustLayer, NO_TRUST_LAYER)
}

/// An answer to nothing.
pub(crate) fn no_such_request() -> Refusal {
    plain(Code::NoSuchPendingRequest, NO_SUCH_REQUEST)
}

/// A question that the owner does not permit.
pub(crate) fn query_not_permitted() -> Refusal {
    plain(Code::TrustQueryNotPermitted, QUERY_NOT_PERMITTED)
}

/// There is no room for what waits. Says when to come back, never how much room there is.
pub(crate) fn full(retry_after_secs: u64) -> Refusal {
    let secs = i64::try_from(retry_after_secs).unwrap_or(i64::MAX);
    plain(Code::RateLimited, TOO_MANY).with("retryAfter", secs)
}

/// Too fast. Says when to come back, never what the ceiling is (12.4).
pub(crate) fn rate_limited(retry_after_secs: u64) -> Refusal {
    let secs = i64::try_from(retry_after_secs).unwrap_or(i64::MAX);
    plain(Code::RateLimited, TOO_FAST).with("retryAfter", secs)
}

/// Ours, with nothing internal in it.
pub(crate) fn internal() -> Refusal {
    plain(Code::Internal, INTERNAL)
}
