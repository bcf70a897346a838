//! Judges one request head before the HTTP library sees it: what parsers could read in two ways is refused here
//! (section 12.3, framing).
use super::answers::Plain;

/// Most header fields in a request.
pub(super) const MAX_HEADERS: usize = 64;

/// How the body of a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyLength {
    None,
    Fixed(u64),
    Chunked,
}

/// The length of the head that `input` begins with, its empty line included; `from` bytes were searched before.
pub(super) fn find_end(input: &[u8], from: usize) -> Option<usize> {
    let start = from.saturating_sub(3);
    let mut at = start;
    while let Some(found) = input[at..].iter().position(|byte| *byte == b'\n') {
        let next = at + found + 1;
        match input[next..] {
            [b'\n', ..] => return Some(next + 1),
            [b'\r', b'\n', ..] => return Some(next + 2),
            _ => at = next,
        }
    }
    None
}

/// Judges a complete head.
///
/// # Errors
/// What to answer instead of serving the request.
pub(super) fn inspect(head: &[u8]) -> Result<BodyLength, Plain> {
    if has_bare_newline(head) {
        return Err(Plain::BadRequest("a line of the request head does not end with CRLF"));
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(len)) if len == head.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Plain::TooManyHeaders),
        Ok(_) | Err(_) => return Err(Plain::BadRequest("the request head is malformed")),
    }
    if !is_target(request.path.unwrap_or_default()) {
        return Err(Plain::BadRequest("the request target is malformed"));
    }
    let is_http_11 = request.version == Some(1);
    check_host(request.headers, is_http_11)?;
    body_length(request.headers, is_http_11)
}

/// Some parsers end a line there and some do not; whoever stands in front of us may be one of the others.
fn has_bare_newline(head: &[u8]) -> bool {
    let is_bare = |(at, byte): (usize, &u8)| *byte == b'\n' && (at == 0 || head[at - 1] != b'\r');
    head.iter().enumerate().any(is_bare)
}

/// RFC 9112, section 3.2: exactly one in HTTP/1.1, at most one before.
fn check_host(headers: &[httparse::Header<'_>], is_http_11: bool) -> Result<(), Plain> {
    match headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host")).count() {
        1 => Ok(()),
        0 if !is_http_11 => Ok(()),
        0 => Err(Plain::BadRequest("the request has no Host")),
        _ => Err(Plain::BadRequest("the request has more than one Host")),
    }
}

fn body_length(headers: &[httparse::Header<'_>], is_http_11: bool) -> Result<BodyLength, Plain> {
    let mut length = None;
    let mut is_chunked = false;
    for header in headers {
        if header.name.eq_ignore_ascii_case("content-length") {
            if length.is_some() {
                return Err(Plain::BadRequest("the request has more than one Content-Length"));
            }
            length = Some(parse_length(header.value)?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if is_chunked || !is_http_11 || !header.value.eq_ignore_ascii_case(b"chunked") {
                return Err(Plain::BadRequest("the only Transfer-Encoding is one `chunked`, in HTTP/1.1"));
            }
            is_chunked = true;
        }
    }
    match (length, is_chunked) {
        (Some(_), true) => Err(Plain::BadRequest("the request has both Content-Length and Transfer-Encoding")),
        (None, true) => Ok(BodyLength::Chunked),
        (None | Some(0), false) => Ok(BodyLength::None),
        (Some(length), false) => Ok(BodyLength::Fixed(length)),
    }
}

fn parse_length(value: &[u8]) -> Result<u64, Plain> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Plain::BadRequest("Content-Length is not a number"));
    }
    let digits = value.iter().skip_while(|digit| **digit == b'0').count();
    // 10^18 and more fits no body; it is refused before it can overflow anything.
    if digits > 18 {
        return Err(Plain::BodyTooLarge(None));
    }
    Ok(value.iter().fold(0, |length, digit| length * 10 + u64::from(digit - b'0')))
}

/// Lets pass what the HTTP library can parse, so that it never answers on its own.
fn is_target(target: &str) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/.-_~%?=&+:,*".contains(byte);
    (target.starts_with('/') && target.as_bytes().iter().all(is_plain)) || target.parse::<::http::Uri>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &str) -> Result<BodyLength, Plain> {
        inspect(format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes())
    }

    #[test]
    fn knows_how_bodies_end() {
        assert_eq!(head(""), Ok(BodyLength::None));
        assert_eq!(head("Content-Length: 0\r\n"), Ok(BodyLength::None));
        assert_eq!(head("content-length:  42 \r\n"), Ok(BodyLength::Fixed(42)));
        assert_eq!(head("Content-Length: 00042\r\n"), Ok(BodyLength::Fixed(42)));
        assert_eq!(head("Transfer-Encoding: Chunked\r\n"), Ok(BodyLength::Chunked));
        assert_eq!(head("Content-Length: 1000000000000000000\r\n"), Err(Plain::BodyTooLarge(None)));
    }

    #[test]
    fn refuses_what_can_be_read_in_two_ways() {
        for lines in [
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: \r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -5\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: 5 5\r\n",
            "Content-Length: \r\n",
            "Content-Length : 5\r\n",
            " folded: 1\r\n",
            "no colon\r\n",
            "A: b\n",
            "A: b\n\r\n",
            "\n",
            "Host: b\r\n",
            "host: a\r\n",
        ] {
            assert!(matches!(head(lines), Err(Plain::BadRequest(_))), "{lines:?}: {:?}", head(lines));
        }
        let in_1_0 = inspect(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(matches!(in_1_0, Err(Plain::BadRequest(_))));
    }

    #[test]
    fn wants_one_host_in_http_1_1() {
        assert_eq!(inspect(b"GET / HTTP/1.1\r\n\r\n"), Err(Plain::BadRequest("the request has no Host")));
        assert_eq!(inspect(b"GET / HTTP/1.1\r\nHost:\r\n\r\n"), Ok(BodyLength::None));
        assert_eq!(inspect(b"GET / HTTP/1.0\r\n\r\n"), Ok(BodyLength::None));
        let twice = inspect(b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n");
        assert_eq!(twice, Err(Plain::BadRequest("the request has more than one Host")));
    }

    #[test]
    fn refuses_what_is_no_request() {
        for text in [
            "\u{16}\u{3}\u{1}\r\n\r\n",
            "GET\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
            "GET / / HTTP/1.1\r\n\r\n",
            "GET /\u{0} HTTP/1.1\r\n\r\n",
            "GET http:// HTTP/1.1\r\n\r\n",
        ] {
            assert!(matches!(inspect(text.as_bytes()), Err(Plain::BadRequest(_))), "{text:?}");
        }
        assert_eq!(head(&"A: b\r\n".repeat(MAX_HEADERS)), Err(Plain::TooManyHeaders));
    }

    #[test]
    fn targets_of_every_form_reach_the_router() {
        for target in ["/", "//a/b", "http://a/b", "*", "/a?b=c", "/%7e", "/a|b", "/\"{}"] {
            assert!(inspect(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).is_ok(), "{target}");
        }
    }

    #[test]
    fn finds_the_end_wherever_reading_stopped() {
        let text = b"GET / HTTP/1.1\r\nA: b\r\n\r\nrest";
        for from in 0..text.len() - 4 {
            assert_eq!(find_end(text, from.min(24)), Some(24), "{from}");
        }
        assert_eq!(find_end(b"GET / HTTP/1.1\r\nA: b\r\n\r", 0), None);
        assert_eq!(find_end(b"GET / HTTP/1.1\n\nrest", 0), Some(16));
    }
}
