//! One call of a skill.
use muretai_protocol::{
    Did, UnixSeconds, json,
    json::Value,
    limits::MAX_TEXT_BYTES,
    message::{Message, Verified},
};

use super::{
    MAX_COMMANDS, MAX_LABEL_BYTES, contact_word,
    read::{self, bad},
};
use crate::{Command, ContactState, engine::PluginFault};

/// Writes the call of one skill. `text` is the message's text as the skill is to see it.
pub fn skill_request(id: &str, text: &str, message: &Verified, contact: ContactState, now: UnixSeconds) -> Vec<u8> {
    request(id, text, message.from(), message.message(), contact, now)
}

fn request(id: &str, text: &str, from: &Did, of: &Message, contact: ContactState, now: UnixSeconds) -> Vec<u8> {
    let request = json!({
        "op": "skill",
        "skill": id,
        "text": text,
        "from": {"did": from, "contact": contact_word(contact)},
        "messageId": of.message_id.as_str(),
        "contextId": of.context_id.clone(),
        "now": now.0,
    });
    request.to_json().into_bytes()
}

/// What a skill answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillAnswer {
    /// A reply.
    Reply {
        /// Its text, at most [`MAX_TEXT_BYTES`]; may be empty.
        text: String,
        /// What a client may offer beside it.
        commands: Vec<Command>,
    },
    /// The skill cannot answer this, and says so to the sender: one line.
    Error(String),
}

impl SkillAnswer {
    /// Reads an answer.
    pub fn parse(bytes: &[u8]) -> Result<SkillAnswer, PluginFault> {
        let object = match read::document(bytes) {
            Err(PluginFault::Failed(error)) => return Ok(SkillAnswer::Error(error)),
            read => read?,
        };
        let commands = read::items(&object, "commands", MAX_COMMANDS)?.iter().map(command);
        let commands = commands.collect::<Result<_, _>>()?;
        Ok(SkillAnswer::Reply { text: read::text(&object, "text", MAX_TEXT_BYTES)?, commands })
    }
}

fn command(value: &Value) -> Result<Command, PluginFault> {
    let object = value.as_object().ok_or_else(|| bad("a command is no object"))?;
    let params = read::optional_text(object, "params", MAX_LABEL_BYTES)?;
    if let Some(params) = &params {
        read::check_line("params", params)?;
    }
    Ok(Command {
        keyword: read::name(object, "keyword")?,
        label: read::line(object, "label", MAX_LABEL_BYTES)?,
        params,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_every_member() {
        let message = Message::from_value(json!({
            "kind": "message", "messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": "units 3 mi"}],
        }));
        let did: Did = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK".parse().unwrap();
        let now = UnixSeconds(1_784_273_700);
        let sent = request("units", "3 mi", &did, &message.unwrap(), ContactState::Introduced, now);
        let value = json::parse(&sent).unwrap();
        assert_eq!(value.member("text").and_then(Value::as_str), Some("3 mi"));
        let from = value.member("from").unwrap();
        assert_eq!(from.member("contact").and_then(Value::as_str), Some("introduced"));
        assert_eq!(value.member("now").and_then(Value::as_i64), Some(1_784_273_700));
        assert!(value.as_object().unwrap().get("contextId").unwrap().is_null());
    }

    #[test]
    fn reads_an_answer_with_commands() {
        let answer = br#"{"text":"a\nb","commands":[{"keyword":"units","label":"Convert","params":"3 mi in km"}]}"#;
        let Ok(SkillAnswer::Reply { text, commands }) = SkillAnswer::parse(answer) else { panic!() };
        assert_eq!(text, "a\nb");
        assert_eq!(commands[0].params.as_deref(), Some("3 mi in km"));
        let error = SkillAnswer::parse(br#"{"error":"no unit of that name"}"#);
        assert_eq!(error, Ok(SkillAnswer::Error("no unit of that name".to_owned())));
    }

    #[test]
    fn refuses_what_is_no_answer() {
        let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(MAX_TEXT_BYTES + 1));
        for text in [
            "",
            "null",
            "{}",
            r#"{"text":1}"#,
            r#"{"text":"","commands":[{"keyword":"two words","label":"x"}]}"#,
            r#"{"text":"","commands":[{"keyword":"a","label":"x\u0007"}]}"#,
            r#"{"text":"","commands":[1]}"#,
            r#"{"error":7}"#,
            &long,
        ] {
            assert!(matches!(SkillAnswer::parse(text.as_bytes()), Err(PluginFault::BadAnswer(_))), "{text:.40}");
        }
    }
}
