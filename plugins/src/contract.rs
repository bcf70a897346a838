//! The JSON that crosses between the host and its plugins: declarations, calls of skills, calls of trust policies.
//!
//! Strict on the way in: a plugin's answer is bounded and of exactly one shape, unknown members are passed over so that
//! later versions can add some, and everything else is a [`PluginFault`]. The same for native and WebAssembly plugins;
//! written down for authors in `plugins/README.md`.
mod declaration;
mod policy;
mod read;
mod skill;

pub use declaration::Declaration;
pub use policy::{PolicyAnswer, policy_request};
pub use skill::{SkillAnswer, skill_request};

/// Version of the interface: of the exported functions and of the documents.
pub const ABI_VERSION: u32 = 1;
/// Characters of a plugin's name, of a skill's id and of a command's keyword.
pub const MAX_NAME_CHARS: usize = 32;
/// Skills of one plugin.
pub const MAX_SKILLS: usize = 16;
/// Examples of one skill.
pub const MAX_EXAMPLES: usize = 8;
/// Tags of one skill.
pub const MAX_TAGS: usize = 8;
/// Commands beside one answer.
pub const MAX_COMMANDS: usize = 16;
/// Bytes of a version, a label, a tag or a skill's name for people.
pub const MAX_LABEL_BYTES: usize = 100;
/// Bytes of a description or an example.
pub const MAX_DESCRIPTION_BYTES: usize = 500;
/// Characters of what a policy tells a sender.
pub const MAX_DETAIL_CHARS: usize = 200;
/// Seconds that a policy may ask a sender to wait: a week.
pub const MAX_RETRY_SECS: i64 = 604_800;

use crate::{ContactState, engine::PluginFault};

/// Whether a text can be the name of a plugin or the id of a skill: `[a-z0-9][a-z0-9-]{0,31}`.
pub fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_CHARS).contains(&text.len())
        && !text.starts_with('-')
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// Checks the answer to the opening call: an object without `error`.
pub fn check_opened(bytes: &[u8]) -> Result<(), PluginFault> {
    read::document(bytes).map(|_| ())
}

/// How a contact state is spelled in a request.
fn contact_word(contact: ContactState) -> &'static str {
    match contact {
        ContactState::None => "none",
        ContactState::Direct => "direct",
        ContactState::Introduced => "introduced",
    }
}
