//! The examples, loaded as their owner would have them loaded.
use std::{fs, process::Command, sync::Arc};

use muretai_plugins::{
    engine::{CallKind, Engine, Limits, PluginFault},
    native::{NativeEngine, describe},
};
use serde_json::{Value, json};

use crate::fixture::{LONG, compiled, compiler, folder, host, rust_example};

async fn open(library: Arc<[u8]>, config: Value) -> Result<NativeEngine, PluginFault> {
    NativeEngine::start(library, config.to_string().as_bytes(), Limits::default(), &host()).await
}

async fn call(engine: &NativeEngine, request: Value) -> Value {
    let answer = engine.call(CallKind::Skill, request.to_string().as_bytes(), LONG).await.unwrap();
    serde_json::from_slice(&answer).unwrap()
}

fn policy(from: &str, contact: &str, domain: Option<&str>) -> Value {
    json!({"op": "policy", "method": "message/send", "from": from, "contact": contact, "introduction": null,
        "domain": domain, "now": 1_750_000_000})
}

#[tokio::test]
async fn the_allow_list_in_c_decides_by_did_and_by_domain() {
    let Some(library) = compiled("examples/allowlist/allowlist.c") else { return };
    let about: Value = serde_json::from_slice(&describe(library.clone(), &host()).await.unwrap()).unwrap();
    assert_eq!((about["name"].as_str(), about["policy"].as_bool()), (Some("allowlist"), Some(true)));
    let config =
        json!({"dids": ["did:key:zNorth"], "domains": ["example.com"], "refuse_code": -32015, "detail": "not \"you\""});
    let engine = open(library.clone(), config).await.unwrap();
    let allow = json!({"decision": "allow"});
    assert_eq!(call(&engine, policy("did:key:zNorth", "none", None)).await, allow);
    assert_eq!(call(&engine, policy("did:key:zEast", "none", Some("example.com"))).await, allow);
    assert_eq!(call(&engine, policy("did:key:zEast", "direct", None)).await, json!({"decision": "pass"}));
    let refusal = json!({"decision": "refuse", "code": -32015, "detail": "not \"you\""});
    for other in [policy("did:key:zEast", "introduced", None), policy("did:key:zNort", "none", Some("com"))] {
        assert_eq!(call(&engine, other).await, refusal);
    }
    assert!(matches!(engine.call(CallKind::Skill, b"{\"op\":\"skill\"}", LONG).await, Err(PluginFault::Failed(_))));
    engine.close().await;
    let nobody = open(library.clone(), json!({})).await.unwrap();
    let refusal = json!({"decision": "refuse", "code": -32010});
    assert_eq!(call(&nobody, policy("did:key:zNorth", "none", None)).await, refusal);
    let long = open(library.clone(), json!({"detail": "é".repeat(201)})).await;
    assert!(matches!(long.err(), Some(PluginFault::Failed(text)) if text.contains("200")));
    open(library.clone(), json!({"detail": "é".repeat(200)})).await.unwrap();
    let misspelt = open(library, json!({"did": []})).await;
    assert!(matches!(misspelt.err(), Some(PluginFault::Failed(text)) if text.contains("other than `dids`")));
}

#[test]
#[cfg(unix)]
fn the_allow_list_in_c_is_built_and_tested_where_it_lies() {
    if compiler("allowlist.c").is_none() || Command::new("make").arg("--version").output().is_err() {
        return;
    }
    let copy = tempfile::tempdir().unwrap();
    let example = copy.path().join("examples/allowlist");
    fs::create_dir_all(&example).unwrap();
    for file in ["muretai_plugin.h", "muretai_json.h", "examples/allowlist/Makefile"]
        .into_iter()
        .chain(["examples/allowlist/allowlist.c", "examples/allowlist/check.c"])
    {
        fs::copy(folder().join(file), copy.path().join(file)).unwrap();
    }
    for goal in ["all", "check", "test"] {
        let mut make = Command::new("make");
        make.current_dir(&example).arg(goal).env_remove("MAKEFLAGS").env_remove("OUT");
        let done = make.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.is_empty(), "make {goal}: {said}");
    }
    assert!(example.join("liballowlist.so").is_file());
}

#[tokio::test]
async fn the_unit_converter_answers_the_examples_that_it_declares() {
    let library = rust_example();
    let about: Value = serde_json::from_slice(&describe(library.clone(), &host()).await.unwrap()).unwrap();
    let skill = &about["skills"][0];
    let examples = skill["examples"].as_array().unwrap();
    assert!(examples.len() >= 3);
    let engine = open(library, json!({"digits": 6})).await.unwrap();
    let ask = async |text: &str| {
        let request = json!({"op": "skill", "skill": skill["id"], "text": text,
            "from": {"did": "did:key:zNorth", "contact": "direct"}, "messageId": "m", "contextId": null, "now": 1});
        call(&engine, request).await
    };
    for example in examples {
        let answer = ask(example.as_str().unwrap()).await;
        assert!(answer["text"].as_str().is_some_and(|text| !text.is_empty()), "{example}: {answer}");
    }
    assert_eq!(ask("5 km in mi").await, json!({"text": "5 km ≈ 3.10686 mi"}));
    assert!(ask("5 km in kg").await["error"].as_str().unwrap().contains("nothing in common"));
    assert_eq!(
        ask("help").await["commands"][0],
        json!({"keyword": "units", "label": "Convert", "params": "5 km in mi"})
    );
}
