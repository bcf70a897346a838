//! A plugin that has skills and a policy: whatever the skills do, the policy decides.
use std::{fs, path::Path, sync::Arc};

use muretai_plugins::{
    Applicant, ContactState, Decision, Response, Skills,
    manifest::{Entry, Kind, Manifest, PluginFile},
    set::PluginSet,
};
use muretai_protocol::{
    UnixSeconds,
    json::Object,
    message::{self, Draft, Message, MessageId, Role, Verified},
    sign::{Seed, SigningKey},
};

use crate::fixture::{host, library};

const NOW: UnixSeconds = UnixSeconds(1_784_273_700);

fn message(text: &str) -> Verified {
    let key = SigningKey::from_seed(&Seed::from_bytes([7; 32]));
    let to = key.did();
    let message_id = MessageId::new("m1").unwrap();
    let (role, to, context_id) = (Role::User, to.as_str(), Some("c1"));
    let draft = Draft { role, to, message_id: &message_id, context_id, text, timestamp: NOW, extra: Object::new() };
    let signed = message::sign(&key, &draft);
    Message::from_value(signed).unwrap().into_envelope().unwrap().verify(NOW).unwrap()
}

async fn set(folder: &Path, library: &[u8]) -> PluginSet {
    let path = folder.join("both.so");
    fs::write(&path, library).unwrap();
    fs::write(folder.join("asleep"), b"").unwrap();
    let mut config = Object::new();
    config.insert("f".to_owned(), folder.join("asleep").to_str().unwrap().into());
    let entry = Entry {
        name: "both".to_owned(),
        sha256: PluginFile::read(&path).unwrap().sha256,
        path,
        kind: Kind::Native,
        version: "1".to_owned(),
        offers: vec!["policy".to_owned(), "skill:work".to_owned()],
        agents: None,
        default_skill: None,
        config,
        limits: Default::default(),
    };
    PluginSet::load(&Manifest { plugins: vec![entry] }, "north", &host()).await.unwrap()
}

async fn ask(skills: &Arc<dyn Skills>, text: &str) -> Response {
    skills.respond(&message(text), ContactState::None).await.unwrap()
}

async fn decision(set: &PluginSet) -> Decision {
    let did = SigningKey::from_seed(&Seed::from_bytes([8; 32])).did().clone();
    let contact = ContactState::Direct;
    let applicant = Applicant { did, contact, introduction: None, domain: None, method: "message/send", now: NOW };
    set.policies()[0].decide(&applicant).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn skills_that_sleep_keep_no_policy_waiting() {
    let Some(library) = library("both.c") else { return };
    let folder = tempfile::tempdir().unwrap();
    let set = set(folder.path(), &library).await;
    let skills = set.skills().unwrap();
    let sleepers: Vec<_> = (0..8)
        .map(|_| {
            let skills = skills.clone();
            tokio::spawn(async move { ask(&skills, "work sleep now").await })
        })
        .collect();
    // As many as may run at the same time.
    while fs::read(folder.path().join("asleep")).unwrap().len() < 4 {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        assert_eq!(decision(&set).await, Decision::Pass);
    }
    for sleeper in sleepers {
        sleeper.abort();
    }
}

#[tokio::test]
async fn skills_that_end_their_process_put_no_policy_to_rest() {
    let Some(library) = library("both.c") else { return };
    let folder = tempfile::tempdir().unwrap();
    let set = set(folder.path(), &library).await;
    let skills = set.skills().unwrap();
    for _ in 0..12 {
        assert_eq!(ask(&skills, "work exit now").await.status, Some("no-answer"));
        assert_eq!(decision(&set).await, Decision::Pass);
    }
    // The skill rests.
    assert_eq!(ask(&skills, "work").await.status, Some("no-answer"));
}
