//! Values of flags: spans of time, sizes, numbers and rates.

use std::time::Duration;

use muretai_node::receive::rate::RateLimit;
use muretai_protocol::urls;

/// The longest span that a flag may name: ten years, so that no sum of times overflows.
const MAX_SPAN_SECS: u64 = 10 * 365 * 86_400;

/// Reads a span of time such as `30s`, `1d12h` or `500ms`; a bare number is seconds. Zero is refused.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    if rest.bytes().all(|byte| byte.is_ascii_digit()) {
        total = Duration::from_secs(number(rest)?);
        rest = "";
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (count, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let part = Duration::from_millis(unit_millis(unit)?.checked_mul(number(count)?).ok_or_else(too_long)?);
        total = total.checked_add(part).ok_or_else(too_long)?;
        rest = tail;
    }
    if total.is_zero() {
        return Err("a span of time is longer than zero".to_owned());
    }
    if total > Duration::from_secs(MAX_SPAN_SECS) { Err(too_long()) } else { Ok(total) }
}

fn unit_millis(unit: &str) -> Result<u64, String> {
    Ok(match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        _ => return Err("write a span of time as 30s, 15m, 12h, 7d or 2w".to_owned()),
    })
}

fn number(digits: &str) -> Result<u64, String> {
    if digits.is_empty() {
        return Err("write a span of time as 30s, 15m, 12h, 7d or 2w".to_owned());
    }
    digits.parse().map_err(|_| too_long())
}

fn too_long() -> String {
    "a span of time is at most ten years".to_owned()
}

/// The largest size that a flag may name: 1 EiB, so that no sum of sizes overflows.
const MAX_SIZE: u64 = 1 << 60;

/// Reads a number of bytes from 1: `1048576`, `512KiB`, `16MiB` or `2GiB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let refused = || "write a size in bytes, or as 512KiB, 16MiB or 2GiB".to_owned();
    let (number, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let unit: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(refused()),
    };
    let number: u64 = if number.is_empty() { return Err(refused()) } else { number.parse().unwrap_or(u64::MAX) };
    match number.checked_mul(unit).filter(|size| *size <= MAX_SIZE) {
        Some(0) => Err("a size is at least one byte".to_owned()),
        Some(size) => Ok(size),
        None => Err("a size is at most 1048576TiB".to_owned()),
    }
}

/// A bound that `off` takes away; then it is 0. A type of its own, because `off` is a value too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound(pub(crate) u64);

/// Reads a size or a number from 1, or `off`.
pub(crate) fn bound(text: &str) -> Result<Bound, String> {
    if text == "off" { Ok(Bound(0)) } else { size(text).map(Bound).map_err(|reason| format!("{reason}, or `off`")) }
}

/// How often something may be done in a minute; `None` is `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PerMinute(pub(crate) Option<u32>);

/// Reads a number from 1, or `off`.
pub(crate) fn per_minute(text: &str) -> Result<PerMinute, String> {
    if text == "off" {
        Ok(PerMinute(None))
    } else {
        at_least_one(text).map(|number| PerMinute(Some(number))).map_err(|reason| format!("{reason}, or `off`"))
    }
}

/// Reads a number from 0.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("write a number from 0 to {}", u32::MAX))
}

/// Reads a number from 1.
pub(crate) fn at_least_one(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("write a number from 1 to {}", u32::MAX)),
        Ok(number) => Ok(number),
    }
}

/// Reads the number of a message.
pub(crate) fn message_number(text: &str) -> Result<i64, String> {
    match text.parse() {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err("write the number of a message, such as 120; 0 is before the first".to_owned()),
    }
}

/// Reads the address of a relay, and gives its canonical spelling.
pub(crate) fn relay(text: &str) -> Result<String, String> {
    let base = urls::canonical_base(text.trim()).map_err(|error| error.to_string())?;
    match urls::is_plain_url(&base) && !urls::is_wildcard(&base) {
        true => Ok(base),
        false => Err("write the address of a relay as https://relay.example".to_owned()),
    }
}

/// Reads the number of a descriptor that may hold a secret: standard output and standard error are written to.
pub(crate) fn descriptor(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(1 | 2) => Err("that is written to, not read; use 0 (standard input) or 3 and above".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("write the number of an open descriptor, such as 3".to_owned()),
    }
}

/// Reads the number of a request: `3`, or `#3` as it is shown.
pub(crate) fn request_number(text: &str) -> Result<i64, String> {
    match text.strip_prefix('#').unwrap_or(text).parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("write the number of a request as `muretai requests` shows it, such as 3".to_owned()),
    }
}

/// Reads how far somebody is trusted, 0 to 1 in steps of a thousandth, as the wire's thousandths.
pub(crate) fn level(text: &str) -> Result<u16, String> {
    let refused = || "write a level from 0 to 1 with at most three decimals, such as 0.8".to_owned();
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || whole.len() > 1 || decimals.len() > 3 {
        return Err(refused());
    }
    let thousandths: u16 = format!("{whole}{decimals:0<3}").parse().map_err(|_| refused())?;
    if thousandths > 1_000 { Err(refused()) } else { Ok(thousandths) }
}

