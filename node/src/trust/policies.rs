//! The owner's settings about trust, kept in the store; a running `serve` follows them within a second, but for `gate`,
//! which it reads when it starts.
//!
//! A stored value that this program does not know (a newer one wrote it, or a hand) is taken for the strictest, and said
//! in the log.
use muretai_protocol::text;
use muretai_store::StoreError;

use super::TrustError;
use crate::Agent;

/// Before a policy's name: its key in the settings.
const KEY: &str = "policy.";

/// Who may write without being known (4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GatePolicy {
    /// Contacts, and whom they introduce.
    #[default]
    Closed,
    /// Everybody; the same as `serve --open-door`.
    Open,
}

/// What happens to an introduction by a direct contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IntroductionPolicy {
    /// The owner decides about each.
    #[default]
    Ask,
    /// It is accepted at once.
    Accept,
}

/// Who may ask to connect (5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConnectPolicy {
    /// Anybody, within bounds; the owner decides.
    #[default]
    Filtered,
    /// Everybody is accepted at once.
    Open,
    /// Nobody.
    Closed,
}

/// Who may ask about third parties (5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrustQueryPolicy {
    /// Nobody: everyone only about oneself.
    #[default]
    SelfOnly,
    /// Direct contacts.
    Trusted,
    /// Everybody.
    Public,
}

/// What happens while a revocation list cannot be read (8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RevocationPolicy {
    /// The introduction stands.
    #[default]
    Pass,
    /// It does not.
    Strict,
}

/// What happens to "who of your contacts knows X?" by a direct contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReferralPolicy {
    /// The owner decides about each.
    #[default]
    Ask,
    /// Contacts whose tags fit are named at once.
    Answer,
    /// Refused.
    Closed,
}

/// Whether a sender who is no direct contact needs a verified domain (4.3, `-32015`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DomainPolicy {
    /// It does not matter.
    #[default]
    Any,
    /// A verdict that is not older than 30 days.
    Required,
}

/// All of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policies {
    /// `gate`
    pub gate: GatePolicy,
    /// `introductions`
    pub introductions: IntroductionPolicy,
    /// `connect`
    pub connect: ConnectPolicy,
    /// `trust-query`
    pub trust_query: TrustQueryPolicy,
    /// `revocation`
    pub revocation: RevocationPolicy,
    /// `referral`
    pub referral: ReferralPolicy,
    /// `domain`
    pub domain: DomainPolicy,
    /// `pending`: how many requests of strangers may wait, 1 to 1,000.
    pub pending: u32,
}

/// One setting as `policy show` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Whether the owner never set it.
    pub is_default: bool,
    /// What may be set.
    pub values: &'static str,
    /// What the value means, one short sentence.
    pub meaning: &'static str,
}

/// Gives a policy its words: for the settings, for `policy set`, for the card. The first is the default's, the strictest
/// is what an unknown word means.
macro_rules! words {
    ($policy:ident, strictest $strictest:ident, $($variant:ident = $word:literal : $meaning:literal),+ $(,)?) => {
        impl $policy {
            const STRICTEST: $policy = $policy::$strictest;

            /// The value as the owner types it.
            pub fn word(self) -> &'static str {
                match self { $($policy::$variant => $word),+ }
            }

            fn of_word(word: &str) -> Option<$policy> {
                match word { $($word => Some($policy::$variant),)+ _ => None }
            }

            fn meaning(self) -> &'static str {
                match self { $($policy::$variant => $meaning),+ }
            }
        }
    };
}

words!(GatePolicy, strictest Closed,
    Closed = "closed": "contacts may write, and whom they introduce",
    Open = "open": "everybody may write; `serve` follows a change when it starts",
);
words!(IntroductionPolicy, strictest Ask,
    Ask = "ask": "the owner decides about each introduction by a contact",
    Accept = "accept": "an introduction by a contact is accepted at once",
);
words!(ConnectPolicy, strictest Closed,
    Filtered = "filtered": "anybody may ask to connect, within bounds; the owner decides",
    Open = "open": "whoever asks to connect is accepted at once",
    Closed = "closed": "nobody may ask to connect",
);
words!(TrustQueryPolicy, strictest SelfOnly,
    SelfOnly = "self": "each peer may ask about itself alone",
    Trusted = "trusted": "contacts may ask about others",
    Public = "public": "everybody may ask about others",
);
words!(RevocationPolicy, strictest Strict,
    Pass = "pass": "an introduction stands while its issuer cannot be asked",
    Strict = "strict": "an introduction does not count while its issuer cannot be asked",
);
words!(ReferralPolicy, strictest Closed,
    Ask = "ask": "the owner decides whom to name to a contact that asks who knows something",
    Answer = "answer": "contacts whose tags fit are named at once to a contact that asks",
    Closed = "closed": "nobody may ask who knows something",
);
words!(DomainPolicy, strictest Required,
    Any = "any": "a sender needs no domain",
    Required = "required": "a sender who is no contact needs a domain that was verified within 30 days",
);

