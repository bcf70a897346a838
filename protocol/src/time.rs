//! Times as the wire spells them.

const SECS_PER_DAY: i64 = 86_400;
/// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59Z: what four digits of year can say.
const FIRST: i64 = -62_167_219_200;
const LAST: i64 = 253_402_300_799;

/// Whole seconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub i64);

impl UnixSeconds {
    /// `YYYY-MM-DDTHH:MM:SSZ`; times outside the years 0 to 9999 are written as the nearest one inside.
    pub fn to_iso(self) -> String {
        let secs = self.0.clamp(FIRST, LAST);
        let (year, month, day) = civil_from_days(secs.div_euclid(SECS_PER_DAY));
        let second = secs.rem_euclid(SECS_PER_DAY);
        format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
    }

    /// Reads exactly `YYYY-MM-DDTHH:MM:SSZ`, a time that exists: no leap seconds, no 30 February.
    pub fn from_iso(text: &str) -> Option<UnixSeconds> {
        const LAYOUT: &[u8; 20] = b"0000-00-00T00:00:00Z";
        let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
        let fits = |(byte, layout): (&u8, &u8)| match layout {
            b'0' => byte.is_ascii_digit(),
            _ => byte == layout,
        };
        if !bytes.iter().zip(LAYOUT).all(fits) {
            return None;
        }
        let number = |from: usize, to: usize| bytes[from..to].iter().fold(0, |n, b| n * 10 + i64::from(b - b'0'));
        let days = days_from_civil(number(0, 4), number(5, 7), number(8, 10));
        let time = UnixSeconds(days * SECS_PER_DAY + number(11, 13) * 3600 + number(14, 16) * 60 + number(17, 19));
        // What does not exist, such as month 13 or second 60, comes back spelled otherwise.
        (time.to_iso() == text).then_some(time)
    }
}

/// The date of a day counted from 1970-01-01, in the proleptic Gregorian calendar (Howard Hinnant's algorithm).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spells_known_times() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_784_273_681, "2026-07-17T07:34:41Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (FIRST, "0000-01-01T00:00:00Z"),
            (LAST, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(UnixSeconds(secs).to_iso(), text);
            assert_eq!(UnixSeconds::from_iso(text), Some(UnixSeconds(secs)));
        }
        assert_eq!(UnixSeconds(i64::MAX).to_iso(), "9999-12-31T23:59:59Z");
        assert_eq!(UnixSeconds(i64::MIN).to_iso(), "0000-01-01T00:00:00Z");
    }

    #[test]
    fn refuses_other_spellings_and_times_that_do_not_exist() {
        for text in [
            "",
            "2026-07-17",
            "2026-07-17T07:34:41",
            "2026-07-17t07:34:41z",
            "2026-07-17 07:34:41Z",
            "2026-07-17T07:34:41+00:00",
            "2026-07-17T07:34:41.0Z",
            "2026-7-17T07:34:41Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2016-12-31T23:59:60Z",
            "+026-01-01T00:00:00Z",
            "２026-01-01T00:00:0Z",
        ] {
            assert_eq!(UnixSeconds::from_iso(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn reading_gives_back_what_was_written(secs in FIRST..=LAST) {
            prop_assert_eq!(UnixSeconds::from_iso(&UnixSeconds(secs).to_iso()), Some(UnixSeconds(secs)));
        }
    }
}
