//! Local names of contacts, derived from what peers call themselves.
use sqlx::{SqliteConnection, query};

use crate::StoreError;

/// Characters of a derived name.
const MAX_LEN: usize = 32;
/// The name of somebody who calls itself nothing that can be used.
const GENERIC: &str = "peer";

/// A name that nobody has: the peer's own, made safe, with a number when another contact has it, when it is a host's,
/// or when it is the one to `avoid`, which is the agent's own.
pub(crate) async fn unused(
    conn: &mut SqliteConnection,
    peer_name: Option<&str>,
    avoid: Option<&str>,
) -> Result<String, StoreError> {
    let is_reserved = |name: &str| is_host(name) || avoid.is_some_and(|own| own.eq_ignore_ascii_case(name));
    let base = sanitise(peer_name.unwrap_or_default());
    let mut name = base.clone();
    let mut number = 2_u64;
    while is_reserved(&name) || is_taken(conn, &name).await? {
        let suffix = format!("-{number}");
        let room = MAX_LEN - suffix.len();
        name = format!("{}{suffix}", &base[..base.len().min(room)]);
        number += 1;
    }
    Ok(name)
}

/// Whether a target of this spelling is a host; of the letters that a derived name has, only this one is.
fn is_host(name: &str) -> bool {
    name == "localhost"
}

/// Whether a contact has this name.
pub(crate) async fn is_taken(conn: &mut SqliteConnection, name: &str) -> Result<bool, StoreError> {
    Ok(query("SELECT 1 FROM contacts WHERE name = ?").bind(name).fetch_optional(conn).await?.is_some())
}

/// Whether a name was given for want of a better one.
pub(crate) fn is_generic(name: &str) -> bool {
    let number = name.strip_prefix(GENERIC).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
    number.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Letters, digits, `-` and `_`, in lower case. A dot becomes `-`: a peer that calls itself `example.com` must not be
/// what `send example.com` finds. A name never begins with `-`, which would look like a flag.
fn sanitise(peer_name: &str) -> String {
    let mut name = String::new();
    for c in peer_name.chars().map(|c| c.to_ascii_lowercase()) {
        match c {
            'a'..='z' | '0'..='9' | '_' => name.push(c),
            '-' | '.' if !name.is_empty() => name.push('-'),
            c if c.is_whitespace() && !name.is_empty() && !name.ends_with('-') => name.push('-'),
            _ => {}
        }
        if name.len() == MAX_LEN {
            break;
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { GENERIC.to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_names_that_a_shell_and_a_target_can_take() {
        for (peer_name, name) in [
            ("North", "north"),
            ("  North  Star ", "north-star"),
            ("example.com", "example-com"),
            ("--help", "help"),
            ("did:key:z6Mk", "didkeyz6mk"),
            ("Łódź", "d"),
            ("東京", "peer"),
            ("", "peer"),
            ("\u{1b}[31mred\u{7}", "31mred"),
            ("_x-", "_x"),
        ] {
            assert_eq!(sanitise(peer_name), name, "{peer_name:?}");
        }
        assert_eq!(sanitise(&"x".repeat(1000)).len(), MAX_LEN);
    }

    #[test]
    fn knows_generic_names() {
        for name in ["peer", "peer-2", "peer-17"] {
            assert!(is_generic(name), "{name}");
        }
        for name in ["peers", "peer-a", "north", "xpeer"] {
            assert!(!is_generic(name), "{name}");
        }
    }
}
