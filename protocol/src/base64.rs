//! base64 in its strict spellings (section 2.4).
//!
//! Strict means that a byte string has one spelling: padding is exact and unused bits are zero, so that decoding and
//! encoding again gives the identical text. A 64-byte signature would have sixteen spellings otherwise.

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The value of each character, `NONE` for what is not in the alphabet.
const STANDARD_VALUES: [u8; 256] = values(STANDARD);
const URL_VALUES: [u8; 256] = values(URL);
const NONE: u8 = 0xff;

const fn values(alphabet: &[u8; 64]) -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < 64 {
        values[alphabet[value as usize] as usize] = value;
        value += 1;
    }
    values
}

/// Standard alphabet with padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = encode_unpadded(bytes, STANDARD);
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// Strict: decoding and encoding again gives the identical string. `None` otherwise.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    decode_unpadded(exactly_padded(text)?, &STANDARD_VALUES)
}

/// Whether [`decode`] would take the text. Nothing is allocated.
pub fn is_strict(text: &str) -> bool {
    let Some(unpadded) = exactly_padded(text) else { return false };
    let full = unpadded.len() / 4 * 4;
    let (groups, rest) = unpadded.as_bytes().split_at(full);
    // No early end: letters are megabytes, and this loop runs several bytes at a time.
    let is_alphabet = groups.iter().fold(0, |found, &c| found | (STANDARD_VALUES[usize::from(c)] & 0x80)) == 0;
    is_alphabet && (rest.is_empty() || decode_group(rest, &STANDARD_VALUES).is_some())
}

/// base64url without padding.
pub fn encode_url(bytes: &[u8]) -> String {
    encode_unpadded(bytes, URL)
}

/// Strict base64url without padding.
pub fn decode_url(text: &str) -> Option<Vec<u8>> {
    decode_unpadded(text, &URL_VALUES)
}

/// base64url with or without padding, for invite tokens (7.2). Padding that is there must be exact.
pub fn decode_url_lenient(text: &str) -> Option<Vec<u8>> {
    let unpadded = text.trim_end_matches('=');
    let found = text.len() - unpadded.len();
    (found == 0 || found == padding(unpadded.len())).then(|| decode_url(unpadded))?
}

/// The text without its padding, when that is exact.
fn exactly_padded(text: &str) -> Option<&str> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let unpadded = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    // With exact padding, stripping it from a multiple of four cannot leave a whole group less one or two.
    (text.len() - unpadded.len() == padding(unpadded.len())).then_some(unpadded)
}

/// The number of `=` after so many characters.
fn padding(characters: usize) -> usize {
    (4 - characters % 4) % 4
}

fn encode_unpadded(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().enumerate().fold(0, |bits, (i, &byte)| bits | u32::from(byte) << (16 - 8 * i));
        for i in 0..=group.len() {
            text.push(char::from(alphabet[(bits >> (18 - 6 * i)) as usize & 63]));
        }
    }
    text
}

fn decode_unpadded(text: &str, values: &[u8; 256]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.as_bytes().chunks(4) {
        let (decoded, len) = decode_group(group, values)?;
        bytes.extend_from_slice(&decoded[..len]);
    }
    Some(bytes)
}

/// The bytes of one group of 1 to 4 characters, and how many they are.
fn decode_group(group: &[u8], values: &[u8; 256]) -> Option<([u8; 3], usize)> {
    let mut bits = 0;
    for (i, &character) in group.iter().enumerate() {
        let value = values[usize::from(character)];
        if value == NONE {
            return None;
        }
        bits |= u32::from(value) << (18 - 6 * i);
    }
    let [_, decoded @ ..] = bits.to_be_bytes();
    let len = group.len() - 1;
    let is_exact = len > 0 && decoded[len..].iter().all(|&byte| byte == 0);
    is_exact.then_some((decoded, len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encodes_the_examples_of_rfc_4648() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(plain.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(plain.as_bytes()));
            assert_eq!(encode_url(plain.as_bytes()), text.trim_end_matches('='));
        }
        assert_eq!(encode(&[0xfb, 0xff]), "+/8=");
        assert_eq!(encode_url(&[0xfb, 0xff]), "-_8");
    }

    #[test]
    fn refuses_every_second_spelling() {
        for text in
            ["Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm9v=", "Z", "Zg==\n", " Zg==", "Z=g=", "=", "====", "-_8=", "é==="]
        {
            assert_eq!(decode(text), None, "{text:?}");
        }
        for text in ["Zg==", "Zh", "Z", "+/8", "Zm9v Zg"] {
            assert_eq!(decode_url(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_lenient_reader_takes_padding_or_none() {
        for text in ["-_8", "-_8="] {
            assert_eq!(decode_url_lenient(text), Some(vec![0xfb, 0xff]));
        }
        for text in ["-_8==", "-_9", "Zm9v=", "Zm9v===="] {
            assert_eq!(decode_url_lenient(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_encoded(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes.clone()));
            prop_assert_eq!(decode_url(&encode_url(&bytes)), Some(bytes));
        }

        #[test]
        fn what_decodes_encodes_to_the_same_text(text in "[A-Za-z0-9+/=_-]{0,24}") {
            prop_assert_eq!(is_strict(&text), decode(&text).is_some());
            if let Some(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text.clone());
            }
            if let Some(bytes) = decode_url(&text) {
                prop_assert_eq!(encode_url(&bytes), text);
            }
        }
    }
}
