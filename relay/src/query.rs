//! Queries and path segments: percent decoding, and nothing else. A `+` is a plus, because tokens have them.

/// A percent-decoded text; `None` when an escape is broken or the bytes are no UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'%' {
            let digits = bytes.get(at + 1..at + 3)?;
            let [high, low] = [char::from(digits[0]).to_digit(16)?, char::from(digits[1]).to_digit(16)?];
            plain.push(u8::try_from(high * 16 + low).ok()?);
            at += 3;
        } else {
            plain.push(byte);
            at += 1;
        }
    }
    String::from_utf8(plain).ok()
}

/// The values of these parameters, in their order. Others are ignored.
///
/// # Errors
/// Says which one is broken, or there twice.
pub(crate) fn read<const N: usize>(query: &str, names: [&'static str; N]) -> Result<[Option<String>; N], &'static str> {
    let mut values = [const { None }; N];
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(at) = names.iter().position(|known| *known == name) else { continue };
        let value = decode(value).ok_or(names[at])?;
        if values[at].replace(value).is_some() {
            return Err(names[at]);
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_escapes_and_leaves_the_rest() {
        assert_eq!(decode("did%3Akey%3az+/=").as_deref(), Some("did:key:z+/="));
        for bad in ["%", "%4", "%zz", "%+1", "%ff"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn reads_known_names_once() {
        let read = |query| read(query, ["a", "b"]);
        assert_eq!(read("x=1&b=%32&c"), Ok([None, Some("2".to_owned())]));
        assert_eq!(read("a"), Ok([Some(String::new()), None]));
        assert_eq!(read("a=1&a=1"), Err("a"));
        assert_eq!(read("b=%f"), Err("b"));
        assert_eq!(read(""), Ok([None, None]));
    }
}
