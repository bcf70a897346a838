//! The own card, as it is served and as `muretai card` prints it.
use crate::Agent;
use muretai_protocol::json::Value;

impl Agent {
    /// The card for a public base URL (or `""`), and whether strangers are answered.
    pub fn card(&self, _url: &str, _open_door: bool) -> Value {
        todo!()
    }
}
