//! The own card, as it is served and as `muretai card` prints it.
use muretai_protocol::{
    card::{self, CardSpec, Profile},
    json::Value,
};

use crate::{Agent, receive::frame::METHODS};

const DESCRIPTION: &str = "An agent on the muretai network. It takes signed messages; a stranger needs an invite.";
const OPEN_DESCRIPTION: &str = "An agent on the muretai network. It takes signed messages from everybody.";

impl Agent {
    /// Builds the card for a public base URL (or `""`), and says in it whether strangers are answered.
    pub fn card(&self, url: &str, open_door: bool) -> Value {
        let enc_pub = self.enc_pub();
        card::build(&CardSpec {
            did: self.did(),
            name: self.name(),
            description: if open_door { OPEN_DESCRIPTION } else { DESCRIPTION },
            url,
            version: env!("CARGO_PKG_VERSION"),
            profile: &Profile::default(),
            enc_pub: Some(&enc_pub),
            open_door,
            methods: METHODS,
            skills: &[],
        })
    }
}
