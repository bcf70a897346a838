//! URL shapes that the protocol itself judges (sections 9.3, 12.2, 12.5). No name is resolved here.
//!
//! Everything is split by hand: a browser's parser also rewrites what it reads (punycode, `\` for `/`, tabs dropped),
//! and peers compare these strings byte for byte.
use std::net::{Ipv4Addr, Ipv6Addr};

/// Where the card is, below the mount.
pub const CARD_PATH: &str = "/.well-known/agent-card.json";
/// The older place of the card; the same bytes (6.1).
pub const LEGACY_CARD_PATH: &str = "/.well-known/agent.json";
/// Where the signed envelope is, below the mount.
pub const SIGNED_CARD_PATH: &str = "/.well-known/agent-card.sig.json";

/// The three addresses of a card (6.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardAddresses {
    /// The plain card; a reader tries it first.
    pub card: String,
    /// The older path, tried second.
    pub legacy: String,
    /// The signed envelope.
    pub signed: String,
}

/// Why a URL is not a canonical base (12.5).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BaseUrlError {
    /// It would be, if it were spelled like this.
    #[error("the canonical spelling is {corrected}")]
    NotCanonical {
        /// What to write instead.
        corrected: String,
    },
    /// It cannot be one.
    #[error("{0}")]
    Invalid(&'static str),
}

/// Tells whether a string has the plain URL shape of 12.2, as a whole.
///
/// Required of a relay's URL before it is stored or put into any other text.
pub fn is_plain_url(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else { return false };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let Some((host, port)) = split_port(authority) else { return false };
    let host_is_plain = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(literal) => literal.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-".contains(&b)),
    };
    host_is_plain
        && port.is_none_or(|p| (1..=5).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit()))
        && path.bytes().all(|b| b.is_ascii_alphanumeric() || b"._~/-".contains(&b))
}

/// The origin of 9.3: scheme, host and port in one spelling.
///
/// Gives the empty string, which matches nothing, for whatever is not a valid `http` or `https` URL.
pub fn origin(url: &str) -> String {
    split(url).map(|parts| parts.origin()).unwrap_or_default()
}

/// The path of an `http` or `https` URL without its trailing slashes: the mount (6.1), empty at a bare origin.
pub fn mount(url: &str) -> Option<&str> {
    split(url).ok().map(|parts| parts.mount())
}

/// Checks that `url` is a canonical base.
///
/// # Errors
/// [`BaseUrlError::NotCanonical`] carries the value to write instead; [`BaseUrlError::Invalid`] means there is none.
pub fn check_base(url: &str) -> Result<(), BaseUrlError> {
    let corrected = canonical_base(url)?;
    if corrected == url { Ok(()) } else { Err(BaseUrlError::NotCanonical { corrected }) }
}

/// Makes a canonical base (12.5) out of what a person typed.
///
/// # Errors
/// [`BaseUrlError::Invalid`] when no spelling of it would be one.
pub fn canonical_base(url: &str) -> Result<String, BaseUrlError> {
    use BaseUrlError::Invalid;
    let url = url.trim();
    if !url.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Invalid("a base URL has printable ASCII characters only"));
    }
    if url.contains('\\') {
        return Err(Invalid("a base URL has no backslash"));
    }
    if url.contains(['?', '#']) {
        return Err(Invalid("a base URL has no query and no fragment"));
    }
    let parts = split(url).map_err(Invalid)?;
    if parts.has_userinfo {
        return Err(Invalid("a base URL names no user"));
    }
    check_host(&parts.host)?;
    if parts.port == Some(0) {
        return Err(Invalid("a base URL's port is between 1 and 65535"));
    }
    check_path(parts.path)?;
    Ok(parts.origin() + parts.mount())
}

/// Tells whether a card's `url` has the scope that was dialled (12.5): equal origin and equal path.
///
/// An empty or unparsable URL on either side matches nothing.
pub fn same_scope(card_url: &str, dialled: &str) -> bool {
    match (split(card_url), split(dialled)) {
        (Ok(card), Ok(dialled)) => card.origin() == dialled.origin() && card.mount() == dialled.mount(),
        _ => false,
    }
}

/// The URL of `path` below a canonical base; `path` has no leading slash.
pub fn join(base: &str, path: &str) -> String {
    format!("{}/{path}", base.trim_end_matches('/'))
}

/// The POST address of a canonical base: itself, plus `/` at a bare origin (12.5).
pub fn post_address(base: &str) -> String {
    match mount(base) {
        Some("") => format!("{}/", base.trim_end_matches('/')),
        _ => base.to_owned(),
    }
}

