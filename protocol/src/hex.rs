//! Hexadecimal, as keys travel in cards.

/// Lower-case digits.
pub(crate) fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).map(char::from).collect()
}

/// Exactly `N` bytes, in either case; anything else is `None`.
pub(crate) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |c: u8| char::from(c).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_has_a_length_and_two_cases() {
        assert_eq!(encode(&[0, 0xaf, 0x10]), "00af10");
        assert_eq!(decode("00Af10"), Some([0, 0xaf, 0x10]));
        for bad in ["00af1", "00af1g", "00af1000", "+0af10", "é0af1"] {
            assert_eq!(decode::<3>(bad), None, "{bad}");
        }
    }
}
