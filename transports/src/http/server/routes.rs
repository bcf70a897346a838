//! Which address a request is for (the table of section 12.3). Paths are compared byte by byte; nothing is decoded,
//! nothing is normalised, and what is not advertised does not exist.
use http::Uri;

/// Longest invite code that is looked up.
const MAX_CODE: usize = 128;

/// The documents that are served below every mount.
const DOCUMENTS: [&str; 4] =
    [".well-known/agent-card.json", ".well-known/agent.json", ".well-known/agent-card.sig.json", "revocations"];

/// What a target names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Address<'u> {
    /// The mount itself.
    Mount,
    /// A document below it, which may or may not exist.
    Document(&'u str),
    /// Nothing; with a reason where it is not plain.
    Nothing(Option<&'static str>),
}

/// Finds what `uri` names below the mount of an agent.
pub(super) fn find<'u>(mount: &str, uri: &'u Uri) -> Address<'u> {
    match below(mount, uri).map(|path| &path[1..]) {
        Ok("") => Address::Mount,
        Ok(document) if DOCUMENTS.contains(&document) || is_invite(document) => Address::Document(document),
        Ok(_) => Address::Nothing(None),
        Err(detail) => Address::Nothing(detail),
    }
}

/// The path of `uri` below `mount`, which has no trailing slash; it begins with `/`. At the mount itself the slash may be
/// missing.
///
/// # Errors
/// It is not below the mount; with a reason where that is not plain.
pub(super) fn below<'u>(mount: &str, uri: &'u Uri) -> Result<&'u str, Option<&'static str>> {
    if uri.scheme().is_some() || uri.authority().is_some() {
        return Err(Some("the request target must be a path, not a whole URL"));
    }
    let path = uri.path();
    if path.starts_with("//") {
        return Err(Some("the request target must not start with two slashes"));
    }
    let below = path.strip_prefix(mount).ok_or(None)?;
    match below.strip_prefix('/') {
        Some(rest) if !rest.starts_with('/') => Ok(below),
        None if below.is_empty() && !mount.is_empty() => Ok("/"),
        _ => Err(None),
    }
}

fn is_invite(document: &str) -> bool {
    document.strip_prefix("i/").is_some_and(|code| (1..=MAX_CODE).contains(&code.len()) && !code.contains('/'))
}

/// The mount without trailing slashes; `None` when it is no plain path.
pub(super) fn clean_mount(mount: &str) -> Option<String> {
    let clean = mount.trim_end_matches('/');
    if clean.is_empty() {
        return Some(String::new());
    }
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\\\"<>^`{|}".contains(&byte);
    let has_segments =
        clean.starts_with('/') && clean[1..].split('/').all(|segment| !matches!(segment, "" | "." | ".."));
    (has_segments && clean.bytes().all(is_plain)).then(|| clean.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'u>(mount: &str, uri: &'u Uri) -> Address<'u> {
        find(mount, uri)
    }

    #[test]
    fn only_exact_addresses_exist() {
        let card = Address::Document(".well-known/agent-card.json");
        let cases: &[(&str, &str, &Address<'_>)] = &[
            ("", "/", &Address::Mount),
            ("", "/?a=b", &Address::Mount),
            ("", "/.well-known/agent-card.json", &card),
            ("", "/revocations", &Address::Document("revocations")),
            ("/south", "/south/revocations", &Address::Document("revocations")),
            ("", "/.well-known/agent-card.json/", &Address::Nothing(None)),
            ("", "/.well-known/Agent-Card.json", &Address::Nothing(None)),
            ("", "/.well-known/agent%2Dcard.json", &Address::Nothing(None)),
            ("", "/./.well-known/agent-card.json", &Address::Nothing(None)),
            ("", "/i/abc", &Address::Document("i/abc")),
            ("", "/i/", &Address::Nothing(None)),
            ("", "/i/a/b", &Address::Nothing(None)),
            ("", "/rpc", &Address::Nothing(None)),
            ("", "*", &Address::Nothing(None)),
            ("/south", "/south", &Address::Mount),
            ("/south", "/south/", &Address::Mount),
            ("/south", "/south//", &Address::Nothing(None)),
            ("/south", "/southern", &Address::Nothing(None)),
            ("/south", "/", &Address::Nothing(None)),
            ("/south", "/.well-known/agent-card.json", &Address::Nothing(None)),
            ("/south", "/south/.well-known/agent-card.json", &card),
            ("/south", "/south.well-known/agent-card.json", &Address::Nothing(None)),
        ];
        for (mount, target, expected) in cases {
            let uri: Uri = target.parse().unwrap();
            assert_eq!(&at(mount, &uri), *expected, "{target} below {mount:?}");
        }
        for target in ["//evil/", "http://a/", "https://a/.well-known/agent-card.json", "a:80"] {
            let uri: Uri = target.parse().unwrap();
            assert!(matches!(at("", &uri), Address::Nothing(Some(_))), "{target}");
        }
    }

    #[test]
    fn long_codes_are_not_looked_up() {
        let uri: Uri = format!("/i/{}", "a".repeat(MAX_CODE + 1)).parse().unwrap();
        assert_eq!(at("", &uri), Address::Nothing(None));
    }

    #[test]
    fn mounts_are_plain_paths() {
        assert_eq!(clean_mount("").as_deref(), Some(""));
        assert_eq!(clean_mount("/").as_deref(), Some(""));
        assert_eq!(clean_mount("/agents/south//").as_deref(), Some("/agents/south"));
        for mount in ["south", "/a b", "/a?b", "/a#b", "/a//b", "/../a", "/a/.", "/\u{e9}"] {
            assert_eq!(clean_mount(mount), None, "{mount}");
        }
    }
}
