//! TARGET: a contact's name, a DID, a card URL, a bare domain or an invite link; this function decides which.
use std::net::{IpAddr, Ipv6Addr};

use muretai_protocol::{
    Did,
    did::DidError,
    invite::{self, LinkError},
    text,
};

use crate::Fault;

/// Bytes of a target; an invite link with its whole card is the longest kind.
const MAX_TARGET_BYTES: usize = invite::MAX_LINK_BYTES;
/// Characters of a contact's name.
const MAX_NAME_CHARS: usize = 64;

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
    /// Nothing was typed.
    #[error("the target is empty")]
    Empty,
    /// No target is that long.
    #[error("the target is {bytes} bytes, the limit is {MAX_TARGET_BYTES}")]
    TooLong {
        /// Its size.
        bytes: usize,
    },
    /// It starts like a DID and is none in its one spelling.
    #[error("{text:?} is not a DID")]
    BadDid {
        /// As typed.
        text: String,
        /// Why.
        #[source]
        source: DidError,
    },
    /// A URL that is neither http nor https.
    #[error("{scheme:?} is not a scheme that can be dialled")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// Several colons and no brackets.
    #[error("{0:?} needs brackets around its IPv6 address")]
    Ipv6NeedsBrackets(String),
    /// Brackets around something else.
    #[error("{0:?} is not an IPv6 address")]
    NotIpv6(String),
    /// A port that is no number from 1 to 65535.
    #[error("{0:?} is not a port from 1 to 65535")]
    BadPort(String),
    /// Neither of all these.
    #[error("{0:?} is no contact, DID, URL or domain")]
    NotATarget(String),
}

impl TargetError {
    /// Whose fault.
    pub fn fault(&self) -> Fault {
        Fault::Usage
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            TargetError::BadDid { .. } => "a DID is did:key:z followed by base58, without anything around it",
            TargetError::Ipv6NeedsBrackets(_) | TargetError::NotIpv6(_) => "write it like http://[200:abcd::1]:8080",
            TargetError::Scheme { .. } => "URLs begin with https:// or http://",
            TargetError::BadPort(_) | TargetError::TooLong { .. } => return None,
            TargetError::Empty | TargetError::NotATarget(_) => {
                "give a contact's name (`muretai contacts list`), a DID, a card URL or a domain"
            }
        };
        Some(hint.to_owned())
    }
}

/// Decides by shape alone; no contact has a name that reads as anything else ([`check_name`]).
pub fn parse(text: &str) -> Result<Target, TargetError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(TargetError::Empty);
    }
    if text.len() > MAX_TARGET_BYTES {
        return Err(TargetError::TooLong { bytes: text.len() });
    }
    if has_prefix(text, "did:") {
        return match text.parse() {
            Ok(did) => Ok(Target::Did(did)),
            Err(source) => Err(TargetError::BadDid { text: shortened(text), source }),
        };
    }
    if has_prefix(text, "agent://") || is_invite(text) {
        return Ok(Target::Invite(text.to_owned()));
    }
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(TargetError::NotATarget(shortened(text)));
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        if !["http", "https"].iter().any(|s| scheme.eq_ignore_ascii_case(s)) {
            return Err(TargetError::Scheme { scheme: shortened(scheme) });
        }
        check_authority(rest.split(['/', '?', '#']).next().unwrap_or_default())?;
        return Ok(Target::Url(text.to_owned()));
    }
    parse_bare(text)
}

/// Why text cannot be a contact's name: it has to be typable, must not look like another kind of TARGET, and `own` is
/// the agent's own, which would be taken for the agent itself.
///
/// # Errors
/// One sentence without a capital or a full stop.
pub fn check_name(name: &str, own: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
        return Err("a name has 1 to 64 characters");
    }
    if name.starts_with('-') || text::one_line(name, MAX_NAME_CHARS) != name {
        return Err("a name does not begin with `-` and has no invisible characters");
    }
    match parse(name) {
        Ok(Target::Name(read)) if read == name => {}
        Ok(Target::Domain(_)) if !name.contains(['.', ':']) => return Err("it is the name of this machine"),
        _ => {
            return Err("a name has no blanks, dots, colons or slashes: it would be read as a DID, a URL or a domain");
        }
    }
    if name.eq_ignore_ascii_case(own) { Err("it is the agent's own name") } else { Ok(()) }
}

