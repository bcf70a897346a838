use std::{sync::Mutex, time::Duration};

use async_trait::async_trait;
use muretai_protocol::{Did, UnixSeconds, rpc::Code};

use super::*;
use crate::{Applicant, ContactState, Decision, STRANGER_DETAIL, engine::CallKind};

/// Answers what it was told to.
pub(crate) struct Fake(Mutex<Result<Vec<u8>, PluginFault>>);

impl Fake {
    pub(crate) fn answering(text: &str) -> Fake {
        Fake(Mutex::new(Ok(text.as_bytes().to_vec())))
    }
    fn failing(fault: PluginFault) -> Fake {
        Fake(Mutex::new(Err(fault)))
    }
}

#[async_trait]
impl Engine for Fake {
    async fn call(&self, _: CallKind, _: &[u8], _: Duration) -> Result<Vec<u8>, PluginFault> {
        self.0.lock().unwrap().clone()
    }
    async fn close(&self) {}
}

pub(crate) fn plugin(name: &str, engine: Fake) -> Arc<Plugin> {
    Arc::new(Plugin::new(name, Arc::new(engine), Limits::default()))
}

fn applicant(contact: ContactState) -> Applicant {
    Applicant {
        did: "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK".parse::<Did>().unwrap(),
        contact,
        introduction: None,
        domain: None,
        method: "message/send",
        now: UnixSeconds(1_784_273_700),
    }
}

#[tokio::test]
async fn a_policy_that_fails_refuses_contacts_too_and_does_not_show() {
    for fake in [
        Fake::failing(PluginFault::TimedOut(Duration::from_millis(500))),
        Fake::failing(PluginFault::Resting),
        Fake::answering("{}"),
        Fake::answering(r#"{"error":"secret of the owner"}"#),
        Fake::answering(r#"{"decision":"refuse","code":-32603}"#),
        Fake::answering("\u{feff}"),
    ] {
        let decided = PluginPolicy(plugin("p", fake)).decide(&applicant(ContactState::Direct)).await;
        let Decision::Refuse(refusal) = decided else { panic!("{decided:?}") };
        assert_eq!((refusal.code, refusal.detail()), (Code::IntroductionRequired, Some(STRANGER_DETAIL)));
    }
    let passing = PluginPolicy(plugin("p", Fake::answering(r#"{"decision":"pass"}"#)));
    assert_eq!(passing.decide(&applicant(ContactState::None)).await, Decision::Pass);
}

#[tokio::test]
async fn a_skill_that_fails_is_named_and_its_fault_is_not() {
    let failed =
        skills::respond(&plugin("p", Fake::failing(PluginFault::Ended("at 0xbeef".into()))), "units", b"").await;
    assert_eq!(
        (failed.text.as_str(), failed.status, failed.is_auto),
        ("no answer: the skill units failed", Some("no-answer"), true)
    );
    let own = skills::respond(&plugin("p", Fake::answering(r#"{"error":"no such unit"}"#)), "units", b"").await;
    assert_eq!((own.text.as_str(), own.status), ("no answer: no such unit", Some("no-answer")));
    let answered = r#"{"text":"4.8 km","commands":[{"keyword":"units","label":"Again"}]}"#;
    let answered = skills::respond(&plugin("p", Fake::answering(answered)), "units", b"").await;
    assert_eq!((answered.text.as_str(), answered.status, answered.commands.len()), ("4.8 km", None, 1));
}

fn entry(name: &str, offers: &[&str], default_skill: Option<&str>) -> Entry {
    let path = "/nowhere".into();
    let (sha256, version) = (String::new(), String::new());
    let offers = offers.iter().map(|offer| (*offer).to_owned()).collect();
    let default_skill = default_skill.map(str::to_owned);
    let (kind, limits, config) = (Kind::Wasm, Limits::default(), Default::default());
    Entry { name: name.to_owned(), path, sha256, kind, version, offers, agents: None, default_skill, config, limits }
}

fn declaration(skills: &[&str]) -> Declaration {
    let skills: Vec<_> = skills.iter().map(|id| format!(r#"{{"id":"{id}","name":"{id}"}}"#)).collect();
    let text = format!(r#"{{"name":"p","version":"1","policy":true,"skills":[{}]}}"#, skills.join(","));
    Declaration::parse(text.as_bytes()).unwrap()
}

fn assemble(parts: &[(&Entry, &[&str])]) -> Result<PluginSet, LoadError> {
    let of = |(entry, skills): &(&'static Entry, &[&str])| {
        (*entry, plugin(&entry.name, Fake::answering("{}")), declaration(skills))
    };
    PluginSet::assemble(
        parts.iter().map(|(entry, skills)| of(&(Box::leak(Box::new((*entry).clone())), skills))).collect(),
    )
}

#[test]
fn only_what_the_owner_lists_is_used_in_the_order_of_the_file() {
    let (a, b) = (entry("a", &["skill:one"], None), entry("b", &["policy", "skill:three"], None));
    let set = assemble(&[(&a, &["one", "two"]), (&b, &["three"])]).unwrap();
    let listed: Vec<_> = set.skills().unwrap().list().into_iter().map(|skill| skill.id).collect();
    assert_eq!(listed, ["one", "three"]);
    assert_eq!(set.policies().iter().map(|policy| policy.name().to_owned()).collect::<Vec<_>>(), ["b"]);
    assert!(assemble(&[(&entry("p", &["policy"], None), &["one"])]).unwrap().skills().is_none());
}

#[test]
fn two_plugins_that_want_the_same_are_refused_by_name() {
    let (a, b) = (entry("a", &["skill:one"], None), entry("b", &["skill:one"], None));
    let twice = assemble(&[(&a, &["one"]), (&b, &["one"])]).err().unwrap();
    assert_eq!(twice.to_string(), "the plugins a and b both have a skill one");
    let (a, b) = (entry("a", &["skill:one"], Some("one")), entry("b", &["skill:two"], Some("two")));
    let twice = assemble(&[(&a, &["one"]), (&b, &["two"])]).err().unwrap();
    assert_eq!(twice.to_string(), "the plugins a and b both have the default skill");
}
