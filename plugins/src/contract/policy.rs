//! One call of a trust policy.
use muretai_protocol::{
    json,
    json::Value,
    rpc::{Code, Refusal},
};

use super::{
    MAX_DETAIL_CHARS, MAX_RETRY_SECS, contact_word,
    read::{self, bad},
};
use crate::{Applicant, Decision, IntroductionFacts, STRANGER_DETAIL, engine::PluginFault};

/// The codes that a policy may refuse with. Others say something about the message or about this agent that a policy
/// cannot know.
const CODES: [Code; 8] = [
    Code::RateLimited,
    Code::IntroductionRequired,
    Code::IntroductionInvalid,
    Code::TrustQueryNotPermitted,
    Code::IssuerNotTrusted,
    Code::AwaitingApproval,
    Code::VerifiedDomainRequired,
    Code::ConnectNotAccepted,
];
/// What a sender reads when the policy chose a code and no words.
const DEFAULT_DETAIL: &str = "a policy of this agent's owner does not let this in";

/// Writes the call of a policy.
pub fn policy_request(applicant: &Applicant) -> Vec<u8> {
    let request = json!({
        "op": "policy",
        "method": applicant.method,
        "from": &applicant.did,
        "contact": contact_word(applicant.contact),
        "introduction": applicant.introduction.as_ref().map(introduction),
        "domain": applicant.domain.clone(),
        "now": applicant.now.0,
    });
    request.to_json().into_bytes()
}

fn introduction(facts: &IntroductionFacts) -> Value {
    json!({
        "issuer": &facts.issuer,
        "issuerIsDirect": facts.is_issuer_direct,
        "accepted": facts.is_accepted,
        "revoked": facts.is_revoked,
        "trustLevelBp": facts.trust_level_bp.map(i64::from),
        "expertise": facts.expertise.iter().map(Value::from).collect::<Vec<_>>(),
        "validUntil": facts.valid_until.0,
    })
}

/// What a policy answered.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyAnswer(pub Decision);

impl PolicyAnswer {
    /// Reads an answer.
    pub fn parse(bytes: &[u8]) -> Result<PolicyAnswer, PluginFault> {
        let object = read::document(bytes)?;
        let code = read::integer(&object, "code")?;
        let detail = read::optional_text(&object, "detail", 4 * MAX_DETAIL_CHARS)?;
        let retry_after = read::integer(&object, "retryAfter")?;
        let decision = match read::text(&object, "decision", 16)?.as_str() {
            "allow" => Decision::Admit,
            "hold" => Decision::Hold,
            "pass" => Decision::Pass,
            "refuse" => Decision::Refuse(refusal(code, detail, retry_after)?),
            other => return Err(bad(format!("decision is {other:?}"))),
        };
        Ok(PolicyAnswer(decision))
    }
}

fn refusal(code: Option<i64>, detail: Option<String>, retry_after: Option<i64>) -> Result<Refusal, PluginFault> {
    let code = match code {
        None => Code::IntroductionRequired,
        Some(number) => {
            let code = CODES.into_iter().find(|code| code.number() == number);
            code.ok_or_else(|| bad(format!("a policy cannot refuse with code {number}")))?
        }
    };
    let detail = match detail {
        // As every stranger is told, so that the policy does not show.
        None if code == Code::IntroductionRequired => STRANGER_DETAIL.to_owned(),
        None => DEFAULT_DETAIL.to_owned(),
        Some(detail) => {
            read::check_line("detail", &detail)?;
            if detail.chars().count() > MAX_DETAIL_CHARS {
                return Err(bad(format!("detail has more than {MAX_DETAIL_CHARS} characters")));
            }
            detail
        }
    };
    let refusal = Refusal::new(code, &detail);
    match retry_after {
        None => Ok(refusal),
        Some(_) if code != Code::RateLimited => Err(bad("retryAfter goes with code -32004 only")),
        Some(secs) if !(1..=MAX_RETRY_SECS).contains(&secs) => {
            Err(bad(format!("retryAfter is {secs}, not 1 to {MAX_RETRY_SECS}")))
        }
        Some(secs) => Ok(refusal.with("retryAfter", secs)),
    }
}

#[cfg(test)]
mod tests {
    use muretai_protocol::{Did, UnixSeconds};
    use proptest::prelude::*;