/// A name or a domain, told apart by the characters that only hosts have.
fn parse_bare(text: &str) -> Result<Target, TargetError> {
    let authority = text.split('/').next().unwrap_or_default();
    let is_host = authority.contains(['.', ':', '[']) || authority.eq_ignore_ascii_case("localhost");
    if is_host {
        if text.contains(['?', '#', '@', '\\']) {
            return Err(TargetError::NotATarget(shortened(text)));
        }
        check_authority(authority)?;
        return Ok(Target::Domain(text.to_owned()));
    }
    let is_name = !text.contains(['/', '?', '#', '\\']) && text.chars().count() <= MAX_NAME_CHARS;
    if is_name { Ok(Target::Name(text.to_owned())) } else { Err(TargetError::NotATarget(shortened(text))) }
}

/// Refuses an authority whose host or port a URL parser would read differently than its writer meant it.
fn check_authority(authority: &str) -> Result<(), TargetError> {
    // What stands before an `@` is not the host; whoever dials refuses it by name.
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (inner, port) = rest.split_once(']').ok_or_else(|| TargetError::NotIpv6(shortened(authority)))?;
            let address = inner.split('%').next().unwrap_or_default();
            address.parse::<Ipv6Addr>().map_err(|_| TargetError::NotIpv6(shortened(inner)))?;
            if !port.is_empty() && !port.starts_with(':') {
                return Err(TargetError::NotATarget(shortened(authority)));
            }
            (inner, port.strip_prefix(':'))
        }
        None if authority.matches(':').count() > 1 => {
            return Err(TargetError::Ipv6NeedsBrackets(shortened(authority)));
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err(TargetError::NotATarget(shortened(authority)));
    }
    match port {
        Some(port) if !is_port(port) => Err(TargetError::BadPort(shortened(port))),
        _ => Ok(()),
    }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

/// The URL of a bare domain: https, and http where the bytes do not leave the machine.
pub(crate) fn domain_url(domain: &str) -> String {
    let scheme = if is_loopback_host(host_of(domain)) { "http" } else { "https" };
    format!("{scheme}://{domain}")
}

