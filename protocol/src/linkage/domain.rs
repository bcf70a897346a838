//! Bare domains (11.4).
use std::{fmt, str::FromStr};

use crate::urls;

/// Characters of the host.
const MAX_HOST_CHARS: usize = 253;
/// Characters of one label.
const MAX_LABEL_CHARS: usize = 63;

/// A bare domain in its one spelling: lower-case ASCII labels, at least two, and perhaps a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Box<str>);

/// Why text is not a bare domain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DomainError {
    /// A scheme, a path, a user or a blank: more than a domain.
    #[error("a bare domain is a host name alone, such as agents.example.com")]
    NotBare,
    /// Characters of other scripts; they travel as punycode.
    #[error("a domain is written in ASCII; other scripts are written as xn--…")]
    NotAscii,
    /// Upper-case letters.
    #[error("a domain is written in lower case")]
    UpperCase,
    /// One label alone.
    #[error("a domain has at least two labels")]
    OneLabel,
    /// A label is empty, too long, or not letters, digits and inner hyphens.
    #[error("a label of a domain has 1 to {MAX_LABEL_CHARS} letters, digits and inner hyphens")]
    BadLabel,
    /// Longer than names are.
    #[error("the domain has {len} characters, the limit is {MAX_HOST_CHARS}")]
    TooLong {
        /// Characters of the host.
        len: usize,
    },
    /// Not 1 to 65535, or with a leading zero.
    #[error("a domain's port is 1 to 65535, without leading zeros")]
    BadPort,
}

impl Domain {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its https origin in the spelling of 9.3.
    pub fn origin(&self) -> String {
        urls::origin(&format!("https://{}", self.0))
    }

    /// The https URL of a path, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.0)
    }
}

impl FromStr for Domain {
    type Err = DomainError;

    fn from_str(text: &str) -> Result<Domain, DomainError> {
        if text.contains(['/', '@', '?', '#', '\\', '[', ']']) || text.contains(char::is_whitespace) {
            return Err(DomainError::NotBare);
        }
        let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
        check_host(host)?;
        port.map_or(Ok(()), check_port)?;
        Ok(Domain(text.into()))
    }
}

fn check_host(host: &str) -> Result<(), DomainError> {
    if !host.is_ascii() {
        return Err(DomainError::NotAscii);
    }
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(DomainError::UpperCase);
    }
    if host.len() > MAX_HOST_CHARS {
        return Err(DomainError::TooLong { len: host.len() });
    }
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        let has_length = (1..=MAX_LABEL_CHARS).contains(&label.len());
        has_length && label.bytes().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    if !host.split('.').all(is_label) {
        return Err(DomainError::BadLabel);
    }
    if host.contains('.') { Ok(()) } else { Err(DomainError::OneLabel) }
}

fn check_port(port: &str) -> Result<(), DomainError> {
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
    match port.parse::<u16>() {
        Ok(_) if is_number => Ok(()),
        _ => Err(DomainError::BadPort),
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
impl AsRef<str> for Domain {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bare_domain_has_one_spelling() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        for text in [
            "example.com",
            "a.b",
            "xn--bcher-kva.example",
            "127.0.0.1:8443",
            "1a-b.example:1",
            &label_pair(&label),
            &longest,
        ] {
            assert_eq!(text.parse::<Domain>().map(|domain| domain.to_string()).as_deref(), Ok(text));
        }
        use DomainError as E;
        for (text, error) in [
            ("", E::BadLabel),
            ("localhost", E::OneLabel),
            ("localhost:80", E::OneLabel),
            ("Example.com", E::UpperCase),
            ("example.com.", E::BadLabel),
            (".example.com", E::BadLabel),
            ("a..b", E::BadLabel),
            ("-a.example", E::BadLabel),
            ("a-.example", E::BadLabel),
            ("a_b.example", E::BadLabel),
            ("bücher.example", E::NotAscii),
            ("example。com", E::NotAscii),
            ("https://example.com", E::NotBare),
            ("example.com/", E::NotBare),
            ("user@example.com", E::NotBare),
            ("example.com#a", E::NotBare),
            (" example.com", E::NotBare),
            ("example.com\n", E::NotBare),
            ("[::1]:80", E::NotBare),
            ("example.com:", E::BadPort),
            ("example.com:0", E::BadPort),
            ("example.com:080", E::BadPort),
            ("example.com:+80", E::BadPort),
            ("example.com:65536", E::BadPort),
            ("example.com:1:2", E::BadPort),
            ("example.com:é", E::BadPort),
            (&label_pair(&"a".repeat(64)), E::BadLabel),
            (&format!("{longest}a"), E::TooLong { len: 254 }),
        ] {
            assert_eq!(text.parse::<Domain>(), Err(error), "{text:?}");
        }
    }

    fn label_pair(label: &str) -> String {
        format!("{label}.example")
    }

    #[test]
    fn a_domain_has_an_origin_and_urls() {
        let domain: Domain = "example.com:443".parse().unwrap();
        assert_eq!(
            (domain.origin().as_str(), domain.url("/a").as_str()),
            ("https://example.com", "https://example.com:443/a")
        );
        let other: Domain = "example.com:444".parse().unwrap();
        assert_eq!(other.origin(), "https://example.com:444");
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "\\PC{0,20}(:[0-9]{0,6})?") {
            if let Ok(domain) = text.parse::<Domain>() {
                prop_assert_eq!(domain.as_str(), text);
                prop_assert!(!domain.origin().is_empty());
            }
        }
    }
}