    use super::*;
    use crate::ContactState;

    fn did() -> Did {
        "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK".parse().unwrap()
    }

    #[test]
    fn a_request_tells_what_is_proven_and_null_for_the_rest() {
        let mut applicant = Applicant {
            did: did(),
            contact: ContactState::None,
            introduction: None,
            domain: None,
            method: "message/send",
            now: UnixSeconds(1_784_273_700),
        };
        let text = String::from_utf8(policy_request(&applicant)).unwrap();
        assert!(text.contains(r#""introduction":null"#) && text.contains(r#""domain":null"#), "{text}");
        applicant.domain = Some("south.example".to_owned());
        applicant.introduction = Some(IntroductionFacts {
            issuer: did(),
            is_issuer_direct: true,
            is_accepted: false,
            is_revoked: false,
            trust_level_bp: None,
            expertise: vec!["ferries \"north\"".to_owned()],
            valid_until: UnixSeconds(5),
        });
        let value = json::parse(&policy_request(&applicant)).unwrap();
        let facts = value.member("introduction").unwrap();
        assert_eq!(facts.member("issuerIsDirect").and_then(Value::as_bool), Some(true));
        assert!(facts.as_object().unwrap().get("trustLevelBp").unwrap().is_null());
        assert_eq!(facts.member("expertise").unwrap().as_array().unwrap()[0].as_str(), Some("ferries \"north\""));
    }

    fn parse(text: &str) -> Result<Decision, PluginFault> {
        PolicyAnswer::parse(text.as_bytes()).map(|answer| answer.0)
    }

    #[test]
    fn reads_each_decision() {
        assert_eq!(parse(r#"{"decision":"allow"}"#), Ok(Decision::Admit));
        assert_eq!(parse(r#"{"decision":"hold","code":null}"#), Ok(Decision::Hold));
        assert_eq!(parse(r#"{"decision":"pass"}"#), Ok(Decision::Pass));
        let Ok(Decision::Refuse(refusal)) = parse(r#"{"decision":"refuse"}"#) else { panic!() };
        assert_eq!((refusal.code, refusal.detail()), (Code::IntroductionRequired, Some(STRANGER_DETAIL)));
        let text = r#"{"decision":"refuse","code":-32004,"detail":"closed until nine","retryAfter":3600}"#;
        let Ok(Decision::Refuse(refusal)) = parse(text) else { panic!() };
        assert_eq!(refusal.data.unwrap().to_json(), r#"{"detail":"closed until nine","retryAfter":3600}"#);
    }

    #[test]
    fn a_policy_chooses_among_the_codes_of_the_gate_only() {
        for number in -32_800..=0 {
            let text = format!(r#"{{"decision":"refuse","code":{number}}}"#);
            let is_allowed = CODES.iter().any(|code| code.number() == number);
            assert_eq!(parse(&text).is_ok(), is_allowed, "{number}");
        }
    }

    #[test]
    fn refuses_what_is_no_answer() {
        for text in [
            "{}",
            r#"{"decision":"Allow"}"#,
            r#"{"decision":true}"#,
            r#"{"decision":"refuse","code":"-32010"}"#,
            r#"{"decision":"refuse","detail":"a\nb"}"#,
            r#"{"decision":"refuse","code":-32010,"retryAfter":5}"#,
            r#"{"decision":"refuse","code":-32004,"retryAfter":0}"#,
            r#"{"decision":"allow"} x"#,
        ] {
            assert!(matches!(parse(text), Err(PluginFault::BadAnswer(_))), "{text}");
        }
        let long = format!(r#"{{"decision":"refuse","detail":"{}"}}"#, "x".repeat(MAX_DETAIL_CHARS + 1));
        assert!(parse(&long).is_err());
        assert_eq!(parse(r#"{"error":"no config"}"#), Err(PluginFault::Failed("no config".to_owned())));
    }

    proptest! {
        #[test]
        fn no_answer_makes_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text: String) {
            for bytes in [bytes, format!(r#"{{"decision":"refuse","detail":{}}}"#, Value::from(text).to_json()).into()] {
                let _ = PolicyAnswer::parse(&bytes);
                let _ = super::super::SkillAnswer::parse(&bytes);
                let _ = super::super::Declaration::parse(&bytes);
            }
        }
    }
}
