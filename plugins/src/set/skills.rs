//! The skills of an agent's plugins, told apart by the first word of a message.
use std::{
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use muretai_protocol::{UnixSeconds, message::Verified};

use super::Plugin;
use crate::{
    ContactState, Response, SkillInfo, Skills,
    contract::{self, SkillAnswer},
    engine::{CallKind, PluginFault},
};

#[derive(Default)]
pub(super) struct PluginSkills {
    skills: Vec<(SkillInfo, Arc<Plugin>)>,
    default: Option<usize>,
}

impl PluginSkills {
    pub(super) fn add(&mut self, info: SkillInfo, plugin: Arc<Plugin>) {
        self.skills.push((info, plugin));
    }
    pub(super) fn set_default(&mut self, id: &str) {
        self.default = self.position(id);
    }
    pub(super) fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }
    fn position(&self, id: &str) -> Option<usize> {
        self.skills.iter().position(|(info, _)| info.id == id)
    }

    /// The skill that a text is for, and the text without the word that addresses it.
    fn addressed<'a>(&self, text: &'a str) -> Option<(usize, &'a str)> {
        let trimmed = text.trim_start();
        let (word, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
        match self.position(word) {
            Some(at) => Some((at, rest.trim_start())),
            None => self.default.map(|at| (at, text)),
        }
    }
}

#[async_trait]
impl Skills for PluginSkills {
    fn list(&self) -> Vec<SkillInfo> {
        self.skills.iter().map(|(info, _)| info.clone()).collect()
    }

    async fn respond(&self, message: &Verified, contact: ContactState) -> Option<Response> {
        let (at, text) = self.addressed(&message.message().text)?;
        let (info, plugin) = &self.skills[at];
        let request = contract::skill_request(&info.id, text, message, contact, now());
        Some(respond(plugin, &info.id, &request).await)
    }
}

pub(super) async fn respond(plugin: &Plugin, id: &str, request: &[u8]) -> Response {
    match call(plugin, request).await {
        Ok(SkillAnswer::Reply { text, commands }) => Response { text, commands, ..Response::default() },
        Ok(SkillAnswer::Error(error)) => Response::no_answer(&error),
        Err(fault) => {
            plugin.faults.log(&plugin.name, id, &fault);
            Response::no_answer(&format!("the skill {id} failed"))
        }
    }
}

/// Waiting for a place counts as time of the call.
async fn call(plugin: &Plugin, request: &[u8]) -> Result<SkillAnswer, PluginFault> {
    let (begun, timeout) = (Instant::now(), plugin.limits.skill_timeout);
    let place = tokio::time::timeout(timeout, plugin.places.acquire()).await;
    let _place = place.map_err(|_| PluginFault::TimedOut(timeout))?;
    let left = timeout.saturating_sub(begun.elapsed());
    let answer = plugin.engine.call(CallKind::Skill, request, left).await?;
    SkillAnswer::parse(&answer)
}

fn now() -> UnixSeconds {
    // A clock before 1970 is wrong, and `doctor` says so.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixSeconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::tests::{Fake, plugin};

    fn skills(ids: &[&str], default: Option<&str>) -> PluginSkills {
        let mut skills = PluginSkills::default();
        for id in ids {
            let info = SkillInfo {
                id: (*id).to_owned(),
                name: String::new(),
                description: String::new(),
                tags: Vec::new(),
                examples: Vec::new(),
            };
            skills.add(info, plugin("p", Fake::answering("{}")));
        }
        if let Some(id) = default {
            skills.set_default(id);
        }
        skills
    }

    #[test]
    fn the_first_word_addresses_a_skill_and_is_taken_away() {
        let skills = skills(&["units", "time"], None);
        assert_eq!(skills.addressed("units 3 mi in km"), Some((0, "3 mi in km")));
        assert_eq!(skills.addressed("  time\n\tin north  "), Some((1, "in north  ")));
        assert_eq!(skills.addressed("time"), Some((1, "")));
        for text in ["Units 3 mi", "units: 3 mi", "unitsx", "", "my units"] {
            assert_eq!(skills.addressed(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_default_skill_takes_the_rest_as_it_is() {
        let skills = skills(&["units", "time"], Some("time"));
        assert_eq!(skills.addressed(" what is it? "), Some((1, " what is it? ")));
        assert_eq!(skills.addressed(""), Some((1, "")));
        assert_eq!(skills.addressed("units 1"), Some((0, "1")));
    }
}