/// Reads text that says something.
pub(crate) fn not_blank(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// What `--rate-limit` says. A type of its own, because `off` is a value too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) Option<RateLimit>);

/// Reads `N`, `N/TOTAL` or `off`. Without TOTAL the default total holds, or N where that is more.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    if text == "off" {
        return Ok(Rate(None));
    }
    let count = |digits: &str| match digits.parse::<u32>() {
        Ok(0) => Err("a rate limit of 0 would answer nobody; `off` removes the limit".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("write a rate limit as N, N/TOTAL or off".to_owned()),
    };
    let (per_account, total) = match text.split_once('/') {
        Some((per_account, total)) => (count(per_account)?, count(total)?),
        None => {
            let per_account = count(text)?;
            (per_account, RateLimit::default().total.max(per_account))
        }
    };
    if total < per_account {
        return Err(format!("the total, {total}, is less than what one account may use, {per_account}"));
    }
    Ok(Rate(Some(RateLimit { per_account, total })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        let secs = |n| Ok(Duration::from_secs(n));
        assert_eq!(duration("90"), secs(90));
        assert_eq!(duration(" 30s "), secs(30));
        assert_eq!(duration("15m"), secs(900));
        assert_eq!(duration("1d12h"), secs(129_600));
        assert_eq!(duration("2w"), secs(1_209_600));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
    }

    #[test]
    fn durations_that_make_no_sense_are_refused() {
        for text in [
            "",
            "0",
            "0s",
            "s",
            "5 s",
            "-1",
            "1y",
            "1.5h",
            "d7",
            "99999999999999999999",
            "9999w",
            "18446744073709551615w",
        ] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn sizes_have_units_and_bounds_can_be_off() {
        assert_eq!([size("1"), size("512KiB"), size("16MiB")], [Ok(1), Ok(524_288), Ok(16_777_216)]);
        assert_eq!((size("1048576TiB"), size("7B")), (Ok(MAX_SIZE), Ok(7)));
        for text in
            ["", "0", "0MiB", "KiB", "1 MiB", "1MB", "1mib", "-1", "1.5MiB", "1048577TiB", "99999999999999999999"]
        {
            assert!(size(text).is_err(), "{text:?}");
        }
        assert_eq!((bound("off"), bound("2GiB"), bound("0").is_err()), (Ok(Bound(0)), Ok(Bound(2 << 30)), true));
        assert_eq!((per_minute("off"), per_minute("6")), (Ok(PerMinute(None)), Ok(PerMinute(Some(6)))));
        assert!(per_minute("0").is_err() && per_minute("x").is_err());
    }

    #[test]
    fn numbers_are_refused_in_plain_words() {
        assert_eq!(count("0"), Ok(0));
        assert!(at_least_one("0").is_err());
        assert!(message_number("-1").is_err());
        assert_eq!((descriptor("0"), descriptor("3")), (Ok(0), Ok(3)));
        assert!(descriptor("1").is_err() && descriptor("2").is_err());
        for reason in [count("x").err(), message_number("x").err(), descriptor("x").err()] {
            assert!(reason.unwrap().starts_with("write "));
        }
        assert!(not_blank(" ").is_err());
    }

    #[test]
    fn a_relay_is_spelled_in_one_way() {
        assert_eq!(relay(" https://Relay.Example/ "), Ok("https://relay.example".to_owned()));
        assert_eq!(relay("http://127.0.0.1:8421"), Ok("http://127.0.0.1:8421".to_owned()));
        for text in
            ["", "relay.example", "ftp://relay.example", "https://relay.example/?x", "http://0.0.0.0:8421", "https://"]
        {
            assert!(relay(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn levels_are_thousandths_and_requests_have_numbers() {
        assert_eq!([level("0"), level("1"), level("1.0"), level("0.8")], [Ok(0), Ok(1_000), Ok(1_000), Ok(800)]);
        assert_eq!([level("0.05"), level("0.125")], [Ok(50), Ok(125)]);
        for text in ["", ".5", "1.", "1.001", "2", "-0.5", "0.1234", "80%", "1e0", "0,5", "00.5", "+1", "NaN"] {
            assert!(level(text).is_err(), "{text:?}");
        }
        assert_eq!((request_number("3"), request_number("#12")), (Ok(3), Ok(12)));
        assert!(["", "0", "-1", "#", "##1", "x"].into_iter().all(|text| request_number(text).is_err()));
    }

    #[test]
    fn rates_read_with_and_without_a_total() {
        let limit = |per_account, total| Ok(Rate(Some(RateLimit { per_account, total })));
        assert_eq!(rate("off"), Ok(Rate(None)));
        assert_eq!(rate("5"), limit(5, 600));
        assert_eq!(rate("1000"), limit(1000, 1000));
        assert_eq!(rate("5/20"), limit(5, 20));
        for text in ["", "0", "5/0", "20/5", "/", "5/", "-1", "off/5", "1.5", "99999999999"] {
            assert!(rate(text).is_err(), "{text:?}");
        }
    }
}
