use serde_json::{Map, Value};

use super::*;
use crate::{About, Applicant, Decision, Policy, Reply, Skill, SkillInfo, SkillRequest};

/// Panics, fails or answers, as it is told.
struct Moody {
    calls: u32,
}

impl Plugin for Moody {
    fn about() -> About {
        About::new("moody", "0.1.0", "for tests").skill(SkillInfo::new("mood", "Mood", "any")).policy()
    }
    fn open(config: &Map<String, Value>) -> Result<Moody, Error> {
        match config.get("mood").and_then(Value::as_str) {
            Some("bad") => Err(Error::new("`mood` must not be bad")),
            Some("worse") => panic!("worse than bad"),
            _ => Ok(Moody { calls: 0 }),
        }
    }
    fn skill(&mut self, id: &str) -> Option<&mut dyn Skill> {
        (id == "mood").then_some(self)
    }
    fn policy(&mut self) -> Option<&mut dyn Policy> {
        Some(self)
    }
}

impl Skill for Moody {
    fn answer(&mut self, request: &SkillRequest) -> Result<Reply, Error> {
        self.calls += 1;
        match request.text.as_str() {
            "panic" => panic!("call {} went wrong", self.calls),
            "fail" => Err(Error::new("not today")),
            text => Ok(Reply::text(format!("{text} {}", self.calls))),
        }
    }
}

impl Policy for Moody {
    fn decide(&mut self, applicant: &Applicant) -> Result<Decision, Error> {
        match applicant.from.as_str() {
            "did:key:zNorth" => Ok(Decision::Allow),
            _ => Err(Error::new("cannot find out")),
        }
    }
}

/// The way of a host: everything through the table.
struct Loaded {
    table: Table,
    instance: *mut c_void,
}

impl Loaded {
    fn open(config: &str) -> Result<Loaded, Failure> {
        let table = unsafe { *entry::<Moody>(1, 1) };
        assert_eq!((table.abi, table.size as usize), (1, size_of::<Table>()));
        let mut instance = ptr::null_mut();
        take(&table, |out| unsafe { table.open.unwrap()(config.as_ptr(), config.len(), &mut instance, out) })?;
        Ok(Loaded { table, instance })
    }
    fn call(&self, request: &str) -> Result<String, Failure> {
        let call = self.table.call.unwrap();
        take(&self.table, |out| unsafe { call(self.instance, request.as_ptr(), request.len(), out) })
    }
    fn skill(&self, text: &str) -> Result<String, Failure> {
        self.call(&format!(
            r#"{{"op":"skill","skill":"mood","text":"{text}","from":{{"did":"did:key:zNorth","contact":"none"}},
            "messageId":"m","contextId":null,"now":1}}"#
        ))
    }
    fn policy(&self, did: &str) -> Result<String, Failure> {
        self.call(&format!(
            r#"{{"op":"policy","method":"message/send","from":"{did}","contact":"none","introduction":null,
            "domain":null,"now":1}}"#
        ))
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        unsafe { self.table.close.unwrap()(self.instance) };
    }
}

fn take(table: &Table, act: impl FnOnce(*mut Buffer) -> i32) -> Result<String, Failure> {
    let mut out = Buffer::empty();
    let code = act(&mut out);
    let text = String::from_utf8(unsafe { bytes(out.data, out.len) }.to_vec()).unwrap();
    unsafe { table.release.unwrap()(&mut out) };
    assert!(out.data.is_null());
    if code == abi::OK { Ok(text) } else { Err((code, text)) }
}

#[test]
fn a_skill_answers_through_the_table() {
    let loaded = Loaded::open("{}").unwrap();
    assert_eq!(loaded.skill("good").unwrap(), r#"{"text":"good 1"}"#);
    assert_eq!(loaded.skill("fail").unwrap(), r#"{"error":"not today"}"#);
}

#[test]
fn a_panic_is_a_code_and_a_text_and_the_next_call_works() {
    let loaded = Loaded::open("{}").unwrap();
    assert_eq!(loaded.skill("panic"), Err((abi::ERR_PANIC, "call 1 went wrong".into())));
    assert_eq!(loaded.skill("good").unwrap(), r#"{"text":"good 2"}"#);
}

#[test]
fn a_policy_that_cannot_find_out_is_a_failure_not_a_decision() {
    let loaded = Loaded::open("{}").unwrap();
    assert_eq!(loaded.policy("did:key:zNorth").unwrap(), r#"{"decision":"allow"}"#);
    assert_eq!(loaded.policy("did:key:zEast"), Err((abi::ERR_FAILED, "cannot find out".into())));
}

#[test]
fn a_config_that_does_not_serve_is_said_so() {
    assert_eq!(Loaded::open(r#"{"mood":"bad"}"#).err().unwrap(), (abi::ERR_CONFIG, "`mood` must not be bad".into()));
    assert_eq!(Loaded::open(r#"{"mood":"worse"}"#).err().unwrap(), (abi::ERR_PANIC, "worse than bad".into()));
    assert_eq!(Loaded::open("[]").err().unwrap().0, abi::ERR_CONFIG);
    assert_eq!(Loaded::open("").err().unwrap().0, abi::ERR_CONFIG);
}

#[test]
fn what_is_no_request_fails() {
    let loaded = Loaded::open("{}").unwrap();
    for request in ["", "null", "{", r#"{"op":"sing"}"#, r#"{"op":"skill"}"#] {
        assert_eq!(loaded.call(request).err().unwrap().0, abi::ERR_FAILED, "{request}");
    }
    let other =
        r#"{"op":"skill","skill":"other","text":"","from":{"did":"d","contact":"none"},"messageId":"m","now":1}"#;
    assert_eq!(loaded.call(other), Err((abi::ERR_FAILED, "there is no skill `other` here".into())));
}

#[test]
fn the_description_is_json() {
    let table = unsafe { *entry::<Moody>(1, 1) };
    let text = take(&table, |out| unsafe { table.describe.unwrap()(out) }).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((document["name"].as_str(), document["policy"].as_bool()), (Some("moody"), Some(true)));
    assert_eq!(document["skills"][0]["id"], "mood");
}
