//! Requests and answers, typed.
use std::fmt;

/// What a plugin is and offers. The owner sees it before the plugin is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Short, for logs and commands.
    pub name: String,
    /// The plugin's own version.
    pub version: String,
    /// One sentence.
    pub description: String,
    /// Skills, as the agent card lists them.
    pub skills: Vec<SkillInfo>,
    /// There is a trust policy.
    pub has_policy: bool,
}

impl About {
    /// Offers nothing yet.
    pub fn new(name: &str, version: &str, description: &str) -> About {
        About {
            name: name.into(),
            version: version.into(),
            description: description.into(),
            skills: Vec::new(),
            has_policy: false,
        }
    }
    /// Adds a skill.
    #[must_use]
    pub fn skill(mut self, skill: SkillInfo) -> About {
        self.skills.push(skill);
        self
    }
    /// Says that there is a trust policy.
    #[must_use]
    pub fn policy(mut self) -> About {
        self.has_policy = true;
        self
    }
}

/// A skill as the agent card shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillInfo {
    /// What a message begins with to reach it.
    pub id: String,
    /// For people.
    pub name: String,
    /// For people.
    pub description: String,
    /// For search.
    pub tags: Vec<String>,
    /// Messages that it answers, without the id in front.
    pub examples: Vec<String>,
}

impl SkillInfo {
    /// Without tags and examples.
    pub fn new(id: &str, name: &str, description: &str) -> SkillInfo {
        SkillInfo {
            id: id.into(),
            name: name.into(),
            description: description.into(),
            tags: Vec::new(),
            examples: Vec::new(),
        }
    }
    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: &str) -> SkillInfo {
        self.tags.push(tag.into());
        self
    }
    /// Adds an example.
    #[must_use]
    pub fn example(mut self, example: &str) -> SkillInfo {
        self.examples.push(example.into());
        self
    }
}

/// What the owner has decided about a sender. Somebody who is blocked is shown as [`Contact::None`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact {
    /// Nothing.
    None,
    /// A direct contact.
    Direct,
    /// Introduced by a direct contact.
    Introduced,
}

/// Who wrote. The signature was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The DID that signed.
    pub did: String,
    /// What the owner decided.
    pub contact: Contact,
}

/// A message to a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillRequest {
    /// Which of the plugin's skills is meant.
    pub skill: String,
    /// The text, without the skill's id when that was the first word.
    pub text: String,
    /// Who wrote it.
    pub from: Sender,
    /// The message's id.
    pub message_id: String,
    /// The conversation, when the sender named one.
    pub context_id: Option<String>,
    /// The agent's clock, seconds since 1970.
    pub now: i64,
}

/// Something that a client may offer to its user instead of typing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedCommand {
    /// The first word of the message that is sent.
    pub keyword: String,
    /// What is shown.
    pub label: String,
    /// What follows the keyword, for the user to fill in.
    pub params: Option<String>,
}

/// The answer of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// What the sender reads.
    pub text: String,
    /// What a client may offer next.
    pub commands: Vec<OfferedCommand>,
}

impl Reply {
    /// A text and no commands.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply { text: text.into(), commands: Vec::new() }
    }
    /// Adds a command.
    #[must_use]
    pub fn command(mut self, keyword: &str, label: &str, params: Option<&str>) -> Reply {
        self.commands.push(OfferedCommand {
            keyword: keyword.into(),
            label: label.into(),
            params: params.map(str::to_owned),
        });
        self
    }
}

/// An introduction whose proof verified, for this sender and this agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Who vouches.
    pub issuer: String,
    /// The issuer is a direct contact.
    pub is_issuer_direct: bool,
    /// The owner accepted it.
    pub is_accepted: bool,
    /// Its issuer took it back, as far as is known.
    pub is_revoked: bool,
    /// 0 to 1000.
    pub trust_level_bp: Option<u16>,
    /// What the issuer says that the sender knows.
    pub expertise: Vec<String>,
    /// The first second in which it is no longer valid.
    pub valid_until: i64,
}

/// A sender that asks to be let in. The signature was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applicant {
    /// `message/send`, `connect/request` …
    pub method: String,
    /// The DID that signed.
    pub from: String,
    /// What the owner decided.
    pub contact: Contact,
    /// Verified facts only.
    pub introduction: Option<Introduction>,
    /// A domain that was proven to be the sender's, lately.
    pub domain: Option<String>,
    /// The agent's clock, seconds since 1970.
    pub now: i64,
}

/// What a policy says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Let it in.
    Allow,
    /// Refuse it, with a code of the protocol's table (the host's default when there is none).
    Refuse {
        /// -32010 …
        code: Option<i32>,
        /// What the sender reads: one line of at most 200 characters.
        detail: Option<String>,
        /// Seconds after which it may try again. With code -32004 only.
        retry_after: Option<u32>,
    },
    /// Put it before the owner.
    Hold,
    /// Not for this policy to say.
    Pass,
}

impl Decision {
    /// Refuses as every stranger is refused, so that the policy does not show.
    pub fn refuse() -> Decision {
        Decision::Refuse { code: None, detail: None, retry_after: None }
    }
}

/// Why something failed: one text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub String);

impl Error {
    /// From anything that reads as text.
    pub fn new(text: impl Into<String>) -> Error {
        Error(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<String> for Error {
    fn from(text: String) -> Error {
        Error(text)
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Error {
        Error(text.to_owned())
    }
}
