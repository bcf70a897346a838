use std::{fs, sync::Arc};

use muretai_plugins::{
    engine::{CallKind, Engine, Limits, PluginFault},
    native::NativeEngine,
};

use crate::bounds::gone;
use crate::fixture::{LONG, SHORT, engine, host, library};

async fn pid(engine: &NativeEngine) -> String {
    String::from_utf8(engine.call(CallKind::Skill, b"i", LONG).await.unwrap()).unwrap()
}

#[tokio::test]
async fn one_process_answers_calls_that_follow_each_other() {
    let Some(engine) = engine("moody.c").await else { return };
    let first = pid(&engine).await;
    for _ in 0..20 {
        assert_eq!(pid(&engine).await, first);
    }
}

#[tokio::test]
async fn a_policy_shares_no_process_with_skills() {
    let Some(engine) = engine("moody.c").await else { return };
    let of = async |kind| engine.call(kind, b"i", LONG).await.unwrap();
    let (skill, policy) = (of(CallKind::Skill).await, of(CallKind::Policy).await);
    assert_ne!(skill, policy);
    for _ in 0..10 {
        assert_eq!((of(CallKind::Policy).await, of(CallKind::Skill).await), (policy.clone(), skill.clone()));
    }
}

/// A call that is dropped while it waits for the answer.
async fn ask_and_drop(engine: &NativeEngine) {
    tokio::select! {
        biased;
        answer = engine.call(CallKind::Skill, b"sleep", LONG) => panic!("{answer:?}"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn a_call_that_was_dropped_leaves_no_answer_for_the_next() {
    let Some(engine) = engine("moody.c").await else { return };
    let first = pid(&engine).await;
    ask_and_drop(&engine).await;
    assert_ne!(pid(&engine).await, first);
    assert_eq!(engine.call(CallKind::Skill, b"zzz", LONG).await.unwrap(), b"zzz");
}

#[tokio::test]
async fn calls_that_were_dropped_do_not_bring_it_to_rest() {
    let Some(engine) = engine("moody.c").await else { return };
    for _ in 0..8 {
        ask_and_drop(&engine).await;
    }
    assert_eq!(engine.call(CallKind::Skill, b"zzz", LONG).await.unwrap(), b"zzz");
}

#[tokio::test]
async fn a_plugin_that_ends_too_often_rests() {
    let Some(engine) = engine("moody.c").await else { return };
    for _ in 0..6 {
        assert_eq!(engine.call(CallKind::Skill, b"exit", LONG).await, Err(PluginFault::Ended("exit code 3".into())));
    }
    assert_eq!(engine.call(CallKind::Skill, b"zzz", LONG).await, Err(PluginFault::Resting));
    // What skills do is not held against the policy.
    assert_eq!(engine.call(CallKind::Policy, b"zzz", LONG).await.unwrap(), b"zzz");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_at_the_same_time_have_a_process_each_up_to_the_limit() {
    let Some(library) = library("moody.c") else { return };
    let limits = Limits { max_running: 2, ..Limits::default() };
    let engine = Arc::new(NativeEngine::start(library, b"", limits, &host()).await.unwrap());
    let sleepers: Vec<_> = (0..2)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.call(CallKind::Skill, b"sleep", LONG).await })
        })
        .collect();
    // Both lanes are taken once a call finds none.
    while engine.call(CallKind::Skill, b"zzz", SHORT).await.is_ok() {
        tokio::task::yield_now().await;
    }
    // A policy has a lane of its own.
    assert_eq!(engine.call(CallKind::Policy, b"zzz", LONG).await.unwrap(), b"zzz");
    for sleeper in sleepers {
        sleeper.abort();
        assert!(sleeper.await.unwrap_err().is_cancelled());
    }
    assert_eq!(engine.call(CallKind::Skill, b"zzz", LONG).await.unwrap(), b"zzz");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_never_go_to_another_call() {
    let Some(engine) = engine("moody.c").await else { return };
    let engine = Arc::new(engine);
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for i in 0..200 {
                    let request = format!("z{caller}-{i}{}", "y".repeat(i * 97 % 5000));
                    assert_eq!(
                        engine.call(CallKind::Skill, request.as_bytes(), LONG).await.unwrap(),
                        request.as_bytes()
                    );
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_ended_meanwhile_is_replaced_unnoticed() {
    use rustix::process::{Pid, Signal, kill_process};
    let Some(engine) = engine("moody.c").await else { return };
    let first = pid(&engine).await;
    kill_process(Pid::from_raw(first.parse().unwrap()).unwrap(), Signal::TERM).unwrap();
    gone(&first).await;
    assert_ne!(pid(&engine).await, first);
}

#[tokio::test]
async fn closing_lets_the_plugin_close_its_instance() {
    let Some(library) = library("moody.c") else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = file.path().to_str().unwrap().as_bytes().to_vec();
    let engine = NativeEngine::start(library, &config, Limits::default(), &host()).await.unwrap();
    engine.call(CallKind::Skill, b"zzz", LONG).await.unwrap();
    engine.close().await;
    assert_eq!(fs::read(file.path()).unwrap(), b"x");
    assert!(matches!(engine.call(CallKind::Skill, b"zzz", LONG).await, Err(PluginFault::Unavailable(_))));
}
