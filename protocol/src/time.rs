//! Times as the wire spells them.

/// Whole seconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub i64);

impl UnixSeconds {
    /// `YYYY-MM-DDTHH:MM:SSZ`.
    pub fn to_iso(self) -> String {
        todo!()
    }
    /// Reads exactly `YYYY-MM-DDTHH:MM:SSZ`.
    pub fn from_iso(_text: &str) -> Option<UnixSeconds> {
        todo!()
    }
}
