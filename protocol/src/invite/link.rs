//! Invite links (7.2), as they are written and as people paste them.
use std::borrow::Cow;

use crate::{
    base64,
    json::{self, Value, canonical_as_received},
    urls,
};

/// Bytes of text that are looked at for a link: a token of 64 KiB of card, and room for the URL around it.
pub const MAX_LINK_BYTES: usize = 90_112;
/// Characters of a short link's code; relays make 8 to 12.
const MAX_CODE_LEN: usize = 128;

/// An invite link, decided by `d=` first, then by `/i/<code>` (7.2).
#[derive(Debug, Clone, PartialEq)]
pub enum Link {
    /// The card itself.
    Token(Value),
    /// The card must be fetched from this URL, which the sender of the link chose: the guard of 12.1 comes first.
    Fetch(String),
}

/// Why text is not an invite link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Neither form.
    #[error("not an invite link")]
    NotALink,
    /// A token that does not decode to a JSON object.
    #[error("the invite link is damaged: it was cut or changed on the way")]
    Damaged,
    /// Two links in one text, or something behind a link: which one is meant is not guessed.
    #[error("this is more than one invite link")]
    Several,
    /// More text than any link has.
    #[error("an invite link has at most {MAX_LINK_BYTES} bytes, this has {len}")]
    TooLong {
        /// Bytes of the text.
        len: usize,
    },
}

/// Reads a link as people paste it: blanks, quotes, `<…>` and line breaks around and inside it are dropped, and so is
/// one slash behind a short link.
///
/// # Errors
/// Text with two links in it is refused, not glued together. Nothing is verified yet: a token that decodes may hold any JSON object.
pub fn parse_link(text: &str) -> Result<Link, LinkError> {
    if text.len() > MAX_LINK_BYTES {
        return Err(LinkError::TooLong { len: text.len() });
    }
    let link: String = text.chars().filter(|c| !is_paste_noise(*c)).collect();
    if link.matches("://").count() > 1 {
        return Err(LinkError::Several);
    }
    if let Some(token) = token_of(&link) {
        return read_token(token).map(Link::Token).ok_or(LinkError::Damaged);
    }
    if is_short_with_more(text) {
        return Err(LinkError::Several);
    }
    read_short(&link).map(Link::Fetch).ok_or(LinkError::NotALink)
}

/// A code is too short to be wrapped: what stands behind a blank is not part of it.
fn is_short_with_more(text: &str) -> bool {
    let text = text.trim_matches(is_paste_noise);
    let Some(code_at) = text.rfind("/i/") else { return false };
    let Some(blank) = text[code_at..].find(char::is_whitespace) else { return false };
    let first: String = text[..code_at + blank].chars().filter(|c| !is_paste_noise(*c)).collect();
    read_short(&first).is_some()
}

/// `agent://invite?d=<token>`.
pub fn token_link(card: &Value) -> String {
    // A card that cannot be canonicalised does not verify either; it is passed on as it is.
    let json = canonical_as_received(card).unwrap_or_else(|_| card.to_json());
    format!("agent://invite?d={}", base64::encode_url(json.as_bytes()))
}

/// `<base>/i/<code>`.
pub fn short_link(base: &str, code: &str) -> String {
    urls::join(base, &format!("i/{code}"))
}

/// White space, invisible characters, quotes and angle brackets: none of them is part of any link form.
fn is_paste_noise(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '<' | '>' | '"' | '\'' | '`')
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
        || matches!(c, '\u{2018}'..='\u{201f}' | '\u{2039}' | '\u{203a}' | '\u{ab}' | '\u{bb}')
}

/// Everything after the first `d=`, where that starts a member and is not the end of a longer name such as `id=`.
fn token_of(link: &str) -> Option<&str> {
    link.match_indices("d=").find_map(|(at, _)| {
        let starts_member = at == 0 || matches!(link.as_bytes()[at - 1], b'?' | b'#' | b'&' | b'/');
        starts_member.then(|| &link[at + 2..])
    })
}

fn read_token(token: &str) -> Option<Value> {
    // Mail programs escape the padding.
    let token = if token.contains('%') {
        Cow::Owned(token.replace("%3D", "=").replace("%3d", "="))
    } else {
        Cow::Borrowed(token)
    };
    let card = json::parse(&base64::decode_url_lenient(&token)?).ok()?;
    card.as_object().is_some().then_some(card)
}

