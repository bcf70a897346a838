//! Times as people read them: local, to the second.

use jiff::{Timestamp, tz::TimeZone};
use muretai_protocol::UnixSeconds;

/// `2026-11-30 12:41:17`, in the zone of `TZ` or of the system. Times out of range are shown as seconds.
pub(crate) fn local(time: UnixSeconds) -> String {
    shown_in(time, &TimeZone::system())
}

/// How long ago that was, or how far ahead it is: `now`, `5 min ago`, `in 30 days`.
pub(crate) fn distance(time: UnixSeconds, now: UnixSeconds) -> String {
    let secs = time.0.abs_diff(now.0);
    let is_past = time.0 < now.0;
    // What is yet to come is rounded: a week that has just begun is seven days.
    let count = |unit: u64| if is_past { secs / unit } else { secs.saturating_add(unit / 2) / unit };
    let span = match secs {
        0..30 => return "now".to_owned(),
        30..90 => "1 min".to_owned(),
        90..5_400 => format!("{} min", count(60)),
        5_400..172_800 => format!("{} h", count(3_600)),
        _ => format!("{} days", count(86_400)),
    };
    if is_past { format!("{span} ago") } else { format!("in {span}") }
}

fn shown_in(time: UnixSeconds, zone: &TimeZone) -> String {
    match Timestamp::from_second(time.0) {
        Ok(instant) => instant.to_zoned_datetime(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => format!("@{}", time.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_read_as_people_say_them() {
        let at = |secs: i64| distance(UnixSeconds(1_000_000 + secs), UnixSeconds(1_000_000));
        assert_eq!([at(0), at(-29), at(-30), at(-89)], ["now", "now", "1 min ago", "1 min ago"]);
        assert_eq!([at(-300), at(-5_399), at(-7_200)], ["5 min ago", "89 min ago", "2 h ago"]);
        assert_eq!([at(30 * 86_400), at(7 * 86_400 - 5)], ["in 30 days", "in 7 days"]);
        assert_eq!([at(5_390), at(7_100)], ["in 90 min", "in 2 h"]);
        assert!(distance(UnixSeconds(i64::MAX), UnixSeconds(i64::MIN)).starts_with("in "));
    }

    #[test]
    fn shows_any_time_without_a_panic() {
        assert_eq!(shown_in(UnixSeconds(0), &TimeZone::UTC), "1970-01-01 00:00:00");
        assert_eq!(shown_in(UnixSeconds(i64::MAX), &TimeZone::UTC), format!("@{}", i64::MAX));
        assert_eq!(shown_in(UnixSeconds(i64::MIN), &TimeZone::UTC), format!("@{}", i64::MIN));
    }
}
