//! Floats on the verifying side (1.3): CPython's spelling, so that records which old nodes signed still verify.
use crate::limits::MAX_SAFE_INT;

/// The number that `token` spells, as CPython's `repr` writes the float.
///
/// `None` for a non-finite number, and for an integer token: those that agree everywhere are never kept as tokens.
pub(super) fn cpython_repr(token: &str) -> Option<String> {
    let number = float(token)?;
    let scientific = shortest(number.abs());
    let (mantissa, exponent) = scientific.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let sign = if number.is_sign_negative() { "-" } else { "" };
    Some(if (-4..16).contains(&exponent) {
        format!("{sign}{}", plain(mantissa, exponent))
    } else {
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        format!("{sign}{mantissa}e{exponent_sign}{:02}", exponent.unsigned_abs())
    })
}

/// The shortest digits that round-trip, as `d.ddde±x`.
///
/// Of two equally short and equally near ones, such as `…23.2` and `…23.3` for `…23.25`, Rust's shortest form takes the
/// larger and CPython the even one. Rust's exact form rounds to even, so it decides, unless it leaves the float.
fn shortest(number: f64) -> String {
    let shortest = format!("{number:e}");
    let digits = shortest.bytes().take_while(|&byte| byte != b'e').filter(u8::is_ascii_digit).count();
    let even = format!("{number:.*e}", digits - 1);
    match even.parse() == Ok(number) {
        true => even,
        false => shortest,
    }
}

/// Lays out the digits of `mantissa` (`d` or `d.ddd`) without an exponent.
fn plain(mantissa: &str, exponent: i32) -> String {
    let mut digits = mantissa.replace('.', "");
    if exponent < 0 {
        return format!("0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    }
    let whole = exponent as usize + 1;
    while digits.len() <= whole {
        digits.push('0');
    }
    digits.insert(whole, '.');
    digits
}

/// The integer that a float token equals, within ±`MAX_SAFE_INT`.
pub(super) fn integral(token: &str) -> Option<i64> {
    let number = float(token)?;
    (number.fract() == 0.0 && number.abs() <= MAX_SAFE_INT as f64).then_some(number as i64)
}

/// The finite number of a token that has a fraction or an exponent.
fn float(token: &str) -> Option<f64> {
    let is_float = token.contains(['.', 'e', 'E']);
    token.parse::<f64>().ok().filter(|number| is_float && number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spells_floats_as_cpython_does() {
        let cases = [
            ("1.0", "1.0"),
            ("0.0", "0.0"),
            ("-0.0", "-0.0"),
            ("-1.0", "-1.0"),
            ("1e5", "100000.0"),
            ("1.5E+2", "150.0"),
            ("0.1", "0.1"),
            ("0.10", "0.1"),
            ("1785937682.845164", "1785937682.845164"),
            ("0.0001", "0.0001"),
            ("0.00012345", "0.00012345"),
            ("0.00001", "1e-05"),
            ("1e-07", "1e-07"),
            ("1.5e-10", "1.5e-10"),
            ("1e15", "1000000000000000.0"),
            ("9999999999999998.0", "9999999999999998.0"),
            ("1e16", "1e+16"),
            ("12345678901234567890.0", "1.2345678901234567e+19"),
            ("1e22", "1e+22"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("-1e-400", "-0.0"),
            // Two spellings are equally near; the even digit wins.
            ("1791770295115023.25", "1791770295115023.2"),
            ("9007199254740993.0", "9007199254740992.0"),
        ];
        for (token, expected) in cases {
            assert_eq!(cpython_repr(token).as_deref(), Some(expected), "{token}");
        }
    }

    #[test]
    fn refuses_what_is_infinite_or_an_integer() {
        for token in ["1e400", "-1e400", "9007199254740993"] {
            assert_eq!(cpython_repr(token), None, "{token}");
        }
    }

    #[test]
    fn finds_the_integer_of_an_integral_float() {
        assert_eq!(integral("1796037019.0"), Some(1_796_037_019));
        assert_eq!(integral("1.796037019e9"), Some(1_796_037_019));
        for token in ["1.5", "1e400", "1e300", "9007199254740993.0", "9007199254740993"] {
            assert_eq!(integral(token), None, "{token}");
        }
    }
}
