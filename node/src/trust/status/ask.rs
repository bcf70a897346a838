//! Asking a peer where somebody stands. What it answers is not signed, and is its own word.
use std::time::Duration;

use muretai_protocol::{
    Did,
    json::{Number, Object, Value},
    text::one_line,
};

use super::{Relation, TrustStatus};
use crate::{
    Agent,
    send::ResolvedPeer,
    trust::{TrustError, call::Call, whom::Until},
};

const METHOD: &str = "trust/status";
/// Introducers that are listed; one is enough to be let in.
const MAX_VOUCHERS: usize = 64;
/// Entries of `expertise` that are listed.
const MAX_EXPERTISE: usize = 16;
/// Characters of one of them.
const MAX_EXPERTISE_CHARS: usize = 64;

impl Agent {
    /// Where `subject` (a name or DID; `None` is this agent) stands at a peer, by the peer's word.
    ///
    /// # Errors
    /// The peer refuses with `-32012` what its owner keeps to itself.
    pub async fn ask_trust_status(
        &self,
        peer: &str,
        subject: Option<&str>,
        timeout: Duration,
        allow_private: bool,
    ) -> Result<TrustStatus, TrustError> {
        let until = Until::after(timeout);
        let subject = match subject {
            Some(text) => match text.trim().parse::<Did>() {
                Ok(did) => did,
                Err(_) if text.trim() == self.name() && self.store().contact_named(text.trim()).await?.is_none() => {
                    self.did().clone()
                }
                Err(_) => self.did_of(text, allow_private, until).await?,
            },
            None => self.did().clone(),
        };
        let peer = self.whom_to_ask(peer, allow_private, until).await?;
        self.status_at(&peer, &subject, until.left()).await
    }

    /// The same for a peer that was found.
    pub(in crate::trust) async fn status_at(
        &self,
        peer: &ResolvedPeer,
        subject: &Did,
        timeout: Duration,
    ) -> Result<TrustStatus, TrustError> {
        for is_last in [false, true] {
            let mut params = Object::new();
            if subject != self.did() {
                params.insert("subject".to_owned(), subject.into());
            }
            let call =
                Call { method: METHOD, text: METHOD, params, timeout, message_id: None, is_answered_later: false };
            match self.call(peer, call).await {
                // A question changes nothing: it is asked anew.
                Err(error) if error.is_answer_lost() && !is_last => {}
                result => return read(&result?, subject),
            }
        }
        unreachable!("the last question returns")
    }
}

