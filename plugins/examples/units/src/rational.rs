//! Fractions of whole numbers, exact or refused.
use std::fmt::Write;

/// Digits of a number that are read, and how far its exponent may go.
const MAX_DIGITS: usize = 18;
const MAX_EXPONENT: i32 = 18;
/// Zeros behind the point before the first other digit that are printed.
const MAX_ZEROS: usize = 40;

/// A fraction in lowest terms; the denominator is positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rational {
    num: i128,
    den: i128,
}

impl Rational {
    /// `None` when it does not fit.
    pub(crate) fn new(num: i128, den: i128) -> Option<Rational> {
        let (num, den) = if den < 0 { (num.checked_neg()?, den.checked_neg()?) } else { (num, den) };
        let divisor = i128::try_from(gcd(num.unsigned_abs(), den.unsigned_abs())).ok().filter(|_| den != 0)?;
        Some(Rational { num: num / divisor, den: den / divisor })
    }

    pub(crate) fn times(self, other: Rational) -> Option<Rational> {
        // Across first, so that the products are as small as they can be.
        let (left, right) = (Rational::new(self.num, other.den)?, Rational::new(other.num, self.den)?);
        Rational::new(left.num.checked_mul(right.num)?, left.den.checked_mul(right.den)?)
    }

    pub(crate) fn over(self, other: Rational) -> Option<Rational> {
        self.times(Rational::new(other.den, other.num)?)
    }

    pub(crate) fn plus(self, other: Rational) -> Option<Rational> {
        let shared = i128::try_from(gcd(self.den.unsigned_abs(), other.den.unsigned_abs())).ok()?;
        let left = self.num.checked_mul(other.den / shared)?;
        let right = other.num.checked_mul(self.den / shared)?;
        Rational::new(left.checked_add(right)?, (self.den / shared).checked_mul(other.den)?)
    }

    pub(crate) fn minus(self, other: Rational) -> Option<Rational> {
        self.plus(Rational { num: other.num.checked_neg()?, den: other.den })
    }

    pub(crate) fn is_negative(self) -> bool {
        self.num < 0
    }

    /// Reads `-12.5`, `1e3`, `1/3`. `None` when it is no number or has too many digits.
    pub(crate) fn parse(text: &str) -> Option<Rational> {
        match text.split_once('/') {
            Some((num, den)) => decimal(num)?.over(decimal(den)?),
            None => decimal(text),
        }
    }

    /// With so many significant digits, and whether that is exact. The digits before the point are always all there.
    pub(crate) fn print(self, digits: usize) -> (String, bool) {
        let den = self.den.unsigned_abs();
        let whole = self.num.unsigned_abs() / den;
        let mut rest = self.num.unsigned_abs() % den;
        let mut left = match whole {
            0 => digits,
            whole => digits.saturating_sub(whole.to_string().len()),
        };
        let mut decimals: Vec<u8> = Vec::new();
        let mut has_begun = whole != 0;
        while rest != 0 && left > 0 && decimals.len() < MAX_ZEROS + digits {
            let Some(more) = rest.checked_mul(10) else { break };
            let digit = (more / den) as u8;
            rest = more % den;
            decimals.push(digit);
            has_begun |= digit != 0;
            left -= usize::from(has_begun);
        }
        let is_exact = rest == 0;
        // Half is rounded away from zero.
        let whole = if rest >= den.div_ceil(2) && rest != 0 { carry(whole, &mut decimals) } else { whole };
        while decimals.last() == Some(&0) {
            decimals.pop();
        }
        let mut out = format!("{}{whole}", if self.num < 0 { "-" } else { "" });
        if !decimals.is_empty() {
            out.push('.');
            for digit in decimals {
                let _ = write!(out, "{digit}");
            }
        }
        (out, is_exact)
    }
}

/// Adds one in the last place.
fn carry(whole: u128, decimals: &mut [u8]) -> u128 {
    for digit in decimals.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return whole;
        }
        *digit = 0;
    }
    whole + 1
}

fn decimal(text: &str) -> Option<Rational> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let digits = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{decimals}");
    let is_number = !whole.is_empty() && all.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || digits.ends_with('.') || all.len() > MAX_DIGITS || exponent.abs() > MAX_EXPONENT {
        return None;
    }
    let sign = if mantissa.starts_with('-') { -1 } else { 1 };
    let shift = exponent - decimals.len() as i32;
    let power = 10i128.checked_pow(shift.unsigned_abs())?;
    let number: i128 = all.parse().ok()?;
    if shift < 0 { Rational::new(sign * number, power) } else { Rational::new((sign * number).checked_mul(power)?, 1) }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, digits: usize) -> String {
        let (number, is_exact) = Rational::parse(text).unwrap().print(digits);
        format!("{}{number}", if is_exact { "" } else { "~" })
    }

    #[test]
    fn numbers_are_printed_as_precisely_as_asked() {
        for (text, digits, printed) in [
            ("0", 10, "0"),
            ("-0.50", 10, "-0.5"),
            ("1/3", 4, "~0.3333"),
            ("2/3", 4, "~0.6667"),
            ("-2/3", 2, "~-0.67"),
            ("1999999/1000", 3, "~2000"),
            ("999.96", 4, "~1000"),
            ("0.00012345", 3, "~0.000123"),
            ("1/2000", 1, "0.0005"),
            ("123456789012345678", 3, "123456789012345678"),
            ("1e-18", 5, "0.000000000000000001"),
            ("+2.5E3", 5, "2500"),
            ("19/2", 1, "~10"),
        ] {
            assert_eq!(shown(text, digits), printed, "{text}");
        }
    }

    #[test]
    fn what_is_no_number_or_too_long_is_refused() {
        for text in [
            "",
            "-",
            ".",
            ".5",
            "5.",
            "1,5",
            "1e",
            "e3",
            "1e19",
            "1e-19",
            "1/0",
            "1/",
            "/2",
            "0x10",
            "1 2",
            "--1",
            "∞",
            "1234567890123456789",
            "1.2.3",
            "１",
        ] {
            assert_eq!(Rational::parse(text), None, "{text}");
        }
    }

    #[test]
    fn arithmetic_that_does_not_fit_is_refused() {
        let large = Rational::parse("1e18").unwrap();
        let larger = large.times(large).unwrap();
        assert_eq!(larger.times(large), None);
        assert_eq!(large.over(Rational::parse("0").unwrap()), None);
        assert_eq!(Rational::new(i128::MIN, -1), None);
        let third = Rational::parse("1/3").unwrap();
        assert_eq!(third.plus(third).unwrap().minus(third), Some(third));
    }
}
