//! The order of the gate, with policies of plugins around it.
use async_trait::async_trait;

use super::*;
use crate::receive::testing::{agent_in, key};
use muretai_protocol::{
    introduction::{self, IntroductionSpec},
    json,
    sign::SigningKey,
};
use muretai_store::contacts::{CoordinateSource, Coordinates, Introduce};
use std::sync::Mutex;

struct World {
    agent: Agent,
    _folder: tempfile::TempDir,
}

async fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    World { agent: agent_in(folder.path()).await, _folder: folder }
}

/// A policy that says one thing and keeps what it was told.
struct Fixed(Decision, Mutex<Vec<Applicant>>);

#[async_trait]
impl TrustPolicy for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }
    async fn decide(&self, applicant: &Applicant) -> Decision {
        self.1.lock().unwrap().push(applicant.clone());
        self.0.clone()
    }
}

fn fixed(decision: Decision) -> Arc<Fixed> {
    Arc::new(Fixed(decision, Mutex::default()))
}

fn refusal() -> Refusal {
    plain(Code::NoTrustLayer, "not today")
}

const DIRECT: Standing = Standing { handled: None, is_direct: true, is_introduced: false, is_blocked: false };
const STRANGER: Standing = Standing { is_direct: false, ..DIRECT };
const BLOCKED: Standing = Standing { is_blocked: true, ..DIRECT };

impl World {
    fn gate(&self, is_open: bool, plugins: &[Arc<Fixed>]) -> Gate {
        let plugins = plugins.iter().map(|plugin| Arc::clone(plugin) as Arc<dyn TrustPolicy>).collect();
        Gate::new(&self.agent, is_open, plugins)
    }

    async fn befriend(&self, key: &SigningKey) {
        let who = Introduce {
            did: key.did().clone(),
            peer_name: None,
            own_name: None,
            coordinates: Coordinates::default(),
            source: CoordinateSource::Owner,
            allow_private: false,
            now: crate::agent::now(),
        };
        self.agent.store().connect(&who).await.unwrap();
    }

    fn vc(&self, issuer: &SigningKey) -> Value {
        let (now, subject) = (crate::agent::now(), key(1));
        let spec = IntroductionSpec {
            id: [7; 16],
            subject: subject.did(),
            target: self.agent.did(),
            expertise: &[],
            trust_level_bp: 850,
            issued: now,
            valid_until: UnixSeconds(now.0 + 60),
            request: None,
            issuer_endpoint: None,
        };
        introduction::mint(issuer, &spec).unwrap()
    }
}

async fn judge(gate: &Gate, standing: Standing, vc: Option<&Value>) -> Result<String, i64> {
    let (did, now) = (key(1).did().clone(), crate::agent::now());
    let sender = Sender { did: &did, standing: &standing, vc, method: "message/send", now };
    match gate.judge(&sender).await {
        Ok(Verdict::Admitted(state)) => Ok(format!("{state:?}")),
        Ok(Verdict::Vouched(_)) => Ok("vouched".to_owned()),
        Ok(Verdict::Held(introduction)) => Ok(format!("held {}", introduction.is_some())),
        Err(refusal) => Err(refusal.code.number()),
    }
}

#[tokio::test]
async fn blocked_comes_before_direct_and_direct_before_strangers() {
    let world = world().await;
    let required = Err(-32010);
    for (is_open, stranger) in [(false, required.clone()), (true, Ok("None".to_owned()))] {
        let gate = world.gate(is_open, &[]);
        assert_eq!(judge(&gate, DIRECT, None).await, Ok("Direct".to_owned()));
        assert_eq!(judge(&gate, STRANGER, None).await, stranger);
        assert_eq!(judge(&gate, BLOCKED, None).await, required);
        assert_eq!(judge(&gate, Standing { is_blocked: true, ..STRANGER }, None).await, required);
    }
}

#[tokio::test]
async fn plugins_come_first_and_the_first_that_decides_has_decided() {
    let world = world().await;
    for (is_open, standing) in [(false, DIRECT), (false, STRANGER), (true, STRANGER)] {
        let plugins = [fixed(Decision::Pass), fixed(Decision::Refuse(refusal())), fixed(Decision::Admit)];
        assert_eq!(judge(&world.gate(is_open, &plugins), standing, None).await, Err(-32016));
        assert!(plugins[2].1.lock().unwrap().is_empty(), "it was not asked");
        let held = world.gate(is_open, &[fixed(Decision::Hold), fixed(Decision::Admit)]);
        assert_eq!(judge(&held, standing, None).await, Ok("held false".to_owned()));
    }
    let admitting = world.gate(false, &[fixed(Decision::Admit)]);
    assert_eq!(judge(&admitting, STRANGER, None).await, Ok("None".to_owned()));
    assert_eq!(judge(&world.gate(false, &[fixed(Decision::Pass)]), STRANGER, None).await, Err(-32010));
}

