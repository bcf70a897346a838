//! Calls a plugin as the host does, inside a test of the plugin's own crate.
use serde_json::Value;

use crate::{Applicant, Decision, Error, Map, Plugin, Reply, Sender, SkillRequest, types::Contact};

/// An open instance.
pub struct Instance<P: Plugin>(P);

impl<P: Plugin> Instance<P> {
    /// Opens an instance with this configuration, a JSON object.
    pub fn open(config: &str) -> Result<Instance<P>, Error> {
        let config: Map<String, Value> = crate::decode::object(config.as_bytes())?;
        P::open(&config).map(Instance)
    }

    /// Sends a text to a skill, from a direct contact. The error is what the sender would read.
    pub fn skill(&mut self, id: &str, text: &str) -> Result<Reply, Error> {
        let request = SkillRequest {
            skill: id.to_owned(),
            text: text.to_owned(),
            from: Sender { did: "did:key:z6MkNorth".into(), contact: Contact::Direct },
            message_id: "message-1".into(),
            context_id: None,
            now: 1_750_000_000,
        };
        self.0.skill(id).ok_or("there is no such skill here")?.answer(&request)
    }

    /// Asks the policy about a sender.
    pub fn policy(&mut self, applicant: &Applicant) -> Result<Decision, Error> {
        self.0.policy().ok_or("there is no policy here")?.decide(applicant)
    }

    /// Passes a request in JSON, and returns the answer in JSON.
    pub fn json(&mut self, request: &str) -> Result<String, Error> {
        let answer = crate::border::answer(&mut self.0, request.as_bytes())?;
        String::from_utf8(answer).map_err(|_| Error::new("the answer is no UTF-8"))
    }
}

/// Sends every declared example to its skill. The error names the first that is not answered, or a skill without one.
pub fn check_examples<P: Plugin>(config: &str) -> Result<(), Error> {
    let mut instance = Instance::<P>::open(config)?;
    for skill in P::about().skills {
        if skill.examples.is_empty() {
            return Err(Error(format!("skill `{}` declares no example", skill.id)));
        }
        for example in &skill.examples {
            instance.skill(&skill.id, example).map_err(|error| Error(format!("example `{example}`: {error}")))?;
        }
    }
    Ok(())
}
