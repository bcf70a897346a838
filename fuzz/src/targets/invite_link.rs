//! Invite links and the cards in them.
use muretai_protocol::{
    UnixSeconds,
    invite::{Link, parse_link, token_link, verify},
    json::canonical_as_received,
    urls,
};

/// Reads a link; what it holds survives being passed on.
pub fn run(data: &[u8]) {
    match parse_link(&String::from_utf8_lossy(data)) {
        Ok(Link::Token(card)) => {
            let link = token_link(&card);
            if let Ok(canonical) = canonical_as_received(&card) {
                match parse_link(&link) {
                    Ok(Link::Token(again)) => assert_eq!(canonical_as_received(&again).as_deref(), Ok(&*canonical)),
                    // The link of a card is a little longer than what it came in, which may have been at the limit.
                    other => assert!(data.len() > 80_000, "{other:?}"),
                }
            }
            if let Ok(invite) = verify(card, None, UnixSeconds(0)) {
                assert!(invite.relay.is_none_or(|relay| urls::is_plain_url(&relay)));
            }
        }
        Ok(Link::Fetch(url)) => {
            assert!(!urls::origin(&url).is_empty(), "a link to fetch has an origin");
            assert_eq!(parse_link(&url), Ok(Link::Fetch(url)), "and stays what it is");
        }
        Err(_) => {}
    }
}
