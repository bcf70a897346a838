//! base58btc, over numbers short enough that its quadratic cost does not matter.

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const NONE: u8 = 0xff;
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < 58 {
        values[ALPHABET[value as usize] as usize] = value;
        value += 1;
    }
    values
};

/// Characters per step: 58^10 is the largest power that fits a limb.
const STEP: usize = 10;

/// Encodes; each leading zero byte is a leading `1`.
pub(super) fn encode(bytes: &[u8]) -> String {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    // Digits of base 58, the lowest first.
    let mut digits: Vec<u8> = Vec::with_capacity(bytes.len() * 2);
    for &byte in &bytes[zeros..] {
        let mut carry = u32::from(byte);
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let ones = std::iter::repeat_n(0, zeros);
    ones.chain(digits.into_iter().rev()).map(|digit| char::from(ALPHABET[usize::from(digit)])).collect()
}

/// Decodes, or says at which byte the first character outside the alphabet stands. The caller bounds the length.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let ones = text.bytes().take_while(|&character| character == b'1').count();
    // The number in base 2^64, the lowest limb first.
    let mut limbs: Vec<u64> = Vec::with_capacity(text.len() / STEP + 1);
    for (step, characters) in text.as_bytes()[ones..].chunks(STEP).enumerate() {
        let (mut factor, mut carry) = (1u64, 0u64);
        for (i, &character) in characters.iter().enumerate() {
            let value = VALUES[usize::from(character)];
            if value == NONE {
                return Err(ones + step * STEP + i);
            }
            factor *= 58;
            carry = carry * 58 + u64::from(value);
        }
        for limb in &mut limbs {
            let wide = u128::from(*limb) * u128::from(factor) + u128::from(carry);
            *limb = wide as u64;
            carry = (wide >> 64) as u64;
        }
        if carry > 0 {
            limbs.push(carry);
        }
    }
    let mut bytes = vec![0; ones];
    bytes.extend(limbs.iter().rev().flat_map(|limb| limb.to_be_bytes()).skip_while(|&byte| byte == 0));
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn agrees_with_known_answers() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"\0", "1"),
            (b"\0\0\x01", "112"),
            (b"Hello World!", "2NEpo7TZRRrLZSi2U"),
            (b"\0\0\x28\x7f\xb4\xcd", "11233QC4"),
            (&[0xff; 8], "jpXCZedGfVQ"),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).as_deref(), Ok(bytes));
        }
    }

    #[test]
    fn names_the_first_foreign_character() {
        for (text, at) in [("0", 0), ("1O", 1), ("11111111111l", 11), ("2NEpo7TZRRrI", 11), ("zé", 1)] {
            assert_eq!(decode(text), Err(at), "{text}");
        }
    }

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_encoded(zeros in 0usize..4, bytes: Vec<u8>) {
            let bytes = [vec![0; zeros], bytes].concat();
            prop_assert_eq!(decode(&encode(&bytes)), Ok(bytes));
        }
    }
}
