//! `NUMBER UNIT in UNIT`.
use muretai_plugin::Error;

use crate::{
    rational::Rational,
    table::{self, TEMPERATURE, Unit},
};

/// Longest text that is looked at, in bytes.
const MAX_BYTES: usize = 200;
/// What may stand between the two units.
const BETWEEN: [&str; 6] = ["in", "to", "into", "as", "->", "→"];
const HINT: &str = "ask for example `5 km in mi`";

/// Answers a question, with so many significant digits.
pub(crate) fn answer(text: &str, digits: usize) -> Result<String, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error(format!("that is longer than a question; {HINT}")));
    }
    let text = text.trim_end_matches(['?', '.', '!', '=']).trim_end();
    let (number, rest) = split_number(text);
    if number.is_empty() {
        return Err(Error(format!("there is no number at the beginning; {HINT}")));
    }
    let value = Rational::parse(number).ok_or_else(|| {
        Error(format!(
            "`{}` is no number that I can read; a decimal point is `.`, and up to 18 digits are fine",
            shown(number)
        ))
    })?;
    let (from, to) = split_units(rest)?;
    let (from, to) = (unit(&from)?, unit(&to)?);
    if from.kind != to.kind {
        let (a, b) = (from, to);
        return Err(Error(format!(
            "`{}` is {} and `{}` is {}: the two have nothing in common",
            a.symbol, a.kind, b.symbol, b.kind
        )));
    }
    let (printed, is_exact) = convert(value, from, to)?.print(digits);
    Ok(format!("{number} {} {} {printed} {}", from.symbol, if is_exact { '=' } else { '≈' }, to.symbol))
}

fn convert(value: Rational, from: &Unit, to: &Unit) -> Result<Rational, Error> {
    let base = (|| value.times(from.factor()?)?.plus(from.zero()?))();
    let base = base.ok_or("that is too large or too fine for me")?;
    if from.kind == TEMPERATURE && base.is_negative() {
        return Err(Error::new("that is below absolute zero"));
    }
    let converted = (|| base.minus(to.zero()?)?.over(to.factor()?))();
    converted.ok_or_else(|| Error::new("that is too large or too fine for me"))
}

/// The number in front, and the rest without space around it. A unit may follow at once: `5km`.
fn split_number(text: &str) -> (&str, &str) {
    let mut end = 0;
    for (i, c) in text.char_indices() {
        let next = text[i + c.len_utf8()..].chars().next();
        let is_part = match c {
            '0'..='9' | '.' | ',' | '/' => true,
            '+' | '-' => i == 0 || text[..i].ends_with(['e', 'E']),
            // Of an exponent, not of a unit.
            'e' | 'E' => i > 0 && next.is_some_and(|next| next.is_ascii_digit() || next == '-' || next == '+'),
            _ => false,
        };
        if !is_part {
            break;
        }
        end = i + c.len_utf8();
    }
    (&text[..end], text[end..].trim())
}

/// What stands before and behind the last word between. `in` may also be an inch: `5 in in cm`, `5 cm in in`.
fn split_units(text: &str) -> Result<(String, String), Error> {
    let words: Vec<_> = text.split_whitespace().collect();
    let is_between = |i: &usize| BETWEEN.contains(&words[*i].to_lowercase().as_str());
    match (1..words.len().saturating_sub(1)).rev().find(is_between) {
        Some(i) => Ok((words[..i].join(" "), words[i + 1..].join(" "))),
        None if words.is_empty() => Err(Error(format!("a number of what? {HINT}"))),
        None => Err(Error(format!("into which unit? {HINT}"))),
    }
}

fn unit(text: &str) -> Result<&'static Unit, Error> {
    let unknown = || Error(format!("I do not know the unit `{}`; `list` names those that I know", shown(text)));
    table::find(text).ok_or_else(unknown)
}

/// A piece of somebody's text as it may be quoted back.
pub(crate) fn shown(text: &str) -> String {
    let tame = text.chars().map(|c| if c.is_control() || c == '`' { '\u{fffd}' } else { c });
    let mut shown: String = tame.clone().take(40).collect();
    if tame.count() > 40 {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_understood_in_many_ways() {
        for (question, expected) in [
            ("1 mi in km", "1 mi = 1.609344 km"),
            ("1 mile to kilometres", "1 mi = 1.609344 km"),
            ("5km in m", "5 km = 5000 m"),
            ("5 in in cm?", "5 in = 12.7 cm"),
            ("12.7 cm in in", "12.7 cm = 5 in"),
            ("6 feet -> m", "6 ft = 1.8288 m"),
            ("1/2 inch in mm", "1/2 in = 12.7 mm"),
            ("-40 F in C", "-40 °F = -40 °C"),
            ("0 celsius as kelvin", "0 °C = 273.15 K"),
            ("100 °C in °F", "100 °C = 212 °F"),
            ("1e3 g in kg", "1e3 g = 1 kg"),
            ("10 lbs in kg", "10 lb = 4.5359237 kg"),
            ("1 nautical mile in m", "1 nmi = 1852 m"),
            ("60 miles per hour in km/h", "60 mph = 96.56064 km/h"),
            ("1 MiB in kB", "1 MiB = 1048.576 kB"),
            ("8 Mbit in MB", "8 Mbit = 1 MB"),
            ("1 kWh in kJ", "1 kWh = 3600 kJ"),
            ("1 gal in floz", "1 gal = 128 floz"),
            ("1 acre in ft2", "1 ac = 43560 ft²"),
            ("2 weeks in h", "2 week = 336 h"),
            ("1 atm in psi", "1 atm ≈ 14.69594878 psi"),
        ] {
            assert_eq!(answer(question, 10), Ok(expected.to_owned()), "{question}");
        }
    }

    #[test]
    fn there_and_back_is_exact() {
        for (a, b) in [("mi", "km"), ("°F", "°C"), ("psi", "bar"), ("floz", "ml"), ("GiB", "GB"), ("kn", "mph")] {
            let (a, b) = (unit(a).unwrap(), unit(b).unwrap());
            let value = Rational::parse("123.456").unwrap();
            assert_eq!(convert(convert(value, a, b).unwrap(), b, a).unwrap(), value);
        }
    }

    #[test]
    fn errors_say_what_may_be_done() {
        for (question, hint) in [
            ("how long is a mile", "no number"),
            ("5", "a number of what"),
            ("5 km", "into which unit"),
            ("5 km in", "into which unit"),
            ("5 km in parsec", "I do not know the unit `parsec`"),
            ("5 km in kg", "`km` is length and `kg` is mass"),
            ("1,5 km in m", "decimal point"),
            ("1/0 km in m", "no number"),
            ("-1 K in °C", "absolute zero"),
            ("1e18 ly in nm", "too large"),
        ] {
            let error = answer(question, 10).unwrap_err().0;
            assert!(error.contains(hint), "{question}: {error}");
        }
    }

    #[test]
    fn whatever_is_asked_nothing_panics_and_quotes_stay_short() {
        for text in [
            "5 \u{1b}[31mkm in m",
            "５ km in m",
            "5 ° in °",
            "é",
            "-",
            "+e",
            "1e",
            "1ee3 m in m",
            "5 in in in in",
            "→ → →",
        ] {
            let _ = answer(text, 10);
        }
        let error = answer(&format!("5 {} in m", "x".repeat(150)), 10).unwrap_err().0;
        assert!(error.len() < 150, "{error}");
        assert!(!answer("5 \u{1b}[31m in m", 10).unwrap_err().0.contains('\u{1b}'));
        assert!(answer(&"5".repeat(1000), 10).is_err());
    }
}
