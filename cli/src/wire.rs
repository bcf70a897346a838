//! Values as `--json` prints them.

use muretai_protocol::{UnixSeconds, json::Value};
use serde_json::value::RawValue;

/// A value from the wire, its numbers spelled as they were received.
pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    raw_text(value.to_json())
}

/// JSON text that was written by the protocol crate, as it is; anything else as a string.
pub(crate) fn raw_text(text: String) -> Box<RawValue> {
    RawValue::from_string(text.clone()).or_else(|_| serde_json::value::to_raw_value(&text)).expect("a string is JSON")
}

/// `YYYY-MM-DDTHH:MM:SSZ`, for people's programs and for the wire alike.
pub(crate) fn time(time: UnixSeconds) -> String {
    time.to_iso()
}
