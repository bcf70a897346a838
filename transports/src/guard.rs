//! The URL guard (section 12.1): which addresses may be dialled for a URL that came from somebody else.
//!
//! [`check_url`] judges what can be judged from the text: scheme, host, userinfo and literal addresses in every
//! spelling. A name is resolved once, by the resolver of the HTTP client, which asks [`check_address`] about every
//! address and connects to approved ones only, so that a second resolution cannot bring in another answer.
use std::net::IpAddr;

use url::{Host, Url};

mod class;

use class::Class;

/// Longest URL that is looked at; longer ones are refused unread.
pub const MAX_URL_BYTES: usize = 2_048;

/// How strict to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The owner named the host, or allowed it: only link-local, unspecified, multicast and broadcast are refused.
    Owner,
    /// A peer named it: loopback, private, ULA, shared, reserved addresses are refused too. Overlay `200::/7` stays.
    Peer,
    /// Evidence and invites from unknown hosts: overlay addresses are refused too.
    Public,
}

impl Policy {
    /// At least as strict as what a URL named by a peer gets.
    pub(crate) fn at_least_peer(self) -> Policy {
        match self {
            Policy::Owner | Policy::Peer => Policy::Peer,
            Policy::Public => Policy::Public,
        }
    }
}

/// Why a URL is not dialled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// The address is of a class that the policy does not allow.
    #[error("the address {address} is {class}")]
    Address {
        /// The address as it was found, before unwrapping.
        address: IpAddr,
        /// Its class in words.
        class: &'static str,
    },
    /// Neither http nor https.
    #[error("the scheme is `{scheme}`, only http and https are spoken")]
    Scheme {
        /// What it is.
        scheme: String,
    },
    /// There is no host in it.
    #[error("the URL has no host")]
    NoHost,
    /// A user name or password before an `@`.
    #[error("the URL carries a user name or password")]
    Userinfo,
    /// An IPv6 literal with a zone, as in `[fe80::1%25eth0]`: it means something on one machine only.
    #[error("the URL names a network interface (`%`) inside its address")]
    Scoped,
    /// White space, control characters or a backslash, which parsers read differently.
    #[error("the URL contains white space, control characters or a backslash")]
    Characters,
    /// Longer than [`MAX_URL_BYTES`].
    #[error("the URL is {len} bytes, the limit is {MAX_URL_BYTES}")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// Not a URL.
    #[error("not a URL: {reason}")]
    Syntax {
        /// What the parser said.
        reason: url::ParseError,
    },
    /// A redirect from https to http.
    #[error("a redirect from https to http")]
    Downgrade,
    /// The name has no address at all.
    #[error("the host has no address")]
    NoAddress,
}

/// Judges one address after unwrapping IPv4-mapped and -compatible, 6to4, Teredo and NAT64 forms.
///
/// # Errors
/// [`GuardError::Address`] with the address and its class.
pub fn check_address(address: IpAddr, policy: Policy) -> Result<(), GuardError> {
    let class = class::of(class::unwrap(address));
    let is_refused = match class {
        Class::Global => false,
        Class::Unspecified | Class::LinkLocal | Class::Multicast | Class::Broadcast => true,
        Class::Loopback | Class::Private | Class::UniqueLocal | Class::Shared | Class::Reserved => {
            policy != Policy::Owner
        }
        Class::Overlay => policy == Policy::Public,
    };
    if is_refused { Err(GuardError::Address { address, class: class.words() }) } else { Ok(()) }
}

/// Parses a URL and judges everything but the addresses of a name. Literal addresses are judged here, however they
/// are spelled (`2130706433`, `0x7f.1`, `[::ffff:127.0.0.1]`).
///
/// # Errors
/// Every variant of [`GuardError`] but [`GuardError::NoAddress`] and [`GuardError::Downgrade`].
pub fn check_url(text: &str, policy: Policy) -> Result<Url, GuardError> {
    if text.len() > MAX_URL_BYTES {
        return Err(GuardError::TooLong { len: text.len() });
    }
    // The parser drops tabs and newlines and reads `\` as `/`; what the owner sees would not be what is dialled.
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(GuardError::Characters);
    }
    let url = Url::parse(text).map_err(|reason| explain(text, reason))?;
    check_parsed(&url, policy)?;
    Ok(url)
}

/// As [`check_url`], for a URL that is already parsed.
///
/// # Errors
/// As [`check_url`].
pub fn check_parsed(url: &Url, policy: Policy) -> Result<(), GuardError> {
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = url.scheme().chars().take(32).collect();
        return Err(GuardError::Scheme { scheme });
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(GuardError::Userinfo);
    }
    match url.host() {
        None => Err(GuardError::NoHost),
        Some(Host::Domain(name)) if name.trim_end_matches('.').is_empty() => Err(GuardError::NoHost),
        Some(Host::Domain(_)) => Ok(()),
        Some(Host::Ipv4(address)) => check_address(address.into(), policy),
        Some(Host::Ipv6(address)) => check_address(address.into(), policy),
    }
}

/// The URL for messages and logs: without userinfo, query, fragment and the code of an invite, which may be secrets, and
/// short.
pub(crate) fn printable(text: &str) -> String {
    let shown = match Url::parse(text) {
        Ok(mut url) if !url.username().is_empty() || url.password().is_some() => {
            // Both fail only for URLs that cannot have userinfo.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.to_string()
        }
        Ok(_) => text.to_owned(),
        // What does not parse may still hold a password before an `@`.
        Err(_) => match text.rsplit_once('@') {
            Some((_, host)) => format!("…@{host}"),
            None => text.to_owned(),
        },
    };
    let shown = without_bearer(shown);
    let mut short: String = shown.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(300).collect();
    if short.len() < shown.len() && shown.chars().count() > 300 {
        short.push('…');
    }
    short
}

/// The URL for logs: as [`printable`], and of a DID in it the last eight characters.
pub(crate) fn loggable(text: &str) -> String {
    let shown = printable(text);
    match shown.find("did:key:") {
        Some(at) => {
            let tail: Vec<char> = shown[at..].chars().rev().take(8).collect();
            format!("{}…{}", &shown[..at], tail.into_iter().rev().collect::<String>())
        }
        None => shown,
    }
}

/// Cuts off what lets whoever reads it claim an invite, `/i/CODE` and `#d=TOKEN`, or empty a mailbox, `?token=TOKEN`.
fn without_bearer(mut url: String) -> String {
    let end = [url.find("/i/").map(|at| at + 3), url.find(['#', '?']).map(|at| at + 1)].into_iter().flatten().min();
    if let Some(end) = end.filter(|end| *end < url.len()) {
        url.truncate(end);
        url.push('…');
    }
    url
}

/// Names the zone of an IPv6 literal, where the parser would only say "invalid".
fn explain(text: &str, reason: url::ParseError) -> GuardError {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(literal, _)| literal);
    match (reason, inside) {
        (url::ParseError::EmptyHost, _) => GuardError::NoHost,
        (_, Some(literal)) if literal.contains('%') => GuardError::Scoped,
        _ => GuardError::Syntax { reason },
    }
}

#[cfg(test)]
mod tests;
