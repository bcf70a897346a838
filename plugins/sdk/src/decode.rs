//! Requests from JSON. Members that are not known are left alone, so that a later host can add some.
use serde_json::{Map, Value};

use crate::types::{Applicant, Contact, Error, Introduction, Sender, SkillRequest};

/// What is asked.
pub(crate) enum Request {
    Skill(SkillRequest),
    Policy(Applicant),
}

pub(crate) fn object(json: &[u8]) -> Result<Map<String, Value>, Error> {
    match serde_json::from_slice(json) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Error::new("not a JSON object")),
        Err(error) => Err(Error(format!("not JSON: {error}"))),
    }
}

pub(crate) fn request(json: &[u8]) -> Result<Request, Error> {
    let members = object(json)?;
    match text(&members, "op")?.as_str() {
        "skill" => Ok(Request::Skill(skill(&members)?)),
        "policy" => Ok(Request::Policy(applicant(&members)?)),
        other => Err(Error(format!("unknown op `{other}`"))),
    }
}

fn skill(members: &Map<String, Value>) -> Result<SkillRequest, Error> {
    let Some(Value::Object(from)) = members.get("from") else { return Err(Error::new("`from` is no object")) };
    Ok(SkillRequest {
        skill: text(members, "skill")?,
        text: text(members, "text")?,
        from: Sender { did: text(from, "did")?, contact: contact(from)? },
        message_id: text(members, "messageId")?,
        context_id: optional_text(members, "contextId")?,
        now: integer(members, "now")?,
    })
}

fn applicant(members: &Map<String, Value>) -> Result<Applicant, Error> {
    let introduction = match members.get("introduction") {
        None | Some(Value::Null) => None,
        Some(Value::Object(facts)) => Some(introduction(facts)?),
        Some(_) => return Err(Error::new("`introduction` is no object")),
    };
    Ok(Applicant {
        method: text(members, "method")?,
        from: text(members, "from")?,
        contact: contact(members)?,
        introduction,
        domain: optional_text(members, "domain")?,
        now: integer(members, "now")?,
    })
}

fn introduction(facts: &Map<String, Value>) -> Result<Introduction, Error> {
    let expertise = match facts.get("expertise") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(topics)) => topics.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(_) => return Err(Error::new("`expertise` is no list")),
    };
    let trust_level_bp = match facts.get("trustLevelBp") {
        None | Some(Value::Null) => None,
        Some(level) => {
            Some(level.as_u64().and_then(|level| u16::try_from(level).ok()).ok_or("`trustLevelBp` is no level")?)
        }
    };
    Ok(Introduction {
        issuer: text(facts, "issuer")?,
        is_issuer_direct: flag(facts, "issuerIsDirect")?,
        is_accepted: flag(facts, "accepted")?,
        is_revoked: flag(facts, "revoked")?,
        trust_level_bp,
        expertise,
        valid_until: integer(facts, "validUntil")?,
    })
}

fn contact(members: &Map<String, Value>) -> Result<Contact, Error> {
    match text(members, "contact")?.as_str() {
        "none" => Ok(Contact::None),
        "direct" => Ok(Contact::Direct),
        "introduced" => Ok(Contact::Introduced),
        other => Err(Error(format!("unknown contact state `{other}`"))),
    }
}

fn text(members: &Map<String, Value>, key: &str) -> Result<String, Error> {
    members.get(key).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| Error(format!("`{key}` is no text")))
}

fn optional_text(members: &Map<String, Value>, key: &str) -> Result<Option<String>, Error> {
    match members.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => text(members, key).map(Some),
    }
}

fn integer(members: &Map<String, Value>, key: &str) -> Result<i64, Error> {
    members.get(key).and_then(Value::as_i64).ok_or_else(|| Error(format!("`{key}` is no integer")))
}

fn flag(members: &Map<String, Value>, key: &str) -> Result<bool, Error> {
    members.get(key).and_then(Value::as_bool).ok_or_else(|| Error(format!("`{key}` is neither true nor false")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"{"op":"policy","method":"message/send","from":"did:key:zNorth","contact":"none",
        "introduction":{"issuer":"did:key:zWest","issuerIsDirect":true,"accepted":false,"revoked":false,
        "trustLevelBp":700,"expertise":["bees"],"validUntil":1800000000,"later":[1]},
        "domain":null,"now":1750000000,"added":"later"}"#;

    #[test]
    fn a_policy_request_is_read_and_what_is_not_known_is_left_alone() {
        let Ok(Request::Policy(applicant)) = request(POLICY.as_bytes()) else { panic!("no policy request") };
        assert_eq!((applicant.method.as_str(), applicant.contact), ("message/send", Contact::None));
        let introduction = applicant.introduction.unwrap();
        assert_eq!((introduction.trust_level_bp, introduction.expertise), (Some(700), vec!["bees".to_owned()]));
        assert!(introduction.is_issuer_direct && !introduction.is_accepted);
        assert_eq!(applicant.domain, None);
    }

    #[test]
    fn what_is_missing_or_of_another_type_is_named() {
        for (broken, name) in [
            (POLICY.replace("\"none\"", "\"friend\""), "friend"),
            (POLICY.replace("700", "70000"), "trustLevelBp"),
            (POLICY.replace("\"accepted\":false,", ""), "accepted"),
            (POLICY.replace("1750000000", "\"noon\""), "now"),
            (POLICY.replace("\"policy\"", "\"dance\""), "dance"),
            ("[]".to_owned(), "object"),
        ] {
            let error = request(broken.as_bytes()).err().unwrap();
            assert!(error.0.contains(name), "{error}");
        }
    }
}