/// The host in `host[:port][/path]`, without brackets.
pub(crate) fn host_of(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_loopback_host(host: &str) -> bool {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A damaged link is still meant as one; whoever claims it says what is wrong with it.
fn is_invite(text: &str) -> bool {
    let is_url = has_prefix(text, "http://") || has_prefix(text, "https://");
    is_url && !matches!(invite::parse_link(text), Err(LinkError::NotALink))
}

fn has_prefix(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// For error messages: they quote what was typed, not all of it.
fn shortened(text: &str) -> String {
    const LIMIT: usize = 200;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DID: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";

    #[test]
    fn tells_kinds_apart() {
        let cases = [
            ("north", Target::Name("north".to_owned())),
            (" north-2\n", Target::Name("north-2".to_owned())),
            ("ünïcode", Target::Name("ünïcode".to_owned())),
            (DID, Target::Did(DID.parse().unwrap())),
            ("https://south.example", Target::Url("https://south.example".to_owned())),
            ("HTTP://south.example/a", Target::Url("HTTP://south.example/a".to_owned())),
            ("south.example", Target::Domain("south.example".to_owned())),
            ("south.example/agent", Target::Domain("south.example/agent".to_owned())),
            ("localhost", Target::Domain("localhost".to_owned())),
            ("localhost:8080", Target::Domain("localhost:8080".to_owned())),
            ("127.0.0.1:8080", Target::Domain("127.0.0.1:8080".to_owned())),
            ("[::1]:8080", Target::Domain("[::1]:8080".to_owned())),
            ("http://[200:abcd::1]:8080/", Target::Url("http://[200:abcd::1]:8080/".to_owned())),
            ("http://[fe80::1%25eth0]:80", Target::Url("http://[fe80::1%25eth0]:80".to_owned())),
            ("agent://invite?d=e30", Target::Invite("agent://invite?d=e30".to_owned())),
            ("https://south.example/i/Ab3-_x", Target::Invite("https://south.example/i/Ab3-_x".to_owned())),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refuses_by_situation() {
        type Check = fn(&TargetError) -> bool;
        let cases: &[(&str, Check)] = &[
            ("", |e| *e == TargetError::Empty),
            (" \n", |e| *e == TargetError::Empty),
            ("http://::1:8080", |e| matches!(e, TargetError::Ipv6NeedsBrackets(_))),
            ("::1", |e| matches!(e, TargetError::Ipv6NeedsBrackets(_))),
            ("[not-ipv6]:80", |e| matches!(e, TargetError::NotIpv6(_))),
            ("[::1", |e| matches!(e, TargetError::NotIpv6(_))),
            ("http://[not-ipv6]:80", |e| matches!(e, TargetError::NotIpv6(_))),
            ("[::1]8080", |e| matches!(e, TargetError::NotATarget(_))),
            ("south.example:0", |e| matches!(e, TargetError::BadPort(_))),
            ("south.example:99999", |e| matches!(e, TargetError::BadPort(_))),
            ("south.example:+80", |e| matches!(e, TargetError::BadPort(_))),
            ("south.example:", |e| matches!(e, TargetError::BadPort(_))),
            ("file:///etc/passwd", |e| matches!(e, TargetError::Scheme { .. })),
            ("ftp://south.example", |e| matches!(e, TargetError::Scheme { .. })),
            ("https://", |e| matches!(e, TargetError::NotATarget(_))),
            ("http:///path", |e| matches!(e, TargetError::NotATarget(_))),
            ("did:key:zzz", |e| matches!(e, TargetError::BadDid { .. })),
            ("did:web:south.example", |e| matches!(e, TargetError::BadDid { .. })),
            ("two words", |e| matches!(e, TargetError::NotATarget(_))),
            ("a\0b", |e| matches!(e, TargetError::NotATarget(_))),
            ("a/b", |e| matches!(e, TargetError::NotATarget(_))),
            ("user@south.example", |e| matches!(e, TargetError::NotATarget(_))),
            ("south.example?x", |e| matches!(e, TargetError::NotATarget(_))),
        ];
        for (text, check) in cases {
            let error = parse(text).unwrap_err();
            assert!(check(&error), "{text:?}: {error:?}");
        }
        assert!(matches!(parse(&"x".repeat(99_000)), Err(TargetError::TooLong { bytes: 99_000 })));
    }

    #[test]
    fn domains_are_https_except_on_loopback() {
        for (domain, url) in [
            ("south.example", "https://south.example"),
            ("south.example:8443/a", "https://south.example:8443/a"),
            ("localhost:8080", "http://localhost:8080"),
            ("127.9.9.9:80", "http://127.9.9.9:80"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("[200:abcd::1]:8080", "https://[200:abcd::1]:8080"),
            ("192.168.1.2", "https://192.168.1.2"),
            ("localhost.evil.example", "https://localhost.evil.example"),
        ] {
            assert_eq!(domain_url(domain), url);
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in ".{0,64}") {
            let _ = parse(&text);
        }
    }

    #[test]
    fn a_name_is_never_read_as_another_kind_of_target() {
        for name in ["south", "south-2", "Łódź", "a_b", "localhost-2"] {
            assert_eq!(check_name(name, "north"), Ok(()), "{name}");
            assert_eq!(parse(name), Ok(Target::Name(name.to_owned())));
        }
        for name in [
            "",
            "-x",
            " x",
            "x y",
            "a.b",
            "a:b",
            "a/b",
            "localhost",
            "LocalHost",
            "did:key:z6Mk",
            "http://x",
            "agent://x",
            "a\u{202e}b",
            "a\nb",
            "[x]",
            "x?y",
            "x#y",
            "north",
            "NORTH",
        ] {
            assert!(check_name(name, "north").is_err(), "{name:?}");
        }
        assert!(check_name(&"x".repeat(65), "north").is_err());
    }
}
