//! The own card, as it is served and as `muretai card` prints it.
use muretai_plugins::SkillInfo;
use muretai_protocol::{
    card::{self, CardSpec, Profile, TrustFacts},
    json::{Object, Value},
};

use crate::{Agent, receive::frame, trust::Policies};

const DESCRIPTION: &str = "An agent on the muretai network. It takes signed messages of whom its owner let in.";
const OPEN_DESCRIPTION: &str = "An agent on the muretai network. It takes signed messages from everybody.";

/// What a card says beyond who it is.
#[derive(Debug, Clone, Copy)]
pub struct CardFacts<'a> {
    /// The public base URL, or `""`.
    pub url: &'a str,
    /// Strangers are answered.
    pub open_door: bool,
    /// What the owner allows.
    pub policies: &'a Policies,
    /// What plugins offer.
    pub skills: &'a [SkillInfo],
    /// The relay where somebody fetches this agent's mail right now; without it the card names no key to seal with.
    pub relay: Option<&'a str>,
}

impl Agent {
    /// Builds the card for a public base URL (or `""`), and says in it whether strangers are answered. Policies are the
    /// defaults, skills there are none.
    pub fn card(&self, url: &str, open_door: bool) -> Value {
        self.card_with(&CardFacts { url, open_door, policies: &Policies::default(), skills: &[], relay: None })
    }

    /// Builds the card with everything that it says.
    pub fn card_with(&self, facts: &CardFacts<'_>) -> Value {
        let sealing = &self.inner.sealing;
        let keys = facts.relay.map(|_| (sealing.enc_pub(), sealing.enc_pub_pq()));
        let skills: Vec<Value> = facts.skills.iter().map(skill).collect();
        card::build(&CardSpec {
            did: self.did(),
            name: self.name(),
            description: if facts.open_door { OPEN_DESCRIPTION } else { DESCRIPTION },
            url: facts.url,
            version: env!("CARGO_PKG_VERSION"),
            profile: &Profile::default(),
            enc_pub: keys.as_ref().map(|(enc_pub, _)| enc_pub.as_str()),
            enc_pub_pq: keys.as_ref().map(|(_, enc_pub_pq)| enc_pub_pq.as_str()),
            relay: facts.relay,
            open_door: facts.open_door,
            methods: frame::methods(facts.open_door),
            skills: &skills,
            trust: TrustFacts {
                has_gate: !facts.open_door,
                connect: Some(facts.policies.connect.word()),
                trust_query: Some(facts.policies.trust_query.word()),
            },
        })
    }
}

/// A skill as 6.3 has it.
fn skill(skill: &SkillInfo) -> Value {
    let list = |items: &[String]| Value::Array(items.iter().map(|item| item.as_str().into()).collect());
    let mut object = Object::new();
    object.insert("id".to_owned(), skill.id.as_str().into());
    object.insert("name".to_owned(), skill.name.as_str().into());
    object.insert("description".to_owned(), skill.description.as_str().into());
    object.insert("tags".to_owned(), list(&skill.tags));
    if !skill.examples.is_empty() {
        object.insert("examples".to_owned(), list(&skill.examples));
    }
    object.into()
}
