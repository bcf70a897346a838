//! Cards, their envelopes, foreign cards and foreign answers.
use muretai_protocol::{
    UnixSeconds, a2a, card,
    card::Expect,
    json::{Value, parse},
    urls,
};

/// Reads the data as everything that a card's address or a foreign agent may answer.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    judge_url(&text);
    let _ = a2a::version_from_header(Some(&text));
    let Ok(value) = parse(data) else { return };
    let expect =
        Expect { did: None, plain_card: Some(&value), dialled: Some("https://north.example"), now: UnixSeconds(0) };
    let _ = card::verify_envelope(&value, &expect);
    if let Some(interface) = a2a::interface_of(&value) {
        assert!(!urls::origin(&interface.url).is_empty(), "an interface can be called");
    }
    let _ = a2a::text_of_result(&value);
    let _ = a2a::result_to_v1(&value);
    if let Value::Object(message) = &value {
        let _ = a2a::message_from_v1(message.clone());
    }
    if let Ok(card) = card::read(value) {
        assert!(card.relay.is_none_or(|relay| urls::is_plain_url(&relay)));
        judge_url(&card.url);
    }
}

fn judge_url(url: &str) {
    let origin = urls::origin(url);
    assert_eq!(urls::origin(&origin), origin, "an origin is a fixed point");
    assert_eq!(urls::same_scope(url, url), !origin.is_empty());
    if let Ok(base) = urls::canonical_base(url) {
        assert_eq!(urls::check_base(&base), Ok(()), "a canonical base is a fixed point");
        assert!(urls::same_scope(&base, url), "and the same place");
    }
    let _ = (urls::is_plain_url(url), urls::is_wildcard(url), urls::base_of_card_url(url), urls::post_address(url));
}
