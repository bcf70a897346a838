use muretai_plugins::{
    engine::{CallKind, Engine, Limits, PluginFault},
    native::NativeEngine,
};

use crate::fixture::{LONG, SHORT, engine, host, library};

/// Asks the fixture for one fault, then for something that works.
async fn fault(engine: &NativeEngine, request: &[u8]) -> PluginFault {
    let fault = engine.call(CallKind::Skill, request, LONG).await.unwrap_err();
    assert_eq!(
        engine.call(CallKind::Skill, b"z and now this", LONG).await.unwrap(),
        b"z and now this",
        "after {fault}"
    );
    fault
}

#[tokio::test]
async fn garbage_is_passed_on_for_the_contract_to_refuse() {
    let Some(engine) = engine("moody.c").await else { return };
    assert_eq!(engine.call(CallKind::Skill, b"garbage", LONG).await.unwrap(), b"\xff{garbage");
}

#[tokio::test]
async fn answers_are_at_most_a_mebibyte() {
    let Some(engine) = engine("moody.c").await else { return };
    assert_eq!(engine.call(CallKind::Skill, b"most", LONG).await.unwrap().len(), 1_048_576);
    assert!(matches!(fault(&engine, b"large").await, PluginFault::BadAnswer(text) if text.contains("1048577")));
    assert!(matches!(fault(&engine, b"null").await, PluginFault::BadAnswer(_)));
    let request = vec![b'z'; 1_048_576];
    assert_eq!(engine.call(CallKind::Skill, &request, LONG).await.unwrap(), request);
    let request = vec![b'z'; 1_048_577];
    assert!(matches!(engine.call(CallKind::Skill, &request, LONG).await, Err(PluginFault::Failed(_))));
}

#[tokio::test]
async fn who_sleeps_or_loops_for_ever_is_stopped() {
    let Some(engine) = engine("moody.c").await else { return };
    for request in [&b"sleep"[..], b"busy"] {
        assert_eq!(engine.call(CallKind::Skill, request, SHORT).await, Err(PluginFault::TimedOut(SHORT)));
        assert_eq!(engine.call(CallKind::Skill, b"zzz", LONG).await.unwrap(), b"zzz");
    }
}

#[tokio::test]
async fn whoever_ends_the_process_ends_only_its_own() {
    let Some(engine) = engine("moody.c").await else { return };
    assert_eq!(fault(&engine, b"abort").await, PluginFault::Ended("it aborted".into()));
    assert_eq!(fault(&engine, b"exit").await, PluginFault::Ended("exit code 3".into()));
    let overflow = fault(&engine, b"k: overflow the stack").await;
    assert!(matches!(&overflow, PluginFault::Ended(_)), "{overflow}");
}

#[tokio::test]
async fn who_allocates_without_end_meets_the_limit() {
    let Some(library) = library("moody.c") else { return };
    let limits = Limits { memory_mib: 64, ..Limits::default() };
    let engine = NativeEngine::start(library, b"", limits, &host()).await.unwrap();
    assert_eq!(fault(&engine, b"o: all memory").await, PluginFault::Ended("it aborted".into()));
}

#[tokio::test]
async fn ten_megabytes_on_standard_output_go_nowhere() {
    let Some(engine) = engine("moody.c").await else { return };
    assert_eq!(engine.call(CallKind::Skill, b"write", LONG).await.unwrap(), b"written");
    assert_eq!(engine.call(CallKind::Skill, b"zzz", LONG).await.unwrap(), b"zzz");
}

#[tokio::test]
async fn codes_come_with_their_text_as_one_tame_line() {
    let Some(engine) = engine("moody.c").await else { return };
    assert_eq!(fault(&engine, b"fail").await, PluginFault::Failed("it did  [31mnot work".into()));
    assert_eq!(fault(&engine, b"code").await, PluginFault::Failed("it gave no reason".into()));
}

#[tokio::test]
async fn an_instance_that_panicked_is_replaced_and_not_asked_again() {
    let Some(engine) = engine("moody.c").await else { return };
    let opened = async || String::from_utf8(engine.call(CallKind::Skill, b"x", LONG).await.unwrap()).unwrap();
    assert!(opened().await.ends_with("opened 1"));
    assert_eq!(fault(&engine, b"panic").await, PluginFault::Failed("caught".into()));
    assert!(opened().await.ends_with("opened 2"));
}

#[tokio::test]
async fn an_exception_that_leaves_ends_the_process_and_one_that_is_caught_does_not() {
    let Some(engine) = engine("throws.cc").await else { return };
    assert_eq!(engine.call(CallKind::Skill, b"caught", LONG).await, Err(PluginFault::Failed("kept".into())));
    assert_eq!(engine.call(CallKind::Skill, b"x", LONG).await, Err(PluginFault::Ended("it aborted".into())));
    assert_eq!(engine.call(CallKind::Skill, b"z", LONG).await.unwrap(), b"fine");
}

#[tokio::test]
async fn forged_frames_are_seen() {
    let Some(engine) = engine("moody.c").await else { return };
    assert!(matches!(fault(&engine, b"r").await, PluginFault::BadAnswer(_)));
    assert!(matches!(fault(&engine, b"R").await, PluginFault::BadAnswer(_)));
}