/// The addresses of the card that belongs to a canonical base.
pub fn well_known(base: &str) -> CardAddresses {
    let base = base.trim_end_matches('/');
    CardAddresses {
        card: format!("{base}{CARD_PATH}"),
        legacy: format!("{base}{LEGACY_CARD_PATH}"),
        signed: format!("{base}{SIGNED_CARD_PATH}"),
    }
}

/// The mount that a card's address belongs to: the URL without the well-known path that ends it.
///
/// `None` when the URL does not end in one of the three.
pub fn base_of_card_url(url: &str) -> Option<&str> {
    let url = url.trim();
    [CARD_PATH, LEGACY_CARD_PATH, SIGNED_CARD_PATH].iter().find_map(|path| url.strip_suffix(path))
}

/// Tells whether a URL names a wildcard address, `0.0.0.0` or `[::]`, which can be bound and cannot be dialled.
pub fn is_wildcard(url: &str) -> bool {
    split(url).is_ok_and(|parts| match parts.host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(literal) => literal.parse::<Ipv6Addr>().is_ok_and(|ip| match ip.to_ipv4_mapped() {
            Some(v4) => v4.is_unspecified(),
            None => ip.is_unspecified(),
        }),
        None => parts.host.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_unspecified()),
    })
}

/// What the rules here look at.
struct Parts<'a> {
    scheme: &'static str,
    /// Lower case, without trailing dots; an IPv6 literal keeps its brackets.
    host: String,
    /// `None` when absent or the scheme's own.
    port: Option<u16>,
    /// Up to the query or the fragment.
    path: &'a str,
    has_userinfo: bool,
}

impl<'a> Parts<'a> {
    fn origin(&self) -> String {
        match self.port {
            Some(port) => format!("{}://{}:{port}", self.scheme, self.host),
            None => format!("{}://{}", self.scheme, self.host),
        }
    }
    fn mount(&self) -> &'a str {
        self.path.trim_end_matches('/')
    }
}

/// Splits by the rule of 9.3, or says what is wrong.
fn split(url: &str) -> Result<Parts<'_>, &'static str> {
    let url = url.trim();
    if url.chars().any(char::is_control) {
        return Err("the URL contains control characters");
    }
    let (scheme, rest) = url.split_once(':').ok_or("a URL starts with http:// or https://")?;
    let (scheme, default_port) = match scheme {
        s if s.eq_ignore_ascii_case("http") => ("http", 80),
        s if s.eq_ignore_ascii_case("https") => ("https", 443),
        _ => return Err("a URL starts with http:// or https://"),
    };
    let rest = rest.strip_prefix("//").ok_or("a URL starts with http:// or https://")?;
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // A backslash is where parsers part ways about which host it is.
    if authority.contains(|c: char| c.is_whitespace() || c == '\\') {
        return Err("the URL's host contains a blank or a backslash");
    }
    let (has_userinfo, authority) = match authority.rsplit_once('@') {
        Some((_, host)) => (true, host),
        None => (false, authority),
    };
    let (host, port) = split_port(authority).ok_or("the URL's host is malformed; an IPv6 address is written [::1]")?;
    let host = parse_host(host)?;
    let port = parse_port(port.unwrap_or_default())?.filter(|port| *port != default_port);
    let path = &tail[..tail.find(['?', '#']).unwrap_or(tail.len())];
    Ok(Parts { scheme, host, port, path, has_userinfo })
}

/// Cuts `host:port` or `[literal]:port`; `None` when brackets and colons do not add up.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if authority.starts_with('[') {
        let (host, after) = authority.split_at(authority.find(']')? + 1);
        return match after.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => after.is_empty().then_some((host, None)),
        };
    }
    match authority.split_once(':') {
        Some((_, port)) if port.contains(':') => None,
        Some((host, port)) => Some((host, Some(port))),
        None => Some((authority, None)),
    }
}

fn parse_host(host: &str) -> Result<String, &'static str> {
    if let Some(literal) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        let address = literal.split_once('%').map_or(literal, |(address, _zone)| address);
        address.parse::<Ipv6Addr>().map_err(|_| "the URL's brackets hold no IPv6 address")?;
        return Ok(host.to_lowercase());
    }
    let host = host.trim_end_matches('.').to_lowercase();
    if host.is_empty() {
        return Err("the URL names no host");
    }
    if host.contains(['[', ']']) { Err("the URL's host is malformed") } else { Ok(host) }
}