/// Reads the result (5.2). What is missing says nothing; what contradicts itself is no answer.
fn read(result: &Value, subject: &Did) -> Result<TrustStatus, TrustError> {
    let bad = |what| TrustError::BadAnswer { method: METHOD, what };
    if result.as_object().is_none() {
        return Err(bad("not an object"));
    }
    if result.member("subject").is_some_and(|named| named.as_str() != Some(subject.as_str())) {
        return Err(bad("about somebody else"));
    }
    let relation = match result.member("relation").and_then(Value::as_str) {
        Some("self") => Relation::Own,
        Some("direct") => Relation::Direct,
        Some("introduced") => Relation::Introduced,
        Some("pending") => Relation::Pending,
        Some("none") => Relation::None,
        // A word of a later version: its depth says what it comes to.
        Some(_) => match result.member("depth").and_then(Value::as_i64) {
            Some(1) => Relation::Direct,
            Some(2) => Relation::Introduced,
            _ => Relation::None,
        },
        None => return Err(bad("without a relation")),
    };
    let strings = |key: &str, most: usize| {
        let items = result.member(key).and_then(Value::as_array).unwrap_or_default();
        items.iter().take(most).filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    Ok(TrustStatus {
        subject: subject.clone(),
        trusted: result.member("trusted").and_then(Value::as_bool).unwrap_or_default(),
        relation,
        trust_level_bp: level(result),
        vouched_by: strings("vouchedBy", MAX_VOUCHERS).iter().filter_map(|did| did.parse().ok()).collect(),
        expertise: strings("expertise", MAX_EXPERTISE)
            .iter()
            .map(|word| one_line(word, MAX_EXPERTISE_CHARS))
            .filter(|word| !word.is_empty())
            .collect(),
    })
}

/// `trustLevelBp`, or the older number from 0 to 1.
fn level(result: &Value) -> Option<u16> {
    let within = |level: i64| u16::try_from(level).ok().filter(|level| *level <= 1_000);
    let exact = result.member("trustLevelBp").and_then(Value::as_i64).and_then(within);
    exact.or_else(|| match result.member("trustLevel")? {
        Value::Number(Number::Integer(level)) => within(level.checked_mul(1_000)?),
        Value::Number(number) => within((number.as_f64()? * 1_000.0).round() as i64),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use muretai_protocol::json;

    use super::*;
    use crate::{
        Fault,
        testing::{Fake, agent, befriend, key, refusal, result},
    };

    fn parsed(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    fn read_of(answer: Value) -> Result<TrustStatus, TrustError> {
        read(&answer, key(1).did())
    }

    #[test]
    fn a_status_is_read_whole() {
        let (me, west) = (key(1).did().clone(), key(3).did().clone());
        let status = read_of(parsed(&format!(
            r#"{{"subject":"{me}","trusted":true,"relation":"introduced","depth":2,"trustLevel":0.7,"trustLevelBp":800,
            "vouchedBy":["{west}"],"expertise":["rust"],"more":[1]}}"#
        )))
        .unwrap();
        let expected = TrustStatus {
            subject: me,
            trusted: true,
            relation: Relation::Introduced,
            trust_level_bp: Some(800),
            vouched_by: vec![west],
            expertise: vec!["rust".to_owned()],
        };
        assert_eq!((&status, status.depth()), (&expected, Some(2)));
    }

    #[test]
    fn what_is_missing_or_hostile_says_nothing() {
        let bare = read_of(json!({"relation": "none"})).unwrap();
        assert_eq!((bare.trusted, bare.trust_level_bp, bare.vouched_by.len()), (false, None, 0));
        let odd = read_of(json!({
            "relation": "direct", "trusted": "yes", "trustLevelBp": 1001, "trustLevel": true,
            "vouchedBy": ["did:key:zzz", 1, {}], "expertise": ["a\u{202e}b", "", 5],
        }))
        .unwrap();
        assert_eq!((odd.trusted, odd.trust_level_bp, odd.vouched_by.len()), (false, None, 0));
        assert_eq!(odd.expertise, ["a\\u{202e}b"]);
        let many = Value::from(vec![Value::from(key(3).did()); 10_000]);
        let huge = read_of(json!({"relation": "none", "vouchedBy": (many.clone()), "expertise": (many)})).unwrap();
        assert_eq!((huge.vouched_by.len(), huge.expertise.len()), (MAX_VOUCHERS, MAX_EXPERTISE));
    }

    #[test]
    fn a_later_versions_relation_is_what_its_depth_says() {
        for (depth, relation) in [(1, Relation::Direct), (2, Relation::Introduced), (3, Relation::None)] {
            assert_eq!(read_of(json!({"relation": "bounded", "depth": depth})).unwrap().relation, relation);
        }
        assert_eq!(read_of(json!({"relation": "bounded"})).unwrap().relation, Relation::None);
    }

    #[test]
    fn levels_of_both_spellings() {
        for (level, expected) in [
            (r#"{"trustLevel":0.5}"#, Some(500)),
            (r#"{"trustLevel":1}"#, Some(1_000)),
            (r#"{"trustLevel":0}"#, Some(0)),
            (r#"{"trustLevel":1.5}"#, None),
            (r#"{"trustLevel":-1}"#, None),
            (r#"{"trustLevel":1e300}"#, None),
            (r#"{"trustLevel":9007199254740991}"#, None),
            (r#"{"trustLevelBp":7,"trustLevel":0.5}"#, Some(7)),
        ] {
            assert_eq!(super::level(&parsed(level)), expected, "{level}");
        }
    }

    #[test]
    fn what_is_no_status_is_refused() {
        for answer in [json!([]), json!(null), json!({}), json!({"relation": 1})] {
            assert!(matches!(read_of(answer), Err(TrustError::BadAnswer { .. })));
        }
        let other = json!({"subject": (key(9).did().as_str()), "relation": "direct", "trusted": true});
        assert!(matches!(read_of(other), Err(TrustError::BadAnswer { what: "about somebody else", .. })));
    }

    #[tokio::test]
    async fn a_peer_is_asked_about_us_or_another() {
        let fake = Fake::start(|_, _, _| result(&json!({"relation": "pending"}))).await;
        let north = agent("north").await;
        befriend(&north.agent, key(2).did(), Some(&fake.url)).await;
        let timeout = Duration::from_secs(10);
        let status = north.agent.ask_trust_status("south", None, timeout, false).await.unwrap();
        assert_eq!((&status.subject, status.relation), (north.agent.did(), Relation::Pending));
        let other = key(7).did().to_string();
        north.agent.ask_trust_status("south", Some(&other), timeout, false).await.unwrap();
        let posts = fake.posts();
        let subject = |number: usize| posts[number].rpc().member("params").unwrap().member("subject").cloned();
        assert_eq!((subject(0), subject(1)), (None, Some(Value::from(other))));
    }

    #[tokio::test]
    async fn a_question_that_is_not_permitted_says_so() {
        let fake = Fake::start(|_, _, _| refusal(-32012, "Trust query not permitted", "null")).await;
        let north = agent("north").await;
        befriend(&north.agent, key(2).did(), Some(&fake.url)).await;
        let asked = north.agent.ask_trust_status("south", None, Duration::from_secs(10), false).await;
        let error = asked.unwrap_err();
        assert_eq!(error.fault(), Fault::PeerRefused);
        assert!(error.hint().unwrap().contains("about oneself"));
        let own = north.agent.ask_trust_status("north", None, Duration::from_secs(10), false).await;
        assert!(own.unwrap_err().to_string().contains("yourself"));
    }
}