/// Names and values, in the order of `policy show`.
const TABLE: [(&str, &str); 8] = [
    ("gate", "closed|open"),
    ("introductions", "ask|accept"),
    ("connect", "filtered|open|closed"),
    ("trust-query", "self|trusted|public"),
    ("revocation", "pass|strict"),
    ("referral", "ask|answer|closed"),
    ("domain", "any|required"),
    ("pending", "1..1000"),
];

/// How long a verdict about a domain counts.
pub(crate) const DOMAIN_LIFE_SECS: i64 = 30 * 86_400;

/// How many requests of strangers may wait, unless the owner says otherwise.
const DEFAULT_PENDING: u32 = 100;
const MAX_PENDING: u32 = 1_000;
const PENDING_MEANING: &str = "so many requests of strangers may wait for the owner";

impl Default for Policies {
    fn default() -> Policies {
        Policies {
            gate: GatePolicy::default(),
            introductions: IntroductionPolicy::default(),
            connect: ConnectPolicy::default(),
            trust_query: TrustQueryPolicy::default(),
            revocation: RevocationPolicy::default(),
            referral: ReferralPolicy::default(),
            domain: DomainPolicy::default(),
            pending: DEFAULT_PENDING,
        }
    }
}

impl Policies {
    /// Sets what a name says; `false` when the name or its value is unknown, and nothing has changed.
    fn set(&mut self, name: &str, value: &str) -> bool {
        fn put<T>(place: &mut T, value: Option<T>) -> bool {
            value.map(|value| *place = value).is_some()
        }
        match name {
            "gate" => put(&mut self.gate, GatePolicy::of_word(value)),
            "introductions" => put(&mut self.introductions, IntroductionPolicy::of_word(value)),
            "connect" => put(&mut self.connect, ConnectPolicy::of_word(value)),
            "trust-query" => put(&mut self.trust_query, TrustQueryPolicy::of_word(value)),
            "revocation" => put(&mut self.revocation, RevocationPolicy::of_word(value)),
            "referral" => put(&mut self.referral, ReferralPolicy::of_word(value)),
            "domain" => put(&mut self.domain, DomainPolicy::of_word(value)),
            "pending" => put(&mut self.pending, pending_of(value)),
            _ => false,
        }
    }

    /// Takes the strictest value of a name.
    fn tighten(&mut self, name: &str) {
        match name {
            "gate" => self.gate = GatePolicy::STRICTEST,
            "introductions" => self.introductions = IntroductionPolicy::STRICTEST,
            "connect" => self.connect = ConnectPolicy::STRICTEST,
            "trust-query" => self.trust_query = TrustQueryPolicy::STRICTEST,
            "revocation" => self.revocation = RevocationPolicy::STRICTEST,
            "referral" => self.referral = ReferralPolicy::STRICTEST,
            "domain" => self.domain = DomainPolicy::STRICTEST,
            "pending" => self.pending = 1,
            _ => {}
        }
    }

    /// The value of a name and what it means.
    fn shown(&self, name: &str) -> (String, &'static str) {
        let (word, meaning) = match name {
            "gate" => (self.gate.word(), self.gate.meaning()),
            "introductions" => (self.introductions.word(), self.introductions.meaning()),
            "connect" => (self.connect.word(), self.connect.meaning()),
            "trust-query" => (self.trust_query.word(), self.trust_query.meaning()),
            "revocation" => (self.revocation.word(), self.revocation.meaning()),
            "referral" => (self.referral.word(), self.referral.meaning()),
            "domain" => (self.domain.word(), self.domain.meaning()),
            _ => return (self.pending.to_string(), PENDING_MEANING),
        };
        (word.to_owned(), meaning)
    }

    /// What the settings say, by name and value.
    fn of(stored: &[(String, String)]) -> Policies {
        let mut policies = Policies::default();
        for (name, value) in stored {
            if !policies.set(name, value) {
                let value = text::one_line(value, 64);
                tracing::warn!(
                    name,
                    value,
                    "a policy has a value that is unknown here, and is taken for the strictest"
                );
                policies.tighten(name);
            }
        }
        policies
    }