fn read_short(link: &str) -> Option<String> {
    let link = link.strip_suffix('/').unwrap_or(link);
    let (base, code) = link.rsplit_once("/i/")?;
    let is_code = (1..=MAX_CODE_LEN).contains(&code.len())
        && code.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    is_code.then(|| urls::canonical_base(base).ok()).flatten().map(|base| short_link(&base, code))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json;

    fn card() -> Value {
        json!({"did": "did:key:z6MkX", "name": "s\u{fc}den \u{1F426}", "n": [1, null, true]})
    }

    fn token() -> String {
        token_link(&card()).replace("agent://invite?d=", "")
    }

    #[test]
    fn every_form_of_token_link_is_read() {
        let token = token();
        let padding = "=".repeat((4 - token.len() % 4) % 4);
        for link in [
            format!("agent://invite?d={token}"),
            format!("agent://invite?d={token}{padding}"),
            format!("agent://invite?d={token}{}", padding.replace('=', "%3D")),
            format!("https://relay.example/invitation#d={token}"),
            format!("https://relay.example/i#d={token}"),
            format!("https://relay.example/i/?id=7&x#d={token}"),
            format!("d={token}"),
        ] {
            assert_eq!(parse_link(&link), Ok(Link::Token(card())), "{link}");
        }
    }

    #[test]
    fn short_links_are_read_with_their_mount() {
        for (link, url) in [
            ("https://relay.example/i/aZ09_-", "https://relay.example/i/aZ09_-"),
            ("HTTP://Relay.Example:80/i/x", "http://relay.example/i/x"),
            ("http://[::1]:8080/a/b/i/x", "http://[::1]:8080/a/b/i/x"),
            ("https://relay.example/i/i/x", "https://relay.example/i/i/x"),
            ("https://relay.example/i/x/", "https://relay.example/i/x"),
        ] {
            assert_eq!(parse_link(link), Ok(Link::Fetch(url.to_owned())));
        }
    }

    #[test]
    fn what_a_chat_program_adds_is_dropped() {
        let token = token();
        let (head, tail) = token.split_at(20);
        for pasted in [
            format!("  agent://invite?d={token}\r\n"),
            format!("<agent://invite?d={head}\n  {tail}>"),
            format!("\u{201c}agent://invite?d={head}\u{200b}{tail}\u{201d}"),
            format!("> agent://invite?d={head}\n> {tail}"),
            format!("'agent://invite?d={token}'"),
            format!("\u{feff}agent://in\u{a0}vite?d={token}"),
        ] {
            assert_eq!(parse_link(&pasted), Ok(Link::Token(card())), "{pasted:?}");
        }
        let fetch = Ok(Link::Fetch("https://relay.example/i/abc".to_owned()));
        for pasted in
            ["\"https://relay.example/i/abc\"", "<https://relay.\nexample/i/abc>", "`https://relay.example/i/abc` "]
        {
            assert_eq!(parse_link(pasted), fetch, "{pasted:?}");
        }
    }

    #[test]
    fn what_is_no_link_is_refused() {
        for text in [
            "",
            "hello",
            "https://relay.example/",
            "https://relay.example/i/",
            "https://relay.example/i//",
            "https://relay.example/i/a//",
            "https://relay.example/i/a.b",
            "https://relay.example/i/abc?x",
            "https://relay.example/i/abc#id=5",
            "https://user@relay.example/i/abc",
            "https://relay.example/%2e%2e/i/abc",
            "ftp://relay.example/i/abc",
            "/i/abc",
            &format!("https://relay.example/i/{}", "a".repeat(129)),
        ] {
            assert_eq!(parse_link(text), Err(LinkError::NotALink), "{text}");
        }
    }

    #[test]
    fn several_links_are_not_glued_together() {
        let token = token();
        let (short, long) = ("https://relay.example/i/abc", format!("agent://invite?d={token}"));
        for text in [
            format!("{short}\n{short}"),
            format!("{short} {long}"),
            format!("{long}\r\n{short}"),
            format!("{long}{long}"),
            format!("<{short}>\n<{short}>"),
            format!("{short}\nhello"),
            format!("\u{feff}{short}/ x"),
            "https://relay.example/i/ab\u{a0}c".to_owned(),
        ] {
            assert_eq!(parse_link(&text), Err(LinkError::Several), "{text:?}");
        }
        assert_eq!(parse_link(&format!("{long}\nhello")), Err(LinkError::Damaged));
    }

    #[test]
    fn a_damaged_token_is_named_as_such() {
        let token = token();
        let list = base64::encode_url(b"[]");
        let bom = base64::encode_url("\u{feff}{}".as_bytes());
        for bad in ["", "!", &token[..token.len() - 3], &format!("{token}."), &list, &bom] {
            assert_eq!(parse_link(&format!("agent://invite?d={bad}")), Err(LinkError::Damaged), "{bad}");
        }
        let long = "a".repeat(MAX_LINK_BYTES + 1);
        assert_eq!(parse_link(&long), Err(LinkError::TooLong { len: MAX_LINK_BYTES + 1 }));
    }

    proptest! {
        #[test]
        fn links_give_back_their_card(name in any::<String>(), n in -9_007_199_254_740_991_i64..9_007_199_254_740_991) {
            let card = json!({"name": (name), "n": (n)});
            prop_assert_eq!(parse_link(&token_link(&card)), Ok(Link::Token(card)));
        }

        #[test]
        fn short_links_give_back_their_url(path in "(/[a-z0-9]{1,5}){0,2}", code in "[A-Za-z0-9_-]{1,12}") {
            let link = short_link(&format!("https://relay.example{path}"), &code);
            prop_assert_eq!(parse_link(&link), Ok(Link::Fetch(link)));
        }

        #[test]
        fn parsing_never_panics(text in any::<String>(), form in "(agent://invite\\?d=|https://x/i/|d=)?") {
            let _ = parse_link(&(form + &text));
        }
    }
}
