//! Answers to JSON.
use serde_json::{Value, json};

use crate::types::{About, Decision, Error, Reply, SkillInfo};

pub(crate) fn about(about: &About) -> Vec<u8> {
    bytes(&json!({
        "name": about.name,
        "version": about.version,
        "description": about.description,
        "skills": about.skills.iter().map(skill).collect::<Vec<_>>(),
        "policy": about.has_policy,
    }))
}

fn skill(skill: &SkillInfo) -> Value {
    json!({
        "id": skill.id,
        "name": skill.name,
        "description": skill.description,
        "tags": skill.tags,
        "examples": skill.examples,
    })
}

pub(crate) fn reply(answer: &Result<Reply, Error>) -> Vec<u8> {
    let reply = match answer {
        Ok(reply) => reply,
        Err(error) => return bytes(&json!({ "error": error.0 })),
    };
    let mut document = json!({ "text": reply.text });
    if !reply.commands.is_empty() {
        let commands = reply.commands.iter().map(|command| {
            let mut entry = json!({ "keyword": command.keyword, "label": command.label });
            if let Some(params) = &command.params {
                entry["params"] = params.as_str().into();
            }
            entry
        });
        document["commands"] = commands.collect();
    }
    bytes(&document)
}

pub(crate) fn decision(decision: &Decision) -> Vec<u8> {
    let mut document = json!({
        "decision": match decision {
            Decision::Allow => "allow",
            Decision::Refuse { .. } => "refuse",
            Decision::Hold => "hold",
            Decision::Pass => "pass",
        }
    });
    if let Decision::Refuse { code, detail, retry_after } = decision {
        if let Some(code) = code {
            document["code"] = (*code).into();
        }
        if let Some(detail) = detail {
            document["detail"] = detail.as_str().into();
        }
        if let Some(secs) = retry_after {
            document["retryAfter"] = (*secs).into();
        }
    }
    bytes(&document)
}

fn bytes(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_say_nothing_are_left_out() {
        assert_eq!(reply(&Ok(Reply::text("hi"))), br#"{"text":"hi"}"#);
        assert_eq!(reply(&Err(Error::new("no"))), br#"{"error":"no"}"#);
        assert_eq!(decision(&Decision::Pass), br#"{"decision":"pass"}"#);
        assert_eq!(decision(&Decision::refuse()), br#"{"decision":"refuse"}"#);
        let refusal = Decision::Refuse { code: Some(-32004), detail: Some("closed".into()), retry_after: Some(60) };
        let document: Value = serde_json::from_slice(&decision(&refusal)).unwrap();
        assert_eq!(document, json!({"decision": "refuse", "code": -32004, "detail": "closed", "retryAfter": 60}));
    }

    #[test]
    fn commands_are_listed() {
        let answer =
            Reply::text("what I know").command("units", "Convert", Some("5 km in mi")).command("help", "Help", None);
        let document: Value = serde_json::from_slice(&reply(&Ok(answer))).unwrap();
        assert_eq!(document["commands"][0]["params"], "5 km in mi");
        assert_eq!(document["commands"][1], json!({"keyword": "help", "label": "Help"}));
    }
}
