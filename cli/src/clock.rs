//! Times as people read them: local, to the second.

use jiff::{Timestamp, tz::TimeZone};
use muretai_protocol::UnixSeconds;

/// `2026-11-30 12:41:17`, in the zone of `TZ` or of the system. Times out of range are shown as seconds.
pub(crate) fn local(time: UnixSeconds) -> String {
    shown_in(time, &TimeZone::system())
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
    fn shows_any_time_without_a_panic() {
        assert_eq!(shown_in(UnixSeconds(0), &TimeZone::UTC), "1970-01-01 00:00:00");
        assert_eq!(shown_in(UnixSeconds(i64::MAX), &TimeZone::UTC), format!("@{}", i64::MAX));
        assert_eq!(shown_in(UnixSeconds(i64::MIN), &TimeZone::UTC), format!("@{}", i64::MIN));
    }
}