#[tokio::test]
async fn a_block_does_not_show_to_plugins_and_no_plugin_lifts_it() {
    let world = world().await;
    world.befriend(&key(2)).await;
    for decision in [Decision::Admit, Decision::Hold, Decision::Pass] {
        let policy = fixed(decision);
        let gate = world.gate(true, &[Arc::clone(&policy)]);
        assert_eq!(judge(&gate, BLOCKED, None).await, Err(-32010));
        let asked = policy.1.lock().unwrap().pop().unwrap();
        assert_eq!((asked.contact, asked.did), (ContactState::None, key(1).did().clone()));
    }
    let refusing = world.gate(true, &[fixed(Decision::Refuse(refusal()))]);
    assert_eq!(judge(&refusing, BLOCKED, None).await, Err(-32016), "what a stranger would hear");
    // A credential is judged as a stranger's is, but for what would let it in.
    let gate = world.gate(false, &[]);
    assert_eq!(judge(&gate, BLOCKED, Some(&json!({"id": "x"}))).await, Err(-32011));
    assert_eq!(judge(&gate, BLOCKED, Some(&world.vc(&key(3)))).await, Err(-32013));
    assert_eq!(judge(&gate, BLOCKED, Some(&world.vc(&key(2)))).await, Err(-32010));
}

#[tokio::test]
async fn plugins_are_told_verified_facts_alone() {
    let world = world().await;
    world.befriend(&key(2)).await;
    let policy = fixed(Decision::Pass);
    let gate = world.gate(false, &[Arc::clone(&policy)]);
    let mut forged = world.vc(&key(2));
    crate::receive::testing::at(&mut forged, &["credentialSubject"]).insert("trustLevelBp".to_owned(), 1000.into());
    for (standing, vc, expected, facts) in [
        (STRANGER, forged, Err(-32011), None),
        (STRANGER, world.vc(&key(3)), Err(-32013), Some(false)),
        (STRANGER, world.vc(&key(2)), Ok("held true".to_owned()), Some(true)),
        (DIRECT, world.vc(&key(2)), Ok("Direct".to_owned()), None),
    ] {
        assert_eq!(judge(&gate, standing, Some(&vc)).await, expected);
        let told = policy.1.lock().unwrap().pop().unwrap().introduction;
        assert_eq!(told.as_ref().map(|facts| facts.is_issuer_direct), facts);
        assert!(told.is_none_or(|facts| !facts.is_accepted && facts.trust_level_bp == Some(850)));
    }
}

#[tokio::test]
async fn an_open_door_does_not_care_what_strangers_present() {
    let world = world().await;
    let gate = world.gate(true, &[]);
    for vc in [json!("x"), json!({}), world.vc(&key(3))] {
        assert_eq!(judge(&gate, STRANGER, Some(&vc)).await, Ok("None".to_owned()));
    }
}

#[tokio::test]
async fn a_domain_can_be_asked_of_everybody_but_contacts() {
    let world = world().await;
    world.agent.set_policy("domain", "required").await.unwrap();
    for is_open in [false, true] {
        let gate = world.gate(is_open, &[]);
        assert_eq!(judge(&gate, DIRECT, None).await, Ok("Direct".to_owned()));
        assert_eq!(judge(&gate, STRANGER, None).await, Err(-32015));
        assert_eq!(judge(&gate, BLOCKED, None).await, Err(-32015));
    }
    let now = crate::agent::now();
    let row = |verified| muretai_store::domains::DomainRow {
        did: key(1).did().clone(),
        domain: "north.example".to_owned(),
        verified,
    };
    world.agent.store().record_domain(&row(UnixSeconds(now.0 - DOMAIN_LIFE_SECS - 60))).await.unwrap();
    assert_eq!(judge(&world.gate(true, &[]), STRANGER, None).await, Err(-32015), "too long ago");
    world.agent.store().record_domain(&row(now)).await.unwrap();
    assert_eq!(judge(&world.gate(true, &[]), STRANGER, None).await, Ok("None".to_owned()));
    assert_eq!(judge(&world.gate(false, &[]), STRANGER, None).await, Err(-32010));
}

#[tokio::test]
async fn the_policy_that_refused_is_known_to_whoever_keeps_the_log() {
    let world = world().await;
    let gate = world.gate(false, &[fixed(Decision::Pass), fixed(Decision::Refuse(refusal()))]);
    let (verdict, policy) = verdicts::noted(judge(&gate, STRANGER, None)).await;
    assert_eq!((verdict, policy.as_deref()), (Err(-32016), Some("fixed")));
    let gate = world.gate(false, &[fixed(Decision::Pass)]);
    let (verdict, policy) = verdicts::noted(judge(&gate, STRANGER, None)).await;
    assert_eq!((verdict, policy), (Err(-32010), None), "the gate itself is no plugin");
}