    fn list(&self, stored: &[(String, String)]) -> Vec<Policy> {
        let policy = |(name, values)| {
            let (value, meaning) = self.shown(name);
            Policy { name, value, is_default: stored.iter().all(|(set, _)| set != name), values, meaning }
        };
        TABLE.into_iter().map(policy).collect()
    }
}

fn pending_of(value: &str) -> Option<u32> {
    let is_plain = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    let number = value.parse().ok().filter(|_| is_plain)?;
    (1..=MAX_PENDING).contains(&number).then_some(number)
}

impl Agent {
    /// Reads the settings.
    pub async fn policies(&self) -> Result<Policies, StoreError> {
        Ok(Policies::of(&self.store().settings_under(KEY).await?))
    }

    /// Lists the settings, in a fixed order.
    pub async fn policy_list(&self) -> Result<Vec<Policy>, StoreError> {
        let stored = self.store().settings_under(KEY).await?;
        Ok(Policies::of(&stored).list(&stored))
    }

    /// Changes one. A name or value that is unknown changes nothing.
    ///
    /// # Errors
    /// [`TrustError::NoSuchPolicy`] and [`TrustError::BadValue`], which says what may be set.
    pub async fn set_policy(&self, name: &str, value: &str) -> Result<Policy, TrustError> {
        const SHOWN_CHARS: usize = 64;
        let Some((name, values)) = TABLE.into_iter().find(|(known, _)| *known == name) else {
            return Err(TrustError::NoSuchPolicy { name: text::one_line(name, SHOWN_CHARS) });
        };
        let mut changed = Policies::default();
        if !changed.set(name, value) {
            return Err(TrustError::BadValue { name, value: text::one_line(value, SHOWN_CHARS), values });
        }
        let (value, meaning) = changed.shown(name);
        self.store().set_setting(&format!("{KEY}{name}"), Some(&value)).await?;
        Ok(Policy { name, value, is_default: false, values, meaning })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn every_value_that_is_listed_can_be_set_and_is_read_again() {
        let south = testing::agent("south").await;
        assert_eq!(south.agent.policies().await.unwrap(), Policies::default());
        for (name, values) in TABLE {
            let values = if name == "pending" { "1|7|1000" } else { values };
            for value in values.split('|') {
                let policy = south.agent.set_policy(name, value).await.unwrap();
                assert_eq!((policy.name, policy.value.as_str(), policy.is_default), (name, value, false));
                let listed = south.agent.policy_list().await.unwrap();
                assert_eq!(listed.into_iter().find(|listed| listed.name == name).unwrap(), policy);
            }
        }
        let read = south.agent.policies().await.unwrap();
        assert_eq!((read.gate, read.domain, read.pending), (GatePolicy::Open, DomainPolicy::Required, 1_000));
    }

    #[tokio::test]
    async fn an_unknown_name_or_value_changes_nothing() {
        let south = testing::agent("south").await;
        for (name, value) in [
            ("gate", "Open"),
            ("gate", ""),
            ("pending", "0"),
            ("pending", "1001"),
            ("pending", "+5"),
            ("revocation", "x\n"),
        ] {
            let error = south.agent.set_policy(name, value).await.unwrap_err();
            assert!(matches!(error, TrustError::BadValue { .. }), "{error}");
        }
        let error = south.agent.set_policy("gates", "open").await.unwrap_err();
        assert_eq!(error.to_string(), "there is no policy `gates`");
        assert!(south.agent.policy_list().await.unwrap().iter().all(|policy| policy.is_default));
    }

    #[tokio::test]
    async fn a_stored_value_that_is_unknown_is_the_strictest() {
        let south = testing::agent("south").await;
        for (name, _) in TABLE {
            south.agent.store().set_setting(&format!("{KEY}{name}"), Some("of-tomorrow")).await.unwrap();
        }
        let strictest = Policies {
            gate: GatePolicy::Closed,
            introductions: IntroductionPolicy::Ask,
            connect: ConnectPolicy::Closed,
            trust_query: TrustQueryPolicy::SelfOnly,
            revocation: RevocationPolicy::Strict,
            referral: ReferralPolicy::Closed,
            domain: DomainPolicy::Required,
            pending: 1,
        };
        assert_eq!(south.agent.policies().await.unwrap(), strictest);
    }
}
