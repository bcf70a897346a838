//! What a plugin says about itself.
use std::collections::BTreeSet;

use muretai_protocol::json::{Object, Value};

use super::{
    MAX_DESCRIPTION_BYTES, MAX_EXAMPLES, MAX_LABEL_BYTES, MAX_SKILLS, MAX_TAGS,
    read::{self, bad},
};
use crate::{SkillInfo, engine::PluginFault};

/// A declaration: who the plugin is and what it offers, within the bounds of this module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// What the plugin calls itself, `[a-z0-9][a-z0-9-]{0,31}`.
    pub name: String,
    /// Its version, one line.
    pub version: String,
    /// What it is for, one line; may be empty.
    pub description: String,
    /// The skills that it offers, ids unique.
    pub skills: Vec<SkillInfo>,
    /// It answers as a trust policy.
    pub has_policy: bool,
}

impl Declaration {
    /// Reads the answer of `describe`. One that offers nothing is a fault: nothing could ever call it.
    pub fn parse(bytes: &[u8]) -> Result<Declaration, PluginFault> {
        let object = read::document(bytes)?;
        let skills = read::items(&object, "skills", MAX_SKILLS)?.iter().map(skill).collect::<Result<Vec<_>, _>>()?;
        let mut ids = BTreeSet::new();
        if let Some(twice) = skills.iter().find(|skill| !ids.insert(skill.id.as_str())) {
            return Err(bad(format!("the skill {} is declared twice", twice.id)));
        }
        let declaration = Declaration {
            name: read::name(&object, "name")?,
            version: read::line(&object, "version", MAX_LABEL_BYTES)?,
            description: description(&object)?,
            has_policy: read::flag(&object, "policy")?,
            skills,
        };
        if declaration.skills.is_empty() && !declaration.has_policy {
            return Err(bad("it offers neither a skill nor a policy"));
        }
        Ok(declaration)
    }

    /// What it offers, in the words of `plugins.toml`: `skill:ID` for each skill, then `policy`.
    pub fn offers(&self) -> Vec<String> {
        let skills = self.skills.iter().map(|skill| format!("skill:{}", skill.id));
        skills.chain(self.has_policy.then(|| "policy".to_owned())).collect()
    }
}

fn description(object: &Object) -> Result<String, PluginFault> {
    match read::optional_text(object, "description", MAX_DESCRIPTION_BYTES)? {
        Some(text) if !text.is_empty() => read::check_line("description", &text).map(|()| text),
        _ => Ok(String::new()),
    }
}

fn skill(value: &Value) -> Result<SkillInfo, PluginFault> {
    let object = value.as_object().ok_or_else(|| bad("a skill is no object"))?;
    Ok(SkillInfo {
        id: read::name(object, "id")?,
        name: read::line(object, "name", MAX_LABEL_BYTES)?,
        description: description(object)?,
        tags: read::lines(object, "tags", MAX_TAGS, MAX_LABEL_BYTES)?,
        examples: read::lines(object, "examples", MAX_EXAMPLES, MAX_DESCRIPTION_BYTES)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"name":"units","version":"1.0","description":"converts","later":1,"skills":[
        {"id":"units","name":"Unit converter","description":"","tags":["length"],"examples":["3 mi in km"]}]}"#;

    fn fault(text: &str) -> String {
        match Declaration::parse(text.as_bytes()) {
            Err(PluginFault::BadAnswer(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reads_a_declaration_and_passes_over_what_it_does_not_know() {
        let declaration = Declaration::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(declaration.skills[0].examples, ["3 mi in km"]);
        assert_eq!(declaration.offers(), ["skill:units"]);
        let policy = Declaration::parse(br#"{"name":"p","version":"1","policy":true}"#).unwrap();
        assert_eq!(policy.offers(), ["policy"]);
    }

    #[test]
    fn refuses_what_is_out_of_bounds_and_says_which_member() {
        for (text, word) in [
            ("[]", "no JSON object"),
            ("{", "no JSON"),
            (r#"{"version":"1","policy":true}"#, "name"),
            (r#"{"name":"Units","version":"1","policy":true}"#, "name"),
            (r#"{"name":"-u","version":"1","policy":true}"#, "name"),
            (r#"{"name":"u","version":"1\n2","policy":true}"#, "version"),
            (r#"{"name":"u","version":"1","policy":"yes"}"#, "policy"),
            (r#"{"name":"u","version":"1","skills":{}}"#, "skills"),
            (r#"{"name":"u","version":"1"}"#, "neither"),
            (r#"{"name":"u","version":"1","skills":[{"id":"a b","name":"x"}]}"#, "id"),
            (r#"{"name":"u","version":"1","skills":[{"id":"a","name":"\u202eevil"}]}"#, "name"),
            (r#"{"name":"u","version":"1","skills":[{"id":"a","name":"x"},{"id":"a","name":"y"}]}"#, "twice"),
            (r#"{"name":"u","version":"1","skills":[{"id":"a","name":"x","tags":[1]}]}"#, "tags"),
        ] {
            assert!(fault(text).contains(word), "{text}: {}", fault(text));
        }
        let skill = |n: usize| format!(r#"{{"id":"s{n}","name":"x"}}"#);
        let many: Vec<_> = (0..17).map(skill).collect();
        assert!(fault(&format!(r#"{{"name":"u","version":"1","skills":[{}]}}"#, many.join(","))).contains("17 items"));
        let long = "x".repeat(33);
        assert!(fault(&format!(r#"{{"name":"{long}","version":"1","policy":true}}"#)).contains("name"));
    }

    #[test]
    fn an_error_is_the_plugins_own_failure_on_one_line() {
        let failed = Declaration::parse(b"{\"error\":\"a\\nb\"}");
        assert_eq!(failed, Err(PluginFault::Failed("a\\u{a}b".to_owned())));
    }
}