/// An empty port counts as absent; leading zeros are read as a number.
fn parse_port(port: &str) -> Result<Option<u16>, &'static str> {
    if port.is_empty() {
        return Ok(None);
    }
    if !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err("the URL's port is not a number");
    }
    match port.trim_start_matches('0') {
        "" => Ok(Some(0)),
        digits => digits.parse().map(Some).map_err(|_| "the URL's port is above 65535"),
    }
}

/// The host of a canonical base, beyond what [`split`] asks.
fn check_host(host: &str) -> Result<(), BaseUrlError> {
    if host.contains('%') {
        return Err(BaseUrlError::Invalid("the host of a base URL has no percent sign"));
    }
    let is_name = host
        .split('.')
        .all(|label| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
    if is_name || host.starts_with('[') {
        Ok(())
    } else {
        Err(BaseUrlError::Invalid("the host of a base URL is a name or an address"))
    }
}

/// The path of a canonical base: pchar and `/`, escapes well-formed, no dot segments however they are spelled.
fn check_path(path: &str) -> Result<(), BaseUrlError> {
    let bytes = path.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let is_escape = bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
            if !is_escape {
                return Err(BaseUrlError::Invalid("a percent sign in a base URL's path has two hex digits after it"));
            }
            at += 2;
        } else if !(bytes[at].is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&bytes[at])) {
            return Err(BaseUrlError::Invalid("a base URL's path contains a character that must be escaped"));
        }
        at += 1;
    }
    let has_dots =
        path.split('/').any(|segment| matches!(&*segment.to_ascii_lowercase().replace("%2e", "."), "." | ".."));
    if has_dots { Err(BaseUrlError::Invalid("a base URL's path has no . or .. segments")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn origins_have_one_spelling() {
        for spelling in [
            "https://west.example",
            "https://west.example/",
            "https://west.example:443",
            "https://west.example:0443/x",
            "https://west.example:",
            "https://west.example..",
            "HTTPS://West.Example",
            "https://WEST.example/listen?did=x#f",
            "https://user:pw@west.example",
            "https://a@b@west.example?x@y",
            "\t https://west.example \n",
        ] {
            assert_eq!(origin(spelling), "https://west.example", "{spelling}");
        }
        assert_eq!(origin("http://[::1]:9000/x"), "http://[::1]:9000");
        assert_eq!(origin("http://[200:ABCD::1]:80"), "http://[200:abcd::1]");
        assert_eq!(origin("http://[fe80::1%25eth0]:80"), "http://[fe80::1%25eth0]");
        assert_eq!(origin("http://x:443"), "http://x:443");
    }

    #[test]
    fn what_is_no_origin_matches_nothing() {
        for bad in [
            "",
            "x",
            "//x",
            "http:x",
            "http:/x",
            "ws://x",
            "file:///etc/passwd",
            "https://",
            "https://.",
            "https://@",
            "http://x:99999",
            "http://x:+80",
            "http://x:8a",
            "http://::1:8080",
            "http://[::1",
            "http://[::1]x",
            "http://[not-ipv6]:80",
            "http://[]:80",
            "http://x]:80",
            "http://good.example\\@evil.example",
            "http://a b/",
            "http://a\nb/",
        ] {
            assert_eq!(origin(bad), "", "{bad:?}");
            assert!(!same_scope(bad, bad), "{bad:?}");
        }
    }

    #[test]
    fn plain_urls_are_plain_as_a_whole() {
        for good in ["http://x", "https://relay.example:8443/a/b_c~d", "https://[200::1]:1/", "http://10.0.0.1/"] {
            assert!(is_plain_url(good), "{good}");
        }
        for bad in [
            "",
            "HTTPS://x",
            "https://",
            "https:///x",
            "https://x:",
            "https://x:123456",
            "https://x/?q",
            "https://x/#f",
            "https://u@x",
            "https://x/a b",
            "https://x\n",
            "https://x/%41",
            "https://ü.example",
            "https://[x]/",
            "ftp://x",
            "https://x:1:2",
        ] {
            assert!(!is_plain_url(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_base_that_only_needs_respelling_is_named_with_its_correction() {
        for (typed, corrected) in [
            ("HTTPS://West.Example", "https://west.example"),
            ("https://west.example/", "https://west.example"),
            (" https://west.example:443/a// ", "https://west.example/a"),
            ("http://west.example.:080/A", "http://west.example/A"),
            ("http://[200:ABCD::1]:8080/", "http://[200:abcd::1]:8080"),
        ] {
            assert_eq!(canonical_base(typed).as_deref(), Ok(corrected));
            assert_eq!(check_base(typed), Err(BaseUrlError::NotCanonical { corrected: corrected.to_owned() }));
            assert_eq!(check_base(corrected), Ok(()));
        }
        assert_eq!(check_base("https://west.example/a%2Fb/c:@!$&'()*+,;=-._~"), Ok(()));
        assert_eq!(check_base("http://my_box:8080"), Ok(()));
    }

    #[test]
    fn a_base_that_cannot_be_one_is_refused() {
        for bad in [
            "",
            "west.example",
            "ftp://west.example",
            "https://west.example?x",
            "https://west.example/#",
            "https://u@west.example",
            "https://@west.example",
            "https://west%2eexample",
            "https://[fe80::1%25eth0]",
            "https://west..example",
            "https://we,st.example",
            "https://west.example:0",
            "https://west.example:65536",
            "https://west.example/a\\b",
            "https://west.example/a b",
            "https://west.example/\u{e9}",
            "https://west.example/a/../b",
            "https://west.example/a/%2E%2e",
            "https://west.example/.",
            "https://west.example/%",
            "https://west.example/%4",
            "https://west.example/%zz",
            "https://west.example/a|b",
            "http://::1:8080",
            "http://[not-ipv6]:80",
        ] {
            assert!(matches!(canonical_base(bad), Err(BaseUrlError::Invalid(_))), "{bad:?}");
        }
    }

    #[test]
    fn scope_is_origin_and_path() {
        assert!(same_scope("https://west.example", "HTTPS://west.example:443/"));
        assert!(same_scope("https://west.example/a/", "https://west.example/a"));
        for (card, dialled) in [
            ("https://west.example/a", "https://west.example/A"),
            ("https://west.example/a", "https://west.example"),
            ("https://west.example", "http://west.example"),
            ("https://west.example", "https://east.example"),
            ("https://west.example:444", "https://west.example"),
            ("", ""),
            ("", "https://west.example"),
        ] {
            assert!(!same_scope(card, dialled), "{card} {dialled}");
        }
    }

    #[test]
    fn addresses_are_built_below_the_mount() {
        assert_eq!(join("https://west.example/a", "i/xyz"), "https://west.example/a/i/xyz");
        assert_eq!(post_address("https://west.example"), "https://west.example/");
        assert_eq!(post_address("https://west.example/a"), "https://west.example/a");
        assert_eq!(post_address(""), "");
        let addresses = well_known("https://west.example/a");
        assert_eq!(addresses.card, "https://west.example/a/.well-known/agent-card.json");
        for url in [&addresses.card, &addresses.legacy, &addresses.signed] {
            assert_eq!(base_of_card_url(url), Some("https://west.example/a"));
        }
        assert_eq!(base_of_card_url("https://west.example/card.json"), None);
        assert_eq!(mount("https://west.example/a/b//?q"), Some("/a/b"));
        assert_eq!(mount("west"), None);
    }

    #[test]
    fn wildcards_are_recognised() {
        for wildcard in ["http://0.0.0.0:80", "http://[::]:8080/", "http://[::ffff:0.0.0.0]"] {
            assert!(is_wildcard(wildcard), "{wildcard}");
        }
        for dialable in ["http://127.0.0.1", "http://[::1]", "http://west.example", ""] {
            assert!(!is_wildcard(dialable), "{dialable}");
        }
    }

    proptest! {
        #[test]
        fn canonical_base_is_idempotent(text in "(https?|HTTP)://[A-Za-z0-9.\\[\\]:_-]{0,12}(:[0-9]{0,6})?[/a-z.%2E]{0,12}") {
            if let Ok(base) = canonical_base(&text) {
                prop_assert_eq!(check_base(&base), Ok(()));
                prop_assert!(same_scope(&base, &text));
                prop_assert!(same_scope(&post_address(&base), &base));
            }
        }

        #[test]
        fn nothing_panics(text in any::<String>(), prefix in "(https?://)?") {
            let text = prefix + &text;
            let (spelled, _) = (origin(&text), is_plain_url(&text));
            prop_assert_eq!(origin(&spelled), spelled.clone());
            let _ = (canonical_base(&text), mount(&text), is_wildcard(&text), base_of_card_url(&text));
            prop_assert_eq!(same_scope(&text, &text), !spelled.is_empty());
        }
    }
}
